// SPDX-License-Identifier: BSD-3-Clause
//! Reads the pcapng format: sections of blocks. Packets are in Enhanced, Simple and (obsolete)
//! Packet Blocks; the contents of all other blocks are skipped.
//!
//! Interfaces belong to their section, and each has its own link type and time unit.

use super::fault::Cause;
use super::input::Input;
use super::{LinkType, Located, PACKET_MAX, WINDOW_MAX};
use pcap_parser::{
    Block, EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode, SHB_MAGIC, SPB_MAGIC,
    parse_block_be, parse_block_le,
};

/// Type of a Section Header Block, equal in both byte orders.
pub(super) const MAGIC: [u8; 4] = SHB_MAGIC.to_be_bytes();

/// Type of the obsolete Packet Block, which `pcap-parser` does not parse.
const PACKET_BLOCK: u32 = 2;

/// Bytes of type, length, and the repeated length.
const BLOCK_FRAME: u32 = 12;

/// More interfaces than any host has; bounds the memory that a file can make this reader take.
const INTERFACES_MAX: usize = 1 << 16;

/// The section being read.
#[derive(Default)]
pub(super) struct File {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the last packet, for Simple Packet Blocks, which have no time.
    last_time_ns: u64,
}

struct Interface {
    link_type: LinkType,
    /// Most captured bytes of a packet; 0 for no limit.
    snaplen: usize,
    fcs_len: usize,
    clock: Clock,
}

/// The fields of a packet block, the same for all three kinds.
struct Fields {
    interface: u32,
    /// Time in units of the interface's clock; `None` in a block without a time.
    ticks: Option<u64>,
    captured: usize,
    original: u32,
    /// Offset of the packet in the block.
    data_offset: usize,
}

impl File {
    pub(super) fn next(&mut self, input: &mut Input) -> Result<Option<Located>, Cause> {
        while let Some((kind, len)) = self.block_frame(input)? {
            if !matches!(kind, SHB_MAGIC | IDB_MAGIC | EPB_MAGIC | SPB_MAGIC | PACKET_BLOCK) {
                let found = input.skip(u64::from(len))?;
                if found < u64::from(len) {
                    return Err(Cause::Truncated { needed: u64::from(len), found });
                }
                continue;
            }
            let block = whole_block(input, len)?;
            self.check_end(block)?;
            let located = match kind {
                SHB_MAGIC => self.start_section(block)?,
                IDB_MAGIC => self.add_interface(block)?,
                _ => Some(self.locate(block)?),
            };
            if located.is_some() {
                return Ok(located);
            }
            input.take(len as usize);
        }
        Ok(None)
    }

    /// Returns type and length of the next block; `None` at the end. A section header sets the byte
    /// order of all that follows.
    fn block_frame(&mut self, input: &mut Input) -> Result<Option<(u32, u32)>, Cause> {
        let head = input.fill(BLOCK_FRAME as usize)?;
        if head.is_empty() {
            return Ok(None);
        }
        if head.len() < BLOCK_FRAME as usize {
            return Err(Cause::Truncated {
                needed: u64::from(BLOCK_FRAME),
                found: head.len() as u64,
            });
        }
        if head.starts_with(&MAGIC) {
            self.big_endian = match array(head, 8) {
                [0x1a, 0x2b, 0x3c, 0x4d] => true,
                [0x4d, 0x3c, 0x2b, 0x1a] => false,
                mark => return Err(Cause::ByteOrder(mark)),
            };
        }
        let (kind, len) = (self.u32_at(head, 0), self.u32_at(head, 4));
        if len < BLOCK_FRAME || len % 4 != 0 {
            return Err(Cause::BlockLength(len));
        }
        Ok(Some((kind, len)))
    }

    fn check_end(&self, block: &[u8]) -> Result<(), Cause> {
        let (start, end) = (self.u32_at(block, 4), self.u32_at(block, block.len() - 4));
        if start == end { Ok(()) } else { Err(Cause::BlockLengthsDiffer(start, end)) }
    }

