// SPDX-License-Identifier: BSD-3-Clause
//! Receives events of connections, or logged packets, from all workers, for a thread that serves a
//! client. Dropping an [`EventStream`] ends the subscription.

use crate::live::commands::queue::{Command, Reply};
use crate::live::commands::subscribers::{StreamItem, Subscriber, Topic};
use crate::live::query::client::{QueryClient, RunEnding};
use rtrb::Consumer;
use std::sync::atomic::Ordering;

/// Most events that are taken from one worker at a time.
const AT_ONCE: usize = 1024;

/// A subscription to all workers.
pub(crate) struct EventStream<'a> {
    queries: &'a QueryClient,
    id: u64,
    /// The rings of the workers.
    receivers: Vec<EventReceiver>,
    /// True once the workers hand out no more events to it.
    is_unsubscribed: bool,
}

struct EventReceiver {
    lcore: u32,
    ring: Consumer<StreamItem>,
    /// Lost events behind the last one in the ring.
    missing: u64,
}

impl QueryClient {
    /// Subscribes to events of connections, or to packets that access lists log.
    pub(crate) fn subscribe(&self, topic: Topic) -> Result<EventStream<'_>, RunEnding> {
        let id = self.subscriptions.fetch_add(1, Ordering::Relaxed);
        let mut stream =
            EventStream { queries: self, id, receivers: Vec::new(), is_unsubscribed: false };
        self.check()?;
        for worker in &self.workers {
            let (subscriber, ring) = Subscriber::new(id, topic);
            // Each worker has as many places as clients are served, so none refuses.
            let Reply::Subscribed =
                worker.request(|replies| Command::Subscribe(subscriber, replies))?
            else {
                return Err(RunEnding);
            };
            stream.receivers.push(EventReceiver { lcore: worker.lcore, ring, missing: 0 });
        }
        Ok(stream)
    }
}

impl EventStream<'_> {
    /// Passes waiting events to `pass`, with the lcore of their worker; returns how many. When the
    /// run is about to end, it passes on earlier events first and then fails.
    pub(crate) fn receive(
        &mut self,
        pass: &mut impl FnMut(u32, StreamItem),
    ) -> Result<usize, RunEnding> {
        if self.queries.check().is_err() {
            self.unsubscribe();
        }
        let (mut taken, mut is_over) = (0, self.is_unsubscribed);
        for EventReceiver { lcore, ring, missing } in &mut self.receivers {
            is_over |= ring.is_abandoned();
            let before = taken;
            while taken - before < AT_ONCE {
                let Ok(next) = ring.pop() else { break };
                pass(*lcore, next);
                taken += 1;
            }
            if taken == before && *missing > 0 {
                pass(*lcore, StreamItem::Lost(std::mem::take(missing)));
                taken += 1;
            }
        }
        if taken == 0 && is_over { Err(RunEnding) } else { Ok(taken) }
    }

    /// Ends the subscription at all workers; events already in the rings stay.
    fn unsubscribe(&mut self) {
        if std::mem::replace(&mut self.is_unsubscribed, true) {
            return;
        }
        for (worker, receiver) in self.queries.workers.iter().zip(&mut self.receivers) {
            // The worker returns its end of the ring, so that no worker frees one. A worker that
            // has ended cannot reply.
            let reply = worker.request(|replies| Command::Unsubscribe(self.id, replies));
            if let Ok(Reply::Unsubscribed(Some(subscriber))) = reply {
                receiver.missing = subscriber.lost();
            }
        }
    }
}

impl Drop for EventStream<'_> {
    fn drop(&mut self) {
        self.unsubscribe();
    }
}
