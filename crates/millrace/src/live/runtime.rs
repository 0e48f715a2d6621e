// SPDX-License-Identifier: BSD-3-Clause
//! Owns a running bump: starts and ends its workers and rule threads, and collects records and
//! counters.

use crate::live::checkpointing::{self, CheckpointStatus, Checkpointer};
use crate::live::clock::Clock;
use crate::live::commands::queue::CommandQueue;
use crate::live::counters::account::WorkerReport;
use crate::live::counters::published::{PublishedCounters, Snapshot};
use crate::live::offload::{RuleSetup, Rules};
use crate::live::ports::frame_limits::FrameLimits;
use crate::live::ports::pair::PortPair;
use crate::live::ports::queue_lease::{QueueLease, QueueOwner, QueuePair, lease};
use crate::live::ports::reset::PortReset;
use crate::live::ports::shared::SharedPort;
use crate::live::ports::watch::{PortEvent, PortWatch};
use crate::live::query::client::{QueryClient, WorkerHandle};
use crate::live::query::turns::Turns;
use crate::live::totals::Totals;
use crate::live::worker::{Worker, WorkerChannels, handoff};
use crate::live::{offload, summary};
use checkpoint::{Place, Snapshots};
use config::plan::{OffloadPlan, ZoneRules};
use config::{Bypass, Policy};
use dpdk::{Eal, Job, Lcore, PortError, SymmetricRss, tsc, tsc_hz};
use engine::{FlowRecord, MemoryUse};
use report::output::write_line;
use report::records::RecordSink;
use report::summary::{Offload, OffloadPort, Summary};
use rtrb::{Consumer, RingBuffer};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Capacity of the ring of flow records from a worker to the control thread.
const RECORDS: usize = 1 << 16;
/// Time between two turns of the control thread, which take flow records.
const TURN: Duration = Duration::from_millis(5);

/// A running bump: its ports, workers and rule threads.
pub(crate) struct Runtime {
    /// Ports of all wires in order: of each wire first port A, then port B.
    ports: Vec<PortWatch>,
    workers: Vec<Running>,
    /// Rules of each port, in the order of `ports`.
    rules: Vec<Rules>,
    offload: OffloadPlan,
    queries: Arc<QueryClient>,
    checkpoints: Option<checkpointing::Running>,
    stop: Arc<AtomicBool>,
    /// Results of port resets that [`take_reset_events`](Self::take_reset_events) has not returned
    /// yet.
    reset_events: Vec<PortEvent>,
}

struct Running {
    lcore: u32,
    /// Number of the wire: its ports are `2 * wire` and `2 * wire + 1`.
    wire: usize,
    job: Job<WorkerReport>,
    counters: Arc<PublishedCounters>,
    records: Consumer<FlowRecord>,
}

/// The result of a finished run.
pub(crate) struct RunResult {
    pub(crate) summary: Summary,
    /// Lcores of the workers, which are idle again.
    pub(crate) lcores: Vec<Lcore>,
}

