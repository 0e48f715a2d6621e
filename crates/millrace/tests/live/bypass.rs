// SPDX-License-Identifier: BSD-3-Clause
//! Tests connections that the NIC forwards by itself (bypass): packets and flow records are the
//! same as without it, and workers see few of the packets.

use crate::bump::{Ended, Setup, count};
use crate::captures::read_pcap;
use crate::instance::text;
use crate::offload::{assert_no_rule_left, ports, run_through, run_until_silent};
use crate::records::{Conversations, conversations};
use crate::twin::driver;
use crate::{runs_all_cases, scaled};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use testkit::capture::write_pcap;
use testkit::host::has_cpus;
use wire::FrameBuilder;

/// Number of UDP connections of each kind.
const HOSTS: u8 = 8;

/// Number of times that their frames pass: enough for most packets to pass after the rules are
/// installed. `make prove-bypass` sets more.
fn loops() -> u64 {
    scaled("MILLRACE_LOOPS", 3000)
}

/// Returns one frame of each direction of some connections. UDP over both IP versions: without a
/// tag, and with the same addresses and ports with one or two tags. And TCP.
fn frames() -> [Vec<Vec<u8>>; 2] {
    let mut frames = [Vec::new(), Vec::new()];
    let mut add = |there: FrameBuilder, len: usize| {
        frames[0].push(there.clone().payload(vec![1; len]).build());
        frames[1].push(there.reversed().payload(vec![2; 2 * len]).build());
    };
    for host in 0..HOSTS {
        let len = 20 + usize::from(host);
        let v4 = || FrameBuilder::ipv4([10, 0, 0, host], [10, 1, 0, 1]);
        let v6 = [0xa, 0xb].map(|side| [0x2001, 0xdb8, side, 0, 0, 0, 0, host.into()].into());
        let v6 = || FrameBuilder::ip(IpAddr::V6(v6[0]), IpAddr::V6(v6[1]));
        for there in [v4(), v4().vlan(5), v6(), v6().vlan(7)] {
            add(there.udp(1000, 53), len);
        }
        if host < 4 {
            add(v4().qinq(100).vlan(5).udp(1000, 53), len);
            add(v4().tcp(1000, 80), len);
        }
    }
    frames
}

fn is_a(address: &str) -> bool {
    address.starts_with("10.0.") || address.starts_with("2001:db8:a:")
}

/// Returns a bump between two twins, which replay these frames repeatedly. The rate is low enough
/// that rules are installed meanwhile.
fn setup(test: &str, loops: &str, arguments: [&str; 2]) -> Setup {
    let setup = Setup::new(test);
    let paths = ["a", "b"].map(|name| setup.path(name));
    let [a, b] = [0, 1].map(|side: usize| {
        write_pcap(&paths[side], &frames()[side]);
        let arguments = arguments[side];
        format!("net_twin{side},replay={},speed=100M,loops={loops}{arguments}", paths[side])
    });
    setup.pair(&a, &b).args(&["--offload", "after 8"])
}

fn run_once(arguments: [&str; 2], workers: &str, bypass: &str) -> (Ended, Conversations) {
    let setup = setup("bypass", &loops().to_string(), arguments).args(&["--workers", workers]);
    // The NIC's counters may be a second old (`stale-counters`).
    let silent_lines = if arguments[0].contains("stale") { 6 } else { 2 };
    let keys = ["bypass", "bypass_tcp"].map(|key| format!("{key} = \"{bypass}\"\n"));
    let setup = setup.config(&format!("[offload]\n{}", keys.concat()));
    let ended = run_until_silent(setup, silent_lines);
    ended.assert_balanced();
    assert_no_rule_left(&ended.summary());
    let conversations = conversations(&ended.records(), is_a);
    (ended, conversations)
}

fn sent(summary: &Value) -> u64 {
    summary["ports"].as_array().unwrap().iter().map(|port| count(&port["tx_packets"])).sum()
}

