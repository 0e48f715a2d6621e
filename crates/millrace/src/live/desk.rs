// SPDX-License-Identifier: BSD-3-Clause
//! Where a worker is asked what it knows, and answers a little of it between bursts.
//!
//! Rings both ways, and nobody waits for a worker's sake: a worker looks at a few records in one
//! round of housekeeping, and where the ring of answers is full, it goes on another time. Whoever
//! asks takes everything up to the end, or the next one would get the rest. Walks are asked for
//! part by part, so that who is slow between two parts keeps nobody else from asking.

use super::listeners::{Listener, Listeners};
use super::worker::Report;
use engine::{Cursor, Engine, Filter, LiveFlow, MarkChange, Nanos, Query, ZoneNow};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// Records that a worker looks at in one round of housekeeping.
const LISTED: usize = 16;
/// Zones that it looks at: their counts lie side by side.
const ZONES: usize = 64;
/// Flows on their way to who asked.
const TOLD: usize = 512;
/// Questions of one asker at a time, who asks the next one when it has the answer.
const ASKED: usize = 2;

/// A question.
pub(super) enum Ask {
    /// What there is, one by one.
    Walk(Part),
    /// How all counters stand.
    Now,
    /// Somebody wants to hear what becomes of connections, or has heard enough.
    Listen(Listener),
    Leave(u64),
    /// Something else holds in zones from now on.
    Zones(Arc<engine::Zones>),
}

/// What a walk is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    /// Which flows there are.
    List(Query),
    /// How many.
    Count(Query),
    /// To end them.
    Flush(Filter),
    /// To write to their marks and labels.
    Mark(Filter, MarkChange),
    /// To hold them against what holds in their zones now.
    Review,
    /// Zones that have connections, or had some a moment ago. Of that, all is one part.
    Zones,
}

/// A part of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) errand: Errand,
    /// Where it begins.
    pub(super) cursor: Cursor,
    /// Places to look at, at least 1.
    pub(super) places: u32,
}

/// A piece of the answer to [`Ask::Walk`], or all of that to others.
pub(super) enum Told {
    Flow(LiveFlow),
    Zone {
        zone: u16,
        now: ZoneNow,
    },
    End(PartEnd),
    /// Somebody is heard of from now on.
    Listens,
    /// Somebody is not, and is given back.
    Left(Option<Listener>),
    /// What held in zones before.
    Zones(Arc<engine::Zones>),
}

/// What comes last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartEnd {
    /// Where the next part begins, if there is more.
    pub(super) cursor: Cursor,
    pub(super) more: bool,
    /// Flows that were meant, and told, counted, changed or ended; of a review, those whose
    /// timers come up sooner.
    pub(super) matched: u64,
    /// Flows that are to end, but wait for their NIC.
    pub(super) held: u64,
}

/// A part under way.
struct Walk {
    errand: Errand,
    left: u32,
    next_zone: u32,
    end: PartEnd,
}

/// The worker's end.
pub(super) struct Desk {
    asks: Consumer<Ask>,
    told: Producer<Told>,
    nows: Producer<Report>,
    /// What it is at.
    walk: Option<Walk>,
    listeners: Listeners,
}

/// The end of who asks.
pub(super) struct Caller {
    pub(super) asks: Producer<Ask>,
    pub(super) told: Consumer<Told>,
    pub(super) nows: Consumer<Report>,
}

impl Desk {
    /// A worker's end, and that of who asks it.
    pub(super) fn new() -> (Self, Caller) {
        let (ask, asks) = RingBuffer::new(ASKED);
        let (tell, told) = RingBuffer::new(TOLD);
        let (tell_now, nows) = RingBuffer::new(ASKED);
        let listeners = Listeners::default();
        let desk = Self { asks, told: tell, nows: tell_now, walk: None, listeners };
        (desk, Caller { asks: ask, told, nows })
    }

