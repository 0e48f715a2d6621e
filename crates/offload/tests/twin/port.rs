// SPDX-License-Identifier: BSD-3-Clause
//! A port of the twin's model as the one who takes rules.

use engine::{FiveTuple, Nanos};
use offload::{Completion, NicAction, Refusal, RefusalClass, RuleNumber, RulePort};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use testkit::random::Random;
use twin::{Action, Attributes, Handle, Item, Nic, Proto, Rule};

/// A port of the model. Calls take as long as they say; where more than one operation may be on
/// its way, they take no time, are done later, and told later still, in any order.
pub(crate) struct Port {
    pub(crate) nic: Nic,
    pub(crate) now_ns: Rc<Cell<Nanos>>,
    depth: usize,
    random: Random,
    rules: HashMap<RuleNumber, (Handle, FiveTuple)>,
    /// Packets that have a rule, or are to have one.
    tuples: HashMap<FiveTuple, RuleNumber>,
    /// What is on its way, and when it goes on.
    steps: Vec<(Nanos, Step)>,
}

enum Step {
    Create { rule: RuleNumber, tuple: FiveTuple, mark: u32, queue: u16 },
    Destroy(RuleNumber),
    Tell(Completion),
}

/// Longest time until an operation is done, and from then until it is told.
const LATE: Nanos = 300_000;

impl Port {
    pub(crate) fn new(nic: Nic, now_ns: Rc<Cell<Nanos>>, depth: usize) -> Self {
        let (random, steps) = (Random::new(depth as u64), Vec::new());
        let (rules, tuples) = (HashMap::new(), HashMap::new());
        Self { nic, now_ns, depth, random, rules, tuples, steps }
    }

    /// The NIC has forgotten its rules; what is on its way is not done any more.
    pub(crate) fn forget(&mut self) {
        self.rules.clear();
        self.tuples.clear();
        self.steps.clear();
    }

    /// Operations that have no result yet.
    pub(crate) fn on_their_way(&self) -> usize {
        self.steps.len()
    }

    fn is_late(&self) -> bool {
        self.depth > 1
    }

    fn begin(&mut self, step: Step) {
        assert!(self.steps.len() < self.depth, "more on its way than there is room for");
        let late = if self.is_late() { self.random.below(LATE) } else { 0 };
        self.steps.push((self.now_ns.get() + late, step));
    }

    /// Does it; the result, and how long the NIC takes for it.
    fn act(&mut self, step: Step) -> (Completion, Nanos) {
        let now_us = self.now_ns.get() / 1000;
        let (rule, answer) = match step {
            Step::Create { rule, tuple, mark, queue } => {
                let actions = [Action::Queue(queue), Action::Mark(mark)];
                let items = pattern(&tuple);
                let attributes = Attributes::INGRESS;
                let made = Rule { attributes, items: &items, actions: &actions };
                let made = self.nic.create(made, now_us);
                match &made {
                    Ok(made) => _ = self.rules.insert(rule, (made.value, tuple)),
                    Err(_) => _ = self.tuples.remove(&tuple),
                }
                (rule, made.map(|made| made.wait_us))
            }
            Step::Destroy(rule) => {
                let (handle, tuple) = self.rules.remove(&rule).expect("a rule that was made");
                // One that stays has no name any more.
                self.tuples.remove(&tuple);
                (rule, self.nic.destroy(handle, now_us).map(|gone| gone.wait_us))
            }
            Step::Tell(_) => unreachable!("it is done"),
        };
        let took = 1000 * answer.as_ref().map_or(0, |wait_us| Nanos::from(*wait_us));
        (Completion { rule, result: answer.map(drop).map_err(refusal) }, took)
    }
}

/// An item with these fields wholly masked.
fn item(proto: Proto, fields: &[(&str, &[u8])]) -> Item {
    let mut item = Item::any(proto);
    (item.given.spec, item.given.mask) = (true, true);
    for (name, bytes) in fields {
        let at = proto.field(name).expect("a field of it").bit / 8;
        item.spec[at..at + bytes.len()].copy_from_slice(bytes);
        item.mask[at..at + bytes.len()].fill(0xff);
    }
    item
}

fn pattern(tuple: &FiveTuple) -> Vec<Item> {
    let (sport, dport) = (tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes());
    let mut tag = item(Proto::Vlan, &[("tci", &tuple.zone.to_be_bytes())]);
    // Of the control information, the identifier.
    tag.mask[0] = 0x0f;
    let network = match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            item(Proto::Ipv4, &[("src", &src.octets()), ("dst", &dst.octets())])
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            item(Proto::Ipv6, &[("src", &src.octets()), ("dst", &dst.octets())])
        }
        _ => unreachable!("both ends are of one version"),
    };
    let transport = if tuple.proto == wire::proto::TCP { Proto::Tcp } else { Proto::Udp };
    let ports = item(transport, &[("src", &sport), ("dst", &dport)]);
    let tag = (tuple.zone != 0).then_some(tag);
    [Item::any(Proto::Eth)].into_iter().chain(tag).chain([network, ports]).collect()
}

fn refusal(refusal: twin::Refusal) -> Refusal {
    let class = RefusalClass::of_errno(refusal.errno as i32);
    let words = refusal.message.map_or(String::new(), |words| words.to_string_lossy().into());
    Refusal { class, words }
}

impl RulePort for Port {
    fn depth(&self) -> usize {
        self.depth
    }

    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, fate: NicAction) {
        let NicAction::Mark { mark, queue } = fate else { panic!("nothing is released") };
        let other = self.tuples.insert(*tuple, rule);
        assert_eq!(other, None, "packets have one rule at a time");
        self.begin(Step::Create { rule, tuple: *tuple, mark, queue });
    }

    fn destroy(&mut self, rule: RuleNumber) {
        assert!(self.rules.contains_key(&rule), "it was made, and its result has come");
        self.begin(Step::Destroy(rule));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let now = self.now_ns.get();
        let (due, rest) =
            std::mem::take(&mut self.steps).into_iter().partition(|(at, _)| *at <= now);
        self.steps = rest;
        let due: Vec<(Nanos, Step)> = due;
        for (_, step) in due {
            match step {
                Step::Tell(one) => done.push(one),
                step => {
                    let (one, took) = self.act(step);
                    if self.is_late() {
                        let at = now + took + self.random.below(LATE);
                        self.steps.push((at, Step::Tell(one)));
                    } else {
                        self.now_ns.set(self.now_ns.get() + took);
                        done.push(one);
                    }
                }
            }
        }
    }
}
