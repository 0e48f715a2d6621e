// SPDX-License-Identifier: BSD-3-Clause
//! SCTP as a box between both ends can follow it (RFC 9260), told by what each packet is for; and
//! random packets of it.

use super::traffic::Rng;
use engine::{Anomaly, CtState, EndReason, Side, Timeouts};
use wire::FrameBuilder;

/// The chunk that decides what a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Init,
    InitAck,
    CookieEcho,
    CookieAck,
    Shutdown,
    ShutdownAck,
    ShutdownComplete,
    Abort,
    Error,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Asks,
    Answers,
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    act: Act,
    pub(crate) tag: u32,
    initiate: u32,
    /// The T bit.
    reflects: bool,
    is_heartbeat: bool,
    /// It is a HEARTBEAT, or the answer to one, and nothing else.
    probe: Option<Probe>,
    /// No packet is made like this.
    pub(crate) is_bad: bool,
    /// The port of the wire by which it came, if there are two.
    pub(crate) side: Option<Side>,
}

impl Spoken {
    pub(crate) fn is_init(&self) -> bool {
        self.act == Act::Init && !self.is_bad
    }

    /// Whether none begins with it.
    pub(crate) fn is_nothing(&self, is_judged: bool) -> bool {
        match self.is_bad {
            true => is_judged,
            false => matches!(self.act, Act::Abort | Act::ShutdownComplete),
        }
    }

    /// Whether an association begins with it where nothing is picked up.
    pub(crate) fn opens(&self) -> bool {
        !self.is_bad && (self.act == Act::Init || self.is_heartbeat)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    Probed,
    Answered,
    Echoed,
    Up,
    ShuttingDown,
    BothShutDown,
    Closed,
    Aborted,
    /// By the originator, who had no answer.
    Withdrawn,
    /// It never was one.
    Stray,
}

/// What is known of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Association {
    is_judged: bool,
    stage: Stage,
    /// What packets of each side carry.
    tags: [Option<u32>; 2],
    /// What they carry from now on if a COOKIE ECHO says so.
    offer: Option<[u32; 2]>,
    /// What another INIT has asked its peer to carry; who sent it, and from where.
    wanted: Option<(u32, usize, Option<Side>)>,
    /// The tag of a HEARTBEAT that was not known; who sent it, and from where.
    tried: Option<(u32, usize, Option<Side>)>,
}

impl Association {
    pub(crate) fn begin(first: &Spoken, is_judged: bool) -> Self {
        // A tag of 0 is none.
        let (tag, initiate) = (Some(first.tag).filter(|tag| *tag != 0), Some(first.initiate));
        let (stage, tags) = match first.act {
            _ if first.is_bad && is_judged => (Stage::Stray, [None; 2]),
            _ if first.is_bad => (Stage::Probed, [None; 2]),
            Act::Init => (Stage::Asked, [None, initiate]),
            Act::Abort | Act::ShutdownComplete => (Stage::Stray, [None; 2]),
            Act::InitAck => (Stage::Probed, [tag, initiate]),
            _ => (Stage::Probed, [tag, None]),
        };
        let is_judged = is_judged && stage != Stage::Stray;
        Association { is_judged, stage, tags, offer: None, wanted: None, tried: None }
    }

    /// A packet of the originator (0) or of the responder (1).
    pub(crate) fn hear(&mut self, from: usize, said: &Spoken) -> Result<(), Anomaly> {
        if said.is_bad && self.is_judged {
            return Err(Anomaly::SctpChunk);
        }
        if self.is_over() {
            return self.hear_late(from, said);
        }
        let act = if said.is_bad { Act::Other } else { said.act };
        if !self.is_judged || self.check(from, act, said)? {
            self.go_on(from, act);
        }
        Ok(())
    }

    /// Behind the end: RFC 9260 section 8.5.1 for what may be on its way still.
    fn hear_late(&mut self, from: usize, said: &Spoken) -> Result<(), Anomaly> {
        let of = if said.reflects { 1 - from } else { from };
        let offered = self.offer.map(|offer| offer[of]);
        let is_right = self.tags[of].is_none_or(|tag| tag == said.tag || offered == Some(said.tag));
        if self.is_judged && (said.tag == 0 || !is_right) {
            return Err(Anomaly::SctpTag);
        }
        if from == 1 && self.stage == Stage::Withdrawn {
            self.stage = Stage::Aborted;
        }
        Ok(())
    }

