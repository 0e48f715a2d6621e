// SPDX-License-Identifier: BSD-3-Clause
//! One port: its rules and what they do with a packet.
//!
//! It has no clock: whoever calls says how late it is, in microseconds of any clock that never goes
//! back.

use crate::action::{Effect, Fate, Spread};
use crate::headers::{Headers, Slot};
use crate::judge::{Judge, Rule, refusal};
use crate::latency::Latencies;
use crate::pattern::Proto;
use crate::personality::{OnStop, Personality, Told};
use crate::refusal::{Errno, Kind, Refusal};
use crate::rss::Rss;
use crate::rules::{Handle, Hit, Rules, Tally};

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
    /// Of the last rule it hits that counts, for [`Nic::count`].
    pub counter: Option<u32>,
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
    rules: Rules,
    rss: Rss,
    latencies: Latencies,
}

impl Nic {
    /// A NIC without rules, queues, or a cable. `seed` is for what is left to chance.
    pub fn new(personality: Personality, seed: u64) -> Self {
        let rules = Rules::new(&personality);
        let (is_started, rss) = (false, Rss::default());
        Self { personality, queues: 1, is_started, rules, rss, latencies: Latencies::new(seed) }
    }

    /// What kind of NIC it is.
    pub fn personality(&self) -> &Personality {
        &self.personality
    }

    /// Rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receive queues there are from now on.
    pub fn set_queues(&mut self, queues: u16) {
        self.queues = queues;
    }

    /// Spreads packets over queues from now on.
    pub fn set_rss(&mut self, rss: Rss) {
        self.rss = rss;
    }

    /// The port starts or stops.
    pub fn set_started(&mut self, is_started: bool) {
        if self.is_started && !is_started {
            match self.personality.port.on_stop {
                OnStop::Keep => {}
                OnStop::Flush => self.rules.flush(),
                OnStop::Stale => self.rules.make_stale(),
            }
        }
        self.is_started = is_started;
    }

    /// Whether [`Nic::create`] would take the rule, as far as this NIC says before.
    ///
    /// # Errors
    ///
    /// It would not.
    pub fn validate(&self, rule: Rule<'_>, now_us: u64) -> Result<(), Refusal> {
        let operations = &self.personality.operations;
        if operations.none || operations.no_validate {
            return Err(NO_CALL);
        }
        let checked = self.judge().check(rule)?;
        self.rules.would_take(&self.personality, &checked, rule.attributes, now_us)
    }

    /// Takes a rule.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn create(&mut self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        if self.personality.operations.none {
            return Err(NO_CALL);
        }
        if let Some(told) = self.personality.port.stopped.as_ref().filter(|_| !self.is_started) {
            return Err(refusal(&self.personality, Some(told), STOPPED));
        }
        let checked = self.judge().check(rule)?;
        let is_beyond = self.rules.len() as u64 >= self.personality.table.capacity().guaranteed;
        let wait_us = self.latencies.create(&self.personality.latency, is_beyond);
        let value = self.rules.create(&self.personality, checked, rule.attributes, now_us)?;
        Ok(Answer { value, wait_us })
    }

    /// Forgets a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn destroy(&mut self, handle: Handle, now_us: u64) -> Result<Answer<()>, Refusal> {
        if self.personality.operations.none {
            return Err(NO_CALL);
        }
        let wait_us = self.latencies.destroy(&self.personality.latency);
        let until_us = match self.personality.latency.effective_until_us {
            0 => 0,
            late => now_us + u64::from(wait_us) + u64::from(late),
        };
        self.rules.destroy(handle, until_us)?;
        Ok(Answer { value: (), wait_us })
    }

    /// Forgets all rules.
    ///
    /// # Errors
    ///
    /// The NIC has no rules.
    pub fn flush(&mut self) -> Result<(), Refusal> {
        if self.personality.operations.none {
            return Err(NO_CALL);
        }
        self.rules.flush();
        Ok(())
    }

    /// What a rule with `count` counted; from zero again if `reset`.
    ///
    /// # Errors
    ///
    /// It does not count, or this NIC answers no such question.
    pub fn query(&self, handle: Handle, reset: bool, now_us: u64) -> Result<Tally, Refusal> {
        let operations = &self.personality.operations;
        if operations.none || operations.no_query {
            return Err(NO_CALL);
        }
        let facts = &self.personality.count;
        if let Some(told) = &facts.no_query {
            return Err(refusal(&self.personality, Some(told), NOT_COUNTED));
        }
        let tally = self.rules.query(handle, reset, now_us)?;
        tally.ok_or_else(|| refusal(&self.personality, None::<&Told>, NOT_COUNTED))
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

    /// When verdicts become others by themselves, because a rule comes into effect or goes.
    pub fn next_change_us(&self, now_us: u64) -> Option<u64> {
        self.rules.next_change_us(now_us)
    }

    fn verdict(&self, bytes: &[u8], now_us: u64, count: impl Fn(u32)) -> Verdict {
        let headers = Headers::of(bytes);
        let Hit { effect, counter } = self.rules.hit(bytes, &headers, now_us, count);
        let Effect { mark, flag, fate } = effect;
        let (queue, hash) = match fate {
            Fate::Queue(queue) => (queue, self.rss.hash(bytes, &headers)),
            Fate::Spread(place) => self.spread(self.rules.spread(place), bytes, &headers),
            Fate::Usual | Fate::Drop | Fate::Jump(_) => {
                let hash = self.rss.hash(bytes, &headers);
                (hash.map_or(0, |hash| self.rss.queue(hash)), hash)
            }
        };
        let drop = matches!(fate, Fate::Drop);
        let transport = headers.proto(Slot::Transport).filter(|_| !headers.is_fragment());
        let network = headers.proto(Slot::Network);
        Verdict { mark, flag, drop, queue, hash, network, transport, counter }
    }

    /// Queue and hash by a rule's own queues and types.
    fn spread(&self, spread: &Spread, bytes: &[u8], headers: &Headers) -> (u16, Option<u32>) {
        let Spread { types, queues } = spread;
        let hash = match types.0 {
            0 => self.rss.hash(bytes, headers),
            _ => self.rss.hash_of(*types, bytes, headers),
        };
        (queues[hash.unwrap_or(0) as usize % queues.len()], hash)
    }

    fn judge(&self) -> Judge<'_> {
        Judge { personality: &self.personality, queues: self.queues }
    }
}

/// As ethdev says it where a driver has no such call.
const NO_CALL: Refusal =
    Refusal::new(Errno::ENOSYS, Kind::Unspecified, c"Function not implemented");
const STOPPED: Refusal = Refusal::new(Errno::ENODEV, Kind::Unspecified, c"the port is not started");
const NOT_COUNTED: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"the rule has no action count");
