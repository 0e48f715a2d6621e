// SPDX-License-Identifier: BSD-3-Clause
//! Writes a file of connections, page by page.

use super::flow::{self, FLOW_MAX};
use super::{END, FLOWS, FORMAT, Header, MAGIC, PAGE, PAGE_HEAD, checksum};
use engine::{ConnSnapshot, ZoneSource};
use flate2::Crc;
use std::io::{self, Write};

/// A file that is being written.
pub(crate) struct Writer<W> {
    out: W,
    header: u32,
    /// Number of the next page after the header.
    number: u32,
    /// Contents of the page, with room for its head.
    page: Vec<u8>,
    flows: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut out: W, header: &Header) -> io::Result<Self> {
        let payload = header.payload();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
        let mut crc = Crc::new();
        crc.update(&bytes);
        bytes.extend(crc.sum().to_le_bytes());
        bytes.resize(PAGE, 0);
        out.write_all(&bytes)?;
        Ok(Self { out, header: crc.sum(), number: 0, page: vec![0; PAGE_HEAD], flows: 0 })
    }

    pub(crate) fn flow(&mut self, flow: &ConnSnapshot) -> io::Result<()> {
        if self.page.len() + FLOW_MAX > PAGE {
            self.page(FLOWS)?;
        }
        flow::write(flow, &mut self.page);
        self.flows += 1;
        Ok(())
    }

    /// Writes the last page. Returns the destination and the number of bytes.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        if self.page.len() > PAGE_HEAD {
            self.page(FLOWS)?;
        }
        self.page.extend(self.flows.to_le_bytes());
        self.page(END)?;
        self.out.flush()?;
        let pages = 1 + u64::from(self.number);
        Ok((self.out, pages * PAGE as u64))
    }

    /// Writes the page and begins the next one.
    fn page(&mut self, kind: u8) -> io::Result<()> {
        let len = (self.page.len() - PAGE_HEAD) as u16;
        self.page.resize(PAGE, 0);
        self.page[4] = kind;
        self.page[5..PAGE_HEAD].copy_from_slice(&len.to_le_bytes());
        let crc = checksum(self.header, self.number, &self.page[4..]);
        self.page[..4].copy_from_slice(&crc.to_le_bytes());
        self.out.write_all(&self.page)?;
        self.number += 1;
        self.page.clear();
        self.page.resize(PAGE_HEAD, 0);
        Ok(())
    }
}

impl Header {
    /// Returns the part of the header after its length. Every format begins with the program's
    /// version, so that an older program can name the version that wrote an unknown format.
    fn payload(&self) -> Vec<u8> {
        let program = self.program.as_bytes();
        let program = &program[..program.len().min(usize::from(u8::MAX))];
        let mut bytes = vec![program.len() as u8];
        bytes.extend(program);
        bytes.extend(self.created.to_le_bytes());
        match self.zone {
            ZoneSource::None => bytes.push(0),
            ZoneSource::OuterVlan => bytes.push(1),
            ZoneSource::InnerVlan => bytes.push(2),
            ZoneSource::Fixed(zone) => {
                bytes.push(3);
                bytes.extend(zone.to_le_bytes());
            }
        }
        for number in [self.place.pair, self.place.worker, self.workers] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.rss);
        bytes
    }
}
