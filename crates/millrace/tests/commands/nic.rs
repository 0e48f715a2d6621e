// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace nic` as a user runs it: scripts for the flow shell, and the shell on a terminal.
//! Tests that need the software NIC are skipped with a message if it is not built.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use testkit::host::{skip, twin_driver_or_skip};
use testkit::scratch::{Scratch, ScratchFile};

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

/// True if the software NIC exists; otherwise prints that the test is skipped.
fn has_twin() -> bool {
    twin_driver_or_skip().is_some()
}

/// Runs `command` with `input` as its standard input.
fn feed(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn flow(arguments: &[&str], input: &str) -> Output {
    feed(Command::new(MILLRACE).args(["nic", "flow"]).args(arguments), input)
}

/// Returns exit status, standard output and standard error.
fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const RULE: &str = "flow create 0 ingress pattern eth / ipv4 src spec 10.0.0.0 src prefix 8 / \
                    udp / end actions queue index 3 / mark id 7 / count / end\n";

#[test]
fn a_script_makes_lists_and_destroys_rules() {
    if !has_twin() {
        return;
    }
    let script = format!(
        "# Rules of a test\n\n{RULE}\
         flow create 1 priority 2 ingress pattern eth / end actions rss / end # on the other port\n\
         flow create 0 ingress pattern eth / void / ipv6 / end actions drop / end\n\
         flow validate 0 ingress pattern eth type is 0x0806 / end actions drop / end\n\
         flow list 0\nflow list 1\nflow list 1 group 1\n\
         flow query 0 0 count\n\
         flow destroy 0 rule 1 rule 0\n\
         flow create 0 ingress pattern eth / ipv6 / end actions drop / end\n\
         flow flush 0\nflow list 0\nquit\nnever read\n"
    );
    let ports = ["net_twin0,wire=w", "net_twin1,wire=w"];
    let expected = "Flow rule #0 created\nFlow rule #0 created\nFlow rule #1 created\n\
                    Flow rule validated\n\
                    ID\tGroup\tPrio\tAttr\tRule\n\
                    0\t0\t0\ti--\tETH IPV4 UDP => QUEUE MARK COUNT\n\
                    1\t0\t0\ti--\tETH IPV6 => DROP\n\
                    ID\tGroup\tPrio\tAttr\tRule\n\
                    0\t0\t2\ti--\tETH => RSS\n\
                    ID\tGroup\tPrio\tAttr\tRule\n\
                    COUNT:\n hits_set: 1\n bytes_set: 1\n hits: 0\n bytes: 0\n\
                    Flow rule #1 destroyed\nFlow rule #0 destroyed\n\
                    Flow rule #0 created\n";
    assert_eq!(told(flow(&ports, &script)), (Some(0), expected.to_owned(), String::new()));
}

#[test]
fn a_refusal_ends_a_script_unless_it_may_go_on() {
    if !has_twin() {
        return;
    }
    let script = format!("{}flow list 0\n", RULE.replace("index 3", "index 4"));
    let refusal = "millrace: standard input:1: error type 15 (action configuration): \
                   action 1 (queue): queue index out of range: Invalid argument\n";
    let (status, stdout, stderr) = told(flow(&[], &format!("{script}{RULE}")));
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with(refusal), "{stderr}");
    assert!(stderr.contains("\n  the NIC points at action 1: queue\n"), "{stderr}");

    let (status, stdout, stderr) = told(flow(&["--keep-going"], &format!("{script}{RULE}")));
    assert_eq!((status, stdout.as_str()), (Some(1), "Flow rule #0 created\n"));
    assert!(stderr.starts_with(refusal), "{stderr}");
    // With one more queue, the rule is accepted.
    assert_eq!(flow(&["--queues", "5"], &script).status.code(), Some(0));

    let left = format!("{RULE}flow destroy 0 rule 7 rule 0\n");
    let (status, stdout, stderr) = told(flow(&[], &left));
    assert_eq!(stdout, "Flow rule #0 created\nFlow rule #0 destroyed\n");
    assert_eq!(
        (status, stderr.as_str()),
        (Some(1), "millrace: standard input:2: Flow rule #7 not found\n")
    );
}

/// Rules as in DPDK's test plans. If the NIC does not support one, the NIC refuses it, not the
/// shell.
#[test]
fn rss_is_written_as_in_testpmd() {
    if !has_twin() {
        return;
    }
    let rule = |rss: &str| {
        format!("flow create 0 ingress pattern eth / ipv4 / udp / end actions rss {rss} / end\n")
    };
    let script = rule("func toeplitz types ipv4-udp end key_len 40 queues 0 1 2 3 end");
    let (status, stdout, stderr) = told(flow(&[], &script));
    assert_eq!((status, stdout.as_str(), stderr.as_str()), (Some(0), "Flow rule #0 created\n", ""));
    for (rss, words) in [
        ("types all end queues 0 1 end", "a type that is not supported"),
        ("key 0102 key_len 40 queues 0 end", "the key is not that of the port"),
    ] {
        let (status, _, stderr) = told(flow(&[], &rule(rss)));
        let refusal = "error type 15 (action configuration): action 1 (rss): ";
        assert_eq!(status, Some(1));
        assert!(stderr.contains(&format!("{refusal}{words}")), "{stderr}");
    }
}

