// SPDX-License-Identifier: BSD-3-Clause
//! Rules of the NIC while the bump runs: a thread for each port that takes some, and what ties it
//! to the workers.
//!
//! Wishes and answers pass through rings. A worker looks at a few of them between bursts and waits
//! for none: where a ring is full, its connections stay in software.

mod bypass;
mod port_rules;
mod rule_dialect;
mod thread;

pub(crate) use self::port_rules::SharedPort;

use self::port_rules::{DEPTH, PortRules, RuleSpec, Terms};
use super::clock::Clock;
use config::plan::OffloadPlan;
use config::{Bypass, Policy, RuleApi};
use dpdk::Port;
use engine::{
    Engine, MarkLayout, Nanos, OffloadConfig, OffloadPolicy, RuleId, RuleRequest, RuleResult, Side,
};
use offload::{CallPacer, Limits, Programmer};
use report::summary::OffloadPort;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use thread::{Programming, Running, StatusCell, StatusClient};

/// A worker's end of the rings between it and one port.
type WorkerEnd = (Producer<RuleRequest>, Consumer<(RuleId, RuleResult)>);
/// The port's end of them.
type PortEnd = (Consumer<RuleRequest>, Producer<(RuleId, RuleResult)>);

/// Wishes of one worker on their way to one port, and answers on their way back.
const RING: usize = 1024;
/// New rules of one worker that wait for one port.
const WAITING: usize = 1024;
/// Wishes, and answers, that a worker looks at in one round of housekeeping.
const EXCHANGED: usize = 8;
/// Calls take half of the time at most: some NICs do not forward meanwhile.
const SHARE: u32 = 128;

/// What a NIC forwards by itself is counted so many times in the time that a flow lives without a
/// packet, but no seldomer than a person may look at it.
const READINGS: u64 = 8;
const READING_MAX: Nanos = 1_000_000_000;
/// At the end, how long to wait until the last of it is counted.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// Packets before which a direction is not worth a rule, however fast they come. Most flows have no
/// more, and asking for a rule and parting with it costs a worker what some tens of marks spare.
const LEAST: u32 = 32;

/// Who is worth a rule; `None`: nobody.
fn admission(policy: Policy) -> Option<OffloadPolicy> {
    match policy {
        Policy::Off => None,
        Policy::All => Some(OffloadPolicy::After { packets: 1 }),
        Policy::After(packets) => Some(OffloadPolicy::After { packets }),
        Policy::Rate(per_second) => Some(OffloadPolicy::Rate { per_second }),
        Policy::Measured => Some(OffloadPolicy::Measured { least: LEAST }),
    }
}

/// What is to be done before ports are configured.
pub(super) fn prepare(ports: [&mut Port; 2], plan: &OffloadPlan) {
    for port in ports.into_iter().filter(|_| plan.policy != Policy::Off) {
        // One that cannot deliver marks will say so when it is asked for a rule.
        let _ = port.ask_for_marks();
        if plan.api == RuleApi::Auto {
            port.ask_for_flow_queue(DEPTH);
        }
    }
}

/// A wire whose ports were asked what they take.
pub(super) struct PortOffer {
    ports: [SharedPort; 2],
    /// What each takes and how it is asked, or why it takes nothing.
    terms: [Result<Terms, String>; 2],
    /// How its marks are made, where there are any.
    offload: Option<OffloadConfig>,
    /// From one reading of a counter to the next.
    reading: Nanos,
}

impl PortOffer {
    /// Asks both ports, which are started, on behalf of so many workers with engines like this.
    pub(super) fn of(
        ports: &[SharedPort; 2],
        plan: &OffloadPlan,
        engine: &engine::Config,
        workers: usize,
    ) -> Self {
        let ports = ports.clone();
        // Only UDP of both directions is forwarded so.
        let reading = (engine.timeouts.udp_multiple / READINGS).min(READING_MAX);
        let Some(admission) = admission(plan.policy) else {
            let terms = [(); 2].map(|()| Err("the policy is \"off\"".to_owned()));
            return Self { ports, terms, offload: None, reading };
        };
        let terms = terms(&ports, plan);
        let bypass = terms.each_ref().map(|terms| match (terms, plan.bypass) {
            (Ok(Terms { bypass: Ok(_), .. }), Bypass::After(packets)) => Some(packets),
            _ => None,
        });
        let widths = terms.iter().flatten().map(|terms| terms.dialect.mark_bits);
        let offload = widths.min().map(|width| {
            let slots = plan.slots(engine, width, workers);
            let indices = OffloadConfig::indices(slots) * workers as u32;
            OffloadConfig {
                layout: MarkLayout::new(width, indices).expect("as many as the width is for"),
                first_index: 0,
                slots,
                check: plan.check,
                admission,
                rules_max: plan.rules_per_worker(workers),
                zone_rules_max: plan.zone_rules_per_worker(workers),
                bypass,
            }
        });
        Self { ports, terms, offload, reading }
    }

