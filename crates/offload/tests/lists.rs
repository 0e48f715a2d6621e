// SPDX-License-Identifier: BSD-3-Clause
//! Rules of access lists in a port: after every call, the mark of a packet is that of the first
//! rule of the list that matches it, or it has none. The port drops a packet only if the first rule
//! that matches it denies it, counts it for a rule that matches it, and drops none while lists
//! change.

use engine::MarkLayout;
use offload::{
    ListAction, ListPort, ListProgrammer, ListRule, ListRuleState, NotChosen, Refusal,
    RefusalClass, choose,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use wire::header_match::{HeaderMatch, Network, PortMatch};
use wire::proto::{TCP, UDP};

/// Addresses have four bits that differ.
fn host(bits: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, bits & 15).into()
}

fn network() -> impl Strategy<Value = Network> {
    (0..16_u8, 28..=32_u8).prop_map(|(bits, prefix)| {
        let mask = u8::MAX << (32 - prefix);
        Network { address: host(bits & mask), prefix }
    })
}

fn header() -> impl Strategy<Value = HeaderMatch> {
    let proto = prop::sample::select(vec![None, Some(TCP), Some(UDP)]);
    let port = prop_oneof![
        Just(PortMatch::ANY),
        (0..4_u16).prop_map(|value| PortMatch { value, mask: !0 })
    ];
    (network(), network(), proto, port).prop_map(|(src, dst, proto, dport)| HeaderMatch {
        src,
        dst,
        proto,
        sport: PortMatch::ANY,
        dport: if proto.is_some() { dport } else { PortMatch::ANY },
    })
}

/// A packet: source, destination, protocol, destination port.
#[derive(Clone, Copy, Debug)]
struct Sent(u8, u8, u8, u16);

impl Sent {
    fn matches(self, header: &HeaderMatch) -> bool {
        let Sent(src, dst, proto, dport) = self;
        header.contains([host(src), host(dst)], proto, [9, dport])
    }
}

fn all_packets() -> impl Iterator<Item = Sent> {
    (0..16).flat_map(|src| {
        (0..16).flat_map(move |dst| {
            [TCP, UDP]
                .into_iter()
                .flat_map(move |proto| (0..4).map(move |port| Sent(src, dst, proto, port)))
        })
    })
}

/// A rule of a list: its headers, and whether it denies their packets.
type TestRule = (Vec<HeaderMatch>, bool);

/// Returns the rules of a list, with those that must come before each.
fn rules(lists: &[TestRule]) -> Vec<ListRule> {
    let packets: Vec<_> = all_packets().collect();
    let of = |headers: &[HeaderMatch]| -> Vec<bool> {
        packets.iter().map(|sent| headers.iter().any(|header| sent.matches(header))).collect()
    };
    let sets: Vec<_> = lists.iter().map(|(headers, _)| of(headers)).collect();
    let meets = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && *b);
    let rule = |at: usize| {
        let after: Vec<_> = (0..at).filter(|before| meets(&sets[*before], &sets[at])).collect();
        ListRule {
            number: at as u32,
            headers: lists[at].0.clone(),
            can_drop: lists[at].1 && after.iter().all(|before| lists[*before].1),
            after: after.into_iter().map(|before| before as u32).collect(),
            hits: 0,
        }
    };
    (0..lists.len()).map(rule).collect()
}

/// A port that refuses some calls. Of rules with one level, the last that was created applies.
struct Port {
    rules: BTreeMap<u64, (ListAction, HeaderMatch, u32)>,
    /// Packets that each rule has dropped.
    dropped: HashMap<u64, u64>,
    next: u64,
    random: u64,
    /// Refuses one call in this many; 0 for none.
    refuses: u64,
    room: usize,
}

impl Port {
    fn new(random: u64, refuses: u64, room: usize) -> Self {
        let (rules, dropped) = (BTreeMap::new(), HashMap::new());
        Self { rules, dropped, next: 0, random, refuses, room }
    }

