// SPDX-License-Identifier: BSD-3-Clause
//! Examines rules by templates and a flow queue: whether the NIC has them, whether all results
//! come, and their speed.

use super::bench::{Bench, Stopped};
use super::capacity::unique;
use super::chains::AcceptedChain;
use super::flow_queue::Done;
use super::latency::Times;
use super::pattern::Pattern;
use super::subject::{Answer, Refused};
use std::collections::HashMap;

/// Number of rules to create.
const RULES: u32 = 256;
/// Maximum number of pending operations.
const DEPTH: u32 = 64;
/// Longest time to create them, in microseconds; after it, no more are created.
const BUDGET_US: u64 = 1_000_000;
/// Longest wait for a result; a later one counts as missing.
const PATIENCE_US: u64 = 1_000_000;

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Batch {
    /// Operations that were queued, and results that arrived.
    pub(crate) asked: u64,
    pub(crate) results: u64,
    /// Operations that failed.
    pub(crate) failed: u64,
    /// The first call that was refused, and how.
    pub(crate) refused: Option<String>,
    /// Results per second, until the last.
    pub(crate) per_second: u64,
    /// Times of the calls that queue operations.
    pub(crate) enqueue: Times,
    /// Times from queueing an operation to its result.
    pub(crate) result: Times,
}

impl Batch {
    /// Returns the value of a call; if it was refused, remembers the refusal.
    fn accepts<T>(&mut self, call: &str, answer: Result<T, Refused>) -> Option<T> {
        if let Err(refused) = &answer {
            self.refused.get_or_insert(format!("{call}: {refused}"));
        }
        answer.ok()
    }
}

/// Results of rules by a flow queue.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct ByQueue {
    /// Operations that a queue may hold.
    pub(crate) most_operations: u32,
    /// Maximum number of pending operations.
    pub(crate) depth: u32,
    /// The call that was refused, and how.
    pub(crate) refused: Option<String>,
    pub(crate) create: Batch,
    pub(crate) destroy: Batch,
}

/// Finds whether the NIC has templates and queues, and writes it into the draft.
pub(super) fn look(bench: &mut Bench<'_>) -> Result<Option<ByQueue>, Stopped> {
    bench.stage("flow queues")?;
    let most = bench.subject.most_operations();
    bench.draft.operations.r#async = most.is_ok();
    Ok(most.ok().map(|most_operations| ByQueue {
        most_operations,
        depth: DEPTH.min(most_operations.max(1)),
        ..ByQueue::default()
    }))
}

/// Creates and destroys rules through a queue. Stops the port to set it up.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    by_queue: &mut ByQueue,
) -> Result<(), Stopped> {
    bench.stage("rules by a flow queue")?;
    let Some((pattern, at, field)) = unique(bench, taken) else {
        bench.note(
            "templates were not tested: no list of headers has an address to tell rules apart",
        );
        return Ok(());
    };
    if !bench.subject.set_started(false) {
        bench.note("the port does not stop: no flow queue was set up");
        return Ok(());
    }
    let configured = bench.subject.configure(by_queue.depth);
    bench.start()?;
    if let Err(refused) = configured {
        by_queue.refused = Some(format!("configure: {refused}"));
        bench.draft.operations.r#async = false;
        return Ok(());
    }
    let like = bench.about(&pattern);
    if let Err(no_table) = bench.subject.make_table(&like, RULES) {
        by_queue.refused = Some(format!("{}: {}", no_table.step, no_table.refused));
        return Ok(());
    }
    let numbered = |number| pattern.clone().valued(at, field, number);
    let there = make(bench, by_queue, numbered);
    // The rules are destroyed, whatever the result.
    destroy(bench, by_queue, &there);
    destroy_table(bench)?;
    bench.go_on()
}

/// Creates rules; returns the numbers of those that succeeded.
fn make(
    bench: &mut Bench<'_>,
    by_queue: &mut ByQueue,
    numbered: impl Fn(u64) -> Pattern,
) -> Vec<u64> {
    let numbers: Vec<_> = (0..u64::from(RULES)).collect();
    let mut enqueue = |bench: &mut Bench<'_>, number| {
        bench.calls.create += 1;
        let question = bench.about(&numbered(number));
        bench.subject.enqueue_create(&question, number)
    };
    let way = Way { depth: by_queue.depth, budget_us: BUDGET_US };
    let mut there = Vec::new();
    let batch = way.run(bench, &numbers, &mut enqueue, &mut there);
    bench.calls.made += there.len() as u64;
    if batch.results < batch.asked {
        bench.finding(format!(
            "of {} rules requested through a flow queue, {} had no result",
            batch.asked,
            batch.asked - batch.results
        ));
    }
    if batch.failed > 0 {
        bench.note(format!("{} rules were queued, and refused by their results", batch.failed));
    }
    by_queue.create = batch;
    there
}

