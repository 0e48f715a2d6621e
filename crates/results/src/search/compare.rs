// SPDX-License-Identifier: BSD-3-Clause
//! Compares the answers of two results of searches, goal by goal and size by size.

use super::{OneSearch, Outcome, SearchAnswer, SearchResults, load};
use crate::confidence::{interval, mean};
use crate::table;
use std::io::{self, Write};

/// The differences of B from A.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// By size and goal.
    pub differences: Vec<Difference>,
}

/// The difference of B from A for one size and goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Size of frames, if the search has set it.
    pub size: Option<u32>,
    /// Name of the goal.
    pub goal: String,
    /// Unit of the loads.
    unit: String,
    /// What was found in A and B.
    pub found: [Found; 2],
    /// Difference of the means, in percent of that of A; `None` if both are only known to be at
    /// least as high as the same largest load.
    pub percent: Option<f64>,
    /// The 95 % confidence interval of the difference; `None` unless A and B have two searches or
    /// more each.
    pub interval: Option<[f64; 2]>,
}

/// What was found for a size and a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The throughput of each search.
    Exactly(Vec<f64>),
    /// In every search the device sustains this load, the largest one.
    AtLeast(f64),
    /// In every search the device does not sustain this load, the smallest one.
    Below(f64),
}

/// Why two results cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotCompare(String);

/// Compares B with A.
///
/// # Errors
/// If units, goals, sizes or latency limits differ, or if an answer is missing or the tester's.
pub fn compare(a: &SearchResults, b: &SearchResults) -> Result<Comparison, CannotCompare> {
    refuse_differences(a, b)?;
    let mut differences = Vec::new();
    for size in sizes(a) {
        for goal in &a.goals {
            let with_answer = |search: &&OneSearch| {
                search.size == size && search.answers.iter().any(|it| it.goal == goal.name)
            };
            let unit = a.searches.iter().find(with_answer).map_or(&*a.unit, |it| a.unit_of(it));
            let place = Place { size, goal: &goal.name, unit };
            let found = [place.found_in("A", a)?, place.found_in("B", b)?];
            differences.push(place.difference(found)?);
        }
    }
    Ok(Comparison { differences })
}

fn refuse_differences(a: &SearchResults, b: &SearchResults) -> Result<(), CannotCompare> {
    let differ = |what: &str, a: String, b: String| {
        let message = format!("{what} differ: A has {a}, B has {b}; search both in the same way");
        Err(CannotCompare(message))
    };
    if a.unit != b.unit {
        return differ("units of loads", a.unit.clone(), b.unit.clone());
    }
    if a.goals != b.goals {
        let names = |of: &SearchResults| {
            let names: Vec<_> = of.goals.iter().map(|goal| goal.name.as_str()).collect();
            names.join(", ")
        };
        let what = if names(a) == names(b) { "meanings of goals" } else { "goals" };
        return differ(what, names(a), names(b));
    }
    if sizes(a) != sizes(b) {
        let listed = |of| {
            let shown = |size: &Option<u32>| size.map_or("none".to_owned(), |it| it.to_string());
            sizes(of).iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        return differ("frame sizes", listed(a), listed(b));
    }
    if a.latency_max != b.latency_max {
        let shown = |of: &SearchResults| {
            let limit = of.latency_max.as_ref();
            limit.map_or("none".to_owned(), |limit| format!("{}={} ns", limit.of, limit.ns))
        };
        return differ("limits of latency", shown(a), shown(b));
    }
    Ok(())
}

fn sizes(of: &SearchResults) -> Vec<Option<u32>> {
    let mut sizes: Vec<_> = of.searches.iter().map(|search| search.size).collect();
    sizes.dedup();
    sizes
}

/// A size and a goal.
struct Place<'a> {
    size: Option<u32>,
    goal: &'a str,
    unit: &'a str,
}

