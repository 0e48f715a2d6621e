// SPDX-License-Identifier: BSD-3-Clause
//! `--config`: table, policy and timeouts of a file, with or without the ports of a live run.

use crate::{Run, SECOND_NS, START_NS, datagram, datagrams, new_scratch, run};
use serde_json::Value;
use testkit::capture::{Packet, Pcap};
use wire::{FrameBuilder, tcp};

/// Ports that no run could have: one device twice, and cpus that no machine has.
const LIVE: &str = "\
[[pair]]
a = \"0000:18:00.0\"
b = \"0000:18:00.0\"
workers = [1000, 1000]
[eal]
memory_mb = 16
";

fn run_with(test: &str, config: &str, args: &[&str], capture: &[u8]) -> Run {
    let scratch = new_scratch(test);
    let path = scratch.write("bump.toml", config.as_bytes());
    run(&[&["--config", &path, "--json", "-", "-"], args].concat(), capture)
}

fn summary_with(test: &str, config: &str, args: &[&str], capture: &[u8]) -> Value {
    let run = run_with(test, config, args, capture);
    run.assert_good();
    run.summary()
}

/// Source port, mark and label of each flow.
fn marked_with(test: &str, config: &str, capture: &[u8]) -> Vec<(u64, u64, String)> {
    let scratch = new_scratch(test);
    let path = scratch.write("bump.toml", config.as_bytes());
    let run = run(&["--config", &path, "--flows", "-", "-"], capture);
    run.assert_good();
    let record = |line: &str| {
        let flow: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| flow[key].as_u64().unwrap();
        (number("sport"), number("mark"), flow["label"].as_str().unwrap().to_owned())
    };
    let mut records: Vec<_> = run.stdout.lines().map(record).collect();
    records.sort();
    records
}

/// A capture of these frames, all of one time.
fn capture_of(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let packet = |frame| Packet::new(START_NS, frame);
    Pcap::plain().file(&frames.into_iter().map(packet).collect::<Vec<_>>())
}

#[test]
fn timeouts_are_those_of_the_file() {
    let capture = datagrams(&[0, 200 * SECOND_NS]);
    let created = |timeouts: &str| {
        let config = format!("[table]\ncapacity = 10\n[timeouts]\n{timeouts}\n");
        let summary = summary_with("timeouts", &config, &[], &capture);
        summary["flows"]["created"].as_u64().unwrap()
    };
    assert_eq!(created("udp_first = 199.9"), 2);
    assert_eq!(created("udp_first = 200.1"), 1);
    assert_eq!(created("udp_multiple = 600"), 2);
}

#[test]
fn the_table_is_that_of_the_file_but_for_the_flag() {
    let config = "[table]\ncapacity = 100\nwhen_full = \"drop\"\n\
                  [limits]\nembryonic_percent = 100\nevict = \"nothing\"\n";
    let many = capture_of((0..300).map(|port| datagram(port, 0).build()));
    for (args, capacity) in [(&[][..], 100), (&["--capacity", "250"], 250)] {
        let summary = summary_with("table", config, args, &many);
        assert_eq!(summary["flows"]["created"], capacity);
        assert_eq!(summary["drops"]["table_full"], 300 - capacity);
    }
}

#[test]
fn zone_and_policy_are_those_of_the_file() {
    let cut_in_its_header = datagram(1, 0).build()[..20].to_vec();
    let frames = [datagram(1, 0).vlan(1).build(), datagram(1, 0).vlan(2).build()];
    let capture = capture_of(frames.into_iter().chain([cut_in_its_header]));
    let small = "[table]\ncapacity = 10\n";
    let summary = summary_with("default", small, &[], &capture);
    assert_eq!(summary["flows"]["created"], 2);
    assert_eq!(summary["passed"]["ip_truncated"], 1);
    let config = format!("{small}zone = \"none\"\n[policy]\nmalformed = \"drop\"\n");
    let summary = summary_with("zone", &config, &[], &capture);
    assert_eq!(summary["flows"]["created"], 1);
    assert_eq!(summary["drops"]["ip_truncated"], 1);
}

