// SPDX-License-Identifier: BSD-3-Clause
//! The engine as its documentation tells it, one packet at a time over a `BTreeMap`. Slow, and
//! written without a look at the engine: no hash, no wheel, no burst, no bits.
//!
//! It never parses: whoever made a packet says what is in it. When a flow ends may lie within a
//! tick, so [`Model::expired`] is shown what the engine ended and judges that.

use super::association::{Association, Spoken};
use super::drift::{self, Drift, Drifted};
use super::icmp::{Icmp, Quote};
use super::life::Tcp;
use super::resumed::{self, Heard, Learning};
use super::room::Room;
use super::sequence::{Said, Sequence, Stage, is_sound};
use engine::{
    Anomaly, ChecksumCheck, Config, CtState, EndReason, EndpointMatch, FlowRecord,
    InvalidFragments, InvalidPackets, MalformedPackets, NeighbourDiscovery, Side, Stats, TcpPickup,
    TcpWindowCheck, Tracking, UntrackedReason, Verdict, WhenFull, ZonePolicy, ZoneRule, ZoneSource,
};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ESP: u8 = 50;
pub(crate) const ICMPV6: u8 = 58;

/// Address and port; where the protocol has none 0, or of ICMP what it sends.
pub(crate) type Endpoint = (IpAddr, u16);

/// A packet as its sender meant it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) proto: u8,
    pub(crate) icmp: Option<Icmp>,
    /// GRE key or SPI of ESP, 0 without.
    pub(crate) number: u32,
    /// Of an ICMP error.
    pub(crate) quote: Option<Quote>,
    /// A checksum is wrong, and all of the packet is there.
    pub(crate) is_spoilt: bool,
    /// The port by which it came, if there are two.
    pub(crate) side: Option<Side>,
    pub(crate) tcp_flags: u8,
    /// Of TCP.
    pub(crate) said: Said,
    /// Of SCTP.
    pub(crate) spoken: Option<Spoken>,
    /// VLAN identifiers, outermost first.
    pub(crate) tags: Vec<u16>,
    /// Frame bytes to account.
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
}

impl Seen {
    /// Of ICMP.
    fn is_reply(&self) -> bool {
        self.icmp.is_some_and(|icmp| icmp.is_reply(self.proto))
    }
}

/// What makes packets one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) zone: u16,
    proto: u8,
    /// The smaller one first.
    ends: [Endpoint; 2],
    /// Identifier, type with replies folded onto their request, code.
    icmp: Option<(u16, u8, u8)>,
    number: u32,
}

impl Key {
    pub(crate) fn new(
        zone: u16,
        proto: u8,
        ends: [Endpoint; 2],
        icmp: Option<Icmp>,
        number: u32,
    ) -> Self {
        let [a, b] = ends;
        let icmp = icmp.map(|icmp| (icmp.id, icmp.asked(proto), icmp.code));
        Key { zone, proto, ends: [a.min(b), a.max(b)], icmp, number }
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.ends[0].0.is_ipv4()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) tcp_flags: u8,
}

/// A flow record, comparable and sortable, of the model or of the engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) tags: Vec<u16>,
    pub(crate) orig: Tally,
    pub(crate) reply: Tally,
    pub(crate) state: &'static str,
    pub(crate) end_reason: &'static str,
}

impl From<&FlowRecord> for Record {
    fn from(flow: &FlowRecord) -> Self {
        let (src, dst) = ((flow.src, flow.sport), (flow.dst, flow.dport));
        let is_icmp = flow.proto == if flow.src.is_ipv4() { ICMP } else { ICMPV6 };
        let [kind, code] = flow.dport.to_be_bytes();
        let icmp = is_icmp.then_some(Icmp { kind, code, id: flow.sport });
        let is_numbered = matches!(flow.proto, GRE | ESP);
        let number = u32::from(flow.sport) << 16 | u32::from(flow.dport);
        let ends = match icmp {
            Some(icmp) => icmp.ends(flow.proto, [flow.src, flow.dst]),
            None if is_numbered => [(flow.src, 0), (flow.dst, 0)],
            None => [src, dst],
        };
        let tally = |tally: engine::DirectionCounters| Tally {
            packets: tally.packets,
            bytes: tally.bytes,
            ip_bytes: tally.ip_bytes,
            tcp_flags: tally.tcp_flags,
        };
        Record {
            key: Key::new(flow.zone, flow.proto, ends, icmp, if is_numbered { number } else { 0 }),
            start: flow.start,
            end: flow.end,
            src,
            dst,
            tags: flow.vlan.ids().to_vec(),
            orig: tally(flow.orig),
            reply: tally(flow.reply),
            state: flow.state.name(),
            end_reason: flow.end_reason.name(),
        }
    }
}

/// A live connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) first: Seen,
    pub(crate) tcp: Tcp,
    /// If its numbers are judged.
    pub(crate) sequence: Option<Sequence>,
    pub(crate) association: Option<Association>,
    start: u64,
    last: u64,
    orig: Tally,
    reply: Tally,
    /// Packets of each that could change something.
    sound: [u64; 2],
    /// Both ends have shown that they want it.
    is_assured: bool,
    /// Its first segment was one that a connection may begin with.
    began: bool,
    /// A SYN that was let pass and changed nothing, and when the connection was seen last.
    asked: Option<(Seen, u64)>,
    /// What did not fit since.
    drift: Drift,
    /// Its states are not tracked.
    is_bare: bool,
}