    /// Whether the tag is right; false if nobody can know.
    fn check(&mut self, from: usize, act: Act, said: &Spoken) -> Result<bool, Anomaly> {
        let (own, peer) = (self.tags[from], self.tags[1 - from]);
        let is_alone = self.stage == Stage::Asked && from == 0;
        match act {
            Act::Init if peer == Some(said.initiate) => return Ok(true),
            Act::Init => {
                (self.wanted, self.tried) = (Some((said.initiate, from, said.side)), None);
                return if is_alone { Ok(true) } else { Err(Anomaly::SctpInit) };
            }
            _ if said.tag == 0 => return Err(Anomaly::SctpTag),
            Act::InitAck => {
                // RFC 9260 section 5.1 (B): the peer answers, who is at the other end of the wire.
                let is_wanted = self.wanted.is_some_and(|(tag, who, side)| {
                    let is_across = side.zip(said.side).is_none_or(|(a, b)| a != b);
                    tag == said.tag && who != from && is_across
                });
                let is_right = own == Some(said.tag) || own.is_none() && !is_alone;
                if !is_right && !is_wanted {
                    return Err(Anomaly::SctpTag);
                }
                let mut pair = [said.tag; 2];
                pair[1 - from] = said.initiate;
                let is_first = peer.is_none() && (own == Some(said.tag) || self.is_asked());
                if is_first {
                    self.tags = pair.map(Some);
                } else if self.tags != pair.map(Some) {
                    self.offer = Some(pair);
                }
                return Ok(true);
            }
            _ if is_alone => return Err(Anomaly::SctpTag),
            Act::Abort | Act::ShutdownComplete => {
                let own = if said.reflects { peer } else { own };
                return match own {
                    Some(tag) if tag != said.tag => Err(Anomaly::SctpTag),
                    tag => Ok(tag.is_some()),
                };
            }
            Act::CookieEcho => {
                if let Some(offer) = self.offer.filter(|offer| offer[from] == said.tag) {
                    (self.tags, self.offer, self.wanted) = (offer.map(Some), None, None);
                    self.tried = None;
                    if matches!(self.stage, Stage::ShuttingDown | Stage::BothShutDown) {
                        self.stage = Stage::Up;
                    }
                    return Ok(true);
                }
            }
            _ => {}
        }
        match own {
            Some(tag) if tag != said.tag => self.try_other(from, said),
            _ => {
                if own.is_some() && said.probe.is_some() {
                    self.tried = None;
                }
                self.tags[from] = Some(said.tag);
                Ok(true)
            }
        }
    }

    /// RFC 9260 section 8.5: nobody answers a HEARTBEAT whose tag is wrong.
    fn try_other(&mut self, from: usize, said: &Spoken) -> Result<bool, Anomaly> {
        match (said.probe, self.tried) {
            (Some(Probe::Asks), _) => {
                (self.tried, self.wanted) = (Some((said.tag, from, said.side)), None);
                Err(Anomaly::SctpHeartbeat)
            }
            (Some(Probe::Answers), Some((tag, who, side)))
                if who != from && side.zip(said.side).is_none_or(|(a, b)| a != b) =>
            {
                self.tags[from] = Some(said.tag);
                self.tags[who] = Some(tag);
                (self.offer, self.wanted, self.tried) = (None, None, None);
                if matches!(self.stage, Stage::ShuttingDown | Stage::BothShutDown) {
                    self.stage = Stage::Up;
                }
                Ok(true)
            }
            _ => Err(Anomaly::SctpTag),
        }
    }

    fn is_asked(&self) -> bool {
        self.stage == Stage::Asked
    }

