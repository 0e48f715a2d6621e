// SPDX-License-Identifier: BSD-3-Clause
//! Defines the options of the load: what connections carry, and how many of them there are.

use crate::tester::{Load, MAX_FLOWS};
use search::{Short, parse_number};

/// Parses a number, which may end in K, M or G.
pub(in super::super) fn number<const MIN: u32, const MAX: u32>(text: &str) -> Result<f64, String> {
    let number = parse_number(text)?;
    if (f64::from(MIN)..=f64::from(MAX)).contains(&number) {
        return Ok(number);
    }
    let [min, max] = [MIN, MAX].map(|bound| Short(f64::from(bound)));
    Err(format!("must be from {min} to {max}"))
}

/// Parses a whole number, which may end in K, M or G.
pub(in super::super) fn whole<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, String> {
    let number = number::<MIN, MAX>(text)?;
    if number.fract() == 0.0 { Ok(number as u32) } else { Err("must be a whole number".to_owned()) }
}

/// What each connection carries.
#[derive(clap::Args)]
#[command(next_help_heading = "Connections")]
pub(in super::super) struct ProfileArgs {
    /// Share of UDP among the connections, in percent; the others are TCP
    #[arg(long, short = 'u', value_name = "PERCENT", default_value = "0",
          value_parser = number::<0, 100>)]
    udp_percent: f64,
    /// Messages each way of a connection, 1 to 10,000
    #[arg(long, short = 'n', value_name = "N", default_value = "1",
          value_parser = whole::<1, 10_000>)]
    num_messages: u32,
    /// Bytes of a message, 20 to 1456
    #[arg(long, short = 's', value_name = "BYTES", default_value = "20",
          value_parser = whole::<20, 1456>)]
    message_size: u32,
    /// Let the server wait before each answer, 0 to 500 milliseconds
    #[arg(long, short = 'w', value_name = "MS", default_value = "0",
          value_parser = whole::<0, 500>)]
    server_wait: u32,
}

/// How many connections there are.
#[derive(clap::Args)]
#[command(next_help_heading = "Rates")]
pub(super) struct RateArgs {
    /// Smallest rate, in connections per second, 100 to 1M
    #[arg(long, short = 'm', value_name = "CPS", default_value = "10k",
          value_parser = number::<100, 1_000_000>)]
    pub(super) min_cps: f64,
    /// Largest rate, in connections per second, 100 to 2M
    #[arg(long, short = 'M', value_name = "CPS", default_value = "500k",
          value_parser = number::<100, 2_000_000>)]
    pub(super) max_cps: f64,
    /// Keep at most N connections open, 100 to 4M
    #[arg(long, short = 'f', value_name = "N",
          value_parser = whole::<{ MAX_FLOWS[0] }, { MAX_FLOWS[1] }>)]
    max_flows: Option<u32>,
    /// Move a bound outwards by this share after four equal outcomes in a row, in percent
    #[arg(long, short = 'a', value_name = "PERCENT", default_value = "0",
          value_parser = number::<0, 100>)]
    pub(super) adaptive_window: f64,
    /// Raise the rate linearly in the first S seconds, and wait as long between rates; 3 to 20
    #[arg(long, short = 'r', value_name = "S", default_value = "3", value_parser = whole::<3, 20>)]
    ramp_up: u32,
}

impl RateArgs {
    /// Returns the load of the smallest rate, with the limits of these options.
    pub(super) fn load(&self, profile: &ProfileArgs) -> Load {
        let Self { max_flows, ramp_up: ramp_up_s, .. } = *self;
        Load { max_flows, ramp_up_s, ..profile.load(self.min_cps) }
    }

    /// Fails if the smallest rate is not below the largest.
    pub(super) fn refuse_contradictions(&self) -> Result<(), String> {
        if self.min_cps >= self.max_cps {
            let [min, max] = [self.min_cps, self.max_cps].map(Short);
            return Err(format!("--min-cps {min} must be below --max-cps {max}"));
        }
        Ok(())
    }
}

impl ProfileArgs {
    /// Returns a load of this many connections per second.
    pub(in super::super) fn load(&self, cps: f64) -> Load {
        Load {
            udp_percent: self.udp_percent,
            messages: self.num_messages,
            message_size: self.message_size,
            server_wait_ms: self.server_wait,
            ..Load::of_rate(cps)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_range() {
        assert_eq!(number::<100, 2_000_000>("1.5k"), Ok(1500.0));
        assert_eq!(number::<0, 100>("0.00002"), Ok(0.000_02));
        assert_eq!(whole::<1, 10_000>("10K"), Ok(10_000));
        let error = |result: Result<u32, String>| result.unwrap_err();
        assert_eq!(error(whole::<100, 4_000_000>("5M")), "must be from 100 to 4.0M");
        assert_eq!(error(whole::<0, 500>("1.5")), "must be a whole number");
        assert!(error(whole::<0, 500>("x")).contains("is no number such as"));
    }
}