/// Destroys the table. If it is refused, the table has rules whose results are missing; then
/// flushes the rules first.
fn destroy_table(bench: &mut Bench<'_>) -> Result<(), Stopped> {
    let Err(refused) = bench.subject.destroy_table() else { return Ok(()) };
    bench.finding(format!("the template table is not destroyed: {refused}"));
    bench.flush();
    bench.subject.destroy_table().map_err(Stopped::RuleStays)
}

fn destroy(bench: &mut Bench<'_>, by_queue: &mut ByQueue, there: &[u64]) {
    let mut gone = Vec::new();
    let mut enqueue = |bench: &mut Bench<'_>, number| bench.subject.enqueue_destroy(number);
    // Without a time limit, so that all are destroyed.
    let way = Way { depth: by_queue.depth, budget_us: u64::MAX };
    let batch = way.run(bench, there, &mut enqueue, &mut gone);
    bench.calls.destroyed += gone.len() as u64;
    let left = there.len() - gone.len();
    if left > 0 {
        bench.finding(format!("{left} rules were not destroyed by the flow queue"));
    }
    by_queue.destroy = batch;
}

/// Limits for operations through the queue.
struct Way {
    /// Maximum number of pending operations.
    depth: u32,
    /// No operation is queued after this time.
    budget_us: u64,
}

/// Times of operations, in microseconds.
#[derive(Default)]
struct Clock {
    asked: HashMap<u64, u64>,
    enqueue_us: Vec<u64>,
    result_us: Vec<u64>,
}

impl Way {
    /// Runs an operation for each of `numbers`; adds the numbers of those that succeeded to `good`.
    fn run(
        &self,
        bench: &mut Bench<'_>,
        numbers: &[u64],
        enqueue: &mut dyn FnMut(&mut Bench<'_>, u64) -> Answer,
        good: &mut Vec<u64>,
    ) -> Batch {
        let (mut batch, mut clock) = (Batch::default(), Clock::default());
        let from = bench.subject.now_us();
        let mut progress_us = from;
        loop {
            while batch.asked - batch.results < u64::from(self.depth) && batch.refused.is_none() {
                let now = bench.subject.now_us();
                let number = numbers.get(batch.asked as usize);
                let Some(&number) = number.filter(|_| now - from < self.budget_us) else { break };
                let enqueued = enqueue(bench, number);
                if batch.accepts("an operation", enqueued).is_some() {
                    batch.asked += 1;
                    clock.asked.insert(number, now);
                    clock.enqueue_us.push(bench.subject.now_us() - now);
                }
            }
            if batch.results == batch.asked {
                break;
            }
            let pushed = bench.subject.push();
            if batch.accepts("push", pushed).is_none() {
                break;
            }
            let earlier = batch.results;
            Self::pull(bench, &mut batch, &mut clock, good);
            bench.step(batch.results, numbers.len() as u64);
            let now = bench.subject.now_us();
            progress_us = if batch.results > earlier { now } else { progress_us };
            if now - progress_us > PATIENCE_US {
                break;
            }
        }
        // The rate does not include the wait for missing results.
        batch.per_second = batch.results * 1_000_000 / (progress_us - from).max(1);
        (batch.enqueue, batch.result) = (Times::of(&clock.enqueue_us), Times::of(&clock.result_us));
        batch
    }

    fn pull(bench: &mut Bench<'_>, batch: &mut Batch, clock: &mut Clock, good: &mut Vec<u64>) {
        let done = bench.subject.pull();
        let done = batch.accepts("pull", done).unwrap_or_default();
        let now = bench.subject.now_us();
        for Done { number, is_good } in done {
            // Results without a pending operation are ignored.
            let Some(asked) = clock.asked.remove(&number) else { continue };
            clock.result_us.push(now - asked);
            batch.results += 1;
            batch.failed += u64::from(!is_good);
            good.extend(is_good.then_some(number));
        }
    }
}
