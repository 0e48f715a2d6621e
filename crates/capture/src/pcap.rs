// SPDX-License-Identifier: BSD-3-Clause
//! Reads the pcap format: one header, then records. It knows all magic numbers: µs and ns in both
//! byte orders, and the little-endian "modified" format of old Linux tools. It knows all versions;
//! old ones have the two lengths of a record in the other order.

use super::fault::Cause;
use super::input::Input;
use super::{LinkType, Located, PACKET_MAX};
use pcap_parser::{PcapHeader, parse_pcap_header};

const FILE_HEADER_LEN: usize = 24;

/// The fields of the file header that the records need.
pub(super) struct File {
    is_big_endian: bool,
    lengths: Lengths,
    record_header_len: usize,
    nanos_per_fraction: u64,
    link_type: LinkType,
    fcs_len: usize,
}

/// Order of the two lengths in a record.
#[derive(Clone, Copy)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    /// Either order: the larger one is the original length.
    Either,
}

/// The common beginning of all record headers.
struct RecordHeader {
    seconds: u32,
    fraction: u32,
    captured: usize,
    original: usize,
}

impl Lengths {
    /// Returns the order for a version. Before 2.3 the original length came first, and in 2.3 with
    /// some writers. The same holds for 543.0, of DG/UX (libpcap, sf-pcap.c).
    fn of(header: &PcapHeader) -> Self {
        match (header.version_major, header.version_minor) {
            (543, _) | (2, ..=2) => Lengths::OriginalFirst,
            (2, 3) => Lengths::Either,
            _ => Lengths::CapturedFirst,
        }
    }
}

impl File {
    pub(super) fn open(input: &mut Input) -> Result<Self, Cause> {
        let window = input.fill(FILE_HEADER_LEN)?;
        let header = match parse_pcap_header(window) {
            Ok((_, header)) => header,
            Err(error) if error.is_incomplete() => {
                return Err(Cause::Truncated {
                    needed: FILE_HEADER_LEN as u64,
                    found: window.len() as u64,
                });
            }
            Err(_) => {
                return Err(Cause::UnknownMagic(window[..window.len().min(4)].to_vec()));
            }
        };
        input.take(FILE_HEADER_LEN);
        let (link_type, fcs_len) = split_network(header.network.0 as u32);
        Ok(Self {
            is_big_endian: header.is_bigendian(),
            lengths: Lengths::of(&header),
            record_header_len: if header.is_modified_format() { 24 } else { 16 },
            nanos_per_fraction: if header.is_nanosecond_precision() { 1 } else { 1000 },
            link_type,
            fcs_len,
        })
    }

    pub(super) fn next(&mut self, input: &mut Input) -> Result<Option<Located>, Cause> {
        let window = input.fill(self.record_header_len)?;
        if window.is_empty() {
            return Ok(None);
        }
        let truncated = |needed: usize, found: usize| Cause::Truncated {
            needed: needed as u64,
            found: found as u64,
        };
        if window.len() < self.record_header_len {
            return Err(truncated(self.record_header_len, window.len()));
        }
        let header = self.record_header(window);
        if header.captured > PACKET_MAX {
            return Err(Cause::PacketTooLong(header.captured as u64));
        }
        let record_len = self.record_header_len + header.captured;
        let window = input.fill(record_len)?;
        if window.len() < record_len {
            return Err(truncated(record_len, window.len()));
        }
        Ok(Some(Located {
            time_ns: u64::from(header.seconds) * 1_000_000_000
                + u64::from(header.fraction) * self.nanos_per_fraction,
            bytes: self.record_header_len..record_len,
            original_len: header.original,
            link_type: self.link_type,
            fcs_len: self.fcs_len,
            record_len,
        }))
    }

    /// Reads the first four words of a record; the others are not needed.
    fn record_header(&self, window: &[u8]) -> RecordHeader {
        let word = |at: usize| {
            let word = [0, 1, 2, 3].map(|i| window[4 * at + i]);
            if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let [seconds, fraction] = [0, 1].map(word);
        let [first, second] = [2, 3].map(|at| word(at) as usize);
        let is_exchanged = match self.lengths {
            Lengths::CapturedFirst => false,
            Lengths::OriginalFirst => true,
            Lengths::Either => first > second,
        };
        let (captured, original) = if is_exchanged { (second, first) } else { (first, second) };
        RecordHeader { seconds, fraction, captured, original }
    }
}

/// Splits the link-type field into link type and bytes of FCS. It holds the length of the FCS in
/// 16-bit units, and a bit that says whether this length is valid.
fn split_network(field: u32) -> (LinkType, usize) {
    const FCS_PRESENT: u32 = 1 << 26;
    let fcs_len = if field & FCS_PRESENT != 0 { (field >> 28) as usize * 2 } else { 0 };
    (LinkType((field & 0xffff) as u16), fcs_len)
}
