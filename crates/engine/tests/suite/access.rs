// SPDX-License-Identifier: BSD-3-Clause
//! Access lists: each packet gets the verdict that comparing it with every rule would give it, and
//! each rule counts the packets that it decided about.

use acl::{AccessList, Action, Packet, parse_rule};
use engine::{
    AccessLists, AccessSource, AccessUpdate, Config, CtMark, Cursor, Engine, EventKind,
    FragmentLimits, ListBinding, ListDirection, ListMarkConfig, MarkLayout, MarkVerification,
    Query, RuleHits, Side, Tracking, UntrackedReason, Verdict,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn list(name: &str, default: Action, rules: &[&str]) -> Arc<AccessList> {
    let rules = rules.iter().map(|rule| parse_rule(rule, &|_| None).unwrap()).collect();
    Arc::new(AccessList { name: name.into(), rules, default })
}

pub(crate) fn bind(list: Arc<AccessList>, side: Side, direction: ListDirection) -> ListBinding {
    ListBinding { list, places: vec![(side, direction)] }
}

pub(crate) fn config(bindings: &[ListBinding], tracking: Tracking) -> Config {
    let access = Some(Arc::new(AccessLists::new(bindings).unwrap()));
    let (capacity_ipv4, capacity_ipv6) = (1000, 1000);
    let (deepest, labels) = (tracking, true);
    Config { capacity_ipv4, capacity_ipv6, access, tracking, deepest, labels, ..Config::default() }
}

/// The two lines that people want first: connections begin at port A only.
fn from_a_only() -> Vec<ListBinding> {
    let a = list("a", Action::Deny, &["permit+reflect ct new"]);
    let b = list("b", Action::Deny, &["permit ct established,related,reply"]);
    vec![bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)]
}

/// True for each packet that passes.
fn send(engine: &mut Engine, side: Side, packets: &[FrameBuilder]) -> Vec<bool> {
    let verdicts = verdicts(engine, side, packets);
    verdicts.iter().map(|verdict| *verdict == Verdict::Forward).collect()
}

fn verdicts(engine: &mut Engine, side: Side, packets: &[FrameBuilder]) -> Vec<Verdict> {
    let packets: Vec<_> = packets.iter().map(|frame| (frame.clone(), None)).collect();
    marked_verdicts(engine, side, &packets)
}

/// Returns the verdict of each packet, some of which have marks.
fn marked_verdicts(
    engine: &mut Engine,
    side: Side,
    packets: &[(FrameBuilder, Option<u32>)],
) -> Vec<Verdict> {
    let frames: Vec<_> = packets.iter().map(|(frame, mark)| (frame.build(), *mark)).collect();
    let packets: Vec<_> =
        frames.iter().map(|(frame, mark)| BytesPacket::new(frame).marked(*mark)).collect();
    let mut verdicts = vec![Verdict::Hold; packets.len()];
    engine.process_from(side, SECOND, &packets, &mut verdicts);
    verdicts
}

fn hits(engine: &mut Engine, counters: usize) -> Vec<RuleHits> {
    let mut cursor = Cursor::default();
    while engine.settle_rules(&mut cursor, 64) {}
    let mut hits = vec![RuleHits::default(); counters];
    engine.add_rule_hits(&mut hits);
    hits
}

fn udp(src: u8, dst: u8, sport: u16, dport: u16) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, src], [10, 0, 1, dst]).udp(sport, dport)
}

#[test]
fn connections_begin_at_one_port_only() {
    let mut engine = Engine::new(&config(&from_a_only(), Tracking::Connections));
    let query = udp(1, 2, 4000, 53);
    assert_eq!(
        send(&mut engine, Side::B, &[query.clone().reversed()]),
        [false],
        "nothing was asked"
    );
    assert_eq!(send(&mut engine, Side::A, &[query.clone(), query.clone()]), [true, true]);
    let stranger = udp(9, 2, 4000, 53).reversed();
    assert_eq!(send(&mut engine, Side::B, &[query.clone().reversed(), stranger]), [true, false]);
    assert_eq!(send(&mut engine, Side::A, std::slice::from_ref(&query)), [true], "no longer new");
    // ICMP errors about the connection pass, others do not.
    let error = |quoted: &FrameBuilder| {
        FrameBuilder::ipv4([10, 9, 9, 9], [10, 0, 0, 1]).icmp_error(3, 3, &quoted.build_packet())
    };
    let errors = [error(&query), error(&udp(1, 2, 4001, 53))];
    assert_eq!(send(&mut engine, Side::B, &errors), [true, false]);
    let dropped = engine.stats().dropped[UntrackedReason::Denied as usize];
    assert_eq!(dropped, 3);
    let hits = hits(&mut engine, 4);
    assert_eq!(hits.iter().map(|hits| hits.packets).collect::<Vec<_>>(), [4, 0, 0, 3]);
}

