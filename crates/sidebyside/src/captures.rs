// SPDX-License-Identifier: BSD-3-Clause
//! The packets of the cases, and the captures they are written to. Seeded: every run of the
//! benchmark, on every machine, has the same ones.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use traffic::flood::{self, Target};
use traffic::scenario::{self, Protocol, SHORT_TCP_PACKETS};
use traffic::{PcapWriter, Side};

const SEED: u64 = 1;
/// Time between two packets: nobody looks at it.
const INTERVAL_NS: u64 = 100;

/// What is in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A packet each way of this many flows, shuffled.
    Established(Protocol, u32),
    /// This many TCP connections from SYN to the last ACK.
    ShortTcp(u32),
    /// A packet of each of this many flows, which collide under a weak hash.
    Flood(Target, u32),
    /// A packet of 64 bytes, with its check sequence, of each of this many UDP flows.
    OneWay(u32),
}

impl Traffic {
    /// Name of the capture.
    pub(crate) fn name(self) -> String {
        match self {
            Traffic::Established(Protocol::Tcp, flows) => format!("tcp-{}", in_short(flows)),
            Traffic::Established(Protocol::Udp, flows) => format!("udp-{}", in_short(flows)),
            Traffic::ShortTcp(_) => "short-tcp".to_owned(),
            Traffic::Flood(target, _) => format!("flood-{}", target.name()),
            Traffic::OneWay(flows) => format!("one-way-{}", in_short(flows)),
        }
    }

    /// Flows in the capture.
    pub(crate) fn flows(self) -> usize {
        let (Traffic::Established(_, flows)
        | Traffic::ShortTcp(flows)
        | Traffic::Flood(_, flows)
        | Traffic::OneWay(flows)) = self;
        flows as usize
    }

    /// Packets in the capture.
    pub(crate) fn packets(self) -> usize {
        match self {
            Traffic::Established(..) => 2 * self.flows(),
            Traffic::ShortTcp(_) => SHORT_TCP_PACKETS as usize * self.flows(),
            Traffic::Flood(..) | Traffic::OneWay(_) => self.flows(),
        }
    }

    /// Writes the capture.
    pub(crate) fn write(self, path: &Path) -> io::Result<()> {
        let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
        let mut time_ns = 0;
        let mut result = Ok(());
        let sink = |_: Side, frame: &[u8]| {
            time_ns += INTERVAL_NS;
            if result.is_ok() {
                result = capture.write(time_ns, frame);
            }
        };
        match self {
            Traffic::Established(protocol, flows) => {
                scenario::established(SEED, flows, protocol, sink);
            }
            Traffic::ShortTcp(connections) => scenario::short_tcp(SEED, connections, sink),
            Traffic::Flood(target, flows) => flood::packets(SEED, target, flows, sink),
            Traffic::OneWay(flows) => flood::packets(SEED, Target::Random, flows, sink),
        }
        result?;
        capture.finish()?;
        Ok(())
    }
}

/// 1000 as 1k, 1000000 as 1m.
fn in_short(count: u32) -> String {
    match count {
        1_000_000.. => format!("{}m", count / 1_000_000),
        _ => format!("{}k", count / 1_000),
    }
}
