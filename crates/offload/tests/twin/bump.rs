// SPDX-License-Identifier: BSD-3-Clause
//! A bump between two NICs of the model, in made-up time: receive queues, workers, rings to the
//! programmers, all that lies between a mark and the flow it is counted to.
//!
//! Each worker has two engines, and gives both the same packets at the same time: one that has
//! rules, and one that never heard of any. Whatever the NICs do, they must agree.

use crate::port::Port;
use crate::price::{self, Priced};
use crate::traffic::Traffic;
use engine::{
    BURST_MAX, BypassConfig, Config, ConnView, Cursor, Engine, FlowRecord, MarkLayout, MarkStats,
    MarkUse, MarkVerification, Nanos, OffloadConfig, OffloadPolicy, OffloadStats, Query, RuleId,
    RuleRequest, RuleResult, Side, Stats, Timeouts, Verdict,
};
use offload::{CallPacer, Limits, Next, Programmer};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use testkit::random::Random;
use twin::rss::{self, Rss, RssTypes};
use twin::{Faults, Nic, Personality};
use wire::BytesPacket;

/// What is tried.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    /// As the twin's devargs have them.
    pub(crate) faults: String,
    pub(crate) admission: OffloadPolicy,
    pub(crate) check: MarkVerification,
    pub(crate) workers: u16,
    /// Bits of marks.
    pub(crate) width: u32,
    /// Rules that each NIC has room for.
    pub(crate) room: u32,
    /// Operations that each has on their way at a time; with one, calls wait for it.
    pub(crate) depth: usize,
    /// A port starts anew at one in so many turns; `None`, never.
    pub(crate) restarts: Option<u64>,
    /// It does so because its NIC reset itself.
    pub(crate) resets: bool,
    /// What becomes of its rules then, in the words of personalities.
    pub(crate) on_stop: &'static str,
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Turns with data of the longest.
    pub(crate) longest: u32,
    /// Workers choose whether they use marks, which pay and do not pay in turns of this length.
    pub(crate) choice: Option<Nanos>,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    pub(crate) packets: u64,
    /// Packets that the NICs missed.
    pub(crate) missed: u64,
    pub(crate) marks: MarkStats,
    pub(crate) rules: OffloadStats,
    pub(crate) created: u64,
    pub(crate) destroyed: u64,
    pub(crate) lost: u64,
    pub(crate) stuck: u64,
    /// How often workers began to use marks, to ignore them, and to have no rules for them.
    pub(crate) begun: [u64; 3],
}

const QUARANTINE: Nanos = 20_000_000;
const LIMITS: Limits = Limits { waiting: 256, quarantine: QUARANTINE, reading: MS };
/// Places of a ring between a worker and a port, and how many are looked at in one round.
const RING: usize = 256;
const EXCHANGED: usize = 32;
/// Descriptors of a receive queue; beyond, packets are missed.
const DESCRIPTORS: usize = 1024;
const CAPACITY: u32 = 1 << 14;
const MS: Nanos = 1_000_000;

/// A packet in a receive queue.
struct Arrived {
    frame: Vec<u8>,
    mark: Option<u32>,
}

/// One port and who programs it.
struct End {
    programmer: Programmer<Port>,
    /// How late it is for whoever programs it.
    now: Rc<Cell<u64>>,
    /// Of each worker.
    received: Vec<VecDeque<Arrived>>,
    requests: Vec<VecDeque<RuleRequest>>,
    answers: Vec<VecDeque<(RuleId, RuleResult)>>,
}

/// The engine with rules, and the one without.
struct Worker {
    ruled: Engine,
    plain: Engine,
    mark_use: MarkUse,
}

/// Everything.
pub(crate) struct Bump {
    ends: [End; 2],
    workers: Vec<Worker>,
    traffic: Traffic,
    random: Random,
    restarts: Option<u64>,
    resets: bool,
    choice: Option<Nanos>,
    now: Nanos,
    came: Came,
}