    fn start_section(&mut self, block: &[u8]) -> Result<Option<Located>, Cause> {
        let Block::SectionHeader(header) = self.parse(block)? else {
            return Err(Cause::BlockContents(SHB_MAGIC));
        };
        if header.major_version != 1 {
            return Err(Cause::SectionVersion(header.major_version));
        }
        self.interfaces.clear();
        Ok(None)
    }

    fn add_interface(&mut self, block: &[u8]) -> Result<Option<Located>, Cause> {
        let Block::InterfaceDescription(description) = self.parse(block)? else {
            return Err(Cause::BlockContents(IDB_MAGIC));
        };
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(Cause::TooManyInterfaces(INTERFACES_MAX));
        }
        let interface = Interface::new(&description, self.big_endian);
        self.interfaces.push(interface);
        Ok(None)
    }

    /// Finds the packet in a packet block.
    fn locate(&mut self, block: &[u8]) -> Result<Located, Cause> {
        let fields = self.fields(block)?;
        let Some(interface) = self.interfaces.get(fields.interface as usize) else {
            let known = self.interfaces.len();
            return Err(Cause::UnknownInterface { id: fields.interface, known });
        };
        let mut captured = fields.captured;
        if fields.ticks.is_none() && interface.snaplen > 0 {
            // A Simple Packet Block does not state its captured length.
            captured = captured.min(interface.snaplen);
        }
        if captured > PACKET_MAX {
            return Err(Cause::PacketTooLong(captured as u64));
        }
        if let Some(ticks) = fields.ticks {
            self.last_time_ns = interface.clock.nanos(ticks);
        }
        Ok(Located {
            time_ns: self.last_time_ns,
            bytes: fields.data_offset..fields.data_offset + captured,
            original_len: fields.original as usize,
            link_type: interface.link_type,
            fcs_len: interface.fcs_len,
            record_len: block.len(),
        })
    }

    /// Parses a packet block, and checks that its packet is within it.
    fn fields(&self, block: &[u8]) -> Result<Fields, Cause> {
        match self.parse(block)? {
            Block::EnhancedPacket(packet) => Ok(Fields {
                interface: packet.if_id,
                ticks: Some(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                captured: packet.caplen as usize,
                original: packet.origlen,
                data_offset: 28,
            }),
            Block::SimplePacket(packet) => Ok(Fields {
                interface: 0,
                ticks: None,
                captured: packet.data.len().min(packet.origlen as usize),
                original: packet.origlen,
                data_offset: 12,
            }),
            Block::Unknown(_) => self.obsolete_fields(block),
            other => Err(Cause::BlockContents(other.magic())),
        }
    }

    fn obsolete_fields(&self, block: &[u8]) -> Result<Fields, Cause> {
        const DATA_OFFSET: usize = 28;
        let room = block.len().checked_sub(DATA_OFFSET + size_of::<u32>());
        let room = room.ok_or(Cause::BlockContents(PACKET_BLOCK))?;
        let captured = self.u32_at(block, 20) as usize;
        if captured > room {
            return Err(Cause::BlockContents(PACKET_BLOCK));
        }
        let interface = [block[8], block[9]];
        let interface = if self.big_endian {
            u16::from_be_bytes(interface)
        } else {
            u16::from_le_bytes(interface)
        };
        Ok(Fields {
            interface: u32::from(interface),
            ticks: Some(
                u64::from(self.u32_at(block, 12)) << 32 | u64::from(self.u32_at(block, 16)),
            ),
            captured,
            original: self.u32_at(block, 24),
            data_offset: DATA_OFFSET,
        })
    }

    fn parse<'a>(&self, block: &'a [u8]) -> Result<Block<'a>, Cause> {
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        // The block is whole, so a parser that needs more bytes has found a wrong length.
        match parse(block) {
            Ok((_, parsed)) => Ok(parsed),
            Err(_) => Err(Cause::BlockContents(self.u32_at(block, 0))),
        }
    }

    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let word = array(bytes, at);
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }
}

