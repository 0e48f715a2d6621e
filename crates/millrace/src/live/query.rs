// SPDX-License-Identifier: BSD-3-Clause
//! Asks the workers and ports of a running bump how things stand, and waits for their answers: for
//! threads that serve somebody who wants to know, never for one that a packet depends on.
//!
//! Each command has a ring of its own for its replies, so clients do not wait for each other. A
//! walk is a command for each part of it, and the ring holds a whole part: however slowly a client
//! reads, no worker waits for it.

use super::checkpointing::CheckpointStatus;
use super::clock::Clock;
use super::command_queue::{Command, PartEnd, Reply, WalkKind, WalkPart};
use super::offload::RulesHandle;
use super::turns::Turns;
use super::worker::Report;
use super::{SharedPort, report};
use ::report::summary::{Offload, OffloadPort, Summary};
use config::plan::ZoneRules;
use dpdk::tsc;
use engine::{ConnView, Cursor, Nanos, OffloadStatus, Query, RuleView, ZoneStatus};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks whether there is an answer.
pub(super) const NAP: Duration = Duration::from_micros(200);
/// Places in a part of a walk: as many flows at most are kept in memory.
const PART: u32 = 1024;
/// Replies of a part: a flow for each place, and the end.
const REPLIES: usize = PART as usize + 1;
/// Flows that wait for their NIC are looked for again after this, and not for longer than that.
const HELD_NAP: Duration = Duration::from_millis(20);
const HELD_MAX: Duration = Duration::from_secs(5);

/// A bump that may be asked.
pub(crate) struct QueryClient {
    pub(super) workers: Vec<WorkerHandle>,
    /// Upstream end and downstream end of each wire, in turn, and what takes their rules.
    pub(super) ports: Vec<SharedPort>,
    pub(super) rules: Vec<RulesHandle>,
    pub(super) policy: String,
    pub(super) bypass: String,
    pub(super) gauge: CheckpointStatus,
    pub(super) zones: Mutex<Arc<ZoneRules>>,
    /// Who changes them.
    pub(super) reloads: Turns<()>,
    pub(super) has_labels: bool,
    pub(super) started: Instant,
    /// That of the workers.
    pub(super) clock: Clock,
    /// How many have listened so far.
    pub(super) listeners: AtomicU64,
    /// The run is about to end.
    pub(super) is_ending: AtomicBool,
}

/// A worker that may be asked.
pub(super) struct WorkerHandle {
    pub(super) lcore: u32,
    /// Number of its wire.
    pub(super) wire: usize,
    /// Held for one push, and by no worker.
    pub(super) asks: Mutex<Producer<Command>>,
}

/// The run is over, or about to be: there is nobody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run has come to its end")]
pub(crate) struct RunEnding;

/// A flow, and the worker that has it.
pub(crate) struct ListedConn {
    pub(crate) flow: ConnView,
    pub(crate) lcore: u32,
    pub(crate) wire: usize,
}

impl ListedConn {
    /// What is known of the rules of its two directions, where that was asked for.
    pub(crate) fn rules(&self) -> &[RuleView; 2] {
        self.flow.rules.as_ref().unwrap_or(&RuleView::NONE)
    }
}

/// What a walk has come to.
#[expect(clippy::large_enum_variant, reason = "nearly all of them are flows")]
pub(crate) enum WalkItem {
    Flow(ListedConn),
    /// Of one worker.
    Zone {
        zone: u16,
        now: ZoneStatus,
    },
}

/// A walk through what the workers have, of one after the other.
pub(crate) struct Walk {
    errand: WalkKind,
    /// Flows that were meant so far, and told, counted or ended.
    pub(crate) matched: u64,
    /// Number of the worker it has come to, and how far.
    worker: usize,
    cursor: Cursor,
    /// Flows of this round that wait for their NIC, and since when there are some.
    held: u64,
    held_since: Option<Instant>,
}

impl Walk {
    pub(crate) fn new(errand: WalkKind) -> Self {
        let cursor = Cursor::default();
        Self { errand, matched: 0, worker: 0, cursor, held: 0, held_since: None }
    }

