// SPDX-License-Identifier: BSD-3-Clause
//! TCP by its numbers, as RFC 9293 sections 3.4 and 3.10.7, RFC 5961 and RFC 7323 have it for an
//! end, told of a box that sees both. Plain and slow, one segment at a time, with edges where the
//! engine has rooms.

use super::reference::{ACK, FIN, RST, SYN};
use engine::Anomaly;

/// What a segment says in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// Bytes of data.
    pub(crate) data: u32,
    /// The window scale option.
    pub(crate) scale: Option<u8>,
}

/// Where a connection is, of those states in which numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A SYN has no answer.
    Asked,
    /// Each has sent a SYN, neither has acknowledged the other's.
    BothAsked,
    /// It began unseen, and one side has been heard.
    OneSide,
    /// All the others.
    Known,
}

/// One end, by what it has sent.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Behind the highest number sent.
    sent: u32,
    acked: u32,
    /// The peer may send up to here.
    edge: u32,
    /// Bytes for each 1 of its window field.
    unit: i64,
}

/// Both ends, the originator first.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    ends: [End; 2],
    /// The number behind the SYN.
    asked: u32,
    /// The window and the scale beside it.
    syn: (u16, Option<u8>),
    /// Nobody knows all that was sent: each end was heard once, and that may have been said before.
    is_learnt: bool,
}

/// From `a` to `b`, where numbers come round.
fn from_to(a: u32, b: u32) -> i64 {
    i64::from(b.wrapping_sub(a) as i32)
}

fn later(a: u32, b: u32) -> u32 {
    if from_to(a, b) > 0 { b } else { a }
}

/// How a SYN's shift counts: RFC 7323 section 2.3.
fn unit(scale: Option<u8>) -> i64 {
    1 << scale.unwrap_or(0).min(14)
}

const LARGEST: i64 = 1 << 14;
const FIELD_MAX: i64 = 65_535;

impl Said {
    /// Behind its last number.
    fn end(&self, flags: u8) -> u32 {
        let marks = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        self.seq.wrapping_add(self.data + marks)
    }
}

/// RFC 9293 section 3.10.7: an ACK with all but a first SYN and an RST; nothing else beside it but
/// URG where there may be data.
pub(crate) fn is_sound(flags: u8) -> bool {
    let (only, urgent) = (flags & (SYN | FIN | RST | ACK), flags & 0x20 != 0);
    let with_urgent = [SYN, ACK, FIN | ACK].contains(&only);
    let without = [SYN | ACK, RST, RST | ACK].contains(&only);
    with_urgent || without && !urgent
}

impl Sequence {
    /// After a first SYN, or another in its place.
    pub(crate) fn asked(said: Said, flags: u8) -> Self {
        let mut ends = [End::default(); 2];
        ends[0].sent = said.end(flags);
        Sequence {
            ends,
            asked: said.seq.wrapping_add(1),
            syn: (said.window, said.scale),
            is_learnt: false,
        }
    }

    /// After any other first segment.
    pub(crate) fn picked_up(said: Said, flags: u8) -> Self {
        let edge = |ack: u32, window: i64| ack.wrapping_add((window * LARGEST) as u32);
        let first = End {
            sent: said.end(flags),
            acked: said.ack,
            edge: edge(said.ack, said.window.into()),
            unit: LARGEST,
        };
        let peer =
            End { sent: said.ack, acked: said.seq, edge: edge(said.seq, FIELD_MAX), unit: LARGEST };
        Sequence { ends: [first, peer], asked: 0, syn: (0, None), is_learnt: false }
    }

    /// After one segment of a connection of which nothing is known but the units.
    pub(crate) fn heard(&self, from: usize, flags: u8, said: Said) -> Self {
        let units = self.ends.map(|end| end.unit);
        let edge = |start: u32, window: i64, unit: i64| start.wrapping_add((window * unit) as u32);
        let mut ends = [End::default(); 2];
        ends[from] = End {
            sent: said.end(flags),
            acked: said.ack,
            edge: edge(said.ack, said.window.into(), units[from]),
            unit: units[from],
        };
        ends[1 - from] = End {
            sent: said.ack,
            acked: said.seq,
            edge: edge(said.seq, FIELD_MAX, units[1 - from]),
            unit: units[1 - from],
        };
        Sequence { ends, is_learnt: false, ..self.clone() }
    }

