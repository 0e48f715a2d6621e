// SPDX-License-Identifier: BSD-3-Clause
//! What there is now, for those who ask: connections and their rules, a few records at a time; and
//! the end of those that somebody wants to have ended.
//!
//! A walk goes through the records in their order, so many in each call. It takes no snapshot: a
//! flow that begins or ends meanwhile may be in it or not; every other one is in it once.

use crate::Engine;
use crate::base::Nanos;
use crate::filter::Filter;
use crate::offload::{Governor, RuleView, Rules, Side, Subject, Terms};
use crate::progress::Progress;
use crate::record::{EndReason, FlowRecord};
use crate::table::FlowTable;
use std::ops::Range;

/// Which flows somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those that it means.
    pub filter: Filter,
    /// Only those that have a rule, or are to have one. That is a short walk: it goes through what
    /// marks can name.
    pub has_rules: bool,
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) is_v6: bool,
    pub(crate) next: u32,
    /// When a walk that changes flows, or ends them, began.
    since: Option<Nanos>,
}

/// A connection that is alive.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveFlow {
    /// The record that it would leave if the engine were flushed now.
    pub record: FlowRecord,
    /// How far it has come.
    pub progress: Progress,
    /// Both ends have shown that they want it.
    pub is_assured: bool,
    /// When it ends if no packet comes before.
    pub expires: Nanos,
    /// Rules of the packets from `src` to `dst`, and of those that come back.
    pub rules: [RuleView; 2],
}

/// How a zone stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneNow {
    /// Connections that it has, of both IP versions.
    pub connections: u32,
    /// Those of them that are embryonic.
    pub embryonic: u32,
    /// Connections that began in the last full second.
    pub begun: u32,
}

/// What a part of a walk that ends flows has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Flows that it has ended.
    pub ended: u32,
    /// Flows that it would have ended, but the NIC forwards them by itself: it was told to stop,
    /// and what it has counted is on its way. They are for another walk from the beginning.
    pub held: u32,
    /// There is more to walk.
    pub more: bool,
}

/// What is to become of a flow that a walk has come to.
enum Fate {
    Stays,
    Held,
    Ends(FlowRecord),
}

impl Cursor {
    /// The beginning of another walk that ends flows, and those only that were there when this one
    /// began.
    pub fn again(self) -> Self {
        Self { since: self.since, ..Self::default() }
    }

    /// When the walk began, if not `now`.
    pub(crate) fn since(&mut self, now: Nanos) -> Nanos {
        *self.since.get_or_insert(now)
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
        let at = (&terms, self.now);
        self.walk(query, cursor, budget, &mut |is_v6, record| {
            found(match is_v6 {
                false => self.v4.live_flow(record, at),
                true => self.v6.live_flow(record, at),
            });
        })
    }

    /// The same of a walk that only counts: adds how many there are in these places to `count`.
    pub fn count(&self, query: &Query, cursor: &mut Cursor, budget: u32, count: &mut u64) -> bool {
        self.walk(query, cursor, budget, &mut |_, _| *count += 1)
    }

    /// How a zone stands.
    pub fn zone_now(&self, zone: u16) -> ZoneNow {
        ZoneNow {
            connections: self.books.limits.of_zone(zone),
            embryonic: self.v4.embryonic_in(zone) + self.v6.embryonic_in(zone),
            begun: self.books.limits.pace(zone, self.now),
        }
    }

    /// Goes on with a walk that ends the flows that are meant, with [`EndReason::Flushed`]: looks
    /// at up to `budget` places. Stops short where flow records wait to be taken. A flow that began
    /// after the walk is not ended by it.
    pub fn sweep(&mut self, filter: &Filter, cursor: &mut Cursor, budget: u32) -> Swept {
        let since = cursor.since(self.now);
        match cursor.is_v6 {
            false => self.v4.prefetch_some(cursor.next, budget),
            true => self.v6.prefetch_some(cursor.next, budget),
        }
        let mut swept = Swept { more: true, ..Swept::default() };
        for _ in 0..budget {
            let used = if cursor.is_v6 { self.v6.used() } else { self.v4.used() };
            if cursor.next >= used {
                if cursor.is_v6 {
                    swept.more = false;
                    break;
                }
                (cursor.is_v6, cursor.next) = (true, 0);
                continue;
            }
            if !self.books.has_room() {
                break;
            }
            let record = cursor.next;
            cursor.next += 1;
            let fate = match cursor.is_v6 {
                false => self.v4.sweep_one(record, filter, (since, self.now)),
                true => self.v6.sweep_one(record, filter, (since, self.now)),
            };
            match fate {
                Fate::Stays => {}
                Fate::Held => swept.held += 1,
                Fate::Ends(flow) => {
                    swept.ended += 1;
                    self.books.end(flow);
                }
            }
        }
        swept
    }