/// A SYN of the other side for the addresses of a closed connection opens nothing.
#[test]
fn a_reused_connection_is_judged_by_the_port_of_its_syn() {
    let mut engine = Engine::new(&config(&from_a_only(), Tracking::Connections));
    let tcp = |flags, seq| {
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).tcp(4000, 80).flags(flags).seq(seq)
    };
    let [syn, rst] = [tcp(2, 100), tcp(4, 101)];
    assert_eq!(send(&mut engine, Side::A, &[syn.clone(), rst]), [true, true]);
    let reversed = syn.clone().reversed().seq(5000);
    assert_eq!(send(&mut engine, Side::B, &[reversed]), [false]);
    assert_eq!(send(&mut engine, Side::A, &[tcp(2, 9000)]), [true]);
}

/// Without reflection, the list of the other port decides about answers, and of a denied answer
/// nothing is left.
#[test]
fn answers_are_judged_by_their_own_list() {
    let a = list("a", Action::Deny, &["permit src 10.0.0.0/24"]);
    let b = list("b", Action::Permit, &["deny proto udp sport 53"]);
    let bindings = [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)];
    let mut engine = Engine::new(&config(&bindings, Tracking::Connections));
    let (query, other) = (udp(1, 2, 4000, 53), udp(1, 2, 4000, 54));
    assert_eq!(send(&mut engine, Side::A, &[query.clone(), other.clone()]), [true, true]);
    let answers = [query.clone().reversed(), other.clone().reversed(), query.clone().reversed()];
    assert_eq!(send(&mut engine, Side::B, &answers), [false, true, false]);
    assert_eq!(send(&mut engine, Side::A, &[query.clone(), other]), [true, true]);
    let packets: Vec<_> = hits(&mut engine, 4).iter().map(|hits| hits.packets).collect();
    assert_eq!(packets, [4, 0, 2, 1]);
}

/// A rejected packet is told apart from a denied one, also if the decision is stored with its
/// connection. Nothing is answered to an ICMP error, nor to a fragment that has waited.
#[test]
fn rejected_packets_have_a_verdict_of_their_own() {
    let a = list("a", Action::Reject, &["permit proto udp dport 53", "deny proto udp dport 54"]);
    let b = list("b", Action::Permit, &["reject proto udp sport 53"]);
    let bindings = [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)];
    let mut engine = Engine::new(&config(&bindings, Tracking::Connections));
    let query = udp(1, 2, 4000, 53);
    let (denied, rejected) = (udp(1, 2, 4000, 54), udp(1, 2, 4000, 55));
    let error = FrameBuilder::ipv4([10, 0, 0, 9], [10, 0, 1, 2]).icmp_error(
        3,
        3,
        &query.clone().reversed().build_packet(),
    );
    let packets = [query.clone(), denied, rejected, error];
    let expected = [Verdict::Forward, Verdict::Drop, Verdict::Reject, Verdict::Drop];
    assert_eq!(verdicts(&mut engine, Side::A, &packets), expected);
    for _ in 0..2 {
        let answer = query.clone().reversed();
        assert_eq!(verdicts(&mut engine, Side::B, &[answer]), [Verdict::Reject]);
    }
    assert_eq!(engine.stats().dropped[UntrackedReason::Denied as usize], 5);
    let packets: Vec<_> = hits(&mut engine, 5).iter().map(|hits| hits.packets).collect();
    assert_eq!(packets, [1, 1, 2, 2, 0]);
}

/// Rules on fields of a packet are compared with each packet of a connection.
#[test]
fn rules_on_flags_are_compared_with_every_packet() {
    let a = list(
        "a",
        Action::Permit,
        &["count proto tcp tcp-flags psh", "deny proto tcp tcp-flags urg"],
    );
    let mut engine = Engine::new(&config(&[bind(a, Side::B, ListDirection::Out)], Tracking::Flows));
    let tcp = |flags| FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).tcp(4000, 80).flags(flags);
    let packets = [tcp(0x10), tcp(0x18), tcp(0x30), tcp(0x38), tcp(0x10)];
    assert_eq!(send(&mut engine, Side::A, &packets), [true, true, false, false, true]);
    let packets: Vec<_> = hits(&mut engine, 3).iter().map(|hits| hits.packets).collect();
    assert_eq!(packets, [2, 2, 3]);
}

/// What cannot be compared with rules is dropped if the default denies; what is no IP passes.
#[test]
fn a_denying_default_drops_what_it_cannot_judge() {
    let a = list("a", Action::Deny, &["permit"]);
    let mut engine =
        Engine::new(&config(&[bind(a, Side::A, ListDirection::In)], Tracking::Connections));
    let mut cut = udp(1, 2, 3, 4).build();
    cut.truncate(30);
    let mut arp = cut.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    let packets = [&cut, &arp].map(|frame| BytesPacket::new(frame));
    let mut verdicts = [Verdict::Hold; 2];
    engine.process_from(Side::A, SECOND, &packets, &mut verdicts);
    assert_eq!(verdicts, [Verdict::Drop, Verdict::Forward]);
    engine.process_from(Side::B, SECOND, &packets, &mut verdicts);
    assert_eq!(verdicts, [Verdict::Forward, Verdict::Forward], "no list is bound there");
}

