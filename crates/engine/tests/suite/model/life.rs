// SPDX-License-Identifier: BSD-3-Clause
//! Where a TCP connection is (RFC 9293 section 3.3.2), as whoever stands between both ends sees it.

use super::reference::{ACK, FIN, RST, SYN};
use super::resumed::Learning;
use super::sequence::is_sound;

/// Where a TCP connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// A SYN waits for its answer; or SYNs of both sides do.
    Asked,
    BothAsked,
    /// It began before it was seen, and nobody has answered.
    PickedUp,
    /// There was an answer to the SYN, and nothing to the answer.
    Answered,
    Confirmed,
    /// The handshake is complete, and both sides have ended the connection with numbers that do not
    /// fit.
    OutOfSync,
    /// The handshake was complete before a restart; the numbers are to be learnt.
    Resumed(Learning),
    /// A FIN of one side, while the other may send.
    HalfClosed,
    /// The same, and the FIN is acknowledged.
    FinAcked,
    /// A FIN of both, and one of them is not acknowledged.
    LastAck,
    /// A FIN of both.
    Closed,
    Reset,
}

impl Tcp {
    /// Whether both ends have shown that they want the connection.
    pub(crate) fn is_assured(self) -> bool {
        match self {
            Tcp::Confirmed | Tcp::HalfClosed | Tcp::FinAcked | Tcp::LastAck => true,
            Tcp::Closed | Tcp::OutOfSync | Tcp::Resumed(_) => true,
            Tcp::Asked | Tcp::BothAsked | Tcp::PickedUp | Tcp::Answered | Tcp::Reset => false,
        }
    }

    pub(crate) fn begin(flags: u8, is_judged: bool) -> Self {
        match (flags & RST != 0, flags & (SYN | ACK)) {
            _ if is_judged && !is_sound(flags) => Tcp::Reset,
            (true, _) => Tcp::Reset,
            (false, SYN) => Tcp::Asked,
            _ => Tcp::PickedUp,
        }
    }

    /// After a segment of the originator, or not of it; `both_fin`: both have sent a FIN.
    pub(crate) fn next(self, is_orig: bool, flags: u8, both_fin: bool) -> Self {
        let is_syn = flags & SYN != 0;
        let is_syn_ack = is_syn && flags & ACK != 0;
        // Where there is SYN, a FIN beside it is none.
        let is_fin = flags & FIN != 0 && !is_syn;
        if flags & RST != 0 || self == Tcp::Reset {
            return Tcp::Reset;
        }
        if both_fin || matches!(self, Tcp::Closed | Tcp::LastAck) {
            return if self == Tcp::LastAck { self } else { Tcp::Closed };
        }
        match self {
            Tcp::Asked | Tcp::BothAsked if !is_orig && is_fin => Tcp::HalfClosed,
            Tcp::Asked if is_orig => Tcp::Asked,
            Tcp::Asked if is_syn_ack => Tcp::Answered,
            Tcp::Asked if is_syn => Tcp::BothAsked,
            Tcp::Asked => Tcp::Confirmed,
            Tcp::BothAsked if is_syn_ack => Tcp::Answered,
            Tcp::BothAsked if is_syn || is_fin => Tcp::BothAsked,
            Tcp::BothAsked => Tcp::Confirmed,
            Tcp::PickedUp if is_orig => Tcp::PickedUp,
            Tcp::PickedUp if is_syn_ack => Tcp::Answered,
            Tcp::PickedUp if is_fin => Tcp::HalfClosed,
            Tcp::PickedUp => Tcp::Confirmed,
            Tcp::Answered if is_fin => Tcp::HalfClosed,
            // Data may follow the answer before anyone has confirmed it.
            Tcp::Answered if is_syn || !is_orig => Tcp::Answered,
            Tcp::Answered => Tcp::Confirmed,
            Tcp::Confirmed | Tcp::OutOfSync if is_fin => Tcp::HalfClosed,
            // Something fits after all.
            Tcp::OutOfSync => Tcp::Confirmed,
            same => same,
        }
    }
}
