// SPDX-License-Identifier: BSD-3-Clause
//! Tests the software NIC in another program: testpmd creates rules and prints the packets it
//! receives.

use crate::bump::{Setup, count};
use crate::captures::{Talk, is_a, is_complete, read_pcap};
use crate::new_scratch;
use crate::pairs::pcap_port;
use crate::peer::Testpmd;
use crate::records::{Record, conversations};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use testkit::capture::write_pcap;
use testkit::host::{has_cpus, has_tools, twin_driver_or_skip};
use testkit::process::wait_until;
use testkit::scratch::Scratch;
use wire::FrameBuilder;

/// Returns the path of the driver and checks for testpmd. `None` after a message if one is missing:
/// `make test` builds the driver if DPDK's driver headers are available.
pub(crate) fn driver() -> Option<String> {
    let driver = twin_driver_or_skip()?.into_os_string().into_string().ok();
    driver.filter(|_| has_tools(&["dpdk-testpmd", "setpriv"]))
}

/// A wire connects two pairs: one bump receives the packets that the other sends.
#[test]
fn two_pairs_talk_over_a_wire() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("wire");
    // Fewer frames than descriptors, because the other worker may begin late.
    let talk = Talk::new(1, 300);
    assert!(talk.frames.iter().all(|frames| frames.len() < 1000));
    let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let [left, right] = [("0", a, &a_out), ("1", b, &b_out)]
        .map(|(name, rx, tx)| pcap_port(name, &[rx], std::slice::from_ref(tx)));
    let setup = setup.pair(&left, "net_twin0,wire=w").pair("net_twin1,wire=w", &right);
    let mut bump = setup.start();
    bump.wait_until("all frames", |_| {
        is_complete(&b_out, &talk.frames[0]) && is_complete(&a_out, &talk.frames[1])
    });
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!(read_pcap(&b_out), talk.frames[0]);
    assert_eq!(read_pcap(&a_out), talk.frames[1]);
    // Both pairs track each connection.
    assert_eq!(ended.records().len(), 2 * talk.conversations.len());
}

/// The two directions arrive at different ports, which must choose the same queue.
#[test]
fn both_directions_of_a_connection_come_to_one_worker() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("rss");
    let talk = Talk::new(1, 300);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let [a, b] = [a, b].map(|capture| format!("replay={capture}"));
    let setup = setup.pair(&format!("net_twin0,{a}"), &format!("net_twin1,{b}"));
    let mut bump = setup.args(&["--workers", "2"]).start();
    let packets = talk.frames.iter().map(Vec::len).sum::<usize>() as u64;
    bump.wait_for_line("silence after all flows", |line| line.flows >= 300.0 && line.is_silent());
    let ended = bump.finish();
    ended.assert_balanced();
    assert!(!ended.stderr.contains("symmetric"), "{}", ended.stderr);
    // One record for each direction would give the same sums.
    let records = ended.records();
    assert_eq!(records.len(), talk.conversations.len());
    assert_eq!(conversations(&records, is_a), talk.conversations);
    let shares = [0, 1].map(|worker| count(&ended.summary()["workers"][worker]["packets"]));
    assert_eq!(shares[0] + shares[1], packets);
    assert!(shares.iter().all(|&share| share > packets / 10), "{shares:?}");
}

