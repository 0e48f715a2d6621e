// SPDX-License-Identifier: BSD-3-Clause
//! Serves commands to a worker, a little of each between bursts.
//!
//! Each command brings its own ring for replies, so that clients do not wait for each other. The
//! worker serves up to four walks in turn. It checks a few records in one round of housekeeping; if
//! a ring is full, it goes on in a later round. Clients make and free the rings, never the worker.

use crate::live::commands::subscribers::{Subscriber, Subscribers};
use crate::live::counters::account::WorkerReport;
use engine::{ConnView, Cursor, Engine, Filter, MarkChange, Nanos, Query, ZoneStatus};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// Records that a walk checks in one round of housekeeping.
const LISTED: usize = 16;
/// Zones that a walk checks in one round: their counts are adjacent in memory.
const ZONES: usize = 64;
/// Commands that may wait for a worker.
const WAITING: usize = 64;
/// Walks that a worker serves in turn.
const WALKS: usize = 4;

/// A command, with the ring for its replies.
pub(crate) enum Command {
    /// Runs a part of a walk.
    Walk(WalkPart, Producer<Reply>),
    /// Reports all counters.
    Now(Producer<WorkerReport>),
    /// Subscribes a client to events of connections.
    Listen(Subscriber, Producer<Reply>),
    /// Ends the subscription with this number.
    Leave(u64, Producer<Reply>),
    /// Replaces the zone policies.
    Zones(Arc<engine::ZonePolicies>, Producer<Reply>),
}

/// The purpose of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WalkKind {
    /// Lists connections.
    List(Query),
    /// Counts connections.
    Count(Query),
    /// Ends connections.
    Flush(Filter),
    /// Writes to marks and labels of connections.
    Mark(Filter, MarkChange),
    /// Reviews connections: applies the policies in force in their zones now.
    Review,
    /// Lists zones that have connections, or had some recently. The walk has one part only.
    Zones,
}

/// A part of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkPart {
    pub(crate) kind: WalkKind,
    /// Place where the part begins.
    pub(crate) cursor: Cursor,
    /// Records to check, at least 1.
    pub(crate) places: u32,
}

/// A reply to a command. The last reply of a walk is [`Reply::End`]; other commands have one reply.
pub(crate) enum Reply {
    Flow(ConnView),
    Zone {
        zone: u16,
        now: ZoneStatus,
    },
    End(PartEnd),
    /// The client is subscribed to events from now on.
    Listens,
    /// The client's subscription has ended; contains the worker's end of the ring.
    Left(Option<Subscriber>),
    /// The zone policies that were replaced.
    Zones(Arc<engine::ZonePolicies>),
}

/// The end of a part of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartEnd {
    /// Where the next part begins, if `more`.
    pub(crate) cursor: Cursor,
    pub(crate) more: bool,
    /// Connections that matched and were listed, counted, changed or ended. In a review, those
    /// whose timeouts became earlier.
    pub(crate) matched: u64,
    /// Connections that are to end, but wait for their NIC.
    pub(crate) held: u64,
}

/// A part of a walk that is being served.
struct Walk {
    kind: WalkKind,
    left: u32,
    next_zone: u32,
    end: PartEnd,
    told: Producer<Reply>,
}

/// The worker's end of the queue of commands.
pub(crate) struct CommandQueue {
    asks: Consumer<Command>,
    walks: [Option<Walk>; WALKS],
    /// Number of walks that are served.
    count: usize,
    /// The walk whose turn is next.
    next: usize,
    listeners: Subscribers,
}

impl CommandQueue {
    /// Returns the worker's end, and the end that its clients share.
    pub(crate) fn new() -> (Self, Producer<Command>) {
        let (ask, asks) = RingBuffer::new(WAITING);
        let listeners = Subscribers::default();
        (Self { asks, walks: [const { None }; WALKS], count: 0, next: 0, listeners }, ask)
    }