impl Flow {
    fn begin(first: &Seen, is_judged: bool, now: u64) -> Self {
        let (orig, reply) = (Tally::default(), Tally::default());
        let association = first.spoken.map(|spoken| Association::begin(&spoken, is_judged));
        let is_judged = is_judged && first.proto == TCP;
        let flags = first.tcp_flags;
        let tcp = Tcp::begin(flags, is_judged);
        let sequence = match tcp {
            _ if !is_judged => None,
            Tcp::Asked => Some(Sequence::asked(first.said, flags)),
            Tcp::PickedUp => Some(Sequence::picked_up(first.said, flags)),
            _ => None,
        };
        let first = first.clone();
        let (sound, is_assured) = ([1, 0], false);
        let mut flow = Flow {
            first,
            tcp,
            sequence,
            association,
            start: now,
            last: now,
            orig,
            reply,
            sound,
            is_assured,
            began: tcp != Tcp::Reset,
            asked: None,
            drift: Drift::default(),
            is_bare: false,
        };
        let first = flow.first.clone();
        flow.tally(&first);
        flow
    }

    /// One whose states are not tracked.
    fn begin_bare(first: &Seen, now: u64) -> Self {
        let flow = Self::begin(first, false, now);
        Flow { is_bare: true, association: None, tcp: Tcp::PickedUp, began: true, ..flow }
    }

    /// One that began with a SYN that was counted to another, whose ports it has, and that is
    /// answered now.
    fn begin_answered(syn: &Seen, answer: &Seen, now: u64) -> Self {
        let mut flow = Self::begin(&Seen { tags: answer.tags.clone(), ..syn.clone() }, true, now);
        (flow.orig, flow.sound) = (Tally::default(), [0, 0]);
        assert_eq!(flow.count_intact(answer, now), None);
        flow
    }

    /// A packet changes nothing, and is let pass.
    fn ask(&mut self, packet: &Seen, irregular: Anomaly) {
        let is_of_syn = [Anomaly::TcpSyn, Anomaly::TcpSynOfOther].contains(&irregular);
        if is_of_syn && packet.tcp_flags & ACK == 0 && !packet.is_spoilt {
            self.asked = Some((packet.clone(), self.last));
        }
    }

    /// The SYN that a packet answers that changes nothing here, if both show that each end has
    /// forgotten this connection: RFC 5961 section 4.2 has an end that knows of it answer a SYN
    /// with an ACK that fits.
    fn agrees_on(&self, packet: &Seen, irregular: Anomaly) -> Option<Seen> {
        let (syn, last) = self.asked.as_ref()?;
        let is_of_syn = [Anomaly::TcpSyn, Anomaly::TcpSynOfOther].contains(&irregular);
        let is_answer =
            packet.tcp_flags & ACK != 0 && packet.src == syn.dst && packet.dst == syn.src;
        let more = packet.said.ack.wrapping_sub(syn.said.seq.wrapping_add(1));
        let is_silent = *last == self.last || self.is_closing();
        let is_across = packet.side.is_none_or(|side| syn.side != Some(side));
        let holds = is_of_syn && is_answer && more <= syn.said.data && is_silent && is_across;
        // Where both ends are the same, nobody answers himself.
        (holds && !packet.is_spoilt && syn.src != syn.dst).then(|| syn.clone())
    }

    /// Whether a packet that does not fit brings the connection back to the numbers of its ends.
    fn comes_back(
        &mut self,
        packet: &Seen,
        irregular: Anomaly,
        now: u64,
        policy: ZonePolicy,
    ) -> bool {
        use Tcp::{Answered, Confirmed, FinAcked, HalfClosed, LastAck, OutOfSync, PickedUp};
        let may_drift = [Answered, Confirmed, HalfClosed, FinAcked, LastAck, OutOfSync, PickedUp];
        let Some(sequence) = self.sequence.as_mut().filter(|_| may_drift.contains(&self.tcp))
        else {
            return false;
        };
        let from = usize::from(packet.src != self.first.src);
        match self.drift.hear(packet, from, self.last, irregular) {
            Drifted::Nothing => false,
            Drifted::Over => {
                let short = policy.timeouts.tcp_established.min(drift::SHORT);
                let is_shorter = self.deadline(policy) > now.saturating_add(short);
                if self.tcp == Tcp::Confirmed && is_shorter {
                    (self.tcp, self.last, self.drift) = (OutOfSync, now, Drift::default());
                }
                false
            }
            Drifted::Back(asked) => {
                let said = |seen: &Seen| (seen.said, seen.tcp_flags);
                sequence.come_back(from, said(&asked), said(packet));
                let is_all_acked = sequence.is_all_acked();
                let is_acked = [0, 1].map(|closer| sequence.is_acked(closer));
                let of_asker = if from == 0 { &mut self.reply } else { &mut self.orig };
                of_asker.tcp_flags |= asked.tcp_flags;
                self.last = now;
                self.tally(packet);
                self.sound = self.sound.map(|sound| sound + 1);
                self.tcp = match [&self.orig, &self.reply].map(|of| of.tcp_flags & FIN != 0) {
                    [false, false] => Confirmed,
                    [true, true] if is_all_acked => Tcp::Closed,
                    [true, true] => LastAck,
                    [true, false] if is_acked[0] => FinAcked,
                    [false, true] if is_acked[1] => FinAcked,
                    _ => HalfClosed,
                };
                self.is_assured = true;
                true
            }
        }
    }

