// SPDX-License-Identifier: BSD-3-Clause
//! A connection that goes on after a restart, as the documentation tells it: nothing is known of
//! its numbers but the units of its windows, until each side has said something that agrees with
//! what the other has said.

use super::reference::{ACK, RST, SYN};
use super::sequence::{Said, Sequence};
use engine::Anomaly;

/// Where learning stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learning {
    Nothing,
    /// This end was heard: 0 for the originator.
    Heard(usize),
}

/// What became of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It changes nothing.
    Ignored(Anomaly),
    /// There is more to learn.
    Learning(Learning),
    /// Both sides agree.
    Agreed,
    Reset,
}

/// What a sound segment of this end does.
pub(crate) fn hear(
    learning: Learning,
    sequence: &mut Sequence,
    (from, flags): (usize, u8),
    said: Said,
) -> Heard {
    let answers = learning == Learning::Heard(1 - from);
    if flags & RST != 0 {
        // RFC 9293 section 3.10.7.1: it has the number that the other has acknowledged.
        return match answers && sequence.is_expected(from, said.seq) {
            true => Heard::Reset,
            false => Heard::Ignored(Anomaly::TcpRstInWindow),
        };
    }
    if flags & SYN != 0 {
        let is_own = (from == 0) == (flags & ACK == 0);
        let is_own = is_own || sequence.is_guessed();
        let irregular = if is_own { Anomaly::TcpSyn } else { Anomaly::TcpSynOfOther };
        return Heard::Ignored(irregular);
    }
    let mut agreed = sequence.clone();
    let fits = match learning {
        Learning::Nothing => false,
        Learning::Heard(end) => {
            if end != from {
                agreed.believe(from, said.ack);
            }
            agreed.accept(from, flags, said).is_ok()
        }
    };
    match (fits, answers) {
        (true, true) => {
            *sequence = agreed;
            sequence.agree();
            Heard::Agreed
        }
        (true, false) => {
            *sequence = agreed;
            Heard::Learning(learning)
        }
        (false, _) => {
            *sequence = sequence.heard(from, flags, said);
            Heard::Learning(Learning::Heard(from))
        }
    }
}