    /// Does some of the work requested; returns how much, 0 if none is requested.
    #[inline(always)]
    pub(crate) fn serve(
        &mut self,
        engine: &mut Engine,
        now: impl FnOnce(&Engine) -> WorkerReport,
    ) -> usize {
        if self.count == 0 && self.asks.is_empty() {
            return 0;
        }
        self.serve_some(engine, now)
    }

    #[inline(never)]
    fn serve_some(
        &mut self,
        engine: &mut Engine,
        now: impl FnOnce(&Engine) -> WorkerReport,
    ) -> usize {
        let takes = match self.asks.peek() {
            Ok(Command::Walk(..)) => self.count < WALKS,
            Ok(_) => true,
            Err(_) => false,
        };
        let Some(ask) = takes.then(|| self.asks.pop().ok()).flatten() else {
            return self.go_on(engine);
        };
        let (answer, mut told) = match ask {
            Command::Walk(part, told) => {
                self.begin(Walk::new(part, told));
                return self.go_on(engine);
            }
            Command::Now(mut told) => {
                let _ = told.push(now(engine));
                return 1;
            }
            Command::Listen(listener, told) => {
                let refused = self.listeners.join(listener, engine);
                (refused.map_or(Reply::Listens, |refused| Reply::Left(Some(refused))), told)
            }
            Command::Leave(id, told) => (Reply::Left(self.listeners.leave(id, engine)), told),
            Command::Zones(zones, told) => (Reply::Zones(engine.set_zones(zones)), told),
        };
        // The ring is new and has room for one reply.
        let _ = told.push(answer);
        1
    }

    fn begin(&mut self, walk: Walk) {
        if let Some(place) = self.walks.iter_mut().find(|place| place.is_none()) {
            *place = Some(walk);
            self.count += 1;
        }
    }

    /// Hands up to `budget` events to subscribers; returns how many.
    #[inline(always)]
    pub(crate) fn tell(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        self.listeners.tell(engine, budget, now)
    }

    /// Runs a step of the walk whose turn it is.
    fn go_on(&mut self, engine: &mut Engine) -> usize {
        for _ in 0..WALKS {
            let place = self.next;
            self.next = (self.next + 1) % WALKS;
            let Some(walk) = &mut self.walks[place] else { continue };
            // One slot is kept for the end.
            let room = walk.told.slots().saturating_sub(1);
            // Without a client, nothing is listed or ended any more.
            let is_abandoned = walk.told.is_abandoned();
            if room == 0 && !is_abandoned {
                continue;
            }
            let looked_at = if is_abandoned { 1 } else { walk.step(engine, room) };
            if walk.left == 0 || !walk.end.more || is_abandoned {
                let _ = walk.told.push(Reply::End(walk.end));
                self.walks[place] = None;
                self.count -= 1;
            }
            return looked_at;
        }
        0
    }
}

impl Walk {
    fn new(WalkPart { kind, cursor, places }: WalkPart, told: Producer<Reply>) -> Self {
        let end = PartEnd { cursor, more: true, ..PartEnd::default() };
        Self { kind, left: places.max(1), next_zone: 0, end, told }
    }

    /// Checks records as far as `room` replies fit; returns how many it checked.
    fn step(&mut self, engine: &mut Engine, room: usize) -> usize {
        if matches!(self.kind, WalkKind::Zones) {
            return self.step_zones(engine, room);
        }
        let budget = room.min(LISTED).min(self.left as usize);
        let told = &mut self.told;
        let PartEnd { cursor, more, matched, held } = &mut self.end;
        *more = match &self.kind {
            WalkKind::List(query) => engine.list(query, cursor, budget as u32, &mut |flow| {
                *matched += 1;
                // The ring has room, unless the client has disconnected.
                let _ = told.push(Reply::Flow(flow));
            }),
            WalkKind::Count(query) => engine.count(query, cursor, budget as u32, matched),
            WalkKind::Flush(filter) => {
                let swept = engine.sweep(filter, cursor, budget as u32);
                *matched += u64::from(swept.ended);
                *held += u64::from(swept.held);
                swept.more
            }
            WalkKind::Mark(filter, change) => {
                let written = engine.mark((filter, *change), cursor, budget as u32);
                *matched += u64::from(written.matched);
                written.more
            }
            WalkKind::Review => engine.review(cursor, budget as u32, matched),
            WalkKind::Zones => false,
        };
        self.left -= budget as u32;
        budget
    }

