// SPDX-License-Identifier: BSD-3-Clause
//! Drops frames that cannot be forwarded whole: those that their port cut, and those longer than
//! the MTU of the next port. They are counted here, since no driver would count them.

use crate::live::ports::pair::PortPair;
use dpdk::Burst;
use wire::Packet;

/// Bytes of an Ethernet header.
const HEADER: u32 = 14;
/// Bytes of one VLAN tag, which an interface accepts in addition to its MTU.
const TAG: u32 = 4;
/// TPIDs of IEEE 802.1Q and 802.1ad.
const TPIDS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// The limits of one direction, in bytes of a frame without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLimits {
    /// Only longer frames are checked: no shorter one is cut or too long.
    checked_above: u32,
    /// Frames of at least this length may have been cut by their port.
    cuts_from: u32,
    /// MTU of the port that the frame should leave by.
    mtu: u32,
}

/// Whether a frame can be forwarded whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Whole,
    Cut,
    TooLong,
}

impl FrameLimits {
    /// Returns the limits of both directions of a wire, first from port A. `None` if every frame
    /// arrives whole and can leave: a NIC drops frames above its MTU. A Linux interface may deliver
    /// frames of any length, and silently refuses to send frames above its MTU.
    pub(crate) fn of(wire: &PortPair) -> [Option<Self>; 2] {
        let [a, b] = wire.interface_mtu;
        [Self::between(wire.cuts_from[0], b), Self::between(wire.cuts_from[1], a)]
    }

    fn between(cuts_from: Option<u32>, mtu: Option<u32>) -> Option<Self> {
        (mtu.is_some() || cuts_from.is_some())
            .then(|| Self::new(cuts_from.unwrap_or(u32::MAX), mtu.unwrap_or(u32::MAX)))
    }

    fn new(cuts_from: u32, mtu: u32) -> Self {
        let checked_above = mtu.saturating_add(HEADER).min(cuts_from - 1);
        Self { checked_above, cuts_from, mtu }
    }

    /// Frees frames that cannot be forwarded whole. Returns how many were cut, and how many were
    /// too long.
    #[inline]
    pub(crate) fn drop_unfit(&self, burst: &mut Burst) -> (u64, u64) {
        if burst.iter().all(|mbuf| mbuf.frame_len() as u32 <= self.checked_above) {
            return (0, 0);
        }
        self.check_each(burst)
    }

    #[cold]
    fn check_each(&self, burst: &mut Burst) -> (u64, u64) {
        let (mut cut, mut too_long) = (0, 0);
        burst.sort_out(|_, mbuf| match self.classify(mbuf.frame_len() as u32, mbuf.head()) {
            Fit::Whole => Some(mbuf),
            Fit::Cut => {
                cut += 1;
                None
            }
            Fit::TooLong => {
                too_long += 1;
                None
            }
        });
        (cut, too_long)
    }

    /// Classifies a frame of `length` bytes that begins with `bytes`.
    fn classify(&self, length: u32, bytes: &[u8]) -> Fit {
        let is_tag =
            |at: usize| bytes.get(at..at + 2).is_some_and(|it| TPIDS.iter().any(|t| t == it));
        let tags = if !is_tag(12) { 0 } else { 1 + u32::from(is_tag(16)) };
        if length >= self.cuts_from {
            Fit::Cut
        } else if length > self.mtu.saturating_add(HEADER + tags * TAG) {
            Fit::TooLong
        } else {
            Fit::Whole
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_no_payload_and_what_may_be_cut_goes_first() {
        let limits = FrameLimits::new(1982, 1500);
        let frame = |types: &[[u8; 2]]| {
            let mut bytes = [0; 64];
            for (tag, tpid) in types.iter().enumerate() {
                bytes[12 + 4 * tag..][..2].copy_from_slice(tpid);
            }
            bytes
        };
        let plain = frame(&[[0x08, 0x00]]);
        assert_eq!(limits.classify(1514, &plain), Fit::Whole);
        assert_eq!(limits.classify(1515, &plain), Fit::TooLong);
        assert_eq!(limits.classify(1518, &frame(&TPIDS[..1])), Fit::Whole);
        assert_eq!(limits.classify(1519, &frame(&TPIDS[..1])), Fit::TooLong);
        assert_eq!(limits.classify(1522, &frame(&[TPIDS[1], TPIDS[0]])), Fit::Whole);
        assert_eq!(limits.classify(1523, &frame(&[TPIDS[1], TPIDS[0]])), Fit::TooLong);
        assert_eq!(limits.classify(1982, &plain), Fit::Cut);
        assert_eq!(
            (limits.checked_above, FrameLimits::new(1000, u32::MAX).checked_above),
            (1514, 999)
        );
    }
}
