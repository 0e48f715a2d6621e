// SPDX-License-Identifier: BSD-3-Clause
//! Queries the workers and ports of a running instance and waits for their replies. Only threads
//! that serve clients may call it, because a waiting worker would delay packets.
//!
//! Each command has its own ring for replies, so clients do not wait for each other. A walk sends a
//! command for each part. The ring holds the replies of a whole part, except that of a walk through
//! zones. However slowly a client reads, no worker waits for it.

use crate::live::checkpointing::CheckpointStatus;
use crate::live::clock::Clock;
use crate::live::commands::queue::{Command, PartEnd, Reply, WalkKind, WalkPart};
use crate::live::counters::account::WorkerReport;
use crate::live::offload::RulesHandle;
use crate::live::ports::shared::SharedPort;
use crate::live::query::list_state::{ListState, PairLists};
use crate::live::query::turns::Turns;
use crate::live::summary;
use config::plan::ZoneRules;
use doctor::host::{EnergyMeter, NoEnergy};
use dpdk::tsc;
use engine::{
    AccessLists, ConnView, Cursor, DecisionChange, ListMarkStats, MarkChoiceStatus, MarkUse, Nanos,
    OffloadStatus, Query, RuleHits, RuleView, ZoneStatus,
};
use report::summary::{Offload, OffloadPort, Summary};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two checks for a reply.
pub(crate) const NAP: Duration = Duration::from_micros(200);
/// Records in a part of a walk: at most this many connections are in memory at a time.
const PART_RECORDS: u32 = 1024;
/// Capacity of the ring of a part: a reply for each record, and the end.
const REPLIES: usize = PART_RECORDS as usize + 1;
/// Time after which a walk visits connections again whose end waits for the NIC's last counts. It
/// repeats this for at most [`HELD_MAX`].
const HELD_NAP: Duration = Duration::from_millis(20);
const HELD_MAX: Duration = Duration::from_secs(5);

/// A handle to query a running instance, shared by all client threads.
pub(crate) struct QueryClient {
    pub(crate) workers: Vec<WorkerHandle>,
    /// Port A and port B of each wire, in turn.
    pub(crate) ports: Vec<SharedPort>,
    /// Handles of the rules of each port.
    pub(crate) rules: Vec<RulesHandle>,
    /// The settings of offload, without figures.
    pub(crate) offload: Offload,
    pub(crate) snapshot_status: CheckpointStatus,
    pub(crate) zones: Mutex<Arc<ZoneRules>>,
    /// Access lists of each wire; `None` without any.
    pub(crate) access: Mutex<PairLists>,
    /// Reloads and changes of lists run one at a time, in the order of their requests.
    pub(crate) reloads: Turns<ListState>,
    pub(crate) has_labels: bool,
    pub(crate) started: Instant,
    /// The energy since then. The mutex is held for one reading.
    pub(crate) energy: Mutex<EnergyMeter>,
    /// The clock of the workers.
    pub(crate) clock: Clock,
    /// Subscriptions so far; the next one gets this number.
    pub(crate) subscriptions: AtomicU64,
    /// True once the run is about to end.
    pub(crate) is_ending: AtomicBool,
}

/// A worker that can be queried.
pub(crate) struct WorkerHandle {
    pub(crate) lcore: u32,
    /// Number of the worker's wire.
    pub(crate) wire: usize,
    /// Commands to the worker. The mutex is held for one push only, and never by the worker.
    pub(crate) commands: Mutex<Producer<Command>>,
}

/// The run is over or about to end, so the workers answer no queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run is ending, so its workers answer no more requests")]
pub(crate) struct RunEnding;

/// Access lists, and their counters.
pub(crate) struct ListHits {
    /// Number of changes of lists so far.
    pub(crate) epoch: u32,
    pub(crate) lists: PairLists,
    /// Of each pair; none for a pair without lists.
    pub(crate) pairs: Vec<PairHits>,
}

/// Counters of the access lists of a pair.
pub(crate) struct PairHits {
    /// Of each rule.
    pub(crate) rules: Vec<RuleHits>,
    /// Packets by what marks of the lists' rules were good for.
    pub(crate) marks: ListMarkStats,
}

/// A connection, and the worker that owns it.
pub(crate) struct ListedConn {
    pub(crate) flow: ConnView,
    pub(crate) lcore: u32,
    pub(crate) wire: usize,
}

