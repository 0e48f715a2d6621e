// SPDX-License-Identifier: BSD-3-Clause
//! Owns the limits of fragment tracking.

use crate::base::Nanos;

/// Limits of fragment tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Maximum number of incomplete datagrams per IP version, at most [`MAX_DATAGRAMS`].
    ///
    /// With 0, no datagram is tracked, and only first fragments are counted to a connection.
    pub datagrams: u32,
    /// Maximum number of datagrams of one sender: an IPv4 address, or an IPv6 /64. At least 1.
    pub per_source: u32,
    /// Lifetime of a datagram, from its first fragment to arrive.
    pub timeout: Nanos,
    /// Maximum number of packets that wait for the first fragment of their datagram, at most
    /// [`MAX_HOLD`].
    ///
    /// With 0, none waits. A quarter of them may belong to one sender.
    pub hold: u16,
    /// Maximum time that a packet waits.
    pub hold_timeout: Nanos,
}

/// Maximum number of datagrams of one IP version.
pub const MAX_DATAGRAMS: u32 = 1 << 22;

/// Maximum number of packets that wait.
pub const MAX_HOLD: u16 = 1 << 14;

impl Default for FragmentLimits {
    /// Fragments of a datagram arrive together, or within the few milliseconds by which paths
    /// differ.
    ///
    /// Missing fragments are lost, and the datagram's identification is used again: after 65,536
    /// datagrams between two IPv4 hosts (RFC 4963). Hosts must wait for 30 s (Linux) to 60 s (RFC
    /// 8200 section 4.5). Open vSwitch waits for 15 s, and so does this default.
    fn default() -> Self {
        Self {
            datagrams: 4096,
            per_source: 256,
            timeout: 15_000_000_000,
            hold: 256,
            hold_timeout: 20_000_000,
        }
    }
}
