// SPDX-License-Identifier: BSD-3-Clause
//! Verification tags (RFC 9260 section 8.5): which the packets of each side carry, as far as a box
//! between both ends can know it.
//!
//! Each side chooses what the other has to send, in INIT or INIT ACK. A responder keeps nothing and
//! chooses anew for each INIT ACK (section 5.1.3), and a side that was restarted begins again
//! (section 5.2.2). So what is chosen while tags are known is an offer: the COOKIE ECHO that
//! carries it decides, as only who has seen the INIT ACK can send that. INIT alone, which anybody
//! can send, decides nothing; and whoever sends both INIT and INIT ACK would have to be at both
//! ports of the wire.
//!
//! Where an association has begun anew between other addresses, its first packet between these is
//! a HEARTBEAT with a tag that is not known here. The HEARTBEAT ACK of the other side, at the other
//! port, says that it is right: nobody answers one with a wrong tag (section 8.5). Linux takes over
//! tags likewise (`SCTP_FLAG_HEARTBEAT_VTAG_FAILED`).

use crate::api::{Anomaly, Side};
use crate::conn::tcp::window::{TcpWindow, WindowScales};
use crate::packet::{ChunkKind, Probe, SctpChunks};

/// Tags of the packets of the originator and of the responder; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SctpTags {
    pub(crate) known: [u32; 2],
    /// Those that an INIT and an INIT ACK have agreed upon since.
    pub(crate) offered: [u32; 2],
    /// What the last INIT has asked for, if it was not the first; or the tag of a HEARTBEAT since.
    pub(crate) asked: u32,
    pub(crate) asker: InitSender,
}

/// Who has sent an INIT: the originator (0) or the responder (1), and by which port, if there are
/// two. Or it was a HEARTBEAT with another tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitSender {
    sender: u8,
    side: Option<Side>,
    is_probe: bool,
}

impl InitSender {
    /// In four bits.
    pub(crate) fn to_bits(self) -> u8 {
        let side = match self.side {
            None => 0,
            Some(Side::A) => 2,
            Some(Side::B) => 4,
        };
        self.sender & 1 | side | u8::from(self.is_probe) << 3
    }

    /// What [`to_bits`](Self::to_bits) has made.
    pub(crate) fn of_bits(bits: u8) -> Self {
        let side = match bits & 6 {
            2 => Some(Side::A),
            4 => Some(Side::B),
            _ => None,
        };
        InitSender { sender: bits & 1, side, is_probe: bits & 8 != 0 }
    }

    /// Whether this can be the one who answers: the other end, at the other port.
    fn is_answered_by(self, sender: usize, side: Option<Side>) -> bool {
        let is_across = self.side.zip(side).is_none_or(|(a, b)| a != b);
        usize::from(self.sender) != sender && is_across
    }
}

/// What a packet means by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagOutcome {
    /// It is of the association.
    Fits,
    /// It is, and both sides have begun anew.
    Restarts,
    /// Nobody can tell: it changes nothing.
    Unknown,
}

impl SctpTags {
    /// After the first packet, which is the originator's.
    pub(crate) fn first(chunks: &SctpChunks) -> Self {
        let known = match chunks.kind {
            ChunkKind::Init => [0, chunks.initiate],
            ChunkKind::InitAck => [chunks.tag, chunks.initiate],
            _ => [chunks.tag, 0],
        };
        SctpTags { known, ..Self::default() }
    }

    /// Takes a packet, sent by the originator (0) or the responder (1), if its tag is right; by
    /// which port, if there are two. `is_asking`: nothing but an INIT of the originator has been
    /// seen.
    pub(crate) fn take(
        &mut self,
        (direction, side): (usize, Option<Side>),
        chunks: &SctpChunks,
        is_asking: bool,
    ) -> Result<TagOutcome, Anomaly> {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let tag = chunks.tag;
        if chunks.kind == ChunkKind::Init {
            let asker = InitSender { sender: sender as u8, side, is_probe: false };
            return self.take_init(asker, chunks.initiate, is_asking);
        }
        // Nobody has told the originator which tag it is to send, but an INIT of both.
        let has_none = is_asking && sender == 0;
        let is_init_ack = chunks.kind == ChunkKind::InitAck;
        let answers = is_init_ack
            && !self.asker.is_probe
            && tag == self.asked
            && self.asker.is_answered_by(sender, side);
        if tag == 0 || has_none && !answers {
            return Err(Anomaly::SctpTag);
        }
        match chunks.kind {
            ChunkKind::InitAck => return self.take_init_ack(sender, chunks, (is_asking, answers)),
            ChunkKind::Abort | ChunkKind::ShutdownComplete => {
                let wanted = self.known[if chunks.reflects { peer } else { sender }];
                return match wanted {
                    0 => Ok(TagOutcome::Unknown),
                    _ if wanted == tag => Ok(TagOutcome::Fits),
                    _ => Err(Anomaly::SctpTag),
                };
            }
            ChunkKind::CookieEcho if tag == self.offered[sender] => {
                *self = SctpTags { known: self.offered, ..Self::default() };
                return Ok(TagOutcome::Restarts);
            }
            _ => {}
        }
        match self.known[sender] {
            0 => self.known[sender] = tag,
            known if known != tag => return self.take_probe((sender, side), chunks),
            // They are the right ones after all.
            _ if chunks.probe.is_some() && self.asker.is_probe => self.forget_asked(),
            _ => {}
        }
        Ok(TagOutcome::Fits)
    }

