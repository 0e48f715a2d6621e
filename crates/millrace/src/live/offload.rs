// SPDX-License-Identifier: BSD-3-Clause
//! Owns the NIC rules of a running instance: a programming thread for each port that takes rules,
//! and its rings to the workers.
//!
//! Rule requests and results pass through rings. A worker handles a few of them between bursts and
//! never waits: if a ring is full, its connections stay in software.

mod bypass;
mod list_support;
mod lists;
mod port_rules;
mod rule_dialect;
mod thread;

use crate::live::clock::Clock;
use crate::live::offload::bypass::{ByProtocol, Bypass, WithoutBypass};
use crate::live::offload::port_rules::{DEPTH, PortRules, RuleSpec, RuleSupport};
use crate::live::ports::shared::SharedPort;
use config::plan::OffloadPlan;
use config::{MarkPolicy, Policy, RuleApi};
use dpdk::Port;
use engine::{
    AccessLists, BypassAfter, BypassConfig, Engine, ListMarkConfig, MarkLayout, Nanos,
    OffloadConfig, OffloadPolicy, RuleHits, RuleId, RuleRequest, RuleResult, Side, Timeouts,
    Tracking,
};
use list_support::ListQueues;
use lists::{ListAbility, ListClient, PortLists};
pub(crate) use lists::{ListReport, ListRequest};
use offload::{CallPacer, DropsLeft, Limits, Programmer};
use report::summary::OffloadPort;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant};
use thread::{PortEnd, Programming, Running, StatusCell, StatusClient};

/// A worker's ends of the two rings between it and one port.
type WorkerEnd = (Producer<RuleRequest>, Consumer<(RuleId, RuleResult)>);

/// Capacity of each ring between a worker and a port: requests in one, results in the other.
const RING: usize = 1024;
/// New rules of one worker that may wait for one port.
const WAITING: usize = 1024;
/// Rule requests, and results, that a worker handles in one round of rules.
const EXCHANGED: usize = 16;
/// Driver calls take at most half of the time: some NICs do not forward during a call.
const CALL_SHARE: u32 = 128;

/// Counters of bypass rules are read this many times in the shortest timeout of their connections,
/// and at least every [`READING_MAX`].
const READINGS: u64 = 8;
const READING_MAX: Nanos = 1_000_000_000;
/// At the end of a run, the longest wait for the last counters of bypass rules.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// With policy `measured`, packets that a direction must have had before it gets a rule, even at a
/// high rate. Most connections have fewer. Installing and removing a rule costs a worker as much as
/// some tens of marks save.
const PACKETS_MIN: u32 = 32;

/// Returns the engine's policy of which directions get rules; `None` if rules are off.
fn admission(policy: Policy) -> Option<OffloadPolicy> {
    match policy {
        Policy::Off => None,
        Policy::All => Some(OffloadPolicy::After { packets: 1 }),
        Policy::After(packets) => Some(OffloadPolicy::After { packets }),
        Policy::Rate(per_second) => Some(OffloadPolicy::Rate { per_second }),
        Policy::Measured => Some(OffloadPolicy::Measured { least: PACKETS_MIN }),
    }
}

/// Requests marks and a flow queue from ports that are not configured yet.
pub(crate) fn prepare(ports: [&mut Port; 2], plan: &OffloadPlan) {
    for port in ports.into_iter().filter(|_| plan.has_rules()) {
        // A port that cannot deliver marks refuses the first rule and says why.
        let _ = port.negotiate_marks();
        if plan.policy != Policy::Off && plan.api == RuleApi::Auto {
            port.request_flow_queue(DEPTH);
        }
    }
}

/// Which rules the two ports of a wire take; sets up their rings and threads.
pub(crate) struct RuleSetup {
    ports: [SharedPort; 2],
    /// Which rules each port takes and in which form, or why it takes none.
    support: [Result<RuleSupport, String>; 2],
    /// Configuration of marks, if any port takes rules.
    offload: Option<OffloadConfig>,
    /// Layout of all marks, if any port takes rules.
    layout: Option<MarkLayout>,
    /// Marks of access lists, if any port takes their rules.
    list_marks: Option<ListMarkConfig>,
    lists: Option<Arc<AccessLists>>,
    /// Time from one reading of a bypass counter to the next.
    reading: Nanos,
}