#[test]
fn every_answer_is_an_object_of_json() {
    if !has_twin() {
        return;
    }
    let script = format!(
        "{RULE}{RULE}flow query 0 0 count\nflow list 0\nflow destroy 0 rule 0 rule 3\nflow lst 0\n\
         flow create 0 ingress pattern eth / meta / end actions drop / end\nhelp mark\n"
    );
    let (status, stdout, stderr) = told(flow(&["--json", "--keep-going"], &script));
    assert_eq!((status, stderr.as_str()), (Some(1), ""));
    let answers: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 8, "{stdout}");
    let lines: Vec<_> = answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8]);
    let created = json!({ "command": "create", "line": 1, "ok": true, "port": 0, "rule": 0 });
    assert_eq!(answers[0], created);
    assert_eq!(answers[1]["error"]["errno"], 17);
    assert_eq!((&answers[2]["hits"], &answers[2]["bytes"]), (&json!(0), &json!(0)));
    let text = answers[3]["rules"][0]["text"].as_str().unwrap();
    assert_eq!(text, &RULE.trim_end()["flow create 0 ".len()..]);
    assert_eq!(answers[4]["destroyed"], json!([0]));
    assert_eq!(answers[4]["failed"][0]["message"], "Flow rule #3 not found");
    assert_eq!((&answers[5]["column"], &answers[5]["ok"]), (&json!(6), &json!(false)));
    assert!(answers[5]["expected"].as_array().unwrap().contains(&json!("list")));
    let error = &answers[6]["error"];
    assert_eq!((&error["type"], &error["errno"]), (&json!(13), &json!(95)));
    assert_eq!(error["cause"], json!({ "part": "item", "number": 2, "name": "meta" }));
    assert_eq!(answers[7]["ok"], true);
}

#[test]
fn a_word_that_may_not_stand_there_is_marked() {
    let text = "# one\nflow create 0 ingress pattern eth / ipv5 / end\nhelp eth\n";
    let script = ScratchFile::new(env!("CARGO_TARGET_TMPDIR"), "a.flow", text);
    let name = script.path();
    let run = |more: &[&str]| told(flow(&[&["net_null0", "-f", name], more].concat(), ""));
    let (one, all) = (run(&[]), run(&["--keep-going"]));
    assert_eq!((one.0, one.1.as_str()), (Some(1), ""));
    let mut lines = one.2.lines();
    let first = lines.next().unwrap();
    let start = format!("millrace: {name}:2:37: \"ipv5\" may not stand here; nearest: ipv");
    assert!(first.starts_with(&start), "{first}");
    assert_eq!(lines.next(), Some("  flow create 0 ingress pattern eth / ipv5 / end"));
    assert_eq!(lines.next(), Some(format!("  {}^^^^", " ".repeat(36)).as_str()));
    assert_eq!(lines.next(), None);
    assert!(all.1.starts_with("item eth "), "{}", all.1);
    assert_eq!(all.0, Some(1), "what failed is not forgotten");
}

#[test]
fn a_port_without_flow_rules_says_so() {
    let (status, stdout, stderr) = told(flow(&["net_null0"], RULE));
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    let expected = "millrace: standard input:1: error type 1 (cause unspecified): Function not \
                    implemented\n  the port's driver has no such operation; some have no flow \
                    rules at all\n";
    assert_eq!(stderr, expected);
    let (_, _, stderr) = told(flow(&["net_null0"], "flow list 1\n"));
    assert_eq!(stderr, "millrace: standard input:1: Invalid port 1: there is only port 0\n");
}

#[test]
fn what_cannot_begin_is_refused() {
    assert_eq!(flow(&["--queues", "0"], "").status.code(), Some(2));
    assert_eq!(Command::new(MILLRACE).arg("nic").output().unwrap().status.code(), Some(2));
    let (status, _, stderr) = told(flow(&["net_null0", "-f", "/nonexistent.flow"], ""));
    assert_eq!(status, Some(1));
    assert!(stderr.contains("cannot open /nonexistent.flow"), "{stderr}");
    let mut command = Command::new(MILLRACE);
    command.args(["nic", "flow"]).env("MILLRACE_TWIN", "/nowhere/librte_net_twin.so");
    let (status, _, stderr) = told(feed(&mut command, ""));
    assert_eq!(status, Some(1));
    assert!(stderr.contains("/nowhere/librte_net_twin.so"), "{stderr}");
}

