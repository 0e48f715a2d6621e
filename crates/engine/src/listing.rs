// SPDX-License-Identifier: BSD-3-Clause
//! What there is now, for those who ask: connections and their rules, a few records at a time.
//!
//! A walk goes through the records in their order, so many in each call, and changes nothing. It
//! takes no snapshot: a flow that begins or ends meanwhile may be in it or not; every other one is
//! in it once.

use crate::flow::{PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6};
use crate::key::KeyParts;
use crate::offload::{Governor, Rules, Subject, Terms};
use crate::table::FlowTable;
use crate::{EndReason, Engine, FlowRecord, Nanos, RuleView, Side};
use std::net::IpAddr;
use std::ops::Range;

/// Which flows somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those with an end that has this address.
    pub address: Option<IpAddr>,
    /// Only those with an end that has this port; with an address, the same end.
    pub port: Option<u16>,
    /// Only those that have a rule, or are to have one. That is a short walk: it goes through what
    /// marks can name.
    pub has_rules: bool,
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) is_v6: bool,
    pub(crate) next: u32,
}

/// A connection that is alive.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveFlow {
    /// The record that it would leave if the engine were flushed now.
    pub record: FlowRecord,
    /// Rules of the packets from `src` to `dst`, and of those that come back.
    pub rules: [RuleView; 2],
}

impl Query {
    fn takes(&self, parts: &KeyParts) -> bool {
        // What these have in their place is no port.
        let has_ports = !matches!(parts.proto, PROTO_ICMP | PROTO_ICMPV6 | PROTO_GRE | PROTO_ESP);
        let is_it = |address: IpAddr, port: u16| {
            self.address.is_none_or(|wanted| wanted == address)
                && self.port.is_none_or(|wanted| wanted == port && has_ports)
        };
        is_it(parts.low, parts.low_port) || is_it(parts.high, parts.high_port)
    }
}

impl Engine {
    /// Goes on with a walk, which begins with `Cursor::default()`: looks at up to `budget` places,
    /// and gives the flows in them that are asked for to `found`. False: that was the last of it.
    pub fn list(
        &self,
        query: &Query,
        cursor: &mut Cursor,
        budget: u32,
        found: &mut impl FnMut(LiveFlow),
    ) -> bool {
        let terms = Side::BOTH.map(|side| self.terms(side));
        let mut left = budget;
        loop {
            let places = if cursor.is_v6 { self.v6.places(query) } else { self.v4.places(query) };
            let end = places.min(cursor.next.saturating_add(left));
            let range = cursor.next..end;
            left -= range.len() as u32;
            cursor.next = end;
            match cursor.is_v6 {
                false => self.v4.list(query, range, (&terms, self.now), found),
                true => self.v6.list(query, range, (&terms, self.now), found),
            }
            if end < places || cursor.is_v6 {
                return end < places;
            }
            *cursor = Cursor { is_v6: true, next: 0 };
        }
    }

    fn terms(&self, side: Side) -> Terms {
        let of = |governor: &Governor| Terms {
            is_full: governor.is_full(side, self.live(side)),
            is_backing_off: governor.is_backing_off(side, self.now),
        };
        self.governor.as_ref().map(of).unwrap_or_default()
    }
}

impl<const W: usize> FlowTable<W> {
    /// Places of a walk.
    fn places(&self, query: &Query) -> u32 {
        match self.rules() {
            _ if !query.has_rules => self.used(),
            Some(rules) => rules.slots().used(),
            None => 0,
        }
    }

    fn list(
        &self,
        query: &Query,
        places: Range<u32>,
        at: (&[Terms; 2], Nanos),
        found: &mut impl FnMut(LiveFlow),
    ) {
        let record_at = |place: u32| match self.rules() {
            Some(rules) if query.has_rules => rules.slots().get(place)?.record(),
            _ => Some(place),
        };
        // They lie far apart where the walk goes through slots.
        places.clone().filter_map(record_at).for_each(|record| self.prefetch(record));
        for record in places.filter_map(record_at) {
            let (hot, _) = self.parts(record);
            if !hot.is_free() && query.takes(&hot.key.parts()) {
                found(self.live_flow(record, at));
            }
        }
    }

    fn live_flow(&self, record: u32, (terms, now): (&[Terms; 2], Nanos)) -> LiveFlow {
        let (hot, cold) = self.parts(record);
        let flow = hot.record(cold, EndReason::Exit);
        let view = |rules: &Rules, swapped: u8| {
            let (packets, start) = hot.so_far(cold, swapped);
            let (direction, proto) = (usize::from(swapped), flow.proto);
            let zone = flow.zone;
            rules.view(Subject { record, direction, proto, zone, packets, start, now }, terms)
        };
        let orig = hot.originator();
        let rules = [orig, orig ^ 1].map(|swapped| match self.rules() {
            Some(rules) => view(rules, swapped),
            None => RuleView::OFF,
        });
        LiveFlow { record: flow, rules }
    }
}
