// SPDX-License-Identifier: BSD-3-Clause
//! Parses the numbers of TCP segments (RFC 9293 section 3.1).
//!
//! They are only read for connections with a window check; other packets never pay for it.

use super::descriptor::{HeaderInfo, PacketMeta};
use wire::Packet;

/// Length of a header without options.
const HEADER: usize = 20;

/// Length of the longest header.
const HEADER_MAX: usize = 60;

/// Length of the longest chain of headers that is parsed, with the longest TCP header.
const HEADERS_MAX: usize = 14 + 8 + 40 + 256 + HEADER_MAX;

/// Option kinds (RFC 9293 section 3.2, RFC 7323 section 2.2).
const END: u8 = 0;

const NO_OPERATION: u8 = 1;

const WINDOW_SCALE: u8 = 3;

/// Maximum window shift; a larger one counts as this (RFC 7323 section 2.3).
pub(crate) const SCALE_MAX: u8 = 14;

/// Sequence number, acknowledgment, unscaled window, and length in sequence space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeqNumbers {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// Length of data, SYN and FIN.
    pub(crate) len: u32,
}

impl SeqNumbers {
    /// Reads the numbers of a parsed packet. `None`: a capture has cut it inside the header.
    #[inline(always)]
    pub(crate) fn of<P: Packet>(packet: &P, meta: PacketMeta, info: &HeaderInfo) -> Option<Self> {
        let gathered;
        let header = packet.head().get(info.l4()..).and_then(|rest| rest.first_chunk());
        let header = match header {
            Some(header) => header,
            None => {
                gathered = Self::gather(packet, info)?;
                &gathered
            }
        };
        Some(Self::read(header, meta, info.ip_header()))
    }

    /// Reads the numbers of a packet without options or extension headers.
    ///
    /// Its IP header begins at `l3`. `None`: the TCP header is not in the first segment of the
    /// buffer.
    #[inline(always)]
    pub(crate) fn of_plain<P: Packet>(
        packet: &P,
        meta: PacketMeta,
        is_v6: bool,
        l3: usize,
    ) -> Option<Self> {
        let ip_header = if is_v6 { 40 } else { 20 };
        let header = packet.head().get(l3 + ip_header..)?.first_chunk()?;
        Some(Self::read(header, meta, ip_header))
    }

    #[inline(always)]
    fn read(header: &[u8; HEADER], meta: PacketMeta, ip_header: usize) -> Self {
        let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, w0, w1, ..] = *header;
        let numbers = u64::from_be_bytes([s0, s1, s2, s3, a0, a1, a2, a3]);
        let rest = u32::from_be_bytes([offset, flags, w0, w1]);
        let flags = u32::from(meta.tcp_flags());
        let header_len = ip_header as u32 + (rest >> 28) * 4;
        // A first fragment may be shorter than its header says.
        let data = meta.ip_len().saturating_sub(header_len);
        let marks = (flags & u32::from(FIN)) + (flags & u32::from(SYN)) / u32::from(SYN);
        SeqNumbers {
            seq: (numbers >> 32) as u32,
            ack: numbers as u32,
            window: rest as u16,
            len: data + marks,
        }
    }

    /// Copies a header that lies in several segments of the buffer.
    #[inline(never)]
    fn gather<P: Packet>(packet: &P, info: &HeaderInfo) -> Option<[u8; HEADER]> {
        let mut bytes = [0; HEADERS_MAX];
        let copied = packet.copy_to(&mut bytes);
        bytes.get(info.l4()..copied)?.first_chunk().copied()
    }

    /// Returns the sequence number behind the segment.
    #[inline(always)]
    pub(crate) fn end(self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// A segment that may do more than being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpSegment {
    pub(crate) numbers: SeqNumbers,
    /// Window shift that a SYN offers, if any.
    ///
    /// If a capture has cut the options, it is the maximum: a smaller one could reject valid
    /// segments.
    pub(crate) scale: Option<u8>,
}

/// The header of a segment, not parsed yet, with all of its options and maybe more bytes.
///
/// It is parsed where its numbers are used. Otherwise they would be written to memory in small
/// pieces and read in large ones, which stalls the processor.
#[derive(Clone, Copy)]
pub(crate) struct TcpHeader<'a> {
    fixed: &'a [u8; HEADER],
    behind: &'a [u8],
}

/// Buffer for a header that lies in several segments of the packet buffer.
pub(crate) type HeaderBuf = [u8; HEADER_MAX];

