// SPDX-License-Identifier: BSD-3-Clause
//! Measures the calls of a subject, because a driver that hangs cannot be interrupted.
//!
//! A thread checks whether the current call takes too long. If so, it passes the results so far to
//! a callback, which then ends the process.

use super::Found;
use super::bench::Stopped;
use super::flow_queue::{Done, FlowQueue, NoTable};
use super::subject::{Age, Answer, Delivery, Refused, RuleId, RuleProbe, Subject, Tally};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use twin::Personality;

/// State that the watching thread reads.
#[derive(Default)]
struct State {
    call: Option<(&'static str, Instant)>,
    stage: &'static str,
    /// Stages that are over.
    asked: Vec<&'static str>,
    draft: Personality,
    is_over: bool,
}

/// The current call and the results so far, shared by caller and watching thread.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<(Mutex<State>, Condvar)>);

impl Watchdog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the results so far when a stage begins.
    pub fn know(&self, stage: &'static str, draft: &Personality) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.stage, stage);
        state.asked.extend((!before.is_empty()).then_some(before));
        state.draft = draft.clone();
    }

    /// Starts the watching thread. If a call takes longer than `patience`, the thread calls `hangs`
    /// once, with the results so far and the name of the call.
    pub fn begin(&self, patience: Duration, hangs: impl FnOnce(Found) + Send + 'static) -> Guard {
        let watch = self.clone();
        let thread = thread::spawn(move || watch.look(patience, hangs));
        Guard { watch: self.clone(), thread: Some(thread) }
    }

    fn look(&self, patience: Duration, hangs: impl FnOnce(Found)) {
        let mut state = self.state();
        while !state.is_over {
            let hanging = state.call.filter(|(_, from)| from.elapsed() > patience);
            if let Some((call, _)) = hanging {
                let (stage, asked) = (state.stage, std::mem::take(&mut state.asked));
                let draft = state.draft.clone();
                drop(state);
                hangs(Found::until(draft, asked, Stopped::Hangs { call, stage, patience }));
                return;
            }
            let wait = self.0.1.wait_timeout(state, patience / 4);
            (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ends the watching thread when dropped.
pub struct Guard {
    watch: Watchdog,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watch.state().is_over = true;
        self.watch.0.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has printed the reason.
            let _ = thread.join();
        }
    }
}

/// A subject whose calls are watched.
pub struct WatchedPort<S> {
    /// The subject that executes the calls.
    pub subject: S,
    /// Measures how long a call has lasted.
    pub watch: Watchdog,
}

impl<S> WatchedPort<S> {
    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut S) -> T) -> T {
        self.watch.state().call = Some((name, Instant::now()));
        let result = call(&mut self.subject);
        self.watch.state().call = None;
        result
    }
}

impl<S: Subject> Subject for WatchedPort<S> {
    fn queues(&self) -> u16 {
        self.subject.queues()
    }

    fn has_wire(&self) -> bool {
        self.subject.has_wire()
    }

    fn has_link(&mut self) -> bool {
        self.call("rte_eth_link_get_nowait", Subject::has_link)
    }

    fn validate(&mut self, question: &RuleProbe) -> Answer {
        self.call("rte_flow_validate", |subject| subject.validate(question))
    }

    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused> {
        self.call("rte_flow_create", |subject| subject.create(question))
    }

    fn destroy(&mut self, rule: RuleId) -> Answer {
        self.call("rte_flow_destroy", |subject| subject.destroy(rule))
    }

    fn flush(&mut self) -> Answer {
        self.call("rte_flow_flush", Subject::flush)
    }

    fn dump_lines(&mut self) -> Result<usize, Refused> {
        self.call("rte_flow_dev_dump", Subject::dump_lines)
    }

    fn lists_only_rules(&self) -> bool {
        self.subject.lists_only_rules()
    }

    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused> {
        self.call("rte_flow_query", |subject| subject.query(rule))
    }

    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused> {
        self.call("rte_flow_query", |subject| subject.query_age(rule))
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, Refused> {
        self.call("rte_flow_get_aged_flows", Subject::aged)
    }

    fn isolate(&mut self, isolate: bool) -> Answer {
        self.call("rte_flow_isolate", |subject| subject.isolate(isolate))
    }

    fn knows_dead_rules(&self) -> bool {
        self.subject.knows_dead_rules()
    }

    fn set_started(&mut self, is_started: bool) -> bool {
        let name = if is_started { "rte_eth_dev_start" } else { "rte_eth_dev_stop" };
        self.call(name, |subject| subject.set_started(is_started))
    }

    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        self.call("rte_eth_tx_burst and rte_eth_rx_burst", |subject| subject.deliver(frame))
    }

    fn now_us(&self) -> u64 {
        self.subject.now_us()
    }

    fn wait_us(&mut self, us: u64) {
        self.subject.wait_us(us);
    }
}

impl<S: FlowQueue> FlowQueue for WatchedPort<S> {
    fn most_operations(&mut self) -> Result<u32, Refused> {
        self.call("rte_flow_info_get", FlowQueue::most_operations)
    }

    fn configure(&mut self, operations: u32) -> Answer {
        self.call("rte_flow_configure", |subject| subject.configure(operations))
    }

    fn make_table(&mut self, like: &RuleProbe, room: u32) -> Result<(), NoTable> {
        self.call("rte_flow_template_table_create", |subject| subject.make_table(like, room))
    }

    fn destroy_table(&mut self) -> Answer {
        self.call("rte_flow_template_table_destroy", FlowQueue::destroy_table)
    }

    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer {
        self.call("rte_flow_async_create", |subject| subject.enqueue_create(question, number))
    }

    fn enqueue_destroy(&mut self, number: u64) -> Answer {
        self.call("rte_flow_async_destroy", |subject| subject.enqueue_destroy(number))
    }

    fn push(&mut self) -> Answer {
        self.call("rte_flow_push", FlowQueue::push)
    }

    fn pull(&mut self) -> Result<Vec<Done>, Refused> {
        self.call("rte_flow_pull", FlowQueue::pull)
    }
}
