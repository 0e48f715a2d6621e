// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the load and the length of each trial.
//!
//! Each goal is reached in stages: the first with one short trial a load and far bounds, the last
//! as the goal says. A stage begins with the bounds of the one before, and decides about them
//! first. If a bound does not hold, the stage looks further out, twice as far each time; between
//! two bounds it takes the geometric mean. A load that is undecided is measured again. Once a stage
//! with longer trials has begun, those with shorter ones do not go on: a device with a buffer loses
//! nothing in them.

use super::{Bound, Goal, Trial};

/// Stages of a goal.
const STAGES: u32 = 3;

/// What a search may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Smallest load, more than 0.
    pub min_load: f64,
    /// Largest load.
    pub max_load: f64,
    /// Seconds of trials, after which the search ends without an answer for all goals.
    pub duration_max: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Measure.
    Trial {
        /// Load.
        load: f64,
        /// Seconds.
        duration: f64,
    },
    /// The search is over.
    End,
}

/// What was found for a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The goal.
    pub goal: Goal,
    /// Largest load that the device sustains, below each that it does not.
    pub lower: Option<f64>,
    /// Smallest load that it does not sustain; `None` if it sustains the largest one.
    pub upper: Option<f64>,
    /// What is forwarded at `lower`.
    pub conditional_throughput: Option<f64>,
    /// Whether the bounds are close enough, or why not.
    pub outcome: Outcome,
}

/// How the search for a goal has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both bounds are there, and as close as the goal demands.
    Regular,
    /// The device sustains the largest load.
    BearsLargest,
    /// The device does not sustain the smallest load.
    FailsAtSmallest,
    /// The search has ended before the bounds were close enough.
    Unfinished,
}

/// The trials at one load.
#[derive(Clone, Debug)]
struct Measured {
    load: f64,
    trials: Vec<Trial>,
}

/// How far one stage of a goal is.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// The goal, with the width and lengths of this stage.
    goal: Goal,
    /// How far out to look next, as a share of the load.
    reach: f64,
    /// The load that was chosen last.
    pending: Option<f64>,
}

/// A trial that a goal needs.
struct Wanted {
    /// Indices of the goal and its stage.
    place: (usize, usize),
    load: f64,
    duration: f64,
    /// True if no bound of the stage is further out.
    is_further_out: bool,
}

/// A search for several goals at once, whose trials serve all of them.
#[derive(Clone, Debug)]
pub struct Search {
    limits: Limits,
    goals: Vec<Goal>,
    /// By goal, in their order.
    stages: Vec<Vec<Stage>>,
    /// The last stage of each goal that has begun.
    begun: Vec<usize>,
    /// In the order of loads.
    measured: Vec<Measured>,
    spent: f64,
}

impl Search {
    /// Begins a search for these goals.
    pub fn new(limits: Limits, goals: &[Goal]) -> Self {
        let stages = goals.iter().map(stages_of).collect();
        let begun = vec![0; goals.len()];
        Self { limits, goals: goals.to_vec(), stages, begun, measured: Vec::new(), spent: 0.0 }
    }

    /// Returns what to measure next: of what the goals need, the smallest load, then the longest
    /// trial.
    pub fn choose(&mut self) -> Next {
        if self.spent >= self.limits.duration_max {
            return Next::End;
        }
        let mut best: Option<Wanted> = None;
        for goal in 0..self.goals.len() {
            let wanted = self.wanted_by(goal);
            let is_better = |wanted: &Wanted| match &best {
                None => true,
                Some(best) => (wanted.load, -wanted.duration) < (best.load, -best.duration),
            };
            best = wanted.filter(is_better).or(best);
        }
        let Some(Wanted { place: (goal, stage), load, duration, is_further_out }) = best else {
            return Next::End;
        };
        self.begun[goal] = self.begun[goal].max(stage);
        let stage = &mut self.stages[goal][stage];
        stage.pending = Some(load);
        if is_further_out {
            stage.reach *= 2.0;
        }
        Next::Trial { load, duration }
    }

    /// Notes the trial that [`choose`](Self::choose) has asked for.
    pub fn note(&mut self, load: f64, trial: Trial) {
        self.spent += trial.duration;
        match self.measured.binary_search_by(|of| of.load.total_cmp(&load)) {
            Ok(at) => self.measured[at].trials.push(trial),
            Err(at) => self.measured.insert(at, Measured { load, trials: vec![trial] }),
        }
    }

    /// Returns what was found so far.
    pub fn answers(&self) -> Vec<Answer> {
        self.goals.iter().map(|goal| self.answer(goal)).collect()
    }

    fn answer(&self, goal: &Goal) -> Answer {
        let [lower, upper] = self.bounds(goal);
        let throughput = |load: f64| goal.conditional_throughput(load, self.trials_at(load));
        let Limits { min_load, max_load, .. } = self.limits;
        let outcome = match (lower, upper) {
            (Some(lower), Some(upper)) if width(lower, upper) <= goal.relative_width => {
                Outcome::Regular
            }
            (Some(lower), None) if lower >= max_load => Outcome::BearsLargest,
            (None, Some(upper)) if upper <= min_load => Outcome::FailsAtSmallest,
            _ => Outcome::Unfinished,
        };
        Answer { goal: *goal, lower, upper, conditional_throughput: lower.map(throughput), outcome }
    }

