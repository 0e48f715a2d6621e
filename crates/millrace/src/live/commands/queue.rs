// SPDX-License-Identifier: BSD-3-Clause
//! Serves commands to a worker, a little of each between bursts.
//!
//! Each command brings its own ring for replies, so that clients do not wait for each other. The
//! worker serves up to four walks in turn. It checks a few records in one round of housekeeping; if
//! a ring is full, it goes on in a later round. Clients make and free the rings, never the worker.

use crate::live::commands::subscribers::{Subscriber, Subscribers};
use crate::live::counters::account::WorkerReport;
use engine::{
    AccessLists, AccessUpdate, ConnView, Cursor, DecisionChange, Engine, Filter, ListMarkStats,
    MarkChange, Nanos, PacketExplanation, PacketQuestion, Query, RuleHits, ZoneStatus,
};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// Records that a walk checks in one round of housekeeping.
const WALK_RECORDS: usize = 16;
/// Records that a walk compares two versions of access lists for in one round. A record may take
/// several searches.
const PREVIEW_RECORDS: usize = 4;
/// Zones that a walk checks in one round: their counts are adjacent in memory.
const WALK_ZONES: usize = 64;
/// Slots of marks that one command calls back: in each is at most one connection.
const RECALL_SLOTS: u32 = 256;
/// Commands that may wait for a worker.
const COMMANDS: usize = 64;
/// Walks that a worker serves in turn.
const WALKS: usize = 4;

/// A command, with the ring for its replies.
pub(crate) enum Command {
    /// Runs a part of a walk.
    Walk(WalkPart, Producer<Reply>),
    /// Reports all counters.
    ReadCounters(Producer<WorkerReport>),
    /// Subscribes a client to events of connections.
    Subscribe(Subscriber, Producer<Reply>),
    /// Ends the subscription with this number.
    Unsubscribe(u64, Producer<Reply>),
    /// Replaces the zone policies.
    Zones(Arc<engine::ZonePolicies>, Producer<Reply>),
    /// Calls connections back from the NIC, before access lists change.
    Recall(Producer<Reply>),
    /// Replaces the access lists.
    Access(AccessUpdate, Producer<Reply>),
    /// Adds the counters of the rules of access lists to these.
    RuleHits(Vec<RuleHits>, Producer<Reply>),
    /// Explains what would happen to a packet.
    Explain(PacketQuestion, Producer<Reply>),
}

/// The purpose of a walk.
#[derive(Clone, Debug)]
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
    /// Makes the access lists in force now decide about connections.
    OpenAccess,
    /// Counts the packets of connections for the rules of access lists.
    SettleRules,
    /// Lists connections that these access lists would decide about otherwise. The client keeps the
    /// lists until the walk has ended, and frees them.
    PreviewAccess(Arc<AccessLists>),
    /// Lists zones that have connections, or had some recently. The walk has one part only.
    Zones,
}

/// A part of a walk.
#[derive(Clone, Debug)]
pub(crate) struct WalkPart {
    pub(crate) kind: WalkKind,
    /// Place where the part begins.
    pub(crate) cursor: Cursor,
    /// Records to check, at least 1.
    pub(crate) records: u32,
}

/// A reply to a command. The last reply of a walk is [`Reply::End`]; other commands have one reply.
pub(crate) enum Reply {
    Flow(ConnView),
    /// A connection that other access lists would decide about otherwise.
    Decision(DecisionChange, ConnView),
    Zone {
        zone: u16,
        now: ZoneStatus,
    },
    End(PartEnd),
    /// The client is subscribed to events from now on.
    Subscribed,
    /// The subscription has ended, or was refused; contains the worker's end of the ring. `None` if
    /// there was none.
    Unsubscribed(Option<Subscriber>),
    /// The zone policies that were replaced.
    Zones(Arc<engine::ZonePolicies>),
    /// Rules by which the NIC may still forward packets by itself.
    Bypasses(u32),
    /// The access lists that were replaced.
    Access(AccessUpdate),
    /// The counters with those of the worker.
    RuleHits(Vec<RuleHits>, ListMarkStats),
    /// `None` if the addresses are of two IP versions.
    Explained(Option<PacketExplanation>),
}

