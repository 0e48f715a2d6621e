// SPDX-License-Identifier: BSD-3-Clause
//! Says in a sentence why a mode gains or loses, from the measured stages and the rules.

use crate::demo::comparison::Run;
use crate::demo::load::Mode;
use results::units;

/// Stages in which the worker finds out to which connection a packet belongs, and counts it. Marks
/// replace all but one of them.
const TRACKING: [&str; 5] = ["mark", "parse", "lookup", "track", "miss"];
/// From this difference on, a sentence calls it a gain or a loss: less is noise.
const NOTABLE: f64 = 0.03;

/// Returns why a run differs from the one without offload, as one sentence or two.
pub(super) fn why([off, on]: [&Run; 2]) -> Vec<String> {
    let sentence = match on.mode {
        Mode::Off => return Vec::new(),
        Mode::Marks if on.measured.marked_percent == 0.0 => {
            "no packet was counted by a mark: what differs is the machine".to_owned()
        }
        Mode::Marks => of_marks(off, on),
        Mode::Automatic => return of_choice(on),
        Mode::Bypass if on.measured.bypassed_percent == 0.0 => {
            "the NIC forwarded no packet by itself".to_owned()
        }
        Mode::Bypass => {
            let [before, after] = [off, on].map(|run| run.measured.cycles_per_packet);
            format!(
                "the NIC forwards {:.1} % of the packets by itself: {before:.0} -> {after:.0} \
                 cycles of the worker for each packet",
                on.measured.bypassed_percent
            )
        }
    };
    [sentence].into_iter().chain(of_rules(on)).collect()
}

/// Returns what the worker has chosen, and the figures that led to it.
fn of_choice(on: &Run) -> Vec<String> {
    let ports = &on.summary.offload.ports;
    let choice = ports.iter().find(|port| port.mark_cycles > 0.0);
    let marks = choice.map(|port| {
        let outcome = if port.mark_use == "used" { "used" } else { "not used" };
        format!(
            "marks are {outcome}: {:.0} cycles a packet by mark, {:.0} in software",
            port.mark_cycles, port.software_cycles
        )
    });
    let share = on.measured.bypassed_percent;
    let bypass =
        (share > 0.0).then(|| format!("the NIC forwards {share:.1} % of the packets by itself"));
    bypass.into_iter().chain(marks).collect()
}

fn of_marks(off: &Run, on: &Run) -> String {
    let [before, after] = [off, on].map(tracking_cycles);
    let verdict = match after / before {
        ratio if ratio < 1.0 - NOTABLE => "marks save key, lookup and tracking",
        ratio if ratio > 1.0 + NOTABLE => "marks cost more than they save here",
        _ => "marks cost as much as they save here",
    };
    format!("{verdict}: {before:.0} -> {after:.0} cycles a packet from parse to mark")
}

/// Returns the cycles per packet of the stages that marks change.
fn tracking_cycles(run: &Run) -> f64 {
    let is_tracking = |name: &&str| TRACKING.contains(name);
    let stages = run.measured_stages.iter().filter(|(name, _)| is_tracking(name));
    stages.map(|(_, cycles)| cycles).sum()
}

/// Returns why a part of the flows has no rules; `None` if all have.
fn of_rules(on: &Run) -> Option<String> {
    let wanted = u64::from(on.load.directions());
    if on.rules >= wanted {
        return None;
    }
    let share = 100.0 * on.rules as f64 / wanted as f64;
    let ports = &on.summary.offload.ports;
    let why = if ports.iter().any(|port| port.rules.refused.full > 0) {
        format!("the NIC has room for {}", units::thousands(on.rules))
    } else {
        "the others were not installed in time".to_owned()
    };
    Some(format!("rules for {share:.1} % of the flows: {why}"))
}
