// SPDX-License-Identifier: BSD-3-Clause
//! Waits until a load has settled: the first connections may have ended, and the packet rate is
//! steady.

use super::judge::Rule;
use crate::tester::{Load, Tester, TesterError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Change of the packet rate within a second, below which a load has settled.
const SETTLED: f64 = 0.01;
/// Seconds that a load may take to settle, for each second of its ramp.
const SETTLE_RAMPS: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Waits until the first connections that began at the whole rate may have ended, and until the
/// packet rate changes by less than 1 % within a second, or by less than one of the connections has
/// that are open or begin in a second. With the rule of cps_ndr.py, the 1 % alone count. Returns
/// false if the rate does not settle within 100 times the load's ramp; true after a signal, too.
///
/// Where connections take longer than they have to, the packet rate grows until the first of them
/// end. So this wait is long enough for devices that delay packets.
pub(in super::super) fn settle(
    tester: &mut dyn Tester,
    load: &Load,
    rule: Rule,
    interrupted: &AtomicBool,
) -> Result<bool, TesterError> {
    let least = match rule {
        Rule::Connections => load.ramp_up_s + load.connection_seconds().ceil() as u32,
        Rule::CpsNdr => 0,
    };
    let mut last = tester.statistics()?;
    let mut last_pps = f64::NAN;
    for second in 1..=least + SETTLE_RAMPS * load.ramp_up_s {
        tester.wait(SECOND, interrupted)?;
        let now = tester.statistics()?;
        if interrupted.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let packets = now.sent().packets.saturating_sub(last.sent().packets);
        let pps = packets as f64 / (now.elapsed_s - last.elapsed_s).max(f64::MIN_POSITIVE);
        let connections = load.cps.max(now.client.active as f64);
        let tolerated = match rule {
            Rule::Connections => SETTLED.max(1.0 / connections),
            Rule::CpsNdr => SETTLED,
        };
        if second >= least && (pps - last_pps).abs() <= tolerated * last_pps {
            return Ok(true);
        }
        (last, last_pps) = (now, pps);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::{Side, TesterStatistics, TrafficCounts};

    /// Sends as many packets in each second as `rate` says, and counts the seconds.
    struct Paced<F> {
        rate: F,
        seconds: u32,
        packets: u64,
        active: u64,
    }

    impl<F: Fn(u32) -> u64> Tester for Paced<F> {
        fn start(&mut self, _: &Load) -> Result<(), TesterError> {
            Ok(())
        }
        fn update(&mut self, _: f64) -> Result<(), TesterError> {
            Ok(())
        }
        fn stop(&mut self) -> Result<(), TesterError> {
            Ok(())
        }
        fn clear(&mut self) -> Result<(), TesterError> {
            Ok(())
        }
        fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
            let sent = TrafficCounts { packets: self.packets, ..TrafficCounts::default() };
            let client = Side { sent, active: self.active, ..Side::default() };
            let elapsed_s = self.seconds.into();
            Ok(TesterStatistics { elapsed_s, client, ..TesterStatistics::default() })
        }
        fn wait(&mut self, _: Duration, _: &AtomicBool) -> Result<(), TesterError> {
            self.seconds += 1;
            self.packets += (self.rate)(self.seconds);
            Ok(())
        }
    }

    /// Returns whether a load settles whose connections take so many seconds, and when it does.
    fn settles(
        rate: impl Fn(u32) -> u64,
        (cps, active): (f64, u64),
        lifetime_s: u32,
        rule: Rule,
    ) -> (bool, u32) {
        let mut tester = Paced { rate, seconds: 0, packets: 0, active };
        let load = Load { messages: lifetime_s, server_wait_ms: 1000, ..Load::of_rate(cps) };
        let has_settled = settle(&mut tester, &load, rule, &AtomicBool::new(false)).unwrap();
        (has_settled, tester.seconds)
    }

    #[test]
    fn a_load_settles_when_its_rate_is_steady_and_connections_may_have_ended() {
        let steady = |_| 7000;
        // The ramp takes 3 seconds.
        assert_eq!(settles(steady, (1000.0, 1), 25, Rule::Connections), (true, 28));
        assert_eq!(settles(steady, (1000.0, 1), 25, Rule::CpsNdr), (true, 2));
        // It grows until connections that take 40 seconds end.
        let growing = |second: u32| 1000 * u64::from(second.min(40));
        assert_eq!(settles(growing, (1000.0, 25_000), 25, Rule::Connections), (true, 41));
        let signal = AtomicBool::new(true);
        let mut tester = Paced { rate: growing, seconds: 0, packets: 0, active: 0 };
        assert!(settle(&mut tester, &Load::of_rate(1.0), Rule::Connections, &signal).unwrap());
        assert_eq!(tester.seconds, 1);
    }

    /// 5 or 6 connections begin in a second. Those of 100 that are open say more.
    #[test]
    fn a_connection_more_in_a_second_is_no_change() {
        let uneven = |second: u32| 7 * (5 + u64::from(second % 2));
        assert_eq!(settles(uneven, (5.5, 0), 0, Rule::Connections), (true, 4));
        assert_eq!(settles(uneven, (5.5, 0), 0, Rule::CpsNdr), (false, 300));
        assert_eq!(settles(uneven, (5.5, 100), 0, Rule::Connections), (false, 303));
    }
}
