// SPDX-License-Identifier: BSD-3-Clause
//! Tests the prober on the model of each NIC. The model then plays the file that the prober wrote.
//! Neither the prober nor thousands of random rules and packets distinguish the two.

use super::actions::{self, action};
use super::bench::INGRESS;
use super::chains::sensible;
use super::frame::Frame;
use super::pattern::{Bits, Pattern};
use super::subject::{Refused, RuleProbe};
use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use testkit::random::Random;
use twin::personality::{AgeFacts, FieldFacts, Latency, MaskRule, NAMES, OnStop, RefusalFacts};
use twin::{Action, Attributes, Errno, Proto};

mod faults;

struct Nobody;

impl Watcher for Nobody {
    fn stage(&mut self, _: &'static str, _: &Personality) {}
    fn step(&mut self, _: u64, _: u64) {}
}

const QUEUES: u16 = 4;

/// Probes a model of `personality`, without the capacity of its table.
fn probed(personality: &Personality) -> Found {
    probed_with(personality, None)
}

fn probed_with(personality: &Personality, capacity: Option<u32>) -> Found {
    let mut model = Model::new(personality.clone(), QUEUES).spread();
    let extent = Extent { restart: true, force: false, capacity };
    let found = probe(&mut model, extent, &mut Nobody, &AtomicBool::new(false));
    assert_eq!(model.len(), 0, "no rule stays");
    found
}

fn named(name: &str) -> Personality {
    Personality::named(name).unwrap()
}

/// Makes random rules and packets.
struct Chance(Random);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0.index(limit)
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
            0 => (0..self.below(4))
                .map(|_| action(actions::NAMES[self.below(actions::NAMES.len())]))
                .collect(),
            1 => vec![Action::Queue(self.below(6) as u16)],
            2 => vec![Action::Queue(1), Action::Mark(u32::MAX >> self.below(12))],
            _ => usual[self.below(usual.len())].iter().map(|name| action(name)).collect(),
        }
    }

    fn attributes(&mut self) -> Attributes {
        match self.below(20) {
            0 => Attributes { egress: true, ..INGRESS },
            1 => Attributes { ingress: false, ..INGRESS },
            2 => Attributes { transfer: true, ingress: false, ..INGRESS },
            3 => Attributes { priority: [1, 60, 63, 21_844, 21_845][self.below(5)], ..INGRESS },
            4 => Attributes { group: [1, 2, 100][self.below(3)], ..INGRESS },
            5 => Attributes { priority: 1, ..INGRESS },
            _ => INGRESS,
        }
    }
}

