// SPDX-License-Identifier: BSD-3-Clause
//! What happened: counters, queues of flow records and events, connections counted against limits.

mod events;

pub(crate) use events::Events;
