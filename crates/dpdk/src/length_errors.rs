// SPDX-License-Identifier: BSD-3-Clause
//! Counts frames with a wrong length that a driver leaves out of `ierrors`.
//!
//! igb and igc count them as length errors (RLEC) and, by kind, as oversize and undersize (ROC,
//! RUC). `ierrors` has RLEC only: on hardware it includes the other two. The igb of QEMU 10 counts
//! ROC only.

use std::ffi::CStr;

/// Drivers with these counters.
const DRIVERS: [&str; 2] = ["net_e1000_igb", "net_igc"];

/// Returns the number of frames that `ierrors` of the driver misses. `read` returns an extended
/// statistic of its port.
pub(crate) fn missing(driver: &str, read: impl Fn(&CStr) -> Option<u64>) -> u64 {
    if !DRIVERS.contains(&driver) {
        return 0;
    }
    let read = |name| read(name).unwrap_or(0);
    let by_kind = read(c"rx_oversize_errors") + read(c"rx_undersize_errors");
    by_kind.saturating_sub(read(c"rx_length_errors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_added() {
        let counters = |of_length: u64| {
            move |name: &CStr| match name.to_str().unwrap() {
                "rx_oversize_errors" => Some(7),
                "rx_length_errors" => Some(of_length),
                _ => None,
            }
        };
        assert_eq!(missing("net_e1000_igb", counters(0)), 7);
        assert_eq!(missing("net_igc", counters(7)), 0);
        assert_eq!(missing("net_ixgbe", counters(0)), 0);
    }
}
