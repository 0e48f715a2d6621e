// SPDX-License-Identifier: BSD-3-Clause
//! Applies the usual transitions of a TCP connection by one table: handshake, end, reuse of ports.
//!
//! [`ConnHot::event`] handles every segment. This file handles the segments that nearly every
//! connection has, with the same result; a property test compares the two. The kind of a segment is
//! unpredictable, so the processor mispredicts most branches on it. Here only one branch depends on
//! it: the one on the next state.

use super::record::ConnHot;
use super::state::State;
use crate::packet::{ACK, FIN, PacketMeta, RST, SYN, TcpSegment, URG};

/// Class of a segment by its flags. PSH and the flags of RFC 3168 do not matter.
#[derive(Clone, Copy)]
enum FlagClass {
    Syn,
    SynAck,
    Ack,
    FinAck,
    Other,
}

const CLASSES: usize = 8;

const CLASS_OF_FLAGS: [FlagClass; 64] = {
    const SYN_ACK: u8 = SYN | ACK;
    const FIN_ACK: u8 = FIN | ACK;
    let mut classes = [FlagClass::Other; 64];
    let mut flags = 0;
    while flags < classes.len() {
        classes[flags] = match flags as u8 & (SYN | ACK | FIN | RST | URG) {
            SYN => FlagClass::Syn,
            SYN_ACK => FlagClass::SynAck,
            ACK => FlagClass::Ack,
            FIN_ACK => FlagClass::FinAck,
            _ => FlagClass::Other,
        };
        flags += 1;
    }
    classes
};

/// Transitions: state, sender, segment, next state.
///
/// `TcpTimeWait` is entered only if everything is acknowledged, else `TcpLastAck`. `TcpFinAcked` is
/// entered only if all that its sender has sent is acknowledged, else the state stays.
const TRANSITIONS: [(State, usize, FlagClass, State); 16] = {
    use State::*;
    [
        (TcpSynSent, 1, FlagClass::SynAck, TcpSynRecv),
        (TcpSynRecv, 0, FlagClass::Ack, TcpEstablished),
        (TcpEstablished, 0, FlagClass::FinAck, TcpFinSent),
        (TcpEstablished, 1, FlagClass::FinAck, TcpFinSentReply),
        (TcpFinSent, 1, FlagClass::Ack, TcpFinAcked),
        (TcpFinSentReply, 0, FlagClass::Ack, TcpFinAcked),
        (TcpFinSent, 1, FlagClass::FinAck, TcpTimeWait),
        (TcpFinSentReply, 0, FlagClass::FinAck, TcpTimeWait),
        (TcpFinAcked, 0, FlagClass::FinAck, TcpTimeWait),
        (TcpFinAcked, 1, FlagClass::FinAck, TcpTimeWait),
        (TcpLastAck, 0, FlagClass::Ack, TcpTimeWait),
        (TcpLastAck, 1, FlagClass::Ack, TcpTimeWait),
        // Another connection reuses the ports.
        (TcpTimeWait, 0, FlagClass::Syn, TcpSynSent),
        (TcpTimeWait, 1, FlagClass::Syn, TcpSynSent),
        (TcpClose, 0, FlagClass::Syn, TcpSynSent),
        (TcpClose, 1, FlagClass::Syn, TcpSynSent),
    ]
};

/// The transitions of [`TRANSITIONS`], indexed by bits of the state, sender and class.
///
/// [`State::Free`], which is 0, stands for a transition that is not in the table.
const NEXT_STATES: [[[u8; CLASSES]; 2]; State::BITS] = {
    let mut next = [[[State::Free as u8; CLASSES]; 2]; State::BITS];
    let mut i = 0;
    while i < TRANSITIONS.len() {
        let (from, sender, class, to) = TRANSITIONS[i];
        next[from as usize][sender][class as usize] = to as u8;
        i += 1;
    }
    next
};

impl<const W: usize> ConnHot<W> {
    /// Returns the next state after a segment with these flags, if its numbers are right.
    ///
    /// [`State::TcpSynSent`]: the connection has ended and another one begins. `None`: the table
    /// has no such transition, or the connection has no window check.
    #[inline(always)]
    pub(crate) fn fast_next_state(&self, meta: PacketMeta) -> Option<State> {
        let class = CLASS_OF_FLAGS[usize::from(meta.tcp_flags() & 0x3f)];
        let next_states = &NEXT_STATES[usize::from(self.state_word.state_bits()) % State::BITS];
        let next = next_states[self.direction(meta)][class as usize % CLASSES];
        (next != State::Free as u8 && self.checks_window()).then(|| State::of_bits(next))
    }

    /// Applies a segment that leads to [`next`](Self::fast_next_state), a state of the same
    /// connection.
    ///
    /// It does so if the numbers are right and `is_intact` confirms the checksum. Otherwise it
    /// changes nothing and returns false: the segment needs full processing.
    ///
    /// The window is updated in place: a copy would be written in small pieces and read in large
    /// ones, which stalls the processor.
    #[inline(always)]
    pub(crate) fn apply_fast(
        &mut self,
        next: State,
        (meta, segment): (PacketMeta, TcpSegment),
        is_intact: impl FnOnce() -> bool,
    ) -> bool {
        let (direction, scales) = (self.direction(meta), self.state_word.scales());
        let is_over = next == State::TcpTimeWait;
        if next == State::TcpSynRecv {
            if !self.window.is_answer(segment.numbers) || !is_intact() {
                return false;
            }
            let scales = self.window.on_syn_ack(scales, segment, true);
            self.state_word = self.state_word.with_scales(scales);
        } else {
            let is_usual = self.is_of_both(FIN, direction, meta.tcp_flags()) == is_over
                && self.window.check(scales, direction, segment.numbers).is_ok();
            if !is_usual || !is_intact() {
                return false;
            }
            self.window.follow(scales, direction, segment.numbers);
        }
        let next = match next {
            State::TcpTimeWait if !self.window.is_all_acked() => State::TcpLastAck,
            State::TcpFinAcked if !self.window.is_acknowledged(1 - direction) => self.state(),
            next => next,
        };
        self.enter(next);
        true
    }
}

#[cfg(test)]
mod tests;
