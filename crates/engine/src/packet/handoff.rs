// SPDX-License-Identifier: BSD-3-Clause
//! A packet that was parsed here and belongs to another worker.

use super::descriptor::{HeaderInfo, PacketMeta, TcpReach};

/// What another worker needs to go on with a packet that was parsed here.
#[derive(Clone, Copy)]
pub struct Handoff {
    pub(crate) words: [u64; 5],
    pub(crate) meta: PacketMeta,
    pub(crate) opening: HeaderInfo,
    pub(crate) reach: TcpReach,
    pub(crate) worker: u16,
    pub(crate) is_v6: bool,
}

/// A packet of the last burst that is to go to another worker.
#[derive(Clone, Copy)]
pub struct HandedOff {
    /// Its place in the burst.
    pub position: u8,
    /// What goes with it.
    pub handoff: Handoff,
}

impl Handoff {
    /// The worker that has the connection.
    pub fn worker(&self) -> u16 {
        self.worker
    }
}
