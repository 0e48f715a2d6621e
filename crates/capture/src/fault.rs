// SPDX-License-Identifier: BSD-3-Clause
//! Describes faults of a capture and their place.

use std::fmt;
use std::io::{self, ErrorKind};

/// Why and where a capture could not be read further.
#[derive(Debug)]
pub struct Fault {
    file: String,
    offset: u64,
    packet: u64,
    cause: Cause,
}

/// The kind of fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("the file is empty")]
    Empty,
    #[error("not a capture: it {}; millrace reads pcap and pcapng, plain or gzip", beginning(.0))]
    UnknownMagic(Vec<u8>),
    #[error("truncated: {needed} bytes expected, the file ends after {found}")]
    Truncated { needed: u64, found: u64 },
    #[error("truncated: the compressed file ends too early")]
    TruncatedGzip,
    #[error(
        "trailing garbage: the compressed data is followed by {0:#04x}, neither gzip nor zeros"
    )]
    TrailingGarbage(u8),
    #[error(
        "corrupt: a packet of {0} bytes; a capture has packets of at most {max}",
        max = super::PACKET_MAX
    )]
    PacketTooLong(u64),
    #[error("corrupt: a block length of {0}; it must be a multiple of 4 and at least 12")]
    BlockLength(u32),
    #[error("corrupt: a packet block of {0} bytes, more than {max}", max = super::WINDOW_MAX)]
    BlockTooLong(u32),
    #[error("corrupt: block length {0} at the start of a block, {1} at its end")]
    BlockLengthsDiffer(u32, u32),
    #[error("corrupt: the contents of a block of type {0:#x} do not fit into its length")]
    BlockContents(u32),
    #[error("corrupt: a section header with byte-order mark {0:02x?}")]
    ByteOrder([u8; 4]),
    #[error("pcapng version {0} is not supported; millrace reads version 1")]
    SectionVersion(u16),
    #[error("corrupt: a packet of interface {id}, but the section describes only {known}")]
    UnknownInterface { id: u32, known: usize },
    #[error("corrupt: a section with more than {0} interfaces")]
    TooManyInterfaces(usize),
}

/// Describes the first bytes of a file: as text, if they are.
fn beginning(bytes: &[u8]) -> String {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_text) => format!("is text, and begins with {text:?}"),
        _ => format!("starts with {bytes:02x?}"),
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        // Only a decoder reports this: the end of a plain file is no input error.
        match error.kind() {
            ErrorKind::UnexpectedEof => Cause::TruncatedGzip,
            _ => error.downcast().unwrap_or_else(Cause::Read),
        }
    }
}

impl Fault {
    pub(super) fn new(file: &str, offset: u64, packet: u64, cause: Cause) -> Self {
        Self { file: file.to_owned(), offset, packet, cause }
    }

    /// Returns the bytes of the (decompressed) capture before the faulty record.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.packet > 0 {
            // In a compressed capture, the offset counts decompressed bytes.
            write!(f, "packet {} at byte {}: ", self.packet, self.offset)?;
        }
        write!(f, "{}", self.cause)
    }
}

impl std::error::Error for Fault {}
