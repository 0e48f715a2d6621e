// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace acl explain` of a running instance: what it says of a packet is what happens to
//! the packets of the kernel, and what other commands say of connections and NIC rules.

use crate::acl_change::{Hosts, with_list};
use crate::bump::{Setup, count};
use crate::instance::{self, ask};
use crate::twin::driver;
use serde_json::{Value, json};
use std::process::Output;
use testkit::capture::write_pcap;
use testkit::host::has_cpus;
use testkit::process::wait_until;
use wire::FrameBuilder;

fn acl_explain(socket: &str, args: &[&str]) -> Output {
    ask(socket, &[&["acl", "explain"], args].concat())
}

/// Returns what is explained about a packet. The exit status must fit its verdict.
#[track_caller]
fn explain(socket: &str, port: &str, packet: &str, more: &[&str]) -> Value {
    let args = [&["--json", "--port", port, "--packet", packet], more].concat();
    let output = acl_explain(socket, &args);
    let line: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let passes = line["verdict"] == "pass";
    assert_eq!(output.status.code(), Some(i32::from(!passes)), "{line}");
    line
}

/// Returns relation, source, verdict, and the handle or text of the rule that decides.
fn short(line: &Value) -> Value {
    let rules = line["rules"].as_array().unwrap();
    let rule = rules.last().map_or(Value::Null, |rule| match &rule["handle"] {
        Value::Null => rule["text"].clone(),
        handle => handle.clone(),
    });
    json!([line["relation"], line["source"], line["verdict"], rule])
}

/// The list counts ICMP, and reflects TCP. Its port is a.
#[test]
fn the_explanation_is_what_the_kernel_sees() {
    let Some(mut hosts) = Hosts::start() else { return };
    let (socket, [a, b]) = (hosts.socket.clone(), [hosts.lan.a.v4, hosts.lan.b.v4]);
    let of = |port: &str, packet: &str| explain(&socket, port, packet, &[]);
    let before = hosts.show();

    // Without a connection.
    let new = of("a", &format!("tcp {a}:9 > {b}:82 syn"));
    assert_eq!(short(&new), json!(["begins", "searched", "pass", "l:0:1"]), "{new}");
    assert_eq!((&new["ct"], &new["connection"]), (&json!("new"), &Value::Null));
    assert_eq!(new["rules"][0]["place"], "a in");
    let rst = of("a", &format!("tcp {a}:9 > {b}:82 rst"));
    assert_eq!((&rst["relation"], &rst["ct"]), (&json!("invalid"), &json!("invalid")), "{rst}");
    let other = of("b", &format!("udp {b}:9 > {a}:82"));
    assert_eq!(short(&other), json!(["begins", "not_asked", "pass", null]), "{other}");
    // The ping of the start: the packet does not show its identifier.
    let ping = of("a", &format!("icmp {a} > {b} 8/0"));
    assert_eq!(short(&ping), json!(["belongs", "searched", "pass", "default permit"]), "{ping}");
    assert_eq!(
        (&ping["ct"], &ping["rules"][0]["handle"]),
        (&json!("established"), &json!("l:0:0"))
    );
    let echo = of("b", &format!("icmp {b} > {a} 0/0"));
    assert_eq!((&echo["relation"], &echo["ct"]), (&json!("belongs"), &json!("established,reply")));
    let other = of("b", &format!("icmp {b} > {a} 8/0"));
    assert_eq!(other["relation"], "begins", "B has not asked: {other}");

    // A connection whose decision is stored: no list is searched.
    assert_eq!(hosts.exchange(), "[True, True]");
    let list = hosts.ask(&["ct", "list", "--json", "--dport", "80"]);
    let conn: Value = serde_json::from_str(&list).unwrap();
    let client = format!("{a}:{}", conn["sport"]);
    let data = format!("tcp {client} > {b}:80 ack");
    let answer = format!("tcp {b}:80 > {client} ack");
    for (port, packet, direction, ct) in
        [("a", &data, "orig", "established"), ("b", &answer, "reply", "established,reply")]
    {
        let known = of(port, packet);
        assert_eq!(short(&known), json!(["belongs", "stored", "pass", "l:0:1"]), "{known}");
        let found = &known["connection"];
        assert_eq!((&found["direction"], &known["ct"]), (&json!(direction), &json!(ct)));
        assert_eq!((&found["reflects"], &found["judged_anew"]), (&json!(true), &json!(false)));
        assert_eq!((&found["began_at"], &known["decided_by"]), (&json!("a"), &json!("software")));
        let same = ["src", "dst", "sport", "dport", "state"];
        assert!(same.iter().all(|name| found["connection"][name] == conn[name]), "{known}");
    }
    // In states that the user names, the packet is compared with rules.
    let asked = explain(&socket, "a", &data, &["--ct", "invalid"]);
    assert_eq!(short(&asked), json!(["belongs", "searched", "pass", "l:0:1"]), "{asked}");
    let text = acl_explain(&socket, &["--packet", &data]);
    let text = String::from_utf8(text.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("{data}: at port a of pair 0 (")), "{text}");
    assert!(lines[2].contains(" ESTABLISHED src="), "{text}");
    assert_eq!(lines[4], "  stored: a rule permits both directions");
    assert_eq!(lines[7], "list \"l\", rule 1: permit+reflect proto tcp");
    assert_eq!(lines.last(), Some(&"the packet passes; software decides"));

    // Nothing was counted: the rule of ICMP has what it had.
    assert_eq!(before[0], hosts.show()[0]);

    // The lists change: the next packet decides anew, and the kernel sees what was explained.
    let rule = "deny proto tcp dport 80";
    assert_eq!(hosts.ask(&["acl", "add", "l", "--at", "0", rule]), "l:1:0\n");
    let anew = of("a", &data);
    assert_eq!(short(&anew), json!(["belongs", "searched", "deny", "l:1:0"]), "{anew}");
    assert_eq!((&anew["connection"]["judged_anew"], &anew["epoch"]), (&json!(true), &json!(1)));
    assert_eq!(hosts.exchange(), "[False, True]");
    let denied = of("a", &data);
    assert_eq!(short(&denied), json!(["belongs", "stored", "deny", "l:1:0"]), "{denied}");
    assert_eq!(denied["connection"]["orig_decision"], "denied");
    assert_eq!(denied["connection"]["judged_anew"], false);
    let none = of("a", &format!("tcp {a}:9 > {b}:80 syn"));
    assert_eq!(short(&none), json!(["begins", "searched", "deny", "l:1:0"]), "{none}");
    hosts.finish();
}

