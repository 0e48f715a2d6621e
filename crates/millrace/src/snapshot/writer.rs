// SPDX-License-Identifier: BSD-3-Clause
//! Writes a file of connections, block by block.

use super::flow::{self, FLOW_MAX};
use super::{BLOCK_MAX, END, FLOWS, FORMAT, Header, MAGIC, checksum};
use engine::{SavedFlow, ZoneFrom};
use flate2::Crc;
use std::io::{self, Write};

/// A file under way.
pub(crate) struct Writer<W> {
    out: W,
    header: u32,
    /// Of blocks.
    number: u32,
    payload: Vec<u8>,
    flows: u64,
    bytes: u64,
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
        out.write_all(&bytes)?;
        let (header, bytes) = (crc.sum(), bytes.len() as u64);
        Ok(Self { out, header, number: 0, payload: vec![FLOWS], flows: 0, bytes })
    }

    pub(crate) fn flow(&mut self, flow: &SavedFlow) -> io::Result<()> {
        if self.payload.len() + FLOW_MAX > BLOCK_MAX {
            self.block()?;
            self.payload.push(FLOWS);
        }
        flow::write(flow, &mut self.payload);
        self.flows += 1;
        Ok(())
    }

    /// Writes the end; returns where it was written, and how many bytes there are.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        if self.payload.len() > 1 {
            self.block()?;
        }
        self.payload.clear();
        self.payload.push(END);
        self.payload.extend(self.flows.to_le_bytes());
        self.block()?;
        self.out.flush()?;
        Ok((self.out, self.bytes))
    }

    fn block(&mut self) -> io::Result<()> {
        let crc = checksum(self.header, self.number, &self.payload);
        self.out.write_all(&(self.payload.len() as u32).to_le_bytes())?;
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.write_all(&self.payload)?;
        self.bytes += 8 + self.payload.len() as u64;
        self.number += 1;
        self.payload.clear();
        Ok(())
    }
}

impl Header {
    /// What comes behind the length. The version of the program is the first thing in every format,
    /// so that an older one can say who wrote what it does not know.
    fn payload(&self) -> Vec<u8> {
        let program = self.program.as_bytes();
        let program = &program[..program.len().min(usize::from(u8::MAX))];
        let mut bytes = vec![program.len() as u8];
        bytes.extend(program);
        bytes.extend(self.created.to_le_bytes());
        match self.zone {
            ZoneFrom::None => bytes.push(0),
            ZoneFrom::OuterVlan => bytes.push(1),
            ZoneFrom::InnerVlan => bytes.push(2),
            ZoneFrom::Fixed(zone) => {
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
