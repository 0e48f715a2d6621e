// SPDX-License-Identifier: BSD-3-Clause
//! What one packet does to the state of its connection.

use super::record::ConnHot;
use super::state::State;
use super::tcp::states::FlagKind;
use crate::api::Anomaly;
use crate::packet::{FIN, PacketView, is_syn};

/// What a packet does to its flow beyond being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Nothing.
    None,
    /// The flow enters this phase.
    Enter(State),
    /// A SYN takes the ports of a closing connection: the old flow ends, a new one begins.
    Reuse,
}

impl Transition {
    pub(super) fn entering(next: State, phase: State) -> Self {
        if next == phase { Transition::None } else { Transition::Enter(next) }
    }
}

impl<const W: usize> ConnHot<W> {
    /// What this packet does to the flow by its flags. Before [`count`](Self::count).
    pub(super) fn event_by_flags(&self, packet: &PacketView) -> Result<Transition, Anomaly> {
        let (meta, phase) = (packet.meta, self.phase());
        let (direction, flags) = (self.direction(meta), meta.tcp_flags());
        if phase.is_closing() && is_syn(flags) {
            return Ok(Transition::Reuse);
        }
        if phase == State::IcmpStray {
            // One more reply; or now somebody asks, with a header that says so.
            let asks = direction == 1 && !packet.header_info.is_later_fragment();
            return if asks { Ok(Transition::Reuse) } else { Err(Anomaly::IcmpReply) };
        }
        let next = phase.after(direction, FlagKind::of(flags));
        let is_over = self.is_of_both(FIN, direction, flags) && !next.is_closing();
        Ok(Transition::entering(if is_over { State::TcpTimeWait } else { next }, phase))
    }

    /// Whether a flag has come of both sides, with these of the sender. One of them may have come
    /// before there was a state for it.
    pub(super) fn is_of_both(&self, flag: u8, direction: usize, flags: u8) -> bool {
        let of_peer = self.counters[1 - direction].tcp_flags();
        let of_sender = self.counters[direction].tcp_flags() | flags;
        of_sender & of_peer & flag != 0
    }
}
