// SPDX-License-Identifier: BSD-3-Clause
//! Tests ports of one software NIC, which forwards between them by its rules. testpmd creates the
//! rules and does not see the packets.

use crate::captures::read_pcap;
use crate::new_scratch;
use crate::peer::Testpmd;
use crate::twin::{driver, forward, tally, tcp};
use testkit::capture::write_pcap;
use testkit::process::wait_until;
use testkit::scratch::Scratch;

/// testpmd with ports of these `devargs`, in which `@` is a directory that has `frames` in
/// `a.pcap`. It forwards between ports 0 and 1, 2 and 3, 4 and 5.
struct Bench {
    testpmd: Testpmd,
    scratch: Scratch,
}

impl Bench {
    fn new(devargs: &[&str], frames: &[Vec<u8>]) -> Option<Self> {
        let driver = driver()?;
        let scratch = new_scratch("switch");
        write_pcap(scratch.path("a.pcap"), frames);
        let folder = scratch.folder().to_str().expect("a path of ours");
        let ports =
            devargs.iter().map(|devargs| format!("--vdev={}", devargs.replace('@', folder)));
        let eal: Vec<_> = [format!("-d{driver}")].into_iter().chain(ports).collect();
        let testpmd = Testpmd::with(&eal, &["--no-flush-rx"]);
        Some(Self { testpmd, scratch })
    }

    fn enter(&mut self, command: &str, answer: &str) {
        self.testpmd.enter(command, answer);
    }

    /// Returns counters of the extended statistics of a port.
    fn counters<const N: usize>(&mut self, port: u16, names: [&str; N]) -> [u64; N] {
        let begin = self.testpmd.output().len();
        self.enter(&format!("show port xstats {port}"), "tx_switch_bytes: ");
        self.enter("show port summary all", "Number of available ports");
        let printed = self.testpmd.output()[begin..].to_owned();
        names.map(|name| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            let number = line.and_then(|number| number.trim().parse().ok());
            number.unwrap_or_else(|| panic!("no {name}: {printed}"))
        })
    }

    /// Creates a rule that forwards between ports.
    fn make(&mut self, port: u16, rule: &str) {
        self.enter(&format!("flow create {port} transfer {rule}"), "created");
    }

    fn refused(&mut self, port: u16, rule: &str, answer: &str) {
        self.enter(&format!("flow create {port} transfer {rule}"), answer);
    }

    /// Returns the packets that ports 1 and 2 could not forward by their rules.
    fn lost(&mut self) -> u64 {
        [1, 2].map(|port| self.counters(port, ARRIVED)[2]).iter().sum()
    }

    /// Returns the packets that a rule has counted.
    fn hits(&mut self, port: &str, rule: u32) -> u64 {
        tally(&mut self.testpmd, port, rule).0
    }
}

/// Ports: a capture, the wire to the NIC, the NIC's two ports, the wire from the NIC, and a port
/// that discards packets.
const THROUGH: [&str; 6] = [
    "net_pcap0,rx_pcap=@/a.pcap",
    "net_twin0,wire=a",
    "net_twin1,wire=a,switch=s",
    "net_twin2,wire=b,switch=s",
    "net_twin3,wire=b",
    "net_null0,no-rx=1",
];

const ARRIVED: [&str; 3] = ["rx_good_packets", "rx_switch_packets", "rx_switch_drops"];
const SENT: [&str; 3] = ["tx_good_packets", "tx_switch_packets", "tx_switch_bytes"];

fn frames() -> Vec<Vec<u8>> {
    [80, 81, 82, 83].map(|dport| tcp(dport).build()).into()
}

/// Returns pattern and actions of a rule for TCP to port `dport`.
fn rule(dport: u16, actions: &str) -> String {
    format!("eth / ipv4 / tcp dst is {dport} / end actions {actions} / end")
}

