// SPDX-License-Identifier: BSD-3-Clause
//! Compares the rate of frames sent with the maximum rate of the link.

use crate::schema::{Counted, Link};
use crate::{FCS, WIRE_EXTRA};

impl Link {
    /// Compares frames sent with the maximum rate of a link of this speed. `None` if nothing was
    /// sent or the speed is 0.
    pub fn of(sent: &Counted, mbps: u32) -> Option<Self> {
        if sent.packets == 0 || mbps == 0 {
            return None;
        }
        let mean = sent.bytes as f64 / sent.packets as f64;
        let pps = f64::from(mbps) * 1e6 / ((mean + WIRE_EXTRA as f64) * 8.0);
        let share_percent = 100.0 * sent.pps / pps;
        Some(Self { frame_bytes: mean + FCS as f64, pps, share_percent })
    }

    /// True unless the rate is above the maximum of the link. That happens on ports that report a
    /// speed and have no link. A rate measured at 100 % may be a little above it.
    pub(crate) fn is_credible(&self) -> bool {
        self.share_percent < 100.05
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2544, section 20, table of maximum frame rates on Ethernet of 10 Mb/s.
    #[test]
    fn a_link_carries_what_the_rfc_says() {
        let frames_per_second = [
            (64, 14_880),
            (128, 8445),
            (256, 4528),
            (512, 2349),
            (1024, 1197),
            (1280, 961),
            (1518, 812),
        ];
        for (size, rate) in frames_per_second {
            let sent = Counted::new(1000, 1000 * (size - 4), 1_000_000_000);
            let link = Link::of(&sent, 10).unwrap();
            assert_eq!((link.pps.floor() as u64, link.frame_bytes), (rate, size as f64));
            assert!((link.share_percent - 100_000.0 / link.pps).abs() < 1e-9);
            // The share by the bits on the wire is equal.
            assert!((link.share_percent - sent.wire_mbps * 10.0).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_sent_is_no_share() {
        assert_eq!(Link::of(&Counted::default(), 10_000), None);
        let one = Counted::new(1, 60, 0);
        assert_eq!(Link::of(&one, 10_000).unwrap().share_percent, 0.0);
    }
}