impl ListedConn {
    /// Returns the state of the rules of both directions; defaults unless the query requested
    /// rules.
    pub(crate) fn rules(&self) -> &[RuleView; 2] {
        self.flow.rules.as_ref().unwrap_or(&RuleView::NONE)
    }
}

/// An item that a walk finds.
pub(crate) enum WalkItem {
    Flow(ListedConn),
    /// A connection that other access lists would decide about otherwise.
    Decision(DecisionChange, ListedConn),
    /// A zone, as one worker has it.
    Zone {
        zone: u16,
        now: ZoneStatus,
    },
}

/// A walk through the connections or zones of all workers, one worker after the other.
pub(crate) struct Walk {
    kind: WalkKind,
    /// Connections that matched so far and were listed, counted, changed or ended.
    pub(crate) matched: u64,
    /// Index of the worker that the walk has reached; the cursor is its place there.
    worker: usize,
    /// Index of the worker before which the walk ends.
    end: usize,
    cursor: Cursor,
    /// Connections of this pass whose end waits for the NIC.
    held: u64,
    /// When the first pass over this worker ended.
    held_since: Option<Instant>,
}

impl Walk {
    pub(crate) fn new(kind: WalkKind) -> Self {
        let cursor = Cursor::default();
        Self { kind, matched: 0, worker: 0, end: usize::MAX, cursor, held: 0, held_since: None }
    }

    /// Returns a walk through one worker, by its index.
    pub(crate) fn of_worker(kind: WalkKind, worker: usize) -> Self {
        Self { worker, end: worker + 1, ..Self::new(kind) }
    }

    /// Moves on after the end of a part.
    fn advance(&mut self, end: PartEnd) {
        self.matched += end.matched;
        self.held += end.held;
        self.cursor = end.cursor;
        if end.more {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let since = *self.held_since.get_or_insert_with(Instant::now);
        if held > 0 && since.elapsed() < HELD_MAX {
            self.cursor = end.cursor.again();
            std::thread::sleep(HELD_NAP);
        } else {
            (self.worker, self.cursor, self.held_since) =
                (self.worker + 1, Cursor::default(), None);
        }
    }
}

/// One port, and the state of its rules.
pub(crate) struct PortStatus {
    pub(crate) rules: OffloadPort,
    /// Over all workers: the sums of rules and room, the maxima of the other members.
    pub(crate) state: OffloadStatus,
}

impl QueryClient {
    /// Passes all connections that match `query` to `found`, one worker after the other. Each comes
    /// with the time at which its part of the walk ended: a whole walk may take seconds.
    pub(crate) fn flows(
        &self,
        query: Query,
        found: &mut impl FnMut(ListedConn, Nanos),
    ) -> Result<(), RunEnding> {
        let (mut walk, mut part) = (Walk::new(WalkKind::List(query)), Vec::new());
        while self.run_part(&mut walk, &mut |item| part.push(item))? {
            let now = self.time();
            for item in part.drain(..) {
                if let WalkItem::Flow(flow) = item {
                    found(flow, now);
                }
            }
        }
        Ok(())
    }

    /// Runs the next part of a walk and passes its items to `found`, which must be quick. Returns
    /// false once the walk is complete.
    pub(crate) fn run_part(
        &self,
        walk: &mut Walk,
        found: &mut impl FnMut(WalkItem),
    ) -> Result<bool, RunEnding> {
        let worker = self.workers.get(walk.worker).filter(|_| walk.worker < walk.end);
        let Some(worker) = worker else { return Ok(false) };
        self.check()?;
        let part = WalkPart { kind: walk.kind.clone(), cursor: walk.cursor, records: PART_RECORDS };
        let (producer, mut replies) = RingBuffer::new(REPLIES);
        worker.send(Command::Walk(part, producer))?;
        let (lcore, wire) = (worker.lcore, worker.wire);
        let end = loop {
            match worker.next_reply(&mut replies)? {
                Reply::Flow(flow) => found(WalkItem::Flow(ListedConn { flow, lcore, wire })),
                Reply::Decision(change, flow) => {
                    found(WalkItem::Decision(change, ListedConn { flow, lcore, wire }));
                }
                Reply::Zone { zone, now } => found(WalkItem::Zone { zone, now }),
                Reply::End(end) => break end,
                _ => return Err(RunEnding),
            }
        };
        free_ring(replies);
        walk.advance(end);
        Ok(true)
    }