impl<'a> TcpHeader<'a> {
    /// Returns the header of a packet like [`SeqNumbers::of`], copied to `gathered` if needed.
    #[inline(always)]
    pub(crate) fn of<P: Packet>(
        packet: &'a P,
        info: &HeaderInfo,
        gathered: &'a mut Option<HeaderBuf>,
    ) -> Option<Self> {
        let (head, l4) = (packet.head(), info.l4());
        let header = if head.len() >= packet.frame_len().min(l4 + HEADER_MAX) {
            head.get(l4..)?
        } else {
            gather(packet, l4, gathered.insert([0; HEADER_MAX]))?
        };
        let (fixed, behind) = header.split_first_chunk()?;
        Some(TcpHeader { fixed, behind })
    }

    /// Returns the header of a packet whose bytes are all here; `None` if they end inside it.
    #[inline(always)]
    pub(crate) fn of_whole(bytes: &'a [u8], info: &HeaderInfo) -> Option<Self> {
        let (fixed, behind) = bytes.get(info.l4()..)?.split_first_chunk()?;
        Some(TcpHeader { fixed, behind })
    }

    /// Parses the header.
    #[inline(always)]
    pub(crate) fn read(self, meta: PacketMeta, info: &HeaderInfo) -> TcpSegment {
        let is_syn = meta.tcp_flags() & SYN != 0;
        let scale = if is_syn { scale_offered(self.fixed[12] >> 4, self.behind) } else { None };
        TcpSegment { numbers: SeqNumbers::read(self.fixed, meta, info.ip_header()), scale }
    }
}

#[inline(never)]
fn gather<'a, P: Packet>(packet: &P, l4: usize, gathered: &'a mut HeaderBuf) -> Option<&'a [u8]> {
    let mut bytes = [0; HEADERS_MAX];
    let copied = packet.copy_to(&mut bytes);
    let header = bytes.get(l4..copied)?;
    let len = header.len().min(HEADER_MAX);
    gathered[..len].copy_from_slice(&header[..len]);
    Some(&gathered[..len])
}

/// Returns the shift that a SYN offers. `words` is the length of its header; `behind` are the
/// captured bytes behind the fixed part.
#[inline(never)]
fn scale_offered(words: u8, behind: &[u8]) -> Option<u8> {
    let len = (usize::from(words) * 4).checked_sub(HEADER)?;
    // If a capture has cut the options, the missing ones may contain any shift.
    let missing = (behind.len() < len).then_some(SCALE_MAX);
    let mut options = &behind[..len.min(behind.len())];
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (END, _) => return None,
            (NO_OPERATION, rest) => rest,
            (WINDOW_SCALE, [3, scale, ..]) => return Some((*scale).min(SCALE_MAX)),
            (WINDOW_SCALE, [3] | []) | (_, []) => return missing,
            (_, [len, ..]) if *len >= 2 => match options.get(usize::from(*len)..) {
                Some(options) => options,
                None => return missing,
            },
            _ => return None,
        };
    }
    missing
}

/// Flags that can change the state. Packets without them take the fast path.
pub(crate) const SYN_FIN_RST: u8 = SYN | FIN | RST;

pub(crate) const FIN: u8 = 0x01;

pub(crate) const SYN: u8 = 0x02;

pub(crate) const RST: u8 = 0x04;

pub(crate) const ACK: u8 = 0x10;

pub(crate) const URG: u8 = 0x20;

/// True if a segment may have these flags together.
///
/// There must be a SYN, ACK or RST, and all but a first SYN and an RST need an ACK (RFC 9293
/// section 3.10.7).
pub(crate) fn has_valid_flags(flags: u8) -> bool {
    const SYN_ACK: u8 = SYN | ACK;
    const RST_ACK: u8 = RST | ACK;
    const FIN_ACK: u8 = FIN | ACK;
    match flags & (SYN | FIN | RST | ACK) {
        SYN | ACK | FIN_ACK => true,
        SYN_ACK | RST | RST_ACK => flags & URG == 0,
        _ => false,
    }
}

