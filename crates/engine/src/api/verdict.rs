// SPDX-License-Identifier: BSD-3-Clause
//! What to do with a packet.

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Send it out of the peer port.
    Forward,
    /// Free it; a counter in [`Stats::dropped`](crate::Stats::dropped) says why.
    Drop,
    /// Keep it in the slot that [`Engine::held`](crate::Engine::held) says, until
    /// [`Engine::next_release`](crate::Engine::next_release) says what becomes of it.
    Hold,
    /// Give it to the worker that [`Engine::handed`](crate::Engine::handed) says.
    Elsewhere,
}
