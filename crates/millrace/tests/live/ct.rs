// SPDX-License-Identifier: BSD-3-Clause
//! Tests commands on the connections of a running instance: list, count, flush, events. Their
//! results agree with the flow records at the end.

use crate::bump::{Bump, Ended, Setup, count};
use crate::captures::Talk;
use crate::instance;
use crate::records::Record;
use crate::twin::driver;
use engine::ProtoState;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use testkit::capture::write_pcap;
use testkit::process::{Process, wait_until};
use testkit::scratch::Scratch;
use wire::FrameBuilder;

/// A run with a control socket.
struct Asked {
    bump: Bump,
    socket: String,
}

impl Asked {
    /// Starts a run between two ports that read captures, with these devargs. Returns once this
    /// many connections exist.
    fn start(setup: Setup, [a, b]: [&str; 2], connections: usize) -> Self {
        let socket = setup.path("a.sock");
        let port = |name: &str, args: &str| format!("net_pcap{name},{args}");
        let setup = setup.pair(&port("0", a), &port("1", b));
        let bump = setup.args(&["--socket", &socket]).start();
        let asked = Self { bump, socket };
        wait_until("all connections", || asked.count(&[]) >= connections as u64);
        asked
    }

    /// Starts a run whose ports read the captures of a talk. `more` has further devargs, such as
    /// repetition.
    fn to_talk(talk: &Talk, more: &str) -> Self {
        let setup = setup();
        let [a, b] = ["a", "b"].map(|name| setup.path(name));
        talk.write(&a, &b);
        let args = [a, b].map(|path| format!("rx_pcap={path}{more}"));
        let asked = Self::start(setup, [&args[0], &args[1]], talk.conversations.len());
        if more.is_empty() {
            let packets: usize = talk.frames.iter().map(Vec::len).sum();
            let all = || asked.json(&["stats"])["ledger"]["rx"] == packets;
            wait_until("all packets", all);
        }
        asked
    }

    fn ask(&self, args: &[&str]) -> Output {
        instance::ask(&self.socket, args)
    }

    #[track_caller]
    fn text(&self, args: &[&str]) -> String {
        instance::text(&self.socket, args)
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        instance::json(&self.socket, args)
    }

    #[track_caller]
    fn count(&self, filter: &[&str]) -> u64 {
        count(&self.json(&[&["ct", "count"], filter].concat())["connections"])
    }

