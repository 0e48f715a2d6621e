// SPDX-License-Identifier: BSD-3-Clause
//! Lists for frames that are not IP: each frame gets the verdict that comparing it with every rule
//! would give it, and each rule counts the frames that it decided about.

use acl::{AccessList, Action, EthernetList, Frame, parse_ethernet_rule, parse_rule};
use engine::{
    AccessError, AccessLists, AccessUpdate, Config, Engine, EthernetBinding, ListBinding,
    ListDirection, RuleHits, Side, Tracking, UntrackedReason, Verdict, ZoneSource,
};
use proptest::prelude::*;
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;

/// The places of lists, in the order of ways: first those for packets that arrive at port A.
const PLACES: [(Side, ListDirection); 4] = [
    (Side::A, ListDirection::In),
    (Side::B, ListDirection::Out),
    (Side::B, ListDirection::In),
    (Side::A, ListDirection::Out),
];

fn list(name: &str, default: Action, rules: &[&str]) -> Arc<EthernetList> {
    let rules = rules.iter().map(|rule| parse_ethernet_rule(rule).unwrap()).collect();
    Arc::new(EthernetList { name: name.into(), rules, default })
}

fn bind(list: Arc<EthernetList>, place: usize) -> EthernetBinding {
    EthernetBinding { list, places: vec![PLACES[place]] }
}

fn lists(ethernet: &[EthernetBinding]) -> AccessLists {
    AccessLists::new(&[]).unwrap().with_ethernet(ethernet).unwrap()
}

fn engine(lists: AccessLists, tracking: Tracking) -> Engine {
    let (capacity_ipv4, capacity_ipv6) = (100, 100);
    let (access, deepest) = (Some(Arc::new(lists)), tracking);
    let zone = ZoneSource::OuterVlan;
    let config = Config {
        capacity_ipv4,
        capacity_ipv6,
        access,
        tracking,
        deepest,
        zone,
        ..Config::default()
    };
    Engine::new(&config)
}

fn send(engine: &mut Engine, side: Side, frames: &[FrameBuilder]) -> Vec<Verdict> {
    let frames: Vec<_> = frames.iter().map(FrameBuilder::build).collect();
    let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    let mut verdicts = vec![Verdict::Hold; packets.len()];
    engine.process_from(side, SECOND, &packets, &mut verdicts);
    verdicts
}

fn packets(engine: &Engine, counters: usize) -> Vec<u64> {
    let mut hits = vec![RuleHits::default(); counters];
    engine.add_rule_hits(&mut hits);
    hits.iter().map(|hits| hits.packets).collect()
}

fn denied(engine: &Engine) -> u64 {
    engine.stats().dropped[UntrackedReason::Denied as usize]
}

fn arp() -> FrameBuilder {
    FrameBuilder::ethernet(0x0806).payload([1; 28])
}

const FORWARD: Verdict = Verdict::Forward;
const DROP: Verdict = Verdict::Drop;

/// ARP passes, the rest that is not IP does not, and packets of IP have their own lists.
#[test]
fn only_arp_passes_beside_ip() {
    for tracking in [Tracking::Off, Tracking::Flows, Tracking::Connections] {
        let arp_only = || bind(list("l2", Action::Deny, &["permit ether-type arp"]), 0);
        let mut engine = engine(lists(&[arp_only()]), tracking);
        let lldp = FrameBuilder::ethernet(0x88cc).payload([2; 40]);
        let ip = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(1, 2);
        let llc = FrameBuilder::ieee_802_3();
        let frames = [arp(), lldp, ip, llc, arp().vlan(7), arp().qinq(8).vlan(7)];
        let expected = [FORWARD, DROP, FORWARD, DROP, FORWARD, FORWARD];
        assert_eq!(send(&mut engine, Side::A, &frames), expected);
        assert_eq!(packets(&engine, 2), [3, 2], "{tracking:?}");
        assert_eq!(denied(&engine), 2);
        assert_eq!(engine.stats().passed[UntrackedReason::NonIp as usize], 3);
        // No list judges what arrives at the other port.
        assert_eq!(send(&mut engine, Side::B, &frames), [FORWARD; 6]);
        assert_eq!(packets(&engine, 2), [3, 2]);
    }
}

/// Frames whose EtherType cannot be read are dropped where a list denies any.
#[test]
fn frames_without_a_readable_ether_type_are_dropped() {
    let deep = arp().vlan(1).vlan(2).vlan(3);
    for (rule, verdict) in [("deny ether-type lldp", DROP), ("count", FORWARD)] {
        let bound = bind(list("l2", Action::Permit, &[rule]), 0);
        let mut engine = engine(lists(&[bound]), Tracking::Connections);
        assert_eq!(send(&mut engine, Side::A, &[deep.clone(), arp()]), [verdict, FORWARD]);
        let of_depth = engine.stats().dropped[UntrackedReason::VlanDepth as usize];
        assert_eq!(of_depth, u64::from(verdict == DROP));
    }
}

/// A list for IP beside it has its own place, and its own counters.
#[test]
fn lists_of_both_kinds_share_a_port() {
    let deny_udp = AccessList {
        name: "l3".into(),
        rules: vec![parse_rule("deny proto udp", &|_| None).unwrap()],
        default: Action::Permit,
    };
    let of_ip = ListBinding { list: Arc::new(deny_udp), places: vec![PLACES[0]] };
    let both = AccessLists::new(&[of_ip]).unwrap();
    let both = both.with_ethernet(&[bind(list("l2", Action::Permit, &["count"]), 0)]).unwrap();
    let mut engine = engine(both, Tracking::Connections);
    let udp = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(1, 2);
    assert_eq!(send(&mut engine, Side::A, &[arp(), udp]), [FORWARD, DROP]);
    assert_eq!(packets(&engine, 4), [1, 0, 1, 1]);
    let twice = [0, 0].map(|place| bind(list("l2", Action::Permit, &[]), place));
    let refused = AccessLists::new(&[]).unwrap().with_ethernet(&twice).map(|_| ());
    assert_eq!(refused, Err(AccessError::SamePlace([0, 1])));
}

