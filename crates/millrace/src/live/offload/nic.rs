// SPDX-License-Identifier: BSD-3-Clause
//! A DPDK port as the one who takes rules, and how long it takes for each.
//!
//! The port is shared with the control thread, which reads its counters and its link about once a
//! second; neither is on the packet path.

use super::shape::{Dialect, KINDS, kind};
use crate::summary::Times;
use dpdk::flow::{FlowError, FlowRule};
use dpdk::{Port, Resets};
use engine::Tuple;
use hdrhistogram::Histogram;
use offload::{Refusal, RefusalClass, RulePort};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A port of several users.
#[derive(Clone, Debug)]
pub(crate) struct SharedPort(Arc<Mutex<Port>>);

impl SharedPort {
    pub(crate) fn new(port: Port) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    /// Waits for whoever has it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Port> {
        // A panic ends the process.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule that the NIC took, and its kind.
pub(super) struct Made {
    rule: FlowRule,
    kind: usize,
}

/// Takes rules of the shapes that its NIC takes.
pub(super) struct Nic {
    port: SharedPort,
    pub(super) resets: Resets,
    /// Those that it knows of.
    resets_known: u64,
    pub(super) dialect: Dialect,
    /// Rules that the NIC has, by kind.
    rules: [u32; KINDS],
    rules_max: u32,
    /// Rules that were not asked for, since the NIC takes none of their kind.
    pub(super) unsupported: u64,
    /// What the NIC said last when it refused a rule.
    pub(super) last_refusal: Option<String>,
    pub(super) inserts: Stopwatch,
    pub(super) deletes: Stopwatch,
}

impl Nic {
    pub(super) fn new(port: SharedPort, dialect: Dialect, rules_max: u32) -> Self {
        let resets = port.lock().resets();
        Self {
            port,
            resets_known: resets.begun(),
            resets,
            dialect,
            rules: [0; KINDS],
            rules_max,
            unsupported: 0,
            last_refusal: None,
            inserts: Stopwatch::new(),
            deletes: Stopwatch::new(),
        }
    }

    /// Whether the port was reset, or tried to be, since this was asked last: it has no rules then.
    pub(super) fn was_reset(&mut self) -> bool {
        let known = std::mem::replace(&mut self.resets_known, self.resets.begun());
        let was_reset = known != self.resets_known;
        if was_reset {
            self.rules = [0; KINDS];
        }
        was_reset
    }

    /// The port, unless it has lost rules that it is believed to have, or is not there to be asked.
    fn port(&self) -> Option<MutexGuard<'_, Port>> {
        let port = self.port.lock();
        let is_known = self.resets.begun() == self.resets_known && !self.resets.is_down();
        is_known.then_some(port)
    }

    /// Ends all rules at once. Whoever made them does not hear of it.
    pub(super) fn flush(&mut self) {
        if let Some(mut port) = self.port() {
            // What stays then, the end of the port takes along.
            let _ = port.flow_flush();
        }
    }
}

impl RulePort for Nic {
    type Rule = Made;

    fn create(&mut self, tuple: &Tuple, mark: u32, queue: u16) -> Result<Made, Refusal> {
        let Some(shape) = self.dialect.shape(tuple) else {
            self.unsupported += 1;
            let words = "the NIC takes no rule for such packets".to_owned();
            return Err(Refusal { class: RefusalClass::Unsuitable, words });
        };
        if self.rules.iter().sum::<u32>() >= self.rules_max {
            let words = "there are as many rules as `rules_max` says".to_owned();
            return Err(Refusal { class: RefusalClass::Full, words });
        }
        let rule = shape.rule(tuple, mark, queue);
        let Some(mut port) = self.port() else {
            let words = "the port is being reset".to_owned();
            return Err(Refusal { class: RefusalClass::Trouble, words });
        };
        let begin = Instant::now();
        let made = port.flow_create(&rule);
        let took = begin.elapsed();
        drop(port);
        match made {
            Ok(rule) => {
                self.inserts.add(took);
                let kind = kind(tuple);
                self.rules[kind] += 1;
                Ok(Made { rule, kind })
            }
            Err(error) => {
                let words = error.of(Some(&rule));
                self.last_refusal = Some(words.clone());
                Err(Refusal { class: self.class(&error, kind(tuple)), words })
            }
        }
    }

    fn destroy(&mut self, Made { rule, kind }: Made) -> Result<(), Refusal> {
        // It went with the reset.
        let Some(mut port) = self.port() else { return Ok(()) };
        let begin = Instant::now();
        let gone = port.flow_destroy(rule);
        let took = begin.elapsed();
        drop(port);
        match gone {
            Ok(()) => {
                self.deletes.add(took);
                self.rules[kind] -= 1;
                Ok(())
            }
            // It has its place in the NIC still.
            Err((_, error)) => Err(refusal(&error)),
        }
    }
}

impl Nic {
    /// What to make of a refusal. Where the driver says no more than that something is wrong, as
    /// Intel's do, and the NIC has rules of the same kind, it has no room for one more; if it has
    /// none, it takes none beside those of other kinds.
    fn class(&self, error: &FlowError, kind: usize) -> RefusalClass {
        match RefusalClass::of_errno(error.errno) {
            RefusalClass::Unsuitable if self.rules[kind] > 0 && error.errno != EEXIST => {
                RefusalClass::Full
            }
            class => class,
        }
    }
}

/// There is another rule for such packets.
const EEXIST: i32 = 17;

fn refusal(error: &FlowError) -> Refusal {
    Refusal { class: RefusalClass::of_errno(error.errno), words: error.of(None) }
}

/// How long calls took that went well.
pub(super) struct Stopwatch {
    all: Histogram<u64>,
    time: Duration,
}

/// A call that takes longer counts as one that took so long.
const LONGEST_NS: u64 = 60_000_000_000;

impl Stopwatch {
    fn new() -> Self {
        // Two digits: it is the span from microseconds to milliseconds that matters.
        let all = Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("bounds and digits in range");
        Self { all, time: Duration::ZERO }
    }

    fn add(&mut self, took: Duration) {
        self.all.saturating_record((took.as_nanos() as u64).max(1));
        self.time += took;
    }

    /// How many there were, and how long they took together.
    pub(super) fn sum(&self) -> (u64, Duration) {
        (self.all.len(), self.time)
    }

    pub(super) fn times(&self) -> Times {
        // As many digits as there are nanoseconds.
        let us = |ns: u64| ns as f64 / 1e3;
        let all = &self.all;
        if all.is_empty() {
            return Times::default();
        }
        Times {
            min: us(all.min()),
            avg: us(all.mean() as u64),
            max: us(all.max()),
            p50: us(all.value_at_quantile(0.5)),
            p99: us(all.value_at_quantile(0.99)),
        }
    }
}
