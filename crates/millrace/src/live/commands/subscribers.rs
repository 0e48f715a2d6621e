// SPDX-License-Identifier: BSD-3-Clause
//! Owns the subscribers of one worker's connection events, and of the packets that its access
//! lists log. Each has a ring, and none delays the
//! worker. Events for which a ring has no room are lost, and the subscriber gets their number.
//!
//! Clients make and free the rings. Without subscribers the engine keeps no events.

use engine::{AccessLog, Engine, EventKind, Filter, FlowEvent, Nanos};
use rtrb::{Consumer, Producer, RingBuffer};

/// Capacity of a subscriber's ring of events.
const EVENTS: usize = 4096;
/// Most subscribers: as many as clients are served.
const SUBSCRIBERS_MAX: usize = 8;

/// An item in a subscriber's ring.
pub(crate) enum StreamItem {
    Event {
        event: FlowEvent,
        /// Time at which the worker handed the event over.
        at: Nanos,
    },
    /// A packet that an access list logs.
    Log(AccessLog),
    /// This many events are missing at this place.
    Lost(u64),
}

/// What a subscriber gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Topic {
    /// Events of connections that match.
    Connections(Filter),
    /// Packets that access lists log.
    AccessLog,
}

impl From<Filter> for Topic {
    fn from(filter: Filter) -> Self {
        Topic::Connections(filter)
    }
}

/// A subscriber, at the worker.
pub(crate) struct Subscriber {
    id: u64,
    topic: Topic,
    ring: Producer<StreamItem>,
    lost: u64,
}

/// All subscribers of one worker.
#[derive(Default)]
pub(crate) struct Subscribers {
    all: [Option<Subscriber>; SUBSCRIBERS_MAX],
    count: usize,
    /// Those of the access log among them.
    of_logs: usize,
    /// True if the engine keeps events of connections.
    has_event_subscribers: bool,
}

impl Subscriber {
    /// Creates a subscriber; returns both ends of its ring.
    pub(crate) fn new(id: u64, topic: impl Into<Topic>) -> (Self, Consumer<StreamItem>) {
        let (ring, receiver) = RingBuffer::new(EVENTS);
        (Self { id, topic: topic.into(), ring, lost: 0 }, receiver)
    }

    /// Returns the number of lost events that the ring does not report yet. Complete only after
    /// [`Subscribers::remove`].
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    fn send(&mut self, event: &FlowEvent, at: Nanos) {
        let Topic::Connections(filter) = self.topic else { return };
        if filter.matches_record(&event.record) {
            self.push(StreamItem::Event { event: event.clone(), at });
        }
    }

    fn push(&mut self, item: StreamItem) {
        self.report_lost();
        if self.lost > 0 || self.ring.push(item).is_err() {
            self.lost += 1;
        }
    }

    fn is_of_events(&self) -> bool {
        self.topic != Topic::AccessLog
    }

    /// Reports lost events, if the ring has room.
    fn report_lost(&mut self) {
        if self.lost > 0 && self.ring.push(StreamItem::Lost(self.lost)).is_ok() {
            self.lost = 0;
        }
    }
}

impl Subscribers {
    /// Adds a subscriber; returns it if there are [`SUBSCRIBERS_MAX`] already.
    pub(crate) fn add(
        &mut self,
        subscriber: Subscriber,
        engine: &mut Engine,
    ) -> Option<Subscriber> {
        let Some(slot) = self.all.iter_mut().find(|slot| slot.is_none()) else {
            return Some(subscriber);
        };
        *slot = Some(subscriber);
        self.count += 1;
        self.update(engine);
        None
    }

    /// Removes and returns a subscriber. It loses events that still wait in the engine. The caller
    /// has just called [`send_events`](Self::send_events), so only a backlog is lost.
    pub(crate) fn remove(&mut self, id: u64, engine: &mut Engine) -> Option<Subscriber> {
        let has_id = |slot: &&mut Option<Subscriber>| {
            slot.as_ref().is_some_and(|subscriber| subscriber.id == id)
        };
        let mut removed = self.all.iter_mut().find(has_id)?.take()?;
        if removed.is_of_events() {
            removed.lost += engine.waiting_events();
        }
        self.count -= 1;
        self.update(engine);
        Some(removed)
    }