/// True if a segment with these flags is an initial SYN and nothing else.
pub(crate) fn is_syn(flags: u8) -> bool {
    flags & (SYN | ACK | RST | FIN) == SYN
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{BytesPacket, FrameBuilder};

    fn offered(options: &[u8]) -> Option<u8> {
        let frame = FrameBuilder::ipv4([1; 4], [2; 4]).tcp(1, 2).flags(SYN).tcp_options(options);
        let (frame, info) = (frame.build(), HeaderInfo::plain(0, 20));
        let (mut gathered, meta) = (None, PacketMeta::new(frame.len() as u32, 14, SYN));
        let offers = [0, 14, 40, 54, 55, frame.len()].map(|cut| {
            let packet = BytesPacket::cut(&frame, cut);
            TcpHeader::of(&packet, &info, &mut gathered).unwrap().read(meta, &info).scale
        });
        assert_eq!(offers, [offers[0]; 6]);
        offers[0]
    }

    #[test]
    fn the_scale_is_found_behind_other_options_and_nowhere_else() {
        assert_eq!(offered(&[2, 4, 5, 0xb4, 1, 3, 3, 7]), Some(7));
        assert_eq!(offered(&[3, 3, 200]), Some(SCALE_MAX));
        assert_eq!(offered(&[3, 3, 0]), Some(0));
        for none in [&[][..], &[0, 3, 3, 7], &[3, 2, 7], &[2, 0, 3, 3, 7], &[8, 255], &[3]] {
            assert_eq!(offered(none), None, "{none:?}");
        }
    }

    #[test]
    fn the_scale_is_unknown_where_the_capture_has_cut_it() {
        let scale_of = |frame: &[u8], captured: usize, l4: usize| {
            let packet = BytesPacket::captured(&frame[..captured], frame.len(), frame.len());
            let info = HeaderInfo::plain(0, l4 - 14);
            let (mut gathered, meta) = (None, PacketMeta::new(frame.len() as u32, 14, SYN));
            let header = TcpHeader::of(&packet, &info, &mut gathered);
            header.map(|header| header.read(meta, &info).scale)
        };
        let options = [2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 0, 3];
        let v4 = FrameBuilder::ipv4([1; 4], [2; 4]).tcp(1, 2).flags(SYN).tcp_options(&options);
        let v6 = FrameBuilder::ipv6([1; 16], [2; 16]).tcp(1, 2).flags(SYN).tcp_options(&options);
        let none = FrameBuilder::ipv4([1; 4], [2; 4]).tcp(1, 2).flags(SYN);
        for (frame, l4) in [(v4.build(), 34), (v6.build(), 54)] {
            let options = l4 + 20;
            assert_eq!(scale_of(&frame, options - 1, l4), None);
            for captured in options..options + 8 {
                assert_eq!(scale_of(&frame, captured, l4), Some(Some(SCALE_MAX)), "{captured}");
            }
            for captured in options + 8..=frame.len() {
                assert_eq!(scale_of(&frame, captured, l4), Some(Some(7)), "{captured}");
            }
        }
        assert_eq!(scale_of(&none.clone().payload([0; 9]).build(), 54, 34), Some(None));
        // If the captured options show that there is no shift, missing ones do not matter.
        for sure in [[0, 1, 1, 1], [1, 0, 1, 1], [2, 0, 3, 3]] {
            let frame = none.clone().tcp_options(&sure).build();
            assert_eq!(scale_of(&frame, 54 + 3, 34), Some(None), "{sure:?}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_header_wherever_it_lies() {
        let frame = FrameBuilder::ipv6([1; 16], [2; 16])
            .vlan(7)
            .dest_options(&[1; 6])
            .tcp(1, 2)
            .flags(SYN | FIN)
            .seq(u32::MAX)
            .ack(0x0102_0304)
            .window(0x0506)
            .tcp_options(&[1; 4])
            .payload([0; 9])
            .build();
        let mut info = HeaderInfo::plain(0, 48);
        info.vlan.ids[0] = 7;
        let ip_len = frame.len() - 18;
        let meta = PacketMeta::new(frame.len() as u32, (frame.len() - ip_len) as u16, SYN | FIN);
        let expected = SeqNumbers { seq: u32::MAX, ack: 0x0102_0304, window: 0x0506, len: 11 };
        for at in 0..=frame.len() {
            let numbers = SeqNumbers::of(&BytesPacket::cut(&frame, at), meta, &info);
            assert_eq!(numbers, Some(expected), "cut at {at}");
        }
        for captured in 0..66 + 20 {
            let packet = BytesPacket::captured(&frame[..captured], frame.len(), frame.len());
            assert_eq!(SeqNumbers::of(&packet, meta, &info), None, "captured {captured}");
        }
        assert_eq!(expected.end(), 10);
    }
}
