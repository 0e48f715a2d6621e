// SPDX-License-Identifier: BSD-3-Clause
//! Stores the rules of a port, and finds the rules that a packet hits.
//!
//! A handle is a place and a generation, so the handle of a removed rule never names another. Rules
//! with the same bits, masks, group and priority share a row: one is in effect, the others wait.

mod counters;
mod dump;
mod limits;
mod rows;
mod spreads;

use crate::action::{Age, Destination, Effect, Spread};
use crate::headers::Headers;
use crate::pattern::{Attributes, Shape};
use crate::personality::{Duplicate, Personality};
use crate::refusal::{Errno, Kind, Refusal};
use crate::rule_check::{ValidRule, refusal};
use crate::table::{Stage, Table};
use crate::tuple::AffectedPackets;
use counters::{CounterConfig, Counters, NO_COUNTER};
pub use counters::{Idle, Tally};
use limits::{Limits, Share};
use spreads::Spreads;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// Identifies a rule. The handle of a destroyed rule is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u64);

/// End of a destroyed rule that stays in effect; `u64::MAX` for rules that were not destroyed.
pub(crate) const FOR_EVER_US: u64 = u64::MAX - 1;

/// Maximum number of groups through which a packet passes, because rules may form a loop.
const JUMPS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Nowhere,
    /// In effect: table and row.
    Row(u32, u32),
    /// Waiting behind the rule with this place.
    Behind(u32),
}

struct Entry {
    generation: u32,
    at: At,
    effect: Effect,
    counter: u32,
    share: Share,
    /// The rule is in effect from `from_us` until `until_us`.
    from_us: u64,
    until_us: u64,
    is_lasting: bool,
}

/// Special properties of a new rule.
#[derive(Clone, Copy)]
pub(crate) struct RuleLifetime {
    /// Time at which it comes into effect; `u64::MAX` for never.
    pub(crate) from_us: u64,
    /// It cannot be destroyed.
    pub(crate) is_lasting: bool,
}

/// The rules of a port.
pub(crate) struct Rules {
    /// Tables by stage, group, priority and age: the order in which they are searched.
    order: Vec<u32>,
    tables: Vec<Table>,
    entries: Vec<Entry>,
    /// Places without a rule.
    free: Vec<u32>,
    /// Places of the rules that wait behind another, the next in effect first.
    waiting: HashMap<u32, VecDeque<u32>>,
    /// Destroyed rules that are still in effect: until when, and their places.
    leaving: BTreeSet<(u64, u32)>,
    /// Times at which rules will come into effect.
    coming_us: BTreeSet<u64>,
    spreads: Spreads,
    counters: Counters,
    limits: Limits,
    /// Verdicts that may have changed since the last call of [`Rules::take_touched`].
    touched: AffectedPackets,
}

/// A frame, and when it arrived.
#[derive(Clone, Copy)]
struct Frame<'a> {
    bytes: &'a [u8],
    headers: &'a Headers,
    now_us: u64,
}

/// The combined effect of the rules that a frame hit.
#[derive(Default)]
pub(crate) struct Hit {
    pub(crate) effect: Effect,
    pub(crate) counted: Counted,
}

/// Rules that count a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// No rule.
    #[default]
    Not,
    /// One, by its counter, for [`crate::Nic::count`].
    By(u32),
    /// Several, on the way from group to group.
    Often,
}

impl Rules {
    /// Returns an empty set with room for `capacity` rules.
    pub(crate) fn new(personality: &Personality, capacity: u64) -> Self {
        Self {
            order: Vec::new(),
            tables: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            waiting: HashMap::new(),
            leaving: BTreeSet::new(),
            coming_us: BTreeSet::new(),
            spreads: Spreads::default(),
            counters: Counters::new(&personality.count),
            limits: Limits::new(personality, capacity),
            touched: AffectedPackets::Nothing,
        }
    }

    /// Returns the number of rules that were not destroyed.
    pub(crate) fn len(&self) -> u64 {
        self.limits.rules()
    }

    /// Returns the number of rules of a stage's engine.
    pub(crate) fn len_of(&self, stage: Stage) -> u64 {
        match stage {
            Stage::Ahead => self.limits.ahead(),
            Stage::Switch | Stage::Port => self.limits.rules() - self.limits.ahead(),
        }
    }