    /// A segment of the other end and what this one says to it are all that counts.
    pub(crate) fn come_back(
        &mut self,
        from: usize,
        (asked, asked_flags): (Said, u8),
        (said, flags): (Said, u8),
    ) {
        for (end, said, flags) in [(1 - from, asked, asked_flags), (from, said, flags)] {
            let unit = self.ends[end].unit;
            let edge = said.ack.wrapping_add((i64::from(said.window) * unit) as u32);
            self.ends[end] = End { sent: said.end(flags), acked: said.ack, edge, unit };
        }
        self.is_learnt = true;
    }

    /// Both ends were heard after a restart, and agree.
    pub(crate) fn agree(&mut self) {
        self.is_learnt = true;
    }

    /// Whether the peer has acknowledged all up to this number of an end, and no more.
    pub(crate) fn is_expected(&self, from: usize, seq: u32) -> bool {
        self.ends[1 - from].acked == seq || self.ends[from].sent == seq
    }

    /// The largest window there is may be on its way, and nobody has seen it.
    pub(crate) fn believe(&mut self, from: usize, ack: u32) {
        let peer = &mut self.ends[1 - from];
        if (0..=FIELD_MAX * LARGEST).contains(&from_to(peer.sent, ack)) {
            peer.sent = ack;
        }
    }

    fn answers(&self, ack: u32) -> bool {
        from_to(self.asked, ack) >= 0 && from_to(ack, self.ends[0].sent) >= 0
    }

    /// Whether both have acknowledged all.
    pub(crate) fn is_all_acked(&self) -> bool {
        let [a, b] = self.ends;
        a.acked == b.sent && b.acked == a.sent
    }

    /// Whether the other end has acknowledged all that this one has sent.
    pub(crate) fn is_acked(&self, from: usize) -> bool {
        from_to(self.ends[from].sent, self.ends[1 - from].acked) >= 0
    }

    /// Whether this end can have sent a segment that starts here: not behind all that it has sent,
    /// and not a largest window before what is acknowledged (RFC 5927 section 4.1).
    pub(crate) fn has_sent(&self, stage: Stage, from: usize, seq: u32) -> bool {
        let (sender, peer) = (self.ends[from], self.ends[1 - from]);
        match (stage, from) {
            (Stage::Asked, 0) => {
                let syn = self.asked.wrapping_sub(1);
                (0..=from_to(syn, sender.sent)).contains(&from_to(syn, seq))
            }
            (Stage::Asked, _) => false,
            (Stage::OneSide, 1) => true,
            _ => {
                let ahead = from_to(peer.acked, seq);
                ahead <= from_to(peer.acked, sender.sent) && -ahead <= FIELD_MAX * peer.unit
            }
        }
    }

    /// Whether a sound segment of this end, the originator's if 0, is one of the connection; if so,
    /// it is followed. False: it is, and yet it changes nothing.
    pub(crate) fn judge(
        &mut self,
        stage: Stage,
        from: usize,
        flags: u8,
        said: Said,
    ) -> Result<bool, Anomaly> {
        let (is_syn, is_ack) = (flags & SYN != 0, flags & ACK != 0);
        if flags & RST != 0 {
            return self.reset(stage, from, is_ack, said);
        }
        match (stage, from) {
            (Stage::Asked, 0) if is_syn && !is_ack => {
                if self.asked != said.seq.wrapping_add(1) {
                    *self = Self::asked(said, flags);
                }
                Ok(false)
            }
            (Stage::Asked, 1) if is_syn => {
                if is_ack && !self.answers(said.ack) {
                    return Err(Anomaly::TcpAckBeyond);
                }
                self.meet(said, flags);
                Ok(true)
            }
            (Stage::Asked, 1) if self.answers(said.ack) => {
                let [first, second] = &mut self.ends;
                (first.acked, first.unit) = (said.seq, LARGEST);
                first.edge = said.seq.wrapping_add((i64::from(self.syn.0) * LARGEST) as u32);
                *second = End {
                    sent: said.end(flags),
                    acked: said.ack,
                    edge: said.ack.wrapping_add((i64::from(said.window) * LARGEST) as u32),
                    unit: LARGEST,
                };
                Ok(true)
            }
            (Stage::Asked, _) if is_syn && from == 0 => {
                // An answer to what nobody has asked, unless it was sent before.
                self.repeated(from, flags, said)
            }
            (Stage::Asked, 1) => Err(Anomaly::TcpAckOld),
            (Stage::Asked, _) => Err(Anomaly::TcpAckBeyond),
            (Stage::BothAsked, _) if is_syn && is_ack && self.is_of_another(from, said) => {
                self.meet_anew(from, said, flags);
                Ok(true)
            }
            (Stage::BothAsked, _) if is_syn && is_ack => self.accept(from, flags, said),
            _ if is_syn => self.repeated(from, flags, said),
            (Stage::OneSide, _) => {
                // The largest window there is may be on its way, and nobody has seen it.
                self.believe(from, said.ack);
                self.accept(from, flags, said)
            }
            _ => self.accept(from, flags, said),
        }
    }

