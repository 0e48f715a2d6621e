// SPDX-License-Identifier: BSD-3-Clause
//! Computes rates and shares from counters.

/// Bytes that a frame takes on the wire beside its own: FCS, preamble and gap.
pub(crate) const WIRE_OVERHEAD: u64 = 24;

/// Returns megabits per second on the wire.
pub(crate) fn wire_mbps(packets: u64, bytes: u64, seconds: f64) -> f64 {
    (bytes + packets * WIRE_OVERHEAD) as f64 * 8.0 / seconds / 1e6
}

/// Returns `part` of `whole` in percent; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
