// SPDX-License-Identifier: BSD-3-Clause
//! Releases connections that their programs hold open, the oldest first.

use super::Stack;
use crate::endpoint::{Endpoint, EndpointId, flag};
use crate::frame::Output;
use crate::pace::Pace;
use std::collections::VecDeque;

/// Connections that are released in a turn at most.
const RELEASED_MAX: u64 = 32;
/// Entries of ends that have ended otherwise, and are dropped in a turn at most.
const DROPPED_MAX: usize = 1024;

/// Held ends, the oldest first.
#[derive(Debug)]
pub(super) struct Held {
    /// With their initial sequence numbers: a record may have been freed and used again.
    queue: VecDeque<(EndpointId, u32)>,
    /// Ends that are released each second.
    rate: f64,
    /// `None` until as many connections are open as should be.
    pace: Option<Pace>,
    /// Number of those released since, and of those that none was there for.
    released: u64,
}

impl Held {
    pub(super) fn new(rate: f64) -> Self {
        Self { queue: VecDeque::new(), rate, pace: None, released: 0 }
    }
}

impl Stack {
    /// Releases the held connections that are due; true if there was any. All are due once no
    /// connection is opened any more.
    pub(super) fn release(&mut self, now_ns: u64, out: &mut impl Output) -> bool {
        let is_stopped = self.openers.iter().all(|opener| opener.is_stopped);
        let held = &mut self.held;
        if is_stopped {
            held.pace = None;
        } else if held.pace.is_none() && self.openers.iter().all(|opener| opener.is_full()) {
            (held.pace, held.released) = (Some(Pace::new(held.rate, now_ns, 0)), 0);
        }
        let due = match (is_stopped, &held.pace) {
            (true, _) => RELEASED_MAX,
            (false, None) => 0,
            (false, Some(pace)) => (pace.due(now_ns) as u64).saturating_sub(held.released),
        };
        let due = due.min(RELEASED_MAX).min(out.room() as u64);
        let mut droppable = DROPPED_MAX;
        for _ in 0..due {
            let Some((id, is_held)) = self.next_held(&mut droppable) else {
                // What is due while none is held is not made up for.
                let due = self.held.pace.as_ref().map_or(0, |pace| pace.due(now_ns) as u64);
                self.held.released = due;
                return true;
            };
            if !is_held {
                return true;
            }
            self.held.released += 1;
            self.act(id, now_ns, out, |context, end| context.release(end));
        }
        due > 0
    }

    /// Appends an end whose program begins to hold.
    #[inline(never)]
    pub(super) fn hold(&mut self, id: EndpointId) {
        let records = &self.table.records;
        self.held.queue.push_back((id, records[id as usize].iss));
        // Entries of ends that failed are dropped before there are more of them than records.
        if self.held.queue.len() > 2 * records.len() {
            self.held.queue.retain(|entry| is_held(records, *entry));
        }
    }

    /// Takes the oldest entry whose end is still held. Before it, drops up to `droppable` others;
    /// if there are more, takes the next one of those, and returns false with it.
    fn next_held(&mut self, droppable: &mut usize) -> Option<(EndpointId, bool)> {
        loop {
            let entry = self.held.queue.pop_front()?;
            let is_held = is_held(&self.table.records, entry);
            if is_held || *droppable == 0 {
                return Some((entry.0, is_held));
            }
            *droppable -= 1;
        }
    }
}

/// True if an entry's end has not ended, and waits to be released.
fn is_held(records: &[Endpoint], (id, iss): (EndpointId, u32)) -> bool {
    let end = &records[id as usize];
    end.has(flag::HOLDS) && end.iss == iss
}