    pub(crate) fn spread(&self, place: u32) -> &Spread {
        self.spreads.get(place)
    }

    /// Refuses a rule that exists already, if the NIC refuses duplicates. For `validate`.
    pub(crate) fn would_take(
        &self,
        personality: &Personality,
        checked: &ValidRule,
    ) -> Result<(), Refusal> {
        let ValidRule { shape, stage, attributes, .. } = checked;
        let table = self.table_of(shape, *stage, *attributes).map(|table| &self.tables[table]);
        let there = table.and_then(|table| table.find(&checked.key));
        // A destroyed rule that is still in effect does not count.
        let is_there = there.is_some_and(|place| self.entries[place as usize].until_us == u64::MAX);
        match personality.engine(*stage).table.duplicate {
            Duplicate::Exists if is_there => Err(EXISTS),
            _ => Ok(()),
        }
    }

    pub(crate) fn create(
        &mut self,
        personality: &Personality,
        checked: ValidRule,
        life: RuleLifetime,
        now_us: u64,
    ) -> Result<Handle, Refusal> {
        self.forget_until(now_us);
        let personality = personality.engine(checked.stage);
        let share = self.limits.share(personality, &checked)?;
        let ValidRule { shape, key, mut effect, spread, counts, age, attributes, stage, .. } =
            checked;
        let table = match self.table_of(&shape, stage, attributes) {
            Some(table) => table,
            None => self.add_table(Table::new(shape, stage, attributes)),
        };
        let other = self.other_with(table, &key);
        if other.is_some() {
            match &personality.table.duplicate {
                Duplicate::Exists => return Err(EXISTS),
                Duplicate::Refused(facts) => return Err(refusal(personality, Some(facts), EXISTS)),
                Duplicate::FirstWins | Duplicate::LastWins => {}
            }
        }
        let age = age.unwrap_or(Age { timeout_s: 0, context: 0 });
        let mut config = CounterConfig {
            counts,
            timeout_us: 1_000_000 * u64::from(age.timeout_s),
            context: age.context,
        };
        let place = self.place();
        let generation = self.entries[place as usize].generation;
        let handle = Handle::new(place, generation);
        if config.context == 0 {
            config.context = handle.0;
        }
        let counter = match self.counters.take(personality, config, now_us) {
            Ok(counter) => counter,
            Err(refusal) => {
                self.free.push(place);
                return Err(refusal);
            }
        };
        if let Some(spread) = spread {
            effect.destination = Destination::Spread(self.spreads.take(spread));
        }
        let RuleLifetime { from_us, is_lasting } = life;
        if (now_us + 1..u64::MAX).contains(&from_us) {
            self.coming_us.insert(from_us);
        }
        let at = At::Nowhere;
        self.entries[place as usize] = Entry {
            generation,
            at,
            effect,
            counter,
            share,
            from_us,
            until_us: u64::MAX,
            is_lasting,
        };
        let is_last = personality.table.duplicate == Duplicate::LastWins;
        self.put(place, table, &key, other.map(|other| (other, is_last)));
        self.limits.add(&self.entries[place as usize].share);
        Ok(handle)
    }

    /// Destroys a rule; its effect lasts until `until_us`.
    pub(crate) fn destroy(&mut self, handle: Handle, until_us: u64) -> Result<(), Refusal> {
        let place = self.place_of(handle)?;
        let entry = &mut self.entries[place as usize];
        if entry.is_lasting {
            return Err(LASTING);
        }
        entry.generation = entry.generation.wrapping_add(1);
        self.limits.remove(&entry.share);
        if until_us == 0 {
            self.remove(place);
            return Ok(());
        }
        entry.until_us = until_us;
        if until_us != FOR_EVER_US {
            self.leaving.insert((until_us, place));
        }
        Ok(())
    }

    /// Destroys all rules except those that cannot be destroyed; returns the number of these.
    pub(crate) fn flush(&mut self) -> u64 {
        self.touched = AffectedPackets::Everything;
        let is_lasting = |entry: &Entry| entry.is_lasting && entry.at != At::Nowhere;
        if self.entries.iter().any(is_lasting) {
            return self.flush_one_by_one();
        }
        self.clear();
        0
    }