impl Bump {
    pub(crate) fn new(case: &Case) -> Self {
        let Case { seed, workers, width, .. } = *case;
        let indices = MarkLayout::most(width) / OffloadConfig::indices(workers.into());
        let slots = indices.min(2 * CAPACITY);
        let layout =
            MarkLayout::new(width, OffloadConfig::indices(slots) * u32::from(workers)).unwrap();
        let offload = OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check: case.check,
            admission: case.admission,
            rules_max: (case.room / u32::from(workers)).max(1),
            zone_rules_max: None,
            chooses_marks: case.choice.is_some(),
            bypass: [BypassConfig::OFF; 2],
        };
        let worker = |number: u16| {
            let plain = config().of_worker(number.into());
            let first_index = OffloadConfig::indices(slots) * u32::from(number);
            let offload = Some(OffloadConfig { first_index, ..offload });
            let ruled = Engine::new(&Config { offload, ..plain.clone() });
            Worker { ruled, plain: Engine::new(&plain), mark_use: MarkUse::Used }
        };
        Self {
            ends: [0, 1].map(|side| End::new(case, layout, side)),
            workers: (0..workers).map(worker).collect(),
            traffic: Traffic::new(seed, case.connections, case.longest),
            random: Random::new(!seed),
            restarts: case.restarts,
            resets: case.resets,
            choice: case.choice,
            now: MS,
            came: Came::default(),
        }
    }

    /// So many turns of traffic, then the end of all flows and of their rules.
    pub(crate) fn run(mut self, turns: u64) -> Came {
        for turn in 0..turns {
            self.arrive();
            if self.restarts.is_some_and(|turns| self.random.one_in(turns)) {
                let end = &mut self.ends[self.random.below(2) as usize];
                self.came.missed += if self.resets { end.reset() } else { end.restart() };
            }
            if turn % 4 == 0 {
                self.work();
            }
        }
        self.finish()
    }

    /// Some packets come to the ports.
    fn arrive(&mut self) {
        // Now and then nothing comes for so long that flows end.
        self.now += match self.random.one_in(2000) {
            true => self.random.below(40 * MS),
            false => self.random.below(60_000),
        };
        let Self { traffic, ends, came, now, .. } = self;
        traffic.turn(&mut |side, frame| {
            came.packets += 1;
            came.missed += u64::from(!ends[side as usize].receive(frame, *now));
        });
    }

    /// What everybody does beside: workers, some of which are late, and programmers.
    fn work(&mut self) {
        for number in 0..self.workers.len() {
            if self.random.one_in(3) {
                continue;
            }
            for side in [Side::A, Side::B] {
                self.forward(number, side);
            }
            self.keep_house(number);
        }
        self.ends.iter_mut().for_each(|end| end.program(self.now));
    }

    /// One burst, if there is one.
    fn forward(&mut self, number: usize, side: Side) {
        let Worker { ruled, plain, .. } = &mut self.workers[number];
        let received = &mut self.ends[side as usize].received[number];
        let burst: Vec<_> = received.drain(..received.len().min(BURST_MAX)).collect();
        if burst.is_empty() {
            return ruled.queue_drained(side);
        }
        let packets: Vec<_> = burst
            .iter()
            .map(|arrived| BytesPacket::new(&arrived.frame).marked(arrived.mark))
            .collect();
        let mut verdicts = [[Verdict::Forward; BURST_MAX]; 2];
        let [of_ruled, of_plain] = &mut verdicts;
        let do_marks_pay = self.choice.is_none_or(|turn| self.now / turn % 2 == 0);
        price::begin_burst(packets.len(), do_marks_pay);
        let priced: Vec<_> = packets.iter().cloned().map(Priced).collect();
        ruled.process_from(side, self.now, &priced, of_ruled);
        plain.process_from(side, self.now, &packets, of_plain);
        assert_eq!(verdicts[0], verdicts[1]);
    }

    fn keep_house(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        worker.ruled.expire(self.now, 512);
        worker.plain.expire(self.now, 512);
        worker.agree();
        if self.random.one_in(64) {
            worker.agree_on_states();
        }
        worker.ruled.recheck_rules(self.now, 16);
        self.came.note_mark_use(worker);
        for end in &mut self.ends {
            for _ in 0..EXCHANGED {
                let Some((rule, answer)) = end.answers[number].pop_front() else { break };
                worker.ruled.apply_result(rule, answer);
            }
        }
        for _ in 0..EXCHANGED {
            if self.ends.iter().any(|end| end.requests[number].len() >= RING) {
                break;
            }
            let Some(request) = worker.ruled.next_request() else { break };
            let (RuleRequest::Install { side, .. } | RuleRequest::Remove { side, .. }) = request;
            self.ends[side as usize].requests[number].push_back(request);
        }
    }

    /// Ends every flow; when that is done, the NICs have no rule but those that are stuck.
    fn finish(mut self) -> Came {
        while self.ends.iter().any(|end| end.received.iter().any(|queue| !queue.is_empty())) {
            self.work();
        }
        for Worker { ruled, plain, .. } in &mut self.workers {
            while ruled.flush(BURST_MAX) | plain.flush(BURST_MAX) {}
        }
        // Late rules need 100 ms, ports in trouble rest for a second at a time.
        for _ in 0..5000 {
            self.now += MS;
            self.work();
        }
        for end in &mut self.ends {
            end.assert_account();
            assert!(end.programmer.is_empty(), "a rule outlived its flow");
            let counts = end.programmer.counts();
            self.came.created += counts.created;
            self.came.destroyed += counts.destroyed;
            self.came.lost += counts.lost;
            self.came.stuck += end.programmer.leaked().len() as u64;
        }
        for Worker { ruled, plain, .. } in &mut self.workers {
            assert_eq!(without_cycles(ruled.stats()), without_cycles(plain.stats()));
            assert_eq!(ruled.stats().active(), 0);
            for side in [Side::A, Side::B] {
                assert_eq!(ruled.offload_state(side).live, 0);
            }
            self.came.count(ruled.mark_stats(), ruled.offload_stats());
        }
        self.came
    }
}

