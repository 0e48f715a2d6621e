// SPDX-License-Identifier: BSD-3-Clause
//! Waits until a load has settled: until connections end as fast as they begin.

use crate::tester::{Load, Tester, TesterError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Change of the packet rate within a second, below which a load has settled.
const SETTLED: f64 = 0.01;
/// Seconds that a load may take to settle, for each second of its ramp.
const SETTLE_RAMPS: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Returns the seconds after which the first connections that began at the whole rate may end.
pub(in super::super) fn least_seconds(load: &Load) -> f64 {
    f64::from(load.ramp_up_s) + load.connection_seconds()
}

/// Waits `least_s` seconds, and until the packet rate changes within a second by less than 1 %, or
/// by less than a connection has. Returns false if it does not within 100 times the load's ramp;
/// true after a signal, too.
///
/// Where connections take longer than they have to, the packet rate grows until the first of them
/// end. So this wait is long enough for devices that delay packets.
pub(in super::super) fn settle(
    tester: &mut dyn Tester,
    load: &Load,
    least_s: f64,
    interrupted: &AtomicBool,
) -> Result<bool, TesterError> {
    let least_s = least_s.ceil() as u32;
    let tolerated = SETTLED.max(1.0 / load.cps);
    let mut last = tester.statistics()?;
    let mut last_pps = f64::NAN;
    for second in 1..=least_s + SETTLE_RAMPS * load.ramp_up_s {
        tester.wait(SECOND, interrupted)?;
        let now = tester.statistics()?;
        if interrupted.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let packets = now.sent().packets.saturating_sub(last.sent().packets);
        let pps = packets as f64 / (now.elapsed_s - last.elapsed_s).max(f64::MIN_POSITIVE);
        if second >= least_s && (pps - last_pps).abs() <= tolerated * last_pps {
            return Ok(true);
        }
        (last, last_pps) = (now, pps);
    }
    Ok(false)
}
