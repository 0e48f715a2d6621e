// SPDX-License-Identifier: BSD-3-Clause
//! A port whose driver asks for a reset: its workers give their queues back, it is reset, and they
//! get others. What they have for it meanwhile they drop; nobody waits but the control thread, for
//! the driver.
//!
//! The thread that programs rules learns of it from [`Resets`], before it asks the port for
//! anything more.

use super::SharedPort;
use super::port_watch::PortEvent;
use super::queue_lease::{Pair, QueueOwner};
use dpdk::{PortError, Queues, Resets};
use std::time::{Duration, Instant};

/// From a reset that failed to the next: twice as long each time.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A port that is not back after so long is given up. NICs that load their firmware anew take
/// seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// How it stands with resets of one port.
pub(super) struct PortReset {
    port: SharedPort,
    resets: Resets,
    /// To each worker, in the order of its queues.
    lenders: Vec<QueueOwner>,
    state: State,
}

enum State {
    Working,
    /// The queues that have come back.
    Gathering(PortDown, Queues),
    Waiting(PortDown, Retry),
    GivenUp,
}

/// A port that is out of service.
#[derive(Clone, Copy)]
struct PortDown {
    since: Instant,
    /// That it had, where it takes any.
    rules: Option<u64>,
}

/// After so many resets that failed, another.
#[derive(Clone, Copy)]
struct Retry {
    tries: u32,
    at: Instant,
}

impl PortReset {
    pub(super) fn new(port: SharedPort, lenders: Vec<QueueOwner>) -> Self {
        let resets = port.lock().resets();
        Self { port, resets, lenders, state: State::Working }
    }

    /// The port cannot be used now.
    pub(super) fn is_out(&self) -> bool {
        !matches!(self.state, State::Working)
    }

    /// The port has not come back and never will.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp)
    }

    /// Does what can be done now. `rules`: those that the port has, if it takes any.
    pub(super) fn step(&mut self, rules: Option<u64>) -> Option<PortEvent> {
        match std::mem::replace(&mut self.state, State::Working) {
            State::Working if self.resets.is_needed() => {
                self.lenders.iter_mut().for_each(QueueOwner::ask_back);
                let outage = PortDown { since: Instant::now(), rules };
                self.gather(outage, Queues::default())
            }
            State::Gathering(outage, queues) => self.gather(outage, queues),
            State::Waiting(outage, retry) if Instant::now() >= retry.at => {
                self.reset(outage, retry.tries, Queues::default())
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    fn gather(&mut self, outage: PortDown, mut queues: Queues) -> Option<PortEvent> {
        for Pair { rx, tx } in self.lenders.iter_mut().filter_map(QueueOwner::take_back) {
            queues.0.push(rx);
            queues.1.push(tx);
        }
        if queues.0.len() == self.lenders.len() {
            return self.reset(outage, 0, queues);
        }
        self.state = State::Gathering(outage, queues);
        None
    }

    /// Resets the port, which has failed `tries` times, with all queues that it has.
    fn reset(&mut self, outage: PortDown, tries: u32, queues: Queues) -> Option<PortEvent> {
        let mut port = self.port.lock();
        let port_name = port.info().devargs.clone();
        let result = port.reset(queues);
        drop(port);
        match result {
            Ok((rx, tx)) => {
                let pairs = rx.into_iter().zip(tx).map(|(rx, tx)| Pair { rx, tx });
                self.lenders.iter_mut().zip(pairs).for_each(|(lender, pair)| lender.lend(pair));
                let PortDown { since, rules } = outage;
                Some(PortEvent::Reset { port: port_name, took: since.elapsed(), rules })
            }
            Err(error) => self.failed(outage, tries + 1, error),
        }
    }

    fn failed(&mut self, outage: PortDown, tries: u32, error: PortError) -> Option<PortEvent> {
        if outage.since.elapsed() >= PATIENCE {
            self.state = State::GivenUp;
            return Some(PortEvent::GivenUp { tries, error });
        }
        let wait = WAIT_MIN.saturating_mul(1 << (tries - 1).min(16)).min(WAIT_MAX);
        self.state = State::Waiting(outage, Retry { tries, at: Instant::now() + wait });
        (tries == 1).then_some(PortEvent::ResetFailed { error })
    }
}
