// SPDX-License-Identifier: BSD-3-Clause
//! Serves commands and subscriptions of clients inside a worker, a little of each between bursts.

pub(crate) mod queue;
pub(crate) mod subscribers;
