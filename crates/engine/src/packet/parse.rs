// SPDX-License-Identifier: BSD-3-Clause
//! Parses packets into flow keys, or into the [`UntrackedReason`] of a packet that has no key.
//!
//! Every access is bounds-checked, and no input causes a panic. Three parsers have the same result:
//! a SIMD parser for plain packets side by side, a fast one for nearly every packet, and a general
//! one for all. Property tests compare them with each other, and with an independent parser.
//!
//! [`UntrackedReason`]: crate::api::UntrackedReason

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
pub(crate) use general::ethernet_fields;
pub(crate) use lengths::Lengths;
pub(crate) use plain::{is_ipv6, plain_all};
pub(crate) use sub_burst::{PART, SubBurst};

#[cfg(test)]
mod tests;
