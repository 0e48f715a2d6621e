// SPDX-License-Identifier: BSD-3-Clause
//! Verifies a received frame: decides whether it is a packet of this run as it was sent, a damaged
//! one, or foreign.
//!
//! Addresses, ports, VLAN tags and TTL may differ, because devices on the way change them;
//! checksums must be right for what arrived. A packet may arrive in a tunnel, VXLAN or GTP-U, or
//! without the tunnel in which it was sent. A packet that was truncated on the way is damaged if
//! its stamp is still there.

use crate::dpdk_project;
use crate::filler::{Filler, Window};
use crate::segment::Segment;
use crate::stamp::{PayloadFormat, Stamp};
use wire::checksum::Sum;
use wire::proto;

/// The result of verifying a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A packet of this run, as it was sent.
    Good(Stamp),
    /// A damaged packet; with its stamp, if that is whole.
    Damaged(Option<Stamp>),
    /// No packet of this run.
    Foreign,
}

/// Knows the packets of a run.
#[derive(Debug)]
pub struct Verifier {
    filler: Filler,
    format: PayloadFormat,
}

/// A payload of this run.
struct Read {
    stamp: Stamp,
    /// True if every byte is as it was sent.
    is_exact: bool,
    len: usize,
}

impl Verifier {
    /// Returns a verifier for packets that were sent with the same seed and format.
    pub fn new(seed: u64, format: impl Into<PayloadFormat>) -> Self {
        Self { filler: Filler::new(seed), format: format.into() }
    }

    /// Judges a frame of one segment.
    #[inline]
    pub fn examine(&self, frame: &[u8]) -> Finding {
        match Segment::find(frame) {
            Some(segment) => match self.judge(&segment) {
                Some(Finding::Good(stamp)) => Finding::Good(stamp),
                finding => self.judge_other(&segment, finding),
            },
            None => self.examine_cut(frame),
        }
    }

    /// Verifies the payload of a UDP packet whose headers and checksums are already verified, as by
    /// the kernel for a socket.
    pub fn examine_payload(&self, payload: &[u8]) -> Finding {
        match self.read(payload) {
            None => Finding::Foreign,
            Some(Read { stamp, is_exact: true, .. }) => Finding::Good(stamp),
            Some(Read { stamp, .. }) => Finding::Damaged(Some(stamp)),
        }
    }

    /// Judges a frame without a whole segment.
    #[cold]
    fn examine_cut(&self, frame: &[u8]) -> Finding {
        let Some(segment) = Segment::find_cut(frame) else { return Finding::Foreign };
        self.judge_other(&segment, self.judge(&segment))
    }

    /// Judges a segment with a payload of this run.
    #[inline(always)]
    fn judge(&self, segment: &Segment) -> Option<Finding> {
        let payload = segment.bytes.get(segment.header_len..)?;
        let read = match segment.protocol {
            proto::SCTP => self.read_sctp(segment.sctp_data(), payload)?,
            _ => self.read(payload)?,
        };
        let sum = || {
            let (header, payload) = segment.bytes.split_at(segment.header_len);
            Sum::default().add_bytes(header) + self.sum(&read, payload)
        };
        let is_good = read.is_exact
            && self.format.has_protocol(segment.protocol)
            && segment.is_ip_right
            && segment.is_right(sum);
        Some(if is_good { Finding::Good(read.stamp) } else { Finding::Damaged(Some(read.stamp)) })
    }

    /// Reads the payload of a DATA chunk, or one without a chunk, such as that of TRex's probes.
    fn read_sctp(&self, data: Option<&[u8]>, bare: &[u8]) -> Option<Read> {
        // A bare stamp that looks like the head of a chunk: one in 65,536.
        data.and_then(|data| self.read(data)).or_else(|| self.read(bare))
    }

    /// Reads a payload; `None` if it is not of this run.
    #[inline(always)]
    fn read(&self, payload: &[u8]) -> Option<Read> {
        let (stamp, is_exact) = match self.format {
            PayloadFormat::Stamped(key) => {
                let (stamp, rest) = payload.split_first_chunk()?;
                let stamp = Stamp::read(stamp, key)?;
                let window = Window::of(stamp.lane, stamp.index);
                (stamp, self.filler.has(window, rest))
            }
            PayloadFormat::DpdkProject { seed, senders } => {
                dpdk_project::read(payload, seed, senders)?
            }
        };
        Some(Read { stamp, is_exact, len: payload.len() })
    }

    /// Returns the sum of an exact payload.
    #[inline(always)]
    fn sum(&self, read: &Read, payload: &[u8]) -> Sum {
        match self.format {
            // What was compared need not be added up.
            PayloadFormat::Stamped(key) => {
                let window = Window::of(read.stamp.lane, read.stamp.index);
                read.stamp.sum(key) + self.filler.sum(window, read.len - Stamp::LEN)
            }
            PayloadFormat::DpdkProject { .. } => Sum::default().add_bytes(payload),
        }
    }

    /// Judges a segment that is not good as it is: it may be a tunnel with a packet of this run,
    /// even if a damaged stamp was found, as one in 65,536 tunnels begins as a stamp does. With no
    /// stamp at all it may be one whose stamp is damaged.
    #[cold]
    fn judge_other(&self, segment: &Segment, finding: Option<Finding>) -> Finding {
        if let Some((inside, is_right)) = segment.open_tunnel() {
            match self.judge(&inside) {
                Some(Finding::Good(stamp)) if !is_right => return Finding::Damaged(Some(stamp)),
                Some(finding) => return finding,
                None => {}
            }
        }
        let sum = || Sum::default().add_bytes(segment.bytes);
        let is_foreign = || segment.is_cut || segment.is_ip_right && segment.is_right(sum);
        match finding {
            Some(finding) => finding,
            None if is_foreign() => Finding::Foreign,
            None => Finding::Damaged(None),
        }
    }
}