/// The NIC spreads fragments by their addresses only, and ICMP errors by the addresses of the
/// router that sends them.
#[test]
fn what_comes_to_another_worker_finds_its_connection() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    const CONNECTIONS: u16 = 64;
    let setup = Setup::new("elsewhere");
    let of = |i: u16| {
        let packet = FrameBuilder::ipv4([10, 0, 0, i as u8], [10, 0, 255, 255]).ip_id(i.into());
        // The NIC's hash is linear, so consecutive ports might all belong to one worker.
        packet.udp(1024 + i.wrapping_mul(40_503) / 2, 53)
    };
    let first = (0..CONNECTIONS).map(|i| of(i).payload([1; 40]).build());
    // Other frames in between, until both workers have all connections.
    let pause = || (0..1000).map(|_| FrameBuilder::ethernet(0x88cc).payload([0; 46]).build());
    let fragments = |of: FrameBuilder| of.payload([2; 2000]).fragments(1000);
    let built = |pieces: Vec<FrameBuilder>| pieces.into_iter().map(|piece| piece.build());
    let there = (0..CONNECTIONS).flat_map(|i| built(fragments(of(i))));
    let back = (0..CONNECTIONS).flat_map(|i| built(fragments(of(i).reversed())));
    let errors = (0..CONNECTIONS).map(|i| {
        let router = FrameBuilder::ipv4([10, 9, i as u8, 9], [10, 0, 0, i as u8]);
        router.icmp_error(3, 4, &of(i).payload([1; 40]).build_packet()).build()
    });
    let [a, b] = ["a.pcap", "b.pcap"].map(|name| setup.path(name));
    write_pcap(&a, &first.chain(pause()).chain(there).chain(errors).collect::<Vec<_>>());
    write_pcap(&b, &pause().chain(pause()).chain(back).collect::<Vec<_>>());
    let [a, b] = [a, b].map(|capture| format!("replay={capture},speed=10M"));
    let setup = setup.pair(&format!("net_twin0,{a}"), &format!("net_twin1,{b}"));
    let setup = setup.args(&["--workers", "2"]);
    let mut bump = setup.start();
    bump.wait_for_line("silence after all flows", |line| line.flows >= 64.0 && line.is_silent());
    let ended = bump.finish();
    ended.assert_balanced();
    let (summary, records) = (ended.summary(), ended.records());
    assert_eq!(records.len(), usize::from(CONNECTIONS));
    // Queues are polled independently, so a packet of the second port may come first. Its sender is
    // then the originator.
    let packets = |record: &Record| record.tallies().map(|tally| tally.packets);
    let is_whole = |record: &Record| [[4, 3], [3, 4]].contains(&packets(record));
    assert!(records.iter().all(is_whole), "{records:?}");
    let sent = |direction: usize| count(&summary["directions"][direction]["packets"]);
    let of_each = u64::from(CONNECTIONS);
    assert_eq!([sent(0), sent(1)], [1000 + 5 * of_each, 2000 + 3 * of_each]);
    assert_eq!(count(&summary["passed"]["related"]), u64::from(CONNECTIONS));
    let of = |member: &str| {
        let workers = summary["workers"].as_array().unwrap().iter();
        workers.map(|worker| count(&worker[member])).sum::<u64>()
    };
    let (given, taken) = (of("handed_over"), of("taken_over"));
    assert!(given == taken && given > u64::from(CONNECTIONS / 2), "{given} {taken}");
}

#[test]
fn a_driver_that_was_not_built_is_named() {
    let nowhere = Setup::new("nowhere");
    let mut launcher = Command::new("env");
    launcher.arg("MILLRACE_TWIN=/nowhere/librte_net_twin.so");
    let setup = nowhere.launcher(launcher).pair("net_twin0,wire=w", "net_twin1,wire=w");
    setup.assert_refused(1, &["net_twin0,wire=w", "/nowhere/librte_net_twin.so", "make twin"]);
}

#[test]
fn a_driver_in_a_folder_of_everybody_is_refused_with_the_folder() {
    let setup = Setup::new("open");
    let (folder, driver) = (setup.path("open"), setup.path("open/librte_net_twin.so"));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    fs::write(&driver, "").unwrap();
    let mut launcher = Command::new("env");
    launcher.arg(format!("MILLRACE_TWIN={driver}"));
    let setup = setup.launcher(launcher).pair("net_twin0,wire=w", "net_twin1,wire=w");
    let texts = ["port net_twin0,wire=w: ", "every user may write to /", "only root can write to"];
    setup.assert_refused(1, &texts);
}

/// testpmd with four ports: 0 replays `frames`, 1 and 2 are the ends of a wire, 3 discards packets.
pub(crate) struct Bench {
    pub(crate) testpmd: Testpmd,
    _scratch: Scratch,
}

/// Number of the twin that receives, on which rules are created.
const TWIN: &str = "2";

impl Bench {
    /// Starts with `queues` queues per direction of each port. All frames arrive at the first queue
    /// of port 0.
    pub(crate) fn new(driver: &str, frames: &[Vec<u8>], queues: usize) -> Self {
        Self::playing("ideal", driver, frames, queues)
    }

