// SPDX-License-Identifier: BSD-3-Clause
//! One port of the model: its rules and their effect on packets.
//!
//! It has no clock: callers pass the time, in microseconds of any clock that never goes back.

use crate::action::{Destination, Effect, Spread};
use crate::checksum::Checks;
use crate::faults::{Fault, Faults};
use crate::fields::Cover;
use crate::headers::{Headers, Slot};
use crate::latency::Latencies;
use crate::pattern::{Item, Proto};
use crate::personality::{OnStop, Personality};
use crate::refusal::{Errno, Kind, Refusal};
use crate::rss::Rss;
use crate::rule_check::{Rule, RuleChecker, refusal};
use crate::rules::{Counted, FOR_EVER_US, Handle, Hit, Idle, RuleLifetime, Rules, Tally};
use crate::table::Stage;
use crate::tuple::AffectedPackets;
use std::ops::Range;

mod change;
mod reset;

/// The model's decision on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number that a rule put on the packet.
    pub mark: Option<u32>,
    /// True if a rule flagged the packet.
    pub flag: bool,
    /// The queue: that of a rule, else that of RSS, else the first.
    pub queue: u16,
    /// The hash of RSS, if the packet is of a type that is hashed.
    pub hash: Option<u32>,
    /// The network header that was found.
    pub network: Option<Proto>,
    /// The transport header that was found; none for fragments.
    pub transport: Option<Proto>,
    /// Results of the checksums that were verified.
    pub checksums: Checksums,
    /// True if the packet is dropped.
    pub drop: bool,
    /// The port to which the switch sends the packet instead.
    pub elsewhere: Option<PortForwards>,
    /// Rules that count the packet.
    pub counted: Counted,
}

/// Destination of a packet that a switch forwards, by number of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortForwards {
    /// Out on the wire of this port.
    Wire(u16),
    /// To this port, as if it had arrived there.
    Port(u16),
}

/// Results of checksums; `None` if one was not to be verified, or cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// True if the checksum of the IPv4 header is good.
    pub network: Option<bool>,
    /// True if the checksum of the transport, over the whole packet, is good.
    pub transport: Option<bool>,
}

/// The result of a call, and how long the call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The result.
    pub value: T,
    /// Microseconds that the NIC takes.
    pub wait_us: u32,
}

/// A NIC's port.
pub struct Nic {
    personality: Personality,
    queues: u16,
    is_started: bool,
    /// True if the NIC has reset itself and was not brought back.
    is_down: bool,
    /// True if the port is one of a switch.
    has_switch: bool,
    /// True if packets are received only by rules.
    is_isolated: bool,
    rules: Rules,
    rss: Rss,
    checks: Checks,
    latencies: Latencies,
    faults: Faults,
    /// Packets that arrive until this time are missed.
    stalled_until_us: u64,
}

impl Nic {
    /// Returns a NIC without rules, queues, or a wire. `seed` is for random choices.
    pub fn new(personality: Personality, seed: u64) -> Self {
        Self::with_faults(personality, seed, Faults::none())
    }

    /// Returns a NIC with faults.
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

    /// Returns the personality of the NIC.
    pub fn personality(&self) -> &Personality {
        &self.personality
    }

