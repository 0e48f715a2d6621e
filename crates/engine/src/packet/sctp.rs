// SPDX-License-Identifier: BSD-3-Clause
//! Parses the chunks of SCTP packets that decide the state of an association (RFC 9260 section 4).

use super::descriptor::{HeaderInfo, PacketMeta};
use super::headers::HEADERS_MAX;
use wire::Packet;

/// Length of the common header (RFC 9260 section 3.1).
const COMMON: usize = 12;

/// Length of a chunk header (section 3.2).
const CHUNK: usize = 4;

/// Length of INIT and INIT ACK without parameters (sections 3.3.2 and 3.3.3).
const INIT_MIN: usize = 20;

/// Maximum number of bytes of a packet that are parsed, even if the buffer has more.
const CHUNK_BYTES_MAX: usize = 128;

/// Maximum number of chunks that are parsed: control chunks come before data (section 6.10), and
/// there are few.
const CHUNKS_MAX: usize = 8;

const T_BIT: u8 = 1;

const HEARTBEAT: u8 = 4;

const HEARTBEAT_ACK: u8 = 5;

/// Kind of a packet: that of its first decisive chunk. `Other` and `Error` apply only without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    Init,
    InitAck,
    CookieEcho,
    CookieAck,
    Shutdown,
    ShutdownAck,
    ShutdownComplete,
    Abort,
    /// DATA, SACK, HEARTBEAT, and chunks of later RFCs.
    Other,
    /// ERROR, without any of the above: a cookie was too old, or another error.
    Error,
}

/// A packet that only tests whether its peer is alive (RFC 9260 section 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Heartbeat,
    HeartbeatAck,
}

/// The parsed chunks of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SctpChunks {
    pub(crate) kind: ChunkKind,
    /// The verification tag.
    pub(crate) tag: u32,
    /// For ABORT and SHUTDOWN COMPLETE: the tag is the one that the peer sends (section 8.5.1).
    pub(crate) reflects: bool,
    /// For INIT and INIT ACK: the tag that the peer must send.
    pub(crate) initiate: u32,
    /// True if the first chunk is a HEARTBEAT.
    pub(crate) is_heartbeat: bool,
    /// Set if the only chunk is a HEARTBEAT or HEARTBEAT ACK.
    pub(crate) probe: Option<Probe>,
    /// True without a chunk, with a chunk of invalid length, or if a chunk that must be alone is
    /// not (section 3).
    pub(crate) is_garbled: bool,
    /// True if the zone has a tag check.
    pub(crate) has_tag_check: bool,
}

impl ChunkKind {
    /// True for a chunk that ends an association.
    pub(crate) fn ends(self) -> bool {
        matches!(self, ChunkKind::Abort | ChunkKind::ShutdownComplete)
    }

    fn of(chunk: u8) -> Self {
        match chunk {
            1 => ChunkKind::Init,
            2 => ChunkKind::InitAck,
            6 => ChunkKind::Abort,
            7 => ChunkKind::Shutdown,
            8 => ChunkKind::ShutdownAck,
            9 => ChunkKind::Error,
            10 => ChunkKind::CookieEcho,
            11 => ChunkKind::CookieAck,
            14 => ChunkKind::ShutdownComplete,
            _ => ChunkKind::Other,
        }
    }
}

impl SctpChunks {
    /// Parses the chunks of a packet. `None`: a capture has cut the packet before the decisive
    /// bytes.
    #[inline(never)]
    pub(crate) fn of<P: Packet>(
        packet: &P,
        meta: PacketMeta,
        info: &HeaderInfo,
        has_tag_check: bool,
    ) -> Option<Self> {
        let len = (meta.ip_len() as usize).saturating_sub(info.ip_header());
        let (l4, chunk_bytes) = (info.l4(), len.min(CHUNK_BYTES_MAX));
        let read = |bytes: &[u8]| Some(SctpChunks { has_tag_check, ..Self::read(bytes, len)? });
        if let Some(bytes) = packet.head().get(l4..l4 + chunk_bytes) {
            return read(bytes);
        }
        let mut gathered = [0; HEADERS_MAX + CHUNK_BYTES_MAX];
        let copied = packet.copy_to(&mut gathered);
        read(gathered.get(l4..copied.min(l4 + chunk_bytes))?)
    }