fn ping(kind: u8) -> FrameBuilder {
    let ends = ([10, 0, 0, 1], [10, 0, 1, 2]);
    let (src, dst) = if kind == 8 { ends } else { (ends.1, ends.0) };
    FrameBuilder::ipv4(src, dst).icmp(kind, 0, [0, 7, 0, 1])
}

/// The answer to a ping has another type than the ping, and decides about both directions.
#[test]
fn icmp_types_are_those_of_each_direction() {
    let a = list("a", Action::Deny, &["permit proto icmp icmp-type 8"]);
    let b = list("b", Action::Deny, &["permit proto icmp icmp-type 0 ct reply"]);
    let bindings = [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)];
    let mut engine = Engine::new(&config(&bindings, Tracking::Connections));
    for _ in 0..3 {
        assert_eq!(send(&mut engine, Side::A, &[ping(8)]), [true]);
        assert_eq!(send(&mut engine, Side::B, &[ping(0)]), [true]);
    }
}

/// After a change of lists, whichever packet comes first, a connection goes on that the lists would
/// reflect when it began.
#[test]
fn a_change_cuts_no_connection_that_would_be_reflected() {
    let with = |more: &str| {
        let rules = [
            "permit+reflect proto icmp icmp-type 8",
            "permit+reflect proto tcp tcp-flags syn/syn+ack",
            more,
        ];
        let a = list("a", Action::Deny, &rules);
        let b = list("b", Action::Deny, &[]);
        [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)]
    };
    let tcp = |flags, seq, ack| {
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2])
            .tcp(4000, 80)
            .flags(flags)
            .seq(seq)
            .ack(ack)
    };
    let config = config(&with("deny"), Tracking::Connections);
    let mut engine = Engine::new(&config);
    let handshake = [tcp(2, 100, 0), tcp(0x12, 900, 101).reversed(), tcp(0x10, 101, 901)];
    for (packet, side) in handshake.into_iter().zip([Side::A, Side::B, Side::A]) {
        assert_eq!(send(&mut engine, side, &[packet]), [true]);
    }
    assert_eq!(send(&mut engine, Side::A, &[ping(8)]), [true]);
    set_lists(&mut engine, config.access.as_ref().unwrap(), &with("deny proto udp"));
    // Packets with a forged source, from the wrong side, decide nothing.
    send(&mut engine, Side::B, &[tcp(0x10, 101, 901)]);
    assert_eq!(
        send(&mut engine, Side::B, &[ping(0), tcp(0x10, 901, 101).reversed()]),
        [true, true]
    );
    assert_eq!(send(&mut engine, Side::A, &[ping(8), tcp(0x10, 101, 901)]), [true, true]);
}

/// A fragment gets the verdict of its datagram, in whatever order they arrive.
#[test]
fn fragments_of_a_denied_datagram_are_denied() {
    let a = list("a", Action::Permit, &["deny proto udp dport 4000"]);
    let config = config(&[bind(a, Side::A, ListDirection::In)], Tracking::Connections);
    let config = Config { fragments: FragmentLimits { hold: 8, ..config.fragments }, ..config };
    let mut engine = Engine::new(&config);
    let datagram = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).ip_id(5).udp(1, 4000);
    let [first, second, third]: [FrameBuilder; 3] =
        datagram.payload([1; 88]).fragments(32).try_into().ok().unwrap();
    send(&mut engine, Side::A, &[second]);
    let slot = engine.held()[0].slot;
    assert_eq!(send(&mut engine, Side::A, &[first]), [false]);
    let release = engine.next_release().unwrap();
    assert_eq!(release.slot, slot);
    assert_eq!(release.verdict, Verdict::Drop);
    assert_eq!(send(&mut engine, Side::A, &[third]), [false]);
}

// Random lists and packets against a model that compares every packet with every rule.

