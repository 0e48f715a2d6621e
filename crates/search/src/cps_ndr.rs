// SPDX-License-Identifier: BSD-3-Clause
//! The search of cps_ndr.py, which the article about connection tracking in Open vSwitch 3.0 used:
//! a bisection over connections per second, and the lines that it prints.
//!
//! The script never verifies its bounds, and forgives failed connections as long as packets
//! balance. [`mlr`](crate::mlr) does better; this is here to compare with published figures.

use crate::number::Short;
use std::fmt;

/// Good or bad trials in a row, after which a bound moves outwards.
const STREAK: i32 = 3;

/// State of the search. Loads are connections per second.
#[derive(Clone, Debug)]
pub struct CpsNdr {
    lower: f64,
    current: f64,
    upper: f64,
    /// Number of good trials in a row; negative for bad ones.
    streak: i32,
    /// Share by which a bound moves outwards after a streak.
    window: f64,
}

impl CpsNdr {
    /// Begins a search between two loads. `adaptive_window_percent` is how far a bound moves
    /// outwards after four equal outcomes in a row.
    pub fn new(min: f64, max: f64, adaptive_window_percent: f64) -> Self {
        let (current, window) = (f64::midpoint(min, max), adaptive_window_percent / 100.0);
        Self { lower: min, current, upper: max, streak: 0, window }
    }

    /// Returns the load to measure next.
    pub fn current(&self) -> f64 {
        self.current
    }

    /// Returns the highest load that was good and the lowest that was bad, or the first bounds.
    pub fn bounds(&self) -> [f64; 2] {
        [self.lower, self.upper]
    }

    /// Notes whether the device sustained the current load.
    pub fn note(&mut self, is_good: bool) {
        match is_good {
            true => {
                self.streak = self.streak.max(0) + 1;
                self.lower = self.current;
                self.current = f64::midpoint(self.upper, self.current);
                if self.streak > STREAK {
                    self.upper *= 1.0 + self.window;
                }
            }
            false => {
                self.streak = self.streak.min(0) - 1;
                self.upper = self.current;
                self.current = f64::midpoint(self.lower, self.current);
                if self.streak < -STREAK {
                    self.lower *= 1.0 - self.window;
                }
            }
        }
    }

    /// Returns the line that the script prints before it measures for the `number`th time, from 1.
    pub fn line(&self, number: u32) -> String {
        let [lower, current, upper] = [self.lower, self.current, self.upper].map(Short);
        format!("... iteration #{number}: lower={lower} current={current} upper={upper}")
    }
}

/// Returns the lengths of the samples of one load, in seconds: short ones first, so that a load far
/// too high is found out soon. The article's figures come from these steps.
pub fn sample_steps(sample_time: u32) -> Vec<u32> {
    let mut steps: Vec<u32> = [1, 10, 60].into_iter().filter(|step| *step < sample_time).collect();
    steps.push(sample_time);
    steps
}

/// What was counted in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Length in seconds.
    pub seconds: u32,
    /// True if a counter of errors is not 0.
    pub has_errors: bool,
    /// Packets that the generator sent.
    pub sent: u64,
    /// Packets that it received.
    pub received: u64,
}

/// Whether the device sustained a load, as the script decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It did.
    Good,
    /// It did not.
    Bad {
        /// Packets that did not come back.
        dropped: u64,
        /// Packets that were sent.
        sent: u64,
        /// Length of the sample in seconds.
        seconds: u32,
    },
}

impl Sample {
    /// Judges a sample. Errors are forgiven if less than this percentage of the packets was lost;
    /// with 0, none are.
    pub fn judge(&self, threshold_percent: f64) -> Outcome {
        let dropped = self.sent.saturating_sub(self.received);
        let bad = Outcome::Bad { dropped, sent: self.sent, seconds: self.seconds };
        if !self.has_errors {
            return Outcome::Good;
        }
        // The script divides by 0 if nothing was sent. Then nothing was sustained.
        let is_forgiven = self.sent > 0 && percent(dropped, self.sent) < threshold_percent;
        if is_forgiven { Outcome::Good } else { bad }
    }
}

impl fmt::Display for Outcome {
    /// Writes the line of dropped packets; nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome::Bad { dropped, sent, seconds } = *self else { return Ok(()) };
        if dropped == 0 {
            return Ok(());
        }
        let each_second = Short((dropped / u64::from(seconds.max(1))) as f64);
        let share = percent(dropped, sent);
        write!(f, "err dropped: {} pkts ({each_second}/s) ~ {share:.4}%", Short(dropped as f64))
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Figures of a load, as the script prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Connections that are open.
    pub active: f64,
    /// Connections that were opened each second.
    pub opened: f64,
    /// Bits and packets that were sent each second.
    pub sent: [f64; 2],
    /// Bits and packets that were received each second.
    pub received: [f64; 2],
    /// Mean bytes of payload in a packet.
    pub size: f64,
}