    /// Does some of what is asked; returns how much, 0 if nothing is.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        engine: &mut Engine,
        now: impl FnOnce(&Engine) -> Report,
    ) -> usize {
        if self.walk.is_none() && self.asks.is_empty() {
            return 0;
        }
        self.serve_some(engine, now)
    }

    #[inline(never)]
    fn serve_some(&mut self, engine: &mut Engine, now: impl FnOnce(&Engine) -> Report) -> usize {
        if self.walk.is_none() {
            match self.asks.pop() {
                Ok(Ask::Walk(part)) => self.walk = Some(Walk::new(part)),
                Ok(Ask::Now) => {
                    // Who has not taken the last one does not want this one.
                    let _ = self.nows.push(now(engine));
                    return 1;
                }
                Ok(Ask::Listen(listener)) => {
                    let refused = self.listeners.join(listener, engine);
                    let answer = refused.map_or(Told::Listens, |refused| Told::Left(Some(refused)));
                    // Whoever asks has taken all answers of before.
                    let _ = self.told.push(answer);
                    return 1;
                }
                Ok(Ask::Leave(id)) => {
                    let _ = self.told.push(Told::Left(self.listeners.leave(id, engine)));
                    return 1;
                }
                Ok(Ask::Zones(zones)) => {
                    let _ = self.told.push(Told::Zones(engine.set_zones(zones)));
                    return 1;
                }
                Err(_) => return 0,
            }
        }
        self.go_on(engine)
    }

    /// Tells up to `budget` events to those who listen; returns how many.
    #[inline(always)]
    pub(super) fn tell(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        self.listeners.tell(engine, budget, now)
    }

    fn go_on(&mut self, engine: &mut Engine) -> usize {
        let Some(walk) = &mut self.walk else { return 0 };
        // One place is for the end.
        let room = self.told.slots().saturating_sub(1);
        if room == 0 {
            return 0;
        }
        let told = &mut self.told;
        let mut tell =
            |what: Told| told.push(what).unwrap_or_else(|_| unreachable!("there is room"));
        let looked_at = walk.step(engine, room, &mut tell);
        if walk.left == 0 || !walk.end.more {
            tell(Told::End(walk.end));
            self.walk = None;
        }
        looked_at
    }
}

impl Walk {
    fn new(Part { errand, cursor, places }: Part) -> Self {
        let end = PartEnd { cursor, more: true, ..PartEnd::default() };
        Self { errand, left: places.max(1), next_zone: 0, end }
    }

    /// Goes on where there is room for so many answers; returns how many places it looked at.
    fn step(&mut self, engine: &mut Engine, room: usize, tell: &mut impl FnMut(Told)) -> usize {
        if matches!(self.errand, Errand::Zones) {
            return self.step_zones(engine, room, tell);
        }
        let budget = room.min(LISTED).min(self.left as usize);
        let PartEnd { cursor, more, matched, held } = &mut self.end;
        *more = match &self.errand {
            Errand::List(query) => engine.list(query, cursor, budget as u32, &mut |flow| {
                *matched += 1;
                tell(Told::Flow(flow));
            }),
            Errand::Count(query) => engine.count(query, cursor, budget as u32, matched),
            Errand::Flush(filter) => {
                let swept = engine.sweep(filter, cursor, budget as u32);
                *matched += u64::from(swept.ended);
                *held += u64::from(swept.held);
                swept.more
            }
            Errand::Mark(filter, change) => {
                let written = engine.mark((filter, *change), cursor, budget as u32);
                *matched += u64::from(written.matched);
                written.more
            }
            Errand::Review => engine.review(cursor, budget as u32, matched),
            Errand::Zones => false,
        };
        self.left -= budget as u32;
        budget
    }