    /// Ends live flows with [`EndReason::Exit`], looking at no more than `budget` records. False
    /// once none is left: call again after taking the records.
    pub fn flush(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            if !self.books.has_room() {
                return true;
            }
            let (v4, v6) = &mut self.flushed;
            let flow = if *v4 < self.v4.used() {
                *v4 += 1;
                self.v4.flush_one(*v4 - 1, EndReason::Exit)
            } else if *v6 < self.v6.used() {
                *v6 += 1;
                self.v6.flush_one(*v6 - 1, EndReason::Exit)
            } else {
                // Flows that began behind the cursor meanwhile are for the next round.
                self.flushed = (0, 0);
                return self.books.stats.active() > 0;
            };
            if let Some(flow) = flow {
                self.books.end(flow);
            }
        }
        true
    }

    fn walk(
        &self,
        query: &Query,
        cursor: &mut Cursor,
        budget: u32,
        found: &mut impl FnMut(bool, u32),
    ) -> bool {
        let mut left = budget;
        loop {
            let places = if cursor.is_v6 { self.v6.places(query) } else { self.v4.places(query) };
            let end = places.min(cursor.next.saturating_add(left));
            let range = cursor.next..end;
            left -= range.len() as u32;
            cursor.next = end;
            match cursor.is_v6 {
                false => self.v4.find_all(query, range, &mut |record| found(false, record)),
                true => self.v6.find_all(query, range, &mut |record| found(true, record)),
            }
            if end < places || cursor.is_v6 {
                return end < places;
            }
            *cursor = Cursor { is_v6: true, next: 0, ..*cursor };
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

    /// Records of those that are asked for.
    fn find_all(&self, query: &Query, places: Range<u32>, found: &mut impl FnMut(u32)) {
        let record_at = |place: u32| match self.rules() {
            Some(rules) if query.has_rules => rules.slots().get(place)?.record(),
            _ => Some(place),
        };
        // They lie far apart where the walk goes through slots.
        places.clone().filter_map(record_at).for_each(|record| self.prefetch(record));
        for record in places.filter_map(record_at) {
            if self.is_meant(record, &query.filter) {
                found(record);
            }
        }
    }

    fn prefetch_some(&self, from: u32, count: u32) {
        (from..from.saturating_add(count).min(self.used()))
            .for_each(|record| self.prefetch(record));
    }

    /// Ends the flow in a record if it is meant and began by a time. What the NIC has counted of it
    /// is waited for.
    fn sweep_one(&mut self, record: u32, filter: &Filter, (since, now): (Nanos, Nanos)) -> Fate {
        let (hot, cold) = self.parts(record);
        if !self.is_meant(record, filter) || cold.began() > since {
            return Fate::Stays;
        }
        if hot.is_ruled() && self.is_awaited(record, now) {
            return Fate::Held;
        }
        self.flush_one(record, EndReason::Flushed).map_or(Fate::Stays, Fate::Ends)
    }

    fn live_flow(&self, record: u32, (terms, now): (&[Terms; 2], Nanos)) -> LiveFlow {
        let (hot, cold) = self.parts(record);
        let flow = self.record(record, EndReason::Exit);
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
        LiveFlow {
            expires: self.deadline(hot, cold),
            record: flow,
            // Only a record that is not in use has none.
            progress: hot.phase().progress().unwrap_or(Progress::OtherFirst),
            is_assured: !hot.is_embryonic(),
            rules,
        }
    }
}