    /// Returns the probability that an arriving packet is held, and others pass it.
    pub fn reorder_chance(&self) -> f64 {
        self.faults.chance(Fault::Reorder)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len() as usize
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the rule exists.
    pub fn has(&self, handle: Handle) -> bool {
        self.rules.has(handle)
    }

    /// Sets the number of receive queues.
    pub fn set_queues(&mut self, queues: u16) {
        self.queues = queues;
    }

    /// Sets whether the port is one of a switch.
    pub fn set_switch(&mut self, has_switch: bool) {
        self.has_switch = has_switch;
    }

    /// Sets how packets are spread over queues.
    pub fn set_rss(&mut self, rss: Rss) {
        self.rss = rss;
    }

    /// Sets which checksums are verified.
    pub fn set_checks(&mut self, checks: Checks) {
        self.checks = checks;
    }

    /// Starts or stops the port.
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

    /// Checks whether [`Nic::create`] would accept the rule, as far as `validate` of this NIC finds
    /// out.
    ///
    /// # Errors
    ///
    /// If the NIC would refuse it.
    pub fn validate(&self, rule: Rule<'_>) -> Result<(), Refusal> {
        self.ready()?;
        if self.personality.operations.no_validate {
            return Err(NO_CALL);
        }
        let checked = self.checker().check(rule)?;
        self.rules.would_take(&self.personality, &checked)
    }

    /// Creates a rule.
    ///
    /// # Errors
    ///
    /// If the NIC refuses it.
    pub fn create(&mut self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        let created = self.try_create(rule, now_us);
        created.map_err(|refusal| match self.faults.strikes(Fault::UntouchedError) {
            true => Refusal { kind: Kind::None, ..refusal },
            false => refusal,
        })
    }

    fn try_create(&mut self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        self.ready()?;
        if let Some(facts) = self.personality.port.stopped.as_ref().filter(|_| !self.is_started) {
            return Err(refusal(&self.personality, Some(facts), STOPPED));
        }
        let mut checked = self.checker().check(rule)?;
        if self.faults.strikes(Fault::CreateRefused) {
            return Err(NOT_CREATED);
        }
        if self.faults.strikes(Fault::MaskIgnored) {
            let wider = self.without_a_field(rule.items);
            checked = self.checker().check(Rule { items: &wider, ..rule }).unwrap_or(checked);
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
                _ if self.faults.is_stuck() => u64::MAX,
                0 => 0,
                late_us => now_us + u64::from(wait_us) + late_us,
            },
            is_lasting: self.faults.strikes(Fault::Undeletable),
        };
        let is_ahead = checked.stage == Stage::Ahead;
        let created = self.rules.create(&self.personality, checked, life, now_us);
        let value = match created {
            // The usual engine is tried next.
            Err(refusal) if is_ahead => {
                let checked = self.checker().behind(rule, refusal)?;
                let created = self.rules.create(&self.personality, checked, life, now_us);
                created.map_err(|behind| behind.after(refusal))?
            }
            created => created?,
        };
        self.after_change(now_us);
        Ok(Answer { value, wait_us })
    }

    /// Applies faults of marks to an effect.
    fn spoil(&mut self, effect: &mut Effect) {
        if self.faults.strikes(Fault::NoMark) {
            (effect.mark, effect.flag) = (None, false);
        }
        if self.faults.strikes(Fault::TruncatedMark) {
            effect.mark = effect.mark.map(|mark| mark & 0xffff);
        }
    }

    /// Returns the pattern without one of its fields.
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

