// SPDX-License-Identifier: BSD-3-Clause
//! One port: its rules and what they do with a packet.

use crate::headers::{Headers, Slot};
use crate::pattern::{Attributes, Item, Key, Proto, Shape};
use crate::refusal::errno::{EEXIST, EINVAL, ENOENT, ENOSPC, ENOTSUP};
use crate::refusal::{Cause, Refusal};
use crate::rss::{Rss, RssTypes};
use crate::table::Table;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a rule does, one of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Puts a number on the packet.
    Mark(u32),
    /// Says that a rule was hit, without a number.
    Flag,
    /// Delivers to this queue.
    Queue(u16),
    /// Spreads over queues, by the port's key. No types: those of the port.
    Rss(Spread),
    /// Delivers to no queue.
    Drop,
    /// Delivers as without the rule.
    Passthru,
    /// Counts packets and bytes.
    Count,
}

/// How a rule spreads packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// What is hashed; what is not goes to the first of the queues.
    pub types: RssTypes,
    /// At least one.
    pub queues: Box<[u16]>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number a rule put on it.
    pub mark: Option<u32>,
    /// Whether a rule flagged it.
    pub flag: bool,
    /// The queue: that of a rule, else that of RSS, else the first.
    pub queue: u16,
    /// The hash of RSS, where a packet is of a type that is hashed.
    pub hash: Option<u32>,
    /// The headers that were found.
    pub network: Option<Proto>,
    /// Not for fragments.
    pub transport: Option<Proto>,
    /// Whether it is delivered to nobody.
    pub drop: bool,
}

/// What a rule counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub hits: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// Names a rule; that of a destroyed rule is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u64);

/// What a rule does to a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    mark: Option<u32>,
    flag: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, Default)]
enum Fate {
    /// As without the rule.
    #[default]
    Usual,
    Queue(u16),
    /// Place of the spread.
    Spread(u32),
    Drop,
}

struct Rule {
    generation: u32,
    /// Table and row; `None` for a place without a rule.
    at: Option<(u32, u32)>,
    effect: Effect,
    counts: bool,
    hits: AtomicU64,
    bytes: AtomicU64,
}

/// A NIC's port.
#[derive(Default)]
pub struct Nic {
    /// In the order in which they are asked: by priority, then by age.
    order: Vec<u32>,
    tables: Vec<Table>,
    rules: Vec<Rule>,
    /// Places without a rule.
    free: Vec<u32>,
    rss: Rss,
    /// Those that rules have asked for; equal ones are one.
    spreads: Vec<Spread>,
}

/// A rule that was found good.
struct Checked {
    shape: Shape,
    key: Key,
    effect: Effect,
    /// What its fate is about, if it is one.
    spread: Option<Spread>,
    counts: bool,
}

