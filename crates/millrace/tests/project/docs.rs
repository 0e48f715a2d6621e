// SPDX-License-Identifier: BSD-3-Clause
//! Compares the documents with the program: all options, keys, members and reasons are in both. The
//! program's are read from its own output.

use engine::{Anomaly, EndReason, ProtoState, UntrackedReason};
use report::summary::StageCycles;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::scratch::ScratchFile;
use traffic::PcapWriter;
use wire::FrameBuilder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn millrace(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(args).output().expect("the program was built for this test")
}

fn stdout(args: &[&str]) -> String {
    let output = millrace(args);
    assert!(output.status.success(), "millrace {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Writes a file of one test, removed on drop.
fn scratch(name: &str, contents: impl AsRef<[u8]>) -> ScratchFile {
    ScratchFile::new(env!("CARGO_TARGET_TMPDIR"), name, contents)
}

/// A row of a table, with the heading of its section.
struct Row {
    heading: String,
    cells: Vec<String>,
}

/// Returns the rows of all tables of a document, without the column headings.
fn rows(document: &str) -> Vec<Row> {
    let text = read(document);
    let (mut heading, mut rows, mut in_table) = (String::new(), Vec::new(), false);
    for line in text.lines() {
        if let Some(text) = line.strip_prefix("##") {
            heading = text.trim_start_matches('#').trim().replace('`', "");
        }
        in_table = line.starts_with('|') && (in_table || line.starts_with("|--"));
        if in_table && !line.starts_with("|--") {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            rows.push(Row { heading: heading.clone(), cells: cells.collect() });
        }
    }
    assert!(!rows.is_empty(), "{document} has no tables");
    rows
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fails if the sets differ; the message lists the elements that only one of them has.
fn assert_same(what: &str, documented: &BTreeSet<String>, real: &BTreeSet<String>) {
    let invented: Vec<_> = documented.difference(real).collect();
    let missing: Vec<_> = real.difference(documented).collect();
    assert!(
        invented.is_empty() && missing.is_empty(),
        "{what}: not in the program: {invented:?}; not documented: {missing:?}"
    );
}

/// Returns all subcommands; those of a group as `nic flow`.
fn subcommands() -> Vec<String> {
    fn below(group: &[&str], found: &mut Vec<String>) {
        let help = stdout(&[group, &["--help"]].concat());
        let Some((_, list)) = help.split_once("Commands:\n") else {
            return found.push(group.join(" "));
        };
        let lines = list.lines().take_while(|line| !line.is_empty());
        // A continued line has a deeper indent.
        for line in lines.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap().trim_end_matches(',');
            // The document says once that each group has it.
            if name != "help" {
                below(&[group, &[name]].concat(), found);
            }
        }
    }
    let mut found = Vec::new();
    below(&[], &mut found);
    found
}

/// Returns the long options of a subcommand with the names of their values, such as `--top N`.
fn options(subcommand: &str) -> BTreeSet<String> {
    let words: Vec<&str> = subcommand.split(' ').chain(["--help"]).collect();
    let help = stdout(&words);
    let lines = help.lines().map(str::trim).filter(|line| line.starts_with('-'));
    let words = lines.map(|line| line.split_whitespace().skip_while(|w| !w.starts_with("--")));
    let options = words.filter_map(|mut words| {
        let name = words.next()?;
        let value = words.next().and_then(|word| word.strip_prefix('<')?.strip_suffix('>'));
        Some(value.map_or(name.to_owned(), |value| format!("{name} {value}")))
    });
    // The document says once that each command has these.
    let of_all = ["--help", "--version", "--raw"];
    options.filter(|option| !of_all.contains(&option.as_str())).collect()
}

#[test]
fn every_option_is_documented() {
    let rows = rows("docs/commands.md");
    for subcommand in subcommands() {
        let heading = format!("millrace {subcommand}");
        let own = rows.iter().filter(|row| row.heading == heading);
        let named = own.flat_map(|row| quoted(&row.cells[0]));
        let documented = named.filter(|option| option.starts_with("--")).collect();
        assert_same(&heading, &documented, &options(&subcommand));
    }
}

/// Returns the command lines of a document: those behind a prompt, indented, or between backticks.
fn command_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        let shown = line.strip_prefix(if in_block { "$ " } else { "    " });
        if line.starts_with("```") {
            in_block = !in_block;
        } else if let Some(shown) = shown {
            lines.extend(shown.split('|').map(|command| command.trim().to_owned()));
        } else if !in_block {
            lines.extend(quoted(line));
        }
    }
    lines
}