    /// Makes the engine keep what there are subscribers for, and nothing else.
    fn update(&mut self, engine: &mut Engine) {
        let of_logs = self.all.iter().flatten().filter(|all| !all.is_of_events()).count();
        let had = (self.has_event_subscribers, self.of_logs > 0);
        (self.has_event_subscribers, self.of_logs) = (self.count > of_logs, of_logs);
        if had.0 != self.has_event_subscribers {
            engine.subscribe(self.has_event_subscribers);
        }
        if had.1 != (of_logs > 0) {
            engine.follow_logs(of_logs > 0);
        }
    }

    /// Hands up to `budget` events to subscribers; returns how many.
    #[inline(always)]
    pub(crate) fn send_events(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        if self.count == 0 { 0 } else { self.send_some_events(engine, budget, now) }
    }

    #[inline(never)]
    fn send_some_events(&mut self, engine: &mut Engine, budget: usize, now: Nanos) -> usize {
        let mut sent = 0;
        while sent < budget {
            let Some(event) = engine.next_event() else { break };
            self.all.iter_mut().flatten().for_each(|subscriber| subscriber.send(&event, now));
            sent += 1;
        }
        let lost = engine.lost_events();
        for subscriber in self.all.iter_mut().flatten().filter(|all| all.is_of_events()) {
            subscriber.lost += lost;
            subscriber.report_lost();
        }
        if self.of_logs > 0 { sent + self.send_logs(engine, budget) } else { sent }
    }

    /// Hands up to `budget` logged packets to subscribers; returns how many. The number of those
    /// that were suppressed goes before the next one, so that it does not fill the ring.
    fn send_logs(&mut self, engine: &mut Engine, budget: usize) -> usize {
        let mut sent = 0;
        let is_of_logs = |all: &&mut Subscriber| !all.is_of_events();
        while sent < budget {
            let Some(log) = engine.next_log() else { break };
            let subscribers = self.all.iter_mut().flatten().filter(is_of_logs);
            subscribers.for_each(|subscriber| subscriber.push(StreamItem::Log(log.clone())));
            sent += 1;
        }
        let suppressed = engine.suppressed_logs();
        let subscribers = self.all.iter_mut().flatten().filter(is_of_logs);
        subscribers.for_each(|subscriber| subscriber.lost += suppressed);
        sent
    }
}

