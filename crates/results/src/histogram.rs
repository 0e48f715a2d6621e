// SPDX-License-Identifier: BSD-3-Clause
//! Sorts latencies into a histogram with the steps 1, 2, 5, 10 and so on, and prints it.

use crate::units;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// A step of a histogram: packets with a latency up to this step's and above the previous step's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyStep {
    /// Nanoseconds: 1, 2 or 5 times a power of ten.
    pub up_to_ns: u64,
    /// Number of packets.
    pub packets: u64,
}

/// Characters of the longest bar.
const BAR: u64 = 40;

/// Sorts latencies, each with a number of packets, into steps. The latencies ascend.
pub fn steps(latencies: impl IntoIterator<Item = (u64, u64)>) -> Vec<LatencyStep> {
    let mut steps: Vec<LatencyStep> = Vec::new();
    for (latency_ns, packets) in latencies {
        let up_to_ns = step(latency_ns);
        match steps.last_mut() {
            Some(last) if last.up_to_ns == up_to_ns => last.packets += packets,
            _ => steps.push(LatencyStep { up_to_ns, packets }),
        }
    }
    steps
}

/// Returns the smallest step that is at least `latency_ns`.
fn step(latency_ns: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for digit in [1, 2, 5] {
            let step = power.saturating_mul(digit);
            if step >= latency_ns {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Prints a line for each step.
pub(crate) fn print(out: &mut impl Write, steps: &[LatencyStep]) -> io::Result<()> {
    let most = steps.iter().map(|step| step.packets).max().unwrap_or(0).max(1);
    for LatencyStep { up_to_ns, packets } in steps {
        let up_to = units::duration(*up_to_ns);
        let bar =
            "#".repeat((u128::from(*packets) * u128::from(BAR)).div_ceil(most.into()) as usize);
        writeln!(out, "  up to {up_to:>8}  {:>14}  {bar}", units::thousands(*packets))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_its_step() {
        let found =
            steps([(0, 1), (1, 1), (2, 3), (3, 1), (5, 1), (999, 4), (1000, 2), (u64::MAX, 1)]);
        let found: Vec<_> = found.iter().map(|step| (step.up_to_ns, step.packets)).collect();
        assert_eq!(found, [(1, 2), (2, 3), (5, 2), (1000, 6), (u64::MAX, 1)]);
    }

    #[test]
    fn the_fullest_step_has_the_longest_bar() {
        let mut text = Vec::new();
        print(&mut text, &steps([(900, 1), (1900, 1000), (4000, 500)])).unwrap();
        let text = String::from_utf8(text).unwrap();
        let bars: Vec<_> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [1, 40, 20]);
        assert!(text.starts_with("  up to  1.00 µs               1  #\n"), "{text}");
    }
}