    fn dice(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    fn refusal(&mut self) -> Result<(), Refusal> {
        let (first, second) = (self.dice(), self.dice());
        if self.refuses == 0 || first % self.refuses != 0 {
            return Ok(());
        }
        let class = match second % 2 {
            0 => RefusalClass::PortError,
            _ => RefusalClass::Unsuitable,
        };
        Err(Refusal { class, words: "no".into() })
    }

    /// Returns what the port does with a packet, and counts it if that is dropping it.
    fn receive(&mut self, sent: Sent) -> Option<ListAction> {
        let found = self.rules.iter().filter(|(_, (_, header, _))| sent.matches(header));
        let first = found.min_by_key(|(number, (_, _, level))| (*level, u64::MAX - **number));
        let (number, (action, ..)) = first?;
        if *action == ListAction::Drop {
            *self.dropped.entry(*number).or_default() += 1;
        }
        Some(*action)
    }

    fn dropping(&self) -> usize {
        self.rules.values().filter(|(action, ..)| *action == ListAction::Drop).count()
    }
}

impl ListPort for Port {
    fn create_list_rule(
        &mut self,
        action: ListAction,
        header: &HeaderMatch,
        level: u32,
    ) -> Result<u64, Refusal> {
        self.refusal()?;
        assert!(self.rules.len() < self.room, "more rules than there is room for");
        self.next += 1;
        self.rules.insert(self.next, (action, *header, level));
        Ok(self.next)
    }

    fn dropped_by(&mut self, number: u64) -> Option<[u64; 2]> {
        assert_eq!(self.rules[&number].0, ListAction::Drop);
        let packets = self.dropped.get(&number).copied().unwrap_or(0);
        Some([packets, 60 * packets])
    }

    fn destroy_list_rule(&mut self, number: u64) -> Result<(), Refusal> {
        self.rules.remove(&number).expect("a rule that was created");
        Ok(())
    }
}

/// Lists that come into force one after the other in one port.
struct Run {
    layout: MarkLayout,
    programmer: ListProgrammer,
    port: Port,
    now: u64,
    /// Packets that the port dropped, by number of a rule that matches them.
    dropped: HashMap<u32, u64>,
}

impl Run {
    fn step(&mut self) -> bool {
        self.now += 300_000_000;
        let now = self.now;
        self.programmer.step(&mut self.port, &mut || now).is_none()
    }

    /// Sends a packet; says what is wrong with what the port does.
    fn send(&mut self, sent: Sent, (list, rules, epoch): (&[TestRule], &[ListRule], u32)) {
        let has = |rule: &&ListRule| rule.headers.iter().any(|of| sent.matches(of));
        let first = rules.iter().find(has);
        match self.port.receive(sent) {
            None => {}
            Some(ListAction::Drop) => {
                let first = first.expect("a rule that matches").number;
                assert!(list[first as usize].1, "{sent:?} is dropped, rule {first} permits it");
                *self.dropped.entry(first).or_default() += 1;
            }
            Some(ListAction::Mark(mark)) => {
                let layout = self.layout;
                let of_rule = |rule| layout.encode_list_rule(rule, epoch);
                let is_old = (0..14).all(|rule| of_rule(rule) != mark);
                assert!(is_old || first.map(|rule| of_rule(rule.number)) == Some(mark), "{sent:?}");
            }
        }
    }