/// Returns one of these, which are few, so that rules and frames meet.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn random_list() -> impl Strategy<Value = (Vec<String>, bool)> {
    let action = word(&["permit", "deny", "count"]);
    let kind = word(&["", " ether-type arp", " ether-type llc", " ether-type lldp,arp"]);
    let src =
        word(&["", " src-mac 02:00:00:00:00:01", " src-mac 00:00:00:00:00:00/01:00:00:00:00:00"]);
    let dst = word(&["", "", " dst-mac ff:ff:ff:ff:ff:ff"]);
    let zone = word(&["", "", " zone 0", " zone 7-8"]);
    let rule = (action, kind, src, dst, zone);
    let rule = rule.prop_map(|(a, b, c, d, e)| format!("{a}{b}{c}{d}{e}"));
    (prop::collection::vec(rule, 0..6), any::<bool>())
}

type Random = Vec<Option<(Vec<String>, bool)>>;

fn random_lists() -> impl Strategy<Value = Random> {
    prop::collection::vec(prop::option::of(random_list()), 4)
}

fn bindings(random: &Random) -> Vec<EthernetBinding> {
    let bound = random.iter().enumerate().filter_map(|(place, lines)| {
        let (lines, permits) = lines.as_ref()?;
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let default = if *permits { Action::Permit } else { Action::Deny };
        Some(bind(list(&place.to_string(), default, &lines), place))
    });
    bound.collect()
}

/// A frame: EtherType, last bytes of the addresses, outer tag.
type Sent = (u16, u8, u8, Option<u16>);

fn frames() -> impl Strategy<Value = Vec<Sent>> {
    let kind = prop::sample::select(vec![0x0806_u16, 0x88cc, 0x8847, 0x30]);
    let frame = (kind, 1..3_u8, prop::sample::select(vec![1_u8, 255]), prop::option::of(7..9_u16));
    prop::collection::vec(frame, 1..40)
}

fn build(&(kind, src, dst, tag): &Sent) -> FrameBuilder {
    let dst = if dst == 255 { [255; 6] } else { [2, 0, 0, 0, 0, dst] };
    let frame = FrameBuilder::ethernet(kind).macs([2, 0, 0, 0, 0, src], dst).payload([3; 48]);
    tag.map_or(frame.clone(), |id| frame.vlan(id))
}

/// Judges a frame by the definition. Adds it to the counters of rules.
fn judge(bound: &[EthernetBinding], side: Side, sent: &Sent, hits: &mut [u64]) -> bool {
    let &(ether_type, src, dst, tag) = sent;
    let dst_mac = if dst == 255 { 0xffff_ffff_ffff } else { 0x0200_0000_0000 | u64::from(dst) };
    let src_mac = 0x0200_0000_0000 | u64::from(src);
    let frame = Frame { ether_type, src_mac, dst_mac, zone: tag.unwrap_or(0) };
    let way = if side == Side::A { &PLACES[..2] } else { &PLACES[2..] };
    for place in way {
        let mut first = 0;
        for EthernetBinding { list, places } in bound {
            if places.contains(place) {
                let decision = list.decide(&frame);
                for rule in list.counting(decision, &frame) {
                    hits[first + rule as usize] += 1;
                }
                hits[first + decision.rule.map_or(list.rules.len(), |rule| rule as usize)] += 1;
                if decision.action == Action::Deny {
                    return false;
                }
            }
            first += list.rules.len() + 1;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn frames_get_the_verdict_of_the_definition(
        (before, after) in (random_lists(), random_lists()),
        bursts in prop::collection::vec((any::<bool>(), frames()), 1..6),
        tracking in prop::sample::select(vec![Tracking::Off, Tracking::Connections]),
    ) {
        let old = Arc::new(lists(&bindings(&before)));
        let mut engine = engine(lists(&bindings(&before)), tracking);
        let mut denied_frames = 0;
        for (bound, is_reload) in [(bindings(&before), false), (bindings(&after), true)] {
            let new = Arc::new(lists(&bound));
            if is_reload {
                engine.set_access(AccessUpdate::new(&old, new.clone()));
            }
            let mut hits = packets(&engine, new.counters());
            for (from_a, frames) in &bursts {
                let side = if *from_a { Side::A } else { Side::B };
                let built: Vec<_> = frames.iter().map(build).collect();
                let found = send(&mut engine, side, &built);
                for (sent, verdict) in frames.iter().zip(found) {
                    let permits = judge(&bound, side, sent, &mut hits);
                    denied_frames += u64::from(!permits);
                    prop_assert_eq!(verdict, if permits { FORWARD } else { DROP }, "{:?}", sent);
                }
            }
            prop_assert_eq!(packets(&engine, new.counters()), hits);
            prop_assert_eq!(denied(&engine), denied_frames);
        }
    }
}

/// A rule that its list still has keeps its counter when lists change.
#[test]
fn counters_survive_a_change() {
    let one = |rules: &[&str]| lists(&[bind(list("l2", Action::Deny, rules), 0)]);
    let mut engine = engine(one(&["permit ether-type arp"]), Tracking::Connections);
    send(&mut engine, Side::A, &[arp(), arp()]);
    let new = one(&["deny ether-type lldp", "permit ether-type arp"]);
    let old = one(&["permit ether-type arp"]);
    engine.set_access(AccessUpdate::new(&old, Arc::new(new)));
    assert_eq!(packets(&engine, 3), [0, 2, 0]);
}
