// SPDX-License-Identifier: BSD-3-Clause
//! Tests the sources of a twin's packets with testpmd: captures, with the marks of the current
//! rules and the requested number of loops; and lower ports.

use crate::new_scratch;
use crate::peer::{Testpmd, first_cpu};
use crate::twin::{driver, forward, tally, tcp};
use std::time::Instant;
use testkit::capture::write_pcap;
use testkit::process::wait_until;
use testkit::scratch::Scratch;
use wire::FrameBuilder;

/// testpmd with a twin as port 0, and a port that discards the packets.
struct Bench {
    testpmd: Testpmd,
    scratch: Scratch,
}

impl Bench {
    /// Starts testpmd. In `devargs` of the twin, `@` is a directory that has `frames` in `a.pcap`.
    fn new(devargs: &str, frames: &[Vec<u8>], queues: usize) -> Option<Self> {
        let driver = driver()?;
        let scratch = new_scratch("source");
        write_pcap(scratch.path("a.pcap"), frames);
        let devargs = devargs.replace('@', scratch.folder().to_str().expect("a path of ours"));
        let eal = [
            format!("-d{driver}"),
            format!("--vdev=net_twin0{devargs}"),
            "--vdev=net_null0,no-rx=1".to_owned(),
        ];
        let [rxq, txq] = ["rxq", "txq"].map(|queue| format!("--{queue}={queues}"));
        // Otherwise testpmd discards packets that arrive before `start`.
        let testpmd = Testpmd::with(&eal, &["--no-flush-rx", "--stats-period=0", &rxq, &txq]);
        Some(Self { testpmd, scratch })
    }

    fn flow(&mut self, rule: &str, answer: &str) {
        self.testpmd.enter(&format!("flow {rule}"), answer);
    }

    fn forward(&mut self, arriving: usize) -> Vec<String> {
        forward(&mut self.testpmd, "0", arriving)
    }

    /// Starts forwarding without printing packets.
    fn start(&mut self) {
        self.testpmd.enter("set verbose 0", "verbose level");
        self.testpmd.enter("start", "packet forwarding - ports=");
    }

    /// Restarts the port, so the capture begins again.
    fn restart(&mut self) {
        self.testpmd.enter("stop", "testpmd> ");
        for command in ["port stop 0", "port start 0"] {
            self.testpmd.enter(command, "Done");
        }
    }

    /// Returns a counter of the extended statistics.
    fn counter(&mut self, name: &str) -> u64 {
        let begin = self.testpmd.output().len();
        self.testpmd.enter("show port xstats 0", "model_packets: ");
        let printed = self.testpmd.output()[begin..].to_owned();
        let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {name}"))
    }

    fn wait_for(&mut self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), || self.counter(name) >= value);
        assert_eq!(self.counter(name), value, "{name}");
    }
}

const MARK_80: &str =
    "create 0 ingress pattern eth / ipv4 / tcp dst is 80 / end actions mark id 77";

/// A rule for the same packets that matches the whole five-tuple.
const MARK_FLOW_80: &str = "create 0 ingress pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 \
                            / tcp src is 1000 dst is 80 / end actions mark id 77";

fn frames(ports: impl IntoIterator<Item = u16>) -> Vec<Vec<u8>> {
    ports.into_iter().map(|dport| tcp(dport).build()).collect()
}

#[test]
fn a_capture_is_played_with_the_marks_of_now() {
    let Some(mut bench) = Bench::new(",replay=@/a.pcap,loops=2", &frames([80, 81]), 1) else {
        return;
    };
    let is_marked = |line: &String| line.contains("FDIR matched ID=0x4d");
    let marks = |lines: &[String]| -> Vec<bool> { lines.iter().map(is_marked).collect() };
    assert_eq!(marks(&bench.forward(4)), [false; 4]);
    bench.restart();
    // The model has classified the packets at the start of the port, before the rule exists.
    bench.flow(&format!("{MARK_80} / end"), "Flow rule #0 created");
    let received = bench.forward(4);
    assert_eq!(marks(&received), [true, false, true, false], "{received:?}");
    assert!(received[0].contains("hw ptype: L2_ETHER L3_IPV4_EXT_UNKNOWN L4_TCP"), "{received:?}");
}