/// Words of random rules, few enough that they meet packets.
fn rule_text() -> impl Strategy<Value = String> {
    let word = |words: &[&str]| {
        prop::sample::select(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    let action = word(&["permit", "permit log", "deny", "reject log", "permit+reflect", "count"]);
    let src =
        word(&["", " src 10.0.0.0/31", " src 10.0.0.1", " src 10.0.1.0/24", " src fd00::/64"]);
    let dst = word(&["", "", " dst 10.0.1.1", " dst 10.0.0.0/16", " dst fd00:0:0:1::/64"]);
    let proto = word(&[
        "",
        " proto udp",
        " proto udp dport 1-2",
        " proto tcp",
        " proto tcp tcp-flags psh/psh+urg",
        " proto tcp sport 1",
    ]);
    let ct = word(&["", "", "", " ct new", " ct established", " ct reply", " ct new,reply"]);
    let mark = word(&["", "", "", "", " mark 0x1/0x1", " mark 0x4"]);
    let set = word(&["", "", "", " set-mark 0x1/0x3", " set-mark 4", " set-mark 2/2 set-label 9"]);
    (action, src, dst, proto, ct, mark, set)
        .prop_map(|(a, b, c, d, e, f, g)| format!("{a}{b}{c}{d}{e}{f}{g}"))
}

fn random_list() -> impl Strategy<Value = Arc<AccessList>> {
    let rules = prop::collection::vec(rule_text(), 0..6);
    let default = prop::sample::select(vec![Action::Permit, Action::Deny, Action::Reject]);
    (rules, default).prop_map(|(rules, default)| {
        let parsed = rules.iter().filter_map(|rule| parse_rule(rule, &|_| None).ok()).collect();
        Arc::new(AccessList { name: "random".into(), rules: parsed, default })
    })
}

/// A packet between hosts of side A, 10.0.0.0/24, and of side B, 10.0.1.0/24.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) is_v6: bool,
    pub(crate) is_tcp: bool,
    pub(crate) from_a: bool,
    pub(crate) hosts: [u8; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) flags: u8,
}

pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop::sample::select(vec![0x10, 0x18, 0x30, 0x38]);
    let ends = ([0..3_u8, 0..2_u8], [1..4_u16, 1..3_u16]);
    (any::<(bool, bool, bool)>(), ends, flags).prop_map(
        |((is_v6, is_tcp, from_a), (hosts, ports), flags)| Sent {
            is_v6,
            is_tcp,
            from_a,
            hosts,
            ports,
            flags,
        },
    )
}

/// Bursts, each from side A or not.
pub(crate) fn bursts() -> impl Strategy<Value = Vec<(bool, Vec<Sent>)>> {
    let burst = prop::collection::vec(sent(), 1..20);
    prop::collection::vec((any::<bool>(), burst), 1..12)
}

impl Sent {
    pub(crate) fn side(&self) -> Side {
        if self.from_a { Side::A } else { Side::B }
    }

    pub(crate) fn frame(&self) -> FrameBuilder {
        let [a, b] = self.hosts;
        let base = match self.is_v6 {
            false => FrameBuilder::ipv4([10, 0, 0, a], [10, 0, 1, b]),
            true => FrameBuilder::ipv6(
                [0xfd00, 0, 0, 0, 0, 0, 0, a.into()],
                [0xfd00, 0, 0, 1, 0, 0, 0, b.into()],
            ),
        };
        let [of_a, of_b] = self.ports;
        let frame = match self.is_tcp {
            false => base.udp(of_a, of_b),
            true => base.tcp(of_a, of_b).flags(self.flags),
        };
        if self.from_a { frame } else { frame.reversed() }
    }

    /// The fields of the packet, with this relation to its connection.
    pub(crate) fn fields(&self, ct: acl::CtStates, mark: u32) -> Packet {
        let [a, b]: [IpAddr; 2] = match self.is_v6 {
            false => [[10, 0, 0, self.hosts[0]].into(), [10, 0, 1, self.hosts[1]].into()],
            true => [(0, self.hosts[0]), (1, self.hosts[1])]
                .map(|(net, host)| [0xfd00, 0, 0, net, 0, 0, 0, u16::from(host)].into()),
        };
        let (mut ends, mut ports) = ([a, b], self.ports);
        if !self.from_a {
            ends.reverse();
            ports.reverse();
        }
        let tcp_flags = self.is_tcp.then_some(self.flags);
        let proto = if self.is_tcp { 6 } else { 17 };
        Packet {
            src: ends[0],
            dst: ends[1],
            proto,
            ports: Some(ports),
            tcp_flags,
            ct,
            mark,
            ..Packet::EMPTY
        }
    }
}

/// IP version, protocol, hosts and ports of a connection.
type ConnKey = (bool, bool, [u8; 2], [u16; 2]);

/// A connection of the model.
struct Conn {
    from_a: bool,
    is_answered: bool,
    /// True until its next packet after a change of lists.
    is_open: bool,
    /// Counters of the rules that reflect it, if they do.
    reflected_by: Option<Vec<usize>>,
    /// By direction, the originator's first: what the next packet is compared with rules for.
    stored: [Stored; 2],
    /// Mark and label.
    bits: [u128; 2],
}

/// What is known about the packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored {
    Nothing,
    /// Later packets are not compared, so they write no marks.
    Decision,
    /// Each packet is compared.
    Varies,
}

/// What the rules say about a packet.
struct Judged {
    verdict: Verdict,
    /// Counters of the rules that decided.
    deciding: Vec<usize>,
    reflects: bool,
    /// True if another packet of the direction may be judged otherwise.
    varies: bool,
    /// Value and mask of each write to marks and labels, in the order of rules.
    writes: Vec<[(u128, u128); 2]>,
}

impl Judged {
    fn stored(&self) -> Stored {
        if self.varies || self.reflects { Stored::Varies } else { Stored::Decision }
    }

    fn write(&self, bits: &mut [u128; 2]) {
        for write in self.writes.iter().filter(|_| self.verdict == Verdict::Forward) {
            for (bits, (value, mask)) in bits.iter_mut().zip(write) {
                *bits = *bits & !mask | value;
            }
        }
    }
}

