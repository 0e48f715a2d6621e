// SPDX-License-Identifier: BSD-3-Clause
//! Tests the documented facts of each personality one by one, as tables of a rule and the answer.
//!
//! A pattern is written as headers with their masked fields: `tcp dst` has a full mask, `tcp
//! dst:part` a partial one. `tcp 0` has a spec and a mask without bits, `tcp` has neither, and
//! `tcp ?dst` has a spec without a mask.

mod facts {
    mod faults;
    mod notation;
    mod refusals;
    mod state;
    mod switch;
}
