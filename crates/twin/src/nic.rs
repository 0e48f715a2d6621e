// SPDX-License-Identifier: BSD-3-Clause
//! One port of the model: its rules and their effect on packets.
//!
//! It has no clock: callers pass the time, in microseconds of any clock that never goes back.

use crate::action::{Effect, Fate, Spread};
use crate::checksum::Checks;
use crate::faults::{Fault, Faults};
use crate::fields::Cover;
use crate::headers::{Headers, Slot};
use crate::judge::{Judge, Rule, refusal};
use crate::latency::Latencies;
use crate::pattern::{Item, Proto};
use crate::personality::{OnStop, Personality};
use crate::refusal::{Errno, Kind, Refusal};
use crate::rss::Rss;
use crate::rules::{Counted, FOR_EVER_US, Handle, Hit, Idle, RuleLifetime, Rules, Tally};
use crate::table::Stage;
use crate::tuple::AffectedPackets;
use std::ops::Range;

mod reset;

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
    /// Whether their checksums are good, as far as that was checked.
    pub checksums: Checksums,
    /// True if the packet is dropped.
    pub drop: bool,
    /// Where the switch sends it instead of to the port.
    pub elsewhere: Option<PortForwards>,
    /// By which rules it is counted.
    pub counted: Counted,
}

/// Where a switch sends a packet that does not stay, by number of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortForwards {
    /// Out on the wire of this port.
    Wire(u16),
    /// To this port, as if it had arrived there.
    Port(u16),
}

/// Whether checksums are good; `None` for what was not asked for, and what cannot be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// Of the header of IPv4.
    pub network: Option<bool>,
    /// Of the transport, over all of the packet.
    pub transport: Option<bool>,
}

/// What a call came to, and how long it holds the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// Its value.
    pub value: T,
    /// Microseconds the NIC needs for it.
    pub wait_us: u32,
}

/// A NIC's port.
pub struct Nic {
    personality: Personality,
    queues: u16,
    is_started: bool,
    /// It has reset itself and was not brought back.
    is_down: bool,
    /// The port is one of several that packets can be sent between.
    has_switch: bool,
    /// Packets that no rule brings to a queue are not received.
    is_isolated: bool,
    rules: Rules,
    rss: Rss,
    checks: Checks,
    latencies: Latencies,
    faults: Faults,
    /// What arrives until then is missed.
    stalled_until_us: u64,
}

impl Nic {
    /// A NIC without rules, queues, or a wire. `seed` is for what is left to chance.
    pub fn new(personality: Personality, seed: u64) -> Self {
        Self::with_faults(personality, seed, Faults::none())
    }

    /// One that goes wrong.
    pub fn with_faults(mut personality: Personality, seed: u64, faults: Faults) -> Self {
        if faults.has(Fault::StaleCounters) {
            personality.count.refresh_ms = personality.count.refresh_ms.max(1000);
        }
        let capacity = faults.capacity(personality.table.capacity().whole());
        Self {
            rules: Rules::new(&personality, capacity),
            latencies: Latencies::new(seed),
            personality,
            queues: 1,
            is_started: false,
            is_down: false,
            has_switch: false,
            is_isolated: false,
            rss: Rss::default(),
            checks: Checks::default(),
            faults,
            stalled_until_us: 0,
        }
    }

    /// What kind of NIC it is.
    pub fn personality(&self) -> &Personality {
        &self.personality
    }

