// SPDX-License-Identifier: BSD-3-Clause
//! One packet meets one connection: counted, tracked, admitted, reopened, expired.
//!
//! Keeps the table and the NIC rules in step.

mod records;
mod restore;
mod timeouts;
mod walk;

pub(crate) use walk::Fate;