/// Value and mask of what a rule writes.
fn writes(rule: &acl::Rule) -> [(u128, u128); 2] {
    let acl::RuleOptions { set_mark, set_label, .. } = rule.options;
    let mark = set_mark.map_or((0, 0), |bits| (bits.value.into(), bits.mask.into()));
    [mark, set_label.map_or((0, 0), |bits| (bits.value, bits.mask))]
}

/// Lists of each way, in their order, with the number of their first counter.
struct Model {
    ways: [Vec<(Arc<AccessList>, usize)>; 2],
    conns: HashMap<ConnKey, Conn>,
    hits: Vec<u64>,
    tracking: Tracking,
}

impl Model {
    /// Compares a packet with every rule.
    fn judge(&mut self, fields: &Packet, from_a: bool) -> Judged {
        let verdict = Verdict::Forward;
        let mut judged =
            Judged { verdict, deciding: vec![], reflects: false, varies: false, writes: vec![] };
        for (list, first) in &self.ways[usize::from(!from_a)] {
            let decision = list.decide(fields);
            for rule in list.counting(decision, fields) {
                self.hits[first + rule as usize] += 1;
                judged.writes.push(writes(&list.rules[rule as usize]));
            }
            let deciding = decision.rule.map_or(list.rules.len(), |rule| rule as usize);
            judged.deciding.push(first + deciding);
            judged.writes.extend(list.rules.get(deciding).map(writes));
            judged.reflects |= decision.action == Action::PermitReflect;
            judged.varies |= acl::Search::new(list).unwrap().find(fields).varies;
            judged.verdict = match decision.action {
                Action::Deny => Verdict::Drop,
                Action::Reject => Verdict::Reject,
                Action::Permit | Action::PermitReflect | Action::Count => continue,
            };
            judged.reflects = false;
            break;
        }
        judged
    }

    /// As `judge`, without counting.
    fn foresee(&mut self, fields: &Packet, from_a: bool) -> Judged {
        let hits = self.hits.clone();
        let judged = self.judge(fields, from_a);
        self.hits = hits;
        judged
    }

    fn mentions_ct(&self) -> bool {
        let rules = self.ways.iter().flatten().flat_map(|(list, _)| &list.rules);
        rules.into_iter().any(|rule| rule.criteria.ct != acl::CtStates::ANY)
    }

    /// After a change of lists, a connection is reflected if it would be when it began. Otherwise
    /// each direction is decided by the state that the connection has.
    fn decide_anew(&mut self, key: ConnKey, sent: &Sent) {
        let Some(mut conn) = self.conns.remove(&key) else { return };
        if std::mem::replace(&mut conn.is_open, false) {
            let from_a = conn.from_a;
            let first = Sent { from_a, flags: 2, ..*sent };
            let mark = conn.bits[0] as u32;
            // Its first packet had no mark yet.
            let begun = self.foresee(&first.fields(acl::CtStates::NEW, 0), from_a);
            if begun.reflects {
                begun.write(&mut conn.bits);
                conn.reflected_by = Some(begun.deciding);
            } else {
                let orig = Sent { from_a, ..*sent }.fields(acl::CtStates::ESTABLISHED, mark);
                let states = acl::CtStates::ESTABLISHED | acl::CtStates::REPLY;
                let reply = Sent { from_a: !from_a, ..*sent }.fields(states, mark);
                let directions = match conn.is_answered {
                    false => vec![begun],
                    true => vec![self.foresee(&orig, from_a), self.foresee(&reply, !from_a)],
                };
                conn.stored = [Stored::Nothing; 2];
                for (judged, stored) in directions.iter().zip(&mut conn.stored) {
                    *stored = judged.stored();
                    if *stored == Stored::Decision {
                        judged.write(&mut conn.bits);
                    }
                }
            }
        }
        self.conns.insert(key, conn);
    }

    fn process(&mut self, sent: &Sent) -> Verdict {
        let key = (sent.is_v6, sent.is_tcp, sent.hosts, sent.ports);
        let is_off = self.tracking == Tracking::Off;
        self.decide_anew(key, sent);
        let mut conn = self.conns.remove(&key);
        let ct = match &conn {
            _ if is_off => acl::CtStates::UNTRACKED,
            None => acl::CtStates::NEW,
            Some(conn) if conn.from_a != sent.from_a => {
                acl::CtStates::ESTABLISHED | acl::CtStates::REPLY
            }
            Some(conn) if conn.is_answered => acl::CtStates::ESTABLISHED,
            Some(_) => acl::CtStates::NEW,
        };
        let mark = conn.as_ref().map_or(0, |conn| conn.bits[0] as u32);
        let reflected = conn.as_ref().and_then(|conn| conn.reflected_by.clone());
        let is_reflected = reflected.is_some();
        let judged = match reflected {
            Some(deciding) => Judged {
                deciding,
                verdict: Verdict::Forward,
                reflects: true,
                varies: false,
                writes: vec![],
            },
            None => self.judge(&sent.fields(ct, mark), sent.from_a),
        };
        for rule in &judged.deciding {
            self.hits[*rule] += 1;
        }
        let passes = judged.verdict == Verdict::Forward;
        if conn.is_none() && passes && !is_off {
            conn = Some(Conn {
                from_a: sent.from_a,
                is_answered: false,
                is_open: false,
                reflected_by: None,
                stored: [Stored::Nothing; 2],
                bits: [0; 2],
            });
        }
        if let Some(mut conn) = conn {
            if !is_reflected {
                self.store(&mut conn, sent, &judged);
            }
            conn.is_answered |= passes && conn.from_a != sent.from_a;
            self.conns.insert(key, conn);
        }
        judged.verdict
    }

