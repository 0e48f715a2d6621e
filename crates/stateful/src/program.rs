// SPDX-License-Identifier: BSD-3-Clause
//! What one end of a connection does, step by step: the form in which ends follow it.

mod repeat;

use crate::endpoint::LOOPS;
use crate::script::Script;
use std::sync::Arc;

/// A step as a profile names it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends this many bytes of a pattern, in one datagram if over UDP.
    Send(u32),
    /// Sends these bytes.
    SendBytes(Arc<[u8]>),
    /// Waits until this many bytes have arrived.
    Receive(u32),
    /// Waits for a random time between two numbers of microseconds.
    Delay(u32, u32),
    /// Repeats actions.
    Repeat(u16, Vec<Action>),
    /// Waits until the peer has closed.
    WaitForClose,
    /// Holds the connection open until it is the oldest one, and is released.
    Hold,
    /// Closes with a FIN. What follows is not done.
    Close,
    /// Aborts with a RST. What follows is not done.
    Reset,
}

/// A step in the form in which ends follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(u32),
    Receive(u32),
    Delay(u32, u32),
    WaitForClose,
    Hold,
    /// The begin of a round: waits for its moment.
    Pace(Pace),
    /// The end of a loop at this level: goes back to `start` until `count` rounds are done.
    Loop {
        level: u8,
        count: u16,
        start: u16,
    },
    Close,
    Reset,
}

/// The pace of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Microseconds between the moments of two rounds.
    pub(crate) period_us: u32,
    /// True if the first round begins one period after the connection on average, and not half a
    /// one: then a connection of M rounds lives for M periods.
    pub(crate) is_first_late: bool,
}

/// Bytes that are received before a step, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Before {
    /// In the first round of all loops.
    first: u32,
    /// In each finished round of the loops around the step, by level.
    rounds: [u32; LOOPS],
}

/// What one end does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    steps: Vec<Step>,
    before: Vec<Before>,
    sent: Script,
    received: u64,
    /// Longest message that is sent at once.
    pub(crate) longest: u32,
    /// True if it holds the connection.
    pub(crate) holds: bool,
    /// The step behind the rounds of a repeated program.
    pub(crate) after_rounds: u16,
}

/// Why actions are no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Loops inside loops.
    #[error("repeat: at most {LOOPS} may be inside each other")]
    TooDeep,
    /// Too many steps.
    #[error("a program has at most 65000 steps")]
    TooLong,
    /// A loop without rounds or actions.
    #[error("repeat: a loop needs at least one round and one action")]
    EmptyLoop,
    /// A loop that does not end by itself.
    #[error("{0} ends the connection: it cannot be repeated")]
    EndInLoop(&'static str),
    /// Nothing to send.
    #[error("send: needs at least 1 byte")]
    EmptySend,
    /// Nothing to receive.
    #[error("receive: needs at least 1 byte")]
    EmptyReceive,
    /// A message that sequence numbers cannot tell from an earlier one, or more bytes than can be
    /// counted.
    #[error("send, receive: a message has less than 2^30 bytes: repeat it for more, below 2^64")]
    TooMuch,
    /// Messages behind a step that ends a round.
    #[error("messages after \"hold\", \"wait_for_close\" or a close cannot be repeated")]
    MessagesAfterWait,
    /// The second number is the smaller one.
    #[error("delay: the second time is shorter than the first")]
    NegativeDelay,
}

/// Bytes that a message must stay below.
const MESSAGE_MAX: u32 = 1 << 30;
/// Most steps of a program.
const STEPS_MAX: usize = 65_000;

impl Program {
    /// Returns the longest delay, rounded up.
    pub(crate) fn longest_delay_ms(&self) -> u32 {
        let delay = |step: &Step| match step {
            Step::Delay(_, max) => max.div_ceil(1000),
            _ => 0,
        };
        self.steps.iter().map(delay).max().unwrap_or(0)
    }

    /// Compiles actions.
    pub(crate) fn new(actions: &[Action]) -> Result<Self, ProgramError> {
        let mut program = Self::default();
        program.sent = program.add(actions, 0, [0; LOOPS])?;
        if program.received == u64::MAX || program.sent.len() == u64::MAX {
            return Err(ProgramError::TooMuch);
        }
        let is_ended = matches!(program.steps.last(), Some(Step::Close | Step::Reset));
        if !is_ended {
            program.push(Step::Close, Before::default(), [0; LOOPS])?;
        }
        Ok(program)
    }

