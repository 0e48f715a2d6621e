// SPDX-License-Identifier: BSD-3-Clause
//! Resets a port whose driver requests it. Its workers return their queues, the control thread
//! resets the port, and the workers get new queues. Meanwhile workers drop packets for this port.
//! Only the control thread waits for the driver. A device that the kernel asks for is closed in the
//! same way, and the workers get no queues again.
//!
//! The programming thread learns of a reset from [`Resets`], before its next call to the port.

use crate::live::ports::event::PortEvent;
use crate::live::ports::queue_lease::{QueueOwner, QueuePair};
use crate::live::ports::shared::SharedPort;
use dpdk::{PortError, Queues, Resets};
use std::time::{Duration, Instant};

/// Wait after the first failed reset; it doubles with each further one.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A port that is not back after this time is given up. NICs that reload their firmware take
/// seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of one port's resets.
pub(crate) struct PortReset {
    port: SharedPort,
    resets: Resets,
    /// Owners of the queues of each worker, in the order of the queues.
    owners: Vec<QueueOwner>,
    state: State,
}

enum State {
    Working,
    /// The return of all queues is requested; these have been returned.
    Gathering(PortDown, Queues),
    Waiting(PortDown, Retry),
    GivenUp,
    /// The kernel has the device again.
    GivenBack,
}

/// A port that is out of service.
#[derive(Clone, Copy)]
struct PortDown {
    since: Instant,
    /// Rules that the port had; `None` if it takes none.
    rules: Option<u64>,
}

/// The next try after `tries` failed resets.
#[derive(Clone, Copy)]
struct Retry {
    tries: u32,
    at: Instant,
}

impl PortReset {
    pub(crate) fn new(port: SharedPort, owners: Vec<QueueOwner>) -> Self {
        let resets = port.lock().resets();
        Self { port, resets, owners, state: State::Working }
    }

    /// True if the port is out of service.
    pub(crate) fn is_out(&self) -> bool {
        !matches!(self.state, State::Working)
    }

    /// True if the device was given back to the kernel.
    pub(crate) fn is_given_back(&self) -> bool {
        matches!(self.state, State::GivenBack)
    }

    /// True if the port was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp)
    }

    /// Does the next step that is possible now. `rules`: number of rules of the port, if it takes
    /// any.
    pub(crate) fn step(&mut self, rules: Option<u64>) -> Option<PortEvent> {
        match std::mem::replace(&mut self.state, State::Working) {
            State::Working if self.resets.is_needed() || self.resets.is_asked_back() => {
                self.owners.iter_mut().for_each(QueueOwner::request_return);
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
        for QueuePair { rx, tx } in self.owners.iter_mut().filter_map(QueueOwner::take_back) {
            queues.0.push(rx);
            queues.1.push(tx);
        }
        if queues.0.len() == self.owners.len() {
            return match self.resets.is_asked_back() {
                true => Some(self.give_back(queues)),
                false => self.reset(outage, 0, queues),
            };
        }
        self.state = State::Gathering(outage, queues);
        None
    }

    /// Gives the device back to the kernel. `queues` are all queues of the port.
    fn give_back(&mut self, queues: Queues) -> PortEvent {
        let mut port = self.port.lock();
        port.give_back(queues);
        self.state = State::GivenBack;
        PortEvent::GivenBack(port.info().devargs.clone())
    }

    /// Resets the port, whose resets have failed `tries` times. `queues` are all its queues.
    fn reset(&mut self, outage: PortDown, tries: u32, queues: Queues) -> Option<PortEvent> {
        let mut port = self.port.lock();
        let port_name = port.info().devargs.clone();
        let result = port.reset(queues);
        drop(port);
        match result {
            Ok((rx, tx)) => {
                let pairs = rx.into_iter().zip(tx).map(|(rx, tx)| QueuePair { rx, tx });
                self.owners.iter_mut().zip(pairs).for_each(|(owner, pair)| owner.grant(pair));
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