    fn reset(&self, stage: Stage, from: usize, is_ack: bool, said: Said) -> Result<bool, Anomaly> {
        let (sender, peer) = (self.ends[from], self.ends[1 - from]);
        if stage == Stage::Asked {
            let is_answer = is_ack && self.answers(said.ack);
            let is_own = said.seq == self.asked || said.seq == sender.sent;
            let (holds, otherwise) = match from {
                1 => (is_answer, Anomaly::TcpRst),
                _ => (is_own, Anomaly::TcpRstInWindow),
            };
            return holds.then_some(true).ok_or(otherwise);
        }
        if [peer.acked, sender.sent].contains(&said.seq) {
            return Ok(true);
        }
        let room = from_to(peer.acked, peer.edge);
        let is_inside = (0..=room).contains(&from_to(peer.acked, said.seq));
        Err(if is_inside { Anomaly::TcpRstInWindow } else { Anomaly::TcpRst })
    }

    /// The second SYN, with an answer or without.
    fn meet(&mut self, said: Said, flags: u8) {
        let is_scaled = self.syn.1.is_some() && said.scale.is_some();
        let [first, second] = &mut self.ends;
        if is_scaled {
            (first.unit, second.unit) = (unit(self.syn.1), unit(said.scale));
        } else {
            (first.unit, second.unit) = (1, 1);
        }
        second.sent = said.end(flags);
        second.acked = if flags & ACK != 0 { said.ack } else { self.asked };
        first.acked = said.seq.wrapping_add(1);
        // Beside a SYN the field is bytes.
        for (end, window) in [(first, self.syn.0), (second, said.window)] {
            end.edge = end.acked;
            end.allow(end.acked.wrapping_add(window.into()));
        }
    }

    /// RFC 9293 section 3.10.7.3: who acknowledges a SYN has seen it, and says with which number it
    /// begins itself. Whether that is not the one with which somebody has asked in its name.
    fn is_of_another(&self, from: usize, said: Said) -> bool {
        let (own, peer) = (self.ends[from], self.ends[1 - from]);
        let most = from_to(own.acked, peer.sent);
        peer.acked != said.seq.wrapping_add(1) && (0..=most).contains(&from_to(own.acked, said.ack))
    }

    /// That one takes the place of the other.
    fn meet_anew(&mut self, from: usize, said: Said, flags: u8) {
        let before = self.ends[1 - from];
        let room = from_to(before.acked, before.edge);
        let was_scaled = self.ends.iter().any(|end| end.unit > 1);
        let [own, peer] = match said.scale {
            None => [1, 1],
            // Nobody says one who was not offered one: that of the peer is not known any more.
            Some(_) if !was_scaled => [unit(said.scale), LARGEST],
            Some(_) => [unit(said.scale), before.unit],
        };
        self.ends[from] = End { sent: said.end(flags), acked: said.ack, edge: said.ack, unit: own };
        self.ends[from].allow(said.ack.wrapping_add(said.window.into()));
        let acked = said.seq.wrapping_add(1);
        self.ends[1 - from] = End { acked, edge: acked, unit: peer, ..before };
        self.ends[1 - from].allow(acked.wrapping_add(room as u32));
    }