    /// Rules there are.
    pub fn len(&self) -> usize {
        self.rules.len() as usize
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a rule is there.
    pub fn has(&self, handle: Handle) -> bool {
        self.rules.has(handle)
    }

    /// How many receive queues there are from now on.
    pub fn set_queues(&mut self, queues: u16) {
        self.queues = queues;
    }

    /// The port is one of a switch, or none.
    pub fn set_switch(&mut self, has_switch: bool) {
        self.has_switch = has_switch;
    }

    /// Spreads packets over queues from now on.
    pub fn set_rss(&mut self, rss: Rss) {
        self.rss = rss;
    }

    /// Which checksums are checked from now on.
    pub fn set_checks(&mut self, checks: Checks) {
        self.checks = checks;
    }

    /// The port starts or stops.
    pub fn set_started(&mut self, is_started: bool) {
        if self.is_started && !is_started {
            match self.personality.port.on_stop {
                OnStop::Keep => {}
                OnStop::Flush => _ = self.rules.flush(),
                OnStop::Stale => self.rules.make_stale(),
            }
            if self.faults.strikes(Fault::LostOnReset) {
                self.rules.make_stale();
            }
        }
        self.is_started = is_started;
    }

    /// Whether [`PortRules::create`] would take the rule, as far as this NIC says before.
    ///
    /// # Errors
    ///
    /// It would not.
    pub fn validate(&self, rule: Rule<'_>) -> Result<(), Refusal> {
        self.ready()?;
        if self.personality.operations.no_validate {
            return Err(NO_CALL);
        }
        let checked = self.judge().check(rule)?;
        self.rules.would_take(&self.personality, &checked)
    }

    /// Takes a rule.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn create(&mut self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        let created = self.try_create(rule, now_us);
        created.map_err(|refusal| match self.faults.strikes(Fault::UntouchedError) {
            true => Refusal { kind: Kind::None, ..refusal },
            false => refusal,
        })
    }

    fn try_create(&mut self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        self.ready()?;
        if let Some(told) = self.personality.port.stopped.as_ref().filter(|_| !self.is_started) {
            return Err(refusal(&self.personality, Some(told), STOPPED));
        }
        let mut checked = self.judge().check(rule)?;
        if self.faults.strikes(Fault::CreateRefused) {
            return Err(NOT_CREATED);
        }
        if self.faults.strikes(Fault::MaskIgnored) {
            let wider = self.without_a_field(rule.items);
            checked = self.judge().check(Rule { items: &wider, ..rule }).unwrap_or(checked);
        }
        self.spoil(&mut checked.effect);
        let table = &self.personality.engine(checked.stage).table;
        let is_beyond = self.rules.len_of(checked.stage) >= table.capacity().guaranteed;
        let wait_us = match self.faults.strikes(Fault::LatencyCliff) {
            true => CLIFF_US,
            false => self.latencies.create(&self.personality.latency, is_beyond),
        };
        let late_us = u64::from(self.personality.latency.effective_after_us)
            + self.faults.delay_us(Fault::LateActivation, 1000, 100_000);
        let life = RuleLifetime {
            from_us: match late_us {
                _ if self.faults.strikes(Fault::PhantomSuccess) => u64::MAX,
                0 => 0,
                late_us => now_us + u64::from(wait_us) + late_us,
            },
            is_lasting: self.faults.strikes(Fault::Undeletable),
        };
        let is_ahead = checked.stage == Stage::Ahead;
        let created = self.rules.create(&self.personality, checked, life, now_us);
        let value = match created {
            // There is another engine to be asked.
            Err(refusal) if is_ahead => {
                let checked = self.judge().behind(rule, refusal)?;
                let created = self.rules.create(&self.personality, checked, life, now_us);
                created.map_err(|behind| behind.after(refusal))?
            }
            created => created?,
        };
        self.stall(now_us);
        Ok(Answer { value, wait_us })
    }

    /// What goes wrong with marks.
    fn spoil(&mut self, effect: &mut Effect) {
        if self.faults.strikes(Fault::NoMark) {
            (effect.mark, effect.flag) = (None, false);
        }
        if self.faults.strikes(Fault::TruncatedMark) {
            effect.mark = effect.mark.map(|mark| mark & 0xffff);
        }
    }

    /// The pattern, wider by one field.
    fn without_a_field(&mut self, items: &[Item]) -> Vec<Item> {
        let mut items = items.to_vec();
        let fields = items.iter().enumerate().flat_map(|(place, item)| {
            let fields = item.proto.fields().iter();
            let counting = fields.filter(|field| field.cover(&item.mask) != Cover::None);
            counting.map(move |field| (place, *field))
        });
        let fields: Vec<_> = fields.collect();
        if !fields.is_empty() {
            let (place, field) = fields[self.faults.one_of(fields.len())];
            field.clear(&mut items[place]);
        }
        items
    }

    fn stall(&mut self, now_us: u64) {
        let stall_us = self.faults.delay_us(Fault::ReceiveStall, 100, 1000);
        if stall_us > 0 {
            self.stalled_until_us = now_us + stall_us;
        }
    }