    /// Appends the steps of actions inside `level` loops, whose bodies receive `rounds` bytes.
    /// Returns what they send.
    fn add(
        &mut self,
        actions: &[Action],
        level: usize,
        rounds: [u32; LOOPS],
    ) -> Result<Script, ProgramError> {
        let mut script = Script::default();
        for action in actions {
            let step = match action {
                Action::Send(MESSAGE_MAX..) | Action::Receive(MESSAGE_MAX..) => {
                    return Err(ProgramError::TooMuch);
                }
                Action::Send(0) => return Err(ProgramError::EmptySend),
                Action::Send(len) => {
                    script.push_pattern((*len).into());
                    Step::Send(*len)
                }
                Action::SendBytes(bytes) if bytes.is_empty() => {
                    return Err(ProgramError::EmptySend);
                }
                Action::SendBytes(bytes) => {
                    script.push_bytes(Arc::clone(bytes));
                    Step::Send(bytes.len() as u32)
                }
                Action::Receive(0) => return Err(ProgramError::EmptyReceive),
                Action::Receive(len) => Step::Receive(*len),
                Action::Delay(min, max) if min > max => return Err(ProgramError::NegativeDelay),
                Action::Delay(min, max) => Step::Delay(*min, *max),
                Action::WaitForClose | Action::Hold | Action::Close | Action::Reset
                    if level > 0 =>
                {
                    return Err(ProgramError::EndInLoop(match action {
                        Action::WaitForClose => "wait_for_close",
                        Action::Hold => "hold",
                        Action::Close => "close",
                        _ => "reset",
                    }));
                }
                Action::WaitForClose => Step::WaitForClose,
                Action::Hold => Step::Hold,
                Action::Close => Step::Close,
                Action::Reset => Step::Reset,
                Action::Repeat(count, body) => {
                    self.add_loop((*count, body), level, rounds, &mut script)?;
                    continue;
                }
            };
            self.push(step, Before::default(), rounds)?;
            if matches!(step, Step::Close | Step::Reset) {
                break;
            }
        }
        Ok(script)
    }

    fn add_loop(
        &mut self,
        (count, body): (u16, &[Action]),
        level: usize,
        mut rounds: [u32; LOOPS],
        script: &mut Script,
    ) -> Result<(), ProgramError> {
        if level == LOOPS {
            return Err(ProgramError::TooDeep);
        }
        if count == 0 || body.is_empty() {
            return Err(ProgramError::EmptyLoop);
        }
        let start = self.steps.len() as u16;
        let begun = self.received;
        rounds[level] = received_by(body);
        script.push_repeated(count.into(), self.add(body, level + 1, rounds)?);
        let once = self.received - begun;
        self.push(Step::Loop { level: level as u8, count, start }, Before::default(), rounds)?;
        let more = once.saturating_mul(u64::from(count - 1));
        self.received = self.received.saturating_add(more);
        Ok(())
    }

    fn push(
        &mut self,
        step: Step,
        mut before: Before,
        rounds: [u32; LOOPS],
    ) -> Result<(), ProgramError> {
        if self.steps.len() == STEPS_MAX {
            return Err(ProgramError::TooLong);
        }
        before.first = self.received as u32;
        before.rounds = rounds;
        match step {
            Step::Send(len) => self.longest = self.longest.max(len),
            Step::Receive(len) => self.received = self.received.saturating_add(len.into()),
            Step::Hold => self.holds = true,
            _ => {}
        }
        self.steps.push(step);
        self.before.push(before);
        Ok(())
    }

    /// Waits in this way before the close at the end, unless the program does so already.
    pub(crate) fn wait_before_close(&mut self, step: Step) {
        let close = self.steps.len() - 1;
        if self.steps[close] == Step::Close && !self.steps.contains(&step) {
            self.steps.insert(close, step);
            self.before.insert(close, self.before[close]);
            self.holds |= step == Step::Hold;
        }
    }

    /// Holds the connection where the program would wait until the peer has closed.
    pub(crate) fn hold_instead_of_waiting(&mut self) {
        for step in self.steps.iter_mut().filter(|step| **step == Step::WaitForClose) {
            (*step, self.holds) = (Step::Hold, true);
        }
    }

    /// Returns the pace of its rounds, if they have one. It may end after each of them.
    #[inline(always)]
    pub(crate) fn pace(&self) -> Option<Pace> {
        match self.steps[0] {
            Step::Pace(pace) => Some(pace),
            _ => None,
        }
    }

    /// Returns a step.
    #[inline(always)]
    pub(crate) fn step(&self, number: u16) -> Step {
        self.steps[usize::from(number)]
    }

    /// True if it ends by a reset.
    pub(crate) fn is_ended_by_reset(&self) -> bool {
        self.steps.last() == Some(&Step::Reset)
    }

    /// True if no message follows from a step on. The rounds of a loop that ends behind the step
    /// count as if one followed.
    pub(crate) fn has_no_message_from(&self, step: u16) -> bool {
        let starts = self.steps[usize::from(step)..].iter().filter_map(|step| match step {
            Step::Loop { start, .. } => Some(*start),
            _ => None,
        });
        let from = starts.min().map_or(step, |start| start.min(step));
        let is_message = |step: &Step| matches!(step, Step::Send(_) | Step::Receive(_));
        !self.steps[usize::from(from)..].iter().any(is_message)
    }