    /// What is wrong with the packet, if its flow cannot have it: then it is no sign of life.
    pub(crate) fn count(&mut self, packet: &Seen, now: u64) -> Option<Anomaly> {
        if self.is_bare {
            self.sound[usize::from(packet.src != self.first.src)] += 1;
            self.is_assured = self.sound[1] > 0;
            self.last = now;
            self.tally(packet);
            return None;
        }
        let before = self.clone();
        let irregular = self.count_intact(packet, now);
        let changes = match packet.proto {
            TCP => {
                let syn = if self.sequence.is_some() { SYN } else { 0 };
                before.tcp != self.tcp || packet.tcp_flags & (syn | FIN | RST) != 0
            }
            _ if packet.spoken.is_some() => before.association != self.association,
            // The first answer, and of UDP the second packet before it.
            _ if before.sound[1] == 0 => {
                self.sound[1] > 0 || packet.proto == UDP && self.sound[0] == 2
            }
            _ => false,
        };
        // An INIT is remembered though it changes nothing else.
        let is_heard = irregular.is_none() || before.association != self.association;
        if is_heard && packet.is_spoilt && changes {
            *self = before;
            return Some(Anomaly::Checksum);
        }
        irregular
    }

    /// Counts a packet whose checksums are right; returns its anomaly if it has one.
    fn count_intact(&mut self, packet: &Seen, now: u64) -> Option<Anomaly> {
        let (flags, before) = (packet.tcp_flags, self.tcp);
        let is_orig = packet.src == self.first.src;
        if self.is_unasked() {
            return Some(Anomaly::IcmpReply);
        }
        if let (Some(association), Some(spoken)) = (&mut self.association, &packet.spoken) {
            if let Err(irregular) = association.hear(usize::from(!is_orig), spoken) {
                return Some(irregular);
            }
        }
        match self.judge(packet, is_orig) {
            Err(invalid) => return Some(invalid),
            Ok(is_followed) => {
                self.last = now;
                self.tally(packet);
                self.sound[usize::from(!is_orig)] += 1;
                if is_followed {
                    self.tcp = self.tcp.next(is_orig, flags, self.has_both_fin());
                }
                // Numbers of both are not known before one has confirmed the other's.
                if matches!(before, Tcp::Asked | Tcp::BothAsked | Tcp::PickedUp)
                    && self.tcp == Tcp::Reset
                {
                    self.sequence = None;
                }
            }
        }
        if let Some(sequence) = &self.sequence {
            let (was_closed, is_acked) = (before == Tcp::Closed, sequence.is_all_acked());
            self.tcp = match self.tcp {
                Tcp::Closed | Tcp::LastAck if !was_closed && !is_acked => Tcp::LastAck,
                Tcp::LastAck => Tcp::Closed,
                Tcp::HalfClosed if before == Tcp::HalfClosed => {
                    let closer = usize::from(self.orig.tcp_flags & FIN == 0);
                    if sequence.is_acked(closer) { Tcp::FinAcked } else { self.tcp }
                }
                same => same,
            };
        }
        self.is_assured |= match packet.proto {
            _ if self.association.is_some() => {
                self.association.as_ref().is_some_and(Association::is_assured)
            }
            TCP => self.tcp.is_assured(),
            _ => self.sound[1] > 0,
        };
        None
    }

    /// More of a segment than its first fragment had.
    pub(crate) fn go_on(&mut self, first: &Seen, more: u32) {
        let from = usize::from(first.src != self.first.src);
        let stage = if self.tcp == Tcp::Asked { Stage::Asked } else { Stage::Known };
        if let Some(sequence) = &mut self.sequence {
            sequence.go_on(stage, from, (first.tcp_flags, first.said), more);
        }
    }

    /// Whether a packet may change anything, or none of the flow can be it.
    fn judge(&mut self, packet: &Seen, is_orig: bool) -> Result<bool, Anomaly> {
        let Some(sequence) = &mut self.sequence else { return Ok(true) };
        if !is_sound(packet.tcp_flags) {
            return Err(Anomaly::TcpFlags);
        }
        if let Tcp::Resumed(learning) = self.tcp {
            return self.hear(learning, packet, is_orig);
        }
        let stage = match self.tcp {
            Tcp::Asked => Stage::Asked,
            Tcp::BothAsked => Stage::BothAsked,
            Tcp::PickedUp => Stage::OneSide,
            _ => Stage::Known,
        };
        let judged = sequence.judge(stage, usize::from(!is_orig), packet.tcp_flags, packet.said);
        // RFC 9293 section 3.10.7.1: whoever has none of it answers each that comes late with one.
        match judged {
            Err(Anomaly::TcpRst) if self.tcp == Tcp::Reset => Err(Anomaly::TcpRstInWindow),
            judged => judged,
        }
    }