    /// Forgets a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn destroy(&mut self, handle: Handle, now_us: u64) -> Result<Answer<()>, Refusal> {
        self.ready()?;
        let wait_us = self.latencies.destroy(&self.personality.latency);
        let late_us = u64::from(self.personality.latency.effective_until_us)
            + self.faults.delay_us(Fault::LateDeactivation, 1000, 100_000);
        let until_us = match late_us {
            _ if self.faults.strikes(Fault::DestroyLeavesRule) => FOR_EVER_US,
            0 => 0,
            late_us => now_us + u64::from(wait_us) + late_us,
        };
        self.rules.destroy(handle, until_us)?;
        self.stall(now_us);
        Ok(Answer { value: (), wait_us })
    }

    /// Forgets all rules.
    ///
    /// # Errors
    ///
    /// The NIC has no rules, or some cannot be destroyed.
    pub fn flush(&mut self) -> Result<(), Refusal> {
        self.ready()?;
        match self.rules.flush() {
            0 => Ok(()),
            _ => Err(LASTING),
        }
    }

    /// From now on only rules bring packets to queues, or no longer so.
    ///
    /// # Errors
    ///
    /// The NIC has no such mode, or not while its port is started.
    pub fn isolate(&mut self, is_isolated: bool) -> Result<(), Refusal> {
        self.ready()?;
        let operations = &self.personality.operations;
        if operations.no_isolate {
            return Err(NO_CALL);
        }
        if let Some(told) = operations.isolate_started.as_ref().filter(|_| self.is_started) {
            return Err(refusal(&self.personality, Some(told), STARTED));
        }
        self.is_isolated = is_isolated;
        Ok(())
    }

    /// What a rule with `count` counted; from zero again if `reset`.
    ///
    /// # Errors
    ///
    /// It does not count, or this NIC answers no such question.
    pub fn query(&self, handle: Handle, reset: bool, now_us: u64) -> Result<Tally, Refusal> {
        self.ready()?;
        if self.personality.operations.no_query {
            return Err(NO_CALL);
        }
        let facts = &self.personality.count;
        if let Some(told) = &facts.no_query {
            return Err(refusal(&self.personality, Some(told), NOT_COUNTED));
        }
        let tally = self.rules.query(handle, reset, now_us)?;
        tally.ok_or_else(|| refusal(&self.personality, None, NOT_COUNTED))
    }

    /// How old a rule with `age` is.
    ///
    /// # Errors
    ///
    /// It does not age, or this NIC answers no such question.
    pub fn idle(&self, handle: Handle, now_us: u64) -> Result<Idle, Refusal> {
        self.ready()?;
        if self.personality.operations.no_query {
            return Err(NO_CALL);
        }
        if let Some(told) = &self.personality.age.no_query {
            return Err(refusal(&self.personality, Some(told), NOT_AGEING));
        }
        self.rules.idle(handle, now_us)?.ok_or(NOT_AGEING)
    }

    /// One rule, or all, for people: a line each.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn dump(&self, handle: Option<Handle>, now_us: u64) -> Result<String, Refusal> {
        self.awake()?;
        self.rules.dump(handle, now_us)
    }

    /// What the application calls the rules that no packet hit for their timeout.
    pub fn aged(&self, now_us: u64) -> impl Iterator<Item = u64> {
        self.rules.aged(now_us).filter(|_| !self.personality.age.never_told)
    }

    /// Places of rules that may age.
    pub fn ageing(&self) -> usize {
        self.rules.ageing()
    }

    /// Whether rules at these places are aged that the application was not told of; it is, by this.
    pub fn is_ageing_news(&self, among: Range<usize>, now_us: u64) -> bool {
        !self.personality.age.never_told && self.rules.is_news(among, now_us)
    }

    /// What becomes of a frame of `len` bytes, the first of which are in `bytes`.
    pub fn classify(&self, bytes: &[u8], len: u32, now_us: u64) -> Verdict {
        self.verdict(bytes, now_us, |counter| self.rules.count(counter, len, now_us))
    }

    /// What would become of a frame by the rules of now; nothing is counted.
    pub fn foresee(&self, bytes: &[u8], now_us: u64) -> Verdict {
        self.verdict(bytes, now_us, |_| ())
    }

    /// Counts a frame of `len` bytes that was foreseen to hit a rule.
    pub fn count(&self, counter: u32, len: u32, now_us: u64) {
        self.rules.count(counter, len, now_us);
    }

    /// Which verdicts may be others because of rules that came or went since this was asked last.
    pub(crate) fn take_touched(&mut self) -> AffectedPackets {
        self.rules.take_touched()
    }

    /// Whether packets that are alike have the same verdict, but for their checksums.
    pub(crate) fn sees_only_tuples(&self) -> bool {
        self.rules.sees_only_tuples()
    }

    /// When verdicts become others by themselves, because a rule comes into effect or goes.
    pub fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let stall = (now_us < self.stalled_until_us).then_some(self.stalled_until_us);
        self.rules.next_change_us(now_us).into_iter().chain(stall).min()
    }

    fn verdict(&self, bytes: &[u8], now_us: u64, count: impl Fn(u32)) -> Verdict {
        if now_us < self.stalled_until_us {
            return Verdict { queue: NO_QUEUE, ..Verdict::default() };
        }
        let headers = Headers::of(bytes);
        let Hit { effect, counted } = self.rules.hit(bytes, &headers, now_us, count);
        let Effect { mark, flag, fate } = effect;
        let (queue, hash) = match fate {
            Fate::Queue(queue) => (queue, self.rss.hash(bytes, &headers)),
            Fate::Spread(place) => self.spread(self.rules.spread(place), bytes, &headers),
            Fate::Drop | Fate::Wire(_) | Fate::Port(_) => (0, None),
            Fate::Usual | Fate::Jump(_) => {
                let hash = self.rss.hash(bytes, &headers);
                (hash.map_or(0, |hash| self.rss.queue(hash)), hash)
            }
        };
        let elsewhere = match fate {
            Fate::Wire(port) => Some(PortForwards::Wire(port)),
            Fate::Port(port) => Some(PortForwards::Port(port)),
            _ => None,
        };
        let drop = match fate {
            Fate::Drop => true,
            // Nobody has said where to.
            Fate::Usual | Fate::Jump(_) => self.is_isolated,
            Fate::Queue(_) | Fate::Spread(_) | Fate::Wire(_) | Fate::Port(_) => false,
        };
        let transport = headers.proto(Slot::Transport).filter(|_| !headers.is_fragment());
        let network = headers.proto(Slot::Network);
        let checksums = match drop || elsewhere.is_some() {
            true => Checksums::default(),
            false => Checksums {
                network: self.checks.network(bytes, &headers),
                transport: self.checks.transport(bytes, &headers),
            },
        };
        Verdict { mark, flag, drop, elsewhere, queue, hash, network, transport, checksums, counted }
    }

    /// Queue and hash by a rule's own queues and types.
    fn spread(&self, spread: &Spread, bytes: &[u8], headers: &Headers) -> (u16, Option<u32>) {
        let Spread { types, queues } = spread;
        let hash = self.rss.hash_of(*types, bytes, headers);
        (queues[hash.unwrap_or(0) as usize % queues.len()], hash)
    }

    fn judge(&self) -> Judge<'_> {
        Judge::new(&self.personality, self.queues, self.has_switch)
    }
}

/// As ethdev says it where a driver has no such call.
const NO_CALL: Refusal =
    Refusal::new(Errno::ENOSYS, Kind::Unspecified, c"Function not implemented");
/// What arrives for it is missed.
const NO_QUEUE: u16 = u16::MAX;
const CLIFF_US: u32 = 10_000;
const NOT_CREATED: Refusal = Refusal::new(Errno::EINVAL, Kind::Handle, c"Failed to create flow.");
const LASTING: Refusal = Refusal::new(Errno::EIO, Kind::Handle, c"a rule cannot be destroyed");
const STOPPED: Refusal = Refusal::new(Errno::ENODEV, Kind::Unspecified, c"the port is not started");
const NOT_AGEING: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"the rule has no action age");
const STARTED: Refusal = Refusal::new(Errno::EBUSY, Kind::Unspecified, c"the port is started");
const NOT_COUNTED: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"the rule has no action count");
