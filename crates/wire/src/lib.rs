// SPDX-License-Identifier: BSD-3-Clause
//! Packet headers and nothing else: bounds-checked views, checksums, a frame builder, and the one
//! trait at the packet edge.
//!
//! Pure: no clock, no file, no thread, no allocation outside the builder. Nothing here judges a
//! packet; a view only says what bytes are there. A view exists only if its whole header does, so
//! its accessors never fail.
#![forbid(unsafe_code)]

pub mod builder;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod proto;
pub mod proto_names;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod packet;

pub use builder::FrameBuilder;
pub use packet::{BytesPacket, Packet};

/// The big-endian 16-bit number at `at`.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit number at `at`.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
