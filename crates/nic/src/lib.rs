// SPDX-License-Identifier: BSD-3-Clause
//! Examines and drives the flow rules of NICs.
//!
//! [`probe`] tries which flow rules a NIC accepts, and writes its personality, a file that the
//! software NIC can play. [`flow`] is the shell for flow rules: it reads commands, sends them to
//! ports and explains the answers. [`advice`] finds a rule that a NIC would accept instead of a
//! refused one. The crate does not print; the program does.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod advice;
pub mod flow;
pub mod probe;
