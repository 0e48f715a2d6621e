// SPDX-License-Identifier: BSD-3-Clause
//! The twin NIC in a program that is not ours: testpmd makes the rules and shows what the NIC did.

use crate::peer::Testpmd;
use crate::{Scratch, has_tools, skip};
use std::fs::File;
use std::path::Path;
use traffic::PcapWriter;
use wire::FrameBuilder;

/// The driver, if it was built: `make test` does so where DPDK's headers for drivers can be had.
/// Says so otherwise.
fn driver() -> Option<String> {
    let driver = std::env::var("MILLRACE_TWIN").ok().filter(|path| Path::new(path).exists());
    if driver.is_none() {
        skip("there is no software NIC at MILLRACE_TWIN; make twin builds it");
    }
    driver.filter(|_| has_tools(&["dpdk-testpmd", "setpriv"]))
}

/// Ports: 0 a capture of `frames`, 1 and 2 the ends of a wire, 3 nobody.
struct Bench {
    testpmd: Testpmd,
    _scratch: Scratch,
}

/// The port that rules are made on: the twin that receives.
const TWIN: &str = "2";

impl Bench {
    fn new(driver: &str, frames: &[Vec<u8>]) -> Self {
        let scratch = Scratch::new("twin");
        let capture = scratch.path("frames.pcap");
        let mut writer = PcapWriter::new(File::create(&capture).unwrap()).unwrap();
        for frame in frames {
            writer.write(0, frame).unwrap();
        }
        writer.finish().unwrap();
        let eal = [
            format!("-d{driver}"),
            format!("--vdev=net_pcap0,rx_pcap={capture}"),
            "--vdev=net_twin0,wire=w".to_owned(),
            "--vdev=net_twin1,wire=w".to_owned(),
            "--vdev=net_null0,no-rx=1".to_owned(),
        ];
        // It would throw away what is in the capture before it starts.
        let testpmd = Testpmd::with(&eal, &["--no-flush-rx"]);
        Self { testpmd, _scratch: scratch }
    }

    fn flow(&mut self, rule: &str, answer: &str) {
        self.testpmd.enter(&rule.replace('@', TWIN), answer);
    }

    /// Lets the frames through; what testpmd printed of those that arrived.
    fn forward(&mut self, arriving: usize) -> String {
        self.testpmd.enter("set verbose 1", "verbose level");
        let begin = self.testpmd.output().len();
        self.testpmd.enter("start", &format!("port {TWIN}/queue 0: received {arriving} packets"));
        self.testpmd.enter("stop", "Done.");
        let printed = self.testpmd.output()[begin..].to_owned();
        let (_, received) = printed.split_once(&format!("port {TWIN}/queue 0")).unwrap();
        received.to_owned()
    }

    /// What a rule counted: packets and bytes.
    fn tally(&mut self, rule: u32) -> (u64, u64) {
        let begin = self.testpmd.output().len();
        self.flow(&format!("flow query @ {rule} count"), " bytes: ");
        let printed = self.testpmd.output()[begin..].to_owned();
        let number = |name: &str| {
            let (_, rest) = printed.split_once(name).expect("testpmd names its counters");
            rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
        };
        (number(" hits: "), number(" bytes: "))
    }
}

fn tcp(dport: u16) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000, dport).pad()
}

const OF_PORT_80: &str = "flow create @ ingress pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 \
                          / tcp src is 1000 dst is 80 / end actions queue index 0 / mark id 77";

#[test]
fn testpmd_sees_marks_drops_and_counts() {
    let Some(driver) = driver() else { return };
    let frames: Vec<_> = [80, 81, 82].map(|dport| tcp(dport).build()).into();
    let mut bench = Bench::new(&driver, &frames);
    bench.flow(&format!("{OF_PORT_80} / count / end"), "Flow rule #0 created");
    bench.flow(
        "flow create @ ingress pattern eth / ipv4 / tcp dst is 82 / end actions drop / count / end",
        "Flow rule #1 created",
    );
    let received = bench.forward(2);
    // Only the first, whose number is that of the rule.
    assert_eq!(received.matches("FDIR matched").count(), 1, "{received}");
    assert!(received.contains("FDIR matched ID=0x4d"), "{received}");
    let bytes = frames[0].len() as u64;
    assert_eq!(bench.tally(0), (1, bytes));
    assert_eq!(bench.tally(1), (1, bytes));
    bench.flow("flow flush @", "testpmd> ");
    bench.flow(&format!("{OF_PORT_80} / end"), "Flow rule #0 created");
}

#[test]
fn testpmd_shows_why_a_rule_is_refused() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::new(&driver, &[]);
    bench.flow(&format!("{OF_PORT_80} / end"), "Flow rule #0 created");
    bench.flow(
        &format!("{OF_PORT_80} / end"),
        "error type 1 (cause unspecified): a rule with this pattern exists: File exists",
    );
    for (rule, answer) in [
        ("pattern eth / ipv4 / gre / end actions drop / end", "item): cause: "),
        ("pattern eth / ipv4 / gre / end actions drop / end", "this item is not supported"),
        ("pattern ipv4 / eth / end actions drop / end", "or of one above, came before"),
        ("pattern eth / end actions queue index 9 / end", "queue index out of range"),
        ("pattern eth / end actions drop / queue index 0 / end", "a packet has one fate"),
        ("group 3 pattern eth / end actions drop / end", "only group 0 is there"),
    ] {
        bench.flow(&format!("flow create @ ingress {rule}"), answer);
    }
    bench.flow("flow create @ egress pattern eth / end actions drop / end", "egress is not");
}
