// SPDX-License-Identifier: BSD-3-Clause
//! Summarizes a run: one structure for `run` and `replay`, written as JSON for other tools and as a
//! report. Other tools rely on the member names.
//!
//! The ledger is its main part: every packet received was sent, dropped for a reason, or is still
//! held. A run whose ledger is not balanced has failed.

mod energy;
mod offload;
mod report;
#[cfg(test)]
mod tests;

pub use energy::Energy;
pub use offload::{NicDenied, Offload, OffloadPort, Refused, RuleCounts, Times};

use engine::{Anomaly, EndReason, Stats, UntrackedReason};
use serde::{Serialize, Serializer};

/// The summary of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Version of Millrace.
    pub version: &'static str,
    /// Version of DPDK; `None` without it (`replay`).
    pub dpdk: Option<String>,
    /// Length of the run in seconds; in `replay`, by the time stamps of the captures.
    pub duration_s: f64,
    /// Figures of each port; empty in `replay`, as are workers and directions.
    pub ports: Vec<Port>,
    /// Figures of each worker.
    pub workers: Vec<Worker>,
    /// Rates upstream and downstream.
    pub directions: Vec<Direction>,
    /// Share of time spent in bursts with packets, over all workers.
    pub cpu_util_percent: f64,
    /// Packets dropped, by reason.
    pub drops: Counts,
    /// Packets that access lists rejected, by what became of their answers. They are also among
    /// the dropped packets; the answers are in no other counter but those of the ports.
    pub rejects: Rejects,
    /// Packets that access lists logged, or were to log.
    pub access_log: AccessLogCounts,
    /// Packets forwarded without a connection, by reason.
    pub passed: Counts,
    /// Packets that do not fit the state of their connection, by reason. They are counted to it or
    /// dropped.
    pub invalid: Counts,
    /// Packets that change no state but are forwarded to their receiver, by reason.
    pub ignored: Counts,
    /// Balance of all packets.
    pub ledger: Ledger,
    /// Connections over the whole run.
    pub flows: Flows,
    /// Rules of the NIC, and marks.
    pub offload: Offload,
    /// Connections saved from one run to the next.
    pub snapshot: Snapshot,
    /// Energy of the processor packages.
    pub energy: Energy,
}

/// Counters of one port, as DPDK has them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Port {
    /// Device string, as given.
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
    /// Resets after which the port came back.
    pub resets: u64,
}

/// Cycles and packets of one worker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Worker {
    /// Number of its lcore.
    pub lcore: u32,
    /// Packets it received.
    pub packets: u64,
    /// Bursts it received that had at least one packet.
    pub bursts: u64,
    /// Packets handed off to the workers that have their connections.
    pub handed_over: u64,
    /// Packets handed off by other workers to this one.
    pub taken_over: u64,
    /// Cycles of turns with packets.
    pub busy_cycles: u64,
    /// Cycles of turns without packets.
    pub idle_cycles: u64,
    /// Cycles of turns so long that the worker must have lost its cpu.
    pub stalled_cycles: u64,
    /// Busy cycles per packet received.
    pub cycles_per_packet: f64,
    /// Time between two polls.
    pub poll_gap_us: PollGap,
    /// Busy cycles by stage.
    pub stage_cycles: StageCycles,
    /// Bytes of its flow tables.
    pub table_bytes: u64,
    /// Bytes of its flow tables that are on hugepages.
    pub table_huge_page_bytes: u64,
}

/// Time from one poll of a worker's ports to the next, in microseconds; quantiles to a quarter of
/// an octave.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PollGap {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

/// Busy cycles by stage of packet processing; the sum is all busy cycles.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageCycles {
    /// Receiving bursts.
    pub rx: u64,
    /// Counting packets by the NIC's marks.
    pub mark: u64,
    /// Parsing headers into flow keys.
    pub parse: u64,
    /// Hash, bucket, candidate record.
    pub lookup: u64,
    /// Comparing keys, counting, state.
    pub track: u64,
    /// New connections.
    pub miss: u64,
    /// Sending to the peer port, and freeing packets without room.
    pub tx: u64,
    /// Timers, flow records, published counters.
    pub housekeeping: u64,
    /// Work between the stages.
    pub other: u64,
}

