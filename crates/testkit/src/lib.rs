// SPDX-License-Identifier: BSD-3-Clause
//! What tests and benches of several crates share.
//!
//! No product code depends on this crate: it stands below `[dev-dependencies]` only, and the test
//! of manifests checks that. It never depends on `engine`, so that the tests of the software NIC
//! can use it and stay independent. A helper that one crate uses alone stays in that crate.
//!
//! Helpers panic where a test would fail anyway.

#![forbid(unsafe_code)]

pub mod capture;
pub mod host;
pub mod layers;
pub mod namespace;
#[cfg(feature = "dpdk")]
pub mod port;
pub mod process;
pub mod random;
pub mod scratch;
pub mod stream;

/// Returns how much a test does: `full` if the variable `MILLRACE_FULL` is set, as by `make
/// prove-...`, and otherwise `small`.
pub fn sized(small: u32, full: u32) -> u32 {
    if std::env::var_os("MILLRACE_FULL").is_some() { full } else { small }
}
