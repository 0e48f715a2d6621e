// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the highest rate at which few packets are lost.

/// Share of packets that may be lost.
pub(super) const LOSS_MAX: f64 = 0.01;
/// Trials between a good rate and a bad one, each of which halves what is not known.
const HALVINGS: u32 = 3;
/// How much higher the next trial is after a good one, while none above was bad.
const STEP_UP: f64 = 1.25;
/// How much lower the next trial is after one with losses.
const STEP_DOWN: f64 = 0.6;
/// Trials until the search gives up.
const TRIALS_MAX: u32 = 16;

/// What a trial came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    /// Packets per second that were sent.
    pub(super) sent: f64,
    /// Packets per second that came back.
    pub(super) received: f64,
    /// Share of the packets that were due and were lost, or not sent.
    pub(super) loss: f64,
}

/// Returns the highest rate, in packets per second, that lost at most [`LOSS_MAX`]; `None` if no
/// trial was good. `measure` makes a trial at a rate; without one, as fast as it goes.
///
/// # Errors
/// Those of `measure`.
pub(super) fn highest_rate<E>(
    mut measure: impl FnMut(Option<f64>) -> Result<Trial, E>,
) -> Result<Option<f64>, E> {
    let fastest = measure(None)?;
    let (mut low, mut high) = (None, None);
    // Under overload less may come back than at the best rate.
    let mut rate = fastest.received.min(fastest.sent);
    let mut halvings = 0;
    for _ in 0..TRIALS_MAX {
        if rate < 1.0 {
            break;
        }
        match measure(Some(rate))?.loss <= LOSS_MAX {
            true => low = Some(rate),
            false => high = Some(rate),
        }
        rate = match (low, high) {
            (Some(low), Some(_)) if halvings == HALVINGS => return Ok(Some(low)),
            (Some(low), Some(high)) => {
                halvings += 1;
                (low + high) / 2.0
            }
            // The sender is the limit.
            (Some(low), None) if low >= fastest.sent => break,
            (Some(low), None) => (low * STEP_UP).min(fastest.sent),
            (None, _) => rate * STEP_DOWN,
        };
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way that carries so many packets per second, and collapses under more.
    fn search(limit: f64, sender: f64) -> Option<f64> {
        let measure = |rate: Option<f64>| {
            let sent = rate.unwrap_or(sender).min(sender);
            let received = if sent > limit { limit * 0.7 } else { sent };
            let due = rate.unwrap_or(sent);
            Ok::<_, std::convert::Infallible>(Trial { sent, received, loss: 1.0 - received / due })
        };
        highest_rate(measure).unwrap()
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

    #[test]
    fn a_way_that_carries_nothing_has_no_rate() {
        let nothing =
            |_| Ok::<_, std::convert::Infallible>(Trial { sent: 1e6, received: 0.0, loss: 1.0 });
        assert_eq!(highest_rate(nothing).unwrap(), None);
    }
}