    fn go_on(&mut self, from: usize, act: Act) {
        use Stage::{Answered, Asked, BothShutDown, Echoed, Probed, ShuttingDown, Up};
        self.stage = match (act, from, self.stage) {
            (Act::Abort, 0, Asked | Probed) => Stage::Withdrawn,
            (Act::Abort, ..) => Stage::Aborted,
            (Act::InitAck, 1, Asked) => Answered,
            (Act::CookieEcho, _, Answered) | (Act::CookieEcho, 1, Asked) => Echoed,
            (Act::CookieEcho | Act::CookieAck | Act::Other, 1, Probed) => Up,
            (Act::CookieAck, _, Echoed) | (Act::Other, 1, Echoed) => Up,
            (Act::Shutdown, _, Up) | (Act::Shutdown, 1, Echoed | Probed) => ShuttingDown,
            (Act::ShutdownAck, _, Up | ShuttingDown) | (Act::ShutdownAck, 1, Probed) => {
                BothShutDown
            }
            (Act::ShutdownComplete, _, BothShutDown) => Stage::Closed,
            (_, _, stage) => stage,
        };
    }

    /// As the next engine has it.
    pub(crate) fn resume(&mut self, is_judged: bool) {
        let stage = match self.stage {
            Stage::Echoed => Stage::Up,
            Stage::BothShutDown => Stage::ShuttingDown,
            stage => stage,
        };
        let tags = if self.is_judged && is_judged { self.tags } else { [None; 2] };
        *self = Association { is_judged, stage, tags, offer: None, wanted: None, tried: None };
    }

    /// Whether tags are judged may have changed.
    pub(crate) fn judge_anew(&mut self, is_judged: bool) {
        let is_so = !is_judged || self.stage == Stage::Up;
        if is_so && self.is_judged != is_judged {
            let (tags, offer, wanted) = ([None; 2], None, None);
            *self = Association { is_judged, tags, offer, wanted, tried: None, ..self.clone() };
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        use Stage::{Aborted, Closed, Stray, Withdrawn};
        matches!(self.stage, Closed | Aborted | Withdrawn | Stray)
    }

    pub(crate) fn is_assured(&self) -> bool {
        use Stage::{BothShutDown, Echoed, ShuttingDown, Up};
        matches!(self.stage, Echoed | Up | ShuttingDown | BothShutDown)
    }

    pub(crate) fn state(&self) -> &'static str {
        match self.stage {
            Stage::Asked | Stage::Probed => "new",
            Stage::Answered | Stage::Echoed | Stage::Up | Stage::ShuttingDown => "open",
            _ => "closing",
        }
    }

    /// What a packet of the originator is to it.
    pub(crate) fn word(&self) -> CtState {
        match self.stage {
            Stage::Asked | Stage::Probed | Stage::Withdrawn => CtState::NEW,
            Stage::Stray => CtState::INVALID,
            _ => CtState::ESTABLISHED,
        }
    }

    pub(crate) fn end_reason(&self) -> EndReason {
        match self.stage {
            Stage::BothShutDown | Stage::Closed => EndReason::Fin,
            Stage::Aborted | Stage::Withdrawn | Stage::Stray => EndReason::Rst,
            _ => EndReason::Idle,
        }
    }

    pub(crate) fn timeout(&self, t: Timeouts) -> u64 {
        match self.stage {
            Stage::Asked | Stage::Answered => t.sctp_init,
            Stage::Probed => t.sctp_heartbeat,
            Stage::Echoed => t.sctp_cookie,
            Stage::Up => t.sctp_established,
            Stage::ShuttingDown | Stage::BothShutDown => t.sctp_shutdown,
            Stage::Closed | Stage::Aborted | Stage::Withdrawn | Stage::Stray => t.sctp_closed,
        }
    }

    /// Whether a side may have sent what an error quotes.
    pub(crate) fn has_sent(&self, from: usize, tag: u32) -> bool {
        // RFC 9260 section 8.5.1: what ends it may have the tag of the other side.
        let has = |from: usize| match (tag, self.tags[from]) {
            (0, _) => self.is_asked() && from == 0,
            (_, None) => !self.is_asked(),
            (_, known) => known == Some(tag) || self.offer.is_some_and(|pair| pair[from] == tag),
        };
        !self.is_judged || has(from) || tag != 0 && self.is_over() && has(1 - from)
    }
}

