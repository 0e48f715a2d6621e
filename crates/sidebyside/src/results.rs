// SPDX-License-Identifier: BSD-3-Clause
//! Collects the repetitions of a case, and computes lowest, median and highest figures.

use crate::cases::Case;
use crate::figures::Figures;
use crate::millrace::Run;
use crate::turns::Runs;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A case and its repetitions.
pub(crate) struct CaseResult {
    pub(crate) case: Case,
    pub(crate) repetitions: Vec<Repetition>,
    /// Errors of the repetitions that failed.
    pub(crate) failures: Vec<String>,
}

/// Figures of all programs of a case in one repetition, measured in turns.
#[derive(Serialize)]
pub(crate) struct Repetition {
    number: u32,
    pub(crate) floor: Figures,
    pub(crate) millrace: Run,
    /// Figures of the earlier build of Millrace, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Run>,
}

/// Lowest, median and highest value of a figure over all repetitions.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl CaseResult {
    /// Returns the case without repetitions.
    pub(crate) fn new(case: Case) -> Self {
        Self { case, repetitions: Vec::new(), failures: Vec::new() }
    }

    /// Adds the figures of repetition `number`, or its error. Returns a line to print.
    pub(crate) fn add(&mut self, number: u32, runs: Result<Runs, String>) -> String {
        match runs {
            Ok(Runs { floor, millrace, before }) => {
                let repetition = Repetition { number, floor, millrace, before };
                let line = repetition.line();
                self.repetitions.push(repetition);
                line
            }
            Err(failure) => {
                self.failures.push(failure.clone());
                failure
            }
        }
    }

    /// Returns the spread of a figure over all repetitions.
    ///
    /// # Panics
    ///
    /// If there are no repetitions.
    pub(crate) fn spread(&self, figure: impl Fn(&Repetition) -> f64) -> Spread {
        Spread::of(self.repetitions.iter().map(figure).collect())
    }

    /// Returns the median of a figure over all repetitions.
    ///
    /// # Panics
    ///
    /// If there are no repetitions.
    pub(crate) fn median(&self, figure: impl Fn(&Repetition) -> f64) -> f64 {
        self.spread(figure).median
    }

    /// Returns the spread of a ratio: a figure of this case, divided by the mean of `others` in the
    /// same repetition. `others` has at least one case. `None` if they share no repetition.
    pub(crate) fn ratio(
        &self,
        others: &[&Self],
        figure: impl Fn(&Repetition) -> f64,
    ) -> Option<Spread> {
        let ratio = |this: &Repetition| {
            let figure_of = |other: &&Self| {
                let theirs = other.repetitions.iter().find(|r| r.number == this.number);
                theirs.map(&figure)
            };
            let sum: f64 = others.iter().map(figure_of).sum::<Option<f64>>()?;
            Some(figure(this) * others.len() as f64 / sum)
        };
        let ratios: Vec<f64> = self.repetitions.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    }
}

impl Repetition {
    /// Returns the net cycles per packet: those of Millrace minus those of the floor.
    pub(crate) fn net(&self) -> f64 {
        self.millrace.figures.cycles - self.floor.cycles
    }

    /// Returns the net cycles per packet, divided by those of the earlier build.
    pub(crate) fn net_ratio(&self) -> Option<f64> {
        let before = self.before.as_ref()?.figures.cycles - self.floor.cycles;
        Some(self.net() / before)
    }

    /// Returns the cycles per packet, divided by those of the earlier build.
    pub(crate) fn cycles_ratio(&self) -> Option<f64> {
        Some(self.millrace.figures.cycles / self.before.as_ref()?.figures.cycles)
    }

    /// Returns the share of time that workers had their cpus: the smaller one of testpmd and
    /// Millrace.
    pub(crate) fn on_cpu(&self) -> f64 {
        self.floor.on_cpu.min(self.millrace.figures.on_cpu)
    }

    fn line(&self) -> String {
        let (floor, millrace) = (self.floor.cycles, self.millrace.figures.cycles);
        let deviations =
            self.millrace.deviations.iter().map(|deviation| format!("  ! {deviation}"));
        let choice = self.millrace.choice.as_ref().map(|choice| format!("  {choice}"));
        let reloads = self.millrace.reloads.map(|reloads| format!("  {reloads} reloads"));
        let before = self.cycles_ratio().map(|ratio| format!("  {ratio:.3} of the earlier build"));
        format!(
            "floor {floor:6.1}  Millrace {millrace:6.1}  net {:6.1} cycles/packet  on cpu {:3.0} %",
            self.net(),
            self.on_cpu() * 100.0
        ) + &before.unwrap_or_default()
            + &choice.unwrap_or_default()
            + &reloads.unwrap_or_default()
            + &deviations.collect::<String>()
    }
}

impl Spread {
    /// Returns the spread of `values`.
    ///
    /// # Panics
    ///
    /// If there are no values.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { min: values[0], median, max: values[values.len() - 1] }
    }

    /// Returns the difference of the highest and the lowest value.
    pub(crate) fn width(self) -> f64 {
        self.max - self.min
    }

    /// Formats the three values as cells of a table.
    pub(crate) fn cells(self, decimals: usize) -> [String; 3] {
        [self.min, self.median, self.max].map(|value| format!("{value:.decimals$}"))
    }
}

impl Serialize for CaseResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let net = (!self.repetitions.is_empty()).then(|| self.spread(Repetition::net));
        let mut object = serializer.serialize_struct("CaseResult", 5)?;
        object.serialize_field("name", &self.case.name)?;
        let thresholds: Vec<String> =
            self.case.thresholds.iter().map(ToString::to_string).collect();
        object.serialize_field("bars", &thresholds)?;
        object.serialize_field("net", &net)?;
        object.serialize_field("repetitions", &self.repetitions)?;
        object.serialize_field("failures", &self.failures)?;
        object.end()
    }
}