    /// Starts with a personality of the port that receives.
    pub(crate) fn playing(
        personality: &str,
        driver: &str,
        frames: &[Vec<u8>],
        queues: usize,
    ) -> Self {
        let scratch = new_scratch("twin");
        let captures = (0..queues).map(|queue| {
            let capture = scratch.path(&format!("{queue}.pcap"));
            write_pcap(&capture, if queue == 0 { frames } else { &[] });
            format!(",rx_pcap={capture}")
        });
        let eal = [
            format!("-d{driver}"),
            format!("--vdev=net_pcap0{}", captures.collect::<String>()),
            "--vdev=net_twin0,wire=w".to_owned(),
            format!("--vdev=net_twin1,wire=w,personality={personality}"),
            "--vdev=net_null0,no-rx=1".to_owned(),
        ];
        // Otherwise testpmd discards the capture before it starts.
        let [rxq, txq] = ["rxq", "txq"].map(|queue| format!("--{queue}={queues}"));
        let testpmd = Testpmd::with(&eal, &["--no-flush-rx", &rxq, &txq]);
        Self { testpmd, _scratch: scratch }
    }

    pub(crate) fn flow(&mut self, rule: &str, answer: &str) {
        self.testpmd.enter(&rule.replace('@', TWIN), answer);
    }

    /// Forwards the frames. Returns a line of testpmd for each frame that arrived.
    pub(crate) fn forward(&mut self, arriving: usize) -> Vec<String> {
        forward(&mut self.testpmd, TWIN, arriving)
    }

    /// Returns packets and bytes that a rule has counted.
    pub(crate) fn tally(&mut self, rule: u32) -> (u64, u64) {
        tally(&mut self.testpmd, TWIN, rule)
    }
}

/// Forwards frames. Returns a line of testpmd for each frame that arrived at `port`.
pub(crate) fn forward(testpmd: &mut Testpmd, port: &str, arriving: usize) -> Vec<String> {
    testpmd.enter("set verbose 1", "verbose level");
    let begin = testpmd.output().len();
    testpmd.enter("start", "packet forwarding - ports=");
    let mut received = Vec::new();
    wait_until("all frames arrive", || {
        let printed = testpmd.output()[begin..].to_owned();
        // Output of another thread may precede it on the line.
        let of_port = format!("{port}/queue ");
        let bursts = printed.split("port ").filter(|burst| burst.starts_with(&of_port));
        let lines = bursts.flat_map(str::lines).filter(|line| line.contains(" - dst="));
        received = lines.map(str::to_owned).collect();
        // The last line may be incomplete.
        received.len() == arriving && received.iter().all(|line| line.contains("Receive queue"))
    });
    testpmd.enter("stop", "Done.");
    received
}

/// Returns packets and bytes that a rule of `port` has counted.
pub(crate) fn tally(testpmd: &mut Testpmd, port: &str, rule: u32) -> (u64, u64) {
    let begin = testpmd.output().len();
    testpmd.enter(&format!("flow query {port} {rule} count"), " bytes: ");
    let printed = testpmd.output()[begin..].to_owned();
    let number = |name: &str| {
        let (_, rest) = printed.split_once(name).expect("testpmd names its counters");
        rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
    };
    (number(" hits: "), number(" bytes: "))
}

pub(crate) fn tcp(dport: u16) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000, dport).pad()
}

const OF_PORT_80: &str = "flow create @ ingress pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 \
                          / tcp src is 1000 dst is 80 / end actions queue index 0 / mark id 77";

