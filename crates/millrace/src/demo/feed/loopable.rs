// SPDX-License-Identifier: BSD-3-Clause
//! Holds a capture in memory to send it in a loop, each frame from the side of its sender.
//!
//! A capture does not say at which side of the bump a packet arrived, but a sender does not move.
//! The sender of a first packet to an unknown host is taken to be on side A, and the receiver on
//! side B.

use capture::{Capture, CapturedPacket, Fault};
use std::collections::HashMap;
use std::net::IpAddr;
use traffic::Side;
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::vlan::{self, Vlan};

/// Longest frame that is sent: a jumbo frame with two VLAN tags.
const FRAME_MAX: usize = 9022;
/// Most frame bytes kept; the rest of the capture is left out.
const BYTES_MAX: usize = 1 << 30;

/// The frames of a capture.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Side of each frame and its end in `bytes`, in capture order.
    frames: Vec<(Side, usize)>,
    max_frame: usize,
    next: usize,
    /// Packets that cannot be sent over Ethernet: too short, too long, or of another link type.
    pub(crate) left_out: u64,
    /// Why the capture could not be read further; `None` if it was read to its end.
    pub(crate) fault: Option<Fault>,
}

/// Why a capture cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFrames {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{0}: no packet in it can be sent over Ethernet")]
    Empty(String),
}

impl Frames {
    /// Reads the capture to its end or its fault. A fault before the first frame is an error.
    pub(crate) fn read(name: &str, capture: &mut Capture) -> Result<Self, NoFrames> {
        let mut frames = Self::default();
        let mut sides = Sides::default();
        while frames.bytes.len() <= BYTES_MAX {
            match capture.next() {
                Ok(Some(packet)) => frames.push(&packet, &mut sides),
                Ok(None) => break,
                Err(fault) => {
                    frames.fault = Some(fault);
                    break;
                }
            }
        }
        if !frames.frames.is_empty() {
            return Ok(frames);
        }
        Err(frames.fault.map_or_else(|| NoFrames::Empty(name.to_owned()), NoFrames::Fault))
    }

    /// Adds a packet. Pads it with zeros to its original length, so that its length fields are
    /// right.
    fn push(&mut self, packet: &CapturedPacket<'_>, sides: &mut Sides) {
        let start = self.bytes.len();
        let len = packet.append_ethernet(&mut self.bytes).map(|frame| frame.frame_len);
        let Some(len) = len.filter(|len| (Ethernet::LEN..=FRAME_MAX).contains(len)) else {
            self.bytes.truncate(start);
            self.left_out += 1;
            return;
        };
        self.bytes.resize(start + len, 0);
        let side = sides.of(&self.bytes[start..]);
        self.frames.push((side, start + len));
        self.max_frame = self.max_frame.max(len);
    }

    /// Returns the number of frames in one round.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the bytes of the longest frame.
    pub(crate) fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// Writes the next frame into `buf`; returns the side where it enters, and its length.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) -> (Side, usize) {
        let start = self.next.checked_sub(1).map_or(0, |previous| self.frames[previous].1);
        let (side, end) = self.frames[self.next];
        buf[..end - start].copy_from_slice(&self.bytes[start..end]);
        self.next = (self.next + 1) % self.frames.len();
        (side, end - start)
    }
}

/// The side of each host.
#[derive(Default)]
struct Sides(HashMap<HostId, Side>);

/// Identifies a sender or receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum HostId {
    Mac([u8; 6]),
    Ip(IpAddr),
}

impl Sides {
    /// Returns the side of the sender of `frame`.
    fn of(&mut self, frame: &[u8]) -> Side {
        let Some((src, dst)) = stations(frame) else { return Side::A };
        let across = self.0.get(&dst).map(|side| side.other());
        let side = *self.0.entry(src).or_insert(across.unwrap_or(Side::A));
        self.0.entry(dst).or_insert(side.other());
        side
    }
}

fn stations(frame: &[u8]) -> Option<(HostId, HostId)> {
    let ethernet = Ethernet::new(frame)?;
    let (mut ether_type, mut payload) = (ethernet.ether_type(), ethernet.payload());
    while vlan::is_tag(ether_type) {
        let tag = Vlan::new(payload)?;
        (ether_type, payload) = (tag.ether_type(), tag.payload());
    }
    let ip = match ether_type {
        ether_type::IPV4 => Ipv4::new(payload).map(|ip| (ip.src().into(), ip.dst().into())),
        ether_type::IPV6 => Ipv6::new(payload).map(|ip| (ip.src().into(), ip.dst().into())),
        _ => None,
    };
    Some(match ip {
        Some((src, dst)) => (HostId::Ip(src), HostId::Ip(dst)),
        None => (HostId::Mac(ethernet.src()), HostId::Mac(ethernet.dst())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use traffic::PcapWriter;
    use wire::FrameBuilder;

    fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut pcap = PcapWriter::new(Vec::new()).unwrap();
        frames.iter().for_each(|frame| pcap.write(0, frame).unwrap());
        pcap.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<Frames, NoFrames> {
        Frames::read("test", &mut Capture::new("test", Cursor::new(file.to_vec()))?)
    }

    #[test]
    fn each_frame_comes_from_the_side_of_its_sender_again_and_again() {
        let request = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).vlan(5).udp(1000, 53);
        let other = FrameBuilder::ipv4([10, 0, 0, 3], [10, 0, 0, 2]).udp(7, 53).build();
        let frames = [request.build(), request.reversed().payload(b"answer").build(), other];
        let mut looped = read(&pcap(&frames)).unwrap();
        assert_eq!((looped.len(), looped.left_out), (3, 0));
        assert!(looped.fault.is_none());
        let mut buf = vec![0; looped.max_frame()];
        for _ in 0..3 {
            for (frame, expected) in frames.iter().zip([Side::A, Side::B, Side::A]) {
                let (side, len) = looped.fill(&mut buf);
                assert_eq!((side, &buf[..len]), (expected, &frame[..]));
            }
        }
    }

    #[test]
    fn a_capture_that_is_cut_gives_the_frames_before_the_cut() {
        const HEADERS_LEN: usize = 24 + 16;
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(7, 53).build();
        let first_end = HEADERS_LEN + frame.len();
        let file = pcap(&[frame.clone(), frame]);
        for cut in first_end + 1..file.len() {
            let frames = read(&file[..cut]).unwrap();
            let fault = frames.fault.as_ref().map(Fault::to_string).unwrap();
            let message = format!("test: packet 2 at byte {first_end}: truncated");
            assert!(fault.starts_with(&message), "{fault}");
            assert_eq!(frames.len(), 1);
        }
        for cut in HEADERS_LEN..first_end {
            assert!(matches!(read(&file[..cut]), Err(NoFrames::Fault(_))), "cut at {cut}");
        }
    }
}
