// SPDX-License-Identifier: BSD-3-Clause
//! Generates the packets of the cases and writes them to captures. The seed is fixed, so all runs
//! on all machines use the same packets.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use traffic::article;
use traffic::flood::{self, Target};
use traffic::scenario::{self, Protocol, SHORT_TCP_PACKETS};
use traffic::{PcapWriter, Side};

const SEED: u64 = 1;
/// Time between two packets of a capture. The drivers that replay captures ignore it.
const INTERVAL_NS: u64 = 100;

/// Content of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// One packet in each direction of this many flows, shuffled.
    Established(Protocol, u32),
    /// This many complete TCP connections, from SYN to the last ACK.
    ShortTcp(u32),
    /// One packet of each of this many flows, whose keys collide under a weak hash.
    Flood(Target, u32),
    /// One packet of each of this many UDP flows: 64 bytes, including the frame check sequence.
    OneWay(u32),
    /// Small TCP as in the FlowTable article: the same SYN and the same SYN+ACK, over and over.
    SynSynAck,
}

impl Traffic {
    /// Returns the name of the capture.
    pub(crate) fn name(self) -> String {
        match self {
            Traffic::Established(Protocol::Tcp, flows) => format!("tcp-{}", abbreviate(flows)),
            Traffic::Established(Protocol::Udp, flows) => format!("udp-{}", abbreviate(flows)),
            Traffic::ShortTcp(_) => "short-tcp".to_owned(),
            Traffic::Flood(target, _) => format!("flood-{}", target.name()),
            Traffic::OneWay(flows) => format!("one-way-{}", abbreviate(flows)),
            Traffic::SynSynAck => "syn-synack".to_owned(),
        }
    }

    /// Returns the number of flows in the capture.
    pub(crate) fn flows(self) -> usize {
        match self {
            Traffic::Established(_, flows)
            | Traffic::ShortTcp(flows)
            | Traffic::Flood(_, flows)
            | Traffic::OneWay(flows) => flows as usize,
            Traffic::SynSynAck => 1,
        }
    }

    /// Returns the number of packets in the capture.
    pub(crate) fn packets(self) -> usize {
        match self {
            Traffic::Established(..) => 2 * self.flows(),
            Traffic::ShortTcp(_) => SHORT_TCP_PACKETS as usize * self.flows(),
            Traffic::Flood(..) | Traffic::OneWay(_) => self.flows(),
            Traffic::SynSynAck => 2 * article::REPEATS as usize,
        }
    }

    /// Writes the capture to `path`.
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
            Traffic::SynSynAck => article::small_tcp(SEED, sink),
        }
        result?;
        capture.finish()?;
        Ok(())
    }
}

/// Formats a count as thousands or millions: 1000 as `1k`, 1000000 as `1m`.
fn abbreviate(count: u32) -> String {
    match count {
        1_000_000.. => format!("{}m", count / 1_000_000),
        _ => format!("{}k", count / 1_000),
    }
}
