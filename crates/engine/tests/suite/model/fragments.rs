// SPDX-License-Identifier: BSD-3-Clause
//! Fragments, against a model of what RFC 791, 815, 5722, 6946 and 8200 and the documentation say
//! of them: lists of bytes that have come, searched from end to end.

use super::association::one_chunk;
use super::drive::{any_rules, sorted, taken, without_cycles};
use super::reference::{ACK, FIN, Model, RST, SYN, Seen};
use super::sequence::Said;
use super::traffic::Rng;
use engine::{
    BURST_MAX, Config, CtState, Engine, FragmentLimits, InvalidFragments, TcpWindowCheck, Timeouts,
    UntrackedReason, Verdict, ZoneSource,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{BytesPacket, FrameBuilder};

const MS: u64 = 1_000_000;

/// A fragment as its sender meant it.
#[derive(Clone, Debug)]
struct Part {
    /// Number, and for IPv4 the protocol.
    id: (u32, Option<u8>),
    start: usize,
    end: usize,
    has_more: bool,
}

#[derive(Clone, Debug)]
struct Sent {
    frame: Vec<u8>,
    /// Of a fragment behind the first, ports are not in it.
    seen: Seen,
    part: Option<Part>,
}

/// Low numbers are the same address but for the network of an IPv6 host.
fn host(i: u64, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(10, 0, 0, i as u8).into(),
        false => Ipv6Addr::new(0x2001, 0xdb8, 0, i as u16 / 2, 0, 0, 0, i as u16).into(),
    }
}

fn sent(dice: &mut Rng) -> Sent {
    let is_v4 = dice.below(3) > 0;
    let (src, dst) = (host(dice.below(5), is_v4), host(1, is_v4));
    let id = dice.below(3) as u32;
    let proto = dice.pick(&[17, 132, 6]);
    let is_tcp = proto == 6;
    let (sport, dport) = (1000 + u16::from(dice.one_in(9)), 1001);
    let (seq, ack) = (dice.pick(&[100, 148, 196]), dice.pick(&[0, 100, 124, 148, 172, 196]));
    let (ack, window) = (ack + dice.below(2) as u32, dice.pick(&[50, 1000]));
    let flags = dice.pick(&[ACK, ACK, SYN, FIN | ACK, RST | ACK]);
    let tag = if dice.one_in(9) { vec![5] } else { vec![] };
    let builder = FrameBuilder::ip(src, dst).ip_id(id);
    let builder = tag.iter().fold(builder, |builder, tag| builder.vlan(*tag));
    let builder = match proto {
        6 => builder.tcp(sport, dport).flags(flags).seq(seq).ack(ack).window(window),
        132 => builder.sctp(sport, dport),
        _ => builder.udp(sport, dport),
    };
    // Mostly as the number says, so that fragments of one datagram fit together.
    let of_id = if dice.one_in(12) { dice.below(3) } else { id.into() };
    let (len, cut) = [(96, 32), (117, 24), (70, 40)][of_id as usize];
    let header = match proto {
        6 => 20,
        132 => 12,
        _ => 8,
    };
    let (builder, spoken) = match proto {
        132 => one_chunk(builder, len - header, dice),
        _ => (builder.payload(vec![1; len - header]), None),
    };
    let is_back = dice.one_in(3);
    let builder = if is_back { builder.reversed() } else { builder };
    let pieces = builder.fragments(cut);
    let which = dice.below(pieces.len() as u64 + 1) as usize;
    let (frame, part) = match pieces.get(which) {
        None => (builder.build(), None),
        Some(piece) => {
            let (start, end) = (which * cut, (which * cut + cut).min(len));
            let id = (id, is_v4.then_some(proto));
            (piece.build(), Some(Part { id, start, end, has_more: end < len }))
        }
    };
    let bytes = frame.len() as u64;
    let ip_bytes = bytes - 14 - 4 * tag.len() as u64;
    let in_frame = part.as_ref().map_or(len, |part| part.end) - header;
    let said = Said { seq, ack, window, data: in_frame as u32, scale: None };
    let said = if is_tcp { said } else { Said::default() };
    let (src, dst, icmp) = ((src, sport), (dst, dport), None);
    let (src, dst) = if is_back { (dst, src) } else { (src, dst) };
    let tcp_flags = if is_tcp { flags } else { 0 };
    Sent {
        frame,
        part,
        seen: Seen {
            src,
            dst,
            proto,
            icmp,
            number: 0,
            quote: None,
            tcp_flags,
            is_spoilt: false,
            side: None,
            said,
            spoken,
            tags: tag,
            bytes,
            ip_bytes,
        },
    }
}

