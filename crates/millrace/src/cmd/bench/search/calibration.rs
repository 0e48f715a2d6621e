// SPDX-License-Identifier: BSD-3-Clause
//! Measures what the tester sustains back to back, without a device.

use super::conduct::{Plan, Progress};
use super::measurement::Tester;
use results::search::{Calibration, load};

/// Seconds of a trial.
const TRIAL_S: f64 = 1.0;
/// Most trials. Other programs disturb some of them; the best one counts.
const TRIALS: u32 = 5;

/// Calibrates a tester: offers the largest load of a search, and returns what came back in the best
/// trial. It sustains that load if it loses no more than the strictest goal allows. A sender that
/// is too slow sends as fast as it can.
pub(in super::super) fn calibrate(
    plan: Plan,
    ports: &str,
    tester: &mut dyn Tester,
    progress: Progress,
) -> anyhow::Result<Calibration> {
    let max_load = plan.limits.max_load;
    let mut calibration = Calibration {
        ports: ports.to_owned(),
        limit: 0.0,
        bears_largest: false,
        trials: Vec::new(),
    };
    // Losses that no goal allows would be taken for those of the device.
    let losses = plan.goals.iter().map(|named| named.goal.loss_ratio);
    let loss_max = losses.fold(1.0, f64::min);
    let mut elapsed_s = 0.0;
    for _ in 0..TRIALS {
        let measured = tester.measure(max_load, TRIAL_S)?;
        let made = measured.trial(TRIAL_S, None);
        calibration.trials.push(measured.shown((max_load, elapsed_s), made));
        elapsed_s += measured.whole_s;
        if made.0.loss_ratio <= loss_max {
            (calibration.limit, calibration.bears_largest) = (max_load, true);
            progress("calibration: back to back, the tester sustains the largest load");
            return Ok(calibration);
        }
        let came_back = max_load * (1.0 - made.0.loss_ratio).max(0.0);
        calibration.limit = calibration.limit.max(came_back);
    }
    let limit = load(calibration.limit, plan.unit);
    progress(&format!("calibration: back to back, the tester sustains {limit}"));
    Ok(calibration)
}
