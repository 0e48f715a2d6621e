// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the longest burst at the largest load that the device forwards without loss
//! (RFC 2544 section 26.4).

use super::measurement::Tester;
use results::search::BackToBack;

/// Length of the longest burst in seconds.
const LONGEST_S: f64 = 2.0;
/// How often a burst is sent again that a delay of the tester may have spoilt.
const REPETITIONS: u32 = 4;
/// Number of halvings between no burst and the longest one.
const HALVINGS: u32 = 8;

/// Searches `times` times. Each time begins with the longest burst.
pub(super) fn back_to_back(
    load: f64,
    times: u32,
    tester: &mut dyn Tester,
) -> anyhow::Result<BackToBack> {
    let mut found = BackToBack {
        load,
        packets: Vec::new(),
        mean_packets: 0.0,
        bears_longest: true,
        tester: Vec::new(),
    };
    for _ in 0..times {
        let packets = longest_burst(load, tester, &mut found)?;
        found.packets.push(packets);
    }
    found.mean_packets = found.packets.iter().sum::<u64>() as f64 / f64::from(times.max(1));
    Ok(found)
}

fn longest_burst(
    load: f64,
    tester: &mut dyn Tester,
    found: &mut BackToBack,
) -> anyhow::Result<u64> {
    let (mut good_s, mut bad_s) = (0.0, f64::INFINITY);
    let (mut seconds, mut packets) = (LONGEST_S, 0);
    for _ in 0..=HALVINGS {
        let mut measured = tester.measure(load, seconds)?;
        for _ in 0..REPETITIONS {
            if !measured.is_disturbed() || measured.counts.loss_ratio_of_device() > 0.0 {
                break;
            }
            measured = tester.measure(load, seconds)?;
        }
        let counts = measured.counts;
        match counts.lost() + counts.unsent() {
            0 => (good_s, packets) = (seconds, counts.intended),
            _ => {
                bad_s = seconds;
                found.bears_longest = false;
                let reasons = measured.reasons();
                if counts.loss_ratio_of_device() == 0.0 && !reasons.is_empty() {
                    found.tester = reasons;
                }
            }
        }
        if good_s >= LONGEST_S {
            break;
        }
        seconds = (good_s + bad_s) / 2.0;
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::bench::search::measurement::Measurement;
    use search::mlr::Counts;

    /// A device that drains slower than it is filled, and has room for some packets.
    struct Buffer {
        room: u64,
        tester: u64,
    }

    impl Tester for Buffer {
        fn measure(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement> {
            let intended = (load * seconds) as u64;
            let offered = intended.min(self.tester);
            let counts = Counts {
                intended,
                offered,
                forwarded: offered.min(self.room),
                ..Counts::default()
            };
            Ok(Measurement { counts, ..Measurement::default() })
        }

        fn packets_per_second(&self, load: f64) -> Option<f64> {
            Some(load)
        }
    }

    #[test]
    fn the_longest_burst_is_found_within_a_256th() {
        let mut device = Buffer { room: 123_456, tester: u64::MAX };
        let found = back_to_back(1e6, 2, &mut device).unwrap();
        assert_eq!(found.packets[0], found.packets[1]);
        assert!((115_000..=123_456).contains(&found.packets[0]), "{found:?}");
        assert!(!found.bears_longest && found.tester.is_empty());
        let all = back_to_back(1e6, 1, &mut Buffer { room: u64::MAX, tester: u64::MAX }).unwrap();
        assert!(all.bears_longest && all.packets == [2_000_000]);
        let slow = back_to_back(1e6, 1, &mut Buffer { room: u64::MAX, tester: 1000 }).unwrap();
        assert_eq!(slow.tester.len(), 1, "{slow:?}");
    }
}
