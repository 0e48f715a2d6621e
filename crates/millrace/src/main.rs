// SPDX-License-Identifier: BSD-3-Clause
//! Millrace.
#![forbid(unsafe_code)]
fn main() {}
