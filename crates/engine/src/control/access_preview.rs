// SPDX-License-Identifier: BSD-3-Clause
//! Foretells what other access lists would decide about the connections that there are.

use super::place::Place;
use crate::api::{AccessLists, ConnDecision, ConnView, Cursor, DecisionChange, DirectionAccess};
use crate::engine::Engine;
use crate::pipeline::foretell;
use crate::tracker::Tracker;

impl Engine {
    /// Continues a walk that compares the lists in force with others: passes what each decides
    /// about a connection to `found`, with a function that returns the connection. Changes
    /// nothing. Visits up to `budget` places. False once the walk is complete.
    ///
    /// The other lists decide so if they replace those in force now, and the next packet of the
    /// connection is one of its originator.
    pub fn preview_access(
        &self,
        lists: &AccessLists,
        cursor: &mut Cursor,
        budget: u32,
        found: &mut impl FnMut(DecisionChange, &dyn Fn() -> ConnView),
    ) -> bool {
        let Some(running) = self.pipeline.access() else { return false };
        match cursor.is_v6 {
            false => self.trackers.v4.prefetch_some(cursor.next, budget),
            true => self.trackers.v6.prefetch_some(cursor.next, budget),
        }
        let at = (None, self.now);
        for _ in 0..budget {
            let record = match self.place(cursor) {
                Place::Record(record) => record,
                Place::NextTable => continue,
                Place::End => return false,
            };
            cursor.next += 1;
            let (change, view): (_, &dyn Fn() -> ConnView) = match cursor.is_v6 {
                false => {
                    let tracker = &self.trackers.v4;
                    (change(tracker, record, (running, lists)), &|| tracker.live_flow(record, at))
                }
                true => {
                    let tracker = &self.trackers.v6;
                    (change(tracker, record, (running, lists)), &|| tracker.live_flow(record, at))
                }
            };
            if let Some(change) = change {
                found(change, view);
            }
        }
        true
    }
}

/// Returns what both lists decide about the connection in `record`; `None` if there is none.
fn change<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    (running, other): (&AccessLists, &AccessLists),
) -> Option<DecisionChange> {
    if tracker.table.hot[record as usize].is_free() {
        return None;
    }
    let stored = tracker.stored_decisions(record);
    let now = stored.or_else(|| foretell(tracker, record, running));
    let then = foretell(tracker, record, other);
    Some(DecisionChange { now: of_directions(now), then: of_directions(then) })
}

/// Returns the decision about a connection whose directions have these. A direction without
/// packets has none.
fn of_directions(decisions: Option<[DirectionAccess; 2]>) -> ConnDecision {
    let Some(decisions) = decisions else { return ConnDecision::Varies };
    let drops = |decision: &DirectionAccess| {
        matches!(decision, DirectionAccess::Denied | DirectionAccess::Rejected)
    };
    // A packet whose direction varies may reflect the connection, and so permit the other one.
    match decisions.contains(&DirectionAccess::Varies) {
        true => ConnDecision::Varies,
        false if decisions.iter().any(drops) => ConnDecision::Denied,
        false => ConnDecision::Permitted,
    }
}
