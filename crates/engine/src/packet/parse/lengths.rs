// SPDX-License-Identifier: BSD-3-Clause
//! Owns the lengths of a frame, and the minimum size of each transport header.

use crate::api::{PROTO_TCP, PROTO_UDP};
use crate::packet::{TCP_MIN, UDP};

pub(super) const ETHERTYPE_VLAN: u16 = 0x8100;

/// Lengths of a packet that are not in its headers.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// Bytes of the frame.
    pub(crate) frame: usize,
    /// Bytes to count.
    pub(crate) bytes: usize,
}

/// Parsing constants of a transport protocol.
///
/// They are looked up, because a branch between TCP and UDP is mispredicted for every other packet
/// of mixed traffic.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    /// Minimum length of a header; 0 if only the general parser handles the protocol.
    pub(super) least: u16,
    /// All ones for TCP.
    pub(super) tcp: u16,
}

pub(super) static TRANSPORTS: [Transport; 256] = {
    let mut transports = [Transport { least: 0, tcp: 0 }; 256];
    transports[PROTO_TCP as usize] = Transport { least: TCP_MIN as u16, tcp: u16::MAX };
    transports[PROTO_UDP as usize] = Transport { least: UDP as u16, tcp: 0 };
    transports
};
