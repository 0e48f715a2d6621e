// SPDX-License-Identifier: BSD-3-Clause
//! The pcap format: one header, then records. All magic numbers: µs and ns in both byte orders,
//! and the little-endian "modified" format of old Linux tools.

use super::fault::Cause;
use super::input::Input;
use super::{LinkType, Located, PACKET_MAX};
use pcap_parser::nom::IResult;
use pcap_parser::{
    LegacyPcapBlock, PcapError, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};

const FILE_HEADER_LEN: usize = 24;

type ParseRecord = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// What the file header says about the records.
pub(super) struct File {
    parse_record: ParseRecord,
    record_header_len: usize,
    nanos_per_fraction: u64,
    link_type: LinkType,
    fcs_len: usize,
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
        let (parse_record, record_header_len): (ParseRecord, usize) = if header.is_modified_format()
        {
            (parse_pcap_frame_modified, 24)
        } else if header.is_bigendian() {
            (parse_pcap_frame_be, 16)
        } else {
            (parse_pcap_frame, 16)
        };
        let (link_type, fcs_len) = split_network(header.network.0 as u32);
        Ok(Self {
            parse_record,
            record_header_len,
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
        let available = window.len();
        let record_len = match (self.parse_record)(window) {
            Ok((rest, _)) => available - rest.len(),
            Err(error) => available + missing(&error),
        };
        let captured = record_len.saturating_sub(self.record_header_len);
        if captured > PACKET_MAX {
            return Err(Cause::PacketTooLong(captured as u64));
        }
        let window = input.fill(record_len)?;
        let truncated = Cause::Truncated { needed: record_len as u64, found: window.len() as u64 };
        let (_, record) = (self.parse_record)(window).map_err(|_| truncated)?;
        let time_ns = u64::from(record.ts_sec) * 1_000_000_000
            + u64::from(record.ts_usec) * self.nanos_per_fraction;
        Ok(Some(Located {
            time_ns,
            bytes: self.record_header_len..record_len,
            original_len: record.origlen as usize,
            link_type: self.link_type,
            fcs_len: self.fcs_len,
            record_len,
        }))
    }
}

/// Bytes the parser misses, which it always knows.
fn missing<E>(error: &pcap_parser::nom::Err<E>) -> usize {
    match error {
        pcap_parser::nom::Err::Incomplete(pcap_parser::nom::Needed::Size(n)) => n.get(),
        _ => 0,
    }
}

/// The link-type field holds, besides the link type, the length of the FCS in 16-bit units and a
/// bit that says that this length is there.
fn split_network(field: u32) -> (LinkType, usize) {
    const FCS_PRESENT: u32 = 1 << 26;
    let fcs_len = if field & FCS_PRESENT != 0 { (field >> 28) as usize * 2 } else { 0 };
    (LinkType((field & 0xffff) as u16), fcs_len)
}
