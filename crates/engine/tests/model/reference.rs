// SPDX-License-Identifier: BSD-3-Clause
//! The engine as its documentation tells it, one packet at a time over a `BTreeMap`. Slow, and
//! written without a look at the engine: no hash, no wheel, no burst, no bits.
//!
//! It never parses: whoever made a packet says what is in it. When a flow ends may lie within a
//! tick, so [`Model::expired`] is shown what the engine ended and judges that.

use crate::sequence::{Said, Sequence, Stage, is_sound};
use engine::{
    Config, EndReason, FlowRecord, InvalidPackets, Irregular, Malformed, Reason, Stats, TcpNumbers,
    Verdict, WhenFull, ZoneFrom,
};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Address and port; the port is 0 where the protocol has none.
pub(crate) type Endpoint = (IpAddr, u16);

/// A packet as its sender meant it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) proto: u8,
    pub(crate) icmp: Option<Icmp>,
    pub(crate) tcp_flags: u8,
    /// Of TCP.
    pub(crate) said: Said,
    /// VLAN identifiers, outermost first.
    pub(crate) tags: Vec<u16>,
    /// Frame bytes to account.
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Icmp {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// 0 for messages without one.
    pub(crate) id: u16,
}

/// What makes packets one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    zone: u16,
    proto: u8,
    /// The smaller one first.
    ends: [Endpoint; 2],
    /// Identifier, type with replies folded onto their request, code.
    icmp: Option<(u16, u8, u8)>,
}

impl Key {
    fn new(zone: u16, proto: u8, ends: [Endpoint; 2], icmp: Option<Icmp>) -> Self {
        let [a, b] = ends;
        let icmp = icmp.map(|icmp| (icmp.id, request_of(proto, icmp.kind), icmp.code));
        Key { zone, proto, ends: [a.min(b), a.max(b)], icmp }
    }

    fn is_v4(&self) -> bool {
        self.ends[0].0.is_ipv4()
    }
}