    /// A SYN where there is a connection already.
    fn repeated(&self, from: usize, flags: u8, said: Said) -> Result<bool, Anomaly> {
        let is_own = (from == 0) == (flags & ACK == 0);
        match self.has_repeated(from, flags, said) {
            true => Ok(false),
            false if is_own || self.is_guessed() => Err(Anomaly::TcpSyn),
            false => Err(Anomaly::TcpSynOfOther),
        }
    }

    /// Whether a SYN ends not behind what was sent, and not a largest window before that.
    fn has_repeated(&self, from: usize, flags: u8, said: Said) -> bool {
        let age = from_to(said.end(flags), self.ends[from].sent);
        (0..=FIELD_MAX * self.ends[1 - from].unit.max(1)).contains(&age)
    }

    /// True if a SYN ends at most one window without a shift before what was sent. Late packets are
    /// that old, hardly older.
    pub(crate) fn is_late(&self, from: usize, flags: u8, said: Said) -> bool {
        (0..=FIELD_MAX).contains(&from_to(said.end(flags), self.ends[from].sent))
    }

    /// Nobody has seen both of them begin: who is the originator is a guess.
    pub(crate) fn is_guessed(&self) -> bool {
        self.ends.iter().all(|end| end.unit == LARGEST)
    }

    pub(crate) fn accept(&mut self, from: usize, flags: u8, said: Said) -> Result<bool, Anomaly> {
        let (sender, peer) = (self.ends[from], self.ends[1 - from]);
        if from_to(peer.acked, said.seq) > from_to(peer.acked, peer.edge) {
            return Err(Anomaly::TcpBeyondWindow);
        }
        // All from one number: half the space away is old, and not new at once (RFC 1982 leaves it
        // open).
        let len = i64::from(said.end(flags).wrapping_sub(said.seq));
        let news = from_to(peer.acked, said.seq) + len - from_to(peer.acked, sender.sent);
        if -news > FIELD_MAX * peer.unit {
            return Err(Anomaly::TcpOld);
        }
        let room = from_to(sender.acked, sender.edge);
        let is_allowed = (0..=room).contains(&from_to(sender.acked, said.ack));
        let mut missing = from_to(said.ack, peer.sent);
        if missing < 0 && self.is_learnt && is_allowed {
            (self.ends[1 - from].sent, missing) = (said.ack, 0);
        }
        if missing < 0 {
            return Err(Anomaly::TcpAckBeyond);
        }
        if missing > (FIELD_MAX * sender.unit).max(66_000) {
            return Err(Anomaly::TcpAckOld);
        }
        let sender = &mut self.ends[from];
        if news > 0 {
            sender.sent = said.end(flags);
        }
        let edge = said.ack.wrapping_add((i64::from(said.window) * sender.unit) as u32);
        sender.acked = later(sender.acked, said.ack);
        let further = from_to(sender.acked, edge) > from_to(sender.acked, sender.edge);
        sender.allow(if further { edge } else { sender.edge });
        Ok(true)
    }

    /// So many bytes more of a segment whose first fragment said this. If that was refused, its end
    /// is not among what was sent, or the segment is not one of the connection. Whoever asks may
    /// have data beside the SYN (RFC 9293 section 3.4).
    pub(crate) fn go_on(
        &mut self,
        stage: Stage,
        from: usize,
        (flags, said): (u8, Said),
        more: u32,
    ) {
        let all = Said { data: said.data + more, ..said };
        let only = flags & (SYN | FIN | RST | ACK);
        let is_one = match stage {
            Stage::Asked => from == 0 && only == SYN,
            _ if only & RST != 0 || only & ACK == 0 => false,
            _ => is_sound(flags) && self.clone().accept(from, flags, all).is_ok(),
        };
        let (seen, sent) = (said.end(flags), &mut self.ends[from].sent);
        if is_one && from_to(seen, *sent) >= 0 {
            *sent = later(*sent, seen.wrapping_add(more));
        }
    }
}

impl End {
    /// The edge is kept as so many units from what is acknowledged, rounded up.
    fn allow(&mut self, edge: u32) {
        let units = from_to(self.acked, edge).div_euclid(self.unit)
            + i64::from(from_to(self.acked, edge).rem_euclid(self.unit) > 0);
        self.edge = self.acked.wrapping_add((units.min(FIELD_MAX) * self.unit) as u32);
    }
}