impl Nic {
    /// A NIC that takes whatever can be done.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rules there are.
    pub fn len(&self) -> usize {
        self.rules.len() - self.free.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Nic::create`] would take the rule.
    pub fn validate(
        &self,
        attributes: &Attributes,
        pattern: &[Item],
        actions: &[Action],
    ) -> Result<(), Refusal> {
        let checked = check(attributes, pattern, actions)?;
        let is_there = |table: &Table| table.find(&checked.key).is_some();
        match self.table_of(&checked.shape, attributes).map(|table| &self.tables[table]) {
            Some(table) if is_there(table) => Err(EXISTS),
            _ => Ok(()),
        }
    }

    /// Takes a rule; it is effective at once.
    pub fn create(
        &mut self,
        attributes: &Attributes,
        pattern: &[Item],
        actions: &[Action],
    ) -> Result<Handle, Refusal> {
        let Checked { shape, key, mut effect, spread, counts } =
            check(attributes, pattern, actions)?;
        let table = match self.table_of(&shape, attributes) {
            Some(table) => table,
            None => self.add_table(Table::new(shape, attributes.group, attributes.priority)),
        };
        let place = match self.free.last() {
            Some(&place) => place,
            None => u32::try_from(self.rules.len()).map_err(|_| FULL)?,
        };
        let row = self.tables[table].insert(&key, place).ok_or(EXISTS)?;
        let at = Some((table as u32, row));
        if let Some(spread) = spread {
            effect.fate = Fate::Spread(self.place_of_spread(spread));
        }
        if self.free.pop().is_none() {
            self.rules.push(Rule::nowhere());
        }
        let rule = &mut self.rules[place as usize];
        *rule = Rule { at, effect, counts, ..Rule::nowhere_of(rule.generation) };
        Ok(Handle::new(place, rule.generation))
    }

    /// Forgets a rule.
    pub fn destroy(&mut self, handle: Handle) -> Result<(), Refusal> {
        let place = self.place_of(handle)?;
        let rule = &mut self.rules[place];
        let (table, row) = rule.at.take().ok_or(NO_RULE)?;
        rule.generation = rule.generation.wrapping_add(1);
        self.free.push(place as u32);
        if let Some(moved) = self.tables[table as usize].remove(row) {
            self.rules[moved as usize].at = Some((table, row));
        }
        Ok(())
    }

    /// Forgets all rules.
    pub fn flush(&mut self) {
        for place in 0..self.rules.len() {
            let rule = &mut self.rules[place];
            if rule.at.take().is_some() {
                rule.generation = rule.generation.wrapping_add(1);
                self.free.push(place as u32);
            }
        }
        self.order.clear();
        self.tables.clear();
        self.spreads.clear();
    }

    /// What a rule with [`Action::Count`] counted; from zero again if `reset`.
    pub fn query(&self, handle: Handle, reset: bool) -> Result<Tally, Refusal> {
        let rule = &self.rules[self.place_of(handle)?];
        if !rule.counts {
            return Err(Refusal::new(ENOTSUP, Cause::Action(0), c"the rule has no action count"));
        }
        let read = |counter: &AtomicU64| match reset {
            true => counter.swap(0, Relaxed),
            false => counter.load(Relaxed),
        };
        Ok(Tally { hits: read(&rule.hits), bytes: read(&rule.bytes) })
    }

    /// Spreads packets over queues from now on.
    pub fn set_rss(&mut self, rss: Rss) {
        self.rss = rss;
    }

    /// What becomes of a frame of `len` bytes, the first of which are in `bytes`.
    pub fn classify(&self, bytes: &[u8], len: u32) -> Verdict {
        let headers = Headers::of(bytes);
        let Effect { mark, flag, fate } = self.hit(bytes, len, &headers);
        let mut hash = self.rss.hash(bytes, &headers);
        let queue = match fate {
            Fate::Usual => hash.map_or(0, |hash| self.rss.queue(hash)),
            Fate::Queue(queue) => queue,
            Fate::Spread(place) => {
                let Spread { types, queues } = &self.spreads[place as usize];
                if types.0 != 0 {
                    hash = self.rss.hash_of(*types, bytes, &headers);
                }
                queues[hash.unwrap_or(0) as usize % queues.len()]
            }
            Fate::Drop => 0,
        };
        let drop = matches!(fate, Fate::Drop);
        let transport = headers.proto(Slot::Transport).filter(|_| !headers.is_fragment());
        let network = headers.proto(Slot::Network);
        Verdict { mark, flag, drop, queue, hash, network, transport }
    }

    /// What the rule does that a frame hits.
    fn hit(&self, bytes: &[u8], len: u32, headers: &Headers) -> Effect {
        let tables = self.order.iter().map(|&table| &self.tables[table as usize]);
        let mut tables = tables.filter(|table| table.group == 0);
        let Some(place) = tables.find_map(|table| table.matches(bytes, headers)) else {
            return Effect::default();
        };
        let rule = &self.rules[place as usize];
        if rule.counts {
            rule.hits.fetch_add(1, Relaxed);
            rule.bytes.fetch_add(len.into(), Relaxed);
        }
        rule.effect
    }

    fn place_of_spread(&mut self, spread: Spread) -> u32 {
        let place = self.spreads.iter().position(|other| *other == spread);
        let place = place.unwrap_or_else(|| {
            self.spreads.push(spread);
            self.spreads.len() - 1
        });
        place as u32
    }

    fn table_of(&self, shape: &Shape, attributes: &Attributes) -> Option<usize> {
        self.tables.iter().position(|table| {
            let same = (table.group, table.priority) == (attributes.group, attributes.priority);
            same && table.shape == *shape
        })
    }

    /// Adds a table; an empty one makes room for it.
    fn add_table(&mut self, table: Table) -> usize {
        let empty = self.tables.iter().position(Table::is_empty);
        let at = empty.unwrap_or(self.tables.len());
        match empty {
            Some(empty) => self.tables[empty] = table,
            None => self.tables.push(table),
        }
        self.order.retain(|&other| other as usize != at);
        let priority = self.tables[at].priority;
        let behind = |&other: &u32| self.tables[other as usize].priority <= priority;
        let place = self.order.partition_point(behind);
        self.order.insert(place, at as u32);
        at
    }

    fn place_of(&self, handle: Handle) -> Result<usize, Refusal> {
        let (place, generation) = handle.parts();
        let rule = self.rules.get(place).filter(|rule| rule.generation == generation);
        rule.filter(|rule| rule.at.is_some()).map(|_| place).ok_or(NO_RULE)
    }
}

const EXISTS: Refusal =
    Refusal::new(EEXIST, Cause::Unspecified, c"a rule with this pattern exists");
const FULL: Refusal = Refusal::new(ENOSPC, Cause::Unspecified, c"the table is full");
const NO_RULE: Refusal = Refusal::new(ENOENT, Cause::Handle, c"no such rule");

impl Rule {
    fn nowhere() -> Self {
        Self::nowhere_of(0)
    }

    fn nowhere_of(generation: u32) -> Self {
        let (hits, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { generation, at: None, effect: Effect::default(), counts: false, hits, bytes }
    }
}

impl Handle {
    /// Never zero, so that it can stand for a pointer.
    fn new(place: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | (u64::from(place) + 1))
    }

    fn parts(self) -> (usize, u32) {
        ((self.0 as u32 as usize).wrapping_sub(1), (self.0 >> 32) as u32)
    }
}

/// What any NIC must refuse.
fn check(
    attributes: &Attributes,
    pattern: &[Item],
    actions: &[Action],
) -> Result<Checked, Refusal> {
    let refuse = |cause, message| Err(Refusal::new(ENOTSUP, cause, message));
    match attributes {
        Attributes { group: 1.., .. } => return refuse(Cause::Group, c"only group 0 is there"),
        Attributes { egress: true, .. } => {
            return refuse(Cause::Egress, c"egress is not supported");
        }
        Attributes { transfer: true, .. } => {
            return refuse(Cause::Transfer, c"transfer is not supported");
        }
        Attributes { ingress: false, .. } => {
            return Err(Refusal::new(EINVAL, Cause::Ingress, c"a rule is for ingress"));
        }
        _ => {}
    }
    let (shape, key) = Shape::of(pattern)?;
    let (effect, spread, counts) = outcome(actions)?;
    Ok(Checked { shape, key, effect, spread, counts })
}

/// What a list of actions comes to.
fn outcome(actions: &[Action]) -> Result<(Effect, Option<Spread>, bool), Refusal> {
    let mut effect = Effect::default();
    let (mut counts, mut fates, mut spread) = (false, 0, None);
    if actions.is_empty() {
        return Err(Refusal::new(EINVAL, Cause::Actions, c"a rule without an action does nothing"));
    }
    for (place, action) in actions.iter().enumerate() {
        match action {
            Action::Mark(mark) => effect.mark = Some(*mark),
            Action::Flag => effect.flag = true,
            Action::Queue(queue) => effect.fate = Fate::Queue(*queue),
            Action::Rss(Spread { queues, .. }) if queues.is_empty() => {
                let message = c"rss needs at least one queue";
                return Err(Refusal::new(EINVAL, Cause::Action(place), message));
            }
            Action::Rss(of_rule) => spread = Some(of_rule.clone()),
            Action::Drop => effect.fate = Fate::Drop,
            Action::Passthru => {}
            Action::Count => counts = true,
        }
        let is_fate =
            matches!(action, Action::Queue(_) | Action::Rss(_) | Action::Drop | Action::Passthru);
        fates += u32::from(is_fate);
        if fates > 1 {
            let message = c"a packet has one fate: queue, rss, drop or passthru";
            return Err(Refusal::new(EINVAL, Cause::Action(place), message));
        }
    }
    Ok((effect, spread, counts))
}