impl Runtime {
    /// Configures every port, then starts every worker, each with an engine made from `config`.
    /// Each port that takes rules also gets a programming thread.
    pub(crate) fn start(
        eal: &Eal,
        wires: Vec<PortPair>,
        (config, offload, timeouts): (&engine::Config, OffloadPlan, Vec<String>),
        snapshots: Option<Snapshots>,
    ) -> Result<Self, PortError> {
        let status = CheckpointStatus::default();
        let (clock, stop) = (Clock::new(tsc(), tsc_hz(eal)), Arc::new(AtomicBool::new(false)));
        let mut checkpointer =
            snapshots.map(|snapshots| Checkpointer::new(snapshots, clock, &status));
        let (mut ports, mut ready, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        let mut handles = Vec::new();
        for (number, mut wire) in wires.into_iter().enumerate() {
            let pairs = configure(&mut wire, &offload)?;
            let (workers, zone, limits) = (wire.workers.len(), wire.zone, FrameLimits::of(&wire));
            let handoff_rings = handoff::of_workers(&wire);
            let shared = [wire.a, wire.b].map(SharedPort::new);
            let rule_setup = RuleSetup::of(&shared, &offload, config, workers);
            let of_worker: Vec<_> =
                (0..workers).map(|number| rule_setup.worker_config(number)).collect();
            let (rule_requests, of_ports) = rule_setup.connect(&offload, workers, clock);
            rules.extend(of_ports);
            let of_workers = of_worker.into_iter().zip(rule_requests);
            let mut owners = [Vec::new(), Vec::new()];
            let of_workers = of_workers.zip(places(number, workers)).zip(handoff_rings);
            for ((lcore, pairs), of_worker) in wire.workers.into_iter().zip(pairs).zip(of_workers) {
                let (((offload, rule_requests), place), (handoff_rings, steering)) = of_worker;
                let (checkpoint_source, resume) =
                    checkpointing::of_worker(&mut checkpointer, place);
                let (record_ring, records) = RingBuffer::new(RECORDS);
                let counters = Arc::new(PublishedCounters::default());
                let (commands, producer) = CommandQueue::new();
                handles.push(WorkerHandle::new(lcore.id(), number, producer));
                let config = engine_config(config, ready.len(), workers);
                let config = engine::Config { offload, steering, zone, ..config };
                let leases = owners.each_mut().map(lease_queue);
                let channels = WorkerChannels {
                    counters: Arc::clone(&counters),
                    records: record_ring,
                    rule_requests,
                    commands,
                    checkpoint_source,
                    limits,
                    leases,
                    handoff_rings,
                    stop: Arc::clone(&stop),
                };
                // The lcore that uses the table allocates it, so that its memory is on the same
                // NUMA node.
                let status = status.clone();
                let worker = move || Worker::new(pairs, &config, clock, channels);
                let work = move || worker().resume(resume, &status).run();
                ready.push((lcore, number, work, counters, records));
            }
            let of_ports = shared.into_iter().zip(owners).zip(wire.read_beside);
            ports.extend(of_ports.map(|((port, owners), read_beside)| {
                let reset = PortReset::new(port.clone(), owners);
                PortWatch::new(port, reset, (workers > 1, read_beside))
            }));
        }
        // Workers start last: if a port cannot be configured, no worker is left running.
        let workers: Vec<_> = ready.into_iter().map(Running::start).collect();
        let rules: Vec<_> = rules.into_iter().map(Rules::start).collect();
        workers.iter().for_each(Running::wait_until_ready);
        let queries = Arc::new(QueryClient {
            workers: handles,
            ports: ports.iter().map(|watched: &PortWatch| watched.port.clone()).collect(),
            rules: rules.iter().map(Rules::handle).collect(),
            policy: offload.policy.to_string(),
            bypass: offload.bypass.to_string(),
            snapshot_status: status,
            zones: Mutex::new(Arc::new(ZoneRules::new(config, timeouts))),
            reloads: Turns::new(()),
            has_labels: config.labels,
            started: Instant::now(),
            clock,
            subscriptions: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        let checkpoints = checkpointer.and_then(Checkpointer::start);
        let reset_events = Vec::new();
        Ok(Self { ports, workers, rules, offload, queries, checkpoints, stop, reset_events })
    }

    /// Does one turn of the control thread: goes on with port resets, takes waiting flow records,
    /// then sleeps for 5 ms.
    pub(crate) fn turn(&mut self, sink: &mut RecordSink) {
        for (watched, rules) in self.ports.iter_mut().zip(&self.rules) {
            self.reset_events.extend(watched.reset.step(rules.count()));
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

    /// Time since the workers were started.
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

    /// Returns the counters so far.
    pub(crate) fn totals(&self) -> Totals {
        let workers = self.snapshots().into_iter().sum();
        let of_ports = self.rules.iter().map(Rules::inserted);
        let (inserts, insert_time) =
            of_ports.fold((0, Duration::ZERO), |sum, port| (sum.0 + port.0, sum.1 + port.1));
        let rules = self.rules().unwrap_or_default();
        Totals { at: self.elapsed(), workers, rules, inserts, insert_time }
    }

    /// Returns the memory of all engines together.
    pub(crate) fn memory(&self) -> MemoryUse {
        self.snapshots().into_iter().map(|snapshot| snapshot.memory).sum()
    }

    /// Returns names of ports whose RSS is not symmetric: the directions of a connection may go to
    /// different queues. Then two workers each see half of the connection.
    pub(crate) fn not_symmetric(&self) -> Vec<String> {
        let has_queues = |watched: &&PortWatch| watched.has_several_queues;
        let ports = self.ports.iter().filter(has_queues).map(|watched| watched.port.lock());
        let spreads = ports.filter(|port| port.info().rss == SymmetricRss::None);
        spreads.map(|port| port.info().devargs.clone()).collect()
    }

    /// Returns the number of rules that all ports have now; `None` if no port takes rules.
    pub(crate) fn rules(&self) -> Option<u64> {
        self.rules.iter().filter_map(Rules::count).reduce(|sum, count| sum + count)
    }

    /// Returns the ports that take no rules although the policy asks for some, and the reasons.
    pub(crate) fn without_rules(&self) -> Vec<(String, String)> {
        let is_requested = self.offload.is_asked_for && self.offload.policy != Policy::Off;
        let off = self.rules.iter().filter(|_| is_requested).filter_map(Rules::off_reason);
        off.map(|(port, reason)| (port.to_owned(), reason.to_owned())).collect()
    }

    /// Returns the ports that take rules but no bypass rules although those are on, and the
    /// reasons.
    pub(crate) fn without_bypass(&self) -> Vec<(String, String)> {
        let is_requested = self.offload.bypass != Bypass::Off;
        let off = self.rules.iter().filter(|_| is_requested).filter_map(Rules::no_bypass);
        off.map(|(port, reason)| (port.to_owned(), reason.to_owned())).collect()
    }

    /// Returns events of the ports since the last call. The first call also reports what is wrong
    /// from the start.
    pub(crate) fn port_events(&mut self) -> Vec<PortEvent> {
        let (unmarked, wrong) = (self.unmarked(), self.with_wrong_checksums());
        let events = self.ports.iter_mut().zip(unmarked).zip(wrong);
        let of_port = |((port, is_unmarked), has_wrong): ((&mut PortWatch, bool), bool)| {
            [port.event(), port.unmarked(is_unmarked), port.unfinished(has_wrong)]
        };
        events.flat_map(of_port).flatten().collect()
    }

    /// For each port: true if packets of its wire had wrong checksums.
    fn with_wrong_checksums(&self) -> Vec<bool> {
        let mut wrong = vec![false; self.ports.len()];
        for Running { wire, counters, .. } in &self.workers {
            let has_some = counters.wrong_checksums() > 0;
            wrong[2 * wire..][..2].iter_mut().for_each(|port| *port |= has_some);
        }
        wrong
    }

    /// For each port: true if a kind of rules has no effect there.
    fn unmarked(&self) -> Vec<bool> {
        let mut unmarked = vec![false; self.ports.len()];
        for Running { wire, counters, .. } in &self.workers {
            for (side, kinds) in counters.read().aside.into_iter().enumerate() {
                unmarked[2 * wire + side] |= kinds > 0;
            }
        }
        unmarked
    }

    /// True if every port's device is gone.
    pub(crate) fn all_removed(&self) -> bool {
        self.ports.iter().all(|watched| watched.removed)
    }

    /// Stops the workers, takes their last records and computes the ledger.
    pub(crate) fn finish(mut self, sink: &mut RecordSink) -> RunResult {
        let duration = self.elapsed();
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
        let policy = self.offload.policy.to_string();
        let bypass = self.offload.bypass.to_string();
        let offload = Offload { policy, bypass, ports, ..Offload::default() };
        let mut summary = summary::summary(&self.queries.ports, &reports, (duration, offload));
        summary.snapshot = self.queries.snapshot_status.read();
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

/// Configures both ports for rules and traffic; returns the queues of each worker at them.
fn configure(wire: &mut PortPair, offload: &OffloadPlan) -> Result<Vec<[QueuePair; 2]>, PortError> {
    offload::prepare([&mut wire.a, &mut wire.b], offload);
    wire.configure()
}

/// Returns the engine configuration of worker `number`; its wire has `workers` workers.
fn engine_config(config: &engine::Config, number: usize, workers: usize) -> engine::Config {
    let has_all_packets = workers == 1;
    engine::Config { cycle_counter: tsc, has_all_packets, ..config.of_worker(number as u64) }
}

/// Adds a worker to the owners of a port's queues; returns the worker's end of the lease.
fn lease_queue(owners: &mut Vec<QueueOwner>) -> QueueLease {
    let (owner, lease) = lease();
    owners.push(owner);
    lease
}

/// Returns the place of each worker's snapshot of a wire, and the number of the wire's workers.
fn places(wire: usize, workers: usize) -> impl Iterator<Item = (Place, u16)> {
    let place = move |worker| Place { pair: wire as u16, worker };
    (0..workers as u16).map(move |worker| (place(worker), workers as u16))
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

impl Running {
    /// Launches a worker on its lcore.
    fn start<W>(ready: (Lcore, usize, W, Arc<PublishedCounters>, Consumer<FlowRecord>)) -> Self
    where
        W: FnOnce() -> WorkerReport + Send + 'static,
    {
        let (lcore, wire, work, counters, records) = ready;
        Self { lcore: lcore.id(), wire, job: lcore.launch(work), counters, records }
    }

    /// Waits until the worker has allocated its table and finished its first turn.
    fn wait_until_ready(&self) {
        while self.counters.read().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
