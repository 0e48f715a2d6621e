// SPDX-License-Identifier: BSD-3-Clause
//! Rules of access lists in a port: after every call, the mark of a packet is that of the first
//! rule of the list that matches it, or it has none.

use engine::MarkLayout;
use offload::{
    ListPort, ListProgrammer, ListRule, ListRuleState, NotChosen, Refusal, RefusalClass, choose,
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

/// Returns the rules of a list, with those that must come before each.
fn rules(lists: &[Vec<HeaderMatch>]) -> Vec<ListRule> {
    let packets: Vec<_> = all_packets().collect();
    let of = |headers: &[HeaderMatch]| -> Vec<bool> {
        packets.iter().map(|sent| headers.iter().any(|header| sent.matches(header))).collect()
    };
    let sets: Vec<_> = lists.iter().map(|headers| of(headers)).collect();
    let meets = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && *b);
    (0..lists.len())
        .map(|at| ListRule {
            number: at as u32,
            headers: lists[at].clone(),
            after: (0..at)
                .filter(|before| meets(&sets[*before], &sets[at]))
                .map(|b| b as u32)
                .collect(),
            hits: 0,
        })
        .collect()
}

/// A port that refuses some calls. Of rules with one level, the last that was created applies.
struct Port {
    rules: BTreeMap<u64, (u32, HeaderMatch, u32)>,
    next: u64,
    random: u64,
    /// Refuses one call in this many; 0 for none.
    refuses: u64,
    room: usize,
}

impl Port {
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

    fn mark(&self, sent: Sent) -> Option<u32> {
        let found = self.rules.iter().filter(|(_, (_, header, _))| sent.matches(header));
        found
            .min_by_key(|(number, (_, _, level))| (*level, u64::MAX - **number))
            .map(|(_, (mark, ..))| *mark)
    }
}

impl ListPort for Port {
    fn create_list_rule(
        &mut self,
        mark: u32,
        header: &HeaderMatch,
        level: u32,
    ) -> Result<u64, Refusal> {
        self.refusal()?;
        assert!(self.rules.len() < self.room, "more rules than there is room for");
        self.next += 1;
        self.rules.insert(self.next, (mark, *header, level));
        Ok(self.next)
    }

    fn destroy_list_rule(&mut self, number: u64) -> Result<(), Refusal> {
        self.rules.remove(&number).expect("a rule that was created");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn marks_are_always_those_of_the_first_rule(
        lists in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(header(), 1..3), 1..14), 1..4),
        room in 1..20_usize, levels in 1..5_u32, refuses in prop::sample::select(vec![0_u64, 3, 8]),
        seed in 1..u64::MAX,
    ) {
        let layout = MarkLayout::with_list_rules(24, 10, 100).unwrap();
        let mut programmer = ListProgrammer::new(layout, (room, levels), 256);
        // Rules of the lists before stay for a while, in room of their own.
        let room = room * 2;
        let mut port = Port { rules: BTreeMap::new(), next: 0, random: seed, refuses, room };
        let mut now = 0;
        for (epoch, list) in (1..).zip(&lists) {
            let rules = rules(list);
            programmer.replace(epoch, rules.clone());
            for round in 0..400 {
                now += 2_000_000_000;
                let is_idle = programmer.step(&mut port, &mut || now).is_none();
                if round % 40 == 39 {
                    let turn = port.dice() as u32;
                    programmer.set_hits(|number| u64::from(number.wrapping_mul(turn) % 97));
                }
                for sent in all_packets().step_by(3) {
                    let has = |rule: &&ListRule| rule.headers.iter().any(|of| sent.matches(of));
                    let first = rules.iter().find(has);
                    let right = first.map(|rule| layout.encode_list_rule(rule.number, epoch));
                    let mark = port.mark(sent);
                    let is_old = mark.is_some_and(|mark| {
                        (0..14).all(|rule| layout.encode_list_rule(rule, epoch) != mark)
                    });
                    let is_right = mark.is_none() || is_old || mark == right;
                    prop_assert!(is_right, "{:?} {:?}", sent, mark);
                }
                if is_idle && round > 200 {
                    break;
                }
            }
        }
        let states = programmer.states();
        if refuses == 0 {
            let is_done = |state: &ListRuleState| *state != ListRuleState::Waiting;
            prop_assert!(states.iter().all(|(_, state)| is_done(state)), "{:?}", states);
            prop_assert_eq!(port.rules.len(), programmer.counts().present);
        }
        prop_assert!(programmer.clear(&mut port, || true));
        prop_assert!(port.rules.is_empty());
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
    let lists = [vec![header(1, 32)], vec![header(2, 32)], vec![header(0, 28)]];
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
