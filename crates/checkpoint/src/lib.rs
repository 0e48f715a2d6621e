// SPDX-License-Identifier: BSD-3-Clause
//! Snapshots: connections on disk, so that the next run knows them. Format and place of the files.
//!
//! A file is a sequence of pages of 4096 bytes. The first page has a header, the last one the
//! number of connections. Each page has a checksum that also covers the header and the page number.
//! The reader skips a page with a wrong checksum, which costs its connections (44 at most), and
//! knows that the file is not whole. All numbers are little endian. The reader trusts nothing in a
//! file.
//!
//! Files of format 1 have blocks of up to 64 KiB, one behind the other. They are read up to the
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

/// Begins every file.
const MAGIC: [u8; 8] = *b"mlr-snap";
/// Of what is written. A reader takes this and all before it.
const FORMAT: u16 = 2;
/// Length of a page: of its checksum, kind, length of what is in it, and zeros behind that.
const PAGE: usize = 4096;
const PAGE_HEAD: usize = 7;
/// Longest block of format 1, and so the memory that a reader takes.
const BLOCK_MAX: usize = 64 << 10;
/// The same of the part of a header that is not the same in all formats.
const HEADER_MAX: usize = 4096;
/// Kinds of pages and blocks: connections; the end.
const FLOWS: u8 = 1;
const END: u8 = 2;

/// Bytes of the secret by which the ports of a run choose among workers.
pub const RSS_SECRET_LEN: usize = 2 + u8::MAX as usize;

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the program that wrote it.
    pub(crate) program: String,
    /// When that began, in nanoseconds since the Unix epoch.
    pub(crate) created: u64,
    /// Where zones came from: keys have them in it.
    pub(crate) zone: ZoneSource,
    /// Whose connections these are.
    pub(crate) place: Place,
    /// Workers of its pair.
    pub(crate) workers: u16,
    /// By what the ports chose among the workers.
    pub(crate) rss: [u8; RSS_SECRET_LEN],
}

/// The checksum of a page or block, in a file with this checksum of the header.
fn checksum(header: u32, number: u32, payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    for part in [&header.to_le_bytes()[..], &number.to_le_bytes(), payload] {
        crc.update(part);
    }
    crc.sum()
}