    /// A packet of a connection that goes on after a restart.
    fn hear(&mut self, learning: Learning, packet: &Seen, is_orig: bool) -> Result<bool, Anomaly> {
        let Some(sequence) = &mut self.sequence else { return Ok(true) };
        let (from, flags) = (usize::from(!is_orig), packet.tcp_flags);
        self.tcp = match resumed::hear(learning, sequence, (from, flags), packet.said) {
            Heard::Ignored(irregular) => return Err(irregular),
            Heard::Learning(learning) => Tcp::Resumed(learning),
            Heard::Reset => Tcp::Reset,
            Heard::Agreed => {
                let mut all = [self.orig.tcp_flags, self.reply.tcp_flags];
                all[from] |= flags;
                match all.map(|flags| flags & FIN != 0) {
                    [true, true] if sequence.is_all_acked() => Tcp::Closed,
                    [true, true] => Tcp::LastAck,
                    [false, false] => Tcp::Confirmed,
                    [true, false] if sequence.is_acked(0) => Tcp::FinAcked,
                    [false, true] if sequence.is_acked(1) => Tcp::FinAcked,
                    _ => Tcp::HalfClosed,
                }
            }
        };
        Ok(false)
    }

    /// As the next engine has it, if it is worth keeping.
    fn resume(mut self, is_judged: bool) -> Option<Self> {
        let is_known = self.sequence.is_some() && is_judged;
        self.tcp = match self.tcp {
            Tcp::Confirmed | Tcp::OutOfSync | Tcp::Resumed(_) if is_known => {
                Tcp::Resumed(Learning::Nothing)
            }
            Tcp::OutOfSync | Tcp::Resumed(_) => Tcp::Confirmed,
            Tcp::LastAck => Tcp::Closed,
            tcp => tcp,
        };
        (self.asked, self.drift) = (None, Drift::default());
        if let Some(association) = &mut self.association {
            association.resume(is_judged);
        }
        if !matches!(self.tcp, Tcp::Resumed(_)) {
            self.sequence = None;
        }
        self.is_assured.then_some(self)
    }

    /// Whether numbers are judged has changed, or may have.
    fn judge_anew(&mut self, is_judged: bool) {
        if let Some(association) = &mut self.association {
            association.judge_anew(is_judged);
        }
        match (self.sequence.is_some(), self.tcp) {
            (false, Tcp::Confirmed) if is_judged && self.first.proto == TCP => {
                self.tcp = Tcp::Resumed(Learning::Nothing);
                self.sequence = Some(Sequence::picked_up(Said::default(), 0));
            }
            (true, tcp) if !is_judged => {
                self.sequence = None;
                let has_fin = (self.orig.tcp_flags | self.reply.tcp_flags) & FIN != 0;
                self.tcp = match tcp {
                    Tcp::Resumed(_) if self.has_both_fin() => Tcp::Closed,
                    Tcp::Resumed(_) if has_fin => Tcp::HalfClosed,
                    Tcp::Resumed(_) => Tcp::Confirmed,
                    Tcp::LastAck => Tcp::Closed,
                    Tcp::OutOfSync => Tcp::Confirmed,
                    tcp => tcp,
                };
            }
            _ => {}
        }
    }

    /// The originator is the sender of the first packet.
    pub(crate) fn tally(&mut self, packet: &Seen) {
        let is_orig = packet.src == self.first.src;
        let tally = if is_orig { &mut self.orig } else { &mut self.reply };
        tally.packets += 1;
        tally.bytes += packet.bytes;
        tally.ip_bytes += packet.ip_bytes;
        tally.tcp_flags |= packet.tcp_flags;
    }

    /// What a packet is to it (nft(8)).
    pub(crate) fn state(&self, packet: &Seen) -> CtState {
        let heard = self.association.as_ref().filter(|_| packet.src == self.first.src);
        if let Some(association) = heard {
            return association.word();
        }
        let has_answer = match packet.proto {
            TCP => self.reply.tcp_flags != 0,
            _ => self.sound[1] > 0,
        };
        let began = packet.proto != TCP || self.began;
        match (packet.src == self.first.src, has_answer, began) {
            (false, ..) => CtState::ESTABLISHED | CtState::REPLY,
            (true, true, _) => CtState::ESTABLISHED,
            (true, false, true) => CtState::NEW,
            (true, false, false) => CtState::INVALID,
        }
    }

    fn has_both_fin(&self) -> bool {
        self.orig.tcp_flags & self.reply.tcp_flags & FIN != 0
    }

    /// Whether one side was heard, there was nothing to judge that by, and this SYN is none that
    /// comes late: who begins with a SYN (RFC 9293 section 3.5) is believed more.
    fn is_unheard_of(&self, syn: &Seen) -> bool {
        let Some(sequence) = self.sequence.as_ref().filter(|_| self.tcp == Tcp::PickedUp) else {
            return false;
        };
        let from = usize::from(syn.src != self.first.src);
        !sequence.is_late(from, syn.tcp_flags, syn.said)
    }

    /// Whether it began with a reply of ICMP: RFC 792 has nobody send one that was not asked for.
    fn is_unasked(&self) -> bool {
        self.first.is_reply() && !self.is_bare
    }