/// The end of a part of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartEnd {
    /// Where the next part begins, if `more`.
    pub(crate) cursor: Cursor,
    pub(crate) more: bool,
    /// Connections that matched and were listed, counted, changed or ended. In a review,
    /// connections whose timers now expire earlier. In a walk through zones, zones.
    pub(crate) matched: u64,
    /// Connections that are to end, but wait for their NIC.
    pub(crate) held: u64,
}

/// A part of a walk that is being served.
struct Walk {
    kind: WalkKind,
    records_left: u32,
    next_zone: u32,
    end: PartEnd,
    replies: Producer<Reply>,
}

/// The worker's end of the queue of commands.
pub(crate) struct CommandQueue {
    commands: Consumer<Command>,
    walks: [Option<Walk>; WALKS],
    /// Number of walks that are served.
    count: usize,
    /// The walk whose turn is next.
    next: usize,
    subscribers: Subscribers,
}

impl CommandQueue {
    /// Returns the worker's end, and the end that its clients share.
    pub(crate) fn new() -> (Self, Producer<Command>) {
        let (producer, commands) = RingBuffer::new(COMMANDS);
        let subscribers = Subscribers::default();
        (
            Self { commands, walks: [const { None }; WALKS], count: 0, next: 0, subscribers },
            producer,
        )
    }

    /// Does some of the work requested; returns how much, 0 if none is requested or no ring has
    /// room.
    #[inline(always)]
    pub(crate) fn serve(
        &mut self,
        engine: &mut Engine,
        report: impl FnOnce(&Engine) -> WorkerReport,
    ) -> usize {
        if self.count == 0 && self.commands.is_empty() {
            return 0;
        }
        self.serve_some(engine, report)
    }

    #[inline(never)]
    fn serve_some(
        &mut self,
        engine: &mut Engine,
        report: impl FnOnce(&Engine) -> WorkerReport,
    ) -> usize {
        let can_take = match self.commands.peek() {
            Ok(Command::Walk(..)) => self.count < WALKS,
            Ok(_) => true,
            Err(_) => false,
        };
        let Some(command) = can_take.then(|| self.commands.pop().ok()).flatten() else {
            return self.step_next_walk(engine);
        };
        let (reply, mut replies) = match command {
            Command::Walk(part, replies) => {
                self.add_walk(Walk::new(part, replies));
                return self.step_next_walk(engine);
            }
            Command::ReadCounters(mut replies) => {
                let _ = replies.push(report(engine));
                return 1;
            }
            Command::Subscribe(subscriber, replies) => {
                let refused = self.subscribers.add(subscriber, engine);
                (
                    refused.map_or(Reply::Subscribed, |refused| Reply::Unsubscribed(Some(refused))),
                    replies,
                )
            }
            Command::Unsubscribe(id, replies) => {
                (Reply::Unsubscribed(self.subscribers.remove(id, engine)), replies)
            }
            Command::Zones(zones, replies) => (Reply::Zones(engine.set_zones(zones)), replies),
            Command::Recall(replies) => {
                (Reply::Bypasses(engine.recall_bypasses(RECALL_SLOTS)), replies)
            }
            Command::Access(update, replies) => (Reply::Access(engine.set_access(update)), replies),
            Command::RuleHits(mut counters, replies) => {
                engine.add_rule_hits(&mut counters);
                let marks = engine.list_mark_stats().unwrap_or_default();
                (Reply::RuleHits(counters, marks), replies)
            }
            Command::Explain(packet, replies) => {
                (Reply::Explained(engine.explain(&packet)), replies)
            }
        };
        // The ring is new and has room for one reply.
        let _ = replies.push(reply);
        1
    }

    fn add_walk(&mut self, walk: Walk) {
        if let Some(slot) = self.walks.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(walk);
            self.count += 1;
        }
    }

    /// Hands up to `budget` events to subscribers; returns how many.
    #[inline(always)]
    pub(crate) fn send_events(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        self.subscribers.send_events(engine, budget, now)
    }

    /// Runs a step of the walk whose turn it is.
    fn step_next_walk(&mut self, engine: &mut Engine) -> usize {
        for _ in 0..WALKS {
            let index = self.next;
            self.next = (self.next + 1) % WALKS;
            let Some(walk) = &mut self.walks[index] else { continue };
            // One slot is kept for the end.
            let room = walk.replies.slots().saturating_sub(1);
            // Without a client, nothing is listed or ended any more.
            let is_abandoned = walk.replies.is_abandoned();
            if room == 0 && !is_abandoned {
                continue;
            }
            let checked = if is_abandoned { 1 } else { walk.step(engine, room) };
            if walk.records_left == 0 || !walk.end.more || is_abandoned {
                let _ = walk.replies.push(Reply::End(walk.end));
                self.walks[index] = None;
                self.count -= 1;
            }
            return checked;
        }
        0
    }
}

