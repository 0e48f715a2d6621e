// SPDX-License-Identifier: BSD-3-Clause
//! Owns the verification tags of an association (RFC 9260 section 8.5), as a box between both ends
//! can know them.
//!
//! Each side chooses the tag that the other must send, in INIT or INIT ACK. A responder keeps no
//! state and chooses anew for each INIT ACK (section 5.1.3). A restarted side begins again (section
//! 5.2.2). So tags that are chosen while others are known are only an offer. The COOKIE ECHO that
//! carries the offer decides, because only a side that has seen the INIT ACK can send it. An INIT
//! alone, which any host can send, decides nothing. To forge both INIT and INIT ACK, an attacker
//! must be at both ports of the wire.
//!
//! If an association has restarted between other addresses, its first packet here is a HEARTBEAT
//! with an unknown tag. The HEARTBEAT ACK from the other port confirms the tag: a HEARTBEAT with a
//! wrong tag is never answered (section 8.5). Linux takes over tags likewise
//! (`SCTP_FLAG_HEARTBEAT_VTAG_FAILED`).

use crate::api::{Anomaly, Side};
use crate::conn::tcp::window::{TcpWindow, WindowScales};
use crate::packet::{ChunkKind, Probe, SctpChunks};

/// Tags of the packets of the originator and of the responder; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SctpTags {
    pub(crate) known: [u32; 2],
    /// Tags that a later INIT and INIT ACK have agreed on.
    pub(crate) offered: [u32; 2],
    /// Tag that the last INIT requested, if it was not the first; or the tag of a later HEARTBEAT.
    pub(crate) requested: u32,
    pub(crate) requester: InitSender,
}

/// Sender of an INIT, or of a HEARTBEAT with an unknown tag: the originator (0) or the responder
/// (1).
///
/// Holds the port too, if there are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitSender {
    sender: u8,
    side: Option<Side>,
    is_probe: bool,
}

impl InitSender {
    /// Encodes the sender in four bits.
    pub(crate) fn to_bits(self) -> u8 {
        let side = match self.side {
            None => 0,
            Some(Side::A) => 2,
            Some(Side::B) => 4,
        };
        self.sender & 1 | side | u8::from(self.is_probe) << 3
    }

    /// Decodes the result of [`to_bits`](Self::to_bits).
    pub(crate) fn of_bits(bits: u8) -> Self {
        let side = match bits & 6 {
            2 => Some(Side::A),
            4 => Some(Side::B),
            _ => None,
        };
        InitSender { sender: bits & 1, side, is_probe: bits & 8 != 0 }
    }

    /// True if this sender can answer: the other end, at the other port.
    fn is_answered_by(self, sender: usize, side: Option<Side>) -> bool {
        let is_across = self.side.zip(side).is_none_or(|(a, b)| a != b);
        usize::from(self.sender) != sender && is_across
    }
}

/// Result of the tag check of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagOutcome {
    /// The packet belongs to the association.
    Fits,
    /// The packet belongs to the association, which both sides have restarted.
    Restarts,
    /// Too little is known to decide: the packet changes no state.
    Unknown,
}

impl SctpTags {
    /// Returns the tags after the first packet, which the originator sent.
    pub(crate) fn first(chunks: &SctpChunks) -> Self {
        let known = match chunks.kind {
            ChunkKind::Init => [0, chunks.initiate],
            ChunkKind::InitAck => [chunks.tag, chunks.initiate],
            _ => [chunks.tag, 0],
        };
        SctpTags { known, ..Self::default() }
    }