impl RuleSetup {
    /// Tries which rules both started ports take. `workers` engines of this configuration share
    /// them.
    pub(crate) fn of(
        ports: &[SharedPort; 2],
        plan: &OffloadPlan,
        engine: &engine::Config,
        (workers, deepest, lists): (usize, Tracking, Option<Arc<AccessLists>>),
    ) -> Self {
        let ports = ports.clone();
        // A connection must not expire before its count is read.
        let Timeouts { udp_multiple, flow_multiple, tcp_established, .. } = engine.timeouts;
        let shortest = udp_multiple.min(flow_multiple).min(tcp_established);
        let reading = (shortest / READINGS).min(READING_MAX);
        let lists = lists.filter(|_| plan.list_rules_max > 0);
        let admission = admission(plan.policy);
        if admission.is_none() && lists.is_none() {
            let support = [(); 2].map(|()| Err(POLICY_OFF.to_owned()));
            let (offload, layout, list_marks) = (None, None, None);
            return Self { ports, support, offload, layout, list_marks, lists, reading };
        }
        let list_queues = lists.as_ref().map(|lists| ListQueues {
            queues: workers as u16,
            has_connections: deepest != Tracking::Off,
            may_drop: lists.limits().nic_drop,
        });
        let support = probe_ports(&ports, plan, list_queues);
        let able = |bypass: config::Bypass, is_able: bool| match is_able {
            true => bypass.for_engine(),
            false => BypassAfter::Never,
        };
        let bypass = support.each_ref().map(|support| match support {
            Ok(RuleSupport { bypass: Bypass { without, .. }, .. }) => BypassConfig {
                udp: able(plan.bypass, without.udp.is_none()),
                tcp: able(plan.bypass_tcp, without.tcp.is_none()),
            },
            Err(_) => BypassConfig::OFF,
        });
        let widths = support.iter().flatten().map(|support| support.dialect.mark_bits);
        let width = widths.min();
        let slots = width.map_or(0, |width| plan.slots(engine, width, workers));
        let layout = width.map(|width| {
            let slots = if admission.is_some() { slots } else { 0 };
            let indices = OffloadConfig::indices(slots) * workers as u32;
            let of_lists = plan.list_rules(width);
            MarkLayout::with_list_rules(width, indices, of_lists).expect("as many as fit the width")
        });
        let takes_lists = support.iter().flatten().any(|support| support.lists.is_ok());
        let list_marks = layout
            .filter(|_| takes_lists)
            .map(|layout| ListMarkConfig { layout, check: plan.check });
        let offload = layout.zip(admission).map(|(layout, admission)| OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check: plan.check,
            admission,
            rules_max: plan.rules_per_worker(workers),
            zone_rules_max: plan.zone_rules_per_worker(workers),
            chooses_marks: plan.marks == MarkPolicy::Auto,
            bypass,
        });
        Self { ports, support, offload, layout, list_marks, lists, reading }
    }

    /// Returns the offload configuration of one worker's engine; `None` without rules.
    pub(crate) fn worker_config(&self, worker: usize) -> Option<OffloadConfig> {
        self.offload.map(|offload| {
            let first_index = OffloadConfig::indices(offload.slots) * worker as u32;
            OffloadConfig { first_index, ..offload }
        })
    }

    /// Returns the marks of access lists, for each worker's engine; `None` without such rules.
    pub(crate) fn list_marks(&self) -> Option<ListMarkConfig> {
        self.list_marks
    }

    /// Makes the rings between `workers` workers and both ports. Returns the workers' ends, and the
    /// rules of each port, whose threads are not started yet.
    pub(crate) fn connect(
        self,
        plan: &OffloadPlan,
        workers: usize,
        clock: Clock,
    ) -> (Vec<RuleRequests>, [Rules; 2]) {
        let Self { ports, support, layout, lists, reading, .. } = self;
        let mut ends: Vec<_> = (0..workers).map(|_| RuleRequests::default()).collect();
        let rules = ports.into_iter().zip(support).enumerate().map(|(side, (port, support))| {
            let name = port.lock().info().devargs.clone();
            let (support, layout) = match (support, layout) {
                (Ok(support), Some(layout)) => (support, layout),
                (Err(reason), _) => return Rules::Off { name, reason },
                (Ok(_), None) => unreachable!("a port that takes rules has marks"),
            };
            let rings = ends.iter_mut().map(|end| end.connect(side)).collect();
            let id = port.lock().id();
            let limits = Limits { waiting: WAITING, quarantine: plan.quarantine, reading };
            let without_bypass = support.bypass.without.clone();
            let lists = lists.clone().map(|lists| {
                let (client, requests) = mpsc::channel();
                let side = if side == 0 { Side::A } else { Side::B };
                let ability = support
                    .lists
                    .as_ref()
                    .map(|lists| ListAbility { levels: lists.levels, drops: lists.drops.clone() });
                let ability = ability.map_err(Clone::clone);
                let room = (layout, plan.list_rules_max as usize, CALL_SHARE);
                (client, PortLists::new((side, lists), room, ability, requests))
            });
            let nic = PortRules::new(port, support, plan.rules_max);
            let pace = CallPacer::new(CALL_SHARE);
            let programmer = Programmer::new(nic, layout, workers as u16, limits, pace);
            let (held, status) = (None, Arc::new(StatusCell::default()));
            let queries = mpsc::channel();
            let work = Programming {
                name,
                without_bypass,
                programmer,
                rings,
                held,
                clock,
                status,
                queries,
                lists,
            };
            Rules::Ready(Box::new(work), id)
        });
        let rules: Vec<_> = rules.collect();
        let rules = <[Rules; 2]>::try_from(rules).unwrap_or_else(|_| unreachable!("two ports"));
        (ends, rules)
    }
}