/// Plays two personalities side by side; returns the first difference.
fn difference(one: &Personality, other: &Personality, seed: u64) -> Option<String> {
    let mut chance = Chance(Random::new(seed));
    let mut chains = sensible();
    chains.extend([vec![Proto::Tcp, Proto::Eth], vec![Proto::Ipv4, Proto::Udp, Proto::Ipv6]]);
    let mut models =
        [one, other].map(|personality| Model::new(personality.clone(), QUEUES).spread());
    let mut rules = Vec::new();
    for _ in 0..20 {
        let pattern = chance.pattern(&chains);
        let (attributes, actions) = (chance.attributes(), chance.actions());
        let question = RuleProbe { attributes, items: pattern.items.clone(), actions };
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

/// The prober finds rules between ports if the port is part of a switch.
#[test]
fn a_port_of_a_switch_takes_transfer() {
    let mut model = Model::member(named("ideal"), QUEUES);
    let extent = Extent { restart: true, force: false, capacity: None };
    let found = probe(&mut model, extent, &mut Nobody, &AtomicBool::new(false));
    assert_eq!((found.unlike, found.notes), (vec![], vec![]));
    assert!(found.personality.attributes.transfer);
    assert!(!probed(&named("ideal")).personality.attributes.transfer);
}

/// Returns the personality without values in which two measurements differ.
fn without_times(personality: &Personality) -> Personality {
    let Latency { effective_after_us, effective_until_us, .. } = personality.latency;
    let latency = Latency { effective_after_us, effective_until_us, ..Latency::default() };
    Personality { latency, ..personality.clone() }
}

/// True if two values differ by at most a fifth.
fn is_near(found: u32, real: u32) -> bool {
    found.abs_diff(real) <= real / 5
}

#[test]
fn the_file_of_each_nic_plays_like_the_nic() {
    for name in NAMES {
        let real = named(name);
        let found = probed(&real);
        assert!(found.stopped.is_none(), "{name}: {:?}", found.stopped);
        assert_eq!((found.unlike, found.notes), (vec![], vec![]), "{name}");
        assert_eq!((found.findings, found.seen.has_stayed()), (vec![], false), "{name}");
        let file = found.personality;
        let (one, other) = (without_times(&real), without_times(&file));
        for seed in 0..300 {
            if let Some(difference) = difference(&one, &other, seed) {
                panic!("{name}, seed {seed}: {difference}");
            }
        }
        // Facts that single rules do not show.
        let by_queue = found.figures.by_queue.filter(|_| real.operations.r#async);
        assert_eq!(by_queue.is_some(), real.operations.r#async, "{name}");
        let all = |batch: queues::Batch| (batch.asked, batch.results, batch.failed);
        if let Some(queues::ByQueue { refused, create, destroy, .. }) = by_queue {
            assert_eq!((refused, all(create), all(destroy)), (None, (256, 256, 0), (256, 256, 0)));
        }
        assert_eq!(file.operations.r#async, real.operations.r#async, "{name}");
        assert_eq!(file.operations.none, real.operations.none, "{name}");
        if !file.operations.none {
            let parts = |personality: &Personality| {
                let Personality { mark, count, table, port, age, .. } = personality;
                let flags = mark.flag_never_delivered;
                let mark = (mark.max, mark.means_none, mark.never_delivered, flags, age.clone());
                let count = (count.hits_only, count.refresh_ms);
                (mark, count, table.duplicate.clone(), port.on_stop)
            };
            let (file, real) = (parts(&file), parts(&real));
            assert_eq!((file.0, file.1, file.3), (real.0, real.1, real.3), "{name}");
            let kind = |duplicate| std::mem::discriminant(duplicate);
            assert_eq!(kind(&file.2), kind(&real.2), "{name}");
        }
        let times = |latency: &Latency| [latency.create_us, latency.destroy_us];
        let pairs = times(&file.latency).into_iter().zip(times(&real.latency));
        assert!(pairs.into_iter().all(|(file, real)| is_near(file, real)), "{:?}", file.latency);
    }
}

#[test]
fn the_file_of_a_file_is_the_file() {
    for name in NAMES {
        let file = probed(&named(name)).personality;
        let text = file.to_toml();
        let read = Personality::parse(&text, name).unwrap_or_else(|error| panic!("{error}"));
        let again = without_times(&probed(&read).personality).to_toml();
        assert_eq!(again, without_times(&file).to_toml(), "{name}");
    }
}

/// The comparison in these tests does find differences.
#[test]
fn different_nics_are_distinguished() {
    for (number, name) in NAMES.iter().enumerate() {
        for other in &NAMES[..number] {
            // Their rules are the same; the test above compares the other facts.
            if [*other, *name] == ["cx5", "cx6dx"] {
                continue;
            }
            let (one, other_one) = (named(name), named(other));
            let mut seeds = 0..300;
            let differs = seeds.any(|seed| difference(&one, &other_one, seed).is_some());
            assert!(differs, "{name} {other}");
        }
    }
}

#[test]
fn six_years_of_a_driver_are_seen() {
    let [old, new] = ["x710-17.02", "x710"].map(|name| probed(&named(name)).personality);
    let chains = |file: &Personality| file.chains.iter().map(|c| c.items.to_string()).collect();
    let (old_chains, new_chains): (Vec<String>, Vec<String>) = (chains(&old), chains(&new));
    // Ethernet may be left out; tags are not known; the whole tuple, or any part of it.
    assert!(old_chains.iter().all(|chain| chain.starts_with("eth? / ipv")), "{old_chains:?}");
    assert!(new_chains.iter().all(|chain| chain.starts_with("eth")), "{new_chains:?}");
    assert!(new_chains.iter().any(|chain| chain.starts_with("eth / vlan / ")), "{new_chains:?}");
    assert!(old.chains.iter().all(|chain| chain.exactly.is_some()));
    assert!(new.chains.iter().all(|chain| chain.exactly.is_none()));
    // Headers may say nothing, and masks of ports may be ignored.
    assert!(old.items["ipv4"].null.is_some() && new.items["ipv4"].null.is_none());
    assert!(old.items["tcp"].fields["dst"] == FieldFacts::Rule(MaskRule::Always));
    assert!(new.items["tcp"].fields["dst"] == FieldFacts::Rule(MaskRule::FullOrIgnored));
    assert!(!old.pattern.no_default_mask && new.pattern.no_default_mask);
    assert!(old.pattern.never_last && !new.pattern.never_last);
    // One set of fields for each kind of packet, Ethernet or IP, and a parser that hides words.
    assert!(old.pattern.other_fields.is_none() && new.pattern.other_fields.is_some());
    assert!(old.exclusives.is_empty() && !new.exclusives.is_empty());
    assert!(old.last_parsers.is_empty() && !new.last_parsers.is_empty());
    // Lists with a mark alone, with a flag, and with passthru.
    assert_eq!(old.actions.accepted.len(), 1);
    for name in ["passthru", "flag"] {
        assert!(new.actions.accepted.iter().any(|line| line.to_string().contains(name)), "{name}");
    }
    // Neither driver ages rules or has flow queues.
    assert!([&old, &new].iter().all(|file| !file.operations.r#async));
    assert!([&old, &new].iter().all(|file| !file.actions.accepted[0].to_string().contains("age")));
    assert!(old.latency.create_us >= 10_000 && new.latency.create_us < 100);
}

#[test]
fn an_engine_ahead_is_found_by_a_priority_of_its_own() {
    let found = probed(&named("e810"));
    let Personality { ahead, attributes, items, .. } = found.personality;
    let ahead = ahead.expect("the switch");
    assert_eq!((attributes.priorities, ahead.attributes.priorities), (Some(1), Some(2)));
    let lines: Vec<_> = ahead.actions.accepted.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["queue|rss|drop"]);
    assert_eq!(ahead.pattern.bytes_max, Some(32));
    let rule = |items: &BTreeMap<String, _>, header: &str| -> MaskRule {
        let facts: &twin::personality::ItemFacts = &items[header];
        facts.fields["src"].rule()
    };
    for header in ["ipv4", "tcp"] {
        assert_eq!(
            (rule(&items, header), rule(&ahead.items, header)),
            (MaskRule::Full, MaskRule::Any)
        );
    }
    let has_eth_src = |line: &str| {
        let chain = ahead.chains.iter().find(|chain| chain.items.to_string().starts_with(line));
        let only = chain.expect(line).only.as_ref();
        only.is_none_or(|only| only.contains(&"eth.src".to_owned()))
    };
    assert!(has_eth_src("eth / vlan") && !has_eth_src("eth / ipv4"));
    assert!(
        NAMES
            .iter()
            .all(|name| *name == "e810" || probed(&named(name)).personality.ahead.is_none())
    );
}

#[test]
fn flags_and_ages_are_looked_at() {
    let cx6dx = probed(&named("cx6dx")).personality;
    assert!(!cx6dx.mark.flag_never_delivered && cx6dx.age == AgeFacts::default());
    let ntnic = probed(&named("ntnic")).personality;
    assert_eq!(ntnic.actions.not_in_root.keys().collect::<Vec<_>>(), ["age"]);
    let text = "age = { never_told = true, no_query = \"no\" }\nmark = { flag_never_delivered = \
                true }";
    let mute = Personality::parse(text, "mute").unwrap();
    let found = probed(&mute);
    assert_eq!((found.unlike, found.notes), (vec![], vec![]));
    assert!(found.personality.age.never_told && found.personality.age.no_query.is_some());
    assert!(found.personality.mark.flag_never_delivered);
    assert!(!found.personality.mark.never_delivered);
}

#[test]
fn tables_are_filled_to_their_ends() {
    for (name, expected) in [
        ("x710", [Some(512), Some(7168), None, None]),
        // Its entries take 11 ms from the first on: nothing shows where the guarantee ends.
        ("x710-17.02", [Some(7680), None, None, None]),
        ("e810", [Some(16_384), None, None, Some(256)]),
        ("cx5", [None, None, Some(65_536), None]),
        ("ntacc", [Some(20_000), None, None, None]),
        ("ideal", [None; 4]),
    ] {
        let found = probed_with(&named(name), Some(70_000));
        let stages: Vec<_> = found.figures.stages.iter().map(|stage| stage.rules).collect();
        let whole = [expected[0], expected[1], expected[2]].into_iter().flatten().sum::<u32>();
        let whole = u64::from(if whole == 0 { 70_000 } else { whole });
        assert_eq!(stages[..3], [1, 2, 4], "{name}");
        assert_eq!(stages.last(), Some(&whole), "{name}");
        // The calls of a stage are those since the stage before.
        let calls: usize = found.figures.stages.iter().map(|stage| stage.create.calls).sum();
        assert!(calls as u64 >= whole, "{name}: {calls}");
        assert!(found.stopped.is_none(), "{name}: {:?}", found.stopped);
        let Personality { table, count, latency, .. } = found.personality;
        let figures = [table.guaranteed, table.best_effort, table.root, count.max];
        assert_eq!(figures, expected, "{name}");
        let is_full = figures.iter().take(3).any(Option::is_some);
        assert_eq!(table.full, named(name).table.full.filter(|_| is_full).map(full), "{name}");
        let slow = latency.best_effort_create_us;
        assert_eq!(slow, (name == "x710").then_some(10_000), "{name}");
    }
}

/// Returns a refusal with the errno that Intel's files give for all.
fn full(refusal: RefusalFacts) -> RefusalFacts {
    match refusal {
        RefusalFacts::Full { errno, kind, message } => {
            RefusalFacts::Full { errno: errno.or(Some(Errno::EINVAL)), kind, message }
        }
        refusal => refusal,
    }
}