#[test]
fn records_are_the_same_and_most_packets_pass_by_the_workers() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let cases = [("ideal", "2"), ("cx6dx", "1"), ("ideal", "1"), ("cx6dx", "2")];
    for (personality, workers) in cases.into_iter().take(if runs_all_cases() { 4 } else { 2 }) {
        let arguments = format!(",personality={personality},switch=s");
        let arguments = [arguments.as_str(); 2];
        let (plain, expected) = run_once(arguments, workers, "off");
        let packets = 2 * frames()[0].len() as u64 * loops();
        assert_eq!(count(&plain.summary()["ledger"]["rx"]), packets);
        let (ended, conversations) = run_once(arguments, workers, "after 64");
        let summary = ended.summary();
        assert_eq!(conversations, expected, "{personality}");
        let bypassed = &summary["offload"]["bypassed"];
        assert!(2 * count(&bypassed["packets"]) > packets, "{bypassed}");
        assert_eq!(count(&summary["ledger"]["rx"]) + count(&bypassed["packets"]), packets);
        // The driver has separate counters of the packets that it forwards by itself.
        assert_eq!(sent(&summary) + count(&bypassed["packets"]), sent(&plain.summary()));
        assert_eq!(count(&bypassed["unsettled"]), 0);
        // Both directions of each UDP connection with no or one tag, and of TCP connections.
        assert!(count(&bypassed["rules"]) >= 8 * u64::from(HOSTS) + 8, "{bypassed}");
        for port in ports(&summary) {
            assert_eq!((&port["bypass"], count(&port["rules"]["uncounted"])), (&"on".into(), 0));
            assert_eq!(port["bypass_tcp"], "on");
            let shapes = port["shapes"].to_string();
            assert!(shapes.contains("eth / vlan / ipv6 / udp: count / represented_port"), "{port}");
        }
        assert!(ended.stdout.contains("bypassed: "), "{}", ended.stdout);
    }
}

fn counted(frames: Vec<Vec<u8>>) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    frames.into_iter().for_each(|frame| *counts.entry(frame).or_default() += 1);
    counts
}

#[test]
fn what_leaves_the_peer_port_is_the_same() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("leaves");
    let [a, b, sent] = ["a", "b", "sent"].map(|name| setup.path(name));
    let [from_a, from_b] = frames();
    write_pcap(&a, &from_a);
    write_pcap(&b, &from_b);
    let port_a = format!("net_twin0,replay={a},speed=100M,loops={},switch=s", loops());
    let below = format!("net_pcap0,rx_pcap={b},tx_pcap={sent}");
    let port_b = format!("net_twin1,lower=({below}),switch=s");
    let setup = setup.pair(&port_a, &port_b).args(&["--offload", "after 8"]);
    let ended = run_through(setup.config("[offload]\nbypass = \"after 64\"\n"));
    ended.assert_balanced();
    let bypassed = count(&ended.summary()["offload"]["bypassed"]["packets"]);
    assert!(2 * bypassed > from_a.len() as u64 * loops(), "{bypassed}");
    let expected = from_a.into_iter().map(|frame| (frame, loops())).collect();
    assert_eq!(counted(read_pcap(&ended.path("sent"))), expected);
}

/// The packets pass the NIC only, for longer than the timeout of their connections. They are still
/// busy when the run ends.
#[test]
fn connections_live_by_the_counters_of_the_nic() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = setup("live", "forever", [",switch=s"; 2]).udp_multiple(0.5);
    let socket = format!("{}/bypass-{}.sock", std::env::temp_dir().display(), std::process::id());
    let setup = setup.args(&["--socket", &socket]).config("[offload]\nbypass = \"after 64\"\n");
    let mut bump = setup.start();
    let rules = || text(&socket, &["offload", "--limit", "1000"]).matches(" bypassed ").count();
    bump.wait_until("bypass", |_| rules() == 8 * usize::from(HOSTS));
    let begin = bump.lines().last().map_or(0.0, |line| line.time);
    bump.wait_for_line("more than their timeout", |line| line.time > begin + 1.5);
    assert_eq!(rules(), 8 * usize::from(HOSTS));
    let why = text(&socket, &["flows", "--why", "10.0.0.7"]);
    assert!(why.contains("forwarded by the NIC itself, "), "{why}");
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    assert_eq!(count(&summary["flows"]["created"]), frames()[0].len() as u64);
    assert_eq!(count(&summary["offload"]["bypassed"]["unsettled"]), 0);
    assert_no_rule_left(&summary);
}

