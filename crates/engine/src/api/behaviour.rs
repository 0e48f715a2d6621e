// SPDX-License-Identifier: BSD-3-Clause
//! Owns the choices of an operator for unusual packets and connections.

/// Depth of tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracking {
    /// Packets are forwarded, and counted as passed, `tracking_off`.
    Off,
    /// Both directions of a flow have one record: packets, bytes, TCP flags, first and last time.
    /// There are no protocol states and no checks of packets. A flow ends by its timeout.
    Flows,
    /// Connections have states, and their packets are checked.
    Connections,
}

/// Treatment of a new connection when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Forward the packet without tracking it; counted as passed, `table_full`.
    PassUntracked,
    /// Drop the packet; counted as dropped, `table_full`.
    Drop,
}

/// Selects the connection that is evicted when a new one finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// None: the new connection finds no room.
    Nothing,
    /// The oldest embryonic connection. A connection that has its answer is never evicted.
    Embryonic,
}

/// Treatment of malformed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedPackets {
    /// Forward them as they are.
    Pass,
    /// Drop them.
    Drop,
}

/// Verification of checksums of a packet that begins a connection or changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumCheck {
    /// Checksums are verified. A packet with a wrong one is an [anomaly](crate::Anomaly::Checksum).
    Verified,
    /// Checksums are ignored. In a capture taken on the sending host, the NIC had yet to fill some
    /// in.
    Trusted,
}

/// Treatment of IPv6 neighbour discovery and multicast listener discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourDiscovery {
    /// The messages are part of no connection, as in Linux.
    Untracked,
    /// Each sender and receiver have a connection for each type of message.
    Tracked,
}

/// Check of TCP segments against the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpWindowCheck {
    /// Sequence numbers, acknowledgments and windows are tracked. A segment outside of them is an
    /// [anomaly](crate::Anomaly) and changes no state.
    Strict,
    /// Only flags count. For links where only one direction is visible, or captures that lost
    /// packets.
    Liberal,
}

/// Treatment of packets that their connection cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPackets {
    /// Forward them, and count them to the connection.
    Pass,
    /// Drop them, counted as dropped, `invalid`. ICMP errors about no connection are counted as
    /// `unrelated`.
    Drop,
}

/// Treatment of fragments that no correct sender makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFragments {
    /// Forward them as they are.
    Pass,
    /// Drop them.
    Drop,
}

/// Packets with which a TCP connection may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPickup {
    /// Any packet: Millrace picks up an existing connection with its next packet.
    Loose,
    /// Only a SYN.
    Strict,
}
