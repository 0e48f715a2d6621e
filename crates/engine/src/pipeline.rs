// SPDX-License-Identifier: BSD-3-Clause
//! The passes over one burst of packets, and the verdict of each.

mod verdicts;

pub(crate) use verdicts::{States, Unasked};
