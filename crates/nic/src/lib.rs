// SPDX-License-Identifier: BSD-3-Clause
//! Examines what NICs do with packets by themselves.
//!
//! [`probe`] tries which flow rules a NIC accepts, and writes its personality, a file that the
//! software NIC can play. [`flow`] is the shell for flow rules: it reads commands, sends them to
//! ports and explains the answers. [`advice`] finds the rule that a NIC would accept instead of a
//! refused one. The crate writes to no terminal: command lines are the program's.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod advice;
pub mod flow;
pub mod probe;
