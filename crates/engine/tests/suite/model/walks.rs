// SPDX-License-Identifier: BSD-3-Clause
//! Those who look on: filters against a naive predicate, walks that end what they find, and events,
//! from which everything that is alive follows.

use super::drive::Case;
use super::traffic::{Packet, Rng};
use engine::{
    BURST_MAX, ConnView, Cursor, EndReason, EndpointMatch, Engine, EventKind, Filter, FlowEvent,
    FlowRecord, Prefix, ProtoState, Query, Verdict,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An engine at work.
struct World {
    engine: Engine,
    case: Case,
    now: u64,
    records: Vec<FlowRecord>,
}

impl World {
    fn new(bits: [u64; 3]) -> Self {
        let case = Case::on_ticks(bits);
        Self { engine: Engine::new(&case.config), now: case.start, case, records: vec![] }
    }

    /// Some packets, and some time.
    fn go_on(&mut self, operations: &[u64]) {
        for operations in operations.chunks(BURST_MAX) {
            let packets: Vec<_> = operations
                .iter()
                .map(|bits| Packet::new(&mut Rng(*bits), self.case.pools))
                .collect();
            let packets: Vec<_> = packets.iter().map(Packet::bytes).collect();
            self.engine.process(self.now, &packets, &mut [Verdict::Forward; BURST_MAX]);
            let mut dice = Rng(operations[0].rotate_left(32));
            self.now += dice.below(3) << dice.below(32);
            self.engine.expire(self.now, dice.below(40) as usize);
            self.take_records();
        }
    }

    fn take_records(&mut self) {
        self.records.extend(std::iter::from_fn(|| self.engine.next_record()));
    }

    fn list(&self, filter: Filter, budget: u32) -> Vec<ConnView> {
        let (mut cursor, mut flows) = (Cursor::default(), vec![]);
        let query = Query { filter, ..Query::default() };
        while self.engine.list(&query, &mut cursor, budget, &mut |flow| flows.push(flow)) {}
        flows
    }

    fn count(&self, filter: Filter, budget: u32) -> u64 {
        let (mut cursor, mut count) = (Cursor::default(), 0);
        let query = Query { filter, ..Query::default() };
        while self.engine.count(&query, &mut cursor, budget, &mut count) {}
        count
    }
}

fn any_prefix(dice: &mut Rng, flow: &ConnView) -> Option<Prefix> {
    let address = dice.pick(&[flow.record.src, flow.record.dst]);
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let len = dice.pick(&[bits, bits, bits - 1, bits - 8, 9, 1, 0]);
    dice.one_in(2).then(|| Prefix::new(address, len).unwrap())
}

fn any_end(dice: &mut Rng, flow: &ConnView) -> EndpointMatch {
    let port = dice.pick(&[flow.record.sport, flow.record.dport]);
    EndpointMatch { address: any_prefix(dice, flow), port: dice.one_in(2).then_some(port) }
}

/// Such as this flow, or another one, might have.
fn any_filter(mut dice: Rng, flow: &ConnView) -> Filter {
    let mut filter = Filter::default();
    let (zone, proto, proto_state) = (flow.record.zone, flow.record.proto, flow.record.proto_state);
    filter.zone = dice.one_in(3).then_some(zone);
    filter.proto = dice.one_in(3).then_some(proto);
    filter.proto_state = dice.one_in(3).then_some(proto_state);
    filter.src = if dice.one_in(2) { any_end(&mut dice, flow) } else { EndpointMatch::default() };
    filter.dst = if dice.one_in(3) { any_end(&mut dice, flow) } else { EndpointMatch::default() };
    filter.either =
        if dice.one_in(3) { any_end(&mut dice, flow) } else { EndpointMatch::default() };
    filter
}

/// The bits of an address, one by one.
fn text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.octets().map(|byte| format!("{byte:08b}")).concat(),
        IpAddr::V6(address) => address.octets().map(|byte| format!("{byte:08b}")).concat(),
    }
}