impl Worker {
    /// The flows that ended are the same.
    fn agree(&mut self) {
        let [ruled, plain] = [&mut self.ruled, &mut self.plain].map(taken);
        assert_eq!(ruled, plain);
    }

    /// Those that live are in the same states.
    fn agree_on_states(&self) {
        let [ruled, plain] = [&self.ruled, &self.plain].map(states);
        assert_eq!(ruled, plain);
    }
}

/// What is known of each flow, in an order of their own: where its record lies is not promised.
fn states(engine: &Engine) -> Vec<FlowRecord> {
    let (mut states, mut cursor) = (Vec::new(), Cursor::default());
    let mut found = |flow: ConnView| states.push(flow.record);
    while engine.list(&Query::default(), &mut cursor, 1024, &mut found) {}
    states.sort_by_key(|flow| (flow.start, flow.src, flow.sport, flow.dst, flow.dport));
    states
}

/// Records in an order of their own: that of their end within a burst is not promised.
fn taken(engine: &mut Engine) -> Vec<FlowRecord> {
    let mut records: Vec<_> = std::iter::from_fn(|| engine.next_record()).collect();
    records.sort_by_key(|flow| (flow.start, flow.src, flow.sport, flow.dst, flow.dport, flow.end));
    records
}

fn without_cycles(stats: &Stats) -> Stats {
    Stats {
        stage_cycles: Default::default(),
        stage_readings: Default::default(),
        sampled_packets: 0,
        ..stats.clone()
    }
}

/// Flows that end soon: rules come and go.
fn config() -> Config {
    let timeouts = Timeouts {
        tcp_syn_sent: 20 * MS,
        tcp_syn_recv: 20 * MS,
        tcp_established: 60 * MS,
        tcp_fin_wait: 40 * MS,
        tcp_time_wait: 10 * MS,
        tcp_close: 10 * MS,
        udp_first: 15 * MS,
        udp_single: 20 * MS,
        udp_multiple: 30 * MS,
        icmp_first: 10 * MS,
        icmp_reply: 10 * MS,
        sctp_init: 10 * MS,
        sctp_cookie: 10 * MS,
        sctp_established: 10 * MS,
        sctp_shutdown: 10 * MS,
        sctp_closed: 10 * MS,
        sctp_heartbeat: 10 * MS,
        other_first: 10 * MS,
        other_multiple: 10 * MS,
        flow_first: 10 * MS,
        flow_multiple: 10 * MS,
    };
    Config {
        capacity_ipv4: CAPACITY,
        capacity_ipv6: CAPACITY,
        timeouts,
        secret: [1, 2],
        cycle_counter: price::counter,
        ..Config::default()
    }
}

impl End {
    fn new(case: &Case, layout: MarkLayout, side: u64) -> Self {
        let Case { seed, workers, room, depth, on_stop, .. } = *case;
        let text =
            format!("table = {{ guaranteed = {room} }}\nport = {{ on_stop = \"{on_stop}\" }}");
        let personality = Personality::parse(&text, "ideal").unwrap();
        let faults = Faults::parse(&case.faults, seed ^ side).unwrap();
        let mut nic = Nic::with_faults(personality, seed ^ side, faults);
        nic.set_queues(workers);
        nic.set_rss(symmetric(workers));
        nic.set_started(true);
        let now = Rc::new(Cell::new(MS));
        let port = Port::new(nic, Rc::clone(&now), depth);
        let queues = || (0..workers).map(|_| VecDeque::new());
        Self {
            programmer: Programmer::new(port, layout, workers, LIMITS, CallPacer::new(128)),
            now,
            received: queues().collect(),
            requests: (0..workers).map(|_| VecDeque::new()).collect(),
            answers: (0..workers).map(|_| VecDeque::new()).collect(),
        }
    }

