// SPDX-License-Identifier: BSD-3-Clause
//! Changes a profile so that its connections have a number of messages, or together a rate of them.

use super::{Profile, ProfileError, Template, Timeouts};
use crate::counters::Counter;
use crate::program::Pace;

/// Shortest time between two rounds of a connection, in microseconds. It is much longer than a tick
/// of the wheel.
const PERIOD_MIN_US: f64 = 1000.0;
/// Longest time, an hour.
const PERIOD_MAX_US: f64 = 3.6e9;
/// Time for which datagrams may be on their way.
const LATE_MS: u32 = 100;
/// Most rounds of a connection: as many as a loop counts.
pub const ROUNDS_MAX: u16 = u16::MAX;

/// What connections do each second, all together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Transactions: requests that are answered.
    Transactions(f64),
    /// Bits of payload, in both directions.
    PayloadBits(f64),
}

impl Target {
    /// Returns how much of it is done each second.
    pub fn rate(self) -> f64 {
        match self {
            Self::Transactions(rate) | Self::PayloadBits(rate) => rate,
        }
    }

    /// Returns how much of it a connection does.
    fn of_connection(self, template: &Template) -> f64 {
        let client = &template.client;
        match self {
            Self::Transactions(_) => client.transactions() as f64,
            Self::PayloadBits(_) => 8.0 * (client.sent().len() + client.received()) as f64,
        }
    }
}

impl Template {
    /// Returns the milliseconds for which ports of a UDP client rest that has ended with this
    /// counter, and whose server may not know it: at least `reuse_ms`. One that has not failed may
    /// have left before the next of its rounds; the server of one that has failed waits for data.
    pub fn rest_ms(&self, timeouts: &Timeouts, ended: Counter) -> u32 {
        let two_rounds_ms = self.client.pace().map(|pace| pace.period_us.div_ceil(500));
        let wait_ms = match (two_rounds_ms, ended == Counter::Completed) {
            (Some(two_rounds_ms), true) => two_rounds_ms.saturating_add(timeouts.answer_ms),
            (Some(_), false) => timeouts.idle_ms,
            (None, false) if self.client.transactions() > 1 => timeouts.idle_ms,
            (None, _) => return timeouts.reuse_ms,
        };
        wait_ms.saturating_add(LATE_MS).max(timeouts.reuse_ms)
    }
}

impl Profile {
    /// Returns what connections do each second if they are opened at the profile's rate.
    pub fn rate_of(&self, target: Target) -> f64 {
        self.templates.iter().map(|it| it.cps * target.of_connection(it)).sum()
    }

    /// Lets each connection exchange its messages `count` times.
    ///
    /// # Errors
    /// If a program of the profile cannot be repeated.
    pub fn repeat_messages(&mut self, count: u16) -> Result<(), ProfileError> {
        self.repeat(count, None)
    }

    /// Lets the connections that [`keep_open`](Self::keep_open) has open reach a target together:
    /// each exchanges its messages once in a period, `count` times, or as often as can be counted.
    /// Those whose clients are released leave after a round. Returns the period in seconds.
    ///
    /// # Errors
    /// If a program cannot be repeated, or not at this pace.
    pub fn pace_messages(
        &mut self,
        target: Target,
        count: Option<u16>,
    ) -> Result<f64, ProfileError> {
        let of_template = |it: &Template| it.limit.unwrap_or(0) as f64 * target.of_connection(it);
        let of_all: f64 = self.templates.iter().map(of_template).sum();
        let period_us = of_all * 1e6 / target.rate();
        let fault = match () {
            () if of_all == 0.0 => {
                "the connections of the profile have no such messages".to_owned()
            }
            () if period_us < PERIOD_MIN_US => format!(
                "each connection would have to exchange its messages every {period_us:.0} µs; the \
                 shortest time is {PERIOD_MIN_US} µs: keep {} times as many open",
                (PERIOD_MIN_US / period_us).ceil()
            ),
            () if period_us > PERIOD_MAX_US => "each connection would exchange its messages less \
                                                than once an hour: keep fewer open"
                .to_owned(),
            () => {
                // Servers wait for the next round.
                let least_ms = (2.0 * period_us / 1e3) as u32;
                self.timeouts.wait_for_rounds(least_ms);
                let pace =
                    Pace { period_us: period_us.round() as u32, is_first_late: count.is_some() };
                self.refuse_pace(pace)?;
                self.repeat(count.unwrap_or(ROUNDS_MAX), Some(pace))?;
                return Ok(period_us / 1e6);
            }
        };
        Err(ProfileError::Whole(fault))
    }

    /// Refuses a pace that connections cannot keep.
    fn refuse_pace(&self, pace: Pace) -> Result<(), ProfileError> {
        for Template { name, client, server, .. } in &self.templates {
            let delay_us = client.least_delay_us() + server.least_delay_us();
            let fault = if !server.answers() {
                "its server sends before it is asked, which has no pace".to_owned()
            } else if delay_us > pace.period_us.into() {
                format!(
                    "its messages have delays of {} ms, and would be exchanged every {} ms: keep \
                     more connections open",
                    delay_us / 1000,
                    pace.period_us / 1000
                )
            } else {
                continue;
            };
            return Err(ProfileError::Template { name: name.clone(), fault });
        }
        Ok(())
    }

    fn repeat(&mut self, count: u16, pace: Option<Pace>) -> Result<(), ProfileError> {
        for Template { name, client, server, .. } in &mut self.templates {
            // Each direction has less data than sequence numbers count.
            let round = client.sent().len().max(server.sent().len()).max(1);
            let count = match pace {
                Some(_) => {
                    count.min((u64::from(u32::MAX) / round).clamp(1, u16::MAX.into()) as u16)
                }
                None => count,
            };
            for (end, program, pace) in [("client", client, pace), ("server", server, None)] {
                program.repeat(count, pace).map_err(|fault| ProfileError::Program {
                    name: name.clone(),
                    end,
                    fault,
                })?;
            }
        }
        Ok(())
    }
}