/// What a filter means, spelt out.
fn is_meant(filter: Filter, flow: &ConnView) -> bool {
    let FlowRecord { src, dst, proto, sport, dport, zone, .. } = flow.record;
    let is_end = |end: EndpointMatch, (address, port): (IpAddr, u16)| {
        let is_there = match end.address.map(|prefix| prefix.to_string()) {
            None => true,
            Some(prefix) => {
                let (of, len) = prefix.split_once('/').unwrap_or((&prefix, "128"));
                let of: IpAddr = of.parse().unwrap();
                let len = len.parse::<usize>().unwrap().min(text(of).len());
                of.is_ipv4() == address.is_ipv4() && text(of)[..len] == text(address)[..len]
            }
        };
        // ICMP, ICMPv6, GRE and ESP have none.
        is_there
            && end.port.is_none_or(|wanted| wanted == port && ![1, 58, 47, 50].contains(&proto))
    };
    filter.zone.unwrap_or(zone) == zone
        && filter.proto.unwrap_or(proto) == proto
        && filter.proto_state.unwrap_or(flow.record.proto_state) == flow.record.proto_state
        && is_end(filter.src, (src, sport))
        && is_end(filter.dst, (dst, dport))
        && (is_end(filter.either, (src, sport)) || is_end(filter.either, (dst, dport)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_walk_finds_what_its_filter_means(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..800),
        filters in prop::collection::vec(any::<u64>(), 1..40),
        budget in 1..100_u32,
    ) {
        let mut world = World::new(bits);
        world.go_on(&operations);
        let all = world.list(Filter::default(), budget);
        prop_assert_eq!(all.len() as u64, world.engine.stats().active());
        for zone in 0..4096 {
            let now = world.engine.zone_status(zone);
            let of_zone: Vec<_> = all.iter().filter(|flow| flow.record.zone == zone).collect();
            let embryonic = of_zone.iter().filter(|flow| !flow.record.is_assured).count();
            prop_assert_eq!(now.connections as usize, of_zone.len());
            prop_assert_eq!(now.embryonic as usize, embryonic);
        }
        for (bits, flow) in filters.into_iter().zip(all.iter().cycle()) {
            let filter = any_filter(Rng(bits), flow);
            let meant: Vec<_> = all.iter().filter(|flow| is_meant(filter, flow)).cloned().collect();
            for flow in &all {
                let is_taken = filter.matches_record(&flow.record);
                prop_assert_eq!(is_taken, is_meant(filter, flow), "{:?} {:?}", filter, flow);
            }
            prop_assert_eq!(world.count(filter, budget), meant.len() as u64);
            prop_assert_eq!(world.list(filter, budget), meant, "{:?}", filter);
        }
    }

    /// Those that are meant and were there when it began, whatever happens meanwhile.
    #[test]
    fn a_sweep_ends_what_its_filter_means(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..800),
        meanwhile in prop::collection::vec(any::<u64>(), 1..100),
        filter: u64,
        budget in 1..50_u32,
    ) {
        let mut world = World::new(bits);
        world.go_on(&operations);
        world.take_records();
        let before = world.list(Filter::default(), 64);
        let Some(flow) = before.first() else { return Ok(()) };
        // What they have come to may change on the way.
        let filter = Filter { proto_state: None, ..any_filter(Rng(filter), flow) };
        let (mut cursor, mut ended, began) = (Cursor::default(), 0, world.now);
        let already = world.records.len();
        let mut rest = meanwhile.iter();
        world.now += 1_000;
        loop {
            let swept = world.engine.sweep(&filter, &mut cursor, budget);
            prop_assert!(swept.ended <= budget && swept.held == 0);
            ended += swept.ended as usize;
            world.take_records();
            if !swept.more {
                break;
            }
            if let Some(bits) = rest.next() {
                world.go_on(&[*bits]);
            }
        }
        let flushed: Vec<_> = world.records[already..]
            .iter()
            .filter(|record| record.end_reason == EndReason::Flushed)
            .collect();
        prop_assert_eq!(flushed.len(), ended);
        prop_assert_eq!(world.engine.stats().ended[EndReason::Flushed as usize], ended as u64);
        let mut left = world.list(Filter::default(), 64);
        left.retain(|flow| flow.record.start <= began);
        prop_assert!(left.iter().all(|flow| !is_meant(filter, flow)), "{:?}", left);
        for record in flushed {
            prop_assert!(record.start <= began);
            let is_it = |flow: &&ConnView| name(&flow.record) == name(record);
            let of_before = before.iter().find(is_it).expect("it was there");
            prop_assert!(is_meant(filter, of_before));
        }
    }

    /// Whoever hears everything from the beginning on knows what is alive, and where it is.
    #[test]
    fn events_tell_all_there_is_to_know(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..1500),
    ) {
        let mut world = World::new(bits);
        world.engine.subscribe(true);
        let mut alive: BTreeMap<String, ConnView> = BTreeMap::new();
        let mut told: BTreeMap<String, (ProtoState, bool)> = BTreeMap::new();
        let mut destroyed = vec![];
        for operations in operations.chunks(BURST_MAX) {
            world.go_on(operations);
            while let Some(event) = world.engine.next_event() {
                let FlowEvent { change, record } = event;
                let FlowRecord { proto_state, is_assured, .. } = record;
                let known = told.get(&name(&record)).copied();
                match change {
                    EventKind::New => {
                        prop_assert_eq!((known, is_assured), (None, false));
                        prop_assert_eq!(record.orig.packets + record.reply.packets, 1);
                        told.insert(name(&record), (proto_state, is_assured));
                    }
                    EventKind::Update => {
                        let Some((before, was_assured)) = known else { panic!("{record:?}") };
                        prop_assert!(before != proto_state);
                        prop_assert!(is_assured || !was_assured);
                        told.insert(name(&record), (proto_state, is_assured));
                    }
                    EventKind::Destroy => {
                        let Some((before, was_assured)) = known else { panic!("{record:?}") };
                        prop_assert_eq!(before, proto_state);
                        prop_assert!(is_assured || !was_assured);
                        told.remove(&name(&record));
                        destroyed.push(record);
                    }
                }
            }
            alive = world.list(Filter::default(), 64).into_iter()
                .map(|flow| (name(&flow.record), flow)).collect();
            let are: BTreeMap<_, _> = alive.iter()
                .map(|(name, flow)| (name.clone(), flow.record.proto_state)).collect();
            let known: BTreeMap<_, _> = told.iter()
                .map(|(name, (proto_state, _))| (name.clone(), *proto_state)).collect();
            prop_assert_eq!(known, are);
        }
        prop_assert_eq!(destroyed, world.records);
        prop_assert_eq!(world.engine.lost_events(), 0);
        drop(alive);
    }
}

