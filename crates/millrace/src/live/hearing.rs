// SPDX-License-Identifier: BSD-3-Clause
//! Listens to what becomes of the connections of a running bump: for a thread that serves somebody
//! who wants to know. It ends with the value.

use super::desk::{Ask, Told};
use super::inquiry::{Ending, Inquiry};
use super::listeners::{Heard, Listener};
use engine::Filter;
use rtrb::Consumer;
use std::sync::atomic::Ordering;

/// Events of one worker that are taken in one go.
const AT_ONCE: usize = 1024;

/// One who listens to all workers.
pub(crate) struct Hearing<'a> {
    inquiry: &'a Inquiry,
    id: u64,
    /// Of each worker.
    ears: Vec<Ear>,
    /// No worker tells it anything any more.
    has_left: bool,
}

struct Ear {
    lcore: u32,
    ring: Consumer<Heard>,
    /// Events that are missing behind the last one in the ring.
    missing: u64,
}

impl Inquiry {
    /// Hears of the connections that are meant, from now on.
    pub(crate) fn listen(&self, filter: Filter) -> Result<Hearing<'_>, Ending> {
        let id = self.listeners.fetch_add(1, Ordering::Relaxed);
        let mut hearing = Hearing { inquiry: self, id, ears: Vec::new(), has_left: false };
        self.check()?;
        for worker in &self.workers {
            let (listener, ring) = Listener::new(id, filter);
            // There are as many places as clients: nobody is refused.
            let Told::Listens = worker.ask(|told| Ask::Listen(listener, told))? else {
                return Err(Ending);
            };
            hearing.ears.push(Ear { lcore: worker.lcore, ring, missing: 0 });
        }
        Ok(hearing)
    }
}

impl Hearing<'_> {
    /// Gives what there is to hear to `heard`, with the lcore of the worker; returns how much. When
    /// the run is about to end, that is what happened before, and after it the end.
    pub(crate) fn hear(&mut self, heard: &mut impl FnMut(u32, Heard)) -> Result<usize, Ending> {
        if self.inquiry.check().is_err() {
            self.leave();
        }
        let (mut taken, mut is_over) = (0, self.has_left);
        for Ear { lcore, ring, missing } in &mut self.ears {
            is_over |= ring.is_abandoned();
            let before = taken;
            while taken - before < AT_ONCE {
                let Ok(next) = ring.pop() else { break };
                heard(*lcore, next);
                taken += 1;
            }
            if taken == before && *missing > 0 {
                heard(*lcore, Heard::Lost(std::mem::take(missing)));
                taken += 1;
            }
        }
        if taken == 0 && is_over { Err(Ending) } else { Ok(taken) }
    }

    /// Hears no more than what was told so far.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        for (worker, ear) in self.inquiry.workers.iter().zip(&mut self.ears) {
            // Given back, so that no worker frees its ring; of a run that is over nothing is.
            let left = worker.ask(|told| Ask::Leave(self.id, told));
            if let Ok(Told::Left(Some(listener))) = left {
                ear.missing = listener.lost();
            }
        }
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