    /// Returns the kind of a well-formed packet, or [`ChunkKind::Other`] for a garbled one.
    pub(crate) fn main_chunk(&self) -> ChunkKind {
        if self.is_garbled { ChunkKind::Other } else { self.kind }
    }

    /// True if an association can begin with this packet: it is well-formed, or there is no tag
    /// check.
    pub(crate) fn has_valid_chunks(&self) -> bool {
        !self.has_tag_check || !self.is_garbled
    }

    /// True if an unknown association may begin with this packet even if nothing is picked up.
    ///
    /// This is an INIT, or a HEARTBEAT: the first packet between other addresses of two ends
    /// (section 5.4).
    pub(crate) fn is_init(&self) -> bool {
        !self.is_garbled && (self.kind == ChunkKind::Init || self.is_heartbeat)
    }

    /// Parses the first bytes of a packet of this length.
    fn read(bytes: &[u8], len: usize) -> Option<Self> {
        let tag = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
        let mut chunks = SctpChunks {
            kind: ChunkKind::Other,
            tag,
            reflects: false,
            initiate: 0,
            is_heartbeat: false,
            probe: None,
            is_garbled: len < COMMON + CHUNK,
            has_tag_check: true,
        };
        let mut at = COMMON;
        for count in 0..CHUNKS_MAX {
            let Some([kind, flags, high, low]) = bytes.get(at..).and_then(|b| b.first_chunk())
            else {
                // The end of the packet, of the parsed bytes, or of the capture.
                let is_known = count > 0 || chunks.is_garbled;
                return is_known.then_some(chunks);
            };
            let chunk_len = usize::from(u16::from_be_bytes([*high, *low]));
            if chunk_len < CHUNK {
                chunks.is_garbled = true;
                return Some(chunks);
            }
            // A later fragment may hold what lies behind the end, so this is no anomaly.
            let next = at + chunk_len.next_multiple_of(4);
            chunks.is_heartbeat |= count == 0 && *kind == HEARTBEAT;
            chunks.probe = match *kind {
                HEARTBEAT if count == 0 && next >= len => Some(Probe::Heartbeat),
                HEARTBEAT_ACK if count == 0 && next >= len => Some(Probe::HeartbeatAck),
                _ => None,
            };
            let kind = ChunkKind::of(*kind);
            match kind {
                ChunkKind::Other => {}
                ChunkKind::Error => chunks.kind = ChunkKind::Error,
                _ => {
                    chunks.kind = kind;
                    chunks.reflects = flags & T_BIT != 0 && kind.ends();
                    let is_cut = bytes.len() < len.min(CHUNK_BYTES_MAX);
                    let chunk = (&bytes[at..], chunk_len, is_cut);
                    return chunks.alone(kind, count > 0 || next < len, chunk);
                }
            }
            at = next;
        }
        Some(chunks)
    }

    /// Completes the result by the decisive chunk. `is_beside`: the packet has other chunks.
    fn alone(
        mut self,
        kind: ChunkKind,
        is_beside: bool,
        (chunk, chunk_len, is_cut): (&[u8], usize, bool),
    ) -> Option<Self> {
        let is_init = matches!(kind, ChunkKind::Init | ChunkKind::InitAck);
        let stands_alone = is_init || kind == ChunkKind::ShutdownComplete;
        self.is_garbled = stands_alone && is_beside || is_init && chunk_len < INIT_MIN;
        if is_init && !self.is_garbled {
            self.initiate = match chunk.get(CHUNK..).and_then(|value| value.first_chunk()) {
                Some(initiate) => u32::from_be_bytes(*initiate),
                None if is_cut => return None,
                // The packet ends before the tag, whatever the chunk's length.
                None => 0,
            };
            // Sections 3.3.2 and 8.5.1.
            self.is_garbled = self.initiate == 0 || kind == ChunkKind::Init && self.tag != 0;
        }
        Some(self)
    }
}
