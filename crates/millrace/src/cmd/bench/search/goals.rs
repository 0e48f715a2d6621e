// SPDX-License-Identifier: BSD-3-Clause
//! Reads goals and limits of latency as the user writes them.

use results::Latency;
use results::search::{LatencyMax, LatencyPercentiles, SearchGoal};
use search::mlr::{GOALS, Goal};
use std::time::Duration;

/// Shortest trial in seconds.
const TRIAL_MIN_S: f64 = 0.05;
/// Longest sum of trials in seconds: a day.
const SUM_MAX_S: f64 = 86_400.0;

/// A goal, with its name as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct NamedGoal {
    pub(in super::super) name: String,
    pub(in super::super) goal: Goal,
}

/// Reads a goal: a name, and settings that replace those of the named goal, such as
/// `quick name=ci loss=0.5% width=5%`.
pub(super) fn goal(text: &str) -> Result<NamedGoal, String> {
    let mut words = text.split_whitespace();
    let names = || GOALS.map(|goal| goal.name).join(", ");
    let name = words.next().ok_or_else(|| format!("a goal is missing: name {}", names()))?;
    let unknown = || format!("there is no goal {name:?}; the goals are {}", names());
    let mut goal = Goal::named(name).ok_or_else(unknown)?;
    let mut shown = words.clone().fold(name.to_owned(), |shown, word| shown + " " + word);
    for word in words {
        match word.split_once('=') {
            Some(("name", name)) if !name.is_empty() => shown = name.to_owned(),
            Some((key, value)) => set(&mut goal, key, value)?,
            None => return Err(format!("{word:?}: not KEY=VALUE")),
        }
    }
    if goal.initial_trial > goal.final_trial || goal.final_trial > goal.duration_sum {
        return Err(format!(
            "goal {name}: initial={} final={} sum={}: these must not fall from left to right",
            goal.initial_trial, goal.final_trial, goal.duration_sum
        ));
    }
    Ok(NamedGoal { name: shown, goal })
}

fn set(goal: &mut Goal, key: &str, value: &str) -> Result<(), String> {
    match key {
        "loss" => goal.loss_ratio = share(key, value, 0.0)?,
        "exceed" => goal.exceed_ratio = share(key, value, 0.0)?,
        "width" => goal.relative_width = share(key, value, 1e-6)?,
        "initial" => goal.initial_trial = seconds(key, value)?,
        "final" => goal.final_trial = seconds(key, value)?,
        "sum" => goal.duration_sum = seconds(key, value)?,
        _ => {
            return Err(format!(
                "{key:?} is no setting of a goal; they are name, loss, exceed, width, initial, \
                 final, sum"
            ));
        }
    }
    Ok(())
}

/// Reads a share in percent, at least `min` and below 100 %.
pub(in super::super) fn share(key: &str, text: &str, min: f64) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|it| (min..1.0).contains(it));
    share.ok_or_else(|| format!("{key}={text}: write a share below 100 %, such as {key}=0.5%"))
}

fn seconds(key: &str, text: &str) -> Result<f64, String> {
    let range = TRIAL_MIN_S..=SUM_MAX_S;
    let seconds = text.parse::<f64>().ok().filter(|seconds| range.contains(seconds));
    seconds.ok_or_else(|| format!("{key}={text}: write seconds, from {TRIAL_MIN_S} to {SUM_MAX_S}"))
}

/// Reads a limit of latency, such as `p99=50us`.
pub(super) fn latency_max(text: &str) -> Result<LatencyMax, String> {
    let fault =
        || format!("{text:?} is no limit: write p50, p90, p99, p999 or max, and a time: p99=50us");
    let (of, time) = text.split_once('=').ok_or_else(fault)?;
    if !["p50", "p90", "p99", "p999", "max"].contains(&of) {
        return Err(fault());
    }
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let read = units.iter().find_map(|(unit, ns)| Some((time.strip_suffix(unit)?, ns)));
    let ns = read.and_then(|(number, ns)| Some(number.trim().parse::<f64>().ok()? * ns));
    let ns = ns.and_then(|ns| Duration::try_from_secs_f64(ns / 1e9).ok());
    let ns = ns.and_then(|time| u64::try_from(time.as_nanos()).ok()).filter(|ns| *ns > 0);
    Ok(LatencyMax { of: of.to_owned(), ns: ns.ok_or_else(fault)? })
}

