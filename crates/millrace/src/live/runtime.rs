// SPDX-License-Identifier: BSD-3-Clause
//! Owns a running instance: collects the records and counters of its workers, and ends them.

use crate::live::checkpointing;
use crate::live::counters::account::WorkerReport;
use crate::live::counters::published::{PublishedCounters, Snapshot};
use crate::live::offload::Rules;
use crate::live::ports::event::PortEvent;
use crate::live::ports::watch::PortWatch;
use crate::live::query::client::QueryClient;
use crate::live::summary;
use crate::live::totals::Totals;
use config::plan::OffloadPlan;
use config::{Bypass, Policy};
use dpdk::{Job, Lcore, PortInfo, SymmetricRss};
use engine::{FlowRecord, MemoryUse};
use report::output::write_line;
use report::records::RecordSink;
use report::summary::{Offload, OffloadPort, Summary};
use rtrb::Consumer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two turns of the control thread, which take flow records.
const TURN: Duration = Duration::from_millis(5);
/// Longest time that a reading of all counters should take, and how often a longer one is repeated.
const READ_MAX: Duration = Duration::from_micros(300);
const READ_AGAIN: usize = 4;
/// Time between two readings of the energy counters, which wrap after a minute or more.
const ENERGY_EVERY: Duration = Duration::from_secs(1);

/// A running instance: its ports, workers and programming threads.
pub(crate) struct Runtime {
    /// Ports of all wires in order: of each wire first port A, then port B.
    pub(crate) ports: Vec<PortWatch>,
    pub(crate) workers: Vec<Running>,
    /// Rules of each port, in the order of `ports`.
    pub(crate) rules: Vec<Rules>,
    pub(crate) offload: OffloadPlan,
    pub(crate) queries: Arc<QueryClient>,
    /// When this thread last read the energy counters.
    pub(crate) energy_read: Instant,
    pub(crate) checkpoints: Option<checkpointing::Running>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Results of port resets that [`take_reset_events`](Self::take_reset_events) has not returned
    /// yet.
    pub(crate) reset_events: Vec<PortEvent>,
}

/// A running worker.
pub(crate) struct Running {
    pub(crate) lcore: u32,
    /// Number of the wire: its ports are `2 * wire` and `2 * wire + 1`.
    pub(crate) wire: usize,
    pub(crate) job: Job<WorkerReport>,
    pub(crate) counters: Arc<PublishedCounters>,
    pub(crate) records: Consumer<FlowRecord>,
}

/// The result of a finished run.
pub(crate) struct RunResult {
    pub(crate) summary: Summary,
    /// Lcores of the workers, which are idle again.
    pub(crate) lcores: Vec<Lcore>,
}

impl Runtime {
    /// Does one turn of the control thread: goes on with port resets, takes waiting flow records,
    /// then sleeps for 5 ms. Once a second, it reads the energy counters.
    pub(crate) fn turn(&mut self, sink: &mut RecordSink) {
        if self.energy_read.elapsed() >= ENERGY_EVERY {
            self.energy_read = Instant::now();
            drop(self.queries.read_energy());
        }
        for (watched, rules) in self.ports.iter_mut().zip(&self.rules) {
            self.reset_events.extend(watched.step(rules.count()));
        }
        self.take_records(sink);
        std::thread::sleep(TURN);
    }

    /// Returns the results of port resets since the last call.
    pub(crate) fn take_reset_events(&mut self) -> Vec<PortEvent> {
        std::mem::take(&mut self.reset_events)
    }

    /// True if the reset of a port failed until it was given up.
    pub(crate) fn has_given_up(&self) -> bool {
        self.ports.iter().any(|watched| watched.reset.is_given_up())
    }

    /// Returns the time since all workers were ready.
    pub(crate) fn elapsed(&self) -> Duration {
        self.queries.age()
    }

    /// Returns the handle through which other threads query this run.
    pub(crate) fn queries(&self) -> Arc<QueryClient> {
        Arc::clone(&self.queries)
    }

