// SPDX-License-Identifier: BSD-3-Clause
//! Tests the commands for the access lists of a configuration as a user runs them: their output and
//! their exit status. No instance runs.

use serde_json::{Value, json};
use std::process::{Command, Output};
use testkit::scratch::ScratchFile;
use traffic::PcapWriter;
use wire::FrameBuilder;

fn acl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("acl").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Writes a configuration with one pair, which is removed when the test ends.
fn write_config(name: &str, lists: &str) -> ScratchFile {
    let text = format!("[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n{lists}");
    ScratchFile::new(std::env::temp_dir(), &format!("{name}.toml"), text)
}

const SHADOWED: &str = r#"
[[list]]
name = "requests"
port = "a"
default = "deny"
rules = """
deny src 10.0.0.0/8 proto tcp dport 25
permit src 10.1.0.0/16
deny src 10.1.2.0/24 proto udp
permit+reflect src 10.2.0.0/16 proto tcp dport 25
permit src 192.0.2.1
"""
"#;

#[test]
fn check_names_rules_that_never_decide() {
    let config = write_config("shadowed", SHADOWED);
    let output = acl(&["check", config.path()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let printed = text(&output.stdout);
    assert!(printed.starts_with(
        "list \"requests\", pair 0: port a in\n  rules: 5; default: deny\n  search: 5 regions, 1 \
         trees, at most 5 steps; memory: "
    ));
    let (_, overlaps) = printed.split_once("memory: ").unwrap();
    let (_, overlaps) = overlaps.split_once('\n').unwrap();
    let expected = [
        "  rule 1 overlaps: permit src 10.1.0.0/16",
        "    rule 0 takes some of its packets: deny src 10.0.0.0/8 proto tcp dport 25",
        "  rule 2 is unreachable: deny src 10.1.2.0/24 proto udp",
        "    rule 1 takes all of its packets: permit src 10.1.0.0/16",
        "  rule 3 is unreachable: permit+reflect src 10.2.0.0/16 proto tcp dport 25",
        "    rule 0 takes all of its packets: deny src 10.0.0.0/8 proto tcp dport 25",
    ];
    assert_eq!(overlaps.lines().collect::<Vec<_>>(), expected);

    let output = acl(&["check", config.path(), "--strict", "--json"]);
    assert_eq!(output.status.code(), Some(1), "rules are unreachable");
    let list = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["lists"][0];
    let numbers = |rows: &Value| {
        let row = |row: &Value| (row["rule"].clone(), row["earlier"].clone());
        rows.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&list["unreachable"]), [(json!(2), json!(1)), (json!(3), json!(0))]);
    assert_eq!(numbers(&list["overlaps"]), [(json!(1), json!(0))]);
    assert_eq!((&list["rules"], &list["compared"]), (&json!(5), &json!(5)));
}

#[test]
fn check_is_strict_only_about_unreachable_rules() {
    let overlapping = SHADOWED.lines().filter(|line| !line.contains("10.1.2.0"));
    let overlapping = overlapping.filter(|line| !line.contains("reflect"));
    let config = write_config("overlapping", &overlapping.collect::<Vec<_>>().join("\n"));
    let output = acl(&["check", config.path(), "--strict"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("rule 1 overlaps"));
    let none = write_config("no_lists", "");
    let output = acl(&["check", none.path(), "--strict"]);
    assert_eq!(text(&output.stdout), "there are no access lists\n");
    let refused = write_config("refused", "[[list]]\nname = \"l\"\nrules = \"permit sort 1\"\n");
    let output = acl(&["check", refused.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    assert_eq!(answer["problems"][0]["key"], "list[0].rules");
}

/// Returns a capture of a connection that is permitted, and of one that begins at port B.
fn capture() -> Vec<u8> {
    let tcp = FrameBuilder::ipv4([10, 0, 0, 1], [192, 0, 2, 9]).tcp(4000, 80);
    let (syn, syn_ack, ack) = (2, 0x12, 0x10);
    let stranger = FrameBuilder::ipv4([192, 0, 2, 9], [10, 0, 0, 1]).tcp(80, 22).flags(syn);
    let frames = [
        tcp.clone().flags(syn).seq(100),
        tcp.clone().reversed().flags(syn_ack).seq(900).ack(101),
        tcp.clone().flags(ack).seq(101).ack(901),
        stranger.clone(),
        stranger,
    ];
    let mut pcap = PcapWriter::new(Vec::new()).unwrap();
    for (time, frame) in (1_700_000_000_000_000_000..).step_by(1_000_000).zip(frames) {
        pcap.write(time, &frame.build()).unwrap();
    }
    pcap.finish().unwrap()
}

const FROM_A_ONLY: &str = r#"
[[list]]
name = "requests"
port = "a"
rules = "permit+reflect ct new"
[[list]]
name = "answers"
port = "b"
rules = "permit ct established,related,reply"
"#;

#[test]
fn explain_follows_the_connections_of_a_capture() {
    let config = write_config("explained", FROM_A_ONLY);
    let pcap = ScratchFile::new(std::env::temp_dir(), "explained.pcap", capture());
    let explain = |rest: &[&str]| {
        let output = acl(&[&["explain", config.path(), "--capture", pcap.path()], rest].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{rest:?}");
        text(&output.stdout).to_owned()
    };
    let each = explain(&["--inside", "10.0.0.0/8", "--each"]);
    let reflected = "list \"requests\", rule 0: permit+reflect ct new";
    let expected = [
        format!(
            "1 0.000000 a pass tcp 10.0.0.1:4000 > 192.0.2.9:80 syn; {reflected}; searched, ct new"
        ),
        format!(
            "2 0.001000 b pass tcp 192.0.2.9:80 > 10.0.0.1:4000 syn+ack; {reflected}; stored \
             decision of its connection"
        ),
        format!(
            "3 0.002000 a pass tcp 10.0.0.1:4000 > 192.0.2.9:80 ack; {reflected}; stored decision \
             of its connection"
        ),
        "4 0.003000 b deny tcp 192.0.2.9:80 > 10.0.0.1:22 syn; list \"answers\", default deny; \
         searched, ct new"
            .to_owned(),
    ];
    assert_eq!(each.lines().take(4).collect::<Vec<_>>(), expected);

    let short = explain(&["--inside", "10.0.0.0/8", "--denied", "1"]);
    let rule = short.lines().find(|line| line.contains("permit+reflect")).unwrap();
    assert_eq!(rule.split_whitespace().nth(4), Some("3"), "packets of rule 0: {rule}");
    let (_, end) = short.split_once("packets: 5; denied: 2\n").unwrap();
    assert_eq!(end.lines().count(), 2, "{end}");

    let json = explain(&["--inside", "10.0.0.0/8", "--json"]);
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    let rules = json!([{ "list": "requests", "rule": 0, "text": "permit+reflect ct new" }]);
    assert_eq!(
        lines[1],
        json!({
            "number": 2, "time_s": 0.001, "port": "b", "verdict": "pass",
            "packet": "tcp 192.0.2.9:80 > 10.0.0.1:4000 syn+ack", "ct": null, "source": "stored",
            "rules": rules,
        })
    );
    let default = json!([{ "list": "answers", "rule": null, "text": "default deny" }]);
    assert_eq!((&lines[3]["verdict"], &lines[3]["rules"]), (&json!("deny"), &default));

    // A rejected packet is denied too.
    let rejecting = FROM_A_ONLY.replace("port = \"b\"", "port = \"b\"\ndefault = \"reject\"");
    let rejecting = write_config("explained-reject", &rejecting);
    let args = ["--capture", pcap.path(), "--inside", "10.0.0.0/8", "--each"];
    let output = acl(&[&["explain", rejecting.path()], &args[..]].concat());
    let fourth = text(&output.stdout).lines().nth(3).unwrap().to_owned();
    assert!(fourth.starts_with("4 0.003000 b deny tcp "), "{fourth}");
    assert!(fourth.contains("default reject"), "{fourth}");

    // All packets arrive at one port.
    assert!(explain(&["--port", "b"]).contains("packets: 5; denied: 5\n"));
}

#[test]
fn explain_needs_a_packet_or_a_capture() {
    let config = write_config("nothing", FROM_A_ONLY);
    for wrong in [
        &[][..],
        &["--packet", "icmp 10.0.0.1 > 10.0.0.2", "--each"],
        &["--capture", "x.pcap", "--inside", "any"],
        &["--capture", "x.pcap", "--inside", "10.0.0.0/8", "--port", "a"],
        &["--packet", "icmp 10.0.0.1 > 10.0.0.2", "--instance", "1"],
        &["--packet", "icmp 10.0.0.1 > 10.0.0.2", "--port", "eth1"],
    ] {
        let output = acl(&[&["explain", config.path()], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
    let output = acl(&["explain", "--capture", "x.pcap"]);
    assert_eq!(output.status.code(), Some(2), "a capture needs a configuration: {output:?}");
    let output = acl(&["explain", config.path(), "--capture", "/nowhere.pcap"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere.pcap"), "{output:?}");
}

const FRAMES: &str = r#"
[[list]]
name = "frames"
port = "a"
kind = "ethernet"
rules = """
permit ether-type arp
deny ether-type arp src-mac 02:00:00:00:00:01
count src-mac 02:00:00:00:00:00/ff:00:00:00:00:00
deny ether-type 0x0700-0x0900
"""
"#;

/// Lists for frames that are not IP are checked and explained as others are.
#[test]
fn lists_of_frames_are_checked_and_explained() {
    let config = write_config("frames", FRAMES);
    let output = acl(&["check", config.path(), "--strict"]);
    assert_eq!(output.status.code(), Some(1), "rule 1 is unreachable");
    let expected = [
        "list \"frames\", pair 0: port a in",
        "  rules: 4; default: deny",
        "  for frames that are not IP",
        "  rule 1 is unreachable: deny ether-type arp src-mac 02:00:00:00:00:01",
        "    rule 0 takes all of its packets: permit ether-type arp",
        "  rule 3 overlaps: deny ether-type 0x0700-0x0900",
        "    rule 0 takes some of its packets: permit ether-type arp",
    ];
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), expected);
    let output = acl(&["check", config.path(), "--json"]);
    let list = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["lists"][0];
    assert_eq!((&list["kind"], &list["regions"]), (&json!("ethernet"), &Value::Null));

    let explain = |packet: &str| {
        let output = acl(&["explain", config.path(), "--packet", packet]);
        (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
    };
    let arp = explain("ether-type arp");
    assert_eq!(arp, (Some(0), format!("list \"frames\", rule 0: {ARP}\nthe packet passes\n")));
    let lldp = explain("ether-type lldp src-mac 02:00:00:00:00:07");
    let counting = "rule 2: count src-mac 02:00:00:00:00:00/ff:00:00:00:00:00";
    let default = "none of its 4 rules matches; the default is deny";
    let says =
        format!("list \"frames\", {counting}\nlist \"frames\": {default}\nthe packet is denied\n");
    assert_eq!(lldp, (Some(1), says));
    let json = acl(&["explain", config.path(), "--packet", "ether-type arp", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["verdict"], &json["rules"][0]["text"]), (&json!("pass"), &json!(ARP)));
    let ip = explain("udp 10.0.0.1:1 > 10.0.0.2:2");
    assert_eq!(ip.0, Some(0));
    assert!(ip.1.starts_with("no list judges such packets"), "{}", ip.1);
    let (status, says) = explain("ether-type arp ttl 1");
    assert!(status == Some(2) && says.contains("write it as in 'ether-type arp"), "{says}");
}

const ARP: &str = "permit ether-type arp";

#[test]
fn explain_names_the_rules_for_frames_of_a_capture() {
    let config = write_config("frames-captured", FRAMES);
    let frames = [
        FrameBuilder::ethernet(0x0806).payload([0; 28]),
        FrameBuilder::ethernet(0x88cc).macs([2, 0, 0, 0, 0, 7], [1; 6]).payload([0; 28]),
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2),
    ];
    let mut pcap = PcapWriter::new(Vec::new()).unwrap();
    for frame in frames {
        pcap.write(1_700_000_000_000_000_000, &frame.build()).unwrap();
    }
    let bytes = pcap.finish().unwrap();
    let pcap = ScratchFile::new(std::env::temp_dir(), "frames-captured.pcap", bytes);
    let output = acl(&["explain", config.path(), "--capture", pcap.path(), "--each"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let printed = text(&output.stdout);
    let line = |at: usize| printed.lines().nth(at).unwrap();
    assert!(line(0).starts_with("1 0.000000 a pass ether-type arp src-mac "), "{printed}");
    assert!(line(0).ends_with("; list \"frames\", rule 0: permit ether-type arp; searched"));
    assert_eq!(
        line(1),
        "2 0.000000 a deny ether-type lldp src-mac 02:00:00:00:00:07 dst-mac 01:01:01:01:01:01; \
         list \"frames\", default deny; searched"
    );
    assert!(line(2).starts_with("3 0.000000 a pass udp 10.0.0.1:1 > 10.0.0.2:2"), "{printed}");
    assert!(printed.contains("packets: 3; denied: 1\n"), "{printed}");
}
