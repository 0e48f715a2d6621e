// SPDX-License-Identifier: BSD-3-Clause
//! Connections on disk, so that the next run knows them: what a file has in it, and where files
//! are.
//!
//! A file is a header and blocks, each with its length and a checksum that also covers the header
//! and its number, and at last one that says how many connections there were. So a file that is
//! cut, damaged, or made of parts of two is read as far as it is good, and known not to be whole.
//! All numbers are little endian. Nothing in a file is believed: it may be anyone's.

mod flow;
mod reader;
mod resume;
mod sample;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::{Reader, Refusal};
pub(crate) use resume::{Resume, Resumed, Snapshots};
pub(crate) use sample::{repair, sample};
pub(crate) use store::{Place, Store};
pub(crate) use writer::Writer;

use dpdk::RSS_SECRET_LEN;
use engine::ZoneFrom;
use flate2::Crc;

/// Begins every file.
const MAGIC: [u8; 8] = *b"mlr-snap";
/// Of what is written. A reader takes this and all before it.
const FORMAT: u16 = 1;
/// A block is no longer than this; it is what a reader needs of memory.
const BLOCK_MAX: usize = 64 << 10;
/// The same of the part of a header that is not the same in all formats.
const HEADER_MAX: usize = 4096;
/// Kinds of blocks: connections; the end.
const FLOWS: u8 = 1;
const END: u8 = 2;

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Version of the program that wrote it.
    pub(crate) program: String,
    /// When that began, in nanoseconds since the Unix epoch.
    pub(crate) created: u64,
    /// Where zones came from: keys have them in it.
    pub(crate) zone: ZoneFrom,
    /// Whose connections these are.
    pub(crate) place: Place,
    /// Workers of its pair.
    pub(crate) workers: u16,
    /// By what the ports chose among the workers.
    pub(crate) rss: [u8; RSS_SECRET_LEN],
}

/// The checksum of a block, in a file with this checksum of the header.
fn checksum(header: u32, number: u32, payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    for part in [&header.to_le_bytes()[..], &number.to_le_bytes(), payload] {
        crc.update(part);
    }
    crc.sum()
}