/// Tests keys on a terminal of util-linux's `script`: completion, the mark below a wrong word,
/// Ctrl-C, Ctrl-D, and the history.
#[test]
fn a_person_is_helped_with_the_words() {
    let try_it = Command::new("script").args(["-qec", "true", "/dev/null"]).output();
    if !try_it.is_ok_and(|output| output.status.success()) {
        return skip("`script` is not installed, or can make no terminal here");
    }
    let state = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "nic");
    let line = format!("exec '{MILLRACE}' nic flow net_null0");
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_STATE_HOME", state.folder())
        .env("TERM", "xterm");
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = String::new();
    // The shell requests bracketed paste when it begins to read a line. The terminal itself would
    // handle keys that arrive earlier.
    for typed in ["fl\tli\t0\r", "fl\tcr\t0 pat\tetc\r", "gone\x03", "quit\r"] {
        let from = shown.len();
        while !shown[from..].contains("\u{1b}[?2004h") {
            let mut bytes = [0; 4096];
            let len = screen.read(&mut bytes).unwrap();
            assert!(len > 0, "it ended early: {shown}");
            shown += &String::from_utf8_lossy(&bytes[..len]);
        }
        keys.write_all(typed.as_bytes()).unwrap();
    }
    let status = child.wait().unwrap();
    let history = std::fs::read_to_string(state.path("millrace/flow_history"));
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("\"etc\" may not stand here; nearest: eth; expected: void"), "{shown}");
    let history = history.unwrap();
    assert!(history.contains("flow list 0\nflow create 0 pattern etc\nquit\n"), "{history}");
}

/// The two commands of the FlowTable article, with its two results. The first result has an
/// explanation.
#[test]
fn the_articles_commands_get_its_results() {
    if !has_twin() {
        return;
    }
    let script = "\
        flow create 0 ingress pattern eth / ipv4 / udp / end actions queue index 6 / end\n\
        flow create 0 ingress pattern ipv4 src is 10.0.0.1 dst is 10.0.0.2 / \
        tcp src is 1 dst is 2 / end actions queue index 1 / mark id 1 / end\n\
        flow space 0\n";
    let port = "net_twin0,wire=w,personality=x710-17.02";
    let (status, out, err) = told(flow(&[port, "--queues", "8", "--keep-going"], script));
    assert_eq!(status, Some(1));
    let first = "standard input:1: error type 13 (specific pattern item): item 2 (ipv4): NULL IPv4 \
                 spec/mask: Invalid argument\n";
    assert!(err.contains(first), "{err}");
    let instead = "the NIC would take: flow create 0 ingress pattern eth / ipv4 src is 192.0.2.1 \
                   dst is 198.51.100.1 / udp src is 49152 dst is 443 / end actions queue index 6 \
                   / end\n";
    assert!(err.contains(instead), "{err}");
    let expected = "Flow rule #0 created\n\
                    Intel X710, i40e driver of DPDK 17.02\n\
                    Entries\tSpace\tUsed\tFree\n\
                    guaranteed\t512\t1\t511\n\
                    best effort\t7168\t0\t7168\n";
    assert_eq!(out, expected);
    let advised = instead.split_once(": ").unwrap().1;
    let (status, out, err) = told(flow(&[port, "--queues", "8"], advised));
    assert_eq!((status, out.as_str()), (Some(0), "Flow rule #0 created\n"), "{err}");
    // No explanation is known, so the message has the NIC's own text only.
    let plain = flow(&[port, "--personality", "none"], script.lines().next().unwrap());
    let (_, _, err) = told(plain);
    assert!(err.contains("NULL IPv4 spec/mask") && !err.contains("would take"), "{err}");
}