/// Returns the next block, from its type to its repeated length.
fn whole_block(input: &mut Input, len: u32) -> Result<&[u8], Cause> {
    if len as usize > WINDOW_MAX {
        return Err(Cause::BlockTooLong(len));
    }
    let window = input.fill(len as usize)?;
    let found = window.len() as u64;
    window.get(..len as usize).ok_or(Cause::Truncated { needed: u64::from(len), found })
}

fn array(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Self {
        const FCS_LEN: OptionCode = OptionCode(13);
        let option = |code| {
            let option = description.options.iter().find(|option| option.code == code)?;
            option.as_bytes().ok()
        };
        let fcs_len = option(FCS_LEN).and_then(|value| value.first().copied()).unwrap_or(0);
        // `pcap-parser` reads the offset as little-endian in every section.
        let offset = option(OptionCode::IfTsoffset).and_then(|value| value.try_into().ok());
        let offset = offset.unwrap_or([0; 8]);
        Self {
            link_type: LinkType(description.linktype.0 as u16),
            snaplen: description.snaplen as usize,
            fcs_len: usize::from(fcs_len),
            clock: Clock {
                resolution: description.if_tsresol,
                offset_s: if big_endian {
                    i64::from_be_bytes(offset)
                } else {
                    i64::from_le_bytes(offset)
                },
            },
        }
    }
}

/// Time unit and origin of an interface.
struct Clock {
    /// A unit is 10^-n seconds or, with the top bit set, 2^-n seconds.
    resolution: u8,
    /// Offset to add, in seconds.
    offset_s: i64,
}

impl Clock {
    /// Converts ticks to nanoseconds since the Unix epoch, limited to the range of 64 bits.
    fn nanos(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks) * 1_000_000_000;
        let exponent = u32::from(self.resolution & 0x7f);
        let nanos = if self.resolution & 0x80 != 0 {
            ticks >> exponent
        } else {
            // Units so small that all ticks together are less than a nanosecond.
            10_u128.checked_pow(exponent).map_or(0, |unit| ticks / unit)
        };
        let nanos = nanos as i128 + i128::from(self.offset_s) * 1_000_000_000;
        nanos.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn every_time_unit_is_known() {
        let nanos = |resolution, ticks| Clock { resolution, offset_s: 0 }.nanos(ticks);
        assert_eq!(nanos(0, 3), 3_000_000_000);
        assert_eq!(nanos(6, 1_000_001), 1_000_001_000);
        assert_eq!(nanos(9, 1_000_001), 1_000_001);
        assert_eq!(nanos(12, 5_999), 5);
        assert_eq!(nanos(0x80, 3), 3_000_000_000);
        assert_eq!(nanos(0x80 | 10, 1536), 1_500_000_000);
        assert_eq!(nanos(0x80 | 63, u64::MAX), 1_999_999_999);
        for resolution in [19, 20, 38, 39, 127, 0x80 | 64, 0xff] {
            assert!(nanos(resolution, u64::MAX) < 2_000_000_000);
        }
        assert_eq!(nanos(0, u64::MAX), u64::MAX);
    }

    #[test]
    fn the_offset_moves_both_ways_and_stops_at_the_edges() {
        let nanos = |offset_s, ticks| Clock { resolution: 9, offset_s }.nanos(ticks);
        assert_eq!(nanos(2, 5), 2_000_000_005);
        assert_eq!(nanos(-1, 1_500_000_000), 500_000_000);
        assert_eq!(nanos(-2, 5), 0);
        assert_eq!(nanos(i64::MAX, 0), u64::MAX);
        assert_eq!(nanos(i64::MIN, u64::MAX), 0);
    }
}
