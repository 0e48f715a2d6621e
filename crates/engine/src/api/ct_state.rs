// SPDX-License-Identifier: BSD-3-Clause
//! What a packet is to its connection, in the words that firewalls have for it.

use super::untracked_reason::UntrackedReason;
use std::fmt;
use std::ops::BitOr;

/// What a packet is to its connection: a set of words with the meaning that they have for nftables
/// (nft(8), `ct state`) and Open vSwitch (ovs-fields(7), `ct_state`). No packet has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CtState(u8);

impl CtState {
    /// It begins a connection, or there was no answer yet to what its sender has begun.
    pub const NEW: CtState = CtState(1);

    /// Of a connection in which both ends have spoken.
    pub const ESTABLISHED: CtState = CtState(1 << 1);

    /// An ICMP error about a packet of a known connection.
    pub const RELATED: CtState = CtState(1 << 2);

    /// On its way to who began the connection; beside [`ESTABLISHED`](Self::ESTABLISHED) or
    /// [`RELATED`](Self::RELATED).
    pub const REPLY: CtState = CtState(1 << 3);

    /// Its connection cannot have it, it is about none, or no correct sender makes it.
    pub const INVALID: CtState = CtState(1 << 4);

    /// Nobody has asked to which connection it belongs, or there was no room for one.
    pub const UNTRACKED: CtState = CtState(1 << 5);

    /// The words by their names.
    pub const ALL: [(CtState, &'static str); 6] = [
        (CtState::NEW, "new"),
        (CtState::ESTABLISHED, "established"),
        (CtState::RELATED, "related"),
        (CtState::REPLY, "reply"),
        (CtState::INVALID, "invalid"),
        (CtState::UNTRACKED, "untracked"),
    ];

    /// Whether every word of `other` is among them.
    pub const fn contains(self, other: CtState) -> bool {
        self.0 & other.0 == other.0
    }

    /// Of a packet that is counted to none. A fragment whose first one was not here is what a
    /// correct sender makes: Linux and Open vSwitch would wait for the others, and say nothing yet.
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
    /// The words in their order, with commas.
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