/// The frame of one.
pub(crate) fn any_fragment(dice: &mut Rng) -> Vec<u8> {
    sent(dice).frame
}

/// Addresses, number, protocol and zone.
type Name = (IpAddr, IpAddr, (u32, Option<u8>), u16);
/// Who sends: an address or a network, and a zone.
type Source = (IpAddr, u16);

#[derive(Debug)]
struct Datagram {
    name: Name,
    source: Source,
    born: u64,
    parts: Vec<(usize, usize, bool)>,
    /// The first fragment.
    first: Option<Seen>,
    has_given_up: bool,
    is_spoilt: bool,
}

/// A packet that waits: its number among all, whose it is, since when.
#[derive(Debug)]
struct Waiting {
    packet: usize,
    /// Where it ends in its datagram.
    end: usize,
    name: Name,
    since: u64,
    seen: Seen,
}

struct Reference {
    limits: FragmentLimits,
    flows: Model,
    /// IPv4, IPv6; oldest first.
    datagrams: [Vec<Datagram>; 2],
    waiting: Vec<Waiting>,
    released: Vec<(usize, Verdict)>,
}

fn source_of(name: &Name) -> Source {
    match name.0 {
        IpAddr::V6(address) => (Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(), name.3),
        address => (address, name.3),
    }
}

impl Reference {
    fn packet(&mut self, number: usize, sent: &Sent) -> (Verdict, Vec<super::reference::Record>) {
        let Some(part) = &sent.part else {
            let (verdict, ended) = self.flows.packet(&Ok(sent.seen.clone()));
            return (verdict, ended);
        };
        self.give_up_overdue();
        let zone = sent.seen.tags.first().copied().unwrap_or(0);
        let name = (sent.seen.src.0, sent.seen.dst.0, part.id, zone);
        match self.fragment(number, name, part, &sent.seen) {
            Ok(found) => found,
            Err(reason) => (self.flows.without_flow(reason, 0), vec![]),
        }
    }

    fn fragment(
        &mut self,
        number: usize,
        name: Name,
        part: &Part,
        seen: &Seen,
    ) -> Result<(Verdict, Vec<super::reference::Record>), UntrackedReason> {
        // RFC 3128.
        if seen.proto == 6 && part.start == 8 && name.0.is_ipv4() {
            return Err(UntrackedReason::FragmentTiny);
        }
        let version = usize::from(name.0.is_ipv6());
        let is_first = part.start == 0;
        let now = self.flows.now;
        if let Some(at) = self.at(&name) {
            if self.datagrams[version][at].born + self.limits.timeout <= now {
                self.forget(version, at);
            }
        }
        if self.at(&name).is_none() {
            if !is_first && self.limits.hold == 0 {
                return Err(UntrackedReason::Fragment);
            }
            self.make_room(version, &name);
            self.datagrams[version].push(Datagram {
                name,
                source: source_of(&name),
                born: now,
                parts: vec![],
                first: None,
                has_given_up: false,
                is_spoilt: false,
            });
        }
        let at = self.at(&name).expect("it is there, or was made");
        let datagram = &mut self.datagrams[version][at];
        if datagram.is_spoilt || !fits(datagram, part, is_first.then_some(seen)) {
            datagram.is_spoilt = true;
            self.let_go(&name, UntrackedReason::FragmentOverlap);
            return Err(UntrackedReason::FragmentOverlap);
        }
        let (start, end, has_more) = (part.start, part.end, part.has_more);
        if !datagram.parts.contains(&(start, end, has_more)) {
            datagram.parts.push((start, end, has_more));
        }
        if is_first {
            datagram.first = Some(seen.clone());
            self.end_whole(version, at);
            let (verdict, ended) = self.flows.packet(&Ok(seen.clone()));
            let state = self.flows.state;
            self.count_waiting(&name, seen);
            self.flows.state = state;
            return Ok((verdict, ended));
        }
        if let Some(first) = datagram.first.clone() {
            self.end_whole(version, at);
            return Ok((self.further(&first, seen, part.end), vec![]));
        }
        if datagram.has_given_up {
            return Err(UntrackedReason::Fragment);
        }
        self.wait((number, part.end), name, seen)
    }