    #[track_caller]
    fn list(&self, filter: &[&str]) -> Vec<Value> {
        let text = self.text(&[&["ct", "list", "--json"], filter].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Sends a request without reading the reply.
    fn raw(&self, request: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        writeln!(stream, "{request}").unwrap();
        stream
    }

    fn finish(self) -> Ended {
        let ended = self.bump.finish();
        ended.assert_balanced();
        assert!(!Path::new(&self.socket).exists());
        ended
    }
}

/// Socket paths must be short, so the directory is one with a short path.
fn setup() -> Setup {
    Setup::in_scratch(Scratch::new(std::env::temp_dir(), "ct"))
}

/// Formats the members that a list and flow records have in common.
fn of_line(line: &Value) -> String {
    let [src, dst] = ["src", "dst"].map(|end| line[end].as_str().unwrap());
    let counts = ["orig", "reply"].map(|side| {
        ["packets", "bytes", "ip_bytes", "tcp_flags"].map(|member| count(&line[side][member]))
    });
    let numbers = ["proto", "sport", "dport", "zone", "start_ns", "last_ns"];
    let numbers = numbers.map(|member| count(&line[member]));
    format!("{src} {dst} {numbers:?} {counts:?}")
}

fn of_record(record: &Record) -> String {
    let counts = ["orig", "reply"].map(|side| {
        ["packets", "bytes", "ip_bytes", "tcp_flags"]
            .map(|member| record.number(&format!("{side}_{member}")))
    });
    let numbers = ["proto", "sport", "dport", "zone", "start_ns", "end_ns"];
    let numbers = numbers.map(|member| record.number(member));
    format!("{} {} {numbers:?} {counts:?}", record.text("src"), record.text("dst"))
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

type IsMeant = fn(&Record) -> bool;

/// Options, and the predicate of the records that they select.
const FILTERS: [(&[&str], IsMeant); 9] = [
    (&[], |_| true),
    (&["--zone", "5"], |r| r.number("zone") == 5),
    (&["--proto", "icmp"], |r| r.number("proto") == 1),
    (&["--proto", "17", "--zone", "0"], |r| r.number("proto") == 17 && r.number("zone") == 0),
    (&["--src", "10.1.0.0/27"], |r| {
        let last = r.text("src").strip_prefix("10.1.0.");
        last.is_some_and(|last| last.parse::<u8>().unwrap() < 32)
    }),
    (&["--dst", "2001:db8:b::/48", "--dport", "443"], |r| {
        r.text("dst").starts_with("2001:db8:b:") && r.number("dport") == 443
    }),
    (&["--address", "10.1.255.255"], |r| {
        ["src", "dst"].iter().any(|end| r.text(end) == "10.1.255.255")
    }),
    (&["--port", "1026"], |r| {
        let is_it = |end: &&str| r.number(end) == 1026;
        r.number("proto") != 1 && ["sport", "dport"].iter().any(is_it)
    }),
    (&["--state", "udp_single"], |r| {
        let [orig, reply] = r.tallies();
        r.number("proto") == 17 && orig.packets > 1 && reply.packets == 0
    }),
];

#[test]
fn lists_have_what_flow_records_have() {
    let asked = Asked::to_talk(&Talk::new(1, 100), "");
    let lists = FILTERS.map(|(filter, _)| asked.list(filter));
    let counts = FILTERS.map(|(filter, _)| asked.count(filter));
    assert_eq!(asked.list(&["--limit", "3"]).len(), 3);
    let text = asked.text(&["ct", "list", "--address", "10.1.0.0"]);
    let words = " src=10.1.0.0 dst=10.1.255.255 sport=1024 dport=53 packets=1 bytes=";
    assert!(text.contains(words) && text.contains("[UNREPLIED] src=10.1.255.255 "), "{text}");
    assert!(text.starts_with("ipv4     2 udp      17 "), "{text}");

    let zones = asked.json(&["ct", "zones"]);
    let of_zone = |zone: &Value| (count(&zone["zone"]), count(&zone["connections"]));
    let zones = zones["zones"].as_array().unwrap();
    assert_eq!(
        sorted(zones.iter().map(|zone| format!("{:?}", of_zone(zone)))),
        ["(0, 60)", "(100, 20)", "(5, 20)"]
    );
    for zone in zones {
        let name = zone["zone"].to_string();
        let [assured, all] = [true, false].map(|only| {
            let is_it = |line: &&Value| !only || line["assured"] == true;
            let list = asked.list(&["--zone", &name]);
            list.iter().filter(is_it).count() as u64
        });
        assert_eq!((count(&zone["assured"]), count(&zone["connections"])), (assured, all));
        assert_eq!(count(&zone["embryonic"]), all - assured, "{zone}");
        assert_eq!(count(&zone["worker_connections"]), all, "{zone}");
    }
    let all = &lists[0];
    assert!(all.iter().all(|line| {
        let left = line["timeout_s"].as_f64().unwrap();
        (0.0..=600.0).contains(&left) && line["state"].is_string()
    }));

    let ended = asked.finish();
    let records = ended.records();
    for (((filter, is_meant), list), count) in FILTERS.iter().zip(&lists).zip(counts) {
        let meant = records.iter().filter(|record| is_meant(record)).map(of_record);
        let meant = sorted(meant);
        assert_eq!(sorted(list.iter().map(of_line)), meant, "{filter:?}");
        assert_eq!(count, meant.len() as u64, "{filter:?}");
        assert!(!meant.is_empty(), "{filter:?} means nothing");
    }
}

#[test]
fn a_flush_ends_those_that_are_meant_and_no_others() {
    let asked = Asked::to_talk(&Talk::new(1, 100), "");
    let output = asked.ask(&["ct", "flush"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = asked.ask(&["ct", "flush", "--all", "--zone", "1"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let mut refused = String::new();
    let stream = asked.raw(r#"{"millrace":1,"ask":"flush"}"#);
    BufReader::new(stream).read_line(&mut refused).unwrap();
    assert!(refused.contains("syntax"), "{refused}");
    assert_eq!(asked.count(&[]), 100);

    assert_eq!(asked.text(&["ct", "flush", "--zone", "5"]), "flushed: 20\n");
    assert_eq!(asked.text(&["ct", "flush", "--zone", "5"]), "flushed: 0\n");
    assert_eq!((asked.count(&[]), asked.count(&["--zone", "5"])), (80, 0));
    assert_eq!(count(&asked.json(&["ct", "flush", "--proto", "icmp"])["flushed"]), 20);
    let ended = asked.finish();
    let (mut flushed, mut others) = (0, 0);
    for record in ended.records() {
        let is_meant = record.number("zone") == 5 || record.number("proto") == 1;
        let (reason, counter) = match is_meant {
            true => ("flushed", &mut flushed),
            false => ("exit", &mut others),
        };
        assert_eq!(record.text("end_reason"), reason);
        *counter += 1;
    }
    assert_eq!((flushed, others), (40, 60));
    assert_eq!(count(&ended.summary()["flows"]["ended"]["flushed"]), 40);
}

#[test]
fn what_is_written_to_connections_is_found_again() {
    let asked = Asked::to_talk(&Talk::new(1, 100), "");
    for wrong in [&["--all"][..], &["--to-mark", "1"], &["--to-mark", "1", "--all", "--zone", "1"]]
    {
        let output = asked.ask(&[&["ct", "set"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?} {output:?}");
    }
    let output = asked.ask(&["ct", "set", "--to-label", "1", "--all"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("labels = true"), "{stderr}");

    assert_eq!(asked.text(&["ct", "set", "--to-mark", "0x105", "--zone", "5"]), "set: 20\n");
    let more = ["ct", "set", "--to-mark", "2/0xff", "--mark", "5/0xff", "--proto", "icmp"];
    let both = count(&asked.json(&more)["set"]);
    assert_eq!((asked.count(&["--mark", "0x100/0xff00"]), asked.count(&["--mark", "0"])), (20, 80));
    assert_eq!(asked.count(&["--mark", "0x102"]), both);
    let listed = asked.text(&["ct", "list", "--mark", "0x105"]);
    assert_eq!(listed.lines().count() as u64, 20 - both);
    assert!(listed.lines().all(|line| line.ends_with(" mark=261 zone=5 use=1")), "{listed}");
    let ended = asked.finish();
    for record in ended.records() {
        let is_meant = record.number("zone") == 5;
        let low = if record.number("proto") == 1 { 2 } else { 5 };
        assert_eq!(record.number("mark"), if is_meant { 0x100 + low } else { 0 });
        assert_eq!(record.text("label"), "0x0");
    }
}

/// Packets continue, so connections that are flushed begin again.
#[test]
fn listeners_get_every_beginning_and_end() {
    let talk = Talk::new(1, 100);
    let asked = Asked::to_talk(&talk, ",infinite_rx=1");
    let mut stream = BufReader::new(asked.raw(r#"{"millrace":1,"ask":"events"}"#));
    let mut first = String::new();
    stream.read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"instance\":"), "it says when it begins: {first}");
    let heard = Arc::new(Mutex::new(Vec::<Value>::new()));
    let listener = std::thread::spawn({
        let heard = Arc::clone(&heard);
        let parsed = |line: String| serde_json::from_str(&line).expect("it is not cut");
        let mut lines = stream.lines().map_while(Result::ok).map(parsed);
        move || {
            lines.all(|line| {
                heard.lock().unwrap().push(line);
                true
            })
        }
    });
    let is_new = |line: &&Value| line["event"]["change"] == "new";
    let begun = || heard.lock().unwrap().iter().filter(is_new).count() as u64;
    let mut flushed = 0;
    for _ in 0..3 {
        flushed += count(&asked.json(&["ct", "flush", "--all"])["flushed"]);
        // Packets continue.
        wait_until("they begin again", || begun() == flushed);
    }
    assert_eq!(asked.count(&[]), talk.conversations.len() as u64);
    let ended = asked.finish();
    assert!(listener.join().unwrap());
    let lines = std::mem::take(&mut *heard.lock().unwrap());
    // The latest state of each connection that has begun and not ended.
    let mut alive = BTreeMap::new();
    let (mut known, mut destroyed) = (BTreeSet::new(), 0);
    for line in lines {
        let event = &line["event"];
        assert!(line["lost"].is_null(), "{line}");
        if event.is_null() {
            assert_eq!(line["error"]["code"], "ending");
            continue;
        }
        let connection = &event["connection"];
        let name = ["proto", "src", "sport", "dst", "dport", "zone", "start_ns"]
            .map(|member| connection[member].to_string())
            .join(" ");
        let state = connection["state"].as_str().map(|name| ProtoState::named(name).unwrap());
        match event["change"].as_str().unwrap() {
            "new" => {
                assert!(known.insert(name.clone()), "{name} begins once");
                alive.insert(name, state.unwrap());
            }
            "update" => {
                let before = alive.insert(name, state.unwrap()).expect("it has begun");
                assert!(before < state.unwrap(), "{before:?} {connection}");
            }
            "destroy" => {
                // Some connections are older than the subscription.
                let before = alive.remove(&name);
                assert!(state.is_some() && before.or(state) == state, "{connection}");
                assert_eq!(event["end_reason"], "flushed");
                destroyed += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(destroyed, flushed);
    assert_eq!(known.len() as u64, count(&ended.summary()["flows"]["created"]) - 100);
    let records = ended.records();
    let by_flush = records.iter().filter(|record| record.text("end_reason") == "flushed");
    assert_eq!(by_flush.count() as u64, flushed);
    assert!(flushed >= 300, "{flushed}");
}

#[test]
fn listening_ends_by_ctrl_c_and_frees_its_place() {
    let asked = Asked::to_talk(&Talk::new(1, 20), ",infinite_rx=1");
    let events = r#"{"millrace":1,"ask":"events","proto":6}"#;
    let mut listening = Vec::new();
    // An earlier client may occupy a place for a moment after its reply.
    wait_until("all places are taken", || {
        let (mut stream, mut first) = (BufReader::new(asked.raw(events)), String::new());
        stream.read_line(&mut first).unwrap();
        if first.starts_with("{\"instance\":") {
            listening.push(stream);
        }
        listening.len() == 8
    });
    let output = asked.ask(&["ct", "count"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("try again later"), "{output:?}");
    // The filter selects no events, so the instance must notice the closed sockets without sending.
    drop(listening);
    wait_until("their places are free", || asked.ask(&["ct", "count"]).status.success());

    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let command = command.args(["ct", "events", "--instance", &asked.socket]);
    let mut events = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut out = BufReader::new(events.child().stdout.take().unwrap());
    let told = std::thread::spawn(move || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    });
    // The subscription may begin later than the first flushes, which it does not report.
    wait_until("something is told", || {
        asked.text(&["ct", "flush", "--proto", "icmp"]);
        told.is_finished()
    });
    let flushed = told.join().unwrap();
    let is_event = |start: &str, end: &str| flushed.starts_with(start) && flushed.ends_with(end);
    let is_new = is_event("    [NEW] ipv4     2 icmp ", "packets=0 bytes=0 mark=0 use=1\n");
    assert!(is_new || is_event("[DESTROY] ipv4     2 icmp ", " end=flushed\n"), "{flushed}");
    events.signal("INT");
    assert_eq!(events.wait().code(), Some(0));
    let socket = asked.socket.clone();
    asked.finish();
    for what in ["events", "list", "count", "zones"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = command.args(["ct", what, "--instance", &socket]).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {words}");
        assert!(words.contains("no running instance has this socket"), "{what}: {words}");
    }
}

/// Clients that request long lists and do not read them delay no other client.
#[test]
fn a_long_list_that_nobody_reads_holds_nothing_up() {
    const MANY: u32 = 20_000;
    let setup = setup().capacity(1 << 18);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    let frame = |i: u32| {
        let [_, x, y, z] = i.to_be_bytes();
        FrameBuilder::ipv4([10, x, y, z], [10, 9, 255, 255]).udp(1024, 53).build()
    };
    write_pcap(&a, &(0..MANY).map(frame).collect::<Vec<_>>());
    // This capture repeats.
    write_pcap(&b, &Talk::new(2, 20).frames[0]);
    let args = [format!("rx_pcap={a}"), format!("rx_pcap={b},infinite_rx=1")];
    let asked = Asked::start(setup, [&args[0], &args[1]], MANY as usize + 20);
    let list = r#"{"millrace":1,"ask":"list"}"#;
    let slow: Vec<_> = (0..4).map(|_| asked.raw(list)).collect();
    let received = || count(&asked.json(&["stats"])["ledger"]["rx"]);
    let before = received();
    let lists: Vec<_> = (0..2).map(|_| asked.text(&["ct", "list"]).lines().count()).collect();
    assert_eq!(lists, [MANY as usize + 20; 2]);
    assert!(received() > before);
    assert_eq!(asked.count(&["--dst", "10.9.0.0/16"]), u64::from(MANY));
    drop(slow);
    let flushed = asked.json(&["ct", "flush", "--dst", "10.9.0.0/16"]);
    assert_eq!(count(&flushed["flushed"]), u64::from(MANY));
    assert_eq!(asked.count(&[]), 20);
    let ended = asked.finish();
    let summary = ended.summary();
    for port in summary["ports"].as_array().unwrap() {
        assert_eq!((count(&port["imissed"]), count(&port["rx_nombuf"])), (0, 0));
    }
    assert_eq!(count(&summary["flows"]["records_lost"]), 0);
    assert_eq!(count(&summary["flows"]["ended"]["flushed"]), u64::from(MANY));
}

/// `ct zones` shows the configuration of zones, and the number of their connections.
#[test]
fn zones_say_what_holds_there() {
    let talk = Talk::new(1, 100);
    let setup = setup().config(
        "[[timeout_policy]]\nname = \"dns\"\nudp_multiple = 5\n\
         [[zone]]\nids = [5, 9]\ntimeouts = \"dns\"\nconnections_max = 15\nwhen_full = \"drop\"\n",
    );
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let args = [a, b].map(|path| format!("rx_pcap={path},infinite_rx=1"));
    // Zone 5 has 20 connections and room for 15.
    let asked = Asked::start(setup, [&args[0], &args[1]], 95);
    let zones = asked.json(&["ct", "zones"])["zones"].clone();
    let zone = |number: u64| {
        let zones = zones.as_array().unwrap();
        zones.iter().find(|zone| zone["zone"] == number).unwrap_or(&Value::Null)
    };
    let members = ["connections", "connections_max", "when_full", "timeouts"];
    let of_zone = |number| members.map(|member| zone(number)[member].to_string());
    assert_eq!(of_zone(5), ["15", "15", "\"drop\"", "\"dns\""]);
    assert_eq!(of_zone(9), ["0", "15", "\"drop\"", "\"dns\""]);
    assert_eq!(of_zone(100), ["20", "null", "\"pass-untracked\"", "\"default\""]);
    // Connections that are flushed begin again.
    let begins = || {
        asked.text(&["ct", "flush", "--zone", "100"]);
        let zones = asked.json(&["ct", "zones"]);
        let mut zones = zones["zones"].as_array().unwrap().iter();
        zones.any(|zone| zone["zone"] == 100 && count(&zone["new_per_s"]) > 0)
    };
    wait_until("some begin", begins);
    let text = asked.text(&["ct", "zones"]);
    let row = |zone: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(words).find(|words| words[0] == zone).unwrap_or_default()
    };
    assert_eq!(row("9"), ["9", "0", "0", "0", "0", "0", "15", "drop", "dns"]);
    assert_eq!((&*row("0")[6], &*row("0")[8]), ("-", "default"), "{text}");
    asked.finish();
}

/// NIC rules are removed with their connections, and installed again for those that begin again.
#[test]
fn a_flush_takes_rules_back() {
    if driver().is_none() {
        return;
    }
    let setup = setup();
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    Talk::new(1, 40).write(&a, &b);
    let [a, b] = [("0", a), ("1", b)].map(|(name, path)| {
        format!("net_twin{name},replay={path},loops=forever,speed=10M,personality=x710")
    });
    let socket = setup.path("a.sock");
    let setup = setup.pair(&a, &b).args(&["--socket", &socket, "--offload", "all"]);
    let asked = Asked { bump: setup.start(), socket };
    let effective = || {
        let rules = asked.json(&["offload"])["rules"].as_array().unwrap().clone();
        rules.iter().filter(|rule| rule["state"] == "effective").count()
    };
    wait_until("rules have effect", || effective() > 10);
    let of_port = |member: &str| {
        let ports = asked.json(&["offload"])["ports"].as_array().unwrap().clone();
        ports.iter().map(|port| count(&port["rules"][member])).sum::<u64>()
    };
    assert_eq!(of_port("destroyed"), 0);
    let flushed = count(&asked.json(&["ct", "flush", "--all"])["flushed"]);
    assert!(flushed >= 40, "{flushed}");
    wait_until("rules are taken back", || of_port("destroyed") > 10);
    wait_until("others have rules", || effective() > 10);
    let ended = asked.finish();
    let flushed_records =
        ended.records().iter().filter(|record| record.text("end_reason") == "flushed").count();
    assert_eq!(flushed_records as u64, flushed);
}

#[test]
fn a_pipe_that_is_closed_ends_it_well() {
    let asked = Asked::to_talk(&Talk::new(1, 100), ",infinite_rx=1");
    for what in [&["list"][..], &["list", "--json"], &["events"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.arg("ct").args(what).args(["--instance", &asked.socket]);
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        drop(process.child().stdout.take());
        wait_until("it ends", || {
            asked.text(&["ct", "flush", "--proto", "icmp"]);
            process.ended().is_some()
        });
        let words = process.rest_of_stderr();
        assert_eq!((process.ended().unwrap().code(), &*words), (Some(0), ""), "{what:?}");
    }
    asked.finish();
}

#[test]
fn a_wrong_filter_is_named_with_a_way_out() {
    let wrong = [
        (["--proto", "foo"], "write tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number up to 255"),
        (["--src", "10.0.0.0/33"], "write ADDRESS or ADDRESS/LENGTH, of at most 32 bits"),
        (["--address", "::/129"], "(IPv6: 128)"),
        (["--state", "open"], "not a connection state; the states are SYN_SENT, "),
        (["--zone", "65536"], "65536 is not in 0..=65535"),
        (["--dport", "x"], "expected a number from 0 to 65535"),
    ];
    for ([option, value], words) in wrong {
        for what in ["list", "count", "flush", "events"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
            let output = command.args(["ct", what, option, value]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{text}");
            let place = format!("invalid value '{value}' for '{option} ");
            assert!(text.contains(&place) && text.contains(words), "{text}");
        }
    }
}

/// Starts a run with this many connections of one packet each at the first port, and none at the
/// other.
fn of_many(many: u32) -> Asked {
    // No packet is answered, and embryonic connections may use half of the table.
    let setup = setup().capacity(many * 5 / 2);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    let frame = |i: u32| {
        let [_, x, y, z] = i.to_be_bytes();
        FrameBuilder::ipv4([10, x, y, z], [10, 9, 255, 255]).udp(1024, 53).build()
    };
    write_pcap(&a, &(0..many).map(frame).collect::<Vec<_>>());
    write_pcap(&b, &[]);
    let args = [a, b].map(|path| format!("rx_pcap={path}"));
    Asked::start(setup, [&args[0], &args[1]], many as usize)
}

/// There are more connections than fit into the ring of records. The run ends during their flush.
#[test]
fn a_run_ends_while_a_flush_goes_on() {
    const MANY: u32 = 80_000;
    let asked = of_many(MANY);
    let mut stream = UnixStream::connect(&asked.socket).unwrap();
    // The instance accepts clients in order. So when `count` returns, this client has been
    // accepted.
    assert_eq!(asked.count(&[]), u64::from(MANY));
    asked.bump.signal("INT");
    let asking = writeln!(stream, r#"{{"millrace":1,"ask":"flush","all":true}}"#);
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains(r#""code":"ending""#), "{asking:?} {answer}");
    let ended = asked.bump.wait();
    ended.assert_balanced();
    assert_eq!(ended.records().len(), MANY as usize);
    assert_eq!(count(&ended.summary()["flows"]["records_lost"]), 0);
}

/// A subscriber gets all events before the end of the run, or the number of lost ones, and then a
/// message that the run ends.
#[test]
fn the_end_of_a_run_is_reported_to_listeners() {
    const MANY: u32 = 20_000;
    let asked = of_many(MANY);
    let mut listening = BufReader::new(asked.raw(r#"{"millrace":1,"ask":"events"}"#)).lines();
    let first = listening.next().unwrap().unwrap();
    assert!(first.starts_with("{\"instance\":"), "{first}");
    let _flush = asked.raw(r#"{"millrace":1,"ask":"flush","all":true}"#);
    let mut told = vec![listening.next().unwrap().unwrap()];
    asked.bump.signal("INT");
    told.extend(listening.map(Result::unwrap));
    let ended = asked.bump.wait();
    ended.assert_balanced();
    let last: Value = serde_json::from_str(&told.pop().unwrap()).expect("it is not cut");
    assert_eq!(last["error"]["code"], "ending", "{last}");
    let (mut destroyed, mut lost) = (0, 0);
    for line in told {
        let line: Value = serde_json::from_str(&line).unwrap();
        match line["lost"].as_u64() {
            Some(events) => lost += events,
            None => destroyed += u64::from(line["event"]["end_reason"] == "flushed"),
        }
    }
    assert_eq!(destroyed + lost, count(&ended.summary()["flows"]["ended"]["flushed"]));
}