/// The rate is low enough to create and destroy a rule while the capture is replayed.
#[test]
fn marks_come_and_go_with_the_rule() {
    const PACKETS: usize = 50;
    let devargs = ",replay=@/a.pcap,loops=forever,speed=1M";
    let Some(mut bench) = Bench::new(devargs, &frames([80]), 1) else { return };
    bench.testpmd.enter("set verbose 1", "verbose level");
    bench.testpmd.enter("start", "packet forwarding - ports=");
    let is_marked = |line: &String| line.contains("FDIR matched ID=0x4d");
    let mut watch = |rule: &str, answer: &str| {
        if !rule.is_empty() {
            bench.flow(rule, answer);
        }
        let begin = bench.testpmd.output().len();
        let mut lines = Vec::new();
        wait_until("packets after it", || {
            let printed = bench.testpmd.output()[begin..].to_owned();
            let arrived = printed.lines().filter(|line| line.contains("Receive queue"));
            lines = arrived.map(str::to_owned).collect();
            // The first lines may be of packets that were received before the change.
            lines.len() > 2 * PACKETS
        });
        lines[PACKETS..2 * PACKETS].iter().filter(|line| is_marked(line)).count()
    };
    assert_eq!(watch("", ""), 0);
    for (number, rule) in [MARK_80, MARK_FLOW_80].into_iter().enumerate() {
        assert_eq!(watch(&format!("{rule} / end"), "Flow rule #0 created"), PACKETS, "{number}");
        assert_eq!(watch("destroy 0 rule 0", "Flow rule #0 destroyed"), 0, "{number}");
    }
}

#[test]
fn every_packet_is_played_as_often_as_was_asked_for() {
    // Many blocks, the last one not full, and packets of many lengths.
    let frames: Vec<_> = (0..1000_u16)
        .map(|i| tcp(80 + i % 3).payload(vec![7; usize::from(i % 300 * 5)]).build())
        .collect();
    let Some(mut bench) = Bench::new(",replay=@/a.pcap,loops=7", &frames, 1) else { return };
    bench.flow(&format!("{MARK_80} / count / end"), "Flow rule #0 created");
    bench.flow(
        "create 0 ingress pattern eth / ipv4 / tcp dst is 81 / end actions drop / count / end",
        "Flow rule #1 created",
    );
    bench.start();
    let of = |dport: usize| frames[dport - 80..].iter().step_by(3);
    let bytes = |dport| of(dport).map(|frame| frame.len() as u64).sum::<u64>();
    bench.wait_for("rx_rule_drops", 7 * of(81).count() as u64);
    bench.wait_for("rx_good_packets", 7 * (of(80).count() + of(82).count()) as u64);
    assert_eq!(bench.counter("rx_good_bytes"), 7 * (bytes(80) + bytes(82)));
    for (rule, dport) in [(0, 80), (1, 81)] {
        let counted = tally(&mut bench.testpmd, "0", rule);
        assert_eq!(counted, (7 * of(dport).count() as u64, 7 * bytes(dport)), "{dport}");
    }
    // The model runs once at the start of the port and once for the rules, not for each loop.
    assert_eq!(bench.counter("model_packets"), 2 * frames.len() as u64);
}

/// If an exact rule changes, the model classifies only the packets of its flow again.
#[test]
fn only_packets_of_a_rule_are_judged_again() {
    const FLOWS: u16 = 500;
    const OF_EACH: u16 = 4;
    let packets = u64::from(FLOWS * OF_EACH);
    let frames = frames((0..FLOWS * OF_EACH).map(|i| 80 + i % FLOWS));
    let Some(mut bench) = Bench::new(",replay=@/a.pcap,loops=3", &frames, 2) else { return };
    bench.testpmd.enter("port config all rss tcp", "testpmd> ");
    bench.restart();
    let judged = bench.counter("model_packets");
    bench.flow(&format!("{MARK_FLOW_80} / drop / count / end"), "Flow rule #0 created");
    bench.start();
    let dropped = u64::from(3 * OF_EACH);
    bench.wait_for("rx_rule_drops", dropped);
    bench.wait_for("rx_good_packets", 3 * packets - dropped);
    let again = bench.counter("model_packets") - judged;
    // Some packets of other flows are included, because their hash collides.
    assert!((OF_EACH.into()..packets / 10).contains(&again), "{again} packets judged again");
    assert_eq!(tally(&mut bench.testpmd, "0", 0).0, dropped);
}