    fn step_zones(&mut self, engine: &Engine, room: usize) -> usize {
        let budget = room.min(ZONES) as u32;
        let until = (self.next_zone + budget).min(u32::from(u16::MAX) + 1);
        for zone in self.next_zone..until {
            let zone = zone as u16;
            let now = engine.zone_status(zone);
            if now != ZoneStatus::default() {
                self.end.matched += 1;
                let _ = self.told.push(Reply::Zone { zone, now });
            }
        }
        self.next_zone = until;
        self.end.more = until <= u32::from(u16::MAX);
        budget as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Config, EndpointMatch, Verdict};
    use wire::{BytesPacket, FrameBuilder};

    /// Returns an engine with 2000 connections, half of them in each of two zones.
    fn engine() -> Engine {
        let mut engine = Engine::new(&Config { capacity_ipv4: 4096, ..Config::default() });
        for port in 0..2000 {
            let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53);
            let frame = if port % 2 == 0 { frame.vlan(7) } else { frame }.build();
            engine.process(1, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        }
        engine
    }

    /// Returns all replies to a command, and the most records checked in one round.
    fn answer(engine: &mut Engine, ask: WalkPart) -> (Vec<Reply>, usize) {
        let (mut queue, mut asks) = CommandQueue::new();
        let mut replies = push(&mut asks, ask);
        let (mut told, mut most) = (Vec::new(), 0);
        loop {
            most = most.max(queue.serve(engine, |_| unreachable!("nobody asked for it")));
            while let Ok(next) = replies.pop() {
                if let Reply::End(_) = next {
                    told.push(next);
                    while engine.next_record().is_some() {}
                    return (told, most);
                }
                told.push(next);
            }
            // Takes some records, as the control thread would.
            (0..8).for_each(|_| assert!(engine.next_record().is_none_or(|r| r.proto == 17)));
        }
    }

    /// Capacity of the rings of replies in these tests.
    const TOLD: usize = 512;

    /// Sends a command to a worker; returns the ring of its replies.
    fn push(asks: &mut Producer<Command>, part: WalkPart) -> Consumer<Reply> {
        let (told, replies) = RingBuffer::new(TOLD);
        asks.push(Command::Walk(part, told)).ok().unwrap();
        replies
    }

    fn walk(kind: WalkKind, places: u32) -> WalkPart {
        WalkPart { kind, cursor: Cursor::default(), places }
    }

    #[test]
    fn a_worker_goes_on_when_there_is_room_for_answers() {
        let mut engine = engine();
        let (mut queue, mut asks) = CommandQueue::new();
        let mut serve = || queue.serve(&mut engine, |_| unreachable!("nobody asked for it"));
        assert_eq!(serve(), 0);
        let all = walk(WalkKind::List(Query::default()), u32::MAX);
        let mut replies = push(&mut asks, all);
        // No client reads: the walk stops when the ring is full, and the worker does not wait.
        while serve() > 0 {}
        assert!(replies.slots() < TOLD && replies.slots() > TOLD / 2);
        let mut flows = 0;
        let end = loop {
            match replies.pop() {
                Ok(Reply::End(end)) => break end,
                Ok(_) => flows += 1,
                Err(_) => assert!(serve() <= LISTED),
            }
        };
        assert_eq!((flows, serve()), (2000, 0));
        assert_eq!((end.more, end.matched), (false, 2000));
        assert!(replies.pop().is_err());
    }

