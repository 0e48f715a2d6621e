// SPDX-License-Identifier: BSD-3-Clause
//! Owns the subscribers of one worker's connection events. Each has a ring, and none delays the
//! worker. Events that find a ring full are lost, and the subscriber gets their number.
//!
//! Clients make and free the rings. Without subscribers the engine keeps no events.

use engine::{Engine, EventKind, Filter, FlowEvent, Nanos};
use rtrb::{Consumer, Producer, RingBuffer};

/// Capacity of a subscriber's ring of events.
const HEARD: usize = 4096;
/// Most subscribers: as many as clients are served.
const LISTENERS_MAX: usize = 8;

/// An item in a subscriber's ring.
pub(crate) enum StreamItem {
    Event {
        event: FlowEvent,
        /// Time at which the worker handed the event over.
        at: Nanos,
    },
    /// This many events are missing at this place.
    Lost(u64),
}

/// A subscriber, at the worker.
pub(crate) struct Subscriber {
    id: u64,
    filter: Filter,
    ring: Producer<StreamItem>,
    lost: u64,
}

/// All subscribers of one worker.
#[derive(Default)]
pub(crate) struct Subscribers {
    all: [Option<Subscriber>; LISTENERS_MAX],
    count: usize,
}

impl Subscriber {
    /// Creates a subscriber; returns both ends of its ring.
    pub(crate) fn new(id: u64, filter: Filter) -> (Self, Consumer<StreamItem>) {
        let (ring, ear) = RingBuffer::new(HEARD);
        (Self { id, filter, ring, lost: 0 }, ear)
    }

    /// Returns the number of lost events that the ring does not report, once the subscriber has
    /// left.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    fn tell(&mut self, event: &FlowEvent, at: Nanos) {
        if !self.filter.matches_record(&event.record, event.proto_state) {
            return;
        }
        self.tell_lost();
        let heard = StreamItem::Event { event: event.clone(), at };
        if self.lost > 0 || self.ring.push(heard).is_err() {
            self.lost += 1;
        }
    }

    /// Reports lost events, if the ring has room.
    fn tell_lost(&mut self) {
        if self.lost > 0 && self.ring.push(StreamItem::Lost(self.lost)).is_ok() {
            self.lost = 0;
        }
    }
}

impl Subscribers {
    /// Adds a subscriber; returns it if there are [`LISTENERS_MAX`] already.
    pub(crate) fn join(&mut self, listener: Subscriber, engine: &mut Engine) -> Option<Subscriber> {
        let Some(place) = self.all.iter_mut().find(|place| place.is_none()) else {
            return Some(listener);
        };
        *place = Some(listener);
        self.count += 1;
        if self.count == 1 {
            engine.subscribe(true);
        }
        None
    }

    /// Removes and returns a subscriber. It loses events that still wait in the engine. The caller
    /// has just handed events out once, so only a backlog is lost.
    pub(crate) fn leave(&mut self, id: u64, engine: &mut Engine) -> Option<Subscriber> {
        let is_it = |place: &&mut Option<Subscriber>| {
            place.as_ref().is_some_and(|listener| listener.id == id)
        };
        let mut left = self.all.iter_mut().find(is_it)?.take()?;
        left.lost += engine.waiting_events();
        self.count -= 1;
        if self.count == 0 {
            engine.subscribe(false);
        }
        Some(left)
    }

    /// Hands up to `budget` events to subscribers; returns how many.
    #[inline(always)]
    pub(crate) fn tell(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        if self.count == 0 { 0 } else { self.tell_some(engine, budget, now) }
    }

    #[inline(never)]
    fn tell_some(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        let mut told = 0;
        while told < budget {
            let Some(event) = engine.next_event() else { break };
            self.all.iter_mut().flatten().for_each(|listener| listener.tell(&event, now));
            told += 1;
        }
        let lost = engine.lost_events();
        for listener in self.all.iter_mut().flatten() {
            listener.lost += lost;
            listener.tell_lost();
        }
        told
    }
}

