// SPDX-License-Identifier: BSD-3-Clause
//! The prober on the model of each NIC: the file that it writes is played, and neither it nor
//! thousands of rules and packets made by chance can tell the two apart.

use super::actions::{NAMES, action};
use super::bench::INGRESS;
use super::chains::sensible;
use super::frame::Frame;
use super::pattern::{Bits, Pattern};
use super::subject::{Question, Refused};
use super::*;
use std::sync::atomic::AtomicBool;
use twin::personality::Latency;
use twin::{Action, Attributes, Proto};

struct Nobody;

impl Watcher for Nobody {
    fn stage(&mut self, _: &'static str, _: &Personality) {}
    fn step(&mut self, _: u64, _: u64) {}
}

const QUEUES: u16 = 4;

fn probed(personality: &Personality) -> Found {
    let mut model = Model::new(personality.clone(), QUEUES);
    let found = probe(&mut model, Extent { restart: true }, &mut Nobody, &AtomicBool::new(false));
    assert_eq!(model.len(), 0, "no rule stays");
    found
}

/// A generator of numbers, splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pattern(&mut self, chains: &[Vec<Proto>]) -> Pattern {
        let mut pattern = Pattern::of(&chains[self.below(chains.len())]);
        for at in 0..pattern.items.len() {
            let fields = pattern.items[at].proto.fields();
            let usual = fields.iter().filter(|field| ["src", "dst"].contains(&field.name));
            let usual: Vec<_> = usual.copied().collect();
            if !self.one_in(3) {
                for field in usual {
                    if !self.one_in(4) {
                        pattern = pattern.masked(at, field, Bits::Full);
                    }
                }
            }
            if self.one_in(3) {
                let field = fields[self.below(fields.len())];
                let bits = [Bits::Full, Bits::ButLowest, Bits::Upper, Bits::None][self.below(4)];
                pattern = pattern.masked(at, field, bits);
                if self.one_in(3) {
                    pattern = pattern.contradicted(at, field);
                }
            }
            let item = &mut pattern.items[at];
            match self.below(40) {
                0 => item.given.spec = false,
                1 => (item.given.mask, item.mask) = (false, [0; twin::HEADER_MAX]),
                2 => (item.given.last, item.last) = (true, item.spec),
                3 => (item.given.last, item.last) = (true, item.spec.map(|byte| byte ^ 1)),
                _ => {}
            }
        }
        pattern
    }

    fn actions(&mut self) -> Vec<Action> {
        let usual = [&["queue", "mark"][..], &["queue"], &["mark"], &["drop"], &["queue", "count"]];
        match self.below(8) {
            0 => (0..self.below(4)).map(|_| action(NAMES[self.below(NAMES.len())])).collect(),
            1 => vec![Action::Queue(self.below(6) as u16)],
            2 => vec![Action::Queue(1), Action::Mark(u32::MAX >> self.below(12))],
            _ => usual[self.below(usual.len())].iter().map(|name| action(name)).collect(),
        }
    }

    fn attributes(&mut self) -> Attributes {
        match self.below(20) {
            0 => Attributes { egress: true, ..INGRESS },
            1 => Attributes { ingress: false, ..INGRESS },
            2 => Attributes { transfer: true, ..INGRESS },
            3 => Attributes { priority: [1, 60, 63, 21_844, 21_845][self.below(5)], ..INGRESS },
            4 => Attributes { group: [1, 2, 100][self.below(3)], ..INGRESS },
            _ => INGRESS,
        }
    }
}

/// Plays two personalities side by side; the first that they do otherwise.
fn difference(one: &Personality, other: &Personality, seed: u64) -> Option<String> {
    let mut chance = Chance(seed);
    let mut chains = sensible();
    chains.extend([vec![Proto::Tcp, Proto::Eth], vec![Proto::Ipv4, Proto::Udp, Proto::Ipv6]]);
    let mut models = [one, other].map(|personality| Model::new(personality.clone(), QUEUES));
    let mut rules = Vec::new();
    for _ in 0..20 {
        let pattern = chance.pattern(&chains);
        let (attributes, actions) = (chance.attributes(), chance.actions());
        let question = Question { attributes, items: pattern.items.clone(), actions };
        let describe = |answers: &dyn std::fmt::Debug| format!("{question:?}\n{answers:?}");
        let validated = models.each_mut().map(|model| model.validate(&question));
        if validated[0] != validated[1] {
            return Some(describe(&validated));
        }
        let mut created = models.each_mut().map(|model| model.create(&question));
        let words = |created: &Result<_, Refused>| created.as_ref().map(drop).map_err(Clone::clone);
        if words(&created[0]) != words(&created[1]) {
            return Some(describe(&created));
        }
        if let [Ok(one), Ok(other)] = &mut created {
            rules.push([*one, *other]);
        }
        let frames = [pattern.frame, Frame::of(&chains[chance.below(50)]).map(|frame| frame.bytes)];
        for frame in frames.into_iter().flatten() {
            let came = models.each_mut().map(|model| model.deliver(&frame));
            if came[0] != came[1] {
                return Some(describe(&came));
            }
        }
        if chance.one_in(2) && !rules.is_empty() {
            let pair = rules.swap_remove(chance.below(rules.len()));
            let pairs = models.iter_mut().zip(pair);
            pairs.into_iter().for_each(|(model, rule)| model.destroy(rule).unwrap());
        }
    }
    None
}

#[test]
fn show() {
    let name = std::env::var("P").unwrap_or("x710-17.02".to_owned());
    let personality = Personality::named(&name).unwrap();
    let found = probed(&personality);
    println!("{}", found.personality.to_toml());
    println!("{:?} {:?} {}", found.calls, found.times, found.questions);
    println!("stopped {:?}", found.stopped);
    println!("notes {:#?}", found.notes);
    println!("unlike {} {:#?}", found.unlike.len(), &found.unlike[..found.unlike.len().min(20)]);
    let strip = |personality: &Personality| {
        let latency = Latency {
            effective_after_us: personality.latency.effective_after_us,
            effective_until_us: personality.latency.effective_until_us,
            ..Latency::default()
        };
        Personality { latency, ..personality.clone() }
    };
    let (one, other) = (strip(&personality), strip(&found.personality));
    let differences: Vec<_> = (0..2000).filter_map(|seed| difference(&one, &other, seed)).collect();
    println!("differences {}", differences.len());
    for difference in differences.iter().take(5) {
        println!("{difference}");
    }
    let again = probed(&found.personality);
    if strip(&again.personality).to_toml() != strip(&found.personality).to_toml() {
        println!("NOT FIXED\n{}", again.personality.to_toml());
    }
}