/// Checks that changes of a rule neither repeat nor skip packets of the capture.
fn change_while_a_capture_plays(rule: &str) {
    const LOOPS: u64 = 30_000;
    let frames = frames((0..1000).map(|i| 80 + i % 7));
    let devargs = format!(",replay=@/a.pcap,loops={LOOPS}");
    let Some(mut bench) = Bench::new(&devargs, &frames, 2) else { return };
    bench.testpmd.enter("port config all rss tcp", "testpmd> ");
    bench.start();
    let mut changes = 0;
    while changes < 20 || bench.counter("rx_good_packets") < LOOPS * frames.len() as u64 / 2 {
        bench.flow(&format!("{rule} / end"), "Flow rule #0 created");
        bench.flow("destroy 0 rule 0", "Flow rule #0 destroyed");
        changes += 1;
    }
    bench.wait_for("rx_good_packets", LOOPS * frames.len() as u64);
    assert_eq!(bench.counter("rx_missed_errors") + bench.counter("rx_rule_drops"), 0);
}

#[test]
fn rules_change_while_a_capture_plays() {
    change_while_a_capture_plays(MARK_80);
}

#[test]
fn exact_rules_change_while_a_capture_plays() {
    change_while_a_capture_plays(MARK_FLOW_80);
}

#[test]
fn long_frames_are_played_in_chains() {
    let payload: Vec<u8> = (0..8900_u16).map(|i| i as u8).collect();
    let long = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(9, 9).payload(payload).build();
    let frames = [tcp(80).build(), long.clone(), tcp(81).build()];
    let Some(mut bench) = Bench::new(",replay=@/a.pcap", &frames, 1) else { return };
    let received = bench.forward(3);
    assert!(received[1].contains(&format!("length={}", long.len())), "{received:?}");
    assert!(received[1].contains("nb_segs=5"), "{received:?}");
}

/// The stopwatch starts before the port, so it never shows less time than the port had.
#[test]
fn a_rate_is_kept() {
    const MBPS: u64 = 100;
    let frames = frames([80, 81, 82]);
    let devargs = format!(",replay=@/a.pcap,loops=forever,speed={MBPS}M");
    for queues in [1, 2] {
        let Some(mut bench) = Bench::new(&devargs, &frames, queues) else { return };
        bench.testpmd.enter("show port info 0", "Link speed: 100 Mbps");
        bench.testpmd.enter("port config all rss all", "testpmd> ");
        let begin = Instant::now();
        bench.restart();
        bench.start();
        wait_until("packets", || bench.counter("rx_good_packets") > 10_000);
        let packets = bench.counter("rx_good_packets");
        let wire_bits = packets * 8 * (frames[0].len() as u64 + 24);
        let allowed = begin.elapsed().as_micros() as u64 * MBPS;
        assert!(wire_bits <= allowed, "{wire_bits} bits on the wire where {allowed} fit");
    }
}