impl Statistics {
    /// Returns the line about a load that the device sustained, or did not.
    pub fn line(&self, is_good: bool) -> String {
        let arrows = if is_good { "▲▲▲" } else { "▼▼▼" };
        let [active, opened] = [self.active, self.opened].map(Short);
        let [[tx, tx_packets], [rx, rx_packets]] =
            [self.sent, self.received].map(|rates| rates.map(Short));
        format!(
            "{arrows} Flows: active {active} ({opened}/s) TX: {tx}b/s ({tx_packets}p/s) \
             RX: {rx}b/s ({rx_packets}p/s) Size: ~{:.1}B",
            self.size
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a search on a device that sustains exactly this load.
    fn lines([min, max]: [f64; 2], sustains: f64) -> Vec<String> {
        let mut search = CpsNdr::new(min, max, 0.0);
        (1..=8)
            .map(|number| {
                let line = search.line(number);
                search.note(search.current() <= sustains);
                line
            })
            .collect()
    }

    fn iterations(triples: [[&str; 3]; 8]) -> Vec<String> {
        let line = |(number, [lower, current, upper]): (usize, [&str; 3])| {
            format!("... iteration #{number}: lower={lower} current={current} upper={upper}")
        };
        (1..).zip(triples).map(line).collect()
    }

    /// The article found 41.7 thousand short-lived connections a second.
    #[test]
    fn the_iterations_of_short_connections_are_those_of_the_article() {
        let triples = [
            ["1.0K", "50.5K", "100K"],
            ["1.0K", "25.8K", "50.5K"],
            ["25.8K", "38.1K", "50.5K"],
            ["38.1K", "44.3K", "50.5K"],
            ["38.1K", "41.2K", "44.3K"],
            ["41.2K", "42.8K", "44.3K"],
            ["41.2K", "42.0K", "42.8K"],
            ["41.2K", "41.6K", "42.0K"],
        ];
        assert_eq!(lines([1e3, 100e3], 41_700.0), iterations(triples));
    }

    /// It found 977 long-lived ones.
    #[test]
    fn the_iterations_of_long_connections_are_those_of_the_article() {
        let triples = [
            ["500", "1.2K", "2.0K"],
            ["500", "875", "1.2K"],
            ["875", "1.1K", "1.2K"],
            ["875", "968", "1.1K"],
            ["968", "1.0K", "1.1K"],
            ["968", "992", "1.0K"],
            ["968", "980", "992"],
            ["968", "974", "980"],
        ];
        assert_eq!(lines([500.0, 2e3], 977.0), iterations(triples));
    }

    #[test]
    fn the_lines_of_a_load_are_those_of_the_script() {
        let figures = Statistics {
            active: 26_800.0,
            opened: 50_100.0,
            sent: [215e6, 345e3],
            received: [215e6, 345e3],
            size: 4.5,
        };
        assert_eq!(
            figures.line(false),
            "▼▼▼ Flows: active 26.8K (50.1K/s) TX: 215Mb/s (345Kp/s) RX: 215Mb/s (345Kp/s) \
             Size: ~4.5B"
        );
        assert!(figures.line(true).starts_with("▲▲▲ Flows: active 26.8K (50.1K/s) TX: "));
        let sample = Sample { seconds: 1, has_errors: true, sent: 337_126, received: 335_526 };
        assert_eq!(sample.judge(0.02).to_string(), "err dropped: 1.6K pkts (1.6K/s) ~ 0.4746%");
    }

    #[test]
    fn the_rate_of_drops_is_that_of_the_step_that_failed() {
        let sample = Sample { seconds: 10, has_errors: true, sent: 3_000_000, received: 2_998_750 };
        assert_eq!(sample.judge(0.0).to_string(), "err dropped: 1.2K pkts (125/s) ~ 0.0417%");
    }

    /// The threshold is not enough: it must be more than the share that was lost.
    #[test]
    fn errors_are_forgiven_below_the_threshold_only() {
        let sample = Sample { seconds: 30, has_errors: true, sent: 10_000, received: 9_998 };
        let bad = Outcome::Bad { dropped: 2, sent: 10_000, seconds: 30 };
        assert_eq!(sample.judge(0.02), bad);
        assert_eq!(sample.judge(0.021), Outcome::Good);
        let none_lost = Sample { received: 10_000, ..sample };
        assert!(matches!(none_lost.judge(0.0), Outcome::Bad { dropped: 0, .. }));
        assert_eq!(none_lost.judge(0.0).to_string(), "");
        let without_errors = Sample { has_errors: false, received: 0, ..sample };
        assert_eq!(without_errors.judge(0.0), Outcome::Good, "a weakness of the script");
        let nothing = Sample { sent: 0, received: 0, ..sample };
        assert!(matches!(nothing.judge(50.0), Outcome::Bad { .. }));
    }

    #[test]
    fn samples_grow_to_their_whole_length() {
        assert_eq!(sample_steps(1), [1]);
        assert_eq!(sample_steps(10), [1, 10]);
        assert_eq!(sample_steps(30), [1, 10, 30]);
        assert_eq!(sample_steps(120), [1, 10, 60, 120]);
    }

    /// After four good trials in a row, the upper bound moves outwards, after four bad ones the
    /// lower bound.
    #[test]
    fn a_streak_widens_the_window() {
        let mut search = CpsNdr::new(1e3, 2e3, 10.0);
        (0..4).for_each(|_| search.note(true));
        assert_eq!(search.upper, 2200.0);
        let mut search = CpsNdr::new(1e3, 2e3, 10.0);
        (0..4).for_each(|_| search.note(false));
        assert_eq!(search.lower, 900.0);
    }
}