#[test]
fn ports_and_cpus_of_a_file_need_not_be_here() {
    let config = format!("{LIVE}[table]\ncapacity = 10\n");
    let summary = summary_with("live", &config, &[], &datagrams(&[0]));
    assert_eq!(summary["flows"]["created"], 1);
}

#[test]
fn a_file_with_faults_is_refused_before_anything_is_written() {
    let config = format!("{LIVE}worker = 1\n[timeouts]\nudp_frist = 3\ntcp_close = 0\n");
    let run = run_with("faults", &config, &[], &datagrams(&[0]));
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    let faults: Vec<_> = run.stderr.lines().map(|line| line.split_once(".toml:")).collect();
    let faults: Vec<_> = faults.into_iter().map(|fault| fault.unwrap().1).collect();
    assert!(faults[0].starts_with("7:1: eal.worker: no such key"), "{faults:?}");
    assert!(faults[1].starts_with("9:1: timeouts.udp_frist: no such key; nearest: udp_first"));
    assert_eq!(faults[2], "10:13: timeouts.tcp_close: 0 is out of range: must be 0.001 to 2592000");
}

#[test]
fn a_file_that_is_not_there_is_wrong_use() {
    let run = run(&["--config", "/nowhere/bump.toml", "-"], &datagrams(&[0]));
    assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""));
    let message = "millrace: /nowhere/bump.toml: cannot be read: No such file or directory";
    assert!(run.stderr.starts_with(message), "{}", run.stderr);
}

#[test]
fn connections_begin_with_the_marks_of_the_file() {
    let capture = capture_of((1..4).map(|port| datagram(port, 0).build()));
    let config = "[table]\ncapacity = 10\nlabels = true\n\
                  [[mark]]\nproto = \"udp\"\nset_mark = \"0x10/0xf0\"\n\
                  [[mark]]\nsport = 2\nset_mark = \"3\"\nset_label = \"0x7\"\n\
                  [[mark]]\nproto = \"tcp\"\nset_mark = \"9\"\n";
    let [none, seven] = ["0x0", "0x7"].map(str::to_owned);
    let wanted = [(1, 0x10, none.clone()), (2, 3, seven), (3, 0x10, none)];
    assert_eq!(marked_with("marks", config, &capture), wanted);
}

/// Marks tell in which zone each connection is.
#[test]
fn packets_are_put_into_the_zones_of_the_file() {
    let there = (1..4).map(|port| datagram(port, 0));
    let both = there.flat_map(|datagram| [datagram.build(), datagram.reversed().vlan(5).build()]);
    let config = "[table]\nzone = \"none\"\n\
                  [[zone_rule]]\nport = 2\nzone = 7\n\
                  [[zone_rule]]\nfrom = 0\nproto = \"udp\"\npeer_port = 3\nzone = 8\n\
                  [[zone_rule]]\nproto = \"tcp\"\nzone = 9\n\
                  [[mark]]\nzone = 0\nset_mark = \"10\"\n\
                  [[mark]]\nzone = 7\nset_mark = \"17\"\n\
                  [[mark]]\nzone = 8\nset_mark = \"18\"\n";
    let none = || "0x0".to_owned();
    let wanted = [(1, 10, none()), (2, 17, none()), (3, 18, none())];
    assert_eq!(marked_with("zone-rules", config, &capture_of(both)), wanted);
}

#[test]
fn the_depth_of_tracking_is_that_of_the_file() {
    let tcp = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000, 80);
    let flags = [tcp::RST, tcp::SYN, tcp::RST, tcp::ACK];
    let capture = || capture_of(flags.map(|flags| tcp().flags(flags).build()));
    let summary = |tracking: &str| {
        let config = format!("[policy]\ntracking = \"{tracking}\"\n");
        summary_with("tracking", &config, &["--capacity", "10"], &capture())
    };
    // A SYN after an RST begins another connection. Without states it does not.
    assert_eq!(summary("flows")["flows"]["created"], 1);
    assert_eq!(summary("connections")["flows"]["created"], 2);
    let off = summary("off");
    assert_eq!((&off["flows"]["created"], &off["passed"]["tracking_off"]), (&0.into(), &4.into()));
}