#[test]
fn testpmd_sees_marks_drops_and_counts() {
    let Some(driver) = driver() else { return };
    let frames: Vec<_> = [80, 81, 82].map(|dport| tcp(dport).build()).into();
    let mut bench = Bench::new(&driver, &frames, 1);
    bench.flow(&format!("{OF_PORT_80} / count / end"), "Flow rule #0 created");
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / tcp dst is 82 / end actions drop / count / end",
        "Flow rule #1 created",
    );
    let received = bench.forward(2);
    // Only the first packet is marked, with the id of the rule.
    assert!(received[0].contains("FDIR matched ID=0x4d"), "{received:?}");
    assert!(!received[1].contains("FDIR matched"), "{received:?}");
    assert!(received[0].contains("hw ptype: L2_ETHER L3_IPV4_EXT_UNKNOWN L4_TCP"), "{received:?}");
    let bytes = frames[0].len() as u64;
    assert_eq!(bench.tally(0), (1, bytes));
    assert_eq!(bench.tally(1), (1, bytes));
    bench.flow("show port xstats @", "rx_rule_drops: 1\n");
    bench.flow("flow flush @", "testpmd> ");
    bench.flow(&format!("{OF_PORT_80} / end"), "Flow rule #0 created");
}

/// testpmd prints a line with the checksum flags of each packet.
#[test]
fn testpmd_sees_whether_checksums_are_good() {
    let Some(driver) = driver() else { return };
    let udp = || FrameBuilder::ipv6([0x20; 16], [0x21; 16]).udp(1000, 53).payload([7; 33]);
    let frames = [
        tcp(80).build(),
        tcp(80).checksum(1).build(),
        tcp(80).ip_checksum(1).build(),
        tcp(80).payload([7; 64]).fragment(0, true).build(),
        udp().build(),
        udp().checksum(1).build(),
    ];
    let mut bench = Bench::new(&driver, &frames, 1);
    bench.flow("port stop @", "Done");
    for offload in ["ipv4_cksum", "tcp_cksum", "udp_cksum"] {
        bench.flow(&format!("port config @ rx_offload {offload} on"), "testpmd> ");
    }
    bench.flow("port start @", "Done");
    let begin = bench.testpmd.output().len();
    bench.forward(frames.len());
    let printed = bench.testpmd.output()[begin..].to_owned();
    let of_port = format!("{TWIN}/queue ");
    let bursts = printed.split("port ").filter(|burst| burst.starts_with(&of_port));
    // testpmd prints sent packets too.
    let received = bursts.flat_map(str::lines).filter(|line| line.contains("RX_L4_CKSUM"));
    let flag = |line: &str, of: &str| {
        let of = format!("RTE_MBUF_F_RX_{of}_CKSUM_");
        let (_, rest) = line.split_once(&of).expect("testpmd names it");
        rest.split_whitespace().next().expect("a word").to_owned()
    };
    let received: Vec<_> = received.map(|line| (flag(line, "IP"), flag(line, "L4"))).collect();
    let expected = [
        ("GOOD", "GOOD"),
        ("GOOD", "BAD"),
        ("BAD", "GOOD"),
        ("GOOD", "UNKNOWN"),
        ("UNKNOWN", "GOOD"),
        ("UNKNOWN", "BAD"),
    ];
    assert_eq!(received, expected.map(|(ip, l4)| (ip.to_owned(), l4.to_owned())), "{printed}");
}

/// Packets of Microsoft's "Verifying the RSS Hash Calculation": the hash's low bit is the queue.
#[test]
fn testpmd_sees_hashes_and_queues() {
    let Some(driver) = driver() else { return };
    let frames = [
        FrameBuilder::ipv4([66, 9, 149, 187], [161, 142, 100, 80]).tcp(2794, 1766).build(),
        FrameBuilder::ipv4([38, 27, 205, 30], [209, 142, 163, 6]).tcp(48228, 2217).build(),
    ];
    let mut bench = Bench::new(&driver, &frames, 2);
    bench.flow("port config all rss tcp", "testpmd> ");
    let received = bench.forward(2);
    for (hash, queue) in [("0x51ccc178", 0), ("0xafc7327f", 1)] {
        let line = received.iter().find(|line| line.contains(&format!("RSS hash={hash}")));
        let line = line.unwrap_or_else(|| panic!("no packet with hash {hash}: {received:?}"));
        assert!(line.contains(&format!("RSS queue={queue:#x}")), "{line}");
    }
}