    #[test]
    fn a_part_is_as_long_as_asked_for_and_the_next_one_goes_on() {
        let mut engine = engine();
        let filter = Filter { zone: Some(7), ..Filter::default() };
        let query = Query { filter, ..Query::default() };
        for kind in [WalkKind::Count(query), WalkKind::List(query), WalkKind::Flush(filter)] {
            let (mut part, mut matched, mut parts) = (walk(kind, 300), 0, 0);
            loop {
                let (mut told, most) = answer(&mut engine, part);
                assert!(most <= LISTED);
                let Some(Reply::End(end)) = told.pop() else { panic!("the end comes last") };
                let is_list = matches!(kind, WalkKind::List(_));
                assert_eq!(told.len() as u64, if is_list { end.matched } else { 0 });
                assert!(end.matched <= 150);
                (matched, parts) = (matched + end.matched, parts + 1);
                part.cursor = end.cursor;
                if !end.more {
                    break;
                }
            }
            assert_eq!(matched, 1000, "{kind:?}");
            assert!(parts >= 7, "{kind:?}");
        }
        assert_eq!(engine.stats().active(), 1000);
        let either = EndpointMatch { port: Some(1999), ..EndpointMatch::default() };
        let rest = Query { filter: Filter { either, ..Filter::default() }, ..Query::default() };
        let (told, _) = answer(&mut engine, walk(WalkKind::Count(rest), u32::MAX));
        assert!(matches!(told[..], [Reply::End(PartEnd { matched: 1, more: false, .. })]));
    }

    /// Checks the cursor that each round leaves, not the number that it returns.
    #[test]
    fn a_round_is_short_however_much_is_asked_for() {
        let mut engine = engine();
        let (mut queue, mut asks) = CommandQueue::new();
        let all = [WalkKind::List(Query::default()), WalkKind::Flush(Filter::default())];
        for kind in all {
            let mut replies = push(&mut asks, walk(kind, u32::MAX));
            let mut touched = 0;
            let end = loop {
                let before = engine.stats().active();
                queue.serve(&mut engine, |_| unreachable!("nobody asked for it"));
                let (mut of_round, mut end) = (before - engine.stats().active(), None);
                while let Ok(next) = replies.pop() {
                    match next {
                        Reply::End(last) => end = Some(last),
                        _ => of_round += 1,
                    }
                }
                assert!(of_round <= LISTED as u64, "{of_round}");
                touched += of_round;
                if let Some(end) = end {
                    break end;
                }
                while engine.next_record().is_some() {}
            };
            assert_eq!((touched, end.matched), (2000, 2000), "{kind:?}");
        }
    }

    #[test]
    fn zones_that_have_connections_are_told_in_order() {
        let (told, most) = answer(&mut engine(), walk(WalkKind::Zones, 1));
        const NOW: ZoneStatus = ZoneStatus { connections: 1000, embryonic: 1000, begun: 0 };
        assert!(matches!(
            told[..],
            [
                Reply::Zone { zone: 0, now: NOW },
                Reply::Zone { zone: 7, now: NOW },
                Reply::End(PartEnd { matched: 2, more: false, .. })
            ]
        ));
        assert!(most <= ZONES);
    }

    /// Walks are served in turn, and other commands do not wait for them.
    #[test]
    fn walks_are_served_in_turn() {
        let mut engine = engine();
        let (mut queue, mut asks) = CommandQueue::new();
        let all = walk(WalkKind::List(Query::default()), 256);
        let mut replies: Vec<_> = (0..WALKS + 1).map(|_| push(&mut asks, all)).collect();
        let nobody = |_: &Engine| unreachable!("nobody asked for it");
        (0..WALKS * 4).for_each(|_| assert_eq!(queue.serve(&mut engine, nobody), LISTED));
        // Four of five walks are being served, and none is ahead of another.
        let told: Vec<usize> = replies.iter().map(|replies| replies.slots()).collect();
        assert_eq!(told, [4 * LISTED, 4 * LISTED, 4 * LISTED, 4 * LISTED, 0]);
        // A client that reads nothing delays no other.
        replies.truncate(WALKS);
        while queue.serve(&mut engine, nobody) > 0 {}
        assert!(replies.iter().all(|replies| replies.slots() == 257));
        assert!(replies.iter().all(|replies| replies.is_abandoned()));
        assert_eq!(queue.count, 0);
    }
}