    /// Stores what the rules say about a packet of a connection, and writes its marks, unless that
    /// was decided before.
    fn store(&mut self, conn: &mut Conn, sent: &Sent, judged: &Judged) {
        let direction = usize::from(conn.from_a != sent.from_a);
        if conn.stored[direction] == Stored::Decision {
            return;
        }
        judged.write(&mut conn.bits);
        if judged.reflects {
            conn.reflected_by = Some(judged.deciding.clone());
            return;
        }
        let is_answer = direction == 1 && !conn.is_answered;
        let is_judged = !self.ways[usize::from(!conn.from_a)].is_empty();
        if is_answer && judged.verdict == Verdict::Forward && self.mentions_ct() && is_judged {
            let orig = Sent { from_a: conn.from_a, ..*sent };
            let fields = orig.fields(acl::CtStates::ESTABLISHED, conn.bits[0] as u32);
            let anew = self.foresee(&fields, conn.from_a);
            conn.stored[0] = anew.stored();
            if conn.stored[0] == Stored::Decision {
                anew.write(&mut conn.bits);
            }
        }
        conn.stored[direction] = judged.stored();
    }
}

/// Lists of the four places, and which of them are bound.
pub(crate) type Lists = (Vec<Arc<AccessList>>, [bool; 4]);

pub(crate) fn lists() -> impl Strategy<Value = Lists> {
    (prop::collection::vec(random_list(), 4), any::<[bool; 4]>())
}

pub(crate) fn bindings((lists, bound): &Lists) -> Vec<ListBinding> {
    let places = [
        (Side::A, ListDirection::In),
        (Side::B, ListDirection::Out),
        (Side::B, ListDirection::In),
        (Side::A, ListDirection::Out),
    ];
    let named = |at: usize| {
        let AccessList { rules, default, .. } = &*lists[at];
        Arc::new(AccessList { name: at.to_string(), rules: rules.clone(), default: *default })
    };
    let binding = |at: usize| bind(named(at), places[at].0, places[at].1);
    (0..4).filter(|at| bound[*at]).map(binding).collect()
}

impl Model {
    /// Returns the marks and labels of all connections, in order.
    fn marks(&self) -> Vec<[u128; 2]> {
        let mut marks: Vec<_> = self.conns.values().map(|conn| conn.bits).collect();
        marks.sort_unstable();
        marks
    }

    /// Puts other lists into force. A rule keeps its counter if its list has it still.
    fn set_lists(&mut self, bindings: &[ListBinding]) {
        let texts = |ways: &[Vec<(Arc<AccessList>, usize)>; 2]| {
            let mut texts = vec![];
            for (list, first) in ways.iter().flatten() {
                let default = format!("default {}", list.default);
                let rules = list.rules.iter().map(ToString::to_string).chain([default]);
                texts.extend(
                    (*first..).zip(rules).map(|(at, text)| ((list.name.clone(), text), at)),
                );
            }
            texts
        };
        let before = texts(&self.ways);
        self.ways = [vec![], vec![]];
        let mut counters = 0;
        for ListBinding { list, .. } in bindings {
            let way = list.name.parse::<usize>().unwrap() / 2;
            self.ways[way].push((list.clone(), counters));
            counters += list.rules.len() + 1;
        }
        let mut hits = vec![0; counters];
        let mut free = texts(&self.ways);
        for (text, at) in before {
            if let Some(found) = free.iter().position(|(other, _)| *other == text) {
                hits[free.remove(found).1] = self.hits[at];
            }
        }
        self.hits = hits;
        for conn in self.conns.values_mut() {
            (conn.reflected_by, conn.is_open) = (None, true);
        }
    }
}

/// Returns the marks and labels of all connections, in order.
pub(crate) fn marks_of(engine: &Engine) -> Vec<[u128; 2]> {
    let (query, mut cursor, mut found) = (Query::default(), Cursor::default(), vec![]);
    let mut add = |flow: engine::ConnView| {
        let CtMark { mark, label } = flow.record.ct_mark;
        found.push([mark.into(), label]);
    };
    while engine.list(&query, &mut cursor, 64, &mut add) {}
    found.sort_unstable();
    found
}