/// Open vSwitch requests rules like this: a mark, and RSS as without the rule, for untagged packets
/// only.
#[test]
fn testpmd_sees_marked_packets_spread() {
    let Some(driver) = driver() else { return };
    let frames = [tcp(80), tcp(80).vlan(5), tcp(81)].map(|frame| frame.build());
    let mut bench = Bench::new(&driver, &frames, 2);
    bench.flow(
        "flow create @ ingress pattern eth has_vlan is 0 / ipv4 / tcp dst is 80 / end \
         actions mark id 5 / rss queues 1 end / end",
        "Flow rule #0 created",
    );
    let received = bench.forward(3);
    let marked: Vec<_> = received.iter().filter(|line| line.contains("FDIR matched")).collect();
    assert_eq!(marked.len(), 1, "{received:?}");
    assert!(marked[0].contains("ID=0x5") && marked[0].contains("type=0x0800"), "{received:?}");
    assert!(marked[0].contains("Receive queue=0x1"), "{received:?}");
    let queues = received.iter().filter(|line| line.contains("Receive queue=0x1")).count();
    // The other packets are spread by the hash of their addresses.
    assert!(queues == 1 || queues == 3, "{received:?}");
}

/// With symmetric RSS in a rule, both directions have the same hash and queue.
#[test]
fn testpmd_sees_connections_kept_together() {
    let Some(driver) = driver() else { return };
    let connection =
        |i: u8| FrameBuilder::ipv4([10, 0, 0, i], [9, i, 0, 1]).tcp(1000 + u16::from(i), 80);
    let frames: Vec<_> =
        (0..16).flat_map(|i| [connection(i).build(), connection(i).reversed().build()]).collect();
    let mut bench = Bench::new(&driver, &frames, 2);
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / tcp / end \
         actions rss func symmetric_toeplitz types ipv4-tcp end queues 0 1 end / end",
        "Flow rule #0 created",
    );
    let received = bench.forward(frames.len());
    let hash = |line: &String| {
        let (_, rest) = line.split_once("RSS hash=").expect("a hash");
        rest.split_whitespace().next().expect("a number").to_owned()
    };
    let mut times = std::collections::BTreeMap::<_, u32>::new();
    received.iter().for_each(|line| *times.entry(hash(line)).or_default() += 1);
    assert_eq!(times.len(), 16, "{received:?}");
    assert!(times.values().all(|&times| times == 2), "{received:?}");
    assert!(["0x0", "0x1"].iter().all(|queue| {
        received.iter().any(|line| line.contains(&format!("Receive queue={queue}")))
    }));
}

#[test]
fn an_isolated_port_receives_what_rules_take() {
    let Some(driver) = driver() else { return };
    let frames = [80, 81, 82].map(|dport| tcp(dport).build());
    let mut bench = Bench::new(&driver, &frames, 1);
    bench.flow(&format!("{OF_PORT_80} / end"), "Flow rule #0 created");
    // This rule marks packets and names no queue.
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / tcp dst is 81 / end actions mark id 5 / end",
        "Flow rule #1 created",
    );
    bench.flow("flow isolate @ true", "is now restricted to the defined flow rules");
    let received = bench.forward(1);
    assert!(received[0].contains("FDIR matched ID=0x4d"), "{received:?}");
    bench.flow("show port xstats @", "rx_rule_drops: 2\n");
    bench.flow("flow isolate @ false", "is not restricted anymore");
    // The capture starts from its beginning.
    for command in ["port stop 0", "port start 0"] {
        bench.flow(command, "Done");
    }
    assert_eq!(bench.forward(3).len(), 3);
}

#[test]
fn isolation_is_not_for_every_nic_and_time() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::playing("x710", &driver, &[], 1);
    bench.flow("flow isolate @ true", "Function not implemented: Function not implemented");
    let mut bench = Bench::playing("cx5", &driver, &[], 1);
    bench.flow("flow isolate @ true", "port must be stopped first: Device or resource busy");
    bench.flow("port stop @", "Done");
    bench.flow("flow isolate @ true", "is now restricted");
}