    /// Removes all rules.
    pub(crate) fn clear(&mut self) {
        for (place, entry) in (0..).zip(&mut self.entries) {
            if std::mem::replace(&mut entry.at, At::Nowhere) != At::Nowhere {
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(place);
            }
        }
        self.order.clear();
        self.tables.clear();
        self.waiting.clear();
        self.leaving.clear();
        self.coming_us.clear();
        self.spreads.clear();
        self.counters.clear();
        self.limits.clear();
    }

    fn flush_one_by_one(&mut self) -> u64 {
        self.leaving.clear();
        for place in 0..self.entries.len() as u32 {
            let Entry { at, is_lasting, generation, until_us, .. } = self.entries[place as usize];
            if at != At::Nowhere && until_us != u64::MAX {
                self.remove(place);
            } else if at != At::Nowhere && !is_lasting {
                self.destroy(Handle::new(place, generation), 0).expect("it is there");
            }
        }
        self.len()
    }

    /// Takes all rules out of effect: no packet hits them any more.
    pub(crate) fn make_stale(&mut self) {
        self.touched = AffectedPackets::Everything;
        self.entries.iter_mut().for_each(|entry| entry.from_us = u64::MAX);
    }

    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.place_of(handle).is_ok()
    }

    /// Returns the counts of a rule, if it counts.
    pub(crate) fn query(
        &self,
        handle: Handle,
        reset: bool,
        now_us: u64,
    ) -> Result<Option<Tally>, Refusal> {
        let entry = &self.entries[self.place_of(handle)? as usize];
        Ok(self.counters.read(entry.counter, reset, now_us))
    }

    /// Returns the age of a rule, if it ages.
    pub(crate) fn idle(&self, handle: Handle, now_us: u64) -> Result<Option<Idle>, Refusal> {
        let entry = &self.entries[self.place_of(handle)? as usize];
        Ok(self.counters.idle(entry.counter, now_us))
    }

    pub(crate) fn aged(&self, now_us: u64) -> impl Iterator<Item = u64> {
        self.counters.aged(now_us)
    }

    pub(crate) fn ageing(&self) -> usize {
        self.counters.ageing()
    }

    pub(crate) fn has_new_aged(&self, among: Range<usize>, now_us: u64) -> bool {
        self.counters.has_new_aged(among, now_us)
    }

    /// Returns the actions of the rules that a frame hits. Calls `count` with the counter of each.
    pub(crate) fn hit(
        &self,
        bytes: &[u8],
        headers: &Headers,
        now_us: u64,
        count: impl Fn(u32),
    ) -> Hit {
        let mut hit = Hit::default();
        let Some(&first) = self.order.first() else { return hit };
        let first_stage = self.tables[first as usize].stage;
        let frame = Frame { bytes, headers, now_us };
        let mut walk = |stage| {
            Self::walk(&mut hit, |group| self.first((stage, group), frame), &count);
            hit.effect.destination
        };
        if first_stage == Stage::Switch && !matches!(walk(Stage::Switch), Destination::Default) {
            return hit;
        }
        // Packets that the switch sends nowhere else go to the port.
        if first_stage == Stage::Port {
            walk(Stage::Port);
            return hit;
        }
        let ahead = walk(Stage::Ahead);
        let is_drop = matches!(ahead, Destination::Drop);
        // Of two engines, the later one chooses the destination, unless the packet is dropped.
        if !is_drop && matches!(walk(Stage::Port), Destination::Default) {
            hit.effect.destination = ahead;
        }
        hit
    }

    /// Follows a frame from group to group; `first` finds the first rule of a group that the frame
    /// hits.
    fn walk<'a>(hit: &mut Hit, first: impl Fn(u32) -> Option<&'a Entry>, count: &impl Fn(u32)) {
        let mut group = 0;
        for _ in 0..JUMPS_MAX {
            let Some(entry) = first(group) else { break };
            if entry.counter != NO_COUNTER {
                count(entry.counter);
                hit.counted = match hit.counted {
                    Counted::Not => Counted::By(entry.counter),
                    Counted::By(_) | Counted::Often => Counted::Often,
                };
            }
            hit.effect.mark = entry.effect.mark.or(hit.effect.mark);
            hit.effect.flag |= entry.effect.flag;
            hit.effect.destination = match entry.effect.destination {
                Destination::Jump(next) => {
                    group = next;
                    continue;
                }
                destination => destination,
            };
            break;
        }
    }

    pub(crate) fn count(&self, counter: u32, len: u32, now_us: u64) {
        self.counters.count(counter, len, now_us);
    }

    /// Returns when a rule next comes into effect or ends by the clock.
    pub(crate) fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let coming = self.coming_us.range(now_us + 1..).next().copied();
        let going = self.leaving.range((now_us + 1, 0)..).next().map(|&(until_us, _)| until_us);
        coming.into_iter().chain(going).min()
    }

    /// Returns the first rule of a group, of the switch or of the port, that a frame hits.
    #[inline]
    fn first(&self, (stage, group): (Stage, u32), frame: Frame<'_>) -> Option<&Entry> {
        let Frame { bytes, headers, now_us } = frame;
        let tables = self.order.iter().map(|&table| &self.tables[table as usize]);
        let of_group = tables.filter(|table| table.stage == stage && table.group == group);
        let mut places = of_group.filter_map(|table| table.matches(bytes, headers));
        places.find_map(|place| self.in_effect(place, now_us))
    }

    fn forget_until(&mut self, now_us: u64) {
        while self.coming_us.first().is_some_and(|&from_us| from_us <= now_us) {
            self.coming_us.pop_first();
        }
        while let Some(&(_, place)) =
            self.leaving.first().filter(|(until_us, _)| *until_us <= now_us)
        {
            self.leaving.pop_first();
            self.remove(place);
        }
    }

    fn table_of(&self, shape: &Shape, stage: Stage, attributes: Attributes) -> Option<usize> {
        self.tables.iter().position(|table| {
            let Attributes { group, priority, .. } = attributes;
            let same = (table.stage, table.group, table.priority);
            same == (stage, group, priority) && table.shape == *shape
        })
    }

    /// Adds a table, in place of an empty one if there is one.
    fn add_table(&mut self, table: Table) -> usize {
        let empty = self.tables.iter().position(Table::is_empty);
        let at = empty.unwrap_or(self.tables.len());
        match empty {
            Some(empty) => self.tables[empty] = table,
            None => self.tables.push(table),
        }
        self.order.retain(|&other| other as usize != at);
        let rank = |table: usize| {
            let Table { stage, group, priority, .. } = self.tables[table];
            (stage, group, priority)
        };
        let place = self.order.partition_point(|&other| rank(other as usize) <= rank(at));
        self.order.insert(place, at as u32);
        at
    }

    /// Returns a place for a rule.
    fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::NOWHERE);
            let count = i32::try_from(self.entries.len()).expect("fewer rules than 2^31");
            count as u32 - 1
        })
    }

    fn place_of(&self, handle: Handle) -> Result<u32, Refusal> {
        let (place, generation) = handle.parts();
        let entry = self.entries.get(place as usize);
        let good =
            entry.is_some_and(|entry| entry.generation == generation && entry.at != At::Nowhere);
        if good { Ok(place) } else { Err(NO_RULE) }
    }
}

impl Entry {
    const NOWHERE: Self = Self {
        generation: 0,
        at: At::Nowhere,
        effect: Effect { mark: None, flag: false, destination: Destination::Default },
        counter: NO_COUNTER,
        share: Share::NONE,
        from_us: 0,
        until_us: u64::MAX,
        is_lasting: false,
    };
}

impl Handle {
    /// Makes a handle. It is never zero, so that it can stand for a pointer. The driver uses bit
    /// 31.
    fn new(place: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | (u64::from(place) + 1))
    }

    fn parts(self) -> (u32, u32) {
        ((self.0 as u32).wrapping_sub(1), (self.0 >> 32) as u32)
    }
}

const EXISTS: Refusal =
    Refusal::new(Errno::EEXIST, Kind::Unspecified, c"a rule with this pattern exists");
const LASTING: Refusal = Refusal::new(Errno::EIO, Kind::Handle, c"the rule cannot be destroyed");
const NO_RULE: Refusal = Refusal::new(Errno::ENOENT, Kind::Handle, c"no such rule");
