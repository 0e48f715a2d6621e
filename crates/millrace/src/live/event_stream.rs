// SPDX-License-Identifier: BSD-3-Clause
//! Listens to what becomes of the connections of a running bump: for a thread that serves somebody
//! who wants to know. It ends with the value.

use super::command_queue::{Command, Reply};
use super::query::{QueryClient, RunEnding};
use super::subscribers::{StreamItem, Subscriber};
use engine::Filter;
use rtrb::Consumer;
use std::sync::atomic::Ordering;

/// Events of one worker that are taken in one go.
const AT_ONCE: usize = 1024;

/// One who listens to all workers.
pub(crate) struct EventStream<'a> {
    inquiry: &'a QueryClient,
    id: u64,
    /// Of each worker.
    ears: Vec<EventReceiver>,
    /// No worker tells it anything any more.
    has_left: bool,
}

struct EventReceiver {
    lcore: u32,
    ring: Consumer<StreamItem>,
    /// Events that are missing behind the last one in the ring.
    missing: u64,
}

impl QueryClient {
    /// Hears of the connections that are meant, from now on.
    pub(crate) fn listen(&self, filter: Filter) -> Result<EventStream<'_>, RunEnding> {
        let id = self.listeners.fetch_add(1, Ordering::Relaxed);
        let mut hearing = EventStream { inquiry: self, id, ears: Vec::new(), has_left: false };
        self.check()?;
        for worker in &self.workers {
            let (listener, ring) = Subscriber::new(id, filter);
            // There are as many places as clients: nobody is refused.
            let Reply::Listens = worker.ask(|told| Command::Listen(listener, told))? else {
                return Err(RunEnding);
            };
            hearing.ears.push(EventReceiver { lcore: worker.lcore, ring, missing: 0 });
        }
        Ok(hearing)
    }
}

impl EventStream<'_> {
    /// Gives what there is to hear to `heard`, with the lcore of the worker; returns how much. When
    /// the run is about to end, that is what happened before, and after it the end.
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

    /// Hears no more than what was told so far.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        for (worker, ear) in self.inquiry.workers.iter().zip(&mut self.ears) {
            // Given back, so that no worker frees its ring; of a run that is over nothing is.
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
