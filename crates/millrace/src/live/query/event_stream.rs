// SPDX-License-Identifier: BSD-3-Clause
//! Receives the events of connections from all workers, for a thread that serves a client. Dropping
//! an [`EventStream`] ends the subscription.

use crate::live::commands::queue::{Command, Reply};
use crate::live::commands::subscribers::{StreamItem, Subscriber};
use crate::live::query::client::{QueryClient, RunEnding};
use engine::Filter;
use rtrb::Consumer;
use std::sync::atomic::Ordering;

/// Most events that are taken from one worker at a time.
const AT_ONCE: usize = 1024;

/// A subscription to all workers.
pub(crate) struct EventStream<'a> {
    inquiry: &'a QueryClient,
    id: u64,
    /// The rings of the workers.
    ears: Vec<EventReceiver>,
    /// True once the workers hand out no more events to it.
    has_left: bool,
}

struct EventReceiver {
    lcore: u32,
    ring: Consumer<StreamItem>,
    /// Lost events behind the last one in the ring.
    missing: u64,
}

impl QueryClient {
    /// Subscribes to events of connections that match `filter`.
    pub(crate) fn listen(&self, filter: Filter) -> Result<EventStream<'_>, RunEnding> {
        let id = self.listeners.fetch_add(1, Ordering::Relaxed);
        let mut hearing = EventStream { inquiry: self, id, ears: Vec::new(), has_left: false };
        self.check()?;
        for worker in &self.workers {
            let (listener, ring) = Subscriber::new(id, filter);
            // Each worker has as many places as clients are served, so none refuses.
            let Reply::Listens = worker.ask(|told| Command::Listen(listener, told))? else {
                return Err(RunEnding);
            };
            hearing.ears.push(EventReceiver { lcore: worker.lcore, ring, missing: 0 });
        }
        Ok(hearing)
    }
}

impl EventStream<'_> {
    /// Passes waiting events to `heard`, with the lcore of their worker; returns how many. When the
    /// run is about to end, it passes on earlier events first and then fails.
    pub(crate) fn hear(
        &mut self,
        heard: &mut impl FnMut(u32, StreamItem),
    ) -> Result<usize, RunEnding> {
        if self.inquiry.check().is_err() {
            self.leave();
        }
        let (mut taken, mut is_over) = (0, self.has_left);
        for EventReceiver { lcore, ring, missing } in &mut self.ears {
            is_over |= ring.is_abandoned();
            let before = taken;
            while taken - before < AT_ONCE {
                let Ok(next) = ring.pop() else { break };
                heard(*lcore, next);
                taken += 1;
            }
            if taken == before && *missing > 0 {
                heard(*lcore, StreamItem::Lost(std::mem::take(missing)));
                taken += 1;
            }
        }
        if taken == 0 && is_over { Err(RunEnding) } else { Ok(taken) }
    }

    /// Ends the subscription at all workers; events already in the rings stay.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        for (worker, ear) in self.inquiry.workers.iter().zip(&mut self.ears) {
            // The worker returns its end, so that no worker frees a ring. After the run it cannot.
            let left = worker.ask(|told| Command::Leave(self.id, told));
            if let Ok(Reply::Left(Some(listener))) = left {
                ear.missing = listener.lost();
            }
        }
    }
}

impl Drop for EventStream<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