impl Walk {
    fn new(WalkPart { kind, cursor, records }: WalkPart, replies: Producer<Reply>) -> Self {
        let end = PartEnd { cursor, more: true, ..PartEnd::default() };
        Self { kind, records_left: records.max(1), next_zone: 0, end, replies }
    }

    /// Checks records as far as `room` replies fit; returns how many it checked.
    fn step(&mut self, engine: &mut Engine, room: usize) -> usize {
        if matches!(self.kind, WalkKind::Zones) {
            return self.step_zones(engine, room);
        }
        let most = match self.kind {
            WalkKind::PreviewAccess(_) => PREVIEW_RECORDS,
            _ => WALK_RECORDS,
        };
        let budget = room.min(most).min(self.records_left as usize);
        let replies = &mut self.replies;
        let PartEnd { cursor, more, matched, held } = &mut self.end;
        *more = match &self.kind {
            WalkKind::List(query) => engine.list(query, cursor, budget as u32, &mut |flow| {
                *matched += 1;
                // The ring has room, unless the client has disconnected.
                let _ = replies.push(Reply::Flow(flow));
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
            WalkKind::OpenAccess => engine.open_access(cursor, budget as u32, matched),
            WalkKind::SettleRules => engine.settle_rules(cursor, budget as u32),
            WalkKind::PreviewAccess(lists) => {
                engine.preview_access(lists, cursor, budget as u32, &mut |change, view| {
                    if change.now != change.then {
                        *matched += 1;
                        let _ = replies.push(Reply::Decision(change, view()));
                    }
                })
            }
            WalkKind::Zones => false,
        };
        self.records_left -= budget as u32;
        budget
    }

    fn step_zones(&mut self, engine: &Engine, room: usize) -> usize {
        let budget = room.min(WALK_ZONES) as u32;
        let until = (self.next_zone + budget).min(u32::from(u16::MAX) + 1);
        for zone in self.next_zone..until {
            let zone = zone as u16;
            let status = engine.zone_status(zone);
            if status != ZoneStatus::default() {
                self.end.matched += 1;
                let _ = self.replies.push(Reply::Zone { zone, now: status });
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
    fn run_walk(engine: &mut Engine, part: WalkPart) -> (Vec<Reply>, usize) {
        let (mut queue, mut commands) = CommandQueue::new();
        let mut replies = push_walk(&mut commands, part);
        let (mut received, mut most) = (Vec::new(), 0);
        loop {
            most = most.max(queue.serve(engine, |_| unreachable!("no command requests it")));
            while let Ok(next) = replies.pop() {
                if let Reply::End(_) = next {
                    received.push(next);
                    while engine.next_record().is_some() {}
                    return (received, most);
                }
                received.push(next);
            }
            // Takes some records, as the control thread would.
            (0..8).for_each(|_| assert!(engine.next_record().is_none_or(|r| r.proto == 17)));
        }
    }

    /// Capacity of the rings of replies in these tests.
    const REPLIES: usize = 512;

    /// Sends a command to a worker; returns the ring of its replies.
    fn push_walk(commands: &mut Producer<Command>, part: WalkPart) -> Consumer<Reply> {
        let (producer, replies) = RingBuffer::new(REPLIES);
        commands.push(Command::Walk(part, producer)).ok().unwrap();
        replies
    }

    fn whole_walk(kind: WalkKind, records: u32) -> WalkPart {
        WalkPart { kind, cursor: Cursor::default(), records }
    }

    #[test]
    fn a_walk_goes_on_when_there_is_room_for_replies() {
        let mut engine = engine();
        let (mut queue, mut commands) = CommandQueue::new();
        let mut serve = || queue.serve(&mut engine, |_| unreachable!("no command requests it"));
        assert_eq!(serve(), 0);
        let all = whole_walk(WalkKind::List(Query::default()), u32::MAX);
        let mut replies = push_walk(&mut commands, all);
        // No client reads: the walk stops when the ring is full, and the worker does not wait.
        while serve() > 0 {}
        assert!(replies.slots() < REPLIES && replies.slots() > REPLIES / 2);
        let mut flows = 0;
        let end = loop {
            match replies.pop() {
                Ok(Reply::End(end)) => break end,
                Ok(_) => flows += 1,
                Err(_) => assert!(serve() <= WALK_RECORDS),
            }
        };
        assert_eq!((flows, serve()), (2000, 0));
        assert_eq!((end.more, end.matched), (false, 2000));
        assert!(replies.pop().is_err());
    }

    #[test]
    fn a_part_is_as_long_as_requested_and_the_next_one_goes_on() {
        let mut engine = engine();
        let filter = Filter { zone: Some(7), ..Filter::default() };
        let query = Query { filter, ..Query::default() };
        for kind in [WalkKind::Count(query), WalkKind::List(query), WalkKind::Flush(filter)] {
            let (mut part, mut matched, mut parts) = (whole_walk(kind.clone(), 300), 0, 0);
            loop {
                let (mut received, most) = run_walk(&mut engine, part.clone());
                assert!(most <= WALK_RECORDS);
                let Some(Reply::End(end)) = received.pop() else { panic!("the end comes last") };
                let is_list = matches!(kind, WalkKind::List(_));
                assert_eq!(received.len() as u64, if is_list { end.matched } else { 0 });
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
        let (received, _) = run_walk(&mut engine, whole_walk(WalkKind::Count(rest), u32::MAX));
        assert!(matches!(received[..], [Reply::End(PartEnd { matched: 1, more: false, .. })]));
    }

    /// Checks the cursor that each round leaves, not the number that it returns.
    #[test]
    fn a_round_is_short_however_much_is_requested() {
        let mut engine = engine();
        let (mut queue, mut commands) = CommandQueue::new();
        let all = [WalkKind::List(Query::default()), WalkKind::Flush(Filter::default())];
        for kind in all {
            let mut replies = push_walk(&mut commands, whole_walk(kind.clone(), u32::MAX));
            let mut touched = 0;
            let end = loop {
                let before = engine.stats().active();
                queue.serve(&mut engine, |_| unreachable!("no command requests it"));
                let (mut of_round, mut end) = (before - engine.stats().active(), None);
                while let Ok(next) = replies.pop() {
                    match next {
                        Reply::End(last) => end = Some(last),
                        _ => of_round += 1,
                    }
                }
                assert!(of_round <= WALK_RECORDS as u64, "{of_round}");
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
    fn zones_with_connections_are_listed_in_order() {
        let (received, most) = run_walk(&mut engine(), whole_walk(WalkKind::Zones, 1));
        const NOW: ZoneStatus = ZoneStatus { connections: 1000, embryonic: 1000, begun: 0 };
        assert!(matches!(
            received[..],
            [
                Reply::Zone { zone: 0, now: NOW },
                Reply::Zone { zone: 7, now: NOW },
                Reply::End(PartEnd { matched: 2, more: false, .. })
            ]
        ));
        assert!(most <= WALK_ZONES);
    }

    /// Walks are served in turn, and other commands do not wait for them.
    #[test]
    fn walks_are_served_in_turn() {
        let mut engine = engine();
        let (mut queue, mut commands) = CommandQueue::new();
        let all = whole_walk(WalkKind::List(Query::default()), 256);
        let mut replies: Vec<_> =
            (0..WALKS + 1).map(|_| push_walk(&mut commands, all.clone())).collect();
        let no_report = |_: &Engine| unreachable!("no command requests it");
        (0..WALKS * 4).for_each(|_| assert_eq!(queue.serve(&mut engine, no_report), WALK_RECORDS));
        // Four of five walks are being served, and none is ahead of another.
        let received: Vec<usize> = replies.iter().map(|replies| replies.slots()).collect();
        assert_eq!(
            received,
            [4 * WALK_RECORDS, 4 * WALK_RECORDS, 4 * WALK_RECORDS, 4 * WALK_RECORDS, 0]
        );
        // A client that reads nothing delays no other.
        replies.truncate(WALKS);
        while queue.serve(&mut engine, no_report) > 0 {}
        assert!(replies.iter().all(|replies| replies.slots() == 257));
        assert!(replies.iter().all(|replies| replies.is_abandoned()));
        assert_eq!(queue.count, 0);
    }
}
