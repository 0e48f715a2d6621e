// SPDX-License-Identifier: BSD-3-Clause
//! The documented facts of each personality, one by one, as a table: a rule, and what the NIC says.
//!
//! A pattern is written as headers with the fields that are masked: `tcp dst` wholly,
//! `tcp dst:part` in part; `tcp 0` gives a spec and a mask without bits, `tcp` gives neither, and
//! `tcp ?dst` gives a spec without a mask.

mod facts {
    mod faults;
    mod notation;
    mod refusals;
    mod state;
    mod switch;
}