/// Replaces the lists of an engine, and visits all its connections.
pub(crate) fn set_lists(engine: &mut Engine, old: &Arc<AccessLists>, bindings: &[ListBinding]) {
    let new = Arc::new(AccessLists::new(bindings).unwrap().with_epoch(old.epoch() + 1));
    engine.set_access(AccessUpdate::new(old, new));
    let (mut cursor, mut opened) = (Cursor::default(), 0);
    while engine.open_access(&mut cursor, 8, &mut opened) {}
}

/// Which marks the packets have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Marks {
    None,
    /// Of the rule that decides, if it is stateless.
    Right,
    /// The same for every other packet; the others have marks of lists that are gone.
    SomeOld,
    /// Of any rule, and each is compared with the lists.
    Any,
}

impl Marks {
    fn check(self) -> MarkVerification {
        match self {
            Marks::Any => MarkVerification::Always,
            _ => MarkVerification::Sampled { first: 4, one_in: 7 },
        }
    }

    /// Returns the mark of the packet with this number.
    fn of(self, sent: &Sent, number: usize, model: &Model, epoch: u32) -> Option<u32> {
        let layout = layout();
        let rules = model.hits.len() as u32;
        let (list, first) = model.ways[usize::from(!sent.from_a)].first()?;
        match self {
            Marks::None => return None,
            Marks::SomeOld if number % 2 == 0 => {
                return Some(layout.encode_list_rule(number as u32 % rules, epoch + 3));
            }
            Marks::Any => return Some(layout.encode_list_rule(number as u32 % rules, epoch)),
            Marks::Right | Marks::SomeOld => {}
        }
        let fields = sent.fields(acl::CtStates::NEW, 0);
        let ports = fields.ports.unwrap_or_default();
        let ends = [fields.src, fields.dst];
        let rules = acl::stateless_rules(list);
        let has = |rule: &acl::StatelessRule| {
            rule.headers.iter().any(|header| header.contains(ends, fields.proto, ports))
        };
        let found = rules.iter().position(|rule| rule.as_ref().is_ok_and(has))?;
        Some(layout.encode_list_rule((first + found) as u32, epoch))
    }
}

fn layout() -> MarkLayout {
    MarkLayout::with_list_rules(32, 100, 1000).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::sized(1500, 100_000)))]

    #[test]
    fn every_packet_is_judged_as_if_compared_with_every_rule(
        (first, then) in (lists(), lists()),
        changes_at in 0..16_usize,
        bursts in bursts(),
        tracking in prop::sample::select(vec![
            Tracking::Connections, Tracking::Connections, Tracking::Flows, Tracking::Off,
            Tracking::Off,
        ]),
        marks in prop::sample::select(vec![
            Marks::None, Marks::Right, Marks::Right, Marks::SomeOld, Marks::Any,
        ]),
    ) {
        let mut model = Model {
            ways: [vec![], vec![]],
            conns: HashMap::new(),
            hits: vec![],
            tracking,
        };
        let of_first = bindings(&first);
        model.set_lists(&of_first);
        let list_marks = ListMarkConfig { layout: layout(), check: marks.check() };
        let list_marks = (marks != Marks::None).then_some(list_marks);
        let config = Config { list_marks, ..config(&of_first, tracking) };
        let (mut engine, mut epoch) = (Engine::new(&config), 0);
        for (number, (from_a, burst)) in bursts.iter().enumerate() {
            if number == changes_at {
                let of_then = bindings(&then);
                set_lists(&mut engine, config.access.as_ref().unwrap(), &of_then);
                model.set_lists(&of_then);
                epoch = 1;
            }
            let burst: Vec<_> =
                burst.iter().map(|sent| Sent { from_a: *from_a, ..*sent }).collect();
            let packets = burst.iter().enumerate();
            let packets = packets.map(|(i, sent)| (sent.frame(), marks.of(sent, i, &model, epoch)));
            let packets: Vec<_> = packets.collect();
            let found = marked_verdicts(&mut engine, burst[0].side(), &packets);
            let expected: Vec<_> = burst.iter().map(|sent| model.process(sent)).collect();
            prop_assert_eq!(found, expected, "{:?}", burst);
            prop_assert_eq!(marks_of(&engine), model.marks(), "{:?}", burst);
        }
        let found = hits(&mut engine, model.hits.len());
        let found: Vec<_> = found.iter().map(|hits| hits.packets).collect();
        prop_assert_eq!(found, model.hits);
        let stats = engine.list_mark_stats().unwrap_or_default();
        prop_assert!(marks == Marks::Any || stats.disagreed == 0, "{:?}", stats);
        let stats = engine.stats();
        let passed = stats.passed.iter().sum::<u64>() + stats.dropped.iter().sum::<u64>();
        let sent: usize = bursts.iter().map(|(_, burst)| burst.len()).sum();
        prop_assert_eq!(stats.tracked + passed, sent as u64);
    }
}

