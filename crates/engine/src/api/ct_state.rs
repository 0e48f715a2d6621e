// SPDX-License-Identifier: BSD-3-Clause
//! Owns the relation of a packet to its connection, in the terms of nftables and Open vSwitch.

use super::untracked_reason::UntrackedReason;
use std::fmt;
use std::ops::BitOr;

/// Relation of a packet to its connection: a set of flags.
///
/// Flags mean the same as in nftables (nft(8), `ct state`) and Open vSwitch (ovs-fields(7),
/// `ct_state`). Every packet has at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CtState(u8);

impl CtState {
    /// The packet begins a connection, or its connection has no answer yet.
    pub const NEW: CtState = CtState(1);

    /// The packet belongs to a connection in which both ends have sent packets.
    pub const ESTABLISHED: CtState = CtState(1 << 1);

    /// An ICMP error about a packet of a known connection.
    pub const RELATED: CtState = CtState(1 << 2);

    /// The packet goes to the originator. Set with [`ESTABLISHED`](Self::ESTABLISHED) or
    /// [`RELATED`](Self::RELATED).
    pub const REPLY: CtState = CtState(1 << 3);

    /// The connection cannot have this packet, there is no such connection, or no correct sender
    /// makes it.
    pub const INVALID: CtState = CtState(1 << 4);

    /// The packet was not tracked, or there was no room for its connection.
    pub const UNTRACKED: CtState = CtState(1 << 5);

    /// Every flag and its name.
    pub const ALL: [(CtState, &'static str); 6] = [
        (CtState::NEW, "new"),
        (CtState::ESTABLISHED, "established"),
        (CtState::RELATED, "related"),
        (CtState::REPLY, "reply"),
        (CtState::INVALID, "invalid"),
        (CtState::UNTRACKED, "untracked"),
    ];

    /// True if every flag of `other` is set.
    pub const fn contains(self, other: CtState) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags of a packet that was not counted to a connection.
    ///
    /// A later fragment without a first one is untracked, not invalid: a correct sender makes it.
    /// Linux and Open vSwitch would wait for the others before they set flags.
    pub(crate) fn of_reason(reason: UntrackedReason) -> Self {
        match reason {
            UntrackedReason::Invalid | UntrackedReason::Unrelated => Self::INVALID,
            reason if reason.is_malformed() || reason.is_odd_fragment() => Self::INVALID,
            UntrackedReason::Related => Self::RELATED,
            _ => Self::UNTRACKED,
        }
    }
}

impl BitOr for CtState {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        CtState(self.0 | other.0)
    }
}

impl fmt::Display for CtState {
    /// Writes the names of the flags in their order, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Self::ALL.iter().filter(|(word, _)| self.contains(*word));
        for (i, (_, name)) in words.enumerate() {
            write!(f, "{}{name}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::api::ct_state::CtState;

    #[test]
    fn words_are_shown_by_name() {
        assert_eq!((CtState::ESTABLISHED | CtState::REPLY).to_string(), "established,reply");
        assert_eq!(CtState::UNTRACKED.to_string(), "untracked");
        assert!(!CtState::ESTABLISHED.contains(CtState::ESTABLISHED | CtState::REPLY));
    }
}
