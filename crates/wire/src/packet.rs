// SPDX-License-Identifier: BSD-3-Clause
//! Owns the trait by which packets are read, whether they are mbufs, captures or test data.

/// A frame that starts with its Ethernet header and has no FCS.
///
/// Its bytes may lie in several segments (chained mbufs), and a capture may hold fewer bytes than
/// were on the wire. Parsers read [`head`](Packet::head) first. They use
/// [`copy_to`](Packet::copy_to) only if a header crosses the end of the first segment.
pub trait Packet {
    /// Returns the first segment: contiguous bytes from the start of the frame, possibly none.
    fn head(&self) -> &[u8];

    /// Returns the length of the whole frame, all segments, in bytes without FCS.
    ///
    /// For a packet cut by the capture this is the length before the cut, so it can exceed what
    /// `copy_to` copies.
    fn frame_len(&self) -> usize;

    /// Returns the number of bytes to count for this packet.
    ///
    /// It differs from `frame_len` only if a capture of another link type is presented with a
    /// synthetic Ethernet header.
    #[inline(always)]
    fn wire_len(&self) -> usize {
        self.frame_len()
    }

    /// Returns the mark that a flow rule of the NIC put on the packet.
    #[inline(always)]
    fn mark(&self) -> Option<u32> {
        None
    }

    /// Returns the mark, or 0 if the packet has none.
    ///
    /// Implementations avoid a branch if possible: whether the next packet has a mark is
    /// unpredictable.
    #[inline(always)]
    fn mark_or_zero(&self) -> u32 {
        self.mark().unwrap_or(0)
    }

    /// True if a flow rule of the NIC put a mark on the packet. Implementations avoid a branch, as
    /// those of [`mark_or_zero`](Packet::mark_or_zero) do.
    #[inline(always)]
    fn is_marked(&self) -> bool {
        self.mark().is_some()
    }

    /// True if the NIC has verified the checksums of IP and transport. False if they are wrong or
    /// were not verified.
    #[inline(always)]
    fn is_verified(&self) -> bool {
        false
    }

    /// Copies the start of the frame across segments into `buf`, and returns the number of bytes
    /// copied.
    ///
    /// The number is less than `buf.len()` only if the frame, or its captured part, is shorter.
    fn copy_to(&self, buf: &mut [u8]) -> usize;

    /// Calls `see` with each segment in order, as far as it was captured.
    fn segments(&self, see: &mut dyn FnMut(&[u8]));
}

impl<P: Packet> Packet for &P {
    #[inline(always)]
    fn head(&self) -> &[u8] {
        (**self).head()
    }

    #[inline(always)]
    fn frame_len(&self) -> usize {
        (**self).frame_len()
    }

    #[inline(always)]
    fn wire_len(&self) -> usize {
        (**self).wire_len()
    }

    #[inline(always)]
    fn mark(&self) -> Option<u32> {
        (**self).mark()
    }

    #[inline(always)]
    fn mark_or_zero(&self) -> u32 {
        (**self).mark_or_zero()
    }

    #[inline(always)]
    fn is_marked(&self) -> bool {
        (**self).is_marked()
    }

    #[inline(always)]
    fn is_verified(&self) -> bool {
        (**self).is_verified()
    }

    fn copy_to(&self, buf: &mut [u8]) -> usize {
        (**self).copy_to(buf)
    }

    fn segments(&self, see: &mut dyn FnMut(&[u8])) {
        (**self).segments(see);
    }
}

/// A packet in plain memory, in one or two segments, for captures, tests and fuzzers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytesPacket<'a> {
    segments: [&'a [u8]; 2],
    frame_len: usize,
    wire_len: usize,
    /// Mark; 0 without a mark.
    mark: u32,
    is_marked: bool,
}

impl<'a> BytesPacket<'a> {
    /// Creates a packet of a whole frame in one segment.
    pub fn new(frame: &'a [u8]) -> Self {
        let len = frame.len();
        let segments = [frame, &[]];
        Self { segments, frame_len: len, wire_len: len, mark: 0, is_marked: false }
    }

    /// Creates a packet of a whole frame in two segments, cut at `at` (clamped to the frame).
    pub fn cut(frame: &'a [u8], at: usize) -> Self {
        let (a, b) = frame.split_at(at.min(frame.len()));
        Self { segments: [a, b], ..Self::new(frame) }
    }

    /// Creates a packet of the first bytes of a frame.
    ///
    /// The frame had `frame_len` bytes and counts as `wire_len` bytes.
    pub fn captured(captured: &'a [u8], frame_len: usize, wire_len: usize) -> Self {
        let frame_len = frame_len.max(captured.len());
        Self { frame_len, wire_len, ..Self::new(captured) }
    }

    /// Returns the packet with this mark.
    pub fn marked(self, mark: Option<u32>) -> Self {
        Self { mark: mark.unwrap_or(0), is_marked: mark.is_some(), ..self }
    }
}

impl Packet for BytesPacket<'_> {
    #[inline(always)]
    fn head(&self) -> &[u8] {
        self.segments[0]
    }

    #[inline(always)]
    fn frame_len(&self) -> usize {
        self.frame_len
    }

    #[inline(always)]
    fn wire_len(&self) -> usize {
        self.wire_len
    }

    #[inline(always)]
    fn mark(&self) -> Option<u32> {
        self.is_marked.then_some(self.mark)
    }

    #[inline(always)]
    fn mark_or_zero(&self) -> u32 {
        self.mark
    }

    fn is_marked(&self) -> bool {
        self.mark != 0
    }

    fn copy_to(&self, buf: &mut [u8]) -> usize {
        let mut copied = 0;
        for segment in self.segments {
            let n = segment.len().min(buf.len() - copied);
            buf[copied..copied + n].copy_from_slice(&segment[..n]);
            copied += n;
        }
        copied
    }

    fn segments(&self, see: &mut dyn FnMut(&[u8])) {
        self.segments.into_iter().for_each(see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_packet_gathers_to_the_same_bytes() {
        let frame: Vec<u8> = (0..100).collect();
        for at in 0..=100 {
            let packet = BytesPacket::cut(&frame, at);
            let mut buf = [0; 128];
            assert_eq!(packet.copy_to(&mut buf), 100);
            assert_eq!(&buf[..100], &frame[..]);
            assert_eq!(packet.head(), &frame[..at]);
            let mut short = [0; 10];
            assert_eq!(packet.copy_to(&mut short), 10);
        }
    }
}