/// The queues are those of the test of hashes over a wire.
#[test]
fn queues_play_what_is_theirs() {
    let frames = [
        FrameBuilder::ipv4([66, 9, 149, 187], [161, 142, 100, 80]).tcp(2794, 1766).build(),
        FrameBuilder::ipv4([38, 27, 205, 30], [209, 142, 163, 6]).tcp(48228, 2217).build(),
        tcp(80).vlan(5).build(),
    ];
    let Some(mut bench) = Bench::new(",replay=@/a.pcap,loops=3", &frames, 2) else { return };
    bench.testpmd.enter("port config all rss tcp", "testpmd> ");
    bench.flow(
        "create 0 ingress pattern eth / vlan / end actions queue index 1 / end",
        "Flow rule #0 created",
    );
    let received = bench.forward(9);
    for (what, queue) in [("hash=0x51ccc178", 0), ("hash=0xafc7327f", 1), ("VLAN", 1)] {
        let of: Vec<_> = match what {
            "VLAN" => received.iter().filter(|line| line.contains("type=0x8100")).collect(),
            _ => received.iter().filter(|line| line.contains(what)).collect(),
        };
        assert_eq!(of.len(), 3, "{what}: {received:?}");
        assert!(of.iter().all(|line| line.contains(&format!("Receive queue={queue:#x}"))));
    }
}

#[test]
fn every_rule_on_the_way_counts() {
    let devargs = ",replay=@/a.pcap,loops=4";
    let Some(mut bench) = Bench::new(devargs, &frames([80, 81, 82]), 1) else { return };
    for (rule, pattern, actions) in [
        (0, "eth / ipv4 / tcp", "count / jump group 1"),
        (1, "eth / ipv4 / tcp dst is 80", "count / mark id 77"),
        (2, "eth / ipv4 / tcp dst is 81", "count / drop"),
    ] {
        let group = rule.min(1);
        let rule = format!("Flow rule #{rule} created");
        let attributes = format!("create 0 ingress group {group}");
        bench.flow(&format!("{attributes} pattern {pattern} / end actions {actions} / end"), &rule);
    }
    bench.forward(8);
    let bytes = frames([80])[0].len() as u64;
    for (rule, hits) in [(0, 12), (1, 4), (2, 4)] {
        assert_eq!(tally(&mut bench.testpmd, "0", rule), (hits, hits * bytes), "rule {rule}");
    }
}

/// The twin sends the capture to a ring below it, and receives it from there.
fn over_a_ring(devargs: &str) {
    let Some(driver) = driver() else { return };
    let scratch = new_scratch("source");
    let frames = frames((0..200).map(|i| 80 + i % 3));
    write_pcap(scratch.path("a.pcap"), &frames);
    let eal = [
        format!("-d{driver}"),
        format!("--vdev=net_twin0,lower=net_ring0{devargs}"),
        format!("--vdev=net_pcap0,rx_pcap={}", scratch.path("a.pcap")),
    ];
    let testpmd = Testpmd::with(&eal, &["--no-flush-rx"]);
    let mut bench = Bench { testpmd, scratch };
    // The lower port is hidden: testpmd has the twin and the capture only.
    bench.testpmd.enter("show config fwd", "ports=2");
    bench.flow(&format!("{MARK_80} / count / end"), "Flow rule #0 created");
    bench.flow(
        "create 0 ingress pattern eth / ipv4 / tcp dst is 82 / end actions drop / end",
        "Flow rule #1 created",
    );
    let [marked, dropped] = [tcp(80).build(), tcp(82).build()];
    let expected: Vec<bool> =
        frames.iter().filter(|frame| **frame != dropped).map(|frame| *frame == marked).collect();
    let received = bench.forward(expected.len());
    let is_marked = |line: &String| line.contains("FDIR matched ID=0x4d");
    assert_eq!(received.iter().map(is_marked).collect::<Vec<_>>(), expected, "{received:?}");
    assert_eq!(bench.counter("tx_good_packets"), frames.len() as u64);
    assert_eq!(bench.counter("rx_rule_drops"), (frames.len() - expected.len()) as u64);
    assert_eq!(bench.counter("model_packets"), frames.len() as u64);
    assert!(bench.counter("model_cycles") > 0);
    let hits = expected.iter().filter(|&&marked| marked).count() as u64;
    assert_eq!(tally(&mut bench.testpmd, "0", 0), (hits, hits * marked.len() as u64));
}

#[test]
fn packets_of_a_lower_port_are_classified() {
    over_a_ring("");
}

#[test]
fn a_thread_classifies_as_the_receiver_does() {
    over_a_ring(&format!(",pipeline=thread@{}", first_cpu()));
}

