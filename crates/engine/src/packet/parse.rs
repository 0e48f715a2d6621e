// SPDX-License-Identifier: BSD-3-Clause
//! Bytes to flow key: every byte bounds-checked, never a panic, one [`UntrackedReason`] for
//! whatever has no key.
//!
//! Three ways to the same result: plain packets side by side, what nearly every packet is in short,
//! and a long way for everything. Property tests hold them against each other, and against a parser
//! that is not ours.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "x86_64", avx512))]
mod avx512;
mod dispatch;
mod fast;
mod fragment;
mod frame;
mod general;
mod icmp_error;
mod lengths;
mod plain;
mod sub_burst;

pub(crate) use dispatch::parse;
pub(crate) use fast::uncounted;
pub(crate) use lengths::Lengths;
pub(crate) use plain::plain_all;
pub(crate) use sub_burst::{PART, SubBurst};

#[cfg(test)]
mod tests;
