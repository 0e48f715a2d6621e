// SPDX-License-Identifier: BSD-3-Clause
//! Starts a run: configures all ports, then starts the workers and the programming threads.

use crate::live::checkpointing::{self, CheckpointStatus, Checkpointer};
use crate::live::clock::Clock;
use crate::live::commands::queue::CommandQueue;
use crate::live::counters::account::WorkerReport;
use crate::live::counters::published::PublishedCounters;
use crate::live::offload;
use crate::live::offload::{RuleRequests, RuleSetup, Rules};
use crate::live::ports::frame_limits::FrameLimits;
use crate::live::ports::pair::PortPair;
use crate::live::ports::queue_lease::{QueueLease, QueueOwner, QueuePair, lease};
use crate::live::ports::reset::PortReset;
use crate::live::ports::shared::SharedPort;
use crate::live::ports::watch::PortWatch;
use crate::live::query::client::{QueryClient, WorkerHandle};
use crate::live::query::list_state::ListState;
use crate::live::query::turns::Turns;
use crate::live::runtime::{Running, Runtime};
use crate::live::worker::handoff::{self, HandoffRings};
use crate::live::worker::start_gate::StartGate;
use crate::live::worker::{Worker, WorkerChannels};
use checkpoint::{Place, Snapshots};
use config::plan::{ListContext, OffloadPlan, ZoneRules};
use doctor::host::EnergyMeter;
use dpdk::{Eal, Lcore, PortError, tsc, tsc_hz};
use engine::{
    AccessLists, FlowRecord, ListMarkConfig, OffloadConfig, SteeringConfig, Tracking, ZoneSource,
};
use rtrb::{Consumer, RingBuffer};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Capacity of the ring of flow records from a worker to the control thread.
const RECORDS: usize = 1 << 16;

/// A run before its workers start.
struct Startup<'a> {
    config: &'a engine::Config,
    offload: OffloadPlan,
    clock: Clock,
    start_gate: Arc<StartGate>,
    stop: Arc<AtomicBool>,
    status: CheckpointStatus,
    checkpointer: Option<Checkpointer>,
    ports: Vec<PortWatch>,
    rules: Vec<Rules>,
    workers: Vec<ReadyWorker>,
    handles: Vec<WorkerHandle>,
    /// Access lists of each wire.
    access: Vec<Option<Arc<AccessLists>>>,
}

/// A worker that has not been started.
struct ReadyWorker {
    lcore: Lcore,
    /// Index of its pair of ports.
    wire: usize,
    work: Box<dyn FnOnce() -> WorkerReport + Send>,
    counters: Arc<PublishedCounters>,
    records: Consumer<FlowRecord>,
}

/// Zones of a pair, deepest tracking in any of them, and access lists.
type PairPolicy = (ZoneSource, Tracking, Option<Arc<AccessLists>>);

/// The settings of a worker in which it differs from the other workers of its pair.
struct WorkerParts {
    queues: [QueuePair; 2],
    offload: Option<OffloadConfig>,
    list_marks: Option<ListMarkConfig>,
    rule_requests: RuleRequests,
    place: (Place, u16),
    handoff: (HandoffRings, Option<SteeringConfig>),
    leases: [QueueLease; 2],
}

impl Runtime {
    /// Configures every port, then starts every worker, each with an engine made from `config`.
    /// Each port that takes rules also gets a programming thread.
    pub(crate) fn start(
        eal: &Eal,
        wires: Vec<PortPair>,
        (config, offload): (&engine::Config, OffloadPlan),
        (timeouts, list_context): (Vec<String>, ListContext),
        snapshots: Option<Snapshots>,
    ) -> Result<Self, PortError> {
        let status = CheckpointStatus::default();
        let clock = Clock::new(tsc(), tsc_hz(eal));
        let checkpointer = snapshots.map(|snapshots| Checkpointer::new(snapshots, clock, &status));
        let stop = Arc::new(AtomicBool::new(false));
        let (start_gate, ports, rules, workers, handles) = Default::default();
        let mut startup = Startup {
            config,
            offload,
            clock,
            start_gate,
            stop,
            status,
            checkpointer,
            ports,
            rules,
            workers,
            handles,
            access: Vec::new(),
        };
        for (number, wire) in wires.into_iter().enumerate() {
            startup.add_wire(number, wire)?;
        }
        Ok(startup.run(timeouts, list_context))
    }
}