/// Lists in which one rule can be in a NIC, and others cannot.
const LISTS: &str = r#"
[[list]]
name = "of a"
port = "a"
rules = """
permit+reflect proto udp dport 53
deny log proto udp dport 54
permit proto udp dport 55 ct new
"""

[[list]]
name = "of b"
port = "b"
default = "permit"
rules = "permit proto udp"
"#;

/// Runs 40 connections of UDP to port 53 between two software NICs, until the busiest have the
/// rules of this state. Passes the socket to `check`.
fn with_nic(offload: &str, state: &str, check: impl FnOnce(&str)) {
    let setup = Setup::new("acl-explain").capacity(1 << 12);
    let socket = setup.path("control.sock");
    let ports = [0, 1].map(|side: usize| {
        let path = setup.path(["a", "b"][side]);
        let frames = (0..40).map(|port| {
            let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1]).udp(1000 + port, 53);
            if side == 0 { there.build() } else { there.reversed().build() }
        });
        write_pcap(&path, &frames.collect::<Vec<_>>());
        format!("net_twin{side},replay={path},loops=forever,speed=50M,personality=ideal,switch=s")
    });
    let config = format!("[control]\nsocket = \"{socket}\"\n[offload]\n{offload}{LISTS}");
    let bump = setup.pair(&ports[0], &ports[1]).config(&config).start();
    wait_until("the state of a rule", || {
        let known = explain(&socket, "a", "udp 10.0.0.1:1000 > 10.0.1.1:53", &[]);
        known["connection"]["offload"]["state"] == state
    });
    check(&socket);
    bump.finish().assert_balanced();
}