    /// A fragment of a datagram whose first one has not come.
    fn wait(
        &mut self,
        (packet, end): (usize, usize),
        name: Name,
        seen: &Seen,
    ) -> Result<(Verdict, Vec<super::reference::Record>), UntrackedReason> {
        if self.waiting.len() >= usize::from(self.limits.hold) {
            let oldest = self.waiting[0].name;
            self.give_up(&oldest);
            if oldest == name {
                return Err(UntrackedReason::Fragment);
            }
        }
        let is_v4 = |name: &Name| name.0.is_ipv4();
        let is_same = |waiting: &&Waiting| {
            source_of(&waiting.name) == source_of(&name) && is_v4(&waiting.name) == is_v4(&name)
        };
        if self.waiting.iter().filter(is_same).count() >= usize::from(self.limits.hold / 4).max(1) {
            return Err(UntrackedReason::FragmentFull);
        }
        let since = self.flows.now;
        self.waiting.push(Waiting { packet, end, name, since, seen: seen.clone() });
        self.flows.stats.held += 1;
        self.flows.state = CtState::UNTRACKED;
        Ok((Verdict::Hold, vec![]))
    }

    fn make_room(&mut self, version: usize, name: &Name) {
        let source = source_of(name);
        let of_source = |datagram: &Datagram| datagram.source == source;
        let datagrams = &self.datagrams[version];
        if datagrams.iter().filter(|datagram| of_source(datagram)).count()
            >= self.limits.per_source as usize
        {
            let oldest = datagrams.iter().position(of_source).expect("it has one");
            self.forget(version, oldest);
        }
        if self.datagrams[version].len() == self.limits.datagrams as usize {
            self.forget(version, 0);
        }
    }

    /// One more packet of the first one's direction: no flags, no opening. It ends here.
    fn further(&mut self, first: &Seen, seen: &Seen, end: usize) -> Verdict {
        let seen = Seen {
            src: first.src,
            dst: first.dst,
            proto: first.proto,
            tcp_flags: 0,
            spoken: None,
            ..seen.clone()
        };
        let key = self.flows.key_of(&Seen { tags: first.tags.clone(), ..seen.clone() });
        let Some(flow) = self.flows.flows.get_mut(&key) else {
            return self.flows.without_flow(UntrackedReason::Fragment, 0);
        };
        if ![6, 132].contains(&seen.proto) {
            let (verdict, ended) =
                self.flows.packet(&Ok(Seen { tags: first.tags.clone(), ..seen }));
            assert!(ended.is_empty());
            return verdict;
        }
        flow.tally(&seen);
        self.flows.state = flow.state(&seen);
        if seen.proto == 6 {
            // 20 bytes in front of the data.
            flow.go_on(first, end as u32 - 20 - first.said.data);
        }
        self.flows.stats.tracked += 1;
        Verdict::Forward
    }

