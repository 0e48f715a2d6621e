// SPDX-License-Identifier: BSD-3-Clause
//! Limits on what the engine remembers of fragmented datagrams.

use crate::base::Nanos;

/// Limits of what is remembered of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Datagrams of each IP version that may be known in part; 0: none, and only first fragments
    /// have a connection. At most [`MAX_DATAGRAMS`].
    pub datagrams: u32,
    /// Those of one sender: an IPv4 address, or an IPv6 network of 64 bits. At least 1.
    pub per_source: u32,
    /// How long one is known, from its fragment that came first.
    pub timeout: Nanos,
    /// Packets that may wait for the first fragment of their datagram; 0: none waits. A quarter of
    /// them may be of one sender. At most [`MAX_HOLD`].
    pub hold: u16,
    /// How long each may wait.
    pub patience: Nanos,
}

/// Most datagrams of one IP version.
pub const MAX_DATAGRAMS: u32 = 1 << 22;

/// Most packets that wait.
pub const MAX_HOLD: u16 = 1 << 14;

impl Default for FragmentLimits {
    /// Fragments of a datagram come together, or within the few milliseconds by which one way is
    /// longer than another. What is left is lost, and its number comes round: after 65,536
    /// datagrams between two hosts of IPv4 (RFC 4963). Hosts wait for 30 s (Linux) to 60 s (RFC
    /// 8200 section 4.5), as they have to; Open vSwitch for 15 s, which is this.
    fn default() -> Self {
        Self {
            datagrams: 4096,
            per_source: 256,
            timeout: 15_000_000_000,
            hold: 256,
            patience: 20_000_000,
        }
    }
}