    /// What the engine of the wire's worker with this number needs.
    pub(super) fn of_worker(&self, worker: usize) -> Option<OffloadConfig> {
        self.offload.map(|offload| {
            let first_index = OffloadConfig::indices(offload.slots) * worker as u32;
            OffloadConfig { first_index, ..offload }
        })
    }

    /// Ties workers to the ports: an end for each of so many workers, and what is to be started.
    pub(super) fn tie(
        self,
        plan: &OffloadPlan,
        workers: usize,
        clock: Clock,
    ) -> (Vec<RuleRequests>, [Rules; 2]) {
        let Self { ports, terms, offload, reading } = self;
        let mut ends: Vec<_> = (0..workers).map(|_| RuleRequests::default()).collect();
        let rules = ports.into_iter().zip(terms).enumerate().map(|(side, (port, terms))| {
            let name = port.lock().info().devargs.clone();
            let (terms, layout) = match (terms, offload) {
                (Ok(terms), Some(OffloadConfig { layout, .. })) => (terms, layout),
                (Err(reason), _) => return Rules::Off { name, reason },
                (Ok(_), None) => unreachable!("a port that takes rules has marks"),
            };
            let rings = ends.iter_mut().map(|end| end.tie(side)).collect();
            let id = port.lock().id();
            let limits = Limits { waiting: WAITING, quarantine: plan.quarantine, reading };
            let no_bypass = terms.bypass.as_ref().err().cloned();
            let nic = PortRules::new(port, terms, plan.rules_max);
            let pace = CallPacer::new(SHARE);
            let programmer = Programmer::new(nic, layout, workers as u16, limits, pace);
            let (held, gauge) = (None, Arc::new(StatusCell::default()));
            let asked = mpsc::channel();
            let work =
                Programming { name, no_bypass, programmer, rings, held, clock, gauge, asked };
            Rules::Ready(Box::new(work), id)
        });
        let rules: Vec<_> = rules.collect();
        let rules = <[Rules; 2]>::try_from(rules).unwrap_or_else(|_| unreachable!("two ports"));
        (ends, rules)
    }
}

/// Asks both ports, which are each other's peers.
fn terms(ports: &[SharedPort; 2], plan: &OffloadPlan) -> [Result<Terms, String>; 2] {
    let numbers = ports.each_ref().map(|port| port.lock().id());
    [0, 1].map(|side: usize| {
        let peer = (plan.bypass != Bypass::Off).then(|| numbers[1 - side]);
        let wanted = RuleSpec { api: plan.api, rules_max: plan.rules_max, peer };
        Terms::of(&mut ports[side].lock(), wanted)
    })
}

/// What one worker has to do with rules.
#[derive(Default)]
pub(super) struct RuleRequests {
    sides: [Option<WorkerEnd>; 2],
    is_tied: bool,
}

impl RuleRequests {
    fn tie(&mut self, side: usize) -> PortEnd {
        let (wishes, wish_ring) = RingBuffer::new(RING);
        let (answer_ring, answers) = RingBuffer::new(RING);
        self.sides[side] = Some((wishes, answers));
        self.is_tied = true;
        (wish_ring, answer_ring)
    }

    /// Hands wishes over and takes answers, a few of each; returns how many.
    #[inline(always)]
    pub(super) fn exchange(&mut self, engine: &mut Engine) -> usize {
        if self.is_tied { self.exchange_some(engine) } else { 0 }
    }

