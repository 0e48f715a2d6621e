// SPDX-License-Identifier: BSD-3-Clause
//! Choices of an operator: what happens to packets and connections that are not as they should be.

/// Behaviour for a new flow when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Forward the packet without tracking it; counted as passed, `table_full`.
    PassUntracked,
    /// Drop the packet; counted as dropped, `table_full`.
    Drop,
}

/// Who goes when there is no room for a flow that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Nobody: there is no room.
    Nothing,
    /// The embryonic flow that began first. One that has had its answer is never evicted.
    Embryonic,
}

/// Behaviour for malformed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedPackets {
    /// Forward them as they are.
    Pass,
    /// Drop them.
    Drop,
}

/// What is believed of a packet that begins a connection, or changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumCheck {
    /// That it came as it was sent if its checksums are right. If one is wrong, the packet is
    /// [irregular](crate::Anomaly::Checksum).
    Verified,
    /// That it came as it was sent: in a capture of the host that sends, there are sums that its
    /// NIC had yet to fill in.
    Trusted,
}

/// What is believed of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpWindowCheck {
    /// Sequence numbers, acknowledgments and windows are followed, and what does not fit into them
    /// is [irregular](crate::Anomaly): it changes nothing.
    Judged,
    /// Its flags, whatever the numbers are: where only one direction is seen, or captures have
    /// lost packets.
    Ignored,
}

/// Behaviour for packets their connection cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPackets {
    /// Forward them, and count them to the flow.
    Pass,
    /// Drop them; counted as dropped, `invalid`. ICMP errors about no connection as `unrelated`.
    Drop,
}

/// What becomes of fragments that no correct sender makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFragments {
    /// They are forwarded as they are.
    Pass,
    /// They are dropped.
    Drop,
}

/// What a TCP connection may begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPickup {
    /// Any packet: a connection that was there before is known from its next packet on.
    Loose,
    /// A SYN.
    Strict,
}