/// RFC 792 and RFC 950 (ICMP), RFC 4443 (ICMPv6): replies and their requests.
fn request_of(proto: u8, kind: u8) -> u8 {
    match (proto, kind) {
        (ICMP, 0) => 8,
        (ICMP, 14) => 13,
        (ICMP, 16) => 15,
        (ICMP, 18) => 17,
        (ICMPV6, 129) => 128,
        _ => kind,
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
        let ends = if is_icmp { [(flow.src, 0), (flow.dst, 0)] } else { [src, dst] };
        let tally = |tally: engine::Tally| Tally {
            packets: tally.packets,
            bytes: tally.bytes,
            ip_bytes: tally.ip_bytes,
            tcp_flags: tally.tcp_flags,
        };
        Record {
            key: Key::new(flow.zone, flow.proto, ends, icmp),
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

/// Where a TCP connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tcp {
    /// A SYN waits for its answer; or SYNs of both sides do.
    Asked,
    BothAsked,
    /// It began before it was seen, and nobody has answered.
    PickedUp,
    /// There was an answer to the SYN, and nothing to the answer.
    Answered,
    Confirmed,
    /// A FIN of one side, while the other may send.
    HalfClosed,
    /// A FIN of both, and one of them is not acknowledged.
    LastAck,
    /// A FIN of both.
    Closed,
    Reset,
}

impl Tcp {
    fn begin(flags: u8, is_judged: bool) -> Self {
        match (flags & RST != 0, flags & (SYN | ACK)) {
            _ if is_judged && !is_sound(flags) => Tcp::Reset,
            (true, _) => Tcp::Reset,
            (false, SYN) => Tcp::Asked,
            _ => Tcp::PickedUp,
        }
    }

    /// After a segment of the originator, or not of it; `both_fin`: both have sent a FIN.
    fn next(self, is_orig: bool, flags: u8, both_fin: bool) -> Self {
        let is_syn = flags & SYN != 0;
        let is_syn_ack = is_syn && flags & ACK != 0;
        // Where there is SYN, a FIN beside it is none.
        let is_fin = flags & FIN != 0 && !is_syn;
        if flags & RST != 0 || self == Tcp::Reset {
            return Tcp::Reset;
        }
        if both_fin || matches!(self, Tcp::Closed | Tcp::LastAck) {
            return if self == Tcp::LastAck { self } else { Tcp::Closed };
        }
        match self {
            Tcp::Asked | Tcp::BothAsked if !is_orig && is_fin => Tcp::HalfClosed,
            Tcp::Asked if is_orig => Tcp::Asked,
            Tcp::Asked if is_syn_ack => Tcp::Answered,
            Tcp::Asked if is_syn => Tcp::BothAsked,
            Tcp::Asked => Tcp::Confirmed,
            Tcp::BothAsked if is_syn_ack => Tcp::Answered,
            Tcp::BothAsked if is_syn || is_fin => Tcp::BothAsked,
            Tcp::BothAsked => Tcp::Confirmed,
            Tcp::PickedUp if is_orig => Tcp::PickedUp,
            Tcp::PickedUp if is_syn_ack => Tcp::Answered,
            Tcp::PickedUp if is_fin => Tcp::HalfClosed,
            Tcp::PickedUp => Tcp::Confirmed,
            Tcp::Answered if is_fin => Tcp::HalfClosed,
            // Data may follow the answer before anyone has confirmed it.
            Tcp::Answered if is_syn || !is_orig => Tcp::Answered,
            Tcp::Answered => Tcp::Confirmed,
            Tcp::Confirmed if is_fin => Tcp::HalfClosed,
            same => same,
        }
    }
}

/// A live connection.
#[derive(Clone, Debug)]
struct Flow {
    first: Seen,
    tcp: Tcp,
    /// If its numbers are judged.
    sequence: Option<Sequence>,
    start: u64,
    last: u64,
    orig: Tally,
    reply: Tally,
}

impl Flow {
    fn begin(first: &Seen, is_judged: bool, now: u64) -> Self {
        let (orig, reply) = (Tally::default(), Tally::default());
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
        let mut flow = Flow { first, tcp, sequence, start: now, last: now, orig, reply };
        let first = flow.first.clone();
        flow.tally(&first);
        flow
    }

    /// What is wrong with the packet, if its flow cannot have it: then it is no sign of life.
    fn count(&mut self, packet: &Seen, now: u64) -> Option<Irregular> {
        let (flags, before) = (packet.tcp_flags, self.tcp);
        let is_orig = packet.src == self.first.src;
        match self.judge(packet, is_orig) {
            Err(invalid) => return Some(invalid),
            Ok(is_followed) => {
                self.last = now;
                self.tally(packet);
                if is_followed {
                    self.tcp = self.tcp.next(is_orig, flags, self.has_both_fin());
                }
            }
        }
        if let Some(sequence) = &self.sequence {
            let (was_closed, is_acked) = (before == Tcp::Closed, sequence.is_all_acked());
            self.tcp = match self.tcp {
                Tcp::Closed | Tcp::LastAck if !was_closed && !is_acked => Tcp::LastAck,
                Tcp::LastAck => Tcp::Closed,
                same => same,
            };
        }
        None
    }

    /// Whether a packet may change anything, or none of the flow can be it.
    fn judge(&mut self, packet: &Seen, is_orig: bool) -> Result<bool, Irregular> {
        let Some(sequence) = &mut self.sequence else { return Ok(true) };
        if !is_sound(packet.tcp_flags) {
            return Err(Irregular::TcpFlags);
        }
        let stage = match self.tcp {
            Tcp::Reset => return Ok(false),
            Tcp::Asked => Stage::Asked,
            Tcp::BothAsked => Stage::BothAsked,
            Tcp::PickedUp => Stage::OneSide,
            _ => Stage::Known,
        };
        sequence.judge(stage, usize::from(!is_orig), packet.tcp_flags, packet.said)
    }

    /// The originator is the sender of the first packet.
    fn tally(&mut self, packet: &Seen) {
        let is_orig = packet.src == self.first.src;
        let tally = if is_orig { &mut self.orig } else { &mut self.reply };
        tally.packets += 1;
        tally.bytes += packet.bytes;
        tally.ip_bytes += packet.ip_bytes;
        tally.tcp_flags |= packet.tcp_flags;
    }

    fn has_both_fin(&self) -> bool {
        self.orig.tcp_flags & self.reply.tcp_flags & FIN != 0
    }

    fn is_closing(&self) -> bool {
        self.first.proto == TCP && matches!(self.tcp, Tcp::Closed | Tcp::Reset)
    }

    fn deadline(&self, config: &Config) -> u64 {
        let t = config.timeouts;
        let timeout = match (self.first.proto, self.reply.packets > 0) {
            (TCP, _) => match self.tcp {
                Tcp::Asked | Tcp::BothAsked | Tcp::PickedUp => t.tcp_syn_sent,
                Tcp::Answered => t.tcp_syn_recv,
                Tcp::Confirmed => t.tcp_established,
                Tcp::HalfClosed | Tcp::LastAck => t.tcp_fin_wait,
                Tcp::Closed => t.tcp_time_wait,
                Tcp::Reset => t.tcp_close,
            },
            (UDP, false) if self.orig.packets == 1 => t.udp_first,
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
        if self.tcp == Tcp::LastAck {
            return EndReason::Fin;
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
        let state = match (is_over, self.reply.packets) {
            (true, _) => "closing",
            (false, 0) => "new",
            (false, _) if self.first.proto == TCP && is_asking => "new",
            (false, _) => "open",
        };
        let (mut src, mut dst) = (self.first.src, self.first.dst);
        if let Some(icmp) = self.first.icmp {
            (src.1, dst.1) = (icmp.id, u16::from_be_bytes([icmp.kind, icmp.code]));
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
    config: Config,
    now: u64,
    flows: BTreeMap<Key, Flow>,
    /// IPv4 flows, IPv6 flows.
    held: [u32; 2],
    pub(crate) stats: Stats,
}

impl Model {
    pub(crate) fn new(config: &Config) -> Self {
        let (flows, stats) = (BTreeMap::new(), Stats::default());
        Model { config: config.clone(), now: 0, flows, held: [0; 2], stats }
    }

    /// Time never runs backwards.
    pub(crate) fn at(&mut self, now: u64) {
        self.now = self.now.max(now / 1000 * 1000);
    }

    /// One packet; a flow that ended by it comes back with the verdict.
    pub(crate) fn packet(&mut self, packet: &Result<Seen, Reason>) -> (Verdict, Option<Record>) {
        let seen = match packet {
            Ok(seen) => seen,
            Err(reason) => return (self.without_flow(*reason), None),
        };
        let key = self.key_of(seen);
        let is_judged = self.config.tcp == TcpNumbers::Judged;
        if let Some(flow) = self.flows.get_mut(&key) {
            let opens = seen.tcp_flags & (SYN | ACK | RST | FIN) == SYN;
            if flow.is_closing() && opens {
                self.stats.tracked += 1;
                let old = flow.record(&key, EndReason::Reuse);
                *flow = Flow::begin(seen, is_judged, self.now);
                self.stats.ended[EndReason::Reuse as usize] += 1;
                self.stats.created += 1;
                return (Verdict::Forward, Some(old));
            }
            let verdict = match flow.count(seen, self.now) {
                None => {
                    self.stats.tracked += 1;
                    Verdict::Forward
                }
                Some(invalid) => self.invalid(&key, seen, invalid),
            };
            return (verdict, None);
        }
        (self.first(key, seen, is_judged), None)
    }

    /// A packet of a flow that cannot have it.
    fn invalid(&mut self, key: &Key, seen: &Seen, invalid: Irregular) -> Verdict {
        self.stats.irregular[invalid as usize] += 1;
        if invalid.is_invalid() && self.config.invalid == InvalidPackets::Drop {
            self.stats.dropped[Reason::Invalid as usize] += 1;
            return Verdict::Drop;
        }
        self.stats.tracked += 1;
        if let Some(flow) = self.flows.get_mut(key) {
            // Its flags are not the connection's.
            flow.tally(&Seen { tcp_flags: 0, ..seen.clone() });
        }
        Verdict::Forward
    }

    /// The first packet of a flow.
    fn first(&mut self, key: Key, seen: &Seen, is_judged: bool) -> Verdict {
        if is_judged && seen.proto == TCP && !is_sound(seen.tcp_flags) {
            self.stats.irregular[Irregular::TcpFlags as usize] += 1;
            if self.config.invalid == InvalidPackets::Drop {
                self.stats.dropped[Reason::Invalid as usize] += 1;
                return Verdict::Drop;
            }
        }
        let capacity = [self.config.capacity_ipv4, self.config.capacity_ipv6];
        let version = usize::from(!key.is_v4());
        if self.held[version] == capacity[version] {
            return self.without_flow(Reason::TableFull);
        }
        self.held[version] += 1;
        self.stats.tracked += 1;
        self.stats.created += 1;
        self.flows.insert(key, Flow::begin(seen, is_judged, self.now));
        Verdict::Forward
    }

    fn key_of(&self, seen: &Seen) -> Key {
        let zone = match self.config.zone {
            ZoneFrom::None => None,
            ZoneFrom::OuterVlan => seen.tags.first(),
            ZoneFrom::InnerVlan => seen.tags.last(),
        };
        Key::new(zone.copied().unwrap_or(0), seen.proto, [seen.src, seen.dst], seen.icmp)
    }

    fn without_flow(&mut self, reason: Reason) -> Verdict {
        let drops = match reason {
            Reason::TableFull => self.config.when_full == WhenFull::Drop,
            reason => reason.is_malformed() && self.config.malformed == Malformed::Drop,
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
            let expected = flow.record(&record.key, flow.end_reason());
            assert_eq!(*record, expected, "at {}", self.now);
            let deadline = flow.deadline(&self.config);
            assert!(deadline <= self.now, "early: {deadline} at {}, {record:?}", self.now);
            self.stats.ended[flow.end_reason() as usize] += 1;
        }
        if is_done {
            let due = |flow: &Flow| flow.deadline(&self.config).saturating_add(late) <= self.now;
            let left = self.flows.iter().find(|(_, flow)| due(flow));
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

    fn take(&mut self, key: &Key) -> Flow {
        let Some(flow) = self.flows.remove(key) else { panic!("there is no flow {key:?}") };
        self.held[usize::from(!key.is_v4())] -= 1;
        flow
    }
}
