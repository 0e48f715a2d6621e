// SPDX-License-Identifier: BSD-3-Clause
//! Resynchronises a TCP connection whose ends have gone on with other numbers.

use super::window::TcpWindow;
use crate::base::Micros;
use crate::conn::event::Transition;
use crate::conn::record::ConnHot;
use crate::conn::state::State;
use crate::packet::{FIN, SeqNumbers};

impl<const W: usize> ConnHot<W> {
    /// Replaces the window by that of a segment and its answer. `direction` has sent the answer.
    /// Returns the effect on the state.
    ///
    /// Call it before the flags of either are counted.
    pub(crate) fn resync(
        &mut self,
        direction: usize,
        segment: Segment,
        answer: Segment,
    ) -> Transition {
        self.window = TcpWindow::answered_by(direction, segment.numbers, answer.numbers);
        self.state_word = self.state_word.with_learnt_numbers();
        let peer = &mut self.counters[1 - (direction & 1)];
        peer.0 |= u64::from(segment.flags);
        Transition::entering(self.state_by_fins(direction, answer.flags), self.state())
    }

    /// Returns the state of a connection whose numbers are known again, by the FINs of both sides.
    ///
    /// `flags` are those of the current segment of `direction`.
    pub(super) fn state_by_fins(&self, direction: usize, flags: u8) -> State {
        let has_fin = |of: usize| {
            let now = if of == direction { flags } else { 0 };
            (self.counters[of].tcp_flags() | now) & FIN != 0
        };
        match (has_fin(0), has_fin(1)) {
            (false, false) => State::TcpEstablished,
            (true, false) if self.window.is_acknowledged(0) => State::TcpFinAcked,
            (false, true) if self.window.is_acknowledged(1) => State::TcpFinAcked,
            (true, false) => State::TcpFinSent,
            (false, true) => State::TcpFinSentReply,
            (true, true) if self.window.is_all_acked() => State::TcpTimeWait,
            (true, true) => State::TcpLastAck,
        }
    }

    /// Marks a connection as out of sync: both ends have sent a FIN or RST that does not fit.
    ///
    /// Its timeout begins at `now`.
    pub(crate) fn lose_sync(&mut self, now: Micros) {
        self.state_word = self.state_word.at(now);
        self.enter(State::TcpOutOfSync);
    }

    /// Returns the time of the last packet that fits, as stored in the record.
    pub(crate) fn last_micros(&self) -> Micros {
        self.state_word.micros()
    }
}

/// Flags and numbers of a segment.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) numbers: SeqNumbers,
}

impl Segment {
    /// True if a segment of the other side continues exactly where this one ends, and acknowledges
    /// all of it.
    pub(crate) fn is_answered_by(self, answer: SeqNumbers) -> bool {
        (answer.seq, answer.ack) == (self.numbers.ack, self.numbers.end())
    }
}