    /// Takes a packet whose tag is not the known one: a HEARTBEAT is remembered, and its answer
    /// makes both tags known.
    fn take_probe(
        &mut self,
        (sender, side): (usize, Option<Side>),
        chunks: &SctpChunks,
    ) -> Result<TagOutcome, Anomaly> {
        match chunks.probe {
            Some(Probe::Heartbeat) => {
                self.asked = chunks.tag;
                self.asker = InitSender { sender: sender as u8, side, is_probe: true };
                Err(Anomaly::SctpHeartbeat)
            }
            Some(Probe::HeartbeatAck)
                if self.asker.is_probe && self.asker.is_answered_by(sender, side) =>
            {
                let mut known = [self.asked; 2];
                known[sender] = chunks.tag;
                *self = SctpTags { known, ..Self::default() };
                Ok(TagOutcome::Restarts)
            }
            _ => Err(Anomaly::SctpTag),
        }
    }

    fn forget_asked(&mut self) {
        (self.asked, self.asker) = (0, InitSender::default());
    }

    fn take_init(
        &mut self,
        asker: InitSender,
        initiate: u32,
        is_asking: bool,
    ) -> Result<TagOutcome, Anomaly> {
        if self.known[1 - usize::from(asker.sender)] == initiate {
            return Ok(TagOutcome::Fits);
        }
        (self.asked, self.asker) = (initiate, asker);
        // Whoever asks anew before there is an answer has forgotten what it asked before.
        if is_asking && asker.sender == 0 { Ok(TagOutcome::Fits) } else { Err(Anomaly::SctpInit) }
    }

    fn take_init_ack(
        &mut self,
        sender: usize,
        chunks: &SctpChunks,
        (is_asking, answers): (bool, bool),
    ) -> Result<TagOutcome, Anomaly> {
        let (tag, initiate) = (chunks.tag, chunks.initiate);
        let pair = if sender == 0 { [tag, initiate] } else { [initiate, tag] };
        let known = self.known[sender];
        if known != 0 && known != tag && !answers {
            return Err(Anomaly::SctpTag);
        }
        if self.known[1 - sender] == 0 && (known == tag || is_asking) {
            self.known = pair;
        } else if self.known != pair {
            self.offered = pair;
        }
        Ok(TagOutcome::Fits)
    }

    /// Whether a side can have sent this packet, which comes by behind the end, as far as anybody
    /// knows.
    pub(crate) fn has_left(&self, direction: usize, chunks: &SctpChunks) -> bool {
        self.has_sent(direction ^ usize::from(chunks.reflects), chunks.tag, false)
    }

    /// Whether a side can have sent a packet with this tag, as far as anybody knows. One without is
    /// its INIT.
    pub(crate) fn has_sent(&self, direction: usize, tag: u32, is_asking: bool) -> bool {
        let known = self.known[direction & 1];
        match tag {
            0 => is_asking && direction == 0,
            _ if known == 0 => !is_asking,
            _ => tag == known || tag == self.offered[direction & 1],
        }
    }
}

impl WindowScales {
    /// In place of shifts, of an association of SCTP whose tags are judged.
    pub(crate) fn of_tags(tags: &SctpTags) -> Self {
        WindowScales(tags.asker.to_bits())
    }
}

impl TcpWindow {
    /// The tags of SCTP, in the same place.
    pub(crate) fn of_tags(&SctpTags { known, offered, asked, .. }: &SctpTags) -> Self {
        TcpWindow { ends: known, acks: offered, rooms: [(asked >> 16) as u16, asked as u16] }
    }

    /// The tags that are in these.
    pub(crate) fn tags(&self, scales: WindowScales) -> SctpTags {
        let [high, low] = self.rooms.map(u32::from);
        let asker = InitSender::of_bits(scales.0);
        SctpTags { known: self.ends, offered: self.acks, asked: high << 16 | low, asker }
    }
}
