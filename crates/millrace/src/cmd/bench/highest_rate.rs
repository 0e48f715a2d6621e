// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the highest rate at which few packets are lost.

/// Share of packets that may be lost.
pub(super) const LOSS_MAX: f64 = 0.01;
/// Number of trials between a good rate and a bad one. Each halves the interval of rates between
/// them.
const HALVINGS: u32 = 3;
/// Factor of the next rate after a good trial, while no higher rate was bad.
const STEP_UP: f64 = 1.25;
/// Factor of the next rate after a trial with losses.
const STEP_DOWN: f64 = 0.6;
/// Number of rates that the search tries before it gives up.
pub(super) const TRIALS: u32 = 16;

/// Rates measured in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    /// Packets per second that were due.
    pub(super) due: f64,
    /// Packets per second that were sent.
    pub(super) sent: f64,
    /// Packets per second that came back.
    pub(super) received: f64,
}

impl Trial {
    /// Returns the share of the packets due that were lost or not sent.
    fn missing(self) -> f64 {
        (1.0 - self.received / self.due.max(1.0)).clamp(0.0, 1.0)
    }

    /// Returns the share of the packets sent that did not come back.
    pub(super) fn loss(self) -> f64 {
        (1.0 - self.received / self.sent.max(1.0)).clamp(0.0, 1.0)
    }

    fn is_good(self) -> bool {
        self.missing() <= LOSS_MAX
    }
}

/// Returns the highest rate, in packets per second, of which at most [`LOSS_MAX`] were lost or not
/// sent; `None` if no trial was good. `measure` makes a trial at a rate, or at the maximum rate for
/// `None`. The search tries at most `trials` rates.
///
/// Other programs disturb single trials, which then lose packets or send too few. A trial that is
/// not good is therefore repeated once, and the better of both counts. If packets were not sent but
/// few were lost, the sender is the limit, and the search continues at the rate that it reached.
///
/// # Errors
/// Those of `measure`.
pub(super) fn highest_rate<E>(
    trials: u32,
    mut measure: impl FnMut(Option<f64>) -> Result<Trial, E>,
) -> Result<Option<f64>, E> {
    let fastest = measure(None)?;
    let (mut low, mut high) = (None, None);
    // Under overload, fewer packets may come back than at the best rate.
    let mut rate = fastest.received.min(fastest.sent);
    let mut ceiling = fastest.sent;
    let mut halvings = 0;
    for _ in 0..trials {
        if rate < 1.0 {
            break;
        }
        let trial = better_of_two(rate, &mut measure)?;
        let mut next = rate * STEP_DOWN;
        match trial.is_good() {
            true => low = Some(rate),
            false if trial.loss() <= LOSS_MAX => {
                ceiling = trial.sent;
                high = Some(ceiling.max(low.unwrap_or(0.0)));
                next = ceiling;
            }
            false => high = Some(rate),
        }
        rate = match (low, high) {
            (Some(low), Some(_)) if halvings == HALVINGS => return Ok(Some(low)),
            (Some(low), Some(high)) => {
                halvings += 1;
                (low + high) / 2.0
            }
            // The sender is the limit.
            (Some(low), None) if low >= ceiling => break,
            (Some(low), None) => (low * STEP_UP).min(ceiling),
            (None, _) => next,
        };
    }
    Ok(low)
}

/// Makes a trial, and a second one if it is not good; returns the better one.
fn better_of_two<E>(
    rate: f64,
    measure: &mut impl FnMut(Option<f64>) -> Result<Trial, E>,
) -> Result<Trial, E> {
    let first = measure(Some(rate))?;
    if first.is_good() {
        return Ok(first);
    }
    let second = measure(Some(rate))?;
    Ok(if second.missing() < first.missing() { second } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way that carries `limit` packets per second, and collapses under more.
    fn carry(rate: Option<f64>, limit: f64, sender: f64) -> Trial {
        let sent = rate.unwrap_or(sender).min(sender);
        let received = if sent > limit { limit * 0.7 } else { sent };
        Trial { due: rate.unwrap_or(sent), sent, received }
    }

    fn search(limit: f64, sender: f64) -> Option<f64> {
        search_by(|rate, _| carry(rate, limit, sender))
    }

    /// Searches with `carry`, which makes a trial from a rate and the number of the trial.
    fn search_by(carry: impl Fn(Option<f64>, u32) -> Trial) -> Option<f64> {
        let mut number = 0;
        let measure = |rate: Option<f64>| {
            number += 1;
            assert!(number <= 2 * TRIALS + 1, "it ends");
            Ok::<_, std::convert::Infallible>(carry(rate, number))
        };
        highest_rate(TRIALS, measure).unwrap()
    }

    #[test]
    fn the_limit_of_the_way_is_found() {
        for limit in [1e4, 123_456.0, 2e6] {
            let found = search(limit, 5e6).unwrap();
            assert!(found <= limit * 1.02 && found > limit * 0.93, "{found} of {limit}");
        }
    }

    #[test]
    fn the_limit_of_the_sender_is_found_too() {
        let found = search(1e9, 3e6).unwrap();
        assert!((2.9e6..=3.03e6).contains(&found), "{found}");
    }

    /// Every second trial loses a fifth of its packets to a program that takes the cpu.
    #[test]
    fn single_trials_with_losses_do_not_count() {
        for limit in [1e5, 1e6] {
            let disturbed = |rate, number: u32| {
                let trial = carry(rate, limit, 3e6);
                let share = if number % 2 == 0 { 0.8 } else { 1.0 };
                Trial { received: trial.received * share, ..trial }
            };
            let found = search_by(disturbed).unwrap();
            assert!(found <= limit * 1.02 && found > limit * 0.93, "{found} of {limit}");
        }
    }

    /// The way carries every packet that is sent; the sender sends 3 to 12 % fewer than are due.
    #[test]
    fn a_sender_that_falls_behind_is_the_limit_and_loses_nothing() {
        let behind = |rate: Option<f64>, number: u32| {
            let due = rate.unwrap_or(1e6);
            let kept = 1.0 - 0.03 * f64::from(number % 4 + 1);
            let sent = if due > 5e5 { due.min(1e6) * kept } else { due };
            Trial { due, sent, received: sent }
        };
        let found = search_by(behind).unwrap();
        assert!(found > 4.5e5, "{found}");
    }

    /// The rate of a good trial counts even if the sender becomes slower later.
    #[test]
    fn a_slower_sender_does_not_undo_good_trials() {
        let slowing = |rate, number: u32| carry(rate, 1e9, if number < 4 { 1e6 } else { 5e5 });
        assert!(search_by(slowing).unwrap() >= 9.9e5);
    }

    #[test]
    fn a_way_that_carries_nothing_has_no_rate() {
        assert_eq!(search_by(|_, _| Trial { due: 1e6, sent: 1e6, received: 0.0 }), None);
    }
}
