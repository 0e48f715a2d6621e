// SPDX-License-Identifier: BSD-3-Clause
//! Lengths of a frame, and the least size of each transport header.

use crate::api::{PROTO_TCP, PROTO_UDP};
use crate::packet::{TCP_MIN, UDP};

pub(super) const ETHERTYPE_VLAN: u16 = 0x8100;

/// Lengths of a packet beside those in its headers.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// Of the frame.
    pub(crate) frame: usize,
    /// To account for.
    pub(crate) bytes: usize,
}

/// What is to be known of a transport protocol. Looked up instead of asked for, because a branch
/// between TCP and UDP is guessed wrong in every other packet of mixed traffic.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    /// Least length of a header; 0: goes the long way.
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
