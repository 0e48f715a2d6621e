// SPDX-License-Identifier: BSD-3-Clause
//! Packet headers and nothing else: bounds-checked views, checksums, a frame builder, and the one
//! trait at the packet edge.
//!
//! Pure: no clock, no file, no thread, no allocation outside the builder. Nothing here judges a
//! packet; a view only says what bytes are there.
#![forbid(unsafe_code)]

mod packet;

pub use packet::{BytesPacket, Packet};