    /// Returns a snapshot of the counters of each worker.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        self.workers.iter().map(|worker| worker.counters.read()).collect()
    }

    /// Returns the longest time between two polls of any worker since the last call.
    pub(crate) fn take_longest_gap(&self) -> Duration {
        let longest = self.workers.iter().map(|worker| worker.counters.take_longest_gap()).max();
        Duration::from_nanos(self.queries.clock.span(longest.unwrap_or(0)))
    }

    /// Returns the counters so far. A reading that was interrupted is repeated a few times, since
    /// its counters would be younger than its time, and rates too high.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.read_totals();
        for _ in 0..READ_AGAIN {
            if self.elapsed() - totals.at < READ_MAX {
                break;
            }
            totals = self.read_totals();
        }
        Totals { energy_uj: self.queries.read_energy().microjoules().ok(), ..totals }
    }

    fn read_totals(&self) -> Totals {
        let at = self.elapsed();
        let OffloadPlan { bypass, bypass_tcp, .. } = &self.offload;
        let bypassed = if [*bypass, *bypass_tcp] == [Bypass::Off; 2] {
            [(0, 0); 2]
        } else {
            // Packets up leave through port B.
            [1, 0].map(|side| self.bypassed_by(side))
        };
        let workers = self.snapshots().into_iter().sum();
        let of_ports = self.rules.iter().map(Rules::inserted);
        let (inserts, insert_time) =
            of_ports.fold((0, Duration::ZERO), |sum, port| (sum.0 + port.0, sum.1 + port.1));
        let rules = self.rules().unwrap_or_default();
        Totals { at, workers, bypassed, rules, inserts, insert_time, energy_uj: None }
    }

    /// Returns packets and bytes that the NIC itself has sent out of the ports of a side: A, B. The
    /// counters are those of the software NIC. They are younger than those of rules, which a NIC
    /// may report a second late.
    fn bypassed_by(&self, side: usize) -> (u64, u64) {
        let ports = self.ports.iter().skip(side).step_by(2);
        ports.fold((0, 0), |(packets, bytes), watched| {
            let port = watched.port.lock();
            let read = |name| port.extended_stat(name).unwrap_or_default();
            (packets + read(c"tx_switch_packets"), bytes + read(c"tx_switch_bytes"))
        })
    }

    /// Returns the memory of all engines together.
    pub(crate) fn memory(&self) -> MemoryUse {
        self.snapshots().into_iter().map(|snapshot| snapshot.memory).sum()
    }

    /// Returns names of ports whose RSS is not symmetric: the directions of a connection may go to
    /// different queues. Then two workers each see half of the connection. `net_af_packet` is none
    /// of them, unless its arguments say so: the kernel chooses its queue by a symmetric hash.
    pub(crate) fn not_symmetric(&self) -> Vec<String> {
        let has_queues = |watched: &&PortWatch| watched.has_several_queues;
        let ports = self.ports.iter().filter(has_queues).map(|watched| watched.port.lock());
        let is_symmetric = |info: &PortInfo| {
            let has_other_mode = |argument: &str| {
                argument.strip_prefix("fanout_mode=").is_some_and(|mode| mode != "hash")
            };
            let is_hashed =
                info.driver == "net_af_packet" && !info.devargs.split(',').any(has_other_mode);
            info.rss != SymmetricRss::None || is_hashed
        };
        let spreads = ports.filter(|port| !is_symmetric(port.info()));
        spreads.map(|port| port.info().devargs.clone()).collect()
    }

    /// Returns the number of rules that all ports have now; `None` if no port takes rules.
    pub(crate) fn rules(&self) -> Option<u64> {
        self.rules.iter().filter_map(Rules::count).reduce(|sum, count| sum + count)
    }

    /// Returns the ports that take no rules although the user has requested rules, and the reasons.
    pub(crate) fn without_rules(&self) -> Vec<(String, String)> {
        let is_requested = self.offload.is_asked_for && self.offload.policy != Policy::Off;
        let off = self.rules.iter().filter(|_| is_requested).filter_map(Rules::off_reason);
        off.map(|(port, reason)| (port.to_owned(), reason.to_owned())).collect()
    }

    /// Returns the ports that take rules but not the bypass rules that the configuration asks for:
    /// name, protocol and reason.
    pub(crate) fn without_bypass(&self) -> Vec<(String, &'static str, String)> {
        let mut without = Vec::new();
        for (port, reasons) in self.rules.iter().filter_map(Rules::without_bypass) {
            let udp = (self.offload.bypass, "UDP", &reasons.udp);
            let tcp = (self.offload.bypass_tcp, "TCP", &reasons.tcp);
            for (bypass, protocol, reason) in [udp, tcp] {
                let reason = reason.clone().filter(|_| bypass != Bypass::Off);
                without.extend(reason.map(|reason| (port.to_owned(), protocol, reason)));
            }
        }
        without
    }

    /// Returns events of the ports since the last call. The first call also reports what is wrong
    /// from the start.
    pub(crate) fn port_events(&mut self) -> Vec<PortEvent> {
        let (unmarked, wrong) = (self.unmarked(), self.with_wrong_checksums());
        let events = self.ports.iter_mut().zip(unmarked).zip(wrong);
        let of_port = |((port, unmarked), has_wrong): ((&mut PortWatch, Unmarked), bool)| {
            let Unmarked { is_unmarked, had_marks } = unmarked;
            [port.event(), port.unmarked(is_unmarked, had_marks), port.unfinished(has_wrong)]
        };
        events.flat_map(of_port).flatten().collect()
    }

    /// Returns, for each port, true if packets of its wire had wrong checksums.
    fn with_wrong_checksums(&self) -> Vec<bool> {
        let mut wrong = vec![false; self.ports.len()];
        for Running { wire, counters, .. } in &self.workers {
            let has_some = counters.wrong_checksums() > 0;
            wrong[2 * wire..][..2].iter_mut().for_each(|port| *port |= has_some);
        }
        wrong
    }

    /// Returns, for each port, whether a kind of rules has no effect there.
    fn unmarked(&self) -> Vec<Unmarked> {
        let mut unmarked = vec![Unmarked::default(); self.ports.len()];
        for Running { wire, counters, .. } in &self.workers {
            let counters = counters.read();
            for (side, kinds) in counters.aside.into_iter().enumerate() {
                let Unmarked { is_unmarked, had_marks } = &mut unmarked[2 * wire + side];
                *is_unmarked |= kinds > 0;
                *had_marks |= counters.marked > 0;
            }
        }
        unmarked
    }

    /// Returns the names of the ports whose device is gone.
    pub(crate) fn removed(&self) -> Vec<String> {
        let removed = self.ports.iter().filter(|watched| watched.removed);
        removed.map(|watched| watched.port.lock().info().devargs.clone()).collect()
    }

    /// True if every port's device is gone.
    pub(crate) fn all_removed(&self) -> bool {
        self.ports.iter().all(|watched| watched.removed)
    }

    /// Stops the workers, takes their last records and computes the ledger.
    pub(crate) fn finish(mut self, sink: &mut RecordSink) -> RunResult {
        let (duration, energy) = (self.elapsed(), self.queries.energy());
        // Workers must not wait for ring space because a reader of records has stopped reading.
        sink.hurry();
        self.save_last(sink);
        self.stop.store(true, Ordering::Relaxed);
        while !self.workers.iter().all(|worker| worker.job.is_finished()) {
            self.take_records(sink);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.take_all_records(sink);
        let mut ports = end_rules(self.rules);
        let (mut lcores, mut reports) = (Vec::new(), Vec::new());
        for Running { lcore, wire, job, .. } in self.workers {
            let (report, idle) = job.join();
            for (port, state) in ports[2 * wire..].iter_mut().zip(&report.admission) {
                port.add(state);
            }
            lcores.push(idle);
            reports.push((lcore, report));
        }
        let offload = Offload { ports, ..summary::offload_settings(&self.offload) };
        let mut summary = summary::summary(&self.queries.ports, &reports, (duration, offload));
        summary.snapshot = self.queries.snapshot_status.read();
        summary.set_energy(energy);
        RunResult { summary, lcores }
    }

    /// Writes the last snapshot, before the connections end.
    fn save_last(&mut self, sink: &mut RecordSink) {
        let Some(mut checkpoints) = self.checkpoints.take() else { return };
        checkpoints.stop();
        while !checkpoints.is_over() {
            self.take_records(sink);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns errors in restoring snapshots of the previous run since the last call.
    pub(crate) fn not_restored(&self) -> Vec<String> {
        self.queries.snapshot_status.take_complaints()
    }

    /// Takes waiting records while the sink has room. Returns true if it took all.
    fn take_records(&mut self, sink: &mut RecordSink) -> bool {
        for worker in &mut self.workers {
            while !worker.records.is_empty() {
                if !sink.has_room() {
                    return false;
                }
                worker.records.pop().iter().for_each(|record| sink.take(record));
            }
        }
        true
    }

    fn take_all_records(&mut self, sink: &mut RecordSink) {
        while !self.take_records(sink) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Marks of packets of one port.
#[derive(Clone, Copy, Default)]
struct Unmarked {
    /// A kind of rules has no effect there.
    is_unmarked: bool,
    /// Packets of its wire have had marks.
    had_marks: bool,
}

/// Waits until the NICs have no rules of this run. Prints once a second how many are left.
fn end_rules(rules: Vec<Rules>) -> Vec<OffloadPort> {
    rules.iter().for_each(Rules::stop);
    let mut last_message = Instant::now();
    while !rules.iter().all(Rules::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
        if last_message.elapsed() > Duration::from_secs(1) {
            last_message = Instant::now();
            let left: u64 = rules.iter().filter_map(Rules::count).sum();
            write_line(io::stderr(), format_args!("millrace: NIC rules still to remove: {left}"));
        }
    }
    rules.into_iter().map(Rules::finish).collect()
}