    /// Returns the number of bytes, modulo 2^32, that the program has received before a step.
    #[inline(always)]
    pub(crate) fn received_before(&self, step: u16, loops: [u16; LOOPS]) -> u32 {
        let Before { first, rounds } = self.before[usize::from(step)];
        let mut sum = first;
        for (round, done) in rounds.into_iter().zip(loops) {
            sum = sum.wrapping_add(round.wrapping_mul(done.into()));
        }
        sum
    }

    /// Returns what the program sends.
    #[inline(always)]
    pub(crate) fn sent(&self) -> &Script {
        &self.sent
    }

    /// Returns the number of bytes that the whole program receives.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

/// Returns the bytes that actions receive, modulo 2^32.
fn received_by(actions: &[Action]) -> u32 {
    actions.iter().fold(0, |sum, action| {
        sum.wrapping_add(match action {
            Action::Receive(len) => *len,
            Action::Repeat(count, body) => received_by(body).wrapping_mul((*count).into()),
            _ => 0,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows a program; returns the bytes received before each step, by counting.
    pub(super) fn walk(program: &Program) -> Vec<(u16, u32, u32)> {
        let (mut step, mut loops, mut received) = (0, [0; LOOPS], 0);
        let mut seen = Vec::new();
        loop {
            seen.push((step, received, program.received_before(step, loops)));
            match program.step(step) {
                Step::Receive(len) => received += len,
                Step::Loop { level, count, start } => {
                    let done = &mut loops[usize::from(level)];
                    *done += 1;
                    if *done < count {
                        step = start;
                        continue;
                    }
                    *done = 0;
                }
                Step::Close | Step::Reset => return seen,
                Step::Send(_) | Step::Delay(..) | Step::Pace(_) => {}
                Step::WaitForClose | Step::Hold => {}
            }
            step += 1;
        }
    }

    #[test]
    fn the_bytes_before_a_step_follow_from_its_place() {
        use Action::{Delay, Receive, Repeat, Send};
        let inner = Repeat(3, vec![Receive(5), Send(1)]);
        let outer = Repeat(4, vec![Receive(2), inner, Delay(0, 1), Receive(1)]);
        let program = Program::new(&[Receive(7), outer, Receive(9), Send(3)]).unwrap();
        let seen = walk(&program);
        assert!(seen.len() > 4 * 3 * 3, "{seen:?}");
        // At the step that ends a loop, the round that has ended counts in its own bytes.
        for (step, counted, computed) in seen {
            assert_eq!(counted, computed, "before step {step}");
        }
        assert_eq!(program.received(), 7 + 4 * (2 + 15 + 1) + 9);
        assert_eq!(program.sent().len(), 12 + 3);
        assert_eq!(program.longest, 3);
    }

    #[test]
    fn actions_that_are_no_program_are_refused() {
        use Action::{Close, Delay, Receive, Repeat, Reset, Send, WaitForClose};
        let refused = |actions: &[Action]| Program::new(actions).unwrap_err();
        let deep = Repeat(2, vec![Repeat(2, vec![Repeat(2, vec![Send(1)])])]);
        assert_eq!(refused(&[deep]), ProgramError::TooDeep);
        assert_eq!(refused(&[Repeat(0, vec![Send(1)])]), ProgramError::EmptyLoop);
        assert_eq!(refused(&[Repeat(1, vec![])]), ProgramError::EmptyLoop);
        assert_eq!(refused(&[Repeat(1, vec![Close])]), ProgramError::EndInLoop("close"));
        assert_eq!(refused(&[Repeat(1, vec![Reset])]), ProgramError::EndInLoop("reset"));
        let waits = Repeat(1, vec![WaitForClose]);
        assert_eq!(refused(&[waits]), ProgramError::EndInLoop("wait_for_close"));
        assert_eq!(refused(&[Send(0)]), ProgramError::EmptySend);
        assert_eq!(refused(&[Receive(0)]), ProgramError::EmptyReceive);
        assert_eq!(refused(&[Delay(2, 1)]), ProgramError::NegativeDelay);
        assert_eq!(refused(&vec![Send(1); 65_000]), ProgramError::TooLong);
        // 65535 x 65535 x 5 x 2^30 is more than 2^64.
        for much in [Send(MESSAGE_MAX - 1), Receive(MESSAGE_MAX - 1)] {
            let most = Repeat(u16::MAX, vec![Repeat(u16::MAX, vec![much; 5])]);
            assert_eq!(refused(&[most]), ProgramError::TooMuch);
        }
    }
}