#[test]
fn every_command_line_is_one_of_the_program() {
    let subcommands = subcommands();
    let targets: Vec<String> = read("Makefile")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("## ")?.split_once(':')?.0.to_owned()))
        .collect();
    let mut wrong = Vec::new();
    for document in documents() {
        for line in command_lines(&read(&document)) {
            let words: Vec<&str> = line.trim_start_matches("sudo ").split_whitespace().collect();
            let good = match words[..] {
                ["make", target, ..] => targets.iter().any(|known| known == target),
                ["millrace", ref rest @ ..]
                    if !rest.is_empty()
                        && rest[0].bytes().all(|byte| byte.is_ascii_lowercase()) =>
                {
                    let begins = |known: &&String| {
                        known.split(' ').zip(rest).all(|(known, word)| known == *word)
                    };
                    let known = subcommands.iter().find(begins);
                    let options = known.map_or(BTreeSet::new(), |known| options(known));
                    let names: BTreeSet<_> = options.iter().map(|o| o.split(' ').next()).collect();
                    let mut flags = rest.iter().filter(|word| word.starts_with("--"));
                    known.is_some() && flags.all(|flag| names.contains(&Some(*flag)))
                }
                _ => true,
            };
            if !good {
                wrong.push(format!("{document}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn documents() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs")).unwrap().flatten();
    let names = entries.map(|entry| format!("docs/{}", entry.file_name().to_str().unwrap()));
    let pages = names.filter(|name| name.ends_with(".md"));
    pages.chain(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned)).collect()
}

const PAIR: &str = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n";

/// Returns the keys of a plan with their sections and defaults, in the form of the documents.
fn planned_keys() -> BTreeSet<String> {
    let zones = "[[timeout_policy]]\nname = \"x\"\n[[zone]]\nids = [1]\n";
    let all = planned_keys_of(&format!("{PAIR}zone = 7\ntracking = \"off\"\nmtu = 1500\n{zones}"));
    // A separate plan, because `labels = true` is not the default.
    let marks = "[table]\nlabels = true\n\
         [[mark]]\nzone = 1\nproto = \"tcp\"\nsrc = \"::1\"\ndst = \"::1\"\naddress = \"::1\"\n\
         sport = 1\ndport = 1\nport = 1\nset_mark = \"1\"\nset_label = \"1\"\n\
         [[zone_rule]]\nfrom = 1\nproto = \"tcp\"\naddress = \"::1\"\nport = 1\n\
         peer_address = \"::1\"\npeer_port = 1\nzone = 1\n";
    let others = planned_keys_of(&format!("{PAIR}{marks}")).into_iter();
    let is_other = |key: &String| key.starts_with("[[mark]]") || key.starts_with("[[zone_rule]]");
    let lists = "[[set]]\nname = \"s\"\nnetworks = [\"::1\"]\nfile = \"/dev/null\"\n\
         [[list]]\nname = \"l\"\npair = 0\nport = \"a\"\nrules = \"\"\nfile = \"/dev/null\"\n\
         [[list.rule]]\naction = \"deny\"\nfamily = \"ipv6\"\nsrc = \"::1\"\ndst = \"::1\"\n\
         proto = \"tcp\"\nsport = 1\ndport = 1\ntcp_flags = \"syn\"\nfragment = \"none\"\n\
         zone = 1\nct = \"new\"\nmark = \"1\"\nlog = true\nno_offload = false\n\
         [[list.rule]]\naction = \"deny\"\nproto = \"icmp\"\nicmp_type = 8\nicmp_code = 0\n\
         [[list.rule]]\naction = \"permit\"\nset_mark = \"1\"\nset_label = \"1\"\n\
         [table]\nlabels = true\n";
    let new_from = planned_keys_of(&format!("{PAIR}[acl]\nnew_from = \"a\"\n"));
    let frames = "[[list]]\nname = \"f\"\nkind = \"ethernet\"\n[[list.rule]]\naction = \"deny\"\n\
         ether_type = \"arp\"\nsrc_mac = \"any\"\ndst_mac = \"any\"\n";
    let mut of_frames = planned_keys_of(&format!("{PAIR}{frames}"));
    of_frames.retain(|key| key.starts_with("[[list.rule]]"));
    let of_lists = planned_keys_of(&format!("{PAIR}{lists}")).into_iter();
    let of_lists = of_lists.chain(new_from).chain(of_frames);
    let is_of_lists = |key: &String| {
        ["[acl]", "[[set]]", "[[list"].iter().any(|section| key.starts_with(section))
    };
    let others = others.filter(is_other).chain(of_lists.filter(is_of_lists));
    all.into_iter().chain(others).collect()
}

fn planned_keys_of(text: &str) -> BTreeSet<String> {
    let plan = scratch("plan.toml", text);
    let text = stdout(&["check", plan.path()]);
    let mut section = "";
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, rest)) = line.split_once(" = ") {
            let default = match rest.rsplit_once("# ") {
                Some((value, "default")) => format!("`{}`", value.trim()),
                Some((_, origin)) => origin.to_owned(),
                // These optional keys have no default.
                None if section == "[[pair]]" && ["zone", "tracking", "mtu"].contains(&key) => {
                    "none".to_owned()
                }
                None if section == "[[mark]]" => "none".to_owned(),
                None if section == "[acl]" => "none".to_owned(),
                None if ["[[set]]", "[[list]]"].contains(&section) && key != "name" => {
                    "none".to_owned()
                }
                None if section == "[[list.rule]]" && key != "action" => "none".to_owned(),
                None if section == "[[zone_rule]]" && key != "zone" => "none".to_owned(),
                None => "required".to_owned(),
            };
            // The other keys of a timeout policy are those of [timeouts].
            if section != "[[timeout_policy]]" || key == "name" {
                keys.insert(format!("{section} {key}: {default}"));
            }
        }
    }
    keys
}