/// A packet with one chunk of so many bytes, DATA or HEARTBEAT, and what it says.
pub(crate) fn one_chunk(
    builder: FrameBuilder,
    len: usize,
    dice: &mut Rng,
) -> (FrameBuilder, Option<Spoken>) {
    let (tag, kind, is_bad) = (dice.pick(&[1, 1, 2]), dice.pick(&[0, 4]), dice.one_in(6));
    let mut chunk = vec![1; len];
    chunk[..4].copy_from_slice(&[kind, 0, 0, if is_bad { 3 } else { len as u8 }]);
    let (act, is_heartbeat) = (Act::Other, kind == 4 && !is_bad);
    let (initiate, reflects, side) = (0, false, None);
    let probe = is_heartbeat.then_some(Probe::Asks);
    let spoken = Spoken { act, tag, initiate, reflects, is_heartbeat, probe, is_bad, side };
    (builder.verification_tag(tag).payload(chunk), Some(spoken))
}

/// A random packet of few tags, and what it says.
pub(crate) fn any_chunks(builder: FrameBuilder, dice: &mut Rng) -> (FrameBuilder, Spoken) {
    let (act, kind) = dice.pick(&[
        (Act::Init, 1),
        (Act::InitAck, 2),
        (Act::CookieEcho, 10),
        (Act::CookieAck, 11),
        (Act::Other, 0),
        (Act::Other, 0x84),
        (Act::Shutdown, 7),
        (Act::ShutdownAck, 8),
        (Act::ShutdownComplete, 14),
        (Act::Init, 1),
        (Act::Other, 4),
        (Act::Other, 4),
        (Act::Other, 5),
        (Act::Error, 9),
        (Act::Abort, 6),
    ]);
    let (is_init, is_alone) =
        (matches!(kind, 1 | 2), matches!(act, Act::Init | Act::InitAck | Act::ShutdownComplete));
    let (t_bit, fault) = (dice.one_in(3), if dice.one_in(12) { dice.below(7) } else { 9 });
    let of = |dice: &mut Rng| dice.pick(&[1, 2, 0x0102_0304, u32::MAX]);
    let (mut tag, mut initiate) = (of(dice), if is_init { of(dice) } else { 0 });
    let len = dice.below(6) as usize;
    if dice.one_in(24) || act == Act::Init && fault != 0 {
        tag = 0;
    }
    let mut is_bad = act == Act::Init && tag != 0;
    let mut builder = builder.verification_tag(tag);
    let mut is_heartbeat = kind == 4;
    let mut probe = match kind {
        4 => Some(Probe::Asks),
        5 => Some(Probe::Answers),
        _ => None,
    };
    if !is_alone && dice.one_in(3) {
        (is_heartbeat, probe) = (dice.one_in(2), None);
        builder = builder.chunk(if is_heartbeat { 4 } else { 3 }, 1, &[7; 5]);
    }
    (builder, is_bad) = match (fault, is_init) {
        (1, true) => {
            initiate = 0;
            (builder.init_chunk(kind, 0), true)
        }
        (2, true) => (builder.chunk(kind, 0, &[1; 15]), true),
        // It says 20 bytes, and has fewer than a tag takes.
        (6, true) => (builder.payload(&[kind, 0, 0, 20, 7, 7, 7][..4 + len % 4]), true),
        (_, true) => (builder.init_chunk(kind, initiate), is_bad),
        (3, _) => (builder.payload([]), true),
        (4, _) => (builder.payload([kind, 0, 0, 3]), true),
        _ => (builder.chunk(kind, t_bit.into(), &vec![9; len]), is_bad),
    };
    if [5, 9].contains(&fault) && dice.one_in(4) {
        is_bad |= is_alone;
        probe = None;
        builder = builder.chunk(0, 3, &[1; 6]);
    }
    let reflects = t_bit && matches!(act, Act::Abort | Act::ShutdownComplete);
    (builder, Spoken { act, tag, initiate, reflects, is_heartbeat, probe, is_bad, side: None })
}
