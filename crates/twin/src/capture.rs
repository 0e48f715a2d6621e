// SPDX-License-Identifier: BSD-3-Clause
//! Reads the frames of a capture, for a port that replays them. It reads pcap and pcapng, of either
//! byte order and any time resolution, with Ethernet frames only. Times are not kept.

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes of the longest record that is accepted. Longer records mean a corrupt file.
const RECORD_MAX: usize = 4 << 20;

/// The frames of a capture.
#[derive(Debug, Default)]
pub struct Capture {
    /// All frames, one behind the other.
    bytes: Vec<u8>,
    /// End of each frame in `bytes`.
    ends: Vec<usize>,
}

/// The reason why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// The file does not begin like a capture.
    #[error("is not a capture: pcap and pcapng can be replayed, uncompressed")]
    NoCapture,
    /// The file ends within a record.
    #[error("ends within packet {0}")]
    Truncated(usize),
    /// A record is not valid.
    #[error("is corrupt behind packet {0}")]
    Corrupt(usize),
    /// The packets are not of Ethernet.
    #[error("has packets of link type {0}; only Ethernet (1) can be replayed")]
    LinkType(i32),
    /// The capture has no frames.
    #[error("has no packets")]
    Empty,
}

impl Capture {
    /// Reads a whole file.
    ///
    /// # Errors
    /// If the file is not a whole capture of Ethernet frames.
    pub fn read(path: &Path) -> Result<Self, CaptureError> {
        let file = File::open(path).map_err(CaptureError::Open)?;
        let mut reader = create_reader(RECORD_MAX, file).map_err(|_| CaptureError::NoCapture)?;
        let mut capture = Self::default();
        let mut links = Links::default();
        loop {
            match reader.next() {
                Ok((len, block)) => {
                    capture.take(&block, &mut links)?;
                    reader.consume(len);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => {
                    let place = capture.len();
                    reader.refill().map_err(|_| CaptureError::Corrupt(place))?;
                }
                Err(PcapError::UnexpectedEof) => {
                    return Err(CaptureError::Truncated(capture.len()));
                }
                Err(_) => return Err(CaptureError::Corrupt(capture.len())),
            }
        }
        if capture.is_empty() { Err(CaptureError::Empty) } else { Ok(capture) }
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the captured bytes of a frame.
    pub fn frame(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[place]]
    }

    fn take(&mut self, block: &PcapBlockOwned<'_>, links: &mut Links) -> Result<(), CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => links.0 = vec![header.network],
            PcapBlockOwned::Legacy(record) => {
                let len = record.data.len().min(record.caplen as usize);
                self.push(links, 0, &record.data[..len])?;
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => links.0.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(link)) => links.0.push(link.linktype),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                self.push(links, packet.if_id as usize, packet.packet_data())?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                self.push(links, 0, packet.packet_data())?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    fn push(&mut self, links: &Links, link: usize, frame: &[u8]) -> Result<(), CaptureError> {
        /// In pcap, the bits above describe the frame check sequence.
        const LINK_TYPE: i32 = 0xffff;
        let link = links.0.get(link).ok_or(CaptureError::Corrupt(self.len()))?;
        if link.0 & LINK_TYPE != Linktype::ETHERNET.0 {
            return Err(CaptureError::LinkType(link.0 & LINK_TYPE));
        }
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// Link types of the interfaces of a section.
#[derive(Default)]
struct Links(Vec<Linktype>);