/// What is the same for a flow all its life, and of no other one alive.
fn name(record: &FlowRecord) -> String {
    let FlowRecord { src, sport, dst, dport, .. } = record;
    let zone = (record.proto, record.zone, record.start);
    format!("{src} {sport} {dst} {dport} {zone:?}")
}

#[test]
fn no_event_of_what_was_before_or_after() {
    let mut world = World::new([0, 0, 1]);
    world.go_on(&[0; 10]);
    assert_eq!(world.engine.next_event(), None);
    world.engine.subscribe(true);
    assert_eq!(world.engine.next_event(), None);
    while world.engine.flush(100) {}
    assert!(world.engine.next_event().is_some_and(|event| event.change == EventKind::Destroy));
    world.go_on(&[0; 10]);
    world.engine.subscribe(false);
    assert_eq!(world.engine.next_event(), None);
    while world.engine.flush(100) {}
    assert_eq!((world.engine.next_event(), world.engine.lost_events()), (None, 0));
}

/// Nobody takes events: the first ones stay, and the others are counted.
#[test]
fn events_that_nobody_takes_are_lost_and_counted() {
    const MAX: usize = 4096;
    let mut world = World::new([0, 0, 1]);
    world.engine.subscribe(true);
    for _ in 0..MAX {
        world.go_on(&[0]);
        while world.engine.flush(100) {}
    }
    let told: Vec<_> = std::iter::from_fn(|| world.engine.next_event()).collect();
    assert_eq!(told.len(), MAX);
    assert!(told.iter().step_by(2).all(|event| event.change == EventKind::New));
    let stats = world.engine.stats();
    let all = stats.created + stats.ended.iter().sum::<u64>();
    assert_eq!(world.engine.lost_events(), all - MAX as u64);
    assert_eq!(world.engine.lost_events(), 0);
}
