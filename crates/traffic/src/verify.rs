// SPDX-License-Identifier: BSD-3-Clause
//! Verifies received frames: each is a packet of this run as it was sent, a damaged one, or
//! foreign.
//!
//! Addresses, ports, VLAN tags and TTL may differ from those sent, because devices change them.
//! Checksums must be right for the frame that arrived. A packet may arrive in a VXLAN or GTP-U
//! tunnel, or without the tunnel in which it was sent. A packet that was truncated on the way is
//! damaged if its stamp is still there, else foreign.

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
    /// A damaged packet, with its stamp if the stamp could be read.
    Damaged(Option<Stamp>),
    /// A packet that is not of this run.
    Foreign,
}

/// Verifies the packets of a run.
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
    /// Makes a verifier for packets that are sent with this seed and format.
    pub fn new(seed: u64, format: impl Into<PayloadFormat>) -> Self {
        Self { filler: Filler::new(seed), format: format.into() }
    }

    /// Verifies a frame.
    #[inline]
    pub fn examine(&self, frame: &[u8]) -> Finding {
        match Segment::find(frame) {
            Some(segment) => match self.check_segment(&segment) {
                Some(Finding::Good(stamp)) => Finding::Good(stamp),
                finding => self.classify_other(&segment, finding),
            },
            None => self.examine_cut(frame),
        }
    }

    /// Verifies the payload of a UDP packet. Its headers and checksums are already verified, such
    /// as by the kernel for a socket.
    pub fn examine_payload(&self, payload: &[u8]) -> Finding {
        match self.read(payload) {
            None => Finding::Foreign,
            Some(Read { stamp, is_exact: true, .. }) => Finding::Good(stamp),
            Some(Read { stamp, .. }) => Finding::Damaged(Some(stamp)),
        }
    }

    /// Verifies a frame without a complete segment.
    #[cold]
    fn examine_cut(&self, frame: &[u8]) -> Finding {
        let Some(segment) = Segment::find_cut(frame) else { return Finding::Foreign };
        self.classify_other(&segment, self.check_segment(&segment))
    }

    /// Verifies a segment. Returns `None` if its payload is not of this run.
    #[inline(always)]
    fn check_segment(&self, segment: &Segment) -> Option<Finding> {
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

    /// Reads the payload of a DATA chunk, or a payload without chunks, as in the probes of TRex.
    fn read_sctp(&self, data: Option<&[u8]>, bare: &[u8]) -> Option<Read> {
        // A stamp without a chunk may by chance look like the header of a chunk.
        data.and_then(|data| self.read(data)).or_else(|| self.read(bare))
    }

    /// Reads a payload. Returns `None` if it is not of this run.
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

    /// Returns the one's-complement sum of a payload whose bytes are as they were sent.
    #[inline(always)]
    fn sum(&self, read: &Read, payload: &[u8]) -> Sum {
        match self.format {
            // The bytes are known, so their sum is too.
            PayloadFormat::Stamped(key) => {
                let window = Window::of(read.stamp.lane, read.stamp.index);
                read.stamp.sum(key) + self.filler.sum(window, read.len - Stamp::LEN)
            }
            PayloadFormat::DpdkProject { .. } => Sum::default().add_bytes(payload),
        }
    }

    /// Decides about a segment whose own payload is not good.
    ///
    /// The segment may be a tunnel with a packet of this run. That is tried even if `finding` is
    /// damaged, because one in 65,536 tunnels looks like a stamp. Without a stamp, a
    /// complete segment is damaged if a checksum is wrong; all others are foreign.
    #[cold]
    fn classify_other(&self, segment: &Segment, finding: Option<Finding>) -> Finding {
        if let Some((inside, is_right)) = segment.open_tunnel() {
            match self.check_segment(&inside) {
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