    /// A part is over.
    fn follow(&mut self, end: PartEnd) {
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

/// One port, and how things stand with its rules.
pub(crate) struct PortStatus {
    pub(crate) rules: OffloadPort,
    /// Over all workers: the highest threshold, the longest horizon, and sums.
    pub(crate) state: OffloadStatus,
}

impl QueryClient {
    /// Gives all flows that are asked for to `found`, of one worker after the other.
    pub(crate) fn flows(
        &self,
        query: Query,
        found: &mut impl FnMut(ListedConn),
    ) -> Result<(), RunEnding> {
        let mut walk = Walk::new(WalkKind::List(query));
        let mut met = |met| {
            if let WalkItem::Flow(flow) = met {
                found(flow);
            }
        };
        while self.go_on(&mut walk, &mut met)? {}
        Ok(())
    }

    /// Goes on with a walk; gives what its next part comes to to `met`, which must not take long.
    /// False: that was the last of it.
    pub(crate) fn go_on(
        &self,
        walk: &mut Walk,
        met: &mut impl FnMut(WalkItem),
    ) -> Result<bool, RunEnding> {
        let Some(worker) = self.workers.get(walk.worker) else { return Ok(false) };
        self.check()?;
        let part = WalkPart { errand: walk.errand, cursor: walk.cursor, places: PART };
        let (told, mut replies) = RingBuffer::new(REPLIES);
        worker.send(Command::Walk(part, told))?;
        let (lcore, wire) = (worker.lcore, worker.wire);
        let end = loop {
            match reply(&mut replies)? {
                Reply::Flow(flow) => met(WalkItem::Flow(ListedConn { flow, lcore, wire })),
                Reply::Zone { zone, now } => met(WalkItem::Zone { zone, now }),
                Reply::End(end) => break end,
                _ => return Err(RunEnding),
            }
        };
        free(replies);
        walk.follow(end);
        Ok(true)
    }

    /// The run is about to end: walks break off after the part that they are at. One that ends
    /// flows may wait for room among their records, and who takes those has other things to do.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether there is somebody to ask.
    pub(super) fn check(&self) -> Result<(), RunEnding> {
        if self.is_ending.load(Ordering::Relaxed) { Err(RunEnding) } else { Ok(()) }
    }

    /// What the summary would say if the run ended now.
    pub(crate) fn summary(&self) -> Result<Summary, RunEnding> {
        let reports: Vec<_> =
            self.now()?.into_iter().map(|(lcore, _, report)| (lcore, report)).collect();
        let ports =
            self.rules.iter().map(RulesHandle::ask).collect::<Option<_>>().ok_or(RunEnding)?;
        let (policy, bypass) = (self.policy.clone(), self.bypass.clone());
        let offload = Offload { policy, bypass, ports, ..Offload::default() };
        let duration = self.started.elapsed();
        let summary = report::interim(&self.ports, &reports, (duration, offload));
        Ok(Summary { snapshot: self.gauge.read(), ..summary })
    }

    /// All ports, in their order.
    pub(crate) fn ports(&self) -> Result<Vec<PortStatus>, RunEnding> {
        let workers = self.now()?;
        let port = |(number, line): (usize, &RulesHandle)| {
            let (wire, side) = (number / 2, number % 2);
            let of_wire = workers.iter().filter(|(_, at, _)| *at == wire);
            let states = of_wire.map(|(_, _, report)| report.admission[side]);
            Some(PortStatus { rules: line.ask()?, state: states.reduce(plus).unwrap_or_default() })
        };
        self.rules.iter().enumerate().map(port).collect::<Option<_>>().ok_or(RunEnding)
    }

    /// Names of all ports, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(RulesHandle::name)
    }

    /// Who gets rules, as `policy` says it.
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// What holds in which zone.
    pub(crate) fn zones(&self) -> Arc<ZoneRules> {
        Arc::clone(&self.zones.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether connections have labels.
    pub(crate) fn has_labels(&self) -> bool {
        self.has_labels
    }

    /// What it is by the clock of the workers, whatever became of the system's since the start.
    pub(crate) fn time(&self) -> Nanos {
        self.clock.at(tsc())
    }

    /// How long the bump has run.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lcore, wire, and how it stands, of each worker.
    fn now(&self) -> Result<Vec<(u32, usize, Report)>, RunEnding> {
        let ask = |worker: &WorkerHandle| {
            let (told, replies) = RingBuffer::new(1);
            worker.send(Command::Now(told)).map(|()| replies)
        };
        let asked: Vec<_> = self.workers.iter().map(ask).collect::<Result<_, _>>()?;
        let answer =
            |(worker, replies): (&WorkerHandle, _)| Ok((worker.lcore, worker.wire, only(replies)?));
        self.workers.iter().zip(asked).map(answer).collect()
    }
}

impl WorkerHandle {
    /// Gives the worker a command.
    fn send(&self, mut ask: Command) -> Result<(), RunEnding> {
        loop {
            let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
            match asks.push(ask) {
                Ok(()) => return Ok(()),
                Err(_) if asks.is_abandoned() => return Err(RunEnding),
                Err(PushError::Full(unsent)) => ask = unsent,
            }
            drop(asks);
            std::thread::sleep(NAP);
        }
    }

    /// Gives the worker a command that has one reply, and waits for that.
    pub(super) fn ask(
        &self,
        ask: impl FnOnce(Producer<Reply>) -> Command,
    ) -> Result<Reply, RunEnding> {
        let (told, replies) = RingBuffer::new(1);
        self.send(ask(told))?;
        only(replies)
    }
}

/// Waits for the next reply.
fn reply<T>(replies: &mut Consumer<T>) -> Result<T, RunEnding> {
    loop {
        // Looked at first: what was pushed before the worker let go is still to be taken.
        let is_abandoned = replies.is_abandoned();
        match replies.pop() {
            Ok(told) => return Ok(told),
            Err(_) if is_abandoned => return Err(RunEnding),
            Err(_) => std::thread::sleep(NAP),
        }
    }
}

/// Waits for the only reply.
fn only<T>(mut replies: Consumer<T>) -> Result<T, RunEnding> {
    let told = reply(&mut replies)?;
    free(replies);
    Ok(told)
}

/// Frees a ring whose last reply has come, once the worker has let go of it: it frees none.
fn free<T>(replies: Consumer<T>) {
    while !replies.is_abandoned() {
        std::thread::yield_now();
    }
}

fn plus(sum: OffloadStatus, next: OffloadStatus) -> OffloadStatus {
    OffloadStatus {
        live: sum.live + next.live,
        room: sum.room + next.room,
        threshold: sum.threshold.max(next.threshold),
        horizon_ns: sum.horizon_ns.max(next.horizon_ns),
        kinds_aside: sum.kinds_aside.max(next.kinds_aside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Config, Engine, Filter, Verdict};
    use wire::{BytesPacket, FrameBuilder};

    /// Within a walk that ends flows.
    fn cursor() -> Cursor {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53).build();
        engine.process(1_000_000, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        let mut cursor = Cursor::default();
        engine.sweep(&Filter::default(), &mut cursor, 1);
        cursor
    }

    #[test]
    fn a_walk_comes_again_for_flows_that_wait_for_their_nic() {
        let mut walk = Walk::new(WalkKind::Flush(Filter::default()));
        let cursor = cursor();
        let end = PartEnd { cursor, more: true, matched: 1, held: 1 };
        walk.follow(end);
        assert_eq!((walk.worker, walk.cursor), (0, cursor));
        // One was held in the part before: the same worker again, and only what was there then.
        walk.follow(PartEnd { more: false, held: 0, ..end });
        assert_eq!((walk.worker, walk.cursor), (0, cursor.again()));
        assert_ne!(walk.cursor, Cursor::default());
        walk.follow(PartEnd { more: false, held: 0, ..end });
        assert_eq!((walk.worker, walk.cursor, walk.matched), (1, Cursor::default(), 3));
        assert!(walk.held_since.is_none());
        // A NIC that does not answer holds nobody up for ever.
        walk.held_since = Instant::now().checked_sub(HELD_MAX);
        walk.follow(PartEnd { more: false, held: 1, ..end });
        assert_eq!((walk.worker, walk.cursor), (2, Cursor::default()));
    }
}