    fn trials_at(&self, load: f64) -> &[Trial] {
        let at = self.measured.binary_search_by(|of| of.load.total_cmp(&load));
        at.map_or(&[], |at| &self.measured[at].trials)
    }

    /// Returns the load that came back, in the best trial at this load.
    fn forwarded_of(&self, load: f64) -> f64 {
        let losses = self.trials_at(load).iter().map(|trial| trial.loss_ratio);
        load * (1.0 - losses.fold(1.0, f64::min))
    }

    /// Returns the relevant bounds: the smallest load that the device does not sustain, and the
    /// largest below it that it sustains.
    fn bounds(&self, goal: &Goal) -> [Option<f64>; 2] {
        let is = |of: &&Measured, bound| goal.classify(&of.trials) == bound;
        let upper = self.measured.iter().find(|of| is(of, Bound::Upper)).map(|of| of.load);
        let below = |of: &&Measured| upper.is_none_or(|upper| of.load < upper);
        let mut lower = self.measured.iter().rev().filter(below);
        [lower.find(|of| is(of, Bound::Lower)).map(|of| of.load), upper]
    }

    /// Returns the trial that a goal needs next; `None` if it has its answer.
    fn wanted_by(&self, goal: usize) -> Option<Wanted> {
        let stages = &self.stages[goal];
        let shortest = stages[self.begun[goal]].goal.final_trial;
        let mut before = [None; 2];
        for (number, stage) in stages.iter().enumerate() {
            let bounds = self.bounds(&stage.goal);
            let duration = stage.goal.final_trial;
            if number > 0 && duration > stages[number - 1].goal.final_trial {
                before = still_needed(before, bounds);
            }
            let wanted = self.wanted_in(stage, bounds, before).filter(|_| duration >= shortest);
            if let Some((load, is_further_out)) = wanted {
                return Some(Wanted { place: (goal, number), load, duration, is_further_out });
            }
            before = bounds;
        }
        None
    }

    /// Returns the load that a stage needs next, and true if it is further out than all before;
    /// `None` if its bounds are close enough, or as close as the limits allow.
    fn wanted_in(
        &self,
        stage: &Stage,
        bounds: [Option<f64>; 2],
        before: [Option<f64>; 2],
    ) -> Option<(f64, bool)> {
        let Limits { min_load, max_load, .. } = self.limits;
        let is_undecided = |load: &f64| {
            bounds[0].is_none_or(|lower| *load > lower)
                && bounds[1].is_none_or(|upper| *load < upper)
                && stage.goal.classify(self.trials_at(*load)) == Bound::Undecided
        };
        // The bounds of the stage before are decided first: the lower one, then the upper one.
        let known = [stage.pending, before[0], before[1]];
        if let Some(load) = known.into_iter().flatten().find(is_undecided) {
            return Some((load, false));
        }
        let factor = 1.0 + stage.reach;
        match bounds {
            [Some(lower), Some(upper)] if width(lower, upper) <= stage.goal.relative_width => None,
            [Some(lower), Some(upper)] => Some(((lower * upper).sqrt(), false)),
            [Some(lower), None] if lower >= max_load => None,
            [Some(lower), None] => Some(((lower * factor).min(max_load), true)),
            [None, Some(upper)] if upper <= min_load => None,
            [None, Some(upper)] => {
                let further_out = upper / factor;
                // A device that is overloaded forwards about what it can. If a trial lost nothing
                // there, while others did, that says nothing.
                let next = match self.measured.len() {
                    1 => self.forwarded_of(upper).min(further_out),
                    _ => further_out,
                };
                Some((next.max(min_load), true))
            }
            [None, None] => Some((max_load, false)),
        }
    }
}

/// Returns the bounds of a stage with shorter trials that a stage decides about: the first lower
/// one, and the upper one until there is another.
fn still_needed(before: [Option<f64>; 2], bounds: [Option<f64>; 2]) -> [Option<f64>; 2] {
    let [lower, upper] = before;
    [lower.filter(|_| bounds == [None; 2]), upper.filter(|_| bounds[1].is_none())]
}

/// Returns the distance of two loads, divided by the larger one.
fn width(lower: f64, upper: f64) -> f64 {
    (upper - lower) / upper
}

/// Returns the stages of a goal. Each has half the width of the one before, and lengths between the
/// shortest and that of the goal.
fn stages_of(goal: &Goal) -> Vec<Stage> {
    let stage = |number: u32| {
        let left = STAGES - 1 - number;
        let share = f64::from(number) / f64::from(STAGES - 1);
        let sum = goal.initial_trial * (goal.duration_sum / goal.initial_trial).powf(share);
        let is_last = left == 0;
        let of_stage = Goal {
            relative_width: goal.relative_width * f64::from(1 << left),
            final_trial: if is_last { goal.final_trial } else { sum.min(goal.final_trial) },
            duration_sum: if is_last { goal.duration_sum } else { sum },
            ..*goal
        };
        Stage { goal: of_stage, reach: of_stage.relative_width, pending: None }
    };
    (0..STAGES).map(stage).collect()
}
