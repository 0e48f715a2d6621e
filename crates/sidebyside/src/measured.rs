// SPDX-License-Identifier: BSD-3-Clause
//! The repetitions of one case, and what is common to them: least, median and most.

use crate::cases::Case;
use crate::heat::Runs;
use crate::millrace::Run;
use crate::stopwatch::Figures;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A case and what came of it.
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) repetitions: Vec<Repetition>,
    /// Why repetitions are missing.
    pub(crate) failures: Vec<String>,
}

/// Both sides, one right after the other.
#[derive(Serialize)]
pub(crate) struct Repetition {
    number: u32,
    pub(crate) floor: Figures,
    pub(crate) millrace: Run,
    /// The earlier build of Millrace, in turns with the others.
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

impl Measured {
    /// Before the first repetition.
    pub(crate) fn new(case: Case) -> Self {
        Self { case, repetitions: Vec::new(), failures: Vec::new() }
    }

    /// Notes both sides of repetition `number`, or what went wrong. Returns it in a line.
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

    /// A figure of every repetition; there must be one.
    pub(crate) fn spread(&self, figure: impl Fn(&Repetition) -> f64) -> Spread {
        Spread::of(self.repetitions.iter().map(figure).collect())
    }

    /// The median of a figure; there must be a repetition.
    pub(crate) fn median(&self, figure: impl Fn(&Repetition) -> f64) -> f64 {
        self.spread(figure).median
    }

    /// A figure over the mean of those of `others`, at least one, in the same repetition. `None`
    /// if they have none in common.
    pub(crate) fn ratio(
        &self,
        others: &[&Self],
        figure: impl Fn(&Repetition) -> f64,
    ) -> Option<Spread> {
        let ratio = |this: &Repetition| {
            let same = |other: &&Self| {
                let theirs = other.repetitions.iter().find(|r| r.number == this.number);
                theirs.map(&figure)
            };
            let sum: f64 = others.iter().map(same).sum::<Option<f64>>()?;
            Some(figure(this) * others.len() as f64 / sum)
        };
        let ratios: Vec<f64> = self.repetitions.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    }
}

impl Repetition {
    /// Cycles per packet above the floor.
    pub(crate) fn net(&self) -> f64 {
        self.millrace.figures.cycles - self.floor.cycles
    }

    /// Cycles per packet above the floor, over those of the earlier build.
    pub(crate) fn net_ratio(&self) -> Option<f64> {
        let before = self.before.as_ref()?.figures.cycles - self.floor.cycles;
        Some(self.net() / before)
    }

    /// Cycles per packet over those of the earlier build.
    pub(crate) fn cycles_ratio(&self) -> Option<f64> {
        Some(self.millrace.figures.cycles / self.before.as_ref()?.figures.cycles)
    }

    /// Share of time that the workers of the less lucky side had their cpus.
    pub(crate) fn on_cpu(&self) -> f64 {
        self.floor.on_cpu.min(self.millrace.figures.on_cpu)
    }

    fn line(&self) -> String {
        let (floor, millrace) = (self.floor.cycles, self.millrace.figures.cycles);
        let doubts = self.millrace.doubts.iter().map(|doubt| format!("  ! {doubt}"));
        let before = self.cycles_ratio().map(|ratio| format!("  {ratio:.3} of before"));
        format!(
            "floor {floor:6.1}  Millrace {millrace:6.1}  net {:6.1} cycles/packet  on cpu {:3.0} %",
            self.net(),
            self.on_cpu() * 100.0
        ) + &before.unwrap_or_default()
            + &doubts.collect::<String>()
    }
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { min: values[0], median, max: values[values.len() - 1] }
    }

    /// From the least to the most.
    pub(crate) fn width(self) -> f64 {
        self.max - self.min
    }

    /// Cells of a table.
    pub(crate) fn cells(self, decimals: usize) -> [String; 3] {
        [self.min, self.median, self.max].map(|value| format!("{value:.decimals$}"))
    }
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let net = (!self.repetitions.is_empty()).then(|| self.spread(Repetition::net));
        let mut object = serializer.serialize_struct("Measured", 5)?;
        object.serialize_field("name", &self.case.name)?;
        let bars: Vec<String> = self.case.bars.iter().map(ToString::to_string).collect();
        object.serialize_field("bars", &bars)?;
        object.serialize_field("net", &net)?;
        object.serialize_field("repetitions", &self.repetitions)?;
        object.serialize_field("failures", &self.failures)?;
        object.end()
    }
}