    /// Checks the tag of a packet, and learns tags from it.
    ///
    /// `direction` is 0 for the originator, 1 for the responder; `side` is the port, if there are
    /// two. `is_unanswered`: only an INIT of the originator was seen so far.
    ///
    /// # Errors
    /// [`Anomaly`] if the tag is wrong, or if the packet is an INIT or HEARTBEAT that awaits its
    /// answer.
    pub(crate) fn take(
        &mut self,
        (direction, side): (usize, Option<Side>),
        chunks: &SctpChunks,
        is_unanswered: bool,
    ) -> Result<TagOutcome, Anomaly> {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let tag = chunks.tag;
        if chunks.kind == ChunkKind::Init {
            let requester = InitSender { sender: sender as u8, side, is_probe: false };
            return self.take_init(requester, chunks.initiate, is_unanswered);
        }
        // The originator knows no tag to send, unless both sides have sent an INIT.
        let has_none = is_unanswered && sender == 0;
        let is_init_ack = chunks.kind == ChunkKind::InitAck;
        let is_answer = is_init_ack
            && !self.requester.is_probe
            && tag == self.requested
            && self.requester.is_answered_by(sender, side);
        if tag == 0 || has_none && !is_answer {
            return Err(Anomaly::SctpTag);
        }
        match chunks.kind {
            ChunkKind::InitAck => {
                return self.take_init_ack(sender, chunks, (is_unanswered, is_answer));
            }
            ChunkKind::Abort | ChunkKind::ShutdownComplete => {
                let expected = self.known[if chunks.reflects { peer } else { sender }];
                return match expected {
                    0 => Ok(TagOutcome::Unknown),
                    _ if expected == tag => Ok(TagOutcome::Fits),
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
            // The known tags are right after all.
            _ if chunks.probe.is_some() && self.requester.is_probe => self.clear_request(),
            _ => {}
        }
        Ok(TagOutcome::Fits)
    }

    /// Checks a packet with another tag than the known one. A HEARTBEAT is remembered, and its
    /// answer makes both tags known.
    fn take_probe(
        &mut self,
        (sender, side): (usize, Option<Side>),
        chunks: &SctpChunks,
    ) -> Result<TagOutcome, Anomaly> {
        match chunks.probe {
            Some(Probe::Heartbeat) => {
                self.requested = chunks.tag;
                self.requester = InitSender { sender: sender as u8, side, is_probe: true };
                Err(Anomaly::SctpHeartbeat)
            }
            Some(Probe::HeartbeatAck)
                if self.requester.is_probe && self.requester.is_answered_by(sender, side) =>
            {
                let mut known = [self.requested; 2];
                known[sender] = chunks.tag;
                *self = SctpTags { known, ..Self::default() };
                Ok(TagOutcome::Restarts)
            }
            _ => Err(Anomaly::SctpTag),
        }
    }

    fn clear_request(&mut self) {
        (self.requested, self.requester) = (0, InitSender::default());
    }

    fn take_init(
        &mut self,
        requester: InitSender,
        initiate: u32,
        is_unanswered: bool,
    ) -> Result<TagOutcome, Anomaly> {
        if self.known[1 - usize::from(requester.sender)] == initiate {
            return Ok(TagOutcome::Fits);
        }
        (self.requested, self.requester) = (initiate, requester);
        // An originator that sends another INIT before an answer has forgotten the first.
        if is_unanswered && requester.sender == 0 {
            Ok(TagOutcome::Fits)
        } else {
            Err(Anomaly::SctpInit)
        }
    }

    fn take_init_ack(
        &mut self,
        sender: usize,
        chunks: &SctpChunks,
        (is_unanswered, is_answer): (bool, bool),
    ) -> Result<TagOutcome, Anomaly> {
        let (tag, initiate) = (chunks.tag, chunks.initiate);
        let pair = if sender == 0 { [tag, initiate] } else { [initiate, tag] };
        let known = self.known[sender];
        if known != 0 && known != tag && !is_answer {
            return Err(Anomaly::SctpTag);
        }
        if self.known[1 - sender] == 0 && (known == tag || is_unanswered) {
            self.known = pair;
        } else if self.known != pair {
            self.offered = pair;
        }
        Ok(TagOutcome::Fits)
    }

    /// True if this side can have sent this packet after the end of the association. Also true if
    /// too little is known.
    pub(crate) fn has_left(&self, direction: usize, chunks: &SctpChunks) -> bool {
        self.has_sent(direction ^ usize::from(chunks.reflects), chunks.tag, false)
    }

    /// True if this side can have sent a packet with this tag. Also true if too little is known.
    ///
    /// Tag 0 is that of an INIT.
    pub(crate) fn has_sent(&self, direction: usize, tag: u32, is_unanswered: bool) -> bool {
        let known = self.known[direction & 1];
        match tag {
            0 => is_unanswered && direction == 0,
            _ if known == 0 => !is_unanswered,
            _ => tag == known || tag == self.offered[direction & 1],
        }
    }
}

impl WindowScales {
    /// Encodes the sender of an INIT in place of window shifts, for an association with tag check.
    pub(crate) fn of_tags(tags: &SctpTags) -> Self {
        WindowScales(tags.requester.to_bits())
    }
}

impl TcpWindow {
    /// Stores the tags in place of the window.
    pub(crate) fn of_tags(&SctpTags { known, offered, requested, .. }: &SctpTags) -> Self {
        TcpWindow {
            ends: known,
            acks: offered,
            windows: [(requested >> 16) as u16, requested as u16],
        }
    }

    /// Returns the tags that are stored in place of window and shifts.
    pub(crate) fn tags(&self, scales: WindowScales) -> SctpTags {
        let [high, low] = self.windows.map(u32::from);
        let requester = InitSender::of_bits(scales.0);
        SctpTags { known: self.ends, offered: self.acks, requested: high << 16 | low, requester }
    }
}