#[test]
fn what_rules_send_to_another_port_no_program_sees() {
    let frames = frames();
    let Some(mut bench) = Bench::new(&THROUGH, &frames) else { return };
    bench.enter("show port info 2", "Switch name: s");
    let to_3 = rule(80, "count / represented_port ethdev_port_id 3");
    bench.make(2, &format!("pattern represented_port ethdev_port_id is 2 / {to_3}"));
    bench.make(2, &format!("pattern port_id id is 2 / {}", rule(81, "port_id id 3")));
    // This rule sends packets back to the port where they arrived.
    bench.make(2, &format!("pattern {}", rule(82, "port_id original 1 / count")));
    let begin = bench.testpmd.output().len();
    // One packet passes through testpmd, two by rules.
    assert_eq!(forward(&mut bench.testpmd, "4", 3).len(), 3);
    let printed = bench.testpmd.output()[begin..].to_owned();
    let came_to = |port: &str| {
        let bursts = printed.split("port ").filter(|burst| burst.starts_with(port));
        bursts.flat_map(str::lines).filter(|line| line.contains("Receive queue")).count()
    };
    assert_eq!([came_to("2/queue "), came_to("3/queue ")], [1, 0]);
    assert_eq!([0, 2].map(|rule| bench.hits("2", rule)), [1, 1]);
    assert_eq!(bench.counters(2, ARRIVED), [1, 3, 0]);
    let bytes = frames[0].len() as u64;
    assert_eq!(bench.counters(2, SENT), [0, 1, bytes]);
    assert_eq!(bench.counters(3, SENT), [1, 2, 2 * bytes]);
    assert_eq!(bench.counters(1, ["rx_good_packets"]), [1]);
    bench.enter("flow dump 2 all", "to the wire of port 3, 1 hits");
    bench.enter("flow list 2", "REPRESENTED_PORT");
    bench.refused(2, "pattern eth / end actions port_id id 4 / end", "no port of the same switch=");
    let from_3 = "pattern port_id id is 3 / eth / end actions drop / end";
    bench.refused(2, from_3, "created on the port where packets arrive");
    let alone = "pattern eth / end actions port_id id 3 / end";
    bench.refused(4, alone, "transfer is not supported");
}

#[test]
fn what_a_stopped_port_cannot_send_is_counted() {
    let mut ports = THROUGH;
    ports[0] = "net_pcap0,rx_pcap=@/a.pcap,infinite_rx=1";
    let Some(mut bench) = Bench::new(&ports, &frames()) else { return };
    bench.make(2, "pattern eth / end actions represented_port ethdev_port_id 3 / count / end");
    // testpmd refuses to stop a port that it forwards from.
    bench.enter("set portlist 0,1", "previous number of forwarding ports");
    bench.enter("start", "packet forwarding - ports=");
    wait_until("packets leave", || bench.counters(3, SENT)[1] > 0);
    bench.enter("port stop 3", "Done");
    let sent = bench.counters(3, SENT)[1];
    wait_until("packets are lost", || bench.counters(2, ARRIVED)[2] > 1000);
    bench.enter("stop", "Done.");
    assert_eq!(bench.counters(3, SENT)[1], sent);
    let [received, switched, lost] = bench.counters(2, ARRIVED);
    assert_eq!((received, switched), (0, sent));
    assert_eq!(bench.hits("2", 0), switched + lost);
}

/// Rules at both ends of a wire send each packet back, which would never end.
#[test]
fn a_circle_of_rules_has_an_end() {
    let ports =
        [THROUGH[0], "net_twin0,wire=a,switch=s", "net_twin1,wire=a,switch=s", "net_null0,no-rx=1"];
    let Some(mut bench) = Bench::new(&ports, &frames()) else { return };
    for port in [1, 2] {
        bench.make(port, "pattern eth / end actions port_id original 1 / count / end");
    }
    bench.enter("start", "packet forwarding - ports=");
    wait_until("all are lost", || bench.counters(2, ARRIVED)[2] == 4);
    let hits = [1, 2].map(|port| bench.hits(&port.to_string(), 0));
    assert!(hits[0] > 4 && hits[1] > 4 && hits[0] + hits[1] < 4 * 100, "{hits:?}");
    // Rules that send to the other port directly make the same loop.
    bench.enter("stop", "Done.");
    for (port, other) in [(1, 2), (2, 1)] {
        bench.enter(&format!("flow flush {port}"), "testpmd> ");
        let to_other = format!("pattern eth / end actions port_representor port_id {other} / end");
        bench.make(port, &to_other);
    }
    let lost = bench.lost();
    bench.enter("start tx_first", "packet forwarding - ports=");
    wait_until("all are lost again", || bench.lost() > lost);
}