    fn is_closing(&self) -> bool {
        match &self.association {
            Some(association) => association.is_over(),
            None => {
                !self.is_bare
                    && self.first.proto == TCP
                    && matches!(self.tcp, Tcp::Closed | Tcp::Reset)
            }
        }
    }

    fn has_flag(&self, flag: u8) -> bool {
        (self.orig.tcp_flags | self.reply.tcp_flags) & flag != 0
    }

    /// An RST of which nobody can say whether it was in the window.
    fn hear_rst(&mut self, seen: &Seen, now: u64) {
        if matches!(self.tcp, Tcp::Resumed(_)) && self.sequence.is_some() && !seen.is_spoilt {
            let tally = if seen.src == self.first.src { &mut self.orig } else { &mut self.reply };
            tally.tcp_flags |= RST;
            self.last = now;
        }
    }

    fn deadline(&self, policy: ZonePolicy) -> u64 {
        let t = policy.timeouts;
        let is_off = policy.tracking == Tracking::Off;
        if let Some(association) = self.association.as_ref().filter(|_| !is_off) {
            return self.last.saturating_add(association.timeout(t));
        }
        let timeout = match (self.first.proto, self.sound[1] > 0) {
            _ if is_off => 0,
            (_, false) if self.is_bare => t.flow_first,
            (_, true) if self.is_bare => t.flow_multiple,
            (TCP, _) => match self.tcp {
                Tcp::Asked | Tcp::BothAsked | Tcp::PickedUp => t.tcp_syn_sent,
                Tcp::Answered => t.tcp_syn_recv,
                // Nothing says whether its FIN or RST was in the window.
                Tcp::Resumed(_) if self.has_flag(RST) => t.tcp_established.min(drift::SHORT),
                Tcp::Resumed(_) if self.has_flag(FIN) => t.tcp_fin_wait,
                Tcp::Confirmed | Tcp::Resumed(_) => t.tcp_established,
                Tcp::OutOfSync => t.tcp_established.min(drift::SHORT),
                Tcp::HalfClosed | Tcp::FinAcked | Tcp::LastAck => t.tcp_fin_wait,
                Tcp::Closed => t.tcp_time_wait,
                Tcp::Reset => t.tcp_close,
            },
            (UDP, false) if self.sound[0] == 1 => t.udp_first,
            (UDP, false) => t.udp_single,
            (UDP, true) => t.udp_multiple,
            // By number: ICMP inside IPv6 has the timeouts of ICMP, though it is not looked into.
            (ICMP | ICMPV6, false) => t.icmp_first,
            (ICMP | ICMPV6, true) => t.icmp_reply,
            (_, false) => t.other_first,
            (_, true) => t.other_multiple,
        };
        self.last.saturating_add(timeout)
    }

    /// Where both sides sent FIN, that is why the flow ended, RST or not.
    fn end_reason(&self) -> EndReason {
        if let Some(association) = &self.association {
            return association.end_reason();
        }
        if self.tcp == Tcp::LastAck {
            return EndReason::Fin;
        }
        if matches!(self.tcp, Tcp::Resumed(_)) && self.has_flag(RST) {
            return EndReason::Rst;
        }
        match (self.is_closing(), self.has_both_fin()) {
            (false, _) => EndReason::Idle,
            (true, true) => EndReason::Fin,
            (true, false) => EndReason::Rst,
        }
    }

    fn record(&self, key: &Key, end_reason: EndReason) -> Record {
        let is_asking = matches!(self.tcp, Tcp::Asked | Tcp::BothAsked | Tcp::PickedUp);
        let is_over = self.is_closing() || self.tcp == Tcp::LastAck;
        let state = match (is_over, self.sound[1]) {
            _ if self.association.is_some() => {
                self.association.as_ref().map_or("new", Association::state)
            }
            (true, _) => "closing",
            (false, 0) => "new",
            (false, _) if self.first.proto == TCP && is_asking && !self.is_bare => "new",
            (false, _) => "open",
        };
        let (mut src, mut dst) = (self.first.src, self.first.dst);
        if let Some(icmp) = self.first.icmp {
            (src.1, dst.1) = (icmp.id, u16::from_be_bytes([icmp.kind, icmp.code]));
        }
        if matches!(self.first.proto, GRE | ESP) {
            (src.1, dst.1) = ((self.first.number >> 16) as u16, self.first.number as u16);
        }
        Record {
            key: key.clone(),
            start: self.start,
            end: self.last,
            src,
            dst,
            tags: self.first.tags.clone(),
            orig: self.orig,
            reply: self.reply,
            state,
            end_reason: end_reason.name(),
        }
    }
}

/// The reference.
pub(crate) struct Model {
    pub(crate) config: Config,
    pub(crate) now: u64,
    pub(crate) flows: BTreeMap<Key, Flow>,
    /// Of the last packet.
    pub(crate) state: CtState,
    room: Room,
    pub(crate) stats: Stats,
    /// When timeouts changed. Who should have ended before ends then.
    reloaded: u64,
}

impl Model {
    pub(crate) fn new(config: &Config) -> Self {
        let (flows, stats, state) = (BTreeMap::new(), Stats::default(), CtState::NEW);
        let (config, room) = (config.clone(), Room::new(config));
        Model { config, now: 0, flows, state, room, stats, reloaded: 0 }
    }