impl Startup<'_> {
    /// Configures the ports of a wire, and prepares its workers and programming threads.
    fn add_wire(&mut self, number: usize, mut wire: PortPair) -> Result<(), PortError> {
        offload::prepare([&mut wire.a, &mut wire.b], &self.offload);
        let queues = wire.configure()?;
        let (workers, limits) = (wire.workers.len(), FrameLimits::of(&wire));
        self.access.push(wire.access.clone());
        let handoffs = handoff::of_workers(&wire);
        let ports = [wire.a, wire.b].map(SharedPort::new);
        let rule_setup = RuleSetup::of(
            &ports,
            &self.offload,
            self.config,
            (workers, wire.deepest, wire.access.clone()),
        );
        let list_marks = rule_setup.list_marks();
        let configs: Vec<_> = (0..workers).map(|worker| rule_setup.worker_config(worker)).collect();
        let (rule_requests, rules) = rule_setup.connect(&self.offload, workers, self.clock);
        self.rules.extend(rules);
        let mut owners = [Vec::new(), Vec::new()];
        let of_workers = wire.workers.into_iter().zip(queues).zip(configs).zip(rule_requests);
        let of_workers = of_workers.zip(places(number, workers)).zip(handoffs);
        for (((((lcore, queues), offload), rule_requests), place), handoff) in of_workers {
            let leases = owners.each_mut().map(lease_queue);
            let parts =
                WorkerParts { queues, offload, list_marks, rule_requests, place, handoff, leases };
            let policy = (wire.zone, wire.deepest, wire.access.clone());
            self.add_worker((lcore, number, workers), (policy, limits), parts);
        }
        let of_ports = ports.into_iter().zip(owners).zip(wire.read_beside);
        self.ports.extend(of_ports.map(|((port, owners), read_beside)| {
            let reset = PortReset::new(port.clone(), owners);
            PortWatch::new(port, reset, (workers > 1, read_beside))
        }));
        Ok(())
    }

    /// Prepares a worker; its wire has `workers` workers.
    fn add_worker(
        &mut self,
        (lcore, wire, workers): (Lcore, usize, usize),
        ((zone, deepest, access), limits): (PairPolicy, [Option<FrameLimits>; 2]),
        parts: WorkerParts,
    ) {
        let WorkerParts { queues, offload, list_marks, rule_requests, place, handoff, leases } =
            parts;
        let (handoff_rings, steering) = handoff;
        let (checkpoint_source, resume) = checkpointing::of_worker(&mut self.checkpointer, place);
        let (record_ring, records) = RingBuffer::new(RECORDS);
        let counters = Arc::new(PublishedCounters::default());
        let (commands, producer) = CommandQueue::new();
        self.handles.push(WorkerHandle::new(lcore.id(), wire, producer));
        let config = engine_config(self.config, self.workers.len(), workers);
        let config =
            engine::Config { offload, list_marks, steering, zone, deepest, access, ..config };
        let channels = WorkerChannels {
            counters: Arc::clone(&counters),
            records: record_ring,
            rule_requests,
            commands,
            checkpoint_source,
            limits,
            leases,
            handoff_rings,
            start_gate: Arc::clone(&self.start_gate),
            stop: Arc::clone(&self.stop),
        };
        let (clock, status) = (self.clock, self.status.clone());
        // The lcore that uses the table allocates it, so that its memory is on the same NUMA node.
        let worker = move || Worker::new(queues, &config, clock, channels);
        let work = Box::new(move || worker().resume(resume, &status).run());
        self.workers.push(ReadyWorker { lcore, wire, work, counters, records });
    }

    /// Starts the workers, then the programming threads. All ports were configured before, so a
    /// port that cannot be configured leaves no worker running. A worker that panics ends the
    /// process, so each of the others becomes ready.
    fn run(self, timeouts: Vec<String>, list_context: ListContext) -> Runtime {
        let workers: Vec<_> = self.workers.into_iter().map(ReadyWorker::start).collect();
        let rules: Vec<_> = self.rules.into_iter().map(Rules::start).collect();
        self.start_gate.wait_for(workers.len());
        let (ports, offload, config) = (self.ports, self.offload, self.config);
        let now = Instant::now();
        let queries = Arc::new(QueryClient {
            workers: self.handles,
            ports: ports.iter().map(|watched| watched.port.clone()).collect(),
            rules: rules.iter().map(Rules::handle).collect(),
            offload: crate::live::summary::offload_settings(&offload),
            snapshot_status: self.status,
            zones: Mutex::new(Arc::new(ZoneRules::new(config, timeouts))),
            access: Mutex::new(self.access),
            reloads: Turns::new(ListState::new(list_context)),
            has_labels: config.labels,
            started: now,
            energy: Mutex::new(EnergyMeter::start(Path::new("/"), now)),
            clock: self.clock,
            subscriptions: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        self.start_gate.open();
        let checkpoints = self.checkpointer.and_then(Checkpointer::start);
        let (stop, reset_events) = (self.stop, Vec::new());
        Runtime {
            ports,
            workers,
            rules,
            offload,
            queries,
            energy_read: now,
            checkpoints,
            stop,
            reset_events,
        }
    }
}

impl ReadyWorker {
    /// Launches the worker on its lcore.
    fn start(self) -> Running {
        let Self { lcore, wire, work, counters, records } = self;
        Running { lcore: lcore.id(), wire, job: lcore.launch(work), counters, records }
    }
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

/// Returns, for each worker of a wire, the place of its snapshot and the wire's number of workers.
fn places(wire: usize, workers: usize) -> impl Iterator<Item = (Place, u16)> {
    let place = move |worker| Place { pair: wire as u16, worker };
    (0..workers as u16).map(move |worker| (place(worker), workers as u16))
}