    fn count_waiting(&mut self, name: &Name, first: &Seen) {
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.name == *name) {
            let waiting = self.waiting.remove(at);
            self.flows.stats.held -= 1;
            let verdict = self.further(first, &waiting.seen, waiting.end);
            self.released.push((waiting.packet, verdict));
        }
    }

    fn at(&self, name: &Name) -> Option<usize> {
        let datagrams = &self.datagrams[usize::from(name.0.is_ipv6())];
        datagrams.iter().position(|datagram| datagram.name == *name)
    }

    fn end_whole(&mut self, version: usize, at: usize) {
        let parts = &self.datagrams[version][at].parts;
        let Some(total) = parts.iter().find(|part| !part.2).map(|part| part.1) else { return };
        if (0..total).all(|byte| parts.iter().any(|part| (part.0..part.1).contains(&byte))) {
            self.datagrams[version].remove(at);
        }
    }

    fn forget(&mut self, version: usize, at: usize) {
        let name = self.datagrams[version][at].name;
        self.let_go(&name, UntrackedReason::Fragment);
        self.datagrams[version].remove(at);
    }

    fn let_go(&mut self, name: &Name, reason: UntrackedReason) {
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.name == *name) {
            let waiting = self.waiting.remove(at);
            self.flows.stats.held -= 1;
            let verdict = self.flows.without_flow(reason, 0);
            self.released.push((waiting.packet, verdict));
        }
    }

    fn give_up(&mut self, name: &Name) {
        let at = self.at(name).expect("what waits has a datagram");
        self.datagrams[usize::from(name.0.is_ipv6())][at].has_given_up = true;
        self.let_go(name, UntrackedReason::Fragment);
    }

    fn give_up_overdue(&mut self) {
        while let Some(oldest) = self.waiting.first() {
            if oldest.since + self.limits.hold_timeout.max(1) > self.flows.now {
                return;
            }
            let name = oldest.name;
            self.give_up(&name);
        }
    }
}

/// Whether a part may be one of the datagram, or is exactly one that came before.
fn fits(datagram: &Datagram, part: &Part, first: Option<&Seen>) -> bool {
    let same_ports = |a: &Seen, b: &Seen| (a.src, a.dst, a.proto) == (b.src, b.dst, b.proto);
    if let (Some(before), Some(first)) = (&datagram.first, first) {
        if !same_ports(before, first) {
            return false;
        }
    }
    if datagram.parts.contains(&(part.start, part.end, part.has_more)) {
        return true;
    }
    datagram.parts.iter().all(|&(start, end, has_more)| {
        let is_apart = end <= part.start || part.end <= start;
        let is_before_last = has_more || part.end <= start;
        let is_behind_all = part.has_more || end <= part.start;
        is_apart && is_before_last && is_behind_all
    })
}

/// Engine and model side by side.
struct Pair {
    engine: Engine,
    model: Reference,
    now: u64,
    burst: usize,
    waiting: Vec<Sent>,
    packets: usize,
    /// Slots of the caller, by the number of the packet in each.
    slots: BTreeMap<u16, usize>,
}

fn config(dice: &mut Rng) -> Config {
    let limits = FragmentLimits {
        datagrams: dice.pick(&[64, 1, 2, 5]),
        per_source: dice.pick(&[64, 1, 3]),
        timeout: dice.pick(&[400 * MS, 30 * MS]),
        hold: dice.pick(&[0, 1, 4, 9, 200]),
        hold_timeout: dice.pick(&[20 * MS, 0, 300 * MS]),
    };
    Config {
        capacity_ipv4: dice.pick(&[14, 2]),
        capacity_ipv6: dice.pick(&[14, 2]),
        tcp: dice.pick(&[TcpWindowCheck::Strict, TcpWindowCheck::Liberal]),
        fragments: limits,
        odd_fragments: dice.pick(&[InvalidFragments::Pass, InvalidFragments::Drop]),
        zone: ZoneSource::OuterVlan,
        zone_rules: any_rules(dice, [1000, 1001], 5),
        timeouts: Timeouts::default(),
        secret: [dice.0, 7],
        ..Config::default()
    }
}

