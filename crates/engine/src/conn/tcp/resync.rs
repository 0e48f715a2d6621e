// SPDX-License-Identifier: BSD-3-Clause
//! A TCP connection that is out of sync with its ends: where it goes on, and how long it lives.

use super::window::TcpWindow;
use crate::base::Micros;
use crate::conn::event::Transition;
use crate::conn::record::ConnHot;
use crate::conn::state::State;
use crate::packet::{FIN, SeqNumbers};

impl<const W: usize> ConnHot<W> {
    /// Goes on with the numbers of a segment and of the answer to it, which this direction has
    /// sent. The flags of neither have been counted.
    pub(crate) fn resync(
        &mut self,
        direction: usize,
        asked: Segment,
        answer: Segment,
    ) -> Transition {
        self.window = TcpWindow::answered_by(direction, asked.numbers, answer.numbers);
        let peer = &mut self.counters[1 - (direction & 1)];
        peer.0 |= u64::from(asked.flags);
        Transition::entering(self.phase_by_fins(direction, answer.flags), self.phase())
    }

    /// Where a connection is whose numbers are known anew, by the FINs of both sides, with these
    /// flags of one of them.
    pub(super) fn phase_by_fins(&self, direction: usize, flags: u8) -> State {
        let has_fin = |of: usize| {
            let now = if of == direction { flags } else { 0 };
            (self.counters[of].tcp_flags() | now) & FIN != 0
        };
        match (has_fin(0), has_fin(1)) {
            (false, false) => State::TcpEstablished,
            (true, false) => State::TcpFinWait,
            (false, true) => State::TcpCloseWait,
            (true, true) if self.window.is_all_acked() => State::TcpTimeWait,
            (true, true) => State::TcpLastAck,
        }
    }

    /// Both ends have ended it with numbers that do not fit: it lives a while from now on.
    pub(crate) fn lose_sync(&mut self, now: Micros) {
        self.state_word = self.state_word.at(now);
        self.enter(State::TcpOutOfSync);
    }

    /// When its last packet came that fits, as far as a flow keeps it.
    pub(crate) fn last_micros(&self) -> Micros {
        self.state_word.micros()
    }
}

/// What a segment says.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) numbers: SeqNumbers,
}

impl Segment {
    /// Whether a segment of the other side continues just where this one says, and acknowledges
    /// all of it.
    pub(crate) fn is_answered_by(self, answer: SeqNumbers) -> bool {
        (answer.seq, answer.ack) == (self.numbers.ack, self.numbers.end())
    }
}