/// A capture is classified in advance. Port 2 has another driver below it, whose port has number 3.
#[test]
fn captures_and_lower_ports_are_of_a_switch_too() {
    let frames: Vec<_> = (0..300).map(|i| tcp(80 + i % 3).build()).collect();
    let ports = [
        "net_twin0,replay=@/a.pcap,switch=s",
        "net_null0,no-rx=1",
        "net_twin1,lower=(net_pcap0,tx_pcap=@/out.pcap),switch=s",
        "net_twin2,wire=w,switch=s",
        "net_twin3,wire=w",
        "net_null1,no-rx=1",
    ];
    let Some(mut bench) = Bench::new(&ports, &frames) else { return };
    bench.make(0, &format!("pattern {}", rule(80, "represented_port ethdev_port_id 2 / count")));
    bench.make(0, &format!("pattern {}", rule(81, "port_id id 4 / count")));
    bench.enter("start", "packet forwarding - ports=");
    wait_until("the rest arrives", || bench.counters(0, ["rx_good_packets"]) == [100]);
    assert_eq!(bench.counters(0, ARRIVED), [100, 200, 0]);
    assert_eq!([0, 1].map(|rule| bench.hits("0", rule)), [100, 100]);
    assert_eq!(bench.counters(5, ["rx_good_packets"]), [100]);
    bench.enter("stop", "Done.");
    // The lower driver writes its buffered packets when it is closed.
    bench.enter("port stop all", "Done");
    bench.enter("port close all", "Done");
    let sent: Vec<_> = frames.iter().step_by(3).cloned().collect();
    assert_eq!(read_pcap(&bench.scratch.path("out.pcap")), sent);
}

/// A port that replays a capture also receives the packets that rules send to it.
#[test]
fn a_port_with_a_capture_receives_from_others_too() {
    let frames: Vec<_> = (0..300).map(|_| tcp(80).build()).collect();
    let ports = [
        "net_pcap0,rx_pcap=@/a.pcap",
        "net_twin0,wire=w",
        "net_twin1,wire=w,switch=s",
        "net_twin2,replay=@/a.pcap,switch=s",
    ];
    let Some(mut bench) = Bench::new(&ports, &frames) else { return };
    bench.make(2, "pattern eth / end actions count / port_representor port_id 3 / end");
    bench.enter("start", "packet forwarding - ports=");
    wait_until("both arrive", || bench.counters(3, ["rx_good_packets"]) == [600]);
    assert_eq!(bench.counters(2, ARRIVED), [0, 300, 0]);
}

/// The template names the ports, in pattern and actions; a rule selects the packets.
#[test]
fn rules_between_ports_come_by_templates_too() {
    let Some(mut bench) = Bench::new(&THROUGH, &frames()) else { return };
    for (command, answer) in [
        ("port stop 2", "Done"),
        (
            "flow configure 2 queues_number 1 queues_size 4 counters_number 0 \
             aging_counters_number 0 meters_number 0 flags 0",
            "number of queues 1 with 4 elements",
        ),
        ("port start 2", "Done"),
        (
            "flow pattern_template 2 create transfer pattern_template_id 5 relaxed no template \
             represented_port ethdev_port_id mask 0xffff / eth / ipv4 / tcp dst mask 0xffff / end",
            "Pattern template #5 created",
        ),
        (
            "flow actions_template 2 create transfer actions_template_id 6 template count / \
             represented_port ethdev_port_id 3 / end mask count / \
             represented_port ethdev_port_id 0xffff / end",
            "Actions template #6 created",
        ),
        (
            "flow template_table 2 create table_id 8 group 0 priority 0 transfer rules_number 3 \
             pattern_template 5 actions_template 6",
            "Template table #8 created",
        ),
        (
            "flow queue 2 create 0 template_table 8 pattern_template 0 actions_template 0 \
             postpone no pattern represented_port ethdev_port_id spec 2 / eth / ipv4 / \
             tcp dst is 80 / end actions count / represented_port ethdev_port_id 9 / end",
            "Flow rule #0 creation enqueued",
        ),
        ("flow pull 2 queue 0", "1 operations (0 failed, 1 succeeded)"),
    ] {
        bench.enter(command, answer);
    }
    assert_eq!(forward(&mut bench.testpmd, "2", 3).len(), 3);
    assert_eq!(bench.counters(2, ARRIVED), [3, 1, 0]);
    wait_until("all arrive", || bench.counters(4, ["rx_good_packets"]) == [4]);
}