#[test]
fn every_key_is_documented_with_its_default() {
    let rows = rows("docs/configuration.md");
    let keys = rows.iter().filter(|row| row.heading.starts_with('[')).flat_map(|row| {
        let default = row.cells[2].split(':').next().unwrap();
        quoted(&row.cells[0])
            .into_iter()
            .map(move |key| format!("{} {key}: {default}", row.heading))
    });
    assert_same("keys", &keys.collect(), &planned_keys());
}

#[test]
fn every_range_is_the_one_that_is_checked() {
    for row in rows("docs/configuration.md").iter().filter(|row| row.heading.starts_with('[')) {
        let key = row.cells[0].trim_matches('`');
        let wrong = if row.cells[1].starts_with("list of whole") { "[-1]" } else { "-1" };
        let text = match row.heading.as_str() {
            "[[pair]]" => format!("{PAIR}{key} = {wrong}\n"),
            "[[zone]]" if key != "ids" => format!("{PAIR}[[zone]]\nids = [1]\n{key} = {wrong}\n"),
            "[[mark]]" if key != "set_mark" => {
                format!("{PAIR}[[mark]]\nset_mark = \"1\"\n{key} = {wrong}\n")
            }
            section => format!("{PAIR}{section}\n{key} = {wrong}\n"),
        };
        let config = scratch("range.toml", text);
        let output = millrace(&["check", config.path()]);
        let message = String::from_utf8(output.stderr).unwrap();
        let after = |mark: &str| message.split_once(mark).map(|(_, rest)| rest.trim());
        let real = match (after("must be "), after("allowed: ")) {
            (_, Some(choices)) => {
                let choices: Vec<_> = choices.split(", ").map(|c| format!("`{c}`")).collect();
                choices.join(", ")
            }
            (Some(range), None) if message.contains("out of range") => range.to_owned(),
            // A key for a string, which has no range.
            _ => continue,
        };
        assert_eq!(row.cells[3], real, "{} {key}", row.heading);
    }
}

#[test]
fn every_reason_is_documented() {
    let class = |reason: UntrackedReason| match reason {
        UntrackedReason::TableFull
        | UntrackedReason::ZoneFull
        | UntrackedReason::SourceFull
        | UntrackedReason::NewRate => "full",
        UntrackedReason::Invalid | UntrackedReason::Unrelated => "invalid",
        UntrackedReason::Denied => "denied",
        reason if reason.is_malformed() => "malformed",
        reason if reason.is_odd_fragment() => "odd fragment",
        _ => "passed",
    };
    let real = UntrackedReason::ALL.map(|r| format!("`{}`, {}, {}", r.name(), r.doc(), class(r)));
    let rows = rows("docs/operating.md");
    let reasons = rows.iter().filter(|row| row.heading == "Reasons");
    let documented: BTreeSet<String> = reasons.map(|row| row.cells.join(", ")).collect();
    // The summary test below checks the reasons that are not the engine's.
    let others = ["`tx_full`", "`port_reset`", "`over_mtu`", "`cut`", "`link_type`"];
    let of_the_engine = documented.iter().filter(|row| !others.iter().any(|o| row.starts_with(o)));
    let of_the_engine: BTreeSet<String> = of_the_engine.cloned().collect();
    assert_eq!(of_the_engine.len() + others.len(), documented.len());
    assert_same("reasons", &of_the_engine, &real.into_iter().collect());
}