    /// At the end: has what the NICs forward by themselves come back, and waits, not for ever,
    /// until it is counted.
    pub(super) fn settle(&mut self, engine: &mut Engine) {
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
            if !rings.all(|(wishes, _)| wishes.slots() > 0) {
                break;
            }
            let Some(wish) = engine.next_request() else { break };
            exchanged += 1;
            self.hand_over(wish, engine);
        }
        exchanged
    }

    fn hand_over(&mut self, wish: RuleRequest, engine: &mut Engine) {
        let (RuleRequest::Install { rule, side, .. } | RuleRequest::Remove { rule, side }) = wish;
        let side = match side {
            Side::A => &mut self.sides[0],
            Side::B => &mut self.sides[1],
        };
        match (side, wish) {
            (Some((wishes, _)), _) => wishes.push(wish).expect("there is a slot for each"),
            // A port without rules.
            (None, RuleRequest::Install { .. }) => engine.apply_result(rule, RuleResult::Refused),
            (None, RuleRequest::Remove { .. }) => engine.apply_result(rule, RuleResult::Removed),
        }
    }
}

/// Rules of one port.
pub(super) enum Rules {
    /// It takes none.
    Off {
        name: String,
        reason: String,
    },
    /// Of the port with this number; not started yet.
    Ready(Box<Programming>, u16),
    On(Running),
}

impl Rules {
    /// Starts the thread of a port that takes some.
    pub(super) fn start(self) -> Self {
        let Rules::Ready(work, port) = self else { return self };
        let name = work.name.clone();
        match work.start(port) {
            Ok(running) => Rules::On(running),
            Err(error) => Rules::Off { name, reason: format!("no thread for its rules: {error}") },
        }
    }

    /// Rules that the port has, if it takes any.
    pub(super) fn count(&self) -> Option<u64> {
        if let Rules::On(running) = self { Some(running.rules()) } else { None }
    }

    /// Rules that were made so far, and the time that took.
    pub(super) fn inserted(&self) -> (u64, Duration) {
        if let Rules::On(running) = self { running.inserted() } else { (0, Duration::ZERO) }
    }

    /// Whom others may ask.
    pub(super) fn line(&self) -> RulesHandle {
        match self {
            Rules::On(running) => {
                let name = running.name().to_owned();
                RulesHandle::On { name, inquirer: running.inquirer() }
            }
            Rules::Off { name, reason } => {
                RulesHandle::Off { name: name.clone(), reason: reason.clone() }
            }
            Rules::Ready(work, _) => {
                RulesHandle::Off { name: work.name.clone(), reason: "never started".to_owned() }
            }
        }
    }

    /// Says that the workers are gone.
    pub(super) fn stop(&self) {
        if let Rules::On(running) = self {
            running.stop();
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        if let Rules::On(running) = self { running.is_finished() } else { true }
    }

    /// Why there are none.
    pub(super) fn reason(&self) -> Option<(&str, &str)> {
        if let Rules::Off { name, reason } = self { Some((name, reason)) } else { None }
    }

    /// The port takes rules, and forwards nothing by itself: why.
    pub(super) fn no_bypass(&self) -> Option<(&str, &str)> {
        let Rules::On(running) = self else { return None };
        Some((running.name(), running.no_bypass()?))
    }

    /// What it came to, once that is finished.
    pub(super) fn finish(self) -> OffloadPort {
        match self {
            Rules::On(running) => running.join(),
            Rules::Off { name, reason } => OffloadPort::off(name, reason),
            Rules::Ready(work, _) => OffloadPort::off(work.name, "never started".to_owned()),
        }
    }
}

/// A line to the thread of a port, for who wants to know how its rules stand.
pub(super) enum RulesHandle {
    Off { name: String, reason: String },
    On { name: String, inquirer: StatusClient },
}

/// A call of a driver takes no longer, if it ever comes back.
const PATIENCE: Duration = Duration::from_secs(2);

impl RulesHandle {
    /// Of the port.
    pub(super) fn name(&self) -> &str {
        let (RulesHandle::Off { name, .. } | RulesHandle::On { name, .. }) = self;
        name
    }

    /// How its rules stand; `None` if there is nobody left to ask.
    pub(super) fn ask(&self) -> Option<OffloadPort> {
        let (name, inquirer) = match self {
            RulesHandle::Off { name, reason } => {
                return Some(OffloadPort::off(name.clone(), reason.clone()));
            }
            RulesHandle::On { name, inquirer } => (name, inquirer),
        };
        let (reply, answer) = mpsc::sync_channel(1);
        inquirer.send(reply).ok()?;
        match answer.recv_timeout(PATIENCE) {
            Ok(port) => Some(port),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let reason = Some("its driver has not come back from a call".to_owned());
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
