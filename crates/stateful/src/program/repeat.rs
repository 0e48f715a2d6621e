// SPDX-License-Identifier: BSD-3-Clause
//! Repeats the messages of programs, and counts what they exchange.

use super::{Before, Pace, Program, ProgramError, Step};
use crate::endpoint::LOOPS;
use std::ops::Range;

impl Program {
    /// Repeats all that the program does before it holds the connection or closes, at a pace if
    /// there is one.
    ///
    /// # Errors
    /// If its loops are too deep already, or if it has messages behind what ends a round.
    pub(crate) fn repeat(&mut self, count: u16, pace: Option<Pace>) -> Result<(), ProgramError> {
        let is_end = |step: &Step| {
            matches!(step, Step::WaitForClose | Step::Hold | Step::Close | Step::Reset)
        };
        let end = self.steps.iter().position(is_end).unwrap_or(self.steps.len());
        let is_silent = |step: &Step| is_end(step) || matches!(step, Step::Delay(..));
        if !self.steps[end..].iter().all(is_silent) {
            return Err(ProgramError::MessagesAfterWait);
        }
        let deepest = LOOPS as u8 - 1;
        let is_deep = |step: &Step| matches!(step, Step::Loop { level, .. } if *level == deepest);
        if self.steps.iter().any(is_deep) {
            return Err(ProgramError::TooDeep);
        }
        let round = self.received as u32;
        let body: Vec<_> = self.steps.drain(..end).zip(self.before.drain(..end)).collect();
        let last = (std::mem::take(&mut self.steps), std::mem::take(&mut self.before));
        if let Some(pace) = pace {
            self.steps.push(Step::Pace(pace));
            self.before.push(Before { first: 0, rounds: [round, 0] });
        }
        let shift = self.steps.len() as u16;
        for (step, Before { first, rounds }) in body {
            self.steps.push(match step {
                Step::Loop { level, count, start } => {
                    Step::Loop { level: level + 1, count, start: start + shift }
                }
                other => other,
            });
            self.before.push(Before { first, rounds: [round, rounds[0]] });
        }
        self.steps.push(Step::Loop { level: 0, count, start: 0 });
        self.before.push(Before { first: round, rounds: [round, 0] });
        self.after_rounds = self.steps.len() as u16;
        if self.steps.len() + last.0.len() > super::STEPS_MAX {
            return Err(ProgramError::TooLong);
        }
        self.received *= u64::from(count);
        self.steps.extend(last.0);
        let before = Before { first: self.received as u32, ..Before::default() };
        self.before.extend(last.1.iter().map(|_| before));
        let sent = std::mem::take(&mut self.sent);
        self.sent.push_repeated(count.into(), sent);
        Ok(())
    }

    /// Returns how often data is received after some was sent: the transactions of a client.
    pub(crate) fn transactions(&self) -> u64 {
        let mut is_asked = false;
        self.transactions_of(0..self.steps.len(), &mut is_asked)
    }

    /// Returns the shortest time that its delays take, in microseconds.
    pub(crate) fn least_delay_us(&self) -> u64 {
        self.delay_of(0..self.steps.len())
    }

    fn delay_of(&self, steps: Range<usize>) -> u64 {
        let of = |number: usize| match self.steps[number] {
            Step::Delay(min, _) => min.into(),
            Step::Loop { count, start, .. } => {
                self.delay_of(start.into()..number) * u64::from(count - 1)
            }
            _ => 0,
        };
        steps.map(of).sum()
    }

    /// True if it sends nothing before it has received something.
    pub(crate) fn answers(&self) -> bool {
        let is_message = |step: &&Step| matches!(step, Step::Send(_) | Step::Receive(_));
        matches!(self.steps.iter().find(is_message), Some(Step::Receive(_)))
    }

    fn transactions_of(&self, steps: Range<usize>, is_asked: &mut bool) -> u64 {
        let mut sum = 0;
        for number in steps {
            match self.steps[number] {
                Step::Send(_) => *is_asked = true,
                Step::Receive(_) => sum += u64::from(std::mem::take(is_asked)),
                // The first round is counted. In the others, data of the round before may be asked.
                Step::Loop { count, start, .. } if count > 1 => {
                    let again = self.transactions_of(start.into()..number, is_asked);
                    sum += again * u64::from(count - 1);
                }
                _ => {}
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use crate::program::tests::walk;
    use crate::program::{Action, Pace, Program, ProgramError};
    use Action::{Close, Delay, Hold, Receive, Repeat, Send, WaitForClose};

    #[test]
    fn a_repeated_program_does_what_a_written_loop_does() {
        let inner = Repeat(3, vec![Receive(5), Send(1)]);
        let body = [Receive(7), inner, Delay(1, 2), Send(3)];
        for last in [WaitForClose, Hold, Close] {
            let mut repeated =
                Program::new(&[&body[..], std::slice::from_ref(&last)].concat()).unwrap();
            repeated.repeat(4, None).unwrap();
            let mut written = Program::new(&[Repeat(4, body.to_vec()), last]).unwrap();
            written.after_rounds = repeated.after_rounds;
            assert_eq!(repeated, written);
        }
        let mut paced = Program::new(&body).unwrap();
        let pace = Pace { period_us: 1000, is_first_late: false };
        paced.repeat(4, Some(pace)).unwrap();
        let seen = walk(&paced);
        assert!(seen.len() > 4 * 3 * 2 && seen.iter().all(|(_, counted, told)| counted == told));
        assert_eq!((paced.received(), paced.sent().len()), (4 * 22, 4 * 6));
    }

    #[test]
    fn programs_that_cannot_be_repeated_are_refused() {
        let repeat = |actions: &[Action]| Program::new(actions).unwrap().repeat(2, None);
        let deep = Repeat(2, vec![Repeat(2, vec![Send(1)])]);
        assert_eq!(repeat(&[deep]), Err(ProgramError::TooDeep));
        assert_eq!(repeat(&[Hold, Send(1)]), Err(ProgramError::MessagesAfterWait));
        assert_eq!(repeat(&[Send(1), WaitForClose, Delay(1, 1), Close]), Ok(()));
    }

    #[test]
    fn delays_of_all_rounds_are_added() {
        let inner = Repeat(3, vec![Delay(5, 9), Receive(1)]);
        let program = Program::new(&[Repeat(4, vec![inner, Delay(7, 7)]), Delay(2, 3)]).unwrap();
        assert_eq!(program.least_delay_us(), 4 * (3 * 5 + 7) + 2);
        assert!(program.answers());
    }

    #[test]
    fn transactions_are_answers_to_what_was_sent() {
        let of = |actions: &[Action]| Program::new(actions).unwrap().transactions();
        assert_eq!(of(&[Send(1), Send(1), Receive(1), Receive(1), Send(1)]), 1);
        assert_eq!(of(&[Receive(1), Send(1), Receive(1)]), 1);
        assert_eq!(of(&[Repeat(5, vec![Send(1), Receive(1)])]), 5);
        assert_eq!(of(&[Repeat(5, vec![Receive(1), Send(1)])]), 4);
        let inner = Repeat(3, vec![Send(1), Receive(1)]);
        assert_eq!(of(&[Repeat(4, vec![inner, Send(1), Receive(2)])]), 4 * 4);
    }
}