impl Place<'_> {
    fn refuse(&self, why: &str) -> CannotCompare {
        let size = self.size.map_or(String::new(), |size| format!(", {size} bytes"));
        CannotCompare(format!("goal {}{size}: {why}", self.goal))
    }

    /// Returns what the searches of one file have found. `name` is the file in errors.
    fn found_in(&self, name: &str, of: &SearchResults) -> Result<Found, CannotCompare> {
        let searches = of.searches.iter().filter(|search| search.size == self.size);
        let answers = searches.flat_map(|search| &search.answers);
        let answers: Vec<_> = answers.filter(|answer| answer.goal == self.goal).collect();
        let known = |answer: &&SearchAnswer| match (answer.outcome, answer.throughput) {
            (Outcome::Regular, Some(throughput)) if throughput > 0.0 => {
                Ok(Found::Exactly(vec![throughput]))
            }
            (Outcome::BearsLargest, _) => Ok(Found::AtLeast(answer.lower.unwrap_or(of.max_load))),
            (Outcome::FailsAtSmallest, _) => Ok(Found::Below(answer.upper.unwrap_or(of.min_load))),
            _ => {
                Err(self.refuse(&format!("{name} has no answer of the device: {}", answer.reason)))
            }
        };
        let mut found = answers.iter().map(known);
        let first =
            found.next().unwrap_or_else(|| Err(self.refuse(&format!("{name} lacks it"))))?;
        found.try_fold(first, |sum, next| match (sum, next?) {
            (Found::Exactly(sum), Found::Exactly(next)) => Ok(Found::Exactly([sum, next].concat())),
            (sum, next) if sum == next => Ok(sum),
            _ => Err(self.refuse(&format!(
                "some searches of {name} have found a limit, others none: widen --min-load and \
                 --max-load"
            ))),
        })
    }

    fn difference(&self, found: [Found; 2]) -> Result<Difference, CannotCompare> {
        let [a, b] = [found[0].mean(), found[1].mean()];
        let percent = 100.0 * (b - a) / a;
        let (percent, interval) = match (&found[0], &found[1]) {
            (Found::Exactly(a), Found::Exactly(b)) => (Some(percent), interval(a, b)),
            (Found::AtLeast(_), Found::AtLeast(_)) | (Found::Below(_), Found::Below(_))
                if a == b =>
            {
                (None, None)
            }
            // One of them is surely the better one.
            (Found::Exactly(_) | Found::Below(_), Found::AtLeast(_)) if b >= a => {
                (Some(percent), None)
            }
            (Found::Below(_), Found::Exactly(_)) if b >= a => (Some(percent), None),
            (Found::Exactly(_) | Found::AtLeast(_), Found::Below(_)) if b <= a => {
                (Some(percent), None)
            }
            (Found::AtLeast(_), Found::Exactly(_)) if b <= a => (Some(percent), None),
            _ => {
                let why = "it is not known which is higher: search both between the same loads";
                return Err(self.refuse(why));
            }
        };
        let Self { size, goal, unit } = *self;
        let (goal, unit) = (goal.to_owned(), unit.to_owned());
        Ok(Difference { size, goal, unit, found, percent, interval })
    }
}

impl Found {
    fn mean(&self) -> f64 {
        match self {
            Self::Exactly(values) => mean(values),
            Self::AtLeast(value) | Self::Below(value) => *value,
        }
    }

    fn shown(&self, unit: &str) -> String {
        let mark = match self {
            Self::Exactly(_) => "",
            Self::AtLeast(_) => ">= ",
            Self::Below(_) => "< ",
        };
        format!("{mark}{}", load(self.mean(), unit))
    }
}

impl Difference {
    /// True if B is lower than A by more than `tolerance` percent, and the confidence interval, if
    /// there is one, is below 0.
    pub fn is_worse(&self, tolerance: f64) -> bool {
        let is_sure = self.interval.is_none_or(|[_, high]| high < 0.0);
        is_sure && self.percent.is_some_and(|percent| percent < -tolerance)
    }
}

impl Comparison {
    /// True if B is lower than A for any goal and size, by more than `tolerance` percent.
    pub fn is_worse(&self, tolerance: f64) -> bool {
        self.differences.iter().any(|difference| difference.is_worse(tolerance))
    }

    /// Prints the comparison as a table.
    ///
    /// # Errors
    /// If writing fails.
    pub fn print(&self, tolerance: f64, out: &mut impl Write) -> io::Result<()> {
        let headings = ["size", "goal", "A", "B", "difference", "95 % interval", ""];
        let row = |of: &Difference| {
            let [a, b] = [0, 1].map(|file| of.found[file].shown(&of.unit));
            let percent = of.percent.map_or("-".to_owned(), |percent| format!("{percent:+.2} %"));
            let interval = of.interval.map(|[low, high]| format!("{low:+.2} to {high:+.2} %"));
            let verdict = if of.is_worse(tolerance) { "worse" } else { "" };
            [
                of.size.map_or("-".to_owned(), |size| size.to_string()),
                of.goal.clone(),
                a,
                b,
                percent,
                interval.unwrap_or("-".to_owned()),
                verdict.to_owned(),
            ]
        };
        let rows: Vec<_> = self.differences.iter().map(row).collect();
        table::print(out, headings, &(2..6), &rows)
    }
}