    /// Time never runs backwards.
    pub(crate) fn at(&mut self, now: u64) {
        self.now = self.now.max(now / 1000 * 1000);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// One packet; flows that ended by it come back with the verdict.
    pub(crate) fn packet(
        &mut self,
        packet: &Result<Seen, UntrackedReason>,
    ) -> (Verdict, Vec<Record>) {
        if self.tracks_nothing() {
            return (self.without_flow(UntrackedReason::TrackingOff, 0), vec![]);
        }
        let mut packet = packet.clone();
        if let (Ok(seen), ChecksumCheck::Trusted) = (&mut packet, self.config.checksums) {
            seen.is_spoilt = false;
        }
        let seen = match &packet {
            Ok(seen) => seen,
            Err(reason) => return (self.without_flow(*reason, 0), vec![]),
        };
        if let Some(quote) = &seen.quote {
            let zone = self.zone_by_rule(self.zone_of(seen), quote.proto, quote.ends());
            return (self.error(zone, quote), vec![]);
        }
        let key = self.key_of(seen);
        let policy = self.policy(key.zone);
        let is_judged = judges(&policy);
        let Some(flow) = self.flows.get_mut(&key) else { return self.first(key, seen, is_judged) };
        let opens = seen.tcp_flags & (SYN | ACK | RST | FIN) == SYN
            || seen.spoken.is_some_and(|spoken| spoken.is_init())
            || seen.icmp.is_some() && !seen.is_reply();
        let gives_way = flow.is_closing() || flow.is_unheard_of(seen) || flow.is_unasked();
        if gives_way && opens && seen.is_spoilt {
            return (self.invalid(&key, seen, Anomaly::Checksum), vec![]);
        }
        if gives_way && opens {
            let next = Flow::begin(seen, is_judged, self.now);
            return self.reuse(&key, seen, next);
        }
        let irregular = flow.count(seen, self.now).filter(|irregular| {
            flow.agrees_on(seen, *irregular).is_some()
                || !flow.comes_back(seen, *irregular, self.now, policy)
        });
        let asked = irregular.and_then(|irregular| flow.agrees_on(seen, irregular));
        let verdict = match irregular {
            Some(_) if asked.is_some() => {
                let next = Flow::begin_answered(&asked.expect("it is"), seen, self.now);
                return self.reuse(&key, seen, next);
            }
            None => {
                if flow.is_assured {
                    self.room.assured(&key);
                }
                self.stats.tracked += 1;
                self.state = flow.state(seen);
                Verdict::Forward
            }
            Some(invalid) => self.invalid(&key, seen, invalid),
        };
        (verdict, vec![])
    }

    /// A new flow takes the place of one that is over.
    fn reuse(&mut self, key: &Key, seen: &Seen, next: Flow) -> (Verdict, Vec<Record>) {
        let sources = [self.flows[key].first.src, next.first.src];
        if let Err(reason) = self.room.check_next(key, sources, self.now) {
            return (self.without_flow(reason, key.zone), vec![]);
        }
        self.stats.tracked += 1;
        self.state = next.state(seen);
        let mut ended = vec![self.flows[key].record(key, EndReason::Reuse)];
        self.stats.ended[EndReason::Reuse as usize] += 1;
        if let Some(oldest) = self.room.for_reuse(key) {
            ended.push(self.evict(&oldest));
        }
        let source = next.first.src;
        let old = self.flows.insert(key.clone(), next);
        self.room.ended(key, old.expect("it is over").first.src);
        self.room.began(key, source, self.now);
        self.stats.created += 1;
        (Verdict::Forward, ended)
    }

    fn evict(&mut self, key: &Key) -> Record {
        self.stats.ended[EndReason::Evicted as usize] += 1;
        self.take(key).record(key, EndReason::Evicted)
    }

    fn tracks_nothing(&self) -> bool {
        let zones = &self.config.zones;
        let is_off = |policy: &ZonePolicy| policy.tracking == Tracking::Off;
        is_off(&self.config.policy()) && zones.iter().all(|(_, policy)| is_off(policy))
    }

    /// What holds in a zone.
    pub(crate) fn policy(&self, zone: u16) -> ZonePolicy {
        let named = self.config.zones.iter().rev().find(|(zones, _)| zones.contains(&zone));
        named.map_or(self.config.policy(), |(_, policy)| *policy)
    }

    /// Whether what is invalid for this reason is dropped: who sees a part of all packets does not
    /// know whether anybody has asked.
    fn drops(&self, invalid: Anomaly) -> bool {
        let is_sure = self.config.has_all_packets || invalid != Anomaly::IcmpReply;
        is_sure && self.config.invalid == InvalidPackets::Drop
    }

    /// A packet of a flow that cannot have it.
    fn invalid(&mut self, key: &Key, seen: &Seen, invalid: Anomaly) -> Verdict {
        self.stats.anomalies[invalid as usize] += 1;
        self.state = match invalid.is_invalid() {
            true => CtState::INVALID,
            false => self.flows[key].state(seen),
        };
        if invalid.is_invalid() && self.drops(invalid) {
            self.stats.dropped[UntrackedReason::Invalid as usize] += 1;
            return Verdict::Drop;
        }
        self.stats.tracked += 1;
        if let Some(flow) = self.flows.get_mut(key) {
            // Its flags are not the connection's.
            flow.tally(&Seen { tcp_flags: 0, ..seen.clone() });
            flow.ask(seen, invalid);
            if invalid == Anomaly::TcpRstInWindow {
                flow.hear_rst(seen, self.now);
            }
        }
        Verdict::Forward
    }

    /// The first packet of a flow.
    fn first(&mut self, key: Key, seen: &Seen, is_judged: bool) -> (Verdict, Vec<Record>) {
        let policy = self.policy(key.zone);
        match policy.tracking {
            Tracking::Off => {
                return (self.without_flow(UntrackedReason::TrackingOff, key.zone), vec![]);
            }
            Tracking::Flows => {
                return self.begin(key, seen, (CtState::NEW, Flow::begin_bare(seen, self.now)));
            }
            Tracking::Connections => {}
        }
        let is_tracked = self.config.neighbour_discovery == NeighbourDiscovery::Tracked;
        let finds = |icmp: Icmp| seen.proto == ICMPV6 && matches!(icmp.kind, 130..=137 | 143);
        if !is_tracked && seen.icmp.is_some_and(finds) {
            return (self.without_flow(UntrackedReason::NeighbourDiscovery, key.zone), vec![]);
        }
        let opens = seen.tcp_flags & (SYN | ACK | RST | FIN) == SYN;
        if seen.proto == TCP && !opens && policy.pick_up == TcpPickup::Strict {
            self.stats.anomalies[Anomaly::TcpNoSyn as usize] += 1;
            return (self.without_flow(UntrackedReason::Invalid, key.zone), vec![]);
        }
        let may_begin = seen.spoken.is_none_or(|spoken| spoken.opens());
        if !may_begin && policy.pick_up == TcpPickup::Strict {
            self.stats.anomalies[Anomaly::SctpNoInit as usize] += 1;
            return (self.without_flow(UntrackedReason::Invalid, key.zone), vec![]);
        }
        if seen.is_reply() && policy.pick_up == TcpPickup::Strict {
            self.stats.anomalies[Anomaly::IcmpReply as usize] += 1;
            return (self.without_flow(UntrackedReason::Invalid, key.zone), vec![]);
        }
        if seen.is_spoilt {
            self.stats.anomalies[Anomaly::Checksum as usize] += 1;
            return (self.without_flow(UntrackedReason::Invalid, key.zone), vec![]);
        }
        let unsound = match seen.spoken {
            Some(spoken) => spoken.is_bad.then_some(Anomaly::SctpChunk),
            None => {
                Some(Anomaly::TcpFlags).filter(|_| seen.proto == TCP && !is_sound(seen.tcp_flags))
            }
        };
        let unasked = seen.is_reply().then_some(Anomaly::IcmpReply);
        if let Some(irregular) = unsound.filter(|_| is_judged).or(unasked) {
            self.stats.anomalies[irregular as usize] += 1;
            if self.drops(irregular) {
                return (self.without_flow(UntrackedReason::Invalid, key.zone), vec![]);
            }
        }
        let is_none = seen.tcp_flags & RST != 0 || is_judged && !is_sound(seen.tcp_flags);
        let begins = match seen.spoken {
            Some(spoken) => !spoken.is_nothing(is_judged),
            None => (seen.proto != TCP || !is_none) && !seen.is_reply(),
        };
        let state = if begins { CtState::NEW } else { CtState::INVALID };
        self.begin(key, seen, (state, Flow::begin(seen, is_judged, self.now)))
    }

    /// A flow begins, if there is room.
    fn begin(
        &mut self,
        key: Key,
        seen: &Seen,
        (state, flow): (CtState, Flow),
    ) -> (Verdict, Vec<Record>) {
        let (mut ended, policy) = (vec![], self.policy(key.zone));
        let room = self.room.check(&key, seen.src, policy, self.now).and_then(|oldest| {
            ended.extend(oldest.map(|oldest| self.evict(&oldest)));
            self.room.is_left(&key)
        });
        if let Err(reason) = room {
            return (self.without_flow(reason, key.zone), ended);
        }
        self.room.began(&key, seen.src, self.now);
        self.stats.tracked += 1;
        self.stats.created += 1;
        self.state = state;
        self.flows.insert(key, flow);
        (Verdict::Forward, ended)
    }

    pub(crate) fn key_of(&self, seen: &Seen) -> Key {
        let ends = [seen.src, seen.dst];
        let zone = self.zone_by_rule(self.zone_of(seen), seen.proto, ends);
        Key::new(zone, seen.proto, ends, seen.icmp, seen.number)
    }

    /// Where a rule puts what is between these ends, if one means it.
    fn zone_by_rule(&self, zone: u16, proto: u8, ends: [Endpoint; 2]) -> u16 {
        let has_ports = !matches!(proto, ICMP | ICMPV6 | GRE | ESP);
        let takes = |wanted: &EndpointMatch, (address, port): Endpoint| {
            wanted.address.is_none_or(|prefix| prefix.contains(address))
                && wanted.port.is_none_or(|wanted| has_ports && wanted == port)
        };
        let means = |rule: &&ZoneRule| {
            let between = |a, b| takes(&rule.end, a) && takes(&rule.peer, b);
            rule.from.is_none_or(|from| from == zone)
                && rule.proto.is_none_or(|wanted| wanted == proto)
                && (between(ends[0], ends[1]) || between(ends[1], ends[0]))
        };
        self.config.zone_rules.iter().find(means).map_or(zone, |rule| rule.zone)
    }

    pub(crate) fn zone_of(&self, seen: &Seen) -> u16 {
        let zone = match self.config.zone {
            ZoneSource::None => None,
            ZoneSource::Fixed(zone) => return zone,
            ZoneSource::OuterVlan => seen.tags.first(),
            ZoneSource::InnerVlan => seen.tags.last(),
        };
        zone.copied().unwrap_or(0)
    }

    pub(crate) fn without_flow(&mut self, reason: UntrackedReason, zone: u16) -> Verdict {
        let drops = match reason {
            UntrackedReason::TableFull
            | UntrackedReason::ZoneFull
            | UntrackedReason::SourceFull
            | UntrackedReason::NewRate => self.policy(zone).when_full == WhenFull::Drop,
            UntrackedReason::Invalid | UntrackedReason::Unrelated => {
                self.config.invalid == InvalidPackets::Drop
            }
            odd if odd.is_odd_fragment() => self.config.odd_fragments == InvalidFragments::Drop,
            reason => reason.is_malformed() && self.config.malformed == MalformedPackets::Drop,
        };
        self.state = match reason {
            UntrackedReason::Related => CtState::RELATED,
            UntrackedReason::Unrelated | UntrackedReason::Invalid => CtState::INVALID,
            reason if reason.is_malformed() => CtState::INVALID,
            odd if odd.is_odd_fragment() => CtState::INVALID,
            _ => CtState::UNTRACKED,
        };
        let counters = if drops { &mut self.stats.dropped } else { &mut self.stats.passed };
        counters[reason as usize] += 1;
        if drops { Verdict::Drop } else { Verdict::Forward }
    }

    /// Takes the flows that the engine ended by `expire`; none may be early. If it says that it is
    /// done, nothing whose deadline passed `late` ago may be left.
    pub(crate) fn expired(&mut self, ended: &[Record], is_done: bool, late: u64) {
        for record in ended {
            let flow = self.take(&record.key);
            let policy = self.policy(record.key.zone);
            let reason = match policy.tracking {
                Tracking::Off => EndReason::Flushed,
                Tracking::Flows | Tracking::Connections => flow.end_reason(),
            };
            let expected = flow.record(&record.key, reason);
            assert_eq!(*record, expected, "at {}", self.now);
            let deadline = flow.deadline(policy);
            assert!(deadline <= self.now, "early: {deadline} at {}, {record:?}", self.now);
            self.stats.ended[reason as usize] += 1;
        }
        if is_done {
            let due = |key: &Key, flow: &Flow| {
                let deadline = flow.deadline(self.policy(key.zone)).max(self.reloaded);
                deadline.saturating_add(late) <= self.now
            };
            let left = self.flows.iter().find(|(key, flow)| due(key, flow));
            assert!(left.is_none(), "overdue at {}: {left:?}", self.now);
        }
    }

    /// Takes the flows that the engine ended by `flush`.
    pub(crate) fn flushed(&mut self, ended: &[Record]) {
        for record in ended {
            let flow = self.take(&record.key);
            assert_eq!(*record, flow.record(&record.key, EndReason::Exit));
            self.stats.ended[EndReason::Exit as usize] += 1;
        }
        assert!(self.flows.is_empty(), "live after flush: {:?}", self.flows);
    }

    /// Another engine has taken over. Returns how many it was to know, and how many are over.
    pub(crate) fn restart(&mut self) -> (u64, u64) {
        let (mut known, mut over) = (0, 0);
        for (key, flow) in std::mem::take(&mut self.flows) {
            let policy = self.policy(key.zone);
            let source = flow.first.src;
            let resumed = flow.resume(judges(&policy));
            over += u64::from(resumed.is_some());
            match resumed.filter(|flow| flow.deadline(policy) > self.now) {
                Some(flow) => {
                    (known, over) = (known + 1, over - 1);
                    self.flows.insert(key, flow);
                }
                None => self.room.ended(&key, source),
            }
        }
        self.room.forget_seconds();
        self.stats = Stats { restored: known, ..Stats::default() };
        (known, over)
    }

    /// Another policy holds in zones, also for the flows that are there.
    pub(crate) fn reload(&mut self, config: &Config) {
        (self.config, self.reloaded) = (config.clone(), self.now);
        for (key, mut flow) in std::mem::take(&mut self.flows) {
            flow.judge_anew(judges(&self.policy(key.zone)));
            self.flows.insert(key, flow);
        }
    }

    fn take(&mut self, key: &Key) -> Flow {
        let Some(flow) = self.flows.remove(key) else { panic!("there is no flow {key:?}") };
        self.room.ended(key, flow.first.src);
        flow
    }
}

/// Whether numbers of TCP and SCTP are judged in a zone.
fn judges(policy: &ZonePolicy) -> bool {
    policy.tcp == TcpWindowCheck::Strict && policy.tracking == Tracking::Connections
}
