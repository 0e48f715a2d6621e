// SPDX-License-Identifier: BSD-3-Clause
//! One connection: its two records, its state machines, TCP window and SCTP tags.
//!
//! A pure function of record and packet; knows no table.

mod matching;
mod sctp;

pub(crate) use sctp::tags::{Asker, Tags, Told};
