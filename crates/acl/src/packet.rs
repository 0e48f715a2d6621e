// SPDX-License-Identifier: BSD-3-Clause
//! Owns the fields of a packet that rules are compared with.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::BitOr;

/// The fields of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same IP version.
    pub dst: IpAddr,
    /// IP protocol number.
    pub proto: u8,
    /// Source and destination port; `None` if the protocol has none, or they are not in the packet.
    pub ports: Option<[u16; 2]>,
    /// ICMP type and code; `None` unless it is an ICMP packet with a header.
    pub icmp: Option<[u8; 2]>,
    /// TCP flags; `None` unless it is a TCP segment with a header.
    pub tcp_flags: Option<u8>,
    /// Whether it is a fragment.
    pub fragment: Fragment,
    /// Zone of the packet.
    pub zone: u16,
    /// Relation to a connection.
    pub ct: CtStates,
    /// Mark of its connection; 0 if there is none.
    pub mark: u32,
}

impl Packet {
    /// A whole IPv4 packet of protocol 0 between unspecified addresses, to fill in.
    pub const EMPTY: Packet = Packet {
        src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        dst: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        proto: 0,
        ports: None,
        icmp: None,
        tcp_flags: None,
        fragment: Fragment::None,
        zone: 0,
        ct: CtStates::NEW,
        mark: 0,
    };
}

/// Kind of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// A whole packet.
    None,
    /// The first fragment, which has the transport header.
    First,
    /// Any other fragment.
    Later,
}

impl Fragment {
    /// Every kind and its name.
    pub const ALL: [(Fragment, &'static str); 3] =
        [(Fragment::None, "none"), (Fragment::First, "first"), (Fragment::Later, "later")];

    /// Returns a mask with the bit of this kind.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(kind, _)| kind == self);
        f.pad(named.map_or("", |(_, name)| name))
    }
}

/// Relations of a packet to a connection, as a set. A rule matches if it has one of the packet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CtStates(u8);

impl CtStates {
    /// The packet begins a connection, or its connection has no answer yet.
    pub const NEW: CtStates = CtStates(1);
    /// Both ends of its connection have sent packets.
    pub const ESTABLISHED: CtStates = CtStates(1 << 1);
    /// It is an ICMP error about a packet of a known connection.
    pub const RELATED: CtStates = CtStates(1 << 2);
    /// It goes to the originator of its connection.
    pub const REPLY: CtStates = CtStates(1 << 3);
    /// No connection can have this packet.
    pub const INVALID: CtStates = CtStates(1 << 4);
    /// The packet was not tracked.
    pub const UNTRACKED: CtStates = CtStates(1 << 5);
    /// Every state.
    pub const ANY: CtStates = CtStates(0x3f);

    /// Every state and its name.
    pub const ALL: [(CtStates, &'static str); 6] = [
        (CtStates::NEW, "new"),
        (CtStates::ESTABLISHED, "established"),
        (CtStates::RELATED, "related"),
        (CtStates::REPLY, "reply"),
        (CtStates::INVALID, "invalid"),
        (CtStates::UNTRACKED, "untracked"),
    ];

    /// True if both sets have a state in common.
    pub fn intersects(self, other: CtStates) -> bool {
        self.0 & other.0 != 0
    }

    /// True if a packet can have a state of this set and one of `other`: a reply is established or
    /// related as well.
    pub(crate) fn can_meet(self, other: Self) -> bool {
        let replies = CtStates::ESTABLISHED | CtStates::RELATED;
        let meets = |a: Self, b: Self| a.contains(CtStates::REPLY) && b.intersects(replies);
        self.intersects(other) || meets(self, other) || meets(other, self)
    }

    /// True if every state of `other` is in this set.
    pub fn contains(self, other: CtStates) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for CtStates {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        CtStates(self.0 | other.0)
    }
}

impl fmt::Display for CtStates {
    /// Writes the names of the states, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::ALL.iter().filter(|(state, _)| self.contains(*state));
        for (i, (_, name)) in names.enumerate() {
            write!(f, "{}{name}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