    /// Takes what was read of the counters, and compares it with what the port has dropped.
    fn compare_counts(&mut self, is_complete: bool) {
        self.programmer.read_drops(&mut self.port, self.now);
        for (rule, hits) in self.programmer.take_dropped() {
            assert_eq!(hits.bytes, 60 * hits.packets);
            let left = self.dropped.get_mut(&rule).expect("a rule of these lists");
            *left = left.checked_sub(hits.packets).expect("no packet is counted twice");
        }
        assert!(!is_complete || self.dropped.values().all(|left| *left == 0), "all are counted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_first_rule_decides_whatever_the_port_has(
        lists in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(header(), 1..3), any::<bool>()), 1..14),
            1..4),
        room in 1..20_usize, levels in 1..5_u32, refuses in prop::sample::select(vec![0_u64, 3, 8]),
        seed in 1..u64::MAX, drops in prop::sample::select(vec![0_u64, 4, 40]),
    ) {
        let layout = MarkLayout::with_list_rules(24, 10, 100).unwrap();
        let mut programmer = ListProgrammer::new(layout, (room, levels), 256);
        programmer.note_removals(1, 1);
        programmer.set_drop_bound(drops);
        // Rules of the lists before stay for a while, in room of their own.
        let port = Port::new(seed, refuses, room * 2);
        let mut run = Run { layout, programmer, port, now: 0, dropped: HashMap::new() };
        for (epoch, list) in (1..).zip(&lists) {
            let rules = rules(list);
            run.programmer.replace(epoch, rules.clone());
            for round in 0..400 {
                let is_idle = run.step();
                if round % 40 == 39 {
                    let turn = run.port.dice() as u32;
                    let hits = |number: u32| u64::from(number.wrapping_mul(turn) % 97);
                    run.programmer.set_hits(hits);
                }
                for sent in all_packets().step_by(3) {
                    run.send(sent, (list, &rules, epoch));
                }
                let most = drops as usize;
                prop_assert!(run.port.dropping() <= most);
                prop_assert_eq!(run.port.dropping(), run.programmer.dropping());
                if is_idle && round > 200 {
                    break;
                }
            }
            // Rules with more packets still replace others for a while; those would go, too.
            for _ in 0..400 {
                run.step();
            }
            run.compare_counts(false);
            let before = run.port.rules.len();
            run.programmer.stop_drops();
            for _ in 0..200 {
                if run.programmer.drops_left().left == 0 {
                    break;
                }
                run.step();
                for sent in all_packets().step_by(7) {
                    run.send(sent, (list, &rules, epoch));
                }
            }
            let gone = before - run.port.rules.len();
            prop_assert!(gone as u64 <= drops, "{} rules were in the way", gone);
            prop_assert_eq!(run.port.dropping(), 0);
            run.compare_counts(true);
            run.dropped.clear();
        }
        prop_assert!(run.programmer.clear(&mut run.port, run.now, || true));
        prop_assert!(run.port.rules.is_empty());
    }

    /// Without faults, all rules come to an end.
    #[test]
    fn every_rule_has_a_final_state(
        list in prop::collection::vec(
            (prop::collection::vec(header(), 1..3), any::<bool>()), 1..14),
        room in 1..20_usize, levels in 1..5_u32, drops in 0..9_u64,
    ) {
        let layout = MarkLayout::with_list_rules(24, 10, 100).unwrap();
        let mut programmer = ListProgrammer::new(layout, (room, levels), 256);
        programmer.note_removals(1, 1);
        programmer.set_drop_bound(drops);
        let mut port = Port::new(1, 0, room);
        programmer.replace(1, rules(&list));
        for now in 1..100 {
            programmer.step(&mut port, &mut || now * 2_000_000_000);
        }
        let states = programmer.states();
        let is_done = |state: &ListRuleState| *state != ListRuleState::Waiting;
        prop_assert!(states.iter().all(|(_, state)| is_done(state)), "{:?}", states);
        prop_assert_eq!(port.rules.len(), programmer.counts().present);
        let is_dropping = |state: &ListRuleState| matches!(state, ListRuleState::Dropping(_));
        let dropping = states.iter().any(|(_, state)| is_dropping(state));
        prop_assert_eq!(dropping, port.dropping() > 0);
    }
}

/// The busiest rules go first, with those that must come before them.
#[test]
fn rules_with_more_packets_go_first() {
    let header = |bits: u8, prefix| HeaderMatch {
        src: Network { address: host(bits), prefix },
        dst: Network { address: host(0), prefix: 28 },
        proto: None,
        sport: PortMatch::ANY,
        dport: PortMatch::ANY,
    };
    let lists =
        [vec![header(1, 32)], vec![header(2, 32)], vec![header(0, 28)]].map(|of| (of, false));
    let mut rules = rules(&lists);
    assert_eq!(rules[2].after, [0, 1]);
    rules[1].hits = 10;
    let chosen = |rules: &[ListRule], room, levels| -> Vec<(u32, u32)> {
        let choice = choose(rules, (room, levels), &HashMap::new());
        choice.chosen.iter().map(|one| (one.number, one.level)).collect()
    };
    assert_eq!(chosen(&rules, 1, 2), [(1, 0)]);
    rules[2].hits = 20;
    assert_eq!(chosen(&rules, 2, 2), [(0, 0), (1, 0)], "the third needs both");
    assert_eq!(chosen(&rules, 3, 2), [(0, 0), (1, 0), (2, 1)]);
    assert_eq!(chosen(&rules, 3, 1), [(0, 0), (1, 0)], "without priorities");
    let refused = HashMap::from([(0, "no".to_owned())]);
    let choice = choose(&rules, (3, 2), &refused);
    let reasons: Vec<_> = choice.others.iter().map(|(_, reason)| reason.clone()).collect();
    assert_eq!(reasons, [NotChosen::Refused("no".into()), NotChosen::Follows(0)]);
}
