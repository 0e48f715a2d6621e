// SPDX-License-Identifier: BSD-3-Clause
//! What a run came to: one structure for `run` and `replay`, written as JSON for other tools and as
//! a report for people. Member names are a promise to other tools.
//!
//! The ledger is the point of it: every packet received was sent, dropped for a reason, or is
//! still held, and a run whose ledger is not balanced has failed.

mod offload;
mod report;
#[cfg(test)]
mod tests;

pub use offload::{Offload, OffloadPort, Refused, RuleCounts, Times};

use engine::{Anomaly, EndReason, Stats, UntrackedReason};
use serde::{Serialize, Serializer};

/// The summary of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Version of Millrace.
    pub version: &'static str,
    /// Version of DPDK; `None` without it (`replay`).
    pub dpdk: Option<String>,
    /// Length of the run in seconds; in `replay` by the clock of the captures.
    pub duration_s: f64,
    /// One for each port; empty in `replay`, as are the next two.
    pub ports: Vec<Port>,
    /// One for each worker.
    pub workers: Vec<Worker>,
    /// Upstream and downstream.
    pub directions: Vec<Direction>,
    /// Share of time spent in bursts with packets, over all workers.
    pub cpu_util_percent: f64,
    /// Packets dropped, by reason.
    pub drops: Counts,
    /// Packets forwarded without a flow, by reason.
    pub passed: Counts,
    /// Packets that their connection cannot have, by reason; they are counted to it or dropped.
    pub invalid: Counts,
    /// Packets that change nothing, and that their receiver has to see all the same, by reason.
    pub ignored: Counts,
    /// Where every packet went.
    pub ledger: Ledger,
    /// Flows over the whole run.
    pub flows: Flows,
    /// Rules of the NIC and marks.
    pub offload: Offload,
    /// Connections kept from one run to the next.
    pub snapshot: Snapshot,
}

/// Counters of one port, as DPDK has them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Port {
    /// Its device string, as given.
    pub name: String,
    /// Packets received, as the driver counts.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent, as the driver counts.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets lost because no receive descriptor was free.
    pub imissed: u64,
    /// Packets received with an error.
    pub ierrors: u64,
    /// Times that no packet buffer was left for a packet.
    pub rx_nombuf: u64,
    /// Packets that were not sent because of an error.
    pub oerrors: u64,
    /// Times it was reset and came back.
    pub resets: u64,
}

/// Where the cycles of one worker went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Worker {
    /// Number of its lcore.
    pub lcore: u32,
    /// Packets it received.
    pub packets: u64,
    /// Bursts it received that had at least one packet.
    pub bursts: u64,
    /// Packets given to the workers that have their connections, and taken over from others.
    pub handed_over: u64,
    /// Packets taken over from others.
    pub taken_over: u64,
    /// Cycles of turns with packets.
    pub busy_cycles: u64,
    /// Cycles of turns without packets.
    pub idle_cycles: u64,
    /// Of turns so long that something else must have had the cpu.
    pub stalled_cycles: u64,
    /// Busy cycles over packets.
    pub cycles_per_packet: f64,
    /// Times between polls.
    pub poll_gap_us: PollGap,
    /// Busy cycles by stage.
    pub stage_cycles: StageCycles,
    /// Memory of its flow tables, and the part of it on hugepages.
    pub table_bytes: u64,
    /// The part of the tables on hugepages.
    pub table_huge_page_bytes: u64,
}

/// Microseconds from one poll of a worker's ports to the next; quantiles to a quarter of an octave.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PollGap {
    /// Half of them are no longer.
    pub p50: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
    /// 999 of 1,000 are no longer.
    pub p99_9: f64,
    /// 9,999 of 10,000 are no longer.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

/// Cycles per stage of a packet's path. Together they are the busy cycles.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageCycles {
    /// Fetching bursts.
    pub rx: u64,
    /// Counting packets by the NIC's marks.
    pub mark: u64,
    /// From headers to flow key.
    pub parse: u64,
    /// Hash, bucket, candidate record.
    pub lookup: u64,
    /// Comparing keys, counting, state.
    pub track: u64,
    /// New connections.
    pub miss: u64,
    /// Handing to the peer port, and freeing what it has no room for.
    pub tx: u64,
    /// Timers, flow records, published counters.
    pub housekeeping: u64,
    /// Between the stages.
    pub other: u64,
}