    fn step_zones(&mut self, engine: &Engine, room: usize, tell: &mut impl FnMut(Told)) -> usize {
        let budget = room.min(ZONES) as u32;
        let until = (self.next_zone + budget).min(u32::from(u16::MAX) + 1);
        for zone in self.next_zone..until {
            let zone = zone as u16;
            let now = engine.zone_now(zone);
            if now != ZoneNow::default() {
                self.end.matched += 1;
                tell(Told::Zone { zone, now });
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
    use engine::{Config, End, Verdict};
    use wire::{BytesPacket, FrameBuilder};

    /// An engine with 2000 flows, half of them in each of two zones.
    fn engine() -> Engine {
        let mut engine = Engine::new(&Config { capacity_ipv4: 4096, ..Config::default() });
        for port in 0..2000 {
            let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53);
            let frame = if port % 2 == 0 { frame.vlan(7) } else { frame }.build();
            engine.process(1, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        }
        engine
    }

    /// The whole answer to a question, and the most places looked at in one round.
    fn answer(engine: &mut Engine, ask: Part) -> (Vec<Told>, usize) {
        let (mut desk, mut caller) = Desk::new();
        caller.asks.push(Ask::Walk(ask)).ok().unwrap();
        let (mut told, mut most) = (Vec::new(), 0);
        loop {
            most = most.max(desk.serve(engine, |_| unreachable!("nobody asked for it")));
            while let Ok(next) = caller.told.pop() {
                if let Told::End(_) = next {
                    told.push(next);
                    while engine.next_record().is_some() {}
                    return (told, most);
                }
                told.push(next);
            }
            // Whoever writes them takes some.
            (0..8).for_each(|_| assert!(engine.next_record().is_none_or(|r| r.proto == 17)));
        }
    }

    fn walk(errand: Errand, places: u32) -> Part {
        Part { errand, cursor: Cursor::default(), places }
    }

    #[test]
    fn a_worker_goes_on_when_there_is_room_for_answers() {
        let mut engine = engine();
        let (mut desk, mut caller) = Desk::new();
        let mut serve = || desk.serve(&mut engine, |_| unreachable!("nobody asked for it"));
        assert_eq!(serve(), 0);
        let all = walk(Errand::List(Query::default()), u32::MAX);
        caller.asks.push(Ask::Walk(all)).ok().unwrap();
        // Nobody listens: it stops, and waits for nothing.
        while serve() > 0 {}
        assert!(caller.told.slots() < TOLD && caller.told.slots() > TOLD / 2);
        let mut flows = 0;
        let end = loop {
            match caller.told.pop() {
                Ok(Told::End(end)) => break end,
                Ok(_) => flows += 1,
                Err(_) => assert!(serve() <= LISTED),
            }
        };
        assert_eq!((flows, serve()), (2000, 0));
        assert_eq!((end.more, end.matched), (false, 2000));
        assert!(caller.told.pop().is_err());
    }

    #[test]
    fn a_part_is_as_long_as_asked_for_and_the_next_one_goes_on() {
        let mut engine = engine();
        let filter = Filter { zone: Some(7), ..Filter::default() };
        let query = Query { filter, has_rules: false };
        for errand in [Errand::Count(query), Errand::List(query), Errand::Flush(filter)] {
            let (mut part, mut matched, mut parts) = (walk(errand, 300), 0, 0);
            loop {
                let (mut told, most) = answer(&mut engine, part);
                assert!(most <= LISTED);
                let Some(Told::End(end)) = told.pop() else { panic!("the end comes last") };
                let is_list = matches!(errand, Errand::List(_));
                assert_eq!(told.len() as u64, if is_list { end.matched } else { 0 });
                assert!(end.matched <= 150);
                (matched, parts) = (matched + end.matched, parts + 1);
                part.cursor = end.cursor;
                if !end.more {
                    break;
                }
            }
            assert_eq!(matched, 1000, "{errand:?}");
            assert!(parts >= 7, "{errand:?}");
        }
        assert_eq!(engine.stats().active(), 1000);
        let either = End { port: Some(1999), ..End::default() };
        let rest = Query { filter: Filter { either, ..Filter::default() }, has_rules: false };
        let (told, _) = answer(&mut engine, walk(Errand::Count(rest), u32::MAX));
        assert!(matches!(told[..], [Told::End(PartEnd { matched: 1, more: false, .. })]));
    }

    /// By what a round leaves behind, whatever it says of itself.
    #[test]
    fn a_round_is_short_however_much_is_asked_for() {
        let mut engine = engine();
        let (mut desk, mut caller) = Desk::new();
        let all = [Errand::List(Query::default()), Errand::Flush(Filter::default())];
        for errand in all {
            caller.asks.push(Ask::Walk(walk(errand, u32::MAX))).ok().unwrap();
            let mut touched = 0;
            let end = loop {
                let before = engine.stats().active();
                desk.serve(&mut engine, |_| unreachable!("nobody asked for it"));
                let (mut of_round, mut end) = (before - engine.stats().active(), None);
                while let Ok(next) = caller.told.pop() {
                    match next {
                        Told::End(last) => end = Some(last),
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
            assert_eq!((touched, end.matched), (2000, 2000), "{errand:?}");
        }
    }

    #[test]
    fn zones_that_have_connections_are_told_in_order() {
        let (told, most) = answer(&mut engine(), walk(Errand::Zones, 1));
        const NOW: ZoneNow = ZoneNow { connections: 1000, embryonic: 1000, begun: 0 };
        assert!(matches!(
            told[..],
            [
                Told::Zone { zone: 0, now: NOW },
                Told::Zone { zone: 7, now: NOW },
                Told::End(PartEnd { matched: 2, more: false, .. })
            ]
        ));
        assert!(most <= ZONES);
    }
}