/// True if a latency is above its limit.
pub(super) fn is_above(limit: &LatencyMax, latency: &Latency) -> bool {
    let measured = match limit.of.as_str() {
        "p50" => latency.p50_ns,
        "p90" => latency.p90_ns,
        "p99" => latency.p99_ns,
        "p999" => latency.p999_ns,
        _ => latency.max_ns,
    };
    measured > limit.ns
}

/// True if a setup time of connections is above its limit. There is no 90 % quantile of it.
pub(super) fn is_setup_above(limit: &LatencyMax, setup: &LatencyPercentiles) -> bool {
    let measured_us = match limit.of.as_str() {
        "p50" => setup.p50_us,
        "p99" => setup.p99_us,
        "p999" => setup.p999_us,
        _ => setup.max_us,
    };
    measured_us * 1e3 > limit.ns as f64
}

impl NamedGoal {
    /// Returns the goal as the results show it.
    pub(in super::super) fn shown(&self) -> SearchGoal {
        let Goal { loss_ratio, exceed_ratio, relative_width, .. } = self.goal;
        let Goal { initial_trial, final_trial, duration_sum, .. } = self.goal;
        SearchGoal {
            name: self.name.clone(),
            loss_ratio,
            exceed_ratio,
            relative_width,
            initial_trial_s: initial_trial,
            final_trial_s: final_trial,
            duration_sum_s: duration_sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_replace_those_of_the_goal() {
        let read = goal("quick  loss=0.5% sum=7").unwrap();
        let quick = Goal::named("quick").unwrap();
        assert_eq!(read.name, "quick loss=0.5% sum=7");
        assert_eq!(read.goal, Goal { loss_ratio: 0.005, duration_sum: 7.0, ..quick });
        assert_eq!(goal("ndr name=ci width=5%").unwrap().name, "ci");
        for (text, fault) in [
            ("ndr name=", "is no setting"),
            ("", "a goal is missing"),
            ("fast", "the goals are ndr, pdr"),
            ("ndr loss=2", "loss=2: write a share"),
            ("ndr loss=100%", "below 100 %"),
            ("ndr width=0%", "width=0%"),
            ("ndr final=0", "final=0: write seconds"),
            ("ndr speed=1", "is no setting of a goal"),
            ("ndr sum=0.5", "must not fall"),
            ("ndr final", "not KEY=VALUE"),
        ] {
            assert!(goal(text).unwrap_err().contains(fault), "{text}: {:?}", goal(text));
        }
    }

    #[test]
    fn latency_has_a_limit() {
        let limit = latency_max("p99=50us").unwrap();
        assert_eq!(limit, LatencyMax { of: "p99".to_owned(), ns: 50_000 });
        assert_eq!(latency_max("max=1.5ms").unwrap().ns, 1_500_000);
        for text in ["p99", "p98=1us", "p99=0us", "p99=-1us", "p99=1", "p99=nans", "max=1e99s"] {
            assert!(latency_max(text).is_err(), "{text}");
        }
        let latency = Latency {
            min_ns: 1,
            mean_ns: 2.0,
            p50_ns: 2,
            p90_ns: 3,
            p99_ns: 50_000,
            p999_ns: 60_000,
            max_ns: 70_000,
            pdv_ns: 59_999,
        };
        assert!(!is_above(&limit, &latency));
        assert!(is_above(&LatencyMax { of: "p999".to_owned(), ..limit.clone() }, &latency));
        let setup = LatencyPercentiles { p50_us: 9.0, p99_us: 50.0, p999_us: 50.1, max_us: 60.0 };
        assert!(!is_setup_above(&limit, &setup));
        assert!(is_setup_above(&LatencyMax { of: "p999".to_owned(), ..limit }, &setup));
    }
}