    /// Whether the NIC received it.
    fn receive(&mut self, frame: &[u8], now: Nanos) -> bool {
        let nic = &self.programmer.port().nic;
        let verdict = nic.classify(frame, frame.len() as u32, now / 1000);
        assert!(!verdict.drop, "no rule drops");
        let queue = self.received.get_mut(usize::from(verdict.queue));
        let Some(queue) = queue.filter(|queue| queue.len() < DESCRIPTORS) else { return false };
        queue.push_back(Arrived { frame: frame.to_vec(), mark: verdict.mark });
        true
    }

    /// As a port that is told to: rules are flushed while they have names. What waits in its queues
    /// is lost; returns how much.
    fn restart(&mut self) -> u64 {
        let nic = &mut self.programmer.port().nic;
        // What does not go then is stuck as it was before.
        let _ = nic.flush();
        nic.set_started(false);
        nic.set_started(true);
        self.programmer.port().forget();
        self.programmer.forget_rules();
        self.received.iter_mut().map(|queue| queue.drain(..).count() as u64).sum()
    }

    /// As a port whose NIC resets itself: calls are refused until somebody notices, then no rule is
    /// left. Returns how many packets are lost.
    fn reset(&mut self) -> u64 {
        self.programmer.port().nic.go_down();
        self.program(self.now.get() + 5 * MS);
        let nic = &mut self.programmer.port().nic;
        assert!(nic.bring_back());
        nic.set_started(false);
        nic.set_started(true);
        self.programmer.port().forget();
        self.programmer.forget_all_rules(self.now.get());
        self.received.iter_mut().map(|queue| queue.drain(..).count() as u64).sum()
    }

    /// What its thread does until then; it may still be busy with a call.
    fn program(&mut self, until: Nanos) {
        while self.now.get() < until {
            for (worker, requests) in self.requests.iter_mut().enumerate() {
                while self.programmer.has_room(worker as u16) {
                    let Some(request) = requests.pop_front() else { break };
                    self.programmer.submit(worker as u16, request);
                }
            }
            let now = Rc::clone(&self.now);
            match self.programmer.step(&mut || now.get()) {
                Next::Now => {}
                Next::At(at) => now.set(at.min(until).max(now.get() + 1)),
                Next::Idle => now.set(until),
            }
            while let Some((worker, rule, answer)) = self.programmer.next_answer() {
                self.answers[usize::from(worker)].push_back((rule, answer));
            }
        }
    }

    fn assert_account(&mut self) {
        let there = self.programmer.len() + self.programmer.leaked().len();
        assert_eq!(there, self.programmer.port().nic.len(), "rules believed, and rules there");
    }
}

/// Both directions of a connection come to one queue.
fn symmetric(workers: u16) -> Rss {
    let every = rss::IP | rss::FRAGMENT | rss::OTHER | rss::TCP | rss::UDP | rss::SCTP;
    let types = RssTypes(every | every << rss::IPV6_SHIFT | rss::SORTED);
    Rss::new(types, &[0x6d; rss::KEY_LEN], (0..128).map(|place| place % workers).collect())
}

impl Came {
    /// Of another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.missed += other.missed;
        self.created += other.created;
        self.destroyed += other.destroyed;
        self.lost += other.lost;
        self.stuck += other.stuck;
        self.begun.iter_mut().zip(other.begun).for_each(|(sum, more)| *sum += more);
        self.count(other.marks, other.rules);
    }

    fn note_mark_use(&mut self, worker: &mut Worker) {
        let mark_use = worker.ruled.offload_state(Side::A).marks.in_use;
        if mark_use != worker.mark_use {
            worker.mark_use = mark_use;
            self.begun[mark_use as usize] += 1;
        }
    }

    fn count(&mut self, marks: MarkStats, rules: OffloadStats) {
        self.marks.ignored += marks.ignored;
        self.marks.counted += marks.counted;
        self.marks.unusual += marks.unusual;
        self.marks.foreign += marks.foreign;
        self.marks.stale += marks.stale;
        self.marks.mismatched += marks.mismatched;
        self.rules.requested += rules.requested;
        self.rules.effective += rules.effective;
        self.rules.ineffective += rules.ineffective;
        self.rules.lost_effect += rules.lost_effect;
    }
}