/// A NIC has no rules for ICMP, so its marks of later rules say nothing about a ping.
#[test]
fn marks_decide_about_tcp_and_udp_only() {
    let a = list("a", Action::Deny, &["deny proto icmp", "permit src 10.0.0.0/24"]);
    let bindings = [bind(a, Side::A, ListDirection::In)];
    for tracking in [Tracking::Connections, Tracking::Off] {
        let check = MarkVerification::Sampled { first: 4, one_in: 1000 };
        let list_marks = Some(ListMarkConfig { layout: layout(), check });
        let mut engine = Engine::new(&Config { list_marks, ..config(&bindings, tracking) });
        let mark = Some(layout().encode_list_rule(1, 0));
        let packets = [(ping(8), mark), (udp(1, 2, 3, 4), mark)];
        for _ in 0..10 {
            let verdicts = marked_verdicts(&mut engine, Side::A, &packets);
            assert_eq!(verdicts, [Verdict::Drop, Verdict::Forward]);
        }
        assert_eq!(engine.list_mark_stats().unwrap().disagreed, 0);
        let packets: Vec<_> = hits(&mut engine, 3).iter().map(|hits| hits.packets).collect();
        assert_eq!(packets, [10, 10, 0]);
    }
}

/// A trace names the rule that decides, and whether the packet was compared with rules.
#[test]
fn a_trace_names_the_rule_and_how_it_was_found() {
    let mut engine = Engine::new(&config(&from_a_only(), Tracking::Connections));
    let query = udp(1, 2, 4000, 53);
    let error = |quoted: &FrameBuilder| {
        FrameBuilder::ipv4([10, 9, 9, 9], [10, 0, 0, 1]).icmp_error(3, 3, &quoted.build_packet())
    };
    let (search, stored) = (AccessSource::Search, AccessSource::Stored);
    for (side, packet, verdict, rule, source) in [
        (Side::B, query.clone().reversed(), Verdict::Drop, 3, search),
        (Side::A, query.clone(), Verdict::Forward, 0, search),
        (Side::A, query.clone(), Verdict::Forward, 0, stored),
        (Side::B, query.clone().reversed(), Verdict::Forward, 0, stored),
        (Side::B, error(&query), Verdict::Forward, 0, stored),
        (Side::B, error(&udp(1, 2, 4001, 53)), Verdict::Drop, 3, search),
    ] {
        let frame = packet.build();
        let (found, trace) = engine.process_traced(side, SECOND, &BytesPacket::new(&frame));
        let trace = trace.unwrap();
        assert_eq!(
            (found, trace.rules[0], trace.source),
            (verdict, Some(rule), source),
            "{trace:?}"
        );
    }
    let later = query.clone().fragment(64, false).build();
    let (_, trace) = engine.process_traced(Side::A, SECOND, &BytesPacket::new(&later));
    assert_eq!(trace.unwrap().packet.to_string(), "udp 10.0.0.1 > 10.0.1.2");
    let arp = FrameBuilder::ethernet(0x0806).build();
    let (verdict, trace) = engine.process_traced(Side::B, SECOND, &BytesPacket::new(&arp));
    assert_eq!((verdict, trace), (Verdict::Forward, None));
}

/// A connection has the mark of its rule in its first event, and later rules see it. A connection
/// that reuses the ports of an ended one begins with the mark of its own rule.
#[test]
fn events_and_later_rules_see_the_mark_of_a_rule() {
    let a = list("a", Action::Deny, &["permit proto tcp set-mark 0x10/0xf0", "permit set-mark 1"]);
    let answers = ["deny mark 1 proto udp sport 53", "permit mark 0x10/0xff set-mark 2/2", "deny"];
    let b = list("b", Action::Permit, &answers);
    let bindings = [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)];
    let mut engine = Engine::new(&config(&bindings, Tracking::Connections));
    engine.subscribe(true);
    let query = udp(1, 2, 4000, 53);
    assert_eq!(send(&mut engine, Side::A, std::slice::from_ref(&query)), [true]);
    assert_eq!(send(&mut engine, Side::B, &[query.reversed()]), [false]);
    let tcp = |flags, seq| {
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).tcp(4000, 80).flags(flags).seq(seq)
    };
    let syn_ack = tcp(0x12, 900).ack(101).reversed();
    assert_eq!(send(&mut engine, Side::A, &[tcp(2, 100)]), [true]);
    assert_eq!(send(&mut engine, Side::B, &[syn_ack]), [true]);
    assert_eq!(send(&mut engine, Side::A, &[tcp(4, 101), tcp(2, 9000)]), [true, true]);
    let events = std::iter::from_fn(|| engine.next_event());
    let marks: Vec<_> = events.map(|event| (event.change, event.record.ct_mark.mark)).collect();
    assert_eq!(marks.iter().filter(|found| **found == (EventKind::New, 1)).count(), 1, "{marks:?}");
    assert_eq!(marks.iter().filter(|found| **found == (EventKind::New, 0x10)).count(), 2);
    assert!(marks.contains(&(EventKind::Update, 0x12)), "{marks:?}");
}