impl StageCycles {
    /// Returns all stages, in the order of a packet's path.
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
    /// Packets forwarded.
    pub packets: u64,
    /// Packets per second.
    pub pps: f64,
    /// Megabits per second on the wire, with FCS, preamble and gap.
    pub wire_mbps: f64,
}

/// Balance of the packets received.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ledger {
    /// Packets received.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets held, in slots or in rings between workers.
    pub held: u64,
    /// True if rx = tx + dropped + held.
    pub balanced: bool,
}

/// Connections that began and ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Flows {
    /// Connections still in the table.
    pub active: u64,
    /// Connections that began.
    pub created: u64,
    /// Connections that ended, by reason.
    pub ended: Counts,
    /// Packets of new connections for which the table had no room.
    pub(crate) table_full: u64,
    /// Flow records lost because they came too fast, or could not be written.
    pub records_lost: u64,
}

/// Packets that access lists rejected, by what became of their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rejects {
    /// Answered by a TCP reset or an ICMP error.
    pub sent: u64,
    /// Not answered, because of the rate limit or because the port had no room.
    pub suppressed: u64,
    /// Packets that may get no answer, or whose answer does not fit in their buffer.
    pub not_possible: u64,
}

impl Rejects {
    /// Adds the counters of a worker.
    pub fn add(&mut self, other: Rejects) {
        self.sent += other.sent;
        self.suppressed += other.suppressed;
        self.not_possible += other.not_possible;
    }
}

/// Packets of rules that log, while someone followed the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessLogCounts {
    /// Packets logged.
    pub logged: u64,
    /// Packets not logged, because of the rate limit.
    pub suppressed: u64,
}

/// Connections restored from the previous run, and snapshots for the next.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Connections of the previous run that were restored.
    pub restored: u64,
    /// Connections whose timeout had passed.
    pub expired: u64,
    /// Connections that the engine did not take.
    pub refused: u64,
    /// Time until all were restored, in milliseconds.
    pub restore_ms: u64,
    /// Snapshots written.
    pub written: u64,
    /// Time to write the last snapshot, in milliseconds.
    pub last_ms: u64,
    /// Length of the last snapshot in bytes.
    pub bytes: u64,
}

/// Counters with a name and an explanation. In JSON an object with all names, in a fixed order.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    name: &'static str,
    doc: &'static str,
    n: u64,
}

impl Summary {
    /// Returns an empty summary.
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
            counts.add(reason.name(), reason.doc(), stats.anomalies[reason as usize]);
        }
        for reason in EndReason::ALL {
            let n = stats.ended[reason as usize];
            self.flows.ended.add(reason.name(), end_reason_doc(reason), n);
        }
        self.access_log.logged += stats.logged;
        self.access_log.suppressed += stats.logs_suppressed;
        self.flows.active += stats.active();
        self.flows.created += stats.created;
        self.flows.records_lost += stats.records_lost;
        let full = UntrackedReason::TableFull as usize;
        self.flows.table_full += stats.passed[full] + stats.dropped[full];
    }

    /// Sets the energy of the run, or the reason why it is unknown; ledger and `offload` must be
    /// complete, since packets that the NIC forwarded by itself count too.
    pub fn set_energy(&mut self, microjoules: Result<u64, impl ToString>) {
        self.energy = Energy::of(microjoules, self.ledger.tx + self.offload.bypassed.packets);
    }

    /// Sets the ledger; `drops` must be complete.
    pub fn balance(&mut self, rx: u64, tx: u64, held: u64) {
        let dropped = self.drops.total();
        self.ledger = Ledger { rx, tx, dropped, held, balanced: rx == tx + dropped + held };
    }
}

impl Counts {
    /// Adds `n` to the counter `name`, and creates it if it is missing.
    pub fn add(&mut self, name: &'static str, doc: &'static str, n: u64) {
        match self.0.iter_mut().find(|count| count.name == name) {
            Some(count) => count.n += n,
            None => self.0.push(Count { name, doc, n }),
        }
    }

    /// Returns the sum of all counters.
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
        EndReason::Idle => "no packet until its timeout",
        EndReason::Fin => "TCP: FIN from both sides",
        EndReason::Rst => "TCP: RST",
        EndReason::Reuse => "TCP: a new connection took the ports",
        EndReason::Evicted => "embryonic, evicted for a new connection",
        EndReason::Flushed => "ended by a request (flush)",
        EndReason::Exit => "in the table at the end of the run",
    }
}