impl StageCycles {
    /// All of them, in the order of a packet's path.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        let Self { rx, mark, parse, lookup, track, miss, tx, housekeeping, other } = *self;
        [
            ("rx", rx),
            ("mark", mark),
            ("parse", parse),
            ("lookup", lookup),
            ("track", track),
            ("miss", miss),
            ("tx", tx),
            ("housekeeping", housekeeping),
            ("other", other),
        ]
    }
}

/// Rates of one direction through the bump.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Direction {
    /// `up` or `down`.
    pub name: &'static str,
    /// Packets that were sent on.
    pub packets: u64,
    /// Packets per second.
    pub pps: f64,
    /// Counts frame, FCS, preamble and gap.
    pub wire_mbps: f64,
}

/// What happened to the packets received.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ledger {
    /// Packets received.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// In places and rings of our own.
    pub held: u64,
    /// rx = tx + dropped + held.
    pub balanced: bool,
}

/// Flows created and ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Flows {
    /// Still in the table.
    pub active: u64,
    /// Connections that began.
    pub created: u64,
    /// By reason.
    pub ended: Counts,
    /// Packets of new flows that found no room.
    pub(crate) table_full: u64,
    /// Flow records lost because they came too fast, or could not be written.
    pub records_lost: u64,
}

/// What was kept of the run before, and is kept for the next one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Connections of the run before that are known again.
    pub restored: u64,
    /// Those whose timeout was over.
    pub expired: u64,
    /// Those that found no room, or could not be.
    pub refused: u64,
    /// Until all were known, milliseconds.
    pub restore_ms: u64,
    /// Snapshots written.
    pub written: u64,
    /// How long the last one took, milliseconds.
    pub last_ms: u64,
    /// Bytes of the last one.
    pub bytes: u64,
}

/// Counters with a name and a line of explanation. In JSON an object with every name in it, in
/// their fixed order.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    name: &'static str,
    doc: &'static str,
    n: u64,
}

impl Summary {
    /// A summary of nothing yet.
    pub fn new() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), ..Self::default() }
    }

    /// Adds the counters of one engine.
    pub fn add_engine(&mut self, stats: &Stats) {
        for reason in UntrackedReason::ALL {
            self.passed.add(reason.name(), reason.doc(), stats.passed[reason as usize]);
            self.drops.add(reason.name(), reason.doc(), stats.dropped[reason as usize]);
        }
        for reason in Anomaly::ALL {
            let counts = if reason.is_invalid() { &mut self.invalid } else { &mut self.ignored };
            counts.add(reason.name(), reason.doc(), stats.irregular[reason as usize]);
        }
        for reason in EndReason::ALL {
            let n = stats.ended[reason as usize];
            self.flows.ended.add(reason.name(), end_reason_doc(reason), n);
        }
        self.flows.active += stats.active();
        self.flows.created += stats.created;
        self.flows.records_lost += stats.records_lost;
        let full = UntrackedReason::TableFull as usize;
        self.flows.table_full += stats.passed[full] + stats.dropped[full];
    }

    /// Closes the ledger: `drops` must be complete.
    pub fn balance(&mut self, rx: u64, tx: u64, held: u64) {
        let dropped = self.drops.total();
        self.ledger = Ledger { rx, tx, dropped, held, balanced: rx == tx + dropped + held };
    }
}

impl Counts {
    /// Adds `n` to the counter `name`, made if it is not there.
    pub fn add(&mut self, name: &'static str, doc: &'static str, n: u64) {
        match self.0.iter_mut().find(|count| count.name == name) {
            Some(count) => count.n += n,
            None => self.0.push(Count { name, doc, n }),
        }
    }

    /// Sum of all counters.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.n).sum()
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|count| (count.name, count.n)))
    }
}

fn end_reason_doc(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "no packet for as long as the timeout",
        EndReason::Fin => "TCP, FIN of both sides",
        EndReason::Rst => "TCP, reset",
        EndReason::Reuse => "TCP, a new connection took the ports",
        EndReason::Evicted => "embryonic, gone for a new connection",
        EndReason::Flushed => "somebody asked for its end",
        EndReason::Exit => "alive at the end of the run",
    }
}
