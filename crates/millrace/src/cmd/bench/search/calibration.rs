// SPDX-License-Identifier: BSD-3-Clause
//! Measures what the tester bears back to back, without a device.

use super::conduct::{Plan, Progress};
use super::measurement::Tester;
use results::search::{Calibration, load};

/// Share of packets that may be lost.
const LOSS_MAX: f64 = 0.001;
/// Seconds of a trial.
const TRIAL_S: f64 = 1.0;
/// Most trials. Other programs disturb some of them; the best one counts.
const TRIALS: u32 = 5;

/// Calibrates a tester: offers the largest load of a search, and returns what came back in the best
/// trial. A sender that is too slow sends as fast as it can.
pub(super) fn calibrate(
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
    let mut elapsed_s = 0.0;
    for _ in 0..TRIALS {
        let measured = tester.measure(max_load, TRIAL_S)?;
        let made = measured.trial(TRIAL_S, None);
        calibration.trials.push(measured.shown((max_load, elapsed_s), made));
        elapsed_s += measured.whole_s;
        if made.0.loss_ratio <= LOSS_MAX {
            (calibration.limit, calibration.bears_largest) = (max_load, true);
            progress("calibration: back to back, the tester bears the largest load");
            return Ok(calibration);
        }
        let came_back = max_load * (1.0 - made.0.loss_ratio).max(0.0);
        calibration.limit = calibration.limit.max(came_back);
    }
    let limit = load(calibration.limit, plan.unit);
    progress(&format!("calibration: back to back, the tester bears {limit}"));
    Ok(calibration)
}