/// Items and actions that the NIC does not have are refused in its words; those of another DPDK,
/// and commands that the shell does not carry out, with the reason.
#[test]
fn words_of_testpmd_are_refused_with_reasons() {
    if !has_twin() {
        return;
    }
    let eth = "flow create 0 ingress pattern eth /";
    let script = format!(
        "{eth} ipv4 / esp spi is 1 / end actions queue index 3 / end\n\
         {eth} ipv4 / end actions vf id 1 / queue index 0 / end\n\
         set raw_encap 4 eth / ipv4 / udp dst is 4789 / vxlan vni is 2 / end_set\n\
         {eth} end actions raw_encap index 4 / end\n\
         {eth} end actions raw_encap index 5 / end\n\
         {eth} phy_port index is 1 / end actions drop / end\n\
         flow queue 0 create 0 template_table 0\n\
         {eth} end actions indirect 3 / end\n\
         flow indirect_action 0 create ingress action count / end\n",
    );
    let (status, _, err) = told(flow(&["net_twin0,wire=w", "--keep-going"], &script));
    assert_eq!(status, Some(1));
    for (line, reason) in [
        (1, "error type 13 (specific pattern item): item 3 (esp): this item is not supported"),
        (2, "error type 16 (specific action): action 1 (vf): this action is not supported"),
        (4, "error type 16 (specific action): action 1 (raw_encap): this action is not supp"),
        (5, "nothing was set for `raw_encap index 5`: see `help set`"),
        (6, "error type 13 (specific pattern item): item 2 (phy_port): DPDK "),
        (7, "not carried out by this shell: `flow queue`: the shell makes one rule at a time"),
        (8, "there is no indirect action #3 on this port"),
        (9, "error type 1 (cause unspecified): Function not implemented"),
    ] {
        assert!(err.contains(&format!("standard input:{line}: {reason}")), "{line}: {err}");
    }
    assert!(err.contains("DPDK had it up to 22.07"), "{err}");
}

/// The flow director is shown as testpmd of the article shows it, with the rules made here.
#[test]
fn ports_are_shown_as_by_testpmd() {
    let show = "show port info 0\nshow port stats 0\nshow port fdir 0\n";
    let (status, out, err) = told(flow(&["net_null0", "--keep-going"], show));
    assert_eq!(status, Some(1));
    for line in ["Infos for port 0", "Driver name: net_null", "MTU: 1500", "RX-packets: "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let none = "this port has no flow director; `flow space 0` says what is known";
    assert!(err.contains(none), "{err}");
    if !has_twin() {
        return;
    }
    let script = "flow create 0 ingress pattern ipv4 src is 10.0.0.1 dst is 10.0.0.2 / tcp src is \
                  1 dst is 2 / end actions queue index 1 / mark id 1 / end\n\
                  flow create 0 ingress pattern eth / end actions drop / end\n\
                  flow destroy 0 rule 0\nshow port 0 fdir\n";
    let port = "net_twin0,wire=w,personality=x710-17.02";
    let (_, out, _) = told(flow(&[port, "--keep-going"], script));
    for line in [
        "\n  ######################## FDIR infos for port 0      ########################\n",
        "  max_len:       16          payload_limit: 480\n",
        "  guarant_space: 512         best_space:    7168\n",
        "  add:           1           remove:        1\n",
        "  f_add:         1           f_remove:      0\n",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
}

/// Characters that could change the terminal are printed as escapes.
#[test]
fn control_characters_are_not_printed() {
    let lines = [
        "help \u{1b}[31m",
        "\u{1b}[31m",
        "flow dump 0 all /nowhere/\u{1b}[31m",
        "flow list \u{1b}",
        "set \u{1b}[31m",
        "show \u{1b}[31m",
        "flow create 0 pattern raw pattern is \u{1b} / end actions end",
        "flow \u{1b}",
        "show port \u{1b}",
    ];
    let script = &lines.join("\n");
    let (status, out, err) = told(flow(&["net_null0", "--keep-going"], script));
    assert_eq!(status, Some(1));
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{out}{err:?}");
    assert!(err.contains(r#"no help for "\u{1b}[31m""#), "{err}");
}

#[test]
fn personalities_are_listed_shown_and_played_from_a_file() {
    let run = |arguments: &[&str]| {
        told(
            Command::new(MILLRACE).args(["nic", "personalities"]).args(arguments).output().unwrap(),
        )
    };
    let (status, list, _) = run(&[]);
    assert_eq!(status, Some(0));
    assert!(list.contains("x710-17.02  Intel X710, i40e driver of DPDK 17.02"), "{list}");
    let (_, json, _) = run(&["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["personalities"][1]["guaranteed"], 512);
    let (status, _, err) = run(&["x701"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("no personality x701") && err.contains("x710"), "{err}");
    let (_, text, _) = run(&["cx5"]);
    if !has_twin() {
        return;
    }
    let text = text.replace("no fate action is found", "where shall it go?");
    let file = ScratchFile::new(std::env::temp_dir(), "cx5.toml", text);
    let port = format!("net_twin0,wire=w,personality={}", file.path());
    let (_, _, err) = told(flow(
        &[&port],
        "flow create 0 ingress pattern eth / end actions mark \
        id 1 / end",
    ));
    assert!(err.contains("where shall it go?"), "{err}");
    std::fs::write(file.path(), "name = 5").unwrap();
    let (status, _, err) = told(flow(&[&port], "quit"));
    assert_eq!(status, Some(1));
    assert!(err.contains("line 1") && err.contains(file.path()), "{err}");
}
