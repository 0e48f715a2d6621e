// SPDX-License-Identifier: BSD-3-Clause
//! Owns the ports of a run: pairs, shared access, leases of their queues, resets, events.

pub(crate) mod event;
pub(crate) mod frame_limits;
pub(crate) mod pair;
pub(crate) mod queue_lease;
pub(crate) mod reset;
pub(crate) mod shared;
pub(crate) mod watch;