    /// Ends walks after their current part, reloads and event streams, because the run is about to
    /// end. The control socket can close only after they have ended.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Fails if the run is about to end.
    pub(crate) fn check(&self) -> Result<(), RunEnding> {
        if self.is_ending.load(Ordering::Relaxed) { Err(RunEnding) } else { Ok(()) }
    }

    /// Returns the summary as if the run ended now.
    pub(crate) fn summary(&self) -> Result<Summary, RunEnding> {
        let workers = self.worker_reports()?;
        let ports = self.rules.iter().map(RulesHandle::query).collect::<Option<_>>();
        let mut ports: Vec<OffloadPort> = ports.ok_or(RunEnding)?;
        for (_, wire, report) in &workers {
            for (port, state) in ports[2 * wire..].iter_mut().zip(&report.admission) {
                port.add(state);
            }
        }
        let reports: Vec<_> =
            workers.into_iter().map(|(lcore, _, report)| (lcore, report)).collect();
        let offload = Offload { ports, ..self.offload.clone() };
        let duration = self.started.elapsed();
        let summary = summary::interim(&self.ports, &reports, (duration, offload));
        let mut summary = Summary { snapshot: self.snapshot_status.read(), ..summary };
        summary.set_energy(self.energy());
        Ok(summary)
    }

    /// Returns the state of all ports, in their order.
    pub(crate) fn ports(&self) -> Result<Vec<PortStatus>, RunEnding> {
        let workers = self.worker_reports()?;
        let port = |(number, line): (usize, &RulesHandle)| {
            let (wire, side) = (number / 2, number % 2);
            let of_wire = workers.iter().filter(|(_, at, _)| *at == wire);
            let states = of_wire.map(|(_, _, report)| report.admission[side]);
            Some(PortStatus {
                rules: line.query()?,
                state: states.reduce(add_status).unwrap_or_default(),
            })
        };
        self.rules.iter().enumerate().map(port).collect::<Option<_>>().ok_or(RunEnding)
    }

    /// Returns the names of all ports, in their order.
    pub(crate) fn port_names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(RulesHandle::name)
    }

    /// Returns the policy of NIC rules, as written in the configuration.
    pub(crate) fn policy(&self) -> &str {
        &self.offload.policy
    }

