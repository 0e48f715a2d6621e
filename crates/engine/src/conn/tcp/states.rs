// SPDX-License-Identifier: BSD-3-Clause
//! Owns the state table of TCP (RFC 9293 section 3.3.2), as a box between both ends sees it.
//!
//! An end's state depends on which packets reach it, and some are lost. So a state here says which
//! segments were seen from the originator, who sent the first packet, and from the responder.

use crate::conn::state::State;
use crate::conn::state::State::{
    TcpClose as CL, TcpCloseWait as CW, TcpEstablished as ES, TcpFinAcked as FA, TcpFinSent as FS,
    TcpFinSentReply as FR, TcpFinWait as FW, TcpLastAck as LA, TcpPickedUp as PU, TcpSynRecv as SR,
    TcpSynSent as SS, TcpSynSent2 as S2, TcpTimeWait as TW,
};
use crate::packet::{ACK, FIN, RST, SYN};

/// Kind of a segment: the first of these flags that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagKind {
    Rst,
    SynAck,
    Syn,
    Fin,
    Other,
}

const STATES: [State; 13] = [SS, S2, PU, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL];

/// Next state by sender, segment and state.
///
/// A SYN never ends a connection that both sides have confirmed. A new connection on the same ports
/// is recognised elsewhere ([`Transition::Reuse`](crate::conn::event::Transition::Reuse)). If no
/// SYN came before a segment, the connection began before it was seen here, and is picked up.
///
/// FS, FR and FA are entered where numbers are checked: those say whether a FIN is acknowledged. In
/// FA the flags counted so far say which side has sent the FIN.
///
/// In states where a mark suffices, only segments with FIN or RST change the state. All others must
/// not, because marked packets are processed before the other packets of their burst.
const NEXT: [[[State; STATES.len()]; 5]; 2] = [
    // Segments of the originator.
    [
        /* in:      SS  S2  PU  SR  ES  FW  CW  FS  FR  FA  LA  TW  CL */
        /* RST */
        [CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* S+A */ [SS, SR, PU, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL],
        /* SYN */ [SS, S2, PU, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL],
        /* FIN */ [SS, S2, PU, FW, FW, FW, TW, FS, TW, FA, LA, TW, CL],
        /* else */ [SS, ES, PU, ES, ES, FW, CW, FS, FR, FA, LA, TW, CL],
    ],
    // Segments of the responder.
    [
        /* in:      SS  S2  PU  SR  ES  FW  CW  FS  FR  FA  LA  TW  CL */
        /* RST */
        [CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* S+A */ [SR, SR, SR, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL],
        /* SYN */ [S2, S2, ES, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL],
        /* FIN */ [CW, CW, CW, CW, CW, TW, CW, TW, FR, FA, LA, TW, CL],
        /* else */ [ES, ES, ES, SR, ES, FW, CW, FS, FR, FA, LA, TW, CL],
    ],
];

impl FlagKind {
    pub(crate) fn of(flags: u8) -> Self {
        match flags {
            _ if flags & RST != 0 => FlagKind::Rst,
            _ if flags & (SYN | ACK) == SYN | ACK => FlagKind::SynAck,
            _ if flags & SYN != 0 => FlagKind::Syn,
            _ if flags & FIN != 0 => FlagKind::Fin,
            _ => FlagKind::Other,
        }
    }

    /// Returns the state after this segment, sent by the originator (0) or the responder (1).
    ///
    /// A state of another protocol does not change.
    pub(crate) fn next_state(self, from: State, direction: usize) -> State {
        let state = STATES.iter().position(|state| *state == from);
        state.map_or(from, |state| NEXT[direction & 1][self as usize][state])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mark_is_enough_for_changes_nothing() {
        for state in STATES.into_iter().filter(|state| !state.is_open()) {
            for direction in (0..2).filter(|direction| direction & state.is_first() == 0) {
                for kind in [FlagKind::SynAck, FlagKind::Syn, FlagKind::Other] {
                    assert_eq!(kind.next_state(state, direction.into()), state, "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_syn_tears_nothing_down() {
        for state in [ES, FW, CW, FS, FR, FA, TW, CL] {
            for direction in 0..2 {
                assert_eq!(FlagKind::of(SYN).next_state(state, direction), state);
                assert_eq!(FlagKind::of(SYN | ACK).next_state(state, direction), state);
            }
        }
    }
}