impl Pair {
    fn apply(&mut self, mut dice: Rng) {
        let what = dice.below(40);
        if what < 36 {
            self.waiting.push(sent(&mut dice));
            if self.waiting.len() == self.burst {
                self.burst();
            }
            return;
        }
        self.burst();
        match what {
            36 | 37 => self.now += dice.below(12) * MS,
            38 => self.now += dice.below(300) * MS,
            _ => {
                self.model.flows.at(self.now);
                self.model.give_up_overdue();
                // Flows live on: when they end is another test's.
                self.engine.expire(self.now, 0);
                self.compare_releases();
            }
        }
        assert_eq!(without_cycles(self.engine.stats()), self.model.flows.stats);
    }

    fn burst(&mut self) {
        let packets: Vec<_> =
            self.waiting.iter().map(|sent| BytesPacket::new(&sent.frame)).collect();
        let mut verdicts = [Verdict::Drop; BURST_MAX];
        let mut states = [CtState::NEW; BURST_MAX];
        let told = &mut states[..packets.len()];
        self.engine.process_with_states(self.now, &packets, &mut verdicts, told);
        self.model.flows.at(self.now);
        let mut ended = vec![];
        let first = self.packets;
        for ((sent, verdict), state) in self.waiting.iter().zip(verdicts).zip(states) {
            self.model.flows.stats.bytes += sent.frame.len() as u64;
            let (wanted, flows) = self.model.packet(self.packets, sent);
            // What waits may have been released in the same burst.
            assert_eq!(verdict, wanted, "{sent:?}");
            assert_eq!(state, self.model.flows.state, "{sent:?}");
            self.packets += 1;
            ended.extend(flows);
        }
        for held in self.engine.held() {
            assert_eq!(verdicts[usize::from(held.position)], Verdict::Hold);
            let before = self.slots.insert(held.slot, first + usize::from(held.position));
            assert!(before.is_none() && usize::from(held.slot) < self.engine.hold_slots());
        }
        let held = verdicts[..self.waiting.len()].iter().filter(|v| **v == Verdict::Hold).count();
        assert_eq!(self.engine.held().len(), held);
        assert_eq!(taken(&mut self.engine), sorted(ended));
        self.waiting.clear();
        self.compare_releases();
        assert_eq!(without_cycles(self.engine.stats()), self.model.flows.stats);
    }

    fn compare_releases(&mut self) {
        let mut released = vec![];
        while let Some(release) = self.engine.next_release() {
            let packet = self.slots.remove(&release.slot).expect("a packet is in the slot");
            released.push((packet, release.verdict));
        }
        released.sort_by_key(|(packet, _)| *packet);
        self.model.released.sort_by_key(|(packet, _)| *packet);
        assert_eq!(released, std::mem::take(&mut self.model.released));
    }

    fn finish(mut self) {
        self.burst();
        self.engine.release_all();
        while let Some(oldest) = self.model.waiting.first() {
            let name = oldest.name;
            self.model.give_up(&name);
        }
        self.compare_releases();
        assert!(self.slots.is_empty() && self.engine.stats().held == 0);
        let mut ended = vec![];
        while self.engine.flush(64) {
            ended.extend(taken(&mut self.engine));
        }
        ended.extend(taken(&mut self.engine));
        self.model.flows.flushed(&ended);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::sized(500, 15_000)))]

    /// Every verdict, release, counter and record, whatever the bursts are.
    #[test]
    fn fragments_agree_with_the_reference(
        bits: u64,
        operations in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let mut dice = Rng(bits);
        let burst = dice.pick(&[1, 7, 32, 64]);
        let config = config(&mut dice);
        let model = Reference {
            limits: config.fragments,
            flows: Model::new(&config),
            datagrams: [vec![], vec![]],
            waiting: vec![],
            released: vec![],
        };
        let engine = Engine::new(&config);
        let (now, waiting, slots) = (1 << 40, vec![], BTreeMap::new());
        let mut pair = Pair { engine, model, now, burst, waiting, packets: 0, slots };
        for operation in operations {
            pair.apply(Rng(operation));
        }
        pair.finish();
    }
}