/// Returns the name of the reason for which a connection ended; `None` for an event of a connection
/// that has not ended.
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
    fn take_events(receiver: &mut Consumer<StreamItem>) -> (Vec<(EventKind, u16)>, u64) {
        let (mut events, mut lost) = (Vec::new(), 0);
        while let Ok(next) = receiver.pop() {
            match next {
                StreamItem::Event { event, .. } => events.push((event.change, event.record.sport)),
                StreamItem::Log(_) => {}
                StreamItem::Lost(count) => lost += count,
            }
        }
        (events, lost)
    }

    #[test]
    fn each_subscriber_gets_matching_events_while_subscribed() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut subscribers = Subscribers::default();
        come_and_go(&mut engine, [1]);
        assert_eq!(subscribers.send_events(&mut engine, 100, 1), 0);
        let (all, mut all_receiver) = Subscriber::new(1, Filter::default());
        assert!(subscribers.add(all, &mut engine).is_none());
        come_and_go(&mut engine, [2]);
        let src = EndpointMatch { port: Some(3), ..EndpointMatch::default() };
        let (some, mut some_receiver) = Subscriber::new(2, Filter { src, ..Filter::default() });
        assert!(subscribers.add(some, &mut engine).is_none());
        come_and_go(&mut engine, [3]);
        assert_eq!(subscribers.send_events(&mut engine, 3, 1), 3);
        assert_eq!(subscribers.send_events(&mut engine, 3, 1), 1);
        let [two, three] = [2, 3].map(|port| [(EventKind::New, port), (EventKind::Destroy, port)]);
        assert_eq!(take_events(&mut all_receiver), ([two, three].concat(), 0));
        assert_eq!(take_events(&mut some_receiver), (three.to_vec(), 0));

        assert!(subscribers.remove(3, &mut engine).is_none());
        assert!(subscribers.remove(1, &mut engine).is_some_and(|subscriber| subscriber.id == 1));
        come_and_go(&mut engine, [3]);
        subscribers.send_events(&mut engine, 100, 1);
        assert_eq!(
            (take_events(&mut some_receiver).0.len(), take_events(&mut all_receiver).0.len()),
            (2, 0)
        );
        assert!(subscribers.remove(2, &mut engine).is_some());
        come_and_go(&mut engine, [3]);
        assert_eq!((engine.next_event(), engine.lost_events()), (None, 0));
    }

    /// The subscriber gets the events handed out before it left, and the number of the others.
    #[test]
    fn waiting_events_are_lost_when_a_subscriber_leaves() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut subscribers = Subscribers::default();
        let [mut first_receiver, mut last_receiver] = [1, 2].map(|id| {
            let (subscriber, receiver) = Subscriber::new(id, Filter::default());
            assert!(subscribers.add(subscriber, &mut engine).is_none());
            receiver
        });
        come_and_go(&mut engine, [1, 2]);
        assert_eq!(subscribers.send_events(&mut engine, 1, 1), 1);
        let first = subscribers.remove(1, &mut engine).unwrap();
        assert_eq!(
            (first.lost(), take_events(&mut first_receiver)),
            (3, (vec![(EventKind::New, 1)], 0))
        );
        subscribers.send_events(&mut engine, 100, 1);
        assert_eq!(
            (take_events(&mut last_receiver).0.len(), take_events(&mut last_receiver).1),
            (4, 0)
        );
        // More events than the engine keeps, and than a ring holds.
        come_and_go(&mut engine, 0..3000);
        assert_eq!(subscribers.send_events(&mut engine, 10, 1), 10);
        let last = subscribers.remove(2, &mut engine).unwrap();
        let (events, lost) = take_events(&mut last_receiver);
        assert_eq!(events.len() as u64 + lost + last.lost(), 6000);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut engine = Engine::new(&Config::default());
        let mut subscribers = Subscribers::default();
        let mut receivers = Vec::new();
        for id in 0..=SUBSCRIBERS_MAX as u64 {
            let (subscriber, receiver) = Subscriber::new(id, Filter::default());
            receivers.push(receiver);
            let is_refused = subscribers.add(subscriber, &mut engine).is_some();
            assert_eq!(is_refused, id == SUBSCRIBERS_MAX as u64);
        }
    }

    /// A slow subscriber gets the number of missing events, and all others.
    #[test]
    fn lost_events_are_counted_per_subscriber() {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let mut subscribers = Subscribers::default();
        let (slow, mut slow_receiver) = Subscriber::new(1, Filter::default());
        let (quick, mut quick_receiver) = Subscriber::new(2, Filter::default());
        subscribers.add(slow, &mut engine);
        subscribers.add(quick, &mut engine);
        let mut quick_events = 0;
        for port in 0..3000 {
            come_and_go(&mut engine, [port]);
            subscribers.send_events(&mut engine, 100, 1);
            let (events, lost) = take_events(&mut quick_receiver);
            assert_eq!(lost, 0);
            quick_events += events.len();
        }
        assert_eq!(quick_events, 6000);
        let (events, lost) = take_events(&mut slow_receiver);
        assert_eq!((events.len(), lost), (EVENTS, 0), "no room to say that some are lost");
        subscribers.send_events(&mut engine, 100, 1);
        come_and_go(&mut engine, [9]);
        subscribers.send_events(&mut engine, 100, 1);
        let (events, lost) = take_events(&mut slow_receiver);
        assert_eq!((events.len(), lost), (2, 6000 - EVENTS as u64));
        assert_eq!(
            take_events(&mut quick_receiver),
            (vec![(EventKind::New, 9), (EventKind::Destroy, 9)], 0)
        );
        // The engine's events are not taken.
        come_and_go(&mut engine, 0..3000);
        while subscribers.send_events(&mut engine, 100, 1) > 0 {}
        for receiver in [&mut slow_receiver, &mut quick_receiver] {
            // Events that fill the ring come before the number of missing ones.
            let (events, lost_before) = take_events(receiver);
            subscribers.send_events(&mut engine, 100, 1);
            let (none, lost) = take_events(receiver);
            assert_eq!((events.len() as u64 + lost_before + lost, none.len()), (6000, 0));
        }
    }
}
