// SPDX-License-Identifier: BSD-3-Clause
//! Owns the verdict, the engine's decision on a packet.

/// The engine's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Send it out of the peer port.
    Forward,
    /// Free it. A counter in [`Stats::dropped`](crate::Stats::dropped) gives the reason.
    Drop,
    /// Free it, and tell its sender so, if the RFCs allow an answer. It is counted as
    /// [`Denied`](crate::UntrackedReason::Denied), as packets that an access list denies are.
    Reject,
    /// Keep it in the slot that [`Engine::held`](crate::Engine::held) returns, until
    /// [`Engine::next_release`](crate::Engine::next_release) returns the slot and its final
    /// verdict.
    Hold,
    /// Hand it to the worker that [`Engine::handed`](crate::Engine::handed) returns.
    Elsewhere,
}