/// The states of rules are those of `acl offload`.
#[test]
fn the_explanation_says_what_the_nic_does() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let known = "udp 10.0.0.1:1000 > 10.0.1.1:53";
    with_nic("policy = \"after 4\"\nbypass = \"after 8\"\n", "bypassed", |socket| {
        let forwarded = explain(socket, "a", known, &[]);
        let decides = json!(["belongs", "stored", "pass", "of a:0:0"]);
        assert_eq!((short(&forwarded), &forwarded["decided_by"]), (decides, &json!("bypass")));
        let of_nic = "udp 10.0.0.2:9 > 10.0.1.1:53";
        wait_until("the rule is in the NIC", || {
            explain(socket, "a", of_nic, &[])["rules"][0]["state"] == "nic"
        });
        let ports = instance::json(socket, &["acl", "offload", "a"]);
        for (packet, rule, decided_by) in [
            (of_nic, 0, "list_mark"),
            // The NIC has it for the order only.
            ("udp 10.0.0.2:9 > 10.0.1.1:54", 1, "software"),
            ("udp 10.0.0.2:9 > 10.0.1.1:55", 2, "software"),
            ("udp 10.0.0.2:9 > 10.0.1.1:56", 3, "software"),
        ] {
            let line = explain(socket, "a", packet, &[]);
            let (found, expected) = (&line["rules"][0], &ports["ports"][0]["rules"][rule]);
            for member in ["rule", "text", "state", "reason", "numbers"] {
                assert_eq!(found[member], expected[member], "{packet}: {line} {ports}");
            }
            assert_eq!(
                (&line["decided_by"], &line["relation"]),
                (&json!(decided_by), &json!("begins"))
            );
        }
        assert_eq!(ports["ports"][0]["rules"][2]["state"], "software", "{ports}");
    });
    with_nic("policy = \"after 4\"\nmarks = \"always\"\n", "effective", |socket| {
        let marked = explain(socket, "a", known, &[]);
        assert_eq!(marked["decided_by"], "connection_mark", "{marked}");
        assert!(count(&marked["connection"]["offload"]["hits"]) > 0, "{marked}");
    });
}

/// Returns standard error of a command that fails.
#[track_caller]
fn refused(socket: &str, args: &[&str]) -> String {
    let packet = ["--packet", "udp 10.0.0.1:1 > 10.0.1.1:2"];
    let output = acl_explain(socket, &[&packet[..], args].concat());
    let found = (output.status.code(), &output.stdout[..]);
    assert_eq!(found, (Some(1), &b""[..]), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_unclear_question_is_refused_with_the_way_out() {
    let none = refused("/nowhere.sock", &[]);
    assert!(none.contains("/nowhere.sock: no running instance has this socket"), "{none}");
    let run = with_list();
    let socket = run.bump.path("a.sock");
    let unknown = refused(&socket, &["--port", "eth9"]);
    let ports = "millrace: there is no port \"eth9\"; write a, b, or one of net_pcap0,";
    assert!(unknown.starts_with(ports) && unknown.contains(", net_pcap1,"), "{unknown}");
    let pair = refused(&socket, &["--pair", "1"]);
    assert_eq!(pair, "millrace: there is no pair 1; the last one is 0\n");
    let zone = explain(&socket, "b", "udp 10.0.0.1:1 > 10.0.1.1:2", &["--zone", "9"]);
    assert_eq!((&zone["port"], &zone["zone"]), (&json!("b"), &json!(9)));
    let frame = explain(&socket, "a", "ether-type arp", &[]);
    assert_eq!(short(&frame), json!(["frame", "not_asked", "pass", null]));
    run.bump.finish().assert_balanced();
    if !has_cpus(2) {
        return;
    }
    let setup = Setup::new("explain-pairs");
    let socket = setup.path("a.sock");
    let names = [0, 1, 2, 3].map(|number| format!("net_null{number},no-rx=1"));
    let pairs = setup.pair(&names[0], &names[1]).pair(&names[2], &names[3]);
    let bump = pairs.args(&["--socket", &socket]).start();
    let way_out = format!(
        "millrace: there are 2 pairs: name the port with --port, one of {}, or the pair with \
         --pair\n",
        names.join(", ")
    );
    assert_eq!(refused(&socket, &[]), way_out);
    assert_eq!(refused(&socket, &["--port", "b"]), way_out);
    let wrong = refused(&socket, &["--port", &names[2], "--pair", "0"]);
    assert_eq!(wrong, format!("millrace: port {:?} belongs to pair 1\n", names[2]));
    let last = explain(&socket, &names[3], "tcp 10.0.0.1:1 > 10.0.1.1:2 syn", &[]);
    assert_eq!((&last["pair"], &last["port"]), (&json!(1), &json!("b")));
    assert_eq!(short(&last), json!(["begins", "not_asked", "pass", null]));
    bump.finish().assert_balanced();
}