#[test]
fn every_anomaly_is_documented() {
    let rows = rows("docs/operating.md");
    let rows = rows.iter().filter(|row| row.heading == "Anomalies");
    let documented = rows.map(|row| row.cells[..2].join(" ")).collect();
    let class = |reason: Anomaly| if reason.is_invalid() { "invalid" } else { "ignored" };
    let real = Anomaly::ALL.map(|reason| format!("`{}` {}", reason.name(), class(reason)));
    assert_same("anomalies", &documented, &real.into_iter().collect());
}

#[test]
fn every_state_and_every_end_of_connections_is_documented() {
    let names = |document, heading: &str, named_by: fn(&str) -> bool| -> BTreeSet<String> {
        let rows = rows(document).into_iter().filter(|row| row.heading == heading);
        let names = rows.flat_map(|row| quoted(&row.cells[0])).filter(|name| named_by(name));
        names.collect()
    };
    let real = ProtoState::ALL.map(|progress| progress.name().to_owned());
    let documented = names("docs/control.md", "States of connections", |_| true);
    assert_same("states", &documented, &real.into_iter().collect());
    let is_end = |name: &str| EndReason::ALL.iter().any(|reason| reason.name() == name);
    let documented = names("docs/flow-records.md", "Members", is_end);
    let real = EndReason::ALL.map(|reason| reason.name().to_owned());
    assert_same("ends", &documented, &real.into_iter().collect());
}

#[test]
fn the_stages_that_are_shown_add_up_to_the_cycles_per_packet() {
    let text = read("docs/demo.md");
    let rows = [
        ("stateful", "flows", &["off", "marks"][..]),
        ("stateless", "flows", &["off", "marks", "bypass"]),
        ("small TCP", "flows", &["off", "marks", "bypass"]),
        ("TCP connections", "connections", &["off", "marks", "bypass"]),
        ("long TCP", "connections", &["off", "marks", "bypass"]),
        ("many flows", "flows", &["off", "marks"]),
    ];
    let rows = rows.into_iter().flat_map(|(load, tracking, modes)| {
        let begins = move |mode: &&str| {
            [format!("{load:<15} {tracking:<11} {mode:<6} "), format!("{load:<15} {mode:<6} ")]
        };
        modes.iter().map(begins)
    });
    for begins in rows {
        let row = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
        let [measured, stages] =
            begins.map(|begin| row(&begin).unwrap_or_else(|| panic!("no row {begin}")));
        // Up, down, cpu and Mpps precede it.
        let cycles: f64 = measured.split_whitespace().nth(4).unwrap().parse().unwrap();
        let sum: f64 = stages.split_whitespace().map(|word| word.parse::<f64>().unwrap()).sum();
        // Each figure is rounded to a tenth.
        let tolerance = 0.01 * cycles + 0.3;
        assert!((sum - cycles).abs() < tolerance, "{sum} of {cycles}: {stages}");
    }
}

/// The drawing is made by hand, so nothing else holds its words to those of the summary.
#[test]
fn the_stages_in_the_drawing_of_the_ways_are_members_of_stage_cycles() {
    let drawing = read("docs/drawings/ways.svg");
    let groups = drawing.lines().filter_map(|line| line.split_once("<g class=\"stage\">"));
    let word = |(_, group): (&str, &str)| {
        let (text, _) = group.split_once("</text>").unwrap();
        text.rsplit_once('>').unwrap().1.to_owned()
    };
    let drawn: BTreeSet<String> = groups.map(word).collect();
    assert!(drawn.len() >= 6, "{drawn:?}");
    let members = serde_json::to_value(StageCycles::default()).unwrap();
    let is_member = |stage: &&String| members.get(stage.as_str()).is_some();
    assert_eq!(drawn.iter().find(|stage| !is_member(stage)), None);
}

/// Adds the paths of all members, such as `ports[].name` and `drops.REASON`.
fn members(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object)
            if ["drops", "passed", "invalid", "ignored", "flows.ended"].contains(&prefix) =>
        {
            assert!(!object.is_empty());
            found.insert(format!("{prefix}.REASON"));
        }
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                let dot = if prefix.is_empty() { "" } else { "." };
                members(&format!("{prefix}{dot}{name}"), value, found);
            }
        }
        Value::Array(elements) => {
            found.insert(format!("{prefix}[]"));
            elements.iter().for_each(|element| members(&format!("{prefix}[]"), element, found));
        }
        _ => {
            found.insert(prefix.to_owned());
        }
    }
}

