// SPDX-License-Identifier: BSD-3-Clause
//! Runs the thread that programs one port: takes rule requests of the workers, calls the driver,
//! and returns results.
//!
//! A driver call may take any time. Only the end of the run waits for this thread: for [`END_MAX`],
//! and for the driver call in progress.

use crate::live::clock::Clock;
use crate::live::offload::bypass::WithoutBypass;
use crate::live::offload::lists::{ListClient, PortLists};
use crate::live::offload::port_rules::PortRules;
use dpdk::tsc;
use engine::{Nanos, RuleId, RuleRequest, RuleResult};
use offload::{LeakedRule, Next, Programmer};
use report::summary::{NicDenied, OffloadPort, Refused, RuleCounts};
use rtrb::{Consumer, Producer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The port's ends of the two rings between it and one worker.
pub(crate) type PortEnd = (Consumer<RuleRequest>, Producer<(RuleId, RuleResult)>);

/// Rule requests taken from each worker between two calls.
const REQUESTS: usize = 64;
/// First and longest sleep while there is nothing to do. With a longest sleep of 1 ms, the idle
/// thread would take 0.7 % of a cpu.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(4);
/// At the end rules are destroyed one by one for this time, then all at once.
const END_MAX: Duration = Duration::from_secs(10);
/// Rules that are destroyed between two checks of the time.
const CLEARED: usize = 64;

/// Everything that the programming thread works with.
pub(crate) struct Programming {
    pub(crate) name: String,
    pub(crate) without_bypass: WithoutBypass,
    pub(crate) programmer: Programmer<PortRules>,
    /// The rings of each worker.
    pub(crate) rings: Vec<PortEnd>,
    /// The next result to push, if its ring was full.
    pub(crate) held: Option<(u16, RuleId, RuleResult)>,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<StatusCell>,
    /// Channel of the queries for the rules' figures.
    pub(crate) queries: (StatusClient, Receiver<SyncSender<OffloadPort>>),
    /// Rules of access lists, and the way to ask about them; `None` without lists.
    pub(crate) lists: Option<(ListClient, PortLists)>,
}

/// Sends the thread a query for the rules' figures.
pub(crate) type StatusClient = Sender<SyncSender<OffloadPort>>;

/// Flags and counters that the thread shares with others.
#[derive(Debug, Default)]
pub(crate) struct StatusCell {
    stop: AtomicBool,
    rules: AtomicU64,
    /// Rules installed so far.
    inserts: AtomicU64,
    /// Nanoseconds to install them.
    insert_ns: AtomicU64,
}

/// A running programming thread.
pub(crate) struct Running {
    name: String,
    without_bypass: WithoutBypass,
    thread: JoinHandle<OffloadPort>,
    status: Arc<StatusCell>,
    status_client: StatusClient,
    list_client: Option<ListClient>,
}

impl Programming {
    /// Starts the programming thread of DPDK port number `port`.
    pub(crate) fn start(self, port: u16) -> io::Result<Running> {
        let (name, status) = (self.name.clone(), Arc::clone(&self.status));
        let without_bypass = self.without_bypass.clone();
        let status_client = self.queries.0.clone();
        let list_client = self.lists.as_ref().map(|(client, _)| client.clone());
        let thread = std::thread::Builder::new().name(format!("rules of {port}"));
        let thread = thread.spawn(|| self.run())?;
        Ok(Running { name, without_bypass, thread, status, status_client, list_client })
    }

    fn run(mut self) -> OffloadPort {
        let clock = self.clock;
        let mut now = move || clock.at(tsc());
        let mut nap = NAP_MIN;
        while !self.status.stop.load(Ordering::Relaxed) {
            self.notice_reset(&mut now);
            let taken = self.take_requests();
            let next = self.programmer.step(&mut now);
            let next_of_lists = match &mut self.lists {
                Some((_, lists)) => lists.step(self.programmer.port(), &mut now),
                None => None,
            };
            self.push_results();
            while let Ok(client) = self.queries.1.try_recv() {
                // Fails only if the client has given up waiting.
                let _ = client.try_send(self.report(self.programmer.len() as u64));
            }
            self.publish();
            let until = match next {
                Next::Now => Duration::ZERO,
                Next::At(at) => Duration::from_nanos(at.saturating_sub(now())),
                Next::Idle => NAP_MAX,
            };
            let until = match next_of_lists {
                Some(at) => until.min(Duration::from_nanos(at.saturating_sub(now()))),
                None => until,
            };
            nap = if taken > 0 || next == Next::Now { NAP_MIN } else { (2 * nap).min(NAP_MAX) };
            if !until.is_zero() {
                std::thread::sleep(until.min(nap));
            }
        }
        self.end()
    }

    /// Marks all rules as lost if the port was reset; the programmer then installs them again.
    fn notice_reset(&mut self, now: &mut impl FnMut() -> Nanos) {
        if self.programmer.port().was_reset() {
            self.programmer.forget_all_rules(now());
            if let Some((_, lists)) = &mut self.lists {
                lists.forget_all();
            }
        }
    }

    fn publish(&mut self) {
        self.status.rules.store(self.programmer.len() as u64, Ordering::Relaxed);
        let (inserts, time) = self.programmer.port().inserts.sum();
        self.status.inserts.store(inserts, Ordering::Relaxed);
        self.status.insert_ns.store(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Takes rule requests while the programmer has room; the others stay in their rings. Returns
    /// how many it took.
    fn take_requests(&mut self) -> usize {
        let mut taken = 0;
        for (worker, (requests, _)) in self.rings.iter_mut().enumerate() {
            let worker = worker as u16;
            let mut left = REQUESTS;
            while left > 0 && self.programmer.has_room(worker) {
                let Ok(request) = requests.pop() else { break };
                self.programmer.submit(worker, request);
                left -= 1;
            }
            taken += REQUESTS - left;
        }
        taken
    }

    /// Pushes results to the workers, in order, up to one whose ring is full.
    fn push_results(&mut self) {
        while let Some(answer) = self.held.take().or_else(|| self.programmer.next_answer()) {
            let (worker, rule, result) = answer;
            let (_, answers) = &mut self.rings[usize::from(worker)];
            if answers.push((rule, result)).is_err() {
                self.held = Some(answer);
                return;
            }
        }
    }

    /// Removes all rules from the NIC; returns the final figures.
    fn end(mut self) -> OffloadPort {
        let installed = self.programmer.len() as u64;
        let clock = self.clock;
        let begin = Instant::now();
        let nic = self.programmer.port();
        // No port is reset any more. If this one needs a reset, its rules count as lost.
        if nic.was_reset() || nic.resets.is_needed() {
            self.programmer.forget_all_rules(clock.at(tsc()));
        }
        let mut left = usize::MAX;
        loop {
            let left_now = self.programmer.clear(CLEARED, &mut || clock.at(tsc()));
            self.status.rules.store(self.programmer.len() as u64, Ordering::Relaxed);
            if left_now == 0 {
                break;
            }
            if left_now == left {
                // No progress: wait briefly for results.
                std::thread::sleep(NAP_MIN);
            }
            left = left_now;
            if begin.elapsed() > END_MAX {
                self.programmer.port().flush();
                break;
            }
        }
        if let Some((_, lists)) = &mut self.lists {
            let nic = self.programmer.port();
            if !lists.clear(nic, clock.at(tsc()), || begin.elapsed() < END_MAX) {
                nic.flush();
            }
        }
        self.programmer.port().close();
        self.report(installed)
    }

    fn report(&mut self, installed: u64) -> OffloadPort {
        let counts = self.programmer.counts();
        let flushed = self.programmer.len() as u64;
        let leaked = self.programmer.leaked().iter();
        let leaked = leaked.map(|LeakedRule { rule, refusal, .. }| {
            format!("connection {} direction {}: {}", rule.index, rule.direction, refusal.words)
        });
        let leaked = leaked.collect();
        let lists = self.lists.as_ref().map(|(_, lists)| lists.denied());
        let (denied, uncounted) = lists.unwrap_or_default();
        let nic = self.programmer.port();
        let without_bypass = nic.support.bypass.without.clone();
        let on_or_off = |reason: &Option<String>| if reason.is_none() { "on" } else { "off" };
        OffloadPort {
            name: self.name.clone(),
            state: "on",
            reason: None,
            api: Some(nic.support.api()),
            api_reason: nic.support.why_sync.clone(),
            shapes: nic.support.shapes(),
            bypass: on_or_off(&without_bypass.udp),
            bypass_reason: without_bypass.udp,
            bypass_tcp: on_or_off(&without_bypass.tcp),
            bypass_tcp_reason: without_bypass.tcp,
            mark_bits: Some(nic.support.dialect.mark_bits),
            rules: RuleCounts {
                installed,
                created: counts.created,
                destroyed: counts.destroyed,
                flushed,
                lost: counts.lost,
                uncounted: counts.uncounted,
                refused: Refused {
                    full: counts.full,
                    trouble: counts.port_errors,
                    unsuitable: counts.unsuitable - nic.unsupported,
                    unsupported: nic.unsupported,
                    last: nic.last_refusal.clone(),
                },
                resting: counts.resting,
                withdrawn: counts.withdrawn,
                stuck: leaked,
            },
            insert_us: nic.inserts.times(),
            delete_us: nic.deletes.times(),
            nic_denied: NicDenied { packets: denied.packets, bytes: denied.bytes, uncounted },
            ..OffloadPort::default()
        }
    }
}

impl Running {
    /// Returns the name of the port.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns why the port has no bypass.
    pub(crate) fn without_bypass(&self) -> &WithoutBypass {
        &self.without_bypass
    }

    pub(crate) fn status_client(&self) -> StatusClient {
        self.status_client.clone()
    }

    pub(crate) fn list_client(&self) -> Option<ListClient> {
        self.list_client.clone()
    }

    /// Returns the number of rules that the NIC has.
    pub(crate) fn rules(&self) -> u64 {
        self.status.rules.load(Ordering::Relaxed)
    }

    /// Returns the number of rules installed so far, and the total time that took.
    pub(crate) fn inserted(&self) -> (u64, Duration) {
        let time = Duration::from_nanos(self.status.insert_ns.load(Ordering::Relaxed));
        (self.status.inserts.load(Ordering::Relaxed), time)
    }

    /// Tells the thread that the workers have ended: it removes all rules and ends.
    pub(crate) fn stop(&self) {
        self.status.stop.store(true, Ordering::Relaxed);
    }

    /// True once the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread to end; returns the final figures.
    pub(crate) fn join(self) -> OffloadPort {
        self.thread.join().expect("a panic ends the process")
    }
}