#[test]
fn ports_of_no_switch_say_so_and_mark() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let others = ("", "", "transfer is not supported");
    let apart = (",switch=s", ",switch=t", "the action names no port of the same switch=");
    for (a, b, words) in [apart, others].into_iter().take(if runs_all_cases() { 2 } else { 1 }) {
        let (ended, conversations) = run_once([a, b], "1", "after 64");
        assert_eq!(conversations.len(), frames()[0].len());
        for number in 0..2 {
            let port = format!("port net_twin{number},");
            let told = |line: &str| {
                line.contains(&port)
                    && line.contains("has no bypass for UDP, connections get marks instead: ")
                    && line.contains(words)
            };
            assert!(ended.stderr.lines().any(told), "{}", ended.stderr);
        }
        let summary = ended.summary();
        assert!(count(&summary["offload"]["marks"]["counted"]) > 0);
        assert_eq!(count(&summary["offload"]["bypassed"]["packets"]), 0);
        for port in ports(&summary) {
            assert_eq!((&port["state"], &port["bypass"]), (&"on".into(), &"off".into()));
            assert!(port["bypass_reason"].as_str().unwrap().contains(words), "{port}");
        }
    }
}

/// A reset loses the packets that the NIC has counted since the last reading, and no others. The
/// summary counts these rules.
#[test]
fn after_a_reset_the_nic_forwards_again() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let (_, expected) = run_once([",switch=s"; 2], "1", "off");
    // Several times in a run, whatever its length.
    let resets = format!(",switch=s,reset_after={}", 4 * loops());
    let (ended, conversations) = run_once([&resets, ",switch=s"], "1", "after 64");
    let summary = ended.summary();
    assert!(count(&summary["ports"][0]["resets"]) > 0, "{}", summary["ports"]);
    let rules = &ports(&summary)[0]["rules"];
    assert!(count(&rules["lost"]) > 0, "{rules}");
    let packets = |of: &Conversations, side: usize| -> u64 {
        of.values().map(|tallies| tallies[side].packets).sum()
    };
    let missing = [0, 1].map(|side| packets(&expected, side) - packets(&conversations, side));
    assert_eq!(missing[1], 0, "the other port was not reset");
    assert!(missing[0] == 0 || count(&rules["uncounted"]) > 0, "{missing:?} {rules}");
    for (key, [a, b]) in &conversations {
        assert!(a.packets <= expected[key][0].packets && *b == expected[key][1], "{key}");
    }
    let bypassed = &summary["offload"]["bypassed"];
    assert!(2 * count(&bypassed["packets"]) > packets(&expected, 0), "{bypassed}");
}

/// If a NIC fails after all packets have passed, no count is lost.
#[test]
fn faults_leave_every_record_as_it_is() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let (_, expected) = run_once([",switch=s"; 2], "1", "off");
    let some = "create-refused:0.2+phantom-success:0.2+late-activation:0.5+late-deactivation:0.5";
    let cases = [some, "stale-counters+latency-cliff:0.1", "undeletable:0.3"];
    for faults in &cases[..if runs_all_cases() { 3 } else { 2 }] {
        let arguments = format!(",switch=s,faults={faults}");
        let (ended, conversations) = run_once([arguments.as_str(); 2], "1", "after 64");
        assert_eq!(conversations, expected, "{faults}");
        let bypassed = &ended.summary()["offload"]["bypassed"];
        assert!(count(&bypassed["packets"]) > 0, "{faults}: {bypassed}");
    }
}