    /// Returns the access lists of each wire.
    pub(crate) fn access(&self) -> PairLists {
        self.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the access lists of each wire and their counters. Waits until the packets of all
    /// connections are in them.
    pub(crate) fn rule_hits(&self) -> Result<ListHits, RunEnding> {
        let state = self.reloads.take();
        let mut walk = Walk::new(WalkKind::SettleRules);
        while self.run_part(&mut walk, &mut |_| ())? {}
        let lists = self.access();
        let counters = |lists: &Option<Arc<AccessLists>>| {
            let counters = lists.as_ref().map_or(0, |lists| lists.counters());
            PairHits { rules: vec![RuleHits::default(); counters], marks: ListMarkStats::default() }
        };
        let mut pairs: Vec<_> = lists.iter().map(counters).collect();
        for worker in &self.workers {
            let Some(of_wire) = pairs.get_mut(worker.wire) else { continue };
            let counters = std::mem::take(&mut of_wire.rules);
            match worker.request(|replies| Command::RuleHits(counters, replies))? {
                Reply::RuleHits(counters, marks) => {
                    of_wire.rules = counters;
                    of_wire.marks.merge(&marks);
                }
                _ => return Err(RunEnding),
            }
        }
        for (port, rules) in self.rules.iter().enumerate() {
            // A driver that does not return leaves out what its NIC has dropped.
            let dropped = rules.dropped().unwrap_or_default();
            if let Some(of_wire) = pairs.get_mut(port / 2) {
                of_wire.rules.iter_mut().zip(dropped).for_each(|(own, hits)| own.merge(hits));
            }
        }
        Ok(ListHits { epoch: state.epoch(), lists, pairs })
    }

    /// Returns the zone configuration in force.
    pub(crate) fn zones(&self) -> Arc<ZoneRules> {
        Arc::clone(&self.zones.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if connections have labels.
    pub(crate) fn has_labels(&self) -> bool {
        self.has_labels
    }

    /// Returns the time by the clock of the workers, which later changes of the system clock do not
    /// affect.
    pub(crate) fn time(&self) -> Nanos {
        self.clock.at(tsc())
    }

    /// Returns how long the instance has run.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reads the energy counters. Must be called once a second, since they wrap.
    pub(crate) fn read_energy(&self) -> MutexGuard<'_, EnergyMeter> {
        let mut energy = self.energy.lock().unwrap_or_else(PoisonError::into_inner);
        energy.read(Instant::now());
        energy
    }

    /// Returns the microjoules of all processor packages since the start.
    pub(crate) fn energy(&self) -> Result<u64, NoEnergy> {
        self.read_energy().microjoules_of_each()
    }

    /// Returns lcore, wire and counters of each worker.
    fn worker_reports(&self) -> Result<Vec<(u32, usize, WorkerReport)>, RunEnding> {
        let send = |worker: &WorkerHandle| {
            let (producer, replies) = RingBuffer::new(1);
            worker.send(Command::ReadCounters(producer)).map(|()| replies)
        };
        let rings: Vec<_> = self.workers.iter().map(send).collect::<Result<_, _>>()?;
        let receive = |(worker, replies): (&WorkerHandle, _)| {
            Ok((worker.lcore, worker.wire, worker.only_reply(replies)?))
        };
        self.workers.iter().zip(rings).map(receive).collect()
    }
}

impl WorkerHandle {
    /// Creates the handle of a worker, from the sending end of its commands.
    pub(crate) fn new(lcore: u32, wire: usize, commands: Producer<Command>) -> Self {
        Self { lcore, wire, commands: Mutex::new(commands) }
    }

    /// Sends the worker a command; waits while its queue is full.
    fn send(&self, mut command: Command) -> Result<(), RunEnding> {
        loop {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            match commands.push(command) {
                Ok(()) => return Ok(()),
                Err(_) if commands.is_abandoned() => return Err(RunEnding),
                Err(PushError::Full(unsent)) => command = unsent,
            }
            drop(commands);
            std::thread::sleep(NAP);
        }
    }

    /// Sends the worker a command that has one reply, and waits for the reply.
    pub(crate) fn request(
        &self,
        command: impl FnOnce(Producer<Reply>) -> Command,
    ) -> Result<Reply, RunEnding> {
        let replies = self.send_for_reply(command)?;
        self.only_reply(replies)
    }

    /// Sends the worker a command that has one reply; returns the ring for it.
    pub(crate) fn send_for_reply(
        &self,
        command: impl FnOnce(Producer<Reply>) -> Command,
    ) -> Result<Consumer<Reply>, RunEnding> {
        let (producer, replies) = RingBuffer::new(1);
        self.send(command(producer))?;
        Ok(replies)
    }

    /// Waits for the next reply. A worker that has ended leaves commands and their reply rings in
    /// its queue. So this function also checks whether the worker has dropped the queue.
    fn next_reply<T>(&self, replies: &mut Consumer<T>) -> Result<T, RunEnding> {
        loop {
            // Checked before the pop: replies that the worker pushed before it dropped its end must
            // still be taken.
            let is_over = replies.is_abandoned() || self.has_ended();
            match replies.pop() {
                Ok(reply) => return Ok(reply),
                Err(_) if is_over => return Err(RunEnding),
                Err(_) => std::thread::sleep(NAP),
            }
        }
    }

    /// Waits for the only reply.
    pub(crate) fn only_reply<T>(&self, mut replies: Consumer<T>) -> Result<T, RunEnding> {
        let reply = self.next_reply(&mut replies)?;
        free_ring(replies);
        Ok(reply)
    }

    fn has_ended(&self) -> bool {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).is_abandoned()
    }
}

/// Frees a ring after its last reply, once the worker has dropped its end, so that no worker frees
/// it.
fn free_ring<T>(replies: Consumer<T>) {
    while !replies.is_abandoned() {
        std::thread::yield_now();
    }
}

fn add_status(sum: OffloadStatus, next: OffloadStatus) -> OffloadStatus {
    OffloadStatus {
        live: sum.live + next.live,
        room: sum.room + next.room,
        threshold: sum.threshold.max(next.threshold),
        horizon_ns: sum.horizon_ns.max(next.horizon_ns),
        kinds_aside: sum.kinds_aside.max(next.kinds_aside),
        payback_packets: sum.payback_packets.max(next.payback_packets),
        packet_ns: sum.packet_ns.max(next.packet_ns),
        marks: MarkChoiceStatus {
            switches: sum.marks.switches + next.marks.switches,
            ..match sum.marks.in_use {
                MarkUse::Used if next.marks.in_use != MarkUse::Used => next.marks,
                MarkUse::Used if sum.marks.by_mark == 0.0 => next.marks,
                _ => sum.marks,
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::commands::queue::CommandQueue;
    use engine::{Config, Engine, Filter, Verdict};
    use std::path::Path;
    use wire::{BytesPacket, FrameBuilder};

    /// Returns a cursor within a walk that ends connections.
    fn cursor() -> Cursor {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53).build();
        engine.process(1_000_000, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        let mut cursor = Cursor::default();
        engine.sweep(&Filter::default(), &mut cursor, 1);
        cursor
    }

    /// Returns a client of one worker without ports, with a clock that begins now.
    fn client(commands: Producer<Command>) -> QueryClient {
        QueryClient {
            workers: vec![WorkerHandle::new(0, 0, commands)],
            ports: Vec::new(),
            rules: Vec::new(),
            offload: Offload::default(),
            snapshot_status: CheckpointStatus::default(),
            zones: Mutex::new(Arc::new(ZoneRules::new(&Config::default(), Vec::new()))),
            access: Mutex::new(Vec::new()),
            reloads: Turns::new(ListState::default()),
            has_labels: false,
            started: Instant::now(),
            energy: Mutex::new(EnergyMeter::start(Path::new("/"), Instant::now())),
            clock: Clock::new(tsc(), 1_000_000_000),
            subscriptions: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }
    }

    /// With one time for all, the idle time of the first ones would include the whole walk.
    #[test]
    fn a_connection_comes_with_the_time_of_its_part_of_the_walk() {
        let count = PART_RECORDS + 500;
        let mut engine = Engine::new(&Config { capacity_ipv4: 4 * count, ..Config::default() });
        for i in 0..count {
            let source = (u32::from_be_bytes([10, 0, 0, 0]) + i).to_be_bytes();
            let frame = FrameBuilder::ipv4(source, [192, 0, 2, 1]).udp(1, 53).build();
            engine.process(1_000_000, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        }
        let (mut queue, commands) = CommandQueue::new();
        let queries = client(commands);
        let has_ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&has_ended);
        let worker = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                queue.serve(&mut engine, |_| unreachable!("no counters are read"));
            }
        });
        let mut times = Vec::new();
        queries.flows(Query::default(), &mut |_, now| times.push(now)).unwrap();
        has_ended.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        assert_eq!(times.len(), count as usize);
        assert!(times.is_sorted() && times.first() < times.last(), "{:?}", times.first());
    }

    #[test]
    fn changes_of_all_workers_are_counted() {
        let worker = |in_use, switches| OffloadStatus {
            marks: MarkChoiceStatus { in_use, switches, ..MarkChoiceStatus::default() },
            ..OffloadStatus::default()
        };
        let sum = add_status(worker(MarkUse::Used, 2), worker(MarkUse::NoRules, 3));
        assert_eq!((sum.marks.in_use, sum.marks.switches), (MarkUse::NoRules, 5));
    }

    #[test]
    fn no_client_waits_for_a_worker_that_has_ended() {
        let (queue, commands) = CommandQueue::new();
        let worker = WorkerHandle::new(0, 0, commands);
        let (producer, replies) = RingBuffer::new(1);
        worker.send(Command::ReadCounters(producer)).unwrap();
        drop(queue);
        let (sender, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            sender.send(worker.only_reply::<WorkerReport>(replies).is_err())
        });
        assert_eq!(result.recv_timeout(Duration::from_secs(10)), Ok(true));
    }

    #[test]
    fn a_walk_revisits_connections_that_wait_for_their_nic() {
        let mut walk = Walk::new(WalkKind::Flush(Filter::default()));
        let cursor = cursor();
        let end = PartEnd { cursor, more: true, matched: 1, held: 1 };
        walk.advance(end);
        assert_eq!((walk.worker, walk.cursor), (0, cursor));
        // The part before had one that waits: the same worker again, and only records from that
        // time.
        walk.advance(PartEnd { more: false, held: 0, ..end });
        assert_eq!((walk.worker, walk.cursor), (0, cursor.again()));
        assert_ne!(walk.cursor, Cursor::default());
        walk.advance(PartEnd { more: false, held: 0, ..end });
        assert_eq!((walk.worker, walk.cursor, walk.matched), (1, Cursor::default(), 3));
        assert!(walk.held_since.is_none());
        // If the NIC does not reply, the walk goes on after [`HELD_MAX`].
        walk.held_since = Instant::now().checked_sub(HELD_MAX);
        walk.advance(PartEnd { more: false, held: 1, ..end });
        assert_eq!((walk.worker, walk.cursor), (2, Cursor::default()));
    }
}