#[test]
fn every_member_of_the_summary_is_documented() {
    let run = ["run", "--pair", "net_null0,net_null1", "--duration", "0.1", "--json", "-"];
    let run: Value = serde_json::from_str(&stdout(&run)).unwrap();
    let capture = scratch("empty.pcap", example());
    let replay = stdout(&["replay", "--json", "-", capture.path()]);
    let replay: Value = serde_json::from_str(&replay).unwrap();
    let mut real = BTreeSet::new();
    members("", &run, &mut real);
    members("", &replay, &mut real);
    let rows_of = |document, heading: &str| {
        let rows = rows(document).into_iter().filter(move |row| row.heading == heading);
        rows.flat_map(|row| quoted(&row.cells[0])).collect::<BTreeSet<String>>()
    };
    assert_same("summary", &rows_of("docs/summary.md", "The JSON summary"), &real);

    let names = |counts: &Value| counts.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let counts = [&run["drops"], &run["passed"], &replay["drops"], &replay["passed"]];
    let reasons = counts.into_iter().flat_map(names).collect();
    assert_same("reasons", &rows_of("docs/operating.md", "Reasons"), &reasons);
}

/// Returns the capture whose records docs/flow-records.md shows.
fn example() -> Vec<u8> {
    const SECOND: u64 = 1_000_000_000;
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const PSH_ACK: u8 = 24;
    const FIN_ACK: u8 = 17;
    let question = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 53]).udp(40_000, 53);
    let question = question.payload([0; 29]);
    let answer = question.clone().reversed().payload([0; 45]);
    let ping = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).vlan(100).icmp_echo(77, 1);
    let pong = ping.clone().reversed().icmp_echo_reply(77, 1);
    let client: u128 = 0x2001_0db8 << 96 | 1;
    let tcp = FrameBuilder::ipv6(client.to_be_bytes(), (client + 1).to_be_bytes()).tcp(50_000, 443);
    let back = tcp.clone().reversed();
    let exchange = [
        (question, answer),
        (ping.payload([0; 56]), pong.payload([0; 56])),
        (tcp.clone().flags(SYN), back.clone().flags(SYN | ACK).ack(1)),
        (
            tcp.clone().flags(PSH_ACK).seq(1).ack(1).payload([0; 517]),
            back.clone().flags(ACK).seq(1).ack(518).payload([0; 1400]),
        ),
        (tcp.clone().flags(FIN_ACK).seq(518).ack(1401), back.flags(FIN_ACK).seq(1401).ack(519)),
    ];
    let mut pcap = PcapWriter::new(Vec::new()).unwrap();
    let mut time = 1_700_000_000 * SECOND;
    for (there, back) in exchange {
        pcap.write(time, &there.build()).unwrap();
        pcap.write(time + SECOND / 250, &back.build()).unwrap();
        time += SECOND / 10;
    }
    // The last ACK, and a frame so much later that all timeouts have passed.
    pcap.write(time, &tcp.flags(ACK).seq(519).ack(1402).build()).unwrap();
    pcap.write(time + 100 * SECOND, &FrameBuilder::ethernet(0x0806).build()).unwrap();
    pcap.finish().unwrap()
}

#[test]
fn every_column_is_documented_and_the_examples_are_real() {
    let capture = scratch("example.pcap", example());
    let json = stdout(&["replay", "--flows", "-", capture.path()]);
    let csv = scratch("example.csv", "");
    stdout(&["replay", "--flows", csv.path(), capture.path()]);
    let csv = fs::read_to_string(csv.path()).unwrap();

    let text = read("docs/flow-records.md");
    for line in json.lines().chain(csv.lines()) {
        assert!(text.lines().any(|shown| shown == line), "not shown: {line}");
    }

    let rows = rows("docs/flow-records.md");
    let own = || rows.iter().filter(|row| row.heading == "Members" && row.cells.len() == 3);
    let columns = own().map(|row| row.cells[1].trim_matches('`'));
    let columns: Vec<_> = columns.filter(|column| !column.is_empty()).collect();
    assert_eq!(columns.join(","), csv.lines().next().unwrap());
    let mut real = BTreeSet::new();
    members("", &serde_json::from_str(json.lines().next().unwrap()).unwrap(), &mut real);
    let real = real.iter().map(|member| member.trim_end_matches("[]").to_owned()).collect();
    let documented = own().map(|row| row.cells[0].trim_matches('`').to_owned()).collect();
    assert_same("flow record", &documented, &real);
}
