// SPDX-License-Identifier: BSD-3-Clause
//! Where a worker is asked what it knows, and answers a little of it between bursts.
//!
//! Rings both ways, and nobody waits for a worker's sake: a worker looks at a few records in one
//! round of housekeeping, and where the ring of answers is full, it goes on another time. Whoever
//! asks takes everything up to the end, or the next one would get the rest.

use super::worker::Report;
use engine::{Cursor, Engine, LiveFlow, Query};
use rtrb::{Consumer, Producer, RingBuffer};

/// Records that a worker looks at in one round of housekeeping.
const LISTED: usize = 16;
/// Flows on their way to who asked.
const TOLD: usize = 512;
/// Questions of one asker at a time, who asks the next one when it has the answer.
const ASKED: usize = 2;

/// A question.
pub(super) enum Ask {
    /// Which flows there are, one by one.
    Flows(Query),
    /// How all counters stand.
    Now,
}

/// An answer to [`Ask::Flows`]: a flow, or that there are no more.
pub(super) type Told = Option<LiveFlow>;

/// The worker's end.
pub(super) struct Desk {
    asks: Consumer<Ask>,
    told: Producer<Told>,
    nows: Producer<Report>,
    /// What it is at.
    walk: Option<(Query, Cursor)>,
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
        let desk = Self { asks, told: tell, nows: tell_now, walk: None };
        (desk, Caller { asks: ask, told, nows })
    }

    /// Does some of what is asked; returns how much, 0 if nothing is.
    #[inline(always)]
    pub(super) fn serve(&mut self, engine: &Engine, now: impl FnOnce() -> Report) -> usize {
        if self.walk.is_none() && self.asks.is_empty() {
            return 0;
        }
        self.serve_some(engine, now)
    }

    #[inline(never)]
    fn serve_some(&mut self, engine: &Engine, now: impl FnOnce() -> Report) -> usize {
        if self.walk.is_none() {
            match self.asks.pop() {
                Ok(Ask::Flows(query)) => self.walk = Some((query, Cursor::default())),
                Ok(Ask::Now) => {
                    // Who has not taken the last one does not want this one.
                    let _ = self.nows.push(now());
                    return 1;
                }
                Err(_) => return 0,
            }
        }
        self.go_on(engine)
    }

    fn go_on(&mut self, engine: &Engine) -> usize {
        let Some((query, cursor)) = &mut self.walk else { return 0 };
        // One place is for the end.
        let budget = self.told.slots().saturating_sub(1).min(LISTED);
        if budget == 0 {
            return 0;
        }
        let told = &mut self.told;
        let mut tell =
            |what: Told| told.push(what).unwrap_or_else(|_| unreachable!("there is room"));
        let more = engine.list(query, cursor, budget as u32, &mut |flow| tell(Some(flow)));
        if !more {
            tell(None);
            self.walk = None;
        }
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Config, Verdict};
    use wire::{BytesPacket, FrameBuilder};

    #[test]
    fn a_worker_goes_on_when_there_is_room_for_answers() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 4096, ..Config::default() });
        for port in 0..2000 {
            let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53).build();
            engine.process(1, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        }
        let (mut desk, mut caller) = Desk::new();
        let mut serve = || desk.serve(&engine, || unreachable!("nobody asked for it"));
        assert_eq!(serve(), 0);
        caller.asks.push(Ask::Flows(Query::default())).ok().unwrap();
        // Nobody listens: it stops, and waits for nothing.
        while serve() > 0 {}
        assert!(caller.told.slots() < TOLD && caller.told.slots() > TOLD / 2);
        let mut flows = 0;
        loop {
            match caller.told.pop() {
                Ok(Some(_)) => flows += 1,
                Ok(None) => break,
                Err(_) => assert!(serve() <= LISTED),
            }
        }
        assert_eq!((flows, serve()), (2000, 0));
        assert!(caller.told.pop().is_err());
    }
}