/// Tries which rules both ports take; each is the peer of the other.
fn probe_ports(
    ports: &[SharedPort; 2],
    plan: &OffloadPlan,
    list_queues: Option<ListQueues>,
) -> [Result<RuleSupport, String>; 2] {
    let numbers = ports.each_ref().map(|port| port.lock().id());
    [0, 1].map(|side: usize| {
        let (peer, is_on) = (numbers[1 - side], |bypass| bypass != config::Bypass::Off);
        let bypass = ByProtocol { udp: is_on(plan.bypass), tcp: is_on(plan.bypass_tcp) };
        // Without rules of connections, a flow queue is of no use.
        let api = if plan.policy == Policy::Off { RuleApi::Sync } else { plan.api };
        let spec = RuleSpec { api, rules_max: plan.rules_max, peer, bypass, list_queues };
        RuleSupport::of(&mut ports[side].lock(), spec)
    })
}

/// A worker's rings of rule requests and results, to both ports.
#[derive(Default)]
pub(crate) struct RuleRequests {
    sides: [Option<WorkerEnd>; 2],
    is_connected: bool,
}

impl RuleRequests {
    fn connect(&mut self, side: usize) -> PortEnd {
        let (rule_requests, request_ring) = RingBuffer::new(RING);
        let (answer_ring, answers) = RingBuffer::new(RING);
        self.sides[side] = Some((rule_requests, answers));
        self.is_connected = true;
        (request_ring, answer_ring)
    }

