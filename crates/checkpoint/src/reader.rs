// SPDX-License-Identifier: BSD-3-Clause
//! Reads the undamaged part of a file of connections. Whatever the file contains, reading never
//! panics, and never takes more memory than a block.

use super::flow::Bytes;
use super::{
    BLOCK_MAX, END, FLOWS, FORMAT, HEADER_MAX, Header, MAGIC, PAGE, PAGE_HEAD, Place, checksum,
};
use engine::{ConnSnapshot, ZoneSource};
use flate2::Crc;
use std::io::{self, Read};

/// The reader stops after this many damaged pages: 4 MiB.
const DAMAGED_MAX: u32 = 1024;

/// Why a file is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not begin like a snapshot.
    #[error("it is not a snapshot of Millrace")]
    NotOne,
    /// The checksum of the header is wrong, or its contents are invalid.
    #[error("its header is damaged")]
    Header,
    /// A later version of the program wrote the file.
    #[error(
        "it was written by Millrace {program} in format {format}; this version reads formats up \
         to {FORMAT}"
    )]
    Newer {
        /// Format of the file.
        format: u16,
        /// Version of the program that wrote the file.
        program: String,
    },
}

/// Why connections are missing. Connections before and after the damage are valid.
#[derive(Debug, thiserror::Error)]
pub enum Truncation {
    /// The file cannot be read further.
    #[error("{0}")]
    Io(io::Error),
    /// The file ends before its last page.
    #[error("it ends before its last page")]
    Cut,
    /// The contents are invalid, or too many pages are damaged.
    #[error("its contents are damaged")]
    Damaged,
    /// A page is damaged; more pages follow.
    #[error("one of its pages is damaged")]
    Page,
}

/// Reads a file whose header is valid.
pub struct Reader<R> {
    source: R,
    pub(crate) header: Header,
    format: u16,
    checksum: u32,
    number: u32,
    flows: u64,
    /// Damaged pages so far.
    pub damaged: u32,
    /// Connections of damaged pages; known at the end of the file.
    pub(crate) lost: u64,
}

