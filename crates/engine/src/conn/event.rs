// SPDX-License-Identifier: BSD-3-Clause
//! Determines the effect of a packet on the state of its connection, by its flags.

use super::record::ConnHot;
use super::state::State;
use super::tcp::states::FlagKind;
use crate::api::Anomaly;
use crate::packet::{FIN, PacketMeta, PacketView, is_syn};

/// Effect of a packet on its connection, beyond being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// No effect.
    None,
    /// The connection enters this state.
    Enter(State),
    /// A new connection takes the ports of this one, which ends.
    Reuse,
}

impl Transition {
    pub(super) fn entering(next: State, state: State) -> Self {
        if next == state { Transition::None } else { Transition::Enter(next) }
    }
}

impl<const W: usize> ConnHot<W> {
    /// Returns the effect of this packet by its flags. Call it before [`count`](Self::count).
    ///
    /// # Errors
    /// [`Anomaly::IcmpReply`] for another ICMP reply without a request.
    pub(super) fn event_by_flags(&self, packet: &PacketView) -> Result<Transition, Anomaly> {
        let (meta, state) = (packet.meta, self.state());
        let (direction, flags) = (self.direction(meta), meta.tcp_flags());
        if state.is_closing() && is_syn(flags) {
            return Ok(Transition::Reuse);
        }
        if state == State::IcmpStray {
            // Either another reply, or now a request, whose header must be in the packet.
            let is_request = direction == 1 && !packet.header_info.is_later_fragment();
            return if is_request { Ok(Transition::Reuse) } else { Err(Anomaly::IcmpReply) };
        }
        let next = state.after(direction, FlagKind::of(flags));
        let is_over = self.is_of_both(FIN, direction, flags) && !next.is_closing();
        Ok(Transition::entering(if is_over { State::TcpTimeWait } else { next }, state))
    }

    /// Returns the effect of a packet on a flow whose states are not tracked.
    pub(super) fn event_of_flow(&self, meta: PacketMeta) -> Transition {
        let state = self.state();
        Transition::entering(state.after(self.direction(meta), FlagKind::Other), state)
    }

    /// True if both sides have sent a flag, including the flags of this packet. One side may have
    /// sent it before the current state.
    pub(super) fn is_of_both(&self, flag: u8, direction: usize, flags: u8) -> bool {
        let of_peer = self.counters[1 - direction].tcp_flags();
        let of_sender = self.counters[direction].tcp_flags() | flags;
        of_sender & of_peer & flag != 0
    }
}