/// All packets arrive at the only queue of the lower port.
#[test]
fn a_lower_port_is_spread_over_queues() {
    let frames = frames((0..200).map(|i| 80 + i % 3));
    let devargs = ",lower=(net_pcap7,rx_pcap=@/a.pcap)";
    let Some(mut bench) = Bench::new(devargs, &frames, 2) else { return };
    bench.testpmd.enter("show config fwd", "ports=2");
    bench.testpmd.enter("show port info 0", "Link speed: 10 Gbps");
    let port_81 = "create 0 ingress pattern eth / ipv4 / tcp dst is 81 / end actions";
    bench.flow(&format!("{port_81} queue index 1 / mark id 7 / end"), "Flow rule #0 created");
    let received = bench.forward(frames.len());
    let marked: Vec<_> = received.iter().filter(|line| line.contains("FDIR matched")).collect();
    assert_eq!(marked.len(), frames.len().div_ceil(3), "{received:?}");
    assert!(marked.iter().all(|line| line.contains("Receive queue=0x1")), "{received:?}");
}

/// A twin with a lower port is detached and attached again.
#[test]
fn a_lower_port_comes_again() {
    let devargs = ",lower=(net_pcap7,rx_pcap=@/a.pcap)";
    let Some(mut bench) = Bench::new(devargs, &frames([80, 81]), 1) else { return };
    let devargs = devargs.replace('@', bench.scratch.folder().to_str().expect("a path of ours"));
    bench.forward(2);
    bench.testpmd.enter("port stop 0", "Done");
    bench.testpmd.enter("port detach 0", "Now total ports is 1");
    bench.testpmd.enter(&format!("port attach net_twin0{devargs}"), "Port 0 is attached");
    bench.testpmd.enter("port start 0", "Done");
}

#[test]
fn a_thread_where_there_is_no_cpu_is_refused() {
    let Some(mut bench) = Bench::new("", &[], 1) else { return };
    let devargs = "port attach net_twin1,lower=net_ring0,pipeline=thread@1023";
    bench.testpmd.enter(devargs, "is attached");
    let refusal = "pipeline=thread@1023: the thread cannot run there: Invalid argument";
    bench.testpmd.enter("port start all", refusal);
}

#[test]
fn a_thread_does_the_work_of_a_wire() {
    let Some(driver) = driver() else { return };
    let scratch = new_scratch("source");
    write_pcap(scratch.path("a.pcap"), &frames([80, 81, 82]));
    let eal = [
        format!("-d{driver}"),
        format!("--vdev=net_pcap0,rx_pcap={}", scratch.path("a.pcap")),
        "--vdev=net_twin0,wire=w".to_owned(),
        format!("--vdev=net_twin1,wire=w,pipeline=thread@{}", first_cpu()),
        "--vdev=net_null0,no-rx=1".to_owned(),
    ];
    let mut testpmd = Testpmd::with(&eal, &["--no-flush-rx"]);
    let rule = MARK_80.replace("create 0", "create 2");
    testpmd.enter(&format!("flow {rule} / end"), "Flow rule #0 created");
    let received = forward(&mut testpmd, "2", 3);
    let marked: Vec<_> =
        received.iter().map(|line| line.contains("FDIR matched ID=0x4d")).collect();
    assert_eq!(marked, [true, false, false], "{received:?}");
}

/// Segments have 32 bytes, so the first one ends within the addresses.
#[test]
fn headers_in_several_mbufs_are_seen() {
    let Some(driver) = driver() else { return };
    let scratch = new_scratch("source");
    write_pcap(scratch.path("a.pcap"), &frames([80, 81]));
    let eal = [
        format!("-d{driver}"),
        format!("--vdev=net_pcap0,rx_pcap={}", scratch.path("a.pcap")),
        "--vdev=net_twin0,wire=w".to_owned(),
        "--vdev=net_twin1,wire=w".to_owned(),
        "--vdev=net_null0,no-rx=1".to_owned(),
    ];
    let mut testpmd = Testpmd::with(&eal, &["--no-flush-rx", "--mbuf-size=160"]);
    let rule = MARK_80.replace("create 0", "create 2");
    testpmd.enter(&format!("flow {rule} / end"), "Flow rule #0 created");
    let received = forward(&mut testpmd, "2", 2);
    assert!(received.iter().all(|line| line.contains("nb_segs=2")), "{received:?}");
    assert!(received.iter().all(|line| line.contains("L4_TCP")), "{received:?}");
    let marked: Vec<_> =
        received.iter().map(|line| line.contains("FDIR matched ID=0x4d")).collect();
    assert_eq!(marked, [true, false], "{received:?}");
}