impl<R: Read> Reader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    ///
    /// If `source` cannot be read, or is no file of connections that this version knows.
    pub fn open(mut source: R) -> Result<Self, Refusal> {
        let mut fixed = [0; 12];
        fill(&mut source, &mut fixed, Refusal::NotOne)?;
        let [magic @ .., f, g, l, m] = fixed;
        if magic != MAGIC {
            return Err(Refusal::NotOne);
        }
        let (format, len) = (u16::from_le_bytes([f, g]), u16::from_le_bytes([l, m]));
        let mut payload = vec![0; usize::from(len).min(HEADER_MAX)];
        fill(&mut source, &mut payload, Refusal::Header)?;
        let mut crc = [0; 4];
        fill(&mut source, &mut crc, Refusal::Header)?;
        let mut sum = Crc::new();
        sum.update(&fixed);
        sum.update(&payload);
        if sum.sum() != u32::from_le_bytes(crc) {
            return Err(Refusal::Header);
        }
        let mut bytes = Bytes(&payload);
        let program = bytes.program().ok_or(Refusal::Header)?;
        if format > FORMAT {
            return Err(Refusal::Newer { format, program });
        }
        if format == 0 {
            return Err(Refusal::Header);
        }
        let header = bytes.header(program).ok_or(Refusal::Header)?;
        if format > 1 {
            let behind = PAGE.checked_sub(fixed.len() + payload.len() + crc.len());
            let mut behind = vec![0; behind.ok_or(Refusal::Header)?];
            fill(&mut source, &mut behind, Refusal::Header)?;
        }
        let checksum = sum.sum();
        Ok(Self { source, header, format, checksum, number: 0, flows: 0, damaged: 0, lost: 0 })
    }

    /// Replaces the contents of `flows` by the connections of the next page or block. Returns false
    /// at the end of the file. After [`Truncation::Page`], call it again for the next page.
    ///
    /// # Errors
    ///
    /// If the next page or block cannot be read, or is damaged.
    pub fn next(&mut self, flows: &mut Vec<ConnSnapshot>) -> Result<bool, Truncation> {
        flows.clear();
        let more = if self.format > 1 { self.page(flows) } else { self.block(flows) };
        if more.is_err() {
            flows.clear();
        }
        self.flows += flows.len() as u64;
        more
    }

    fn page(&mut self, flows: &mut Vec<ConnSnapshot>) -> Result<bool, Truncation> {
        let mut page = [0; PAGE];
        fill(&mut self.source, &mut page, Truncation::Cut)?;
        let (crc, covered) = page.split_at(4);
        let is_good = checksum(self.checksum, self.number, covered).to_le_bytes() == *crc;
        self.number = self.number.wrapping_add(1);
        if !is_good {
            self.damaged += 1;
            return Err(if self.damaged < DAMAGED_MAX {
                Truncation::Page
            } else {
                Truncation::Damaged
            });
        }
        let len = usize::from(u16::from_le_bytes([page[5], page[6]]));
        let inside = page[PAGE_HEAD..].get(..len).ok_or(Truncation::Damaged)?;
        match page[4] {
            FLOWS => read_flows(inside, flows).map(|()| true),
            END => self.end(inside).map(|()| false),
            _ => Err(Truncation::Damaged),
        }
    }

    /// Checks the last page or block, which has the number of all connections.
    fn end(&mut self, inside: &[u8]) -> Result<(), Truncation> {
        let mut bytes = Bytes(inside);
        let all = bytes.u64().filter(|_| bytes.0.is_empty());
        self.lost = all.and_then(|all| all.checked_sub(self.flows)).ok_or(Truncation::Damaged)?;
        if self.lost > 0 && self.damaged == 0 { Err(Truncation::Damaged) } else { Ok(()) }
    }

    /// Reads the next block of a file of format 1.
    fn block(&mut self, flows: &mut Vec<ConnSnapshot>) -> Result<bool, Truncation> {
        let mut head = [0; 8];
        fill(&mut self.source, &mut head, Truncation::Cut)?;
        let [a, b, c, d, crc @ ..] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > BLOCK_MAX {
            return Err(Truncation::Damaged);
        }
        let mut payload = vec![0; len];
        fill(&mut self.source, &mut payload, Truncation::Cut)?;
        if checksum(self.checksum, self.number, &payload) != u32::from_le_bytes(crc) {
            return Err(Truncation::Damaged);
        }
        self.number += 1;
        match payload.split_first() {
            Some((&FLOWS, inside)) => read_flows(inside, flows).map(|()| true),
            Some((&END, inside)) => self.end(inside).map(|()| false),
            _ => Err(Truncation::Damaged),
        }
    }
}

fn read_flows(inside: &[u8], flows: &mut Vec<ConnSnapshot>) -> Result<(), Truncation> {
    let mut bytes = Bytes(inside);
    while !bytes.0.is_empty() {
        flows.push(bytes.flow().ok_or(Truncation::Damaged)?);
    }
    Ok(())
}

impl Bytes<'_> {
    fn program(&mut self) -> Option<String> {
        let len = self.u8()?;
        let bytes = self.slice(len.into())?;
        let text = String::from_utf8_lossy(bytes);
        Some(text.chars().filter(|character| !character.is_control()).collect())
    }

    fn header(&mut self, program: String) -> Option<Header> {
        let created = self.u64()?;
        let zone = match self.u8()? {
            0 => ZoneSource::None,
            1 => ZoneSource::OuterVlan,
            2 => ZoneSource::InnerVlan,
            3 => ZoneSource::Fixed(self.u16()?),
            _ => return None,
        };
        let place = Place { pair: self.u16()?, worker: self.u16()? };
        let (workers, rss) = (self.u16()?, self.array()?);
        Some(Header { program, created, zone, place, workers, rss })
    }
}

impl From<io::Error> for Truncation {
    fn from(error: io::Error) -> Self {
        Truncation::Io(error)
    }
}

/// Fills `place`; returns `cut` if the source ends before.
fn fill<E: From<io::Error>>(source: &mut impl Read, place: &mut [u8], cut: E) -> Result<(), E> {
    source.read_exact(place).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut,
        _ => error.into(),
    })
}
