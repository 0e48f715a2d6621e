// SPDX-License-Identifier: BSD-3-Clause
//! The states of an SCTP association (RFC 9260 section 4) as a box between both ends sees them,
//! what leads from one to the next, and what of its packets is read for that.

use super::descriptor::{HeaderInfo, PacketMeta};
use super::headers::HEADERS_MAX;
use wire::Packet;

/// The common header (RFC 9260 section 3.1), that of a chunk (section 3.2), and a tag behind it.
const COMMON: usize = 12;

const CHUNK: usize = 4;

/// INIT and INIT ACK without parameters (sections 3.3.2 and 3.3.3).
const INIT_MIN: usize = 20;

/// Bytes of a packet that are looked at, wherever its buffer is cut.
const LOOK: usize = 128;

/// Chunks that are looked at: control comes before data (section 6.10), and little of it.
const CHUNKS_MAX: usize = 8;

const T_BIT: u8 = 1;

const HEARTBEAT: u8 = 4;

const HEARTBEAT_ACK: u8 = 5;

/// What a packet is for: the first of its chunks that is not of the last kind.
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
    /// DATA, SACK, HEARTBEAT, and what later RFCs add.
    Other,
    /// ERROR, and none of the above: it says that a cookie was too old, or anything else.
    Error,
}

/// A packet that does nothing but to try whether its peer is there (RFC 9260 section 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Heartbeat,
    HeartbeatAck,
}

/// What is read of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SctpChunks {
    pub(crate) kind: ChunkKind,
    /// The verification tag.
    pub(crate) tag: u32,
    /// Of ABORT and SHUTDOWN COMPLETE: the tag is the one that the peer sends (section 8.5.1).
    pub(crate) reflects: bool,
    /// What INIT and INIT ACK ask the peer to send as its tag.
    pub(crate) initiate: u32,
    /// Its first chunk is a HEARTBEAT.
    pub(crate) is_heartbeat: bool,
    /// If its only chunk is a HEARTBEAT or the answer to one.
    pub(crate) probe: Option<Probe>,
    /// No chunk, one without a length, or one with others that stands alone (section 3).
    pub(crate) is_garbled: bool,
    /// Its zone judges tags.
    pub(crate) is_judged: bool,
}

impl ChunkKind {
    /// Whether it is the end of an association.
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
    /// Of a packet that was parsed. `None`: a capture has cut it before what is to be known.
    #[inline(never)]
    pub(crate) fn of<P: Packet>(
        packet: &P,
        meta: PacketMeta,
        opening: &HeaderInfo,
        is_judged: bool,
    ) -> Option<Self> {
        let len = (meta.ip_len() as usize).saturating_sub(opening.ip_header());
        let (l4, look) = (opening.l4(), len.min(LOOK));
        let read = |bytes: &[u8]| Some(SctpChunks { is_judged, ..Self::read(bytes, len)? });
        if let Some(bytes) = packet.head().get(l4..l4 + look) {
            return read(bytes);
        }
        let mut gathered = [0; HEADERS_MAX + LOOK];
        let copied = packet.copy_to(&mut gathered);
        read(gathered.get(l4..copied.min(l4 + look))?)
    }

    /// What it is for where nobody minds how it is made.
    pub(crate) fn main_chunk(&self) -> ChunkKind {
        if self.is_garbled { ChunkKind::Other } else { self.kind }
    }

    /// Whether an association can begin with it: nothing is judged, or it is made as it should be.
    pub(crate) fn has_valid_chunks(&self) -> bool {
        !self.is_judged || !self.is_garbled
    }

    /// Whether an association that is not known may begin with it even where nothing is picked up:
    /// HEARTBEAT is the first packet between other addresses of the same two ends (section 5.4).
    pub(crate) fn is_init(&self) -> bool {
        !self.is_garbled && (self.kind == ChunkKind::Init || self.is_heartbeat)
    }

    /// Of the first bytes of a packet of this length.
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
            is_judged: true,
        };
        let mut at = COMMON;
        for count in 0..CHUNKS_MAX {
            let Some([kind, flags, high, low]) = bytes.get(at..).and_then(|b| b.first_chunk())
            else {
                // Behind the last one, or where nobody looks, or cut.
                let is_known = count > 0 || chunks.is_garbled;
                return is_known.then_some(chunks);
            };
            let chunk_len = usize::from(u16::from_be_bytes([*high, *low]));
            if chunk_len < CHUNK {
                chunks.is_garbled = true;
                return Some(chunks);
            }
            // What is behind the end may be in a later fragment: it is not judged.
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
                    let is_cut = bytes.len() < len.min(LOOK);
                    let chunk = (&bytes[at..], chunk_len, is_cut);
                    return chunks.alone(kind, count > 0 || next < len, chunk);
                }
            }
            at = next;
        }
        Some(chunks)
    }

    /// With what the chunk says that decides, where others are beside it, or not.
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
                // The packet ends before it, whatever the chunk says.
                None => 0,
            };
            // Sections 3.3.2 and 8.5.1.
            self.is_garbled = self.initiate == 0 || kind == ChunkKind::Init && self.tag != 0;
        }
        Some(self)
    }
}