#[test]
fn a_port_without_a_cable_loses_what_is_sent() {
    let Some(mut bench) = Bench::new("", &[], 1) else { return };
    bench.testpmd.enter("show port info 0", "Link status: down");
    // testpmd does not forward to ports without a link unless it is told to.
    bench.testpmd.enter("set fwd txonly", "Set txonly");
    bench.testpmd.enter("set link-up port 0", "testpmd> ");
    bench.flow(&format!("{MARK_80} / end"), "Flow rule #0 created");
    bench.start();
    wait_until("packets are lost", || bench.counter("tx_errors") > 1000);
    assert_eq!(bench.counter("tx_good_packets"), 0);
}

#[test]
fn queues_and_descriptors_have_a_limit() {
    let Some(mut bench) = Bench::new(",queues=2,rxd=128", &[], 2) else { return };
    bench.testpmd.enter("show port info 0", "Max possible RX queues: 2");
    bench.testpmd.enter("show port info 0", "Max possible number of RXDs per queue: 128");
}

#[test]
fn what_cannot_be_a_port_is_refused() {
    let Some(driver) = driver() else { return };
    let scratch = new_scratch("source");
    let [good, bad] = ["good.pcap", "bad.pcap"].map(|name| scratch.path(name));
    write_pcap(&good, &frames([80]));
    std::fs::write(&bad, b"no capture, whatever its name says").unwrap();
    let good = format!("replay={good}");
    for (devargs, why) in [
        (format!("wire=w,{good}"), "wire=w and replay="),
        (format!("lower=net_null7,{good}"), "and lower=net_null7 exclude each other"),
        ("wire=w,lower=net_null7".to_owned(), "wire=w and lower=net_null7 exclude each other"),
        ("lower=(net_null7,no-rx=1".to_owned(), "a parenthesis is not closed in 'lower=("),
        ("lower=net_nobody7".to_owned(), "lower=net_nobody7: cannot open the port"),
        ("lower=net_twin0".to_owned(), "lower=net_twin0: cannot open the port"),
        ("lower=net_null7,speed=10G".to_owned(), "speed=10G makes sense with"),
        ("pipeline=thread@1".to_owned(), "pipeline=thread@1 makes sense with"),
        ("wire=w,pipeline=threads".to_owned(), "pipeline=threads is neither 'inline' nor"),
        (format!("{good},loops=many"), "loops=many is neither a number from 1 up nor 'forever'"),
        (format!("{good},loops=0"), "loops=0 is neither"),
        ("loops=3".to_owned(), "loops=3 makes sense with replay=FILE only"),
        (format!("{good},{good}"), "replay= is given twice"),
        ("wire=".to_owned(), "wire= has no value"),
        (format!("{good},speed=fast"), "speed=fast is neither a rate from 1M to 400G"),
        (format!("{good},speed=1T"), "speed=1T is neither"),
        ("queues=65".to_owned(), "queues=65 is no number from 1 to 64"),
        ("rxd=many".to_owned(), "rxd=many is no number from 64 to 32768"),
        ("wires=w".to_owned(), "unknown parameter in 'wires=w'; known are: personality=NAME"),
        ("replay=/nowhere.pcap".to_owned(), "the file cannot be opened"),
        (format!("replay={bad}"), "the file is not a capture"),
    ] {
        let eal = [format!("-d{driver}")];
        let mut testpmd = Testpmd::with(&eal, &[]);
        testpmd.enter(&format!("port attach net_twin0,{devargs}"), why);
    }
    drop(scratch);
}