/// Returns the name of the reason for which a connection ended, if the reason has one.
pub(crate) fn end_reason(event: &FlowEvent) -> Option<&'static str> {
    (event.change == EventKind::Destroy).then(|| event.record.end_reason.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Config, EndpointMatch, Verdict};
    use wire::{BytesPacket, FrameBuilder};

    /// Begins and ends a connection with each of these ports.
    fn come_and_go(engine: &mut Engine, ports: impl IntoIterator<Item = u16>) {
        for port in ports {
            let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53).build();
            engine.process(1, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
            while engine.flush(10) {}
            while engine.next_record().is_some() {}
        }
    }

    /// Returns the events in a ring by change and port, and how many were lost.
    fn heard(ear: &mut Consumer<StreamItem>) -> (Vec<(EventKind, u16)>, u64) {
        let (mut events, mut lost) = (Vec::new(), 0);
        while let Ok(next) = ear.pop() {
            match next {
                StreamItem::Event { event, .. } => events.push((event.change, event.record.sport)),
                StreamItem::Lost(count) => lost += count,
            }
        }
        (events, lost)
    }

    #[test]
    fn each_hears_what_it_listens_to_while_it_does() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut listeners = Subscribers::default();
        come_and_go(&mut engine, [1]);
        assert_eq!(listeners.tell(&mut engine, 100, 1), 0);
        let (all, mut all_ear) = Subscriber::new(1, Filter::default());
        assert!(listeners.join(all, &mut engine).is_none());
        come_and_go(&mut engine, [2]);
        let src = EndpointMatch { port: Some(3), ..EndpointMatch::default() };
        let (some, mut some_ear) = Subscriber::new(2, Filter { src, ..Filter::default() });
        assert!(listeners.join(some, &mut engine).is_none());
        come_and_go(&mut engine, [3]);
        assert_eq!(listeners.tell(&mut engine, 3, 1), 3);
        assert_eq!(listeners.tell(&mut engine, 3, 1), 1);
        let [two, three] = [2, 3].map(|port| [(EventKind::New, port), (EventKind::Destroy, port)]);
        assert_eq!(heard(&mut all_ear), ([two, three].concat(), 0));
        assert_eq!(heard(&mut some_ear), (three.to_vec(), 0));

        assert!(listeners.leave(3, &mut engine).is_none());
        assert!(listeners.leave(1, &mut engine).is_some_and(|listener| listener.id == 1));
        come_and_go(&mut engine, [3]);
        listeners.tell(&mut engine, 100, 1);
        assert_eq!((heard(&mut some_ear).0.len(), heard(&mut all_ear).0.len()), (2, 0));
        assert!(listeners.leave(2, &mut engine).is_some());
        come_and_go(&mut engine, [3]);
        assert_eq!((engine.next_event(), engine.lost_events()), (None, 0));
    }

    /// The subscriber gets the events handed out before it left, and the number of the others.
    #[test]
    fn what_waits_is_lost_to_one_who_leaves() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut listeners = Subscribers::default();
        let [mut first_ear, mut last_ear] = [1, 2].map(|id| {
            let (listener, ear) = Subscriber::new(id, Filter::default());
            assert!(listeners.join(listener, &mut engine).is_none());
            ear
        });
        come_and_go(&mut engine, [1, 2]);
        assert_eq!(listeners.tell(&mut engine, 1, 1), 1);
        let first = listeners.leave(1, &mut engine).unwrap();
        assert_eq!((first.lost(), heard(&mut first_ear)), (3, (vec![(EventKind::New, 1)], 0)));
        listeners.tell(&mut engine, 100, 1);
        assert_eq!((heard(&mut last_ear).0.len(), heard(&mut last_ear).1), (4, 0));
        // More events than the engine keeps, and than a ring holds.
        come_and_go(&mut engine, 0..3000);
        assert_eq!(listeners.tell(&mut engine, 10, 1), 10);
        let last = listeners.leave(2, &mut engine).unwrap();
        let (events, lost) = heard(&mut last_ear);
        assert_eq!(events.len() as u64 + lost + last.lost(), 6000);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut engine = Engine::new(&Config::default());
        let mut listeners = Subscribers::default();
        let mut ears = Vec::new();
        for id in 0..=LISTENERS_MAX as u64 {
            let (listener, ear) = Subscriber::new(id, Filter::default());
            ears.push(ear);
            let is_refused = listeners.join(listener, &mut engine).is_some();
            assert_eq!(is_refused, id == LISTENERS_MAX as u64);
        }
    }

    /// A slow subscriber gets the number of missing events, and all others.
    #[test]
    fn what_is_lost_is_counted_for_those_who_lost_it() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut listeners = Subscribers::default();
        let (slow, mut slow_ear) = Subscriber::new(1, Filter::default());
        let (quick, mut quick_ear) = Subscriber::new(2, Filter::default());
        listeners.join(slow, &mut engine);
        listeners.join(quick, &mut engine);
        let mut quick_heard = 0;
        for port in 0..3000 {
            come_and_go(&mut engine, [port]);
            listeners.tell(&mut engine, 100, 1);
            let (events, lost) = heard(&mut quick_ear);
            assert_eq!(lost, 0);
            quick_heard += events.len();
        }
        assert_eq!(quick_heard, 6000);
        let (events, lost) = heard(&mut slow_ear);
        assert_eq!((events.len(), lost), (HEARD, 0), "no room to say that some are lost");
        listeners.tell(&mut engine, 100, 1);
        come_and_go(&mut engine, [9]);
        listeners.tell(&mut engine, 100, 1);
        let (events, lost) = heard(&mut slow_ear);
        assert_eq!((events.len(), lost), (2, 6000 - HEARD as u64));
        assert_eq!(heard(&mut quick_ear), (vec![(EventKind::New, 9), (EventKind::Destroy, 9)], 0));
        // The engine's events are not taken.
        come_and_go(&mut engine, 0..3000);
        while listeners.tell(&mut engine, 100, 1) > 0 {}
        for ear in [&mut slow_ear, &mut quick_ear] {
            // Events that fill the ring come before the number of missing ones.
            let (events, lost_before) = heard(ear);
            listeners.tell(&mut engine, 100, 1);
            let (none, lost) = heard(ear);
            assert_eq!((events.len() as u64 + lost_before + lost, none.len()), (6000, 0));
        }
    }
}
