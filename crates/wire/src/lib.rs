// SPDX-License-Identifier: BSD-3-Clause
//! Owns packet headers: bounds-checked views, checksums, a frame builder, and the trait [`Packet`].
//!
//! There is no clock, file or thread here, and no allocation outside the builder. No code here
//! decides about a packet; a view only returns fields. A view exists only if its whole header does,
//! so its accessors never fail.
#![forbid(unsafe_code)]

pub mod builder;
pub mod checksum;
pub mod ethernet;
pub mod header_match;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod proto;
pub mod proto_names;
pub mod reject;
pub mod rss;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod packet;

pub use builder::FrameBuilder;
pub use packet::{BytesPacket, Packet};

/// Returns the big-endian 16-bit number at `at`.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the big-endian 32-bit number at `at`.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
