// SPDX-License-Identifier: BSD-3-Clause
//! Reads capture files packet by packet: pcap (µs and ns, both byte orders) and pcapng, each also
//! gzip-compressed, from a file or from standard input.
//!
//! It streams with one window of 512 KiB, whatever the file's size. The crate `pcap-parser` parses
//! headers. Reading, framing and bounds are in this crate. The readers of `pcap-parser` hide input
//! errors, and take a block with oversized contents for an incomplete one. No length in a file is
//! used before it is checked. A fault ends the capture with a [`Fault`] that says what is wrong and
//! where, after the packets before it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod fault;
mod gzip;
mod input;
mod link;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use link::{Frame, LinkType};

use fault::Cause;
use input::Input;
use std::io::{self, Read};
use std::ops::Range;

/// Longest packet accepted, in captured bytes: the largest snapshot length of libpcap.
const PACKET_MAX: usize = 256 * 1024;

/// Longest pcapng block that is parsed: a packet, its options, and as much again.
const WINDOW_MAX: usize = 2 * PACKET_MAX;

/// One packet of a capture.
#[derive(Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Nanoseconds since the Unix epoch. In a block without a time, that of the previous packet.
    pub time_ns: u64,
    /// The captured bytes, without FCS.
    pub bytes: &'a [u8],
    /// Bytes on the wire without FCS; at least `bytes.len()`.
    pub original_len: usize,
    /// Type of the link header.
    pub link_type: LinkType,
}

/// A capture being read.
pub struct Capture {
    name: String,
    input: Input,
    format: Format,
    packets: u64,
}

enum Format {
    Pcap(pcap::File),
    Pcapng(pcapng::File),
}

/// A packet in the input's window.
struct Located {
    time_ns: u64,
    bytes: Range<usize>,
    original_len: usize,
    link_type: LinkType,
    fcs_len: usize,
    /// Bytes of the whole record, which are consumed before the next one.
    record_len: usize,
}

impl Capture {
    /// Starts reading `source`; messages call it `name`.
    pub fn new(name: &str, source: impl Read + 'static) -> Result<Self, Fault> {
        let mut input = Input::new(Box::new(source), WINDOW_MAX);
        match Format::recognise(&mut input) {
            Ok(format) => Ok(Self { name: name.to_owned(), input, format, packets: 0 }),
            Err(cause) => Err(Fault::new(name, input.offset(), 0, cause)),
        }
    }

    /// Returns the fault of a capture that cannot be opened.
    pub fn unreadable(name: &str, error: io::Error) -> Fault {
        Fault::new(name, 0, 0, Cause::Read(error))
    }

    /// Returns the bytes of the (decompressed) capture read so far, in whole records.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Returns the next packet; `None` at the end of the capture. Must not be called after a fault.
    #[expect(clippy::should_implement_trait, reason = "a packet borrows from its capture")]
    pub fn next(&mut self) -> Result<Option<CapturedPacket<'_>>, Fault> {
        let found = match &mut self.format {
            Format::Pcap(file) => file.next(&mut self.input),
            Format::Pcapng(file) => file.next(&mut self.input),
        };
        let located = match found {
            Ok(Some(located)) => located,
            Ok(None) => return Ok(None),
            Err(cause) => {
                return Err(Fault::new(&self.name, self.input.offset(), self.packets + 1, cause));
            }
        };
        self.packets += 1;
        let record = self.input.take(located.record_len);
        let bytes = &record[located.bytes];
        // A record may state fewer original bytes than it has; those were on the wire.
        let original_len = located.original_len.max(bytes.len()).saturating_sub(located.fcs_len);
        Ok(Some(CapturedPacket {
            time_ns: located.time_ns,
            bytes: &bytes[..bytes.len().min(original_len)],
            original_len,
            link_type: located.link_type,
        }))
    }
}

impl Format {
    fn recognise(input: &mut Input) -> Result<Self, Cause> {
        if input.fill(gzip::MAGIC.len())?.starts_with(gzip::MAGIC) {
            input.wrap(|source| Box::new(gzip::Members::new(source)));
        }
        let start = input.fill(size_of::<u32>())?;
        if start.is_empty() {
            Err(Cause::Empty)
        } else if start.starts_with(&pcapng::MAGIC) {
            Ok(Format::Pcapng(pcapng::File::default()))
        } else {
            Ok(Format::Pcap(pcap::File::open(input)?))
        }
    }
}
