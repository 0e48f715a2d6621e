// SPDX-License-Identifier: BSD-3-Clause
//! Saves connections in snapshot files, from which the next run restores them. Owns the format and
//! the place of the files.
//!
//! A file is a sequence of pages of 4096 bytes. The first page has a header, the last one the
//! number of connections. Each page has a checksum that also covers the header and the page number.
//! The reader skips a page with a wrong checksum, which loses its connections (44 at most), and
//! reports that the file is not whole. All numbers are little endian. The reader trusts nothing in
//! a file.
//!
//! Files of format 1 have blocks of up to 64 KiB, one after the other. They are read up to the
//! first damage.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod flow;
mod reader;
mod resume;
mod sample;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Reader, Refusal, Truncation};
pub use resume::{Resume, ResumeOutcome, Settings, Snapshots};
pub use sample::{repair, sample};
pub use store::{Place, Store};
pub(crate) use writer::Writer;

use engine::ZoneSource;
use flate2::Crc;

/// The first bytes of every file.
const MAGIC: [u8; 8] = *b"mlr-snap";
/// Format that is written. A reader accepts this and all earlier ones.
const FORMAT: u16 = 2;
/// Bytes of a page: checksum, kind, length of the contents, contents, and zeros.
const PAGE: usize = 4096;
const PAGE_HEAD: usize = 7;
/// Longest block of format 1 in bytes, which bounds the memory of a reader.
const BLOCK_MAX: usize = 64 << 10;
/// Longest part of a header that differs between formats, in bytes.
const HEADER_MAX: usize = 4096;
/// Kinds of pages and blocks: connections, and the end.
const FLOWS: u8 = 1;
const END: u8 = 2;

/// Bytes of the RSS secret, by which the ports of a run spread packets over workers.
pub const RSS_SECRET_LEN: usize = 2 + u8::MAX as usize;

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the program that wrote the file.
    pub(crate) program: String,
    /// Start of writing, in nanoseconds since the Unix epoch.
    pub(crate) created: u64,
    /// Source of zones, which are a part of flow keys.
    pub(crate) zone: ZoneSource,
    /// Worker whose connections these are.
    pub(crate) place: Place,
    /// Number of workers of its pair.
    pub(crate) workers: u16,
    /// RSS secret of the ports.
    pub(crate) rss: [u8; RSS_SECRET_LEN],
}

/// Returns the checksum of a page or block; `header` is the checksum of the file's header.
fn checksum(header: u32, number: u32, payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    for part in [&header.to_le_bytes()[..], &number.to_le_bytes(), payload] {
        crc.update(part);
    }
    crc.sum()
}