#[test]
fn testpmd_shows_why_a_rule_is_refused() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::new(&driver, &[], 1);
    bench.flow(&format!("{OF_PORT_80} / end"), "Flow rule #0 created");
    bench.flow(
        &format!("{OF_PORT_80} / end"),
        "error type 1 (cause unspecified): a rule with this pattern exists: File exists",
    );
    for (rule, answer) in [
        ("pattern eth / ipv4 / esp / end actions drop / end", "item): cause: "),
        ("pattern eth / ipv4 / esp / end actions drop / end", "this item is not supported"),
        ("pattern ipv4 / eth / end actions drop / end", "or of one above, came before"),
        ("pattern eth / end actions queue index 9 / end", "queue index out of range"),
        ("pattern eth / end actions drop / queue index 0 / end", "a packet has one fate"),
        ("pattern eth / end actions rss queues 0 9 end / end", "queue index out of range"),
        ("pattern eth has_vlan is 0 / vlan / end actions drop / end", "it is not there"),
    ] {
        bench.flow(&format!("flow create @ ingress {rule}"), answer);
    }
    bench.flow("flow create @ egress pattern eth / end actions drop / end", "is for ingress");
}

/// A port is detached and attached again, with packets left in its queues.
#[test]
fn testpmd_detaches_and_attaches_a_port() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::new(&driver, &[tcp(80).build()], 2);
    bench.forward(1);
    for _ in 0..2 {
        bench.flow("port stop @", "Done");
        bench.flow("port detach @", "Now total ports is 3");
        bench.flow("port attach net_twin1,wire=w", "Now total ports is 4");
        bench.flow("port start @", "Done");
    }
}

/// The two commands of the FlowTable article, and the mark that its hardware did not show.
#[test]
fn testpmd_gets_the_articles_answers() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::playing("x710-17.02", &driver, &[tcp(80).build(), tcp(81).build()], 2);
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / udp / end actions queue index 1 / end",
        "(specific pattern item): cause: ",
    );
    assert!(bench.testpmd.output().contains("NULL IPv4 spec/mask: Invalid argument"));
    let tuple = "flow create @ ingress pattern ipv4 src is 10.0.0.1 dst is 10.0.0.2 / tcp src is \
                 1000 dst is 80 / end actions queue index 1 / mark id 1 / end";
    bench.flow(tuple, "Flow rule #0 created");
    bench.flow(tuple, "(flow rule (handle)): Failed to create flow.: Invalid argument");
    let received = bench.forward(2);
    assert!(received[0].contains("FDIR matched ID=0x1"), "{received:?}");
    assert!(received[0].contains("Receive queue=0x1"), "{received:?}");
    assert!(!received[1].contains("FDIR"), "{received:?}");
}

/// One message of each personality; the tests of the model have the others.
#[test]
fn testpmd_shows_each_personalitys_words() {
    let Some(driver) = driver() else { return };
    for (personality, rule, answer) in [
        ("x710", "pattern ipv4 / tcp / end actions queue index 0", "Unsupported pattern: Inv"),
        ("e810", "pattern eth / ipv4 / end actions queue index 0", "Invalid input set: Inv"),
        ("cx5", "pattern eth / udp / end actions drop", "L3 is mandatory to filter on L4: Inv"),
        ("cx6dx", "pattern eth / ipv4 / end actions mark id 1", "no fate action is found: Inv"),
        ("ntnic", "pattern eth / ipv4 / end actions passthru", "flow action received: Inv"),
        ("ntacc", "pattern eth / end actions mark id 1", "information must be set: Op"),
        ("n6010", "pattern eth / end actions drop", "Function not implemented: Fun"),
    ] {
        let mut bench = Bench::playing(personality, &driver, &[], 1);
        bench.flow(&format!("flow create @ ingress {rule} / end"), answer);
    }
}

/// A rule without packets for a second: testpmd gets the event, lists the rule, and queries it.
#[test]
fn testpmd_is_notified_of_aged_rules() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::new(&driver, &[], 1);
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / end actions queue index 0 / \
         age timeout 1 / end",
        "Flow rule #0 created",
    );
    wait_until("the event", || bench.testpmd.output().contains("flow aged event"));
    bench.flow("flow aged @", "total aged flows: 1");
    bench.flow("flow query @ 0 age", "aged: 1");
    bench.flow("flow dump @ all", "eth / ipv4 => queue 0");
    bench.flow("flow aged @ destroy", "Flow rule #0 destroyed");
    bench.flow("flow aged @", "total aged flows: 0");
}