    /// Passes some requests from the engine to the ports, and some results back; returns how many.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, engine: &mut Engine) -> usize {
        if self.is_connected { self.exchange_some(engine) } else { 0 }
    }

    /// At the end of a run, ends bypassing and waits until the last packets are counted, at most
    /// [`SETTLE_MAX`].
    pub(crate) fn settle(&mut self, engine: &mut Engine) {
        engine.withdraw_bypass();
        let begin = Instant::now();
        while engine.bypasses() > 0 && begin.elapsed() < SETTLE_MAX {
            if self.exchange(engine) == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn exchange_some(&mut self, engine: &mut Engine) -> usize {
        let mut exchanged = 0;
        for (_, answers) in self.sides.iter_mut().flatten() {
            for _ in 0..EXCHANGED {
                let Ok((rule, answer)) = answers.pop() else { break };
                engine.apply_result(rule, answer);
                exchanged += 1;
            }
        }
        for _ in 0..EXCHANGED {
            let mut rings = self.sides.iter().flatten();
            if !rings.all(|(requests, _)| requests.slots() > 0) {
                break;
            }
            let Some(request) = engine.next_request() else { break };
            exchanged += 1;
            self.hand_over(request, engine);
        }
        exchanged
    }

    fn hand_over(&mut self, request: RuleRequest, engine: &mut Engine) {
        let (RuleRequest::Install { rule, side, .. } | RuleRequest::Remove { rule, side }) =
            request;
        let side = match side {
            Side::A => &mut self.sides[0],
            Side::B => &mut self.sides[1],
        };
        match (side, request) {
            (Some((requests, _)), _) => requests.push(request).expect("there is a slot for each"),
            // This port takes no rules.
            (None, RuleRequest::Install { .. }) => engine.apply_result(rule, RuleResult::Refused),
            (None, RuleRequest::Remove { .. }) => engine.apply_result(rule, RuleResult::Removed),
        }
    }
}

/// The rules of one port, and its programming thread.
pub(crate) enum Rules {
    /// The port takes no rules.
    Off {
        name: String,
        reason: String,
    },
    /// A port whose thread is not started yet; the second field is its number in DPDK.
    Ready(Box<Programming>, u16),
    On(Running),
}

impl Rules {
    /// Starts the programming thread of a port that takes rules.
    pub(crate) fn start(self) -> Self {
        let Rules::Ready(work, port) = self else { return self };
        let name = work.name.clone();
        match work.start(port) {
            Ok(running) => Rules::On(running),
            Err(error) => Rules::Off { name, reason: format!("cannot start its thread: {error}") },
        }
    }

    /// Returns the number of rules that the port has; `None` if it takes none.
    pub(crate) fn count(&self) -> Option<u64> {
        if let Rules::On(running) = self { Some(running.rules()) } else { None }
    }

    /// Returns the number of rules installed so far, and the total time that took.
    pub(crate) fn inserted(&self) -> (u64, Duration) {
        if let Rules::On(running) = self { running.inserted() } else { (0, Duration::ZERO) }
    }

    /// Returns a handle through which other threads query the rules.
    pub(crate) fn handle(&self) -> RulesHandle {
        match self {
            Rules::On(running) => {
                let name = running.name().to_owned();
                let (client, lists) = (running.status_client(), running.list_client());
                RulesHandle::On { name, client, lists }
            }
            Rules::Off { name, reason } => {
                RulesHandle::Off { name: name.clone(), reason: reason.clone() }
            }
            Rules::Ready(work, _) => {
                RulesHandle::Off { name: work.name.clone(), reason: "never started".to_owned() }
            }
        }
    }

    /// Tells the thread that the workers have ended, so that it removes all rules.
    pub(crate) fn stop(&self) {
        if let Rules::On(running) = self {
            running.stop();
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        if let Rules::On(running) = self { running.is_finished() } else { true }
    }

    /// Returns the port's name and why it takes no rules; `None` if it takes some.
    pub(crate) fn off_reason(&self) -> Option<(&str, &str)> {
        if let Rules::Off { name, reason } = self { Some((name, reason)) } else { None }
    }

    /// Returns the port's name and why it has no bypass although it takes rules.
    pub(crate) fn without_bypass(&self) -> Option<(&str, &WithoutBypass)> {
        let Rules::On(running) = self else { return None };
        Some((running.name(), running.without_bypass()))
    }

    /// Waits for the thread to end; returns the final figures.
    pub(crate) fn finish(self) -> OffloadPort {
        match self {
            Rules::On(running) => running.join(),
            Rules::Off { name, reason } => OffloadPort::off(name, reason),
            Rules::Ready(work, _) => OffloadPort::off(work.name, "never started".to_owned()),
        }
    }
}

/// A handle by which other threads query the rules of one port.
pub(crate) enum RulesHandle {
    Off { name: String, reason: String },
    On { name: String, client: StatusClient, lists: Option<ListClient> },
}

/// Why no rule of any kind is wanted.
const POLICY_OFF: &str = "the policy is \"off\"";
const NO_LISTS: &str = "`nic_rules_max` is 0";

/// Longest wait for a reply of the programming thread. A driver call that takes longer most likely
/// never returns.
const PATIENCE: Duration = Duration::from_secs(2);

impl RulesHandle {
    /// Returns the name of the port.
    pub(crate) fn name(&self) -> &str {
        let (RulesHandle::Off { name, .. } | RulesHandle::On { name, .. }) = self;
        name
    }

    /// Asks the thread of the port to do something about access lists. False if it takes no rules
    /// of lists, or has ended.
    pub(crate) fn ask_about_lists(&self, request: ListRequest) -> bool {
        let RulesHandle::On { lists: Some(lists), .. } = self else { return false };
        lists.send(request).is_ok()
    }

    /// Returns the rules of access lists in the port.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub(crate) fn list_report(&self) -> Result<ListReport, String> {
        if let RulesHandle::Off { reason, .. } = self {
            return Err(if reason == POLICY_OFF { NO_LISTS } else { reason }.to_owned());
        }
        self.ask_lists(ListRequest::Report).unwrap_or_else(|| Err(NO_LISTS.to_owned()))
    }

    /// Makes the port drop no packets by rules of access lists, and returns how many of these rules
    /// are left; none if it takes none.
    ///
    /// # Errors
    /// If its driver does not return from a call.
    pub(crate) fn stop_drops(&self) -> Result<DropsLeft, String> {
        self.ask_lists(ListRequest::StopDrops).unwrap_or_else(|| Ok(DropsLeft::default()))
    }

    /// Returns the packets that the port has dropped by rules of access lists, by counter; none if
    /// it takes no such rules.
    ///
    /// # Errors
    /// If its driver does not return from a call.
    pub(crate) fn dropped(&self) -> Result<Vec<RuleHits>, String> {
        self.ask_lists(ListRequest::Dropped).unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Asks the thread of the port a question about access lists. `None` if it takes no rules of
    /// lists.
    fn ask_lists<T>(
        &self,
        question: impl FnOnce(SyncSender<T>) -> ListRequest,
    ) -> Option<Result<T, String>> {
        let (reply, answer) = mpsc::sync_channel(1);
        let late = |_| "its driver has not returned from a call".to_owned();
        let is_asked = self.ask_about_lists(question(reply));
        is_asked.then(|| answer.recv_timeout(PATIENCE).map_err(late))
    }

    /// Returns the figures of the port's rules; `None` if its thread has ended. If a driver call
    /// takes longer than [`PATIENCE`], only name, state and reason are set.
    pub(crate) fn query(&self) -> Option<OffloadPort> {
        let (name, client) = match self {
            RulesHandle::Off { name, reason } => {
                return Some(OffloadPort::off(name.clone(), reason.clone()));
            }
            RulesHandle::On { name, client, .. } => (name, client),
        };
        let (reply, answer) = mpsc::sync_channel(1);
        client.send(reply).ok()?;
        match answer.recv_timeout(PATIENCE) {
            Ok(port) => Some(port),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let reason = Some("its driver has not returned from a call".to_owned());
                Some(OffloadPort {
                    name: name.clone(),
                    state: "on",
                    reason,
                    ..OffloadPort::default()
                })
            }
        }
    }
}
