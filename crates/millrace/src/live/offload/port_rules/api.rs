// SPDX-License-Identifier: BSD-3-Clause
//! Implements the two ways to create rules of a DPDK port. Calls wait for the NIC. A flow queue
//! takes operations on template tables, and their results come later.

use crate::live::offload::rule_dialect::RuleDialect;
use config::RuleApi;
use dpdk::Port;
use dpdk::flow::{FlowError, FlowRule, Rule};
use engine::BypassCount;
use offload::RuleNumber;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Depth of the flow queue that is requested from a port, in operations.
pub(crate) const DEPTH: u32 = 256;
/// Longest wait for the result of a rule that is tried at start, or after a reset.
const PATIENCE: Duration = Duration::from_secs(1);

/// An operation that has ended.
pub(crate) struct Completed {
    pub(crate) rule: RuleNumber,
    /// Time since the operation was requested.
    pub(crate) took: Duration,
    pub(crate) result: Result<(), DriverError>,
}

/// An error of a driver.
pub(crate) struct DriverError {
    /// 0 if the driver gives none.
    pub(crate) errno: i32,
    pub(crate) words: String,
}

impl DriverError {
    fn of(error: &FlowError, rule: Option<&Rule>) -> Self {
        Self { errno: error.errno, words: error.of(rule) }
    }

    /// Returns the error of a flow queue's result, which has no reason.
    fn without_reason() -> Self {
        Self { errno: 0, words: "failed; the NIC states no reason".to_owned() }
    }
}

/// Creates a rule, reads its counter and destroys it again. Returns how long the last step took.
pub(crate) fn try_counting_rule(port: &mut Port, rule: &Rule) -> Result<Duration, String> {
    let made = port.flow_create(rule).map_err(|error| error.of(Some(rule)))?;
    let count = port.flow_query_count(&made, false);
    let begin = Instant::now();
    // A rule that stays matches documentation addresses only, and ends with the port.
    let _ = port.flow_destroy(made);
    let took = begin.elapsed();
    let count = count.map_err(|error| format!("cannot read its counter: {}", error.of(None)))?;
    match (count.hits, count.bytes) {
        (Some(_), Some(_)) => Ok(took),
        _ => Err("its counter does not count both packets and bytes".to_owned()),
    }
}

/// How rules are created.
pub(crate) enum Api {
    Sync(Calls),
    Async(Queue),
}

/// Rules that were created by calls.
#[derive(Default)]
pub(crate) struct Calls {
    rules: HashMap<RuleNumber, FlowRule>,
    ended: Vec<Completed>,
}

/// A flow queue and its operations.
pub(crate) struct Queue {
    depth: usize,
    /// Time of request of each operation that has no result yet.
    requested: HashMap<RuleNumber, Instant>,
    /// Operations that have ended and were not returned yet.
    ended: Vec<Completed>,
}

impl Api {
    /// Returns the flow queue, if the port has one that takes rules of this dialect. Otherwise
    /// returns calls, and the reason.
    pub(crate) fn best(
        port: &mut Port,
        dialect: &RuleDialect,
        (api, rules_max): (RuleApi, u32),
    ) -> (Self, Option<String>) {
        let queue = match api {
            RuleApi::Auto => Queue::set_up(port, dialect, rules_max),
            RuleApi::Sync => Err("`api` is \"sync\"".to_owned()),
        };
        match queue {
            Ok(queue) => (Self::Async(queue), None),
            Err(reason) => (Self::Sync(Calls::default()), Some(reason)),
        }
    }

    /// Returns the name, as in the summary.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sync(_) => "sync",
            Self::Async(_) => "async",
        }
    }

    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Sync(_) => 1,
            Self::Async(queue) => queue.depth,
        }
    }

    pub(crate) fn create(&mut self, port: &mut Port, number: RuleNumber, rule: &Rule) {
        match self {
            Self::Sync(calls) => calls.create(port, number, rule),
            Self::Async(queue) => {
                let result = port.flow_enqueue_create(rule, number);
                queue.add_request(
                    number,
                    result.map_err(|error| DriverError::of(&error, Some(rule))),
                );
            }
        }
    }

    pub(crate) fn destroy(&mut self, port: &mut Port, number: RuleNumber) {
        match self {
            Self::Sync(calls) => calls.destroy(port, number),
            Self::Async(queue) => {
                let result = port.flow_enqueue_destroy(number);
                queue.add_request(number, result.map_err(|error| DriverError::of(&error, None)));
            }
        }
    }

    /// Returns operations that have ended. An error says why others have no result.
    pub(crate) fn poll(&mut self, port: &mut Port) -> (Vec<Completed>, Result<(), String>) {
        match self {
            Self::Sync(calls) => (calls.take_ended(), Ok(())),
            Self::Async(queue) => {
                let polled = queue.poll(port);
                (std::mem::take(&mut queue.ended), polled.map_err(|error| error.of(None)))
            }
        }
    }
}