    /// Destroys a rule.
    ///
    /// # Errors
    ///
    /// If there is no such rule.
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
        self.after_change(now_us);
        Ok(Answer { value: (), wait_us })
    }

    /// Destroys all rules.
    ///
    /// # Errors
    ///
    /// If the NIC has no rules, or some cannot be destroyed.
    pub fn flush(&mut self) -> Result<(), Refusal> {
        self.ready()?;
        match self.rules.flush() {
            0 => Ok(()),
            _ => Err(LASTING),
        }
    }

    /// Begins or ends isolated mode, in which the port receives only packets that rules deliver.
    ///
    /// # Errors
    ///
    /// If the NIC has no such mode, or does not allow the change while its port is started.
    pub fn isolate(&mut self, is_isolated: bool) -> Result<(), Refusal> {
        self.ready()?;
        let operations = &self.personality.operations;
        if operations.no_isolate {
            return Err(NO_CALL);
        }
        if let Some(facts) = operations.isolate_started.as_ref().filter(|_| self.is_started) {
            return Err(refusal(&self.personality, Some(facts), STARTED));
        }
        self.is_isolated = is_isolated;
        Ok(())
    }

    /// Returns the counts of a rule with `count`; resets them to zero if `reset`.
    ///
    /// # Errors
    ///
    /// If the rule does not count, or this NIC does not support the query.
    pub fn query(&self, handle: Handle, reset: bool, now_us: u64) -> Result<Tally, Refusal> {
        self.ready()?;
        if self.personality.operations.no_query {
            return Err(NO_CALL);
        }
        let facts = &self.personality.count;
        if let Some(facts) = &facts.no_query {
            return Err(refusal(&self.personality, Some(facts), NOT_COUNTED));
        }
        let tally = self.rules.query(handle, reset, now_us)?;
        tally.ok_or_else(|| refusal(&self.personality, None, NOT_COUNTED))
    }

    /// Returns the age of a rule with `age`.
    ///
    /// # Errors
    ///
    /// If the rule does not age, or this NIC does not support the query.
    pub fn idle(&self, handle: Handle, now_us: u64) -> Result<Idle, Refusal> {
        self.ready()?;
        if self.personality.operations.no_query {
            return Err(NO_CALL);
        }
        if let Some(facts) = &self.personality.age.no_query {
            return Err(refusal(&self.personality, Some(facts), NOT_AGEING));
        }
        self.rules.idle(handle, now_us)?.ok_or(NOT_AGEING)
    }

    /// Returns a text of one rule or all rules, a line each.
    ///
    /// # Errors
    ///
    /// If there is no such rule.
    pub fn dump(&self, handle: Option<Handle>, now_us: u64) -> Result<String, Refusal> {
        self.awake()?;
        self.rules.dump(handle, now_us)
    }

    /// Returns the contexts of the rules that no packet has hit during their timeout.
    pub fn aged(&self, now_us: u64) -> impl Iterator<Item = u64> {
        self.rules.aged(now_us).filter(|_| !self.personality.age.never_told)
    }

    /// Returns the number of places of rules that may age.
    pub fn ageing(&self) -> usize {
        self.rules.ageing()
    }

    /// True if rules at these places have aged that were not reported to the application. This call
    /// counts as the report.
    pub fn is_ageing_news(&self, among: Range<usize>, now_us: u64) -> bool {
        !self.personality.age.never_told && self.rules.has_new_aged(among, now_us)
    }

    /// Classifies a frame of `len` bytes, the first of which are in `bytes`, and counts it.
    pub fn classify(&self, bytes: &[u8], len: u32, now_us: u64) -> Verdict {
        self.verdict(bytes, now_us, |counter| self.rules.count(counter, len, now_us))
    }

    /// Classifies a frame by the current rules without counting it.
    pub fn foresee(&self, bytes: &[u8], now_us: u64) -> Verdict {
        self.verdict(bytes, now_us, |_| ())
    }

    /// Counts a frame of `len` bytes that was classified ahead; `counter` is that of its verdict.
    pub fn count(&self, counter: u32, len: u32, now_us: u64) {
        self.rules.count(counter, len, now_us);
    }

    /// Returns which packets may have other verdicts, because rules were created or destroyed since
    /// the last call.
    pub(crate) fn take_touched(&mut self) -> AffectedPackets {
        self.rules.take_touched()
    }

    /// True if packets that are alike have the same verdict, except for their checksums.
    pub(crate) fn sees_only_tuples(&self) -> bool {
        self.rules.sees_only_tuples()
    }

    /// Returns when verdicts next change by the clock, because a rule comes into effect or ends.
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
        let Effect { mark, flag, destination } = effect;
        let (queue, hash) = match destination {
            Destination::Queue(queue) => (queue, self.rss.hash(bytes, &headers)),
            Destination::Spread(place) => self.spread(self.rules.spread(place), bytes, &headers),
            Destination::Drop | Destination::Wire(_) | Destination::Port(_) => (0, None),
            Destination::Default | Destination::Jump(_) => {
                let hash = self.rss.hash(bytes, &headers);
                (hash.map_or(0, |hash| self.rss.queue(hash)), hash)
            }
        };
        let elsewhere = match destination {
            Destination::Wire(port) => Some(PortForwards::Wire(port)),
            Destination::Port(port) => Some(PortForwards::Port(port)),
            _ => None,
        };
        let drop = match destination {
            Destination::Drop => true,
            // No rule has chosen a destination.
            Destination::Default | Destination::Jump(_) => self.is_isolated,
            Destination::Queue(_)
            | Destination::Spread(_)
            | Destination::Wire(_)
            | Destination::Port(_) => false,
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

    /// Returns queue and hash by a rule's own queues and types.
    fn spread(&self, spread: &Spread, bytes: &[u8], headers: &Headers) -> (u16, Option<u32>) {
        let Spread { types, queues } = spread;
        let hash = self.rss.hash_of(*types, bytes, headers);
        (queues[hash.unwrap_or(0) as usize % queues.len()], hash)
    }

    fn checker(&self) -> RuleChecker<'_> {
        RuleChecker::new(&self.personality, self.queues, self.has_switch)
    }
}

/// The error of ethdev if a driver does not implement the call.
const NO_CALL: Refusal =
    Refusal::new(Errno::ENOSYS, Kind::Unspecified, c"Function not implemented");
/// A queue that no port has, for packets that are missed.
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
