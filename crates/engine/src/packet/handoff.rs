// SPDX-License-Identifier: BSD-3-Clause
//! Owns the hand-off: a packet that this worker parsed and that belongs to another worker.

use super::descriptor::{HeaderInfo, PacketMeta, TcpReach};

/// Everything that another worker needs to continue with a parsed packet.
#[derive(Clone, Copy)]
pub struct Handoff {
    pub(crate) words: [u64; 5],
    pub(crate) meta: PacketMeta,
    pub(crate) info: HeaderInfo,
    pub(crate) reach: TcpReach,
    pub(crate) worker: u16,
    pub(crate) is_v6: bool,
}

/// A packet of the last burst, to be handed to another worker.
#[derive(Clone, Copy)]
pub struct HandedOff {
    /// Position in the burst.
    pub position: u8,
    /// Data for the other worker.
    pub handoff: Handoff,
}

impl Handoff {
    /// Returns the index of the worker that has the connection.
    pub fn worker(&self) -> u16 {
        self.worker
    }
}