impl Calls {
    pub(crate) fn create(&mut self, port: &mut Port, number: RuleNumber, rule: &Rule) {
        let begin = Instant::now();
        let created = port.flow_create(rule);
        let took = begin.elapsed();
        let result = created.map(|created| _ = self.rules.insert(number, created));
        let result = result.map_err(|error| DriverError::of(&error, Some(rule)));
        self.ended.push(Completed { rule: number, took, result });
    }

    /// Returns the counter of a rule; `None` if it cannot be read, or does not count both packets
    /// and bytes.
    pub(crate) fn count(&self, port: &Port, number: RuleNumber) -> Option<BypassCount> {
        let count = port.flow_query_count(self.rules.get(&number)?, false).ok()?;
        Some(BypassCount { packets: count.hits?, bytes: count.bytes? })
    }

    /// Returns operations that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Completed> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn destroy(&mut self, port: &mut Port, number: RuleNumber) {
        let rule = self.rules.remove(&number).expect("a rule that was made");
        let begin = Instant::now();
        let destroyed = port.flow_destroy(rule);
        let took = begin.elapsed();
        let result = destroyed.map_err(|(_, error)| DriverError::of(&error, None));
        self.ended.push(Completed { rule: number, took, result });
    }
}

impl Queue {
    /// Makes a template table for each kind of packet, and tries a rule of each.
    ///
    /// # Errors
    ///
    /// The driver's words, if it has no flow queue or refuses a step.
    fn set_up(port: &mut Port, dialect: &RuleDialect, rules_max: u32) -> Result<Self, String> {
        let depth = port.flow_queue().map_err(|error| error.of(None))? as usize;
        let mut queue = Self { depth, requested: HashMap::new(), ended: Vec::new() };
        let tried = queue.make_tables(port, dialect, rules_max);
        // A rule that could not be destroyed ends with the port.
        tried.inspect_err(|_| _ = port.flow_tables_destroy())?;
        Ok(queue)
    }

    fn make_tables(
        &mut self,
        port: &mut Port,
        dialect: &RuleDialect,
        rules_max: u32,
    ) -> Result<(), String> {
        for rule in dialect.examples() {
            port.flow_table_make(&rule, rules_max)
                .map_err(|(step, error)| format!("{step}: {}", error.of(Some(&rule))))?;
            // The programmer starts with the lowest number too; this rule is gone by then.
            self.add_request(
                0,
                port.flow_enqueue_create(&rule, 0).map_err(|e| DriverError::of(&e, Some(&rule))),
            );
            self.wait(port)
                .map_err(|words| format!("cannot create a rule by templates: {words}"))?;
            self.add_request(
                0,
                port.flow_enqueue_destroy(0).map_err(|error| DriverError::of(&error, None)),
            );
            self.wait(port)
                .map_err(|words| format!("cannot remove a rule by templates: {words}"))?;
        }
        Ok(())
    }

    /// Waits for the result of the only pending operation.
    fn wait(&mut self, port: &mut Port) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            self.poll(port).map_err(|error| error.of(None))?;
            if let Some(completed) = self.ended.pop() {
                return completed.result.map_err(|error| error.words);
            }
            if begin.elapsed() > PATIENCE {
                return Err("no result within the time limit".to_owned());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn add_request(&mut self, rule: RuleNumber, result: Result<(), DriverError>) {
        match result {
            Ok(()) => _ = self.requested.insert(rule, Instant::now()),
            Err(error) => {
                let (took, result) = (Duration::ZERO, Err(error));
                self.ended.push(Completed { rule, took, result });
            }
        }
    }

    fn poll(&mut self, port: &mut Port) -> Result<(), FlowError> {
        if self.requested.is_empty() {
            return Ok(());
        }
        port.flow_push()?;
        loop {
            let done = port.flow_pull()?;
            if done.is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            for done in done {
                let Some(requested) = self.requested.remove(&done.number) else { continue };
                let result = if done.is_good { Ok(()) } else { Err(DriverError::without_reason()) };
                let took = now.duration_since(requested);
                self.ended.push(Completed { rule: done.number, took, result });
            }
        }
    }
}
