// SPDX-License-Identifier: BSD-3-Clause
//! Changes a profile so that its connections have a number of messages, or together a rate of them.

use super::{Profile, ProfileError, Template};

/// Shortest time between two rounds of a connection, in microseconds. It is much longer than a tick
/// of the wheel.
const PERIOD_MIN_US: f64 = 1000.0;
/// Longest time, an hour.
const PERIOD_MAX_US: f64 = 3.6e9;
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
    /// each exchanges its messages once in a period, `count` times. Those whose clients are
    /// released leave after a round.
    ///
    /// # Errors
    /// If a program cannot be repeated, or if the period is too short or too long.
    pub fn pace_messages(&mut self, target: Target, count: u16) -> Result<(), ProfileError> {
        let of_all: f64 = self
            .templates
            .iter()
            .map(|it| it.limit.unwrap_or(0) as f64 * target.of_connection(it))
            .sum();
        let period_us = of_all * 1e6 / target.rate();
        let whole = |fault: String| Err(ProfileError::Whole(fault));
        if of_all == 0.0 {
            return whole("the connections of the profile have no such messages".to_owned());
        }
        if period_us < PERIOD_MIN_US {
            let needed = (PERIOD_MIN_US / period_us).ceil();
            return whole(format!(
                "each connection would have to exchange its messages every {period_us:.0} µs; the \
                 shortest time is {PERIOD_MIN_US} µs: keep {needed} times as many open"
            ));
        }
        if period_us > PERIOD_MAX_US {
            let text = "each connection would exchange its messages less than once an hour: keep \
                        fewer open";
            return whole(text.to_owned());
        }
        // Servers wait for the next round.
        let least_ms = (2.0 * period_us / 1e3) as u32;
        self.timeouts.idle_ms = self.timeouts.idle_ms.max(least_ms.saturating_add(1000));
        self.repeat(count, Some(period_us.round() as u32))
    }

    fn repeat(&mut self, count: u16, period_us: Option<u32>) -> Result<(), ProfileError> {
        for template in &mut self.templates {
            let Template { name, client, server, .. } = template;
            for (end, program, period_us) in
                [("client", client, period_us), ("server", server, None)]
            {
                program.repeat(count, period_us).map_err(|fault| ProfileError::Program {
                    name: name.clone(),
                    end,
                    fault,
                })?;
            }
        }
        Ok(())
    }
}
