// SPDX-License-Identifier: BSD-3-Clause
//! Reads a file of connections as far as it is good. Never a panic, never more memory than a block,
//! whatever is in it.

use super::flow::Bytes;
use super::{BLOCK_MAX, END, FLOWS, FORMAT, HEADER_MAX, Header, MAGIC, Place, checksum};
use engine::{SavedFlow, ZoneFrom};
use flate2::Crc;
use std::io::{self, Read};

/// Why nothing is read of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("this is no snapshot of Millrace")]
    NotOne,
    #[error("its header is damaged")]
    Header,
    #[error(
        "it was written by Millrace {program} in format {format}; this version knows formats \
             up to {FORMAT}"
    )]
    Newer { format: u16, program: String },
}

/// Why a file ends before its end. What was read before is good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{0}")]
    Io(io::Error),
    #[error("it is cut short")]
    Cut,
    #[error("it is damaged")]
    Damaged,
}

/// A file whose header is good.
pub(crate) struct Reader<R> {
    source: R,
    pub(crate) header: Header,
    checksum: u32,
    number: u32,
    flows: u64,
}

impl<R: Read> Reader<R> {
    pub(crate) fn open(mut source: R) -> Result<Self, Refusal> {
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
        Ok(Self { source, header, checksum: sum.sum(), number: 0, flows: 0 })
    }

    /// Puts the connections of the next block in place of those in `flows`. False: that was all.
    pub(crate) fn block(&mut self, flows: &mut Vec<SavedFlow>) -> Result<bool, Damage> {
        flows.clear();
        let mut head = [0; 8];
        fill(&mut self.source, &mut head, Damage::Cut)?;
        let [a, b, c, d, crc @ ..] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > BLOCK_MAX {
            return Err(Damage::Damaged);
        }
        let mut payload = vec![0; len];
        fill(&mut self.source, &mut payload, Damage::Cut)?;
        if checksum(self.checksum, self.number, &payload) != u32::from_le_bytes(crc) {
            return Err(Damage::Damaged);
        }
        self.number += 1;
        let mut bytes = Bytes(&payload);
        let more = match bytes.u8() {
            Some(FLOWS) => {
                while !bytes.0.is_empty() {
                    let Some(flow) = bytes.flow() else {
                        flows.clear();
                        return Err(Damage::Damaged);
                    };
                    flows.push(flow);
                }
                true
            }
            Some(END) if bytes.u64() == Some(self.flows) && bytes.0.is_empty() => false,
            _ => return Err(Damage::Damaged),
        };
        self.flows += flows.len() as u64;
        Ok(more)
    }
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
            0 => ZoneFrom::None,
            1 => ZoneFrom::OuterVlan,
            2 => ZoneFrom::InnerVlan,
            3 => ZoneFrom::Fixed(self.u16()?),
            _ => return None,
        };
        let place = Place { pair: self.u16()?, worker: self.u16()? };
        let (workers, rss) = (self.u16()?, self.array()?);
        Some(Header { program, created, zone, place, workers, rss })
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Damage::Io(error)
    }
}

/// Fills `place`; `cut` where the source ends before.
fn fill<E: From<io::Error>>(source: &mut impl Read, place: &mut [u8], cut: E) -> Result<(), E> {
    source.read_exact(place).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut,
        _ => error.into(),
    })
}
