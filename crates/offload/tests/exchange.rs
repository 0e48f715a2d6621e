// SPDX-License-Identifier: BSD-3-Clause
//! What a worker and a programmer tell each other, in every order in which their threads may run
//! beside each other and beside a NIC that receives: no mark has two meanings at a time.
//!
//! Both are sans-I/O, and between them are two rings and nothing else. Those of the program are
//! rtrb's, which has tests of its own; here they are queues under a lock that loom knows.

use engine::{
    BypassConfig, Config, Engine, FiveTuple, FragmentLimits, MarkLayout, MarkVerification,
    OffloadConfig, OffloadPolicy, RuleId, RuleRequest, RuleResult, Side, Verdict,
};
use loom::sync::{Arc, Mutex};
use loom::thread;
use offload::{
    CallPacer, Completion, Limits, NicAction, Programmer, Refusal, RefusalClass, RuleNumber,
    RulePort,
};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use wire::{BytesPacket, FrameBuilder};

/// Between two threads, with few places.
struct Ring<T>(Arc<Mutex<VecDeque<T>>>);

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

const PLACES: usize = 2;

impl<T> Ring<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(VecDeque::new())))
    }

    fn has_room(&self) -> bool {
        self.0.lock().unwrap().len() < PLACES
    }

    fn push(&self, item: T) {
        self.0.lock().unwrap().push_back(item);
    }

    fn pop(&self) -> Option<T> {
        self.0.lock().unwrap().pop_front()
    }
}

/// Rules, and packets on their way: a host's number, and the mark.
#[derive(Default)]
struct Nic {
    rules: HashMap<FiveTuple, u32>,
    /// Not in the queue yet.
    coming: Vec<(u8, Option<u32>)>,
    queue: VecDeque<(u8, Option<u32>)>,
    /// Time is told by how often nothing was on its way.
    time: u64,
    is_stubborn: bool,
}

/// Operations are done when they are asked for, and told then or the next time.
struct Port {
    nic: Arc<Mutex<Nic>>,
    layout: MarkLayout,
    rules: HashMap<RuleNumber, FiveTuple>,
    is_late: bool,
    /// To be told now, and later.
    done: [Vec<Completion>; 2],
}

impl Port {
    fn end(&mut self, rule: RuleNumber, result: Result<(), Refusal>) {
        self.done[usize::from(self.is_late)].push(Completion { rule, result });
    }
}

impl RulePort for Port {
    fn depth(&self) -> usize {
        1 + usize::from(self.is_late)
    }

    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, fate: NicAction) {
        let NicAction::Mark { mark, .. } = fate else { panic!("nothing is released") };
        let mut nic = self.nic.lock().unwrap();
        let name = |mark: u32| self.layout.decode(mark);
        let (named, packets) = (name(mark), nic.queue.iter().chain(&nic.coming));
        let marks = packets.filter_map(|(_, mark)| *mark).chain(nic.rules.values().copied());
        for other in marks.map(name).filter(|other| other.index == named.index) {
            assert_eq!(other.generation, named.generation, "a mark with two meanings");
        }
        assert!(nic.rules.insert(*tuple, mark).is_none(), "one rule for the same packets");
        drop(nic);
        self.rules.insert(rule, *tuple);
        self.end(rule, Ok(()));
    }

    fn destroy(&mut self, rule: RuleNumber) {
        let mut nic = self.nic.lock().unwrap();
        if nic.is_stubborn {
            drop(nic);
            let refusal = Refusal { class: RefusalClass::PortError, words: String::new() };
            return self.end(rule, Err(refusal));
        }
        nic.rules.remove(&self.rules[&rule]).expect("it is there");
        drop(nic);
        self.end(rule, Ok(()));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let [now, later] = &mut self.done;
        done.append(now);
        now.append(later);
    }
}

const HOSTS: [u8; 2] = [1, 2];

fn frame(host: u8) -> Vec<u8> {
    FrameBuilder::ipv4([10, 0, 0, host], [10, 9, 9, 9]).udp(1, 53).pad().build()
}

/// Packets arrive, and are in the queue a moment later.
fn receive(nic: &Mutex<Nic>, hosts: &[u8]) {
    for host in hosts {
        {
            let mut nic = nic.lock().unwrap();
            let of_host = |tuple: &FiveTuple| tuple.src == IpAddr::from([10, 0, 0, *host]);
            let mark = nic.rules.iter().find(|(tuple, _)| of_host(tuple)).map(|(_, mark)| *mark);
            nic.coming.push((*host, mark));
        }
        let mut nic = nic.lock().unwrap();
        let place = nic.coming.iter().position(|(other, _)| other == host);
        let packet = nic.coming.remove(place.expect("it is on its way"));
        nic.queue.push_back(packet);
        nic.time += u64::from(nic.coming.is_empty());
    }
}

/// A worker with room for one connection with rules.
struct Worker {
    engine: Engine,
    nic: Arc<Mutex<Nic>>,
    requests: Ring<RuleRequest>,
    answers: Ring<(RuleId, RuleResult)>,
}

impl Worker {
    fn turn(&mut self) {
        let packet = self.nic.lock().unwrap().queue.pop_front();
        match packet {
            None => self.engine.queue_drained(Side::A),
            Some((host, mark)) => {
                let frame = frame(host);
                let packet = BytesPacket::new(&frame).marked(mark);
                self.engine.process_from(Side::A, 0, &[packet], &mut [Verdict::Forward]);
            }
        }
        // There is nothing on the other side.
        self.engine.queue_drained(Side::B);
        self.engine.recheck_rules(0, 4);
        while let Some((rule, answer)) = self.answers.pop() {
            self.engine.apply_result(rule, answer);
        }
        if self.requests.has_room() {
            self.engine.next_request().into_iter().for_each(|request| self.requests.push(request));
        }
    }

    fn end_flows(&mut self) {
        while self.engine.flush(usize::MAX) {}
        while self.engine.next_record().is_some() {}
    }
}

struct Programming {
    programmer: Programmer<Port>,
    nic: Arc<Mutex<Nic>>,
    requests: Ring<RuleRequest>,
    answers: Ring<(RuleId, RuleResult)>,
}

impl Programming {
    fn turn(&mut self) {
        if self.programmer.has_room(0) {
            self.requests.pop().into_iter().for_each(|request| self.programmer.submit(0, request));
        }
        // One reading of the clock is as good as several, and gives fewer orders to try.
        let now = self.nic.lock().unwrap().time;
        self.programmer.step(&mut || now);
        if self.answers.has_room() {
            let answer = self.programmer.next_answer();
            answer.into_iter().for_each(|(_, rule, answer)| self.answers.push((rule, answer)));
        }
    }
}

fn parties(is_stubborn: bool, is_late: bool) -> (Worker, Programming) {
    let layout = MarkLayout::new(12, 2).unwrap();
    let offload = OffloadConfig {
        layout,
        first_index: 0,
        slots: 1,
        check: MarkVerification::Sampled { first: 0, one_in: u32::MAX },
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 2,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
    };
    let (capacity_ipv4, capacity_ipv6) = (2, 1);
    // There is an engine for each order of events, and no fragment: memory for them takes most of
    // the time.
    let fragments = FragmentLimits { datagrams: 0, hold: 0, ..FragmentLimits::default() };
    let offload = Some(offload);
    let config = Config { capacity_ipv4, capacity_ipv6, offload, fragments, ..Config::default() };
    let nic = Arc::new(Mutex::new(Nic { is_stubborn, ..Nic::default() }));
    let (requests, answers) = (Ring::new(), Ring::new());
    let (rules, done) = (HashMap::new(), Default::default());
    let port = Port { nic: Arc::clone(&nic), layout, rules, is_late, done };
    let limits = Limits { waiting: 1, quarantine: 1, reading: 1 };
    let programmer = Programmer::new(port, layout, 1, limits, CallPacer::new(256));
    let worker = Worker {
        engine: Engine::new(&config),
        nic: Arc::clone(&nic),
        requests: requests.clone(),
        answers: answers.clone(),
    };
    (worker, Programming { programmer, nic, requests, answers })
}

/// Turns of worker and programmer while packets arrive.
const TURNS: usize = 7;

/// Two connections, one after the other, both of which want the only mark there is.
fn two_connections(is_stubborn: bool, is_late: bool) {
    let (mut worker, mut programming) = parties(is_stubborn, is_late);
    let nic = Arc::clone(&worker.nic);
    let [a, b] = HOSTS;
    // The first is why there is a rule for the second.
    receive(&nic, &[a]);
    worker.turn();
    let arriving = thread::spawn(move || receive(&nic, &[a]));
    let programmed = thread::spawn(move || {
        for _ in 0..TURNS {
            programming.turn();
            thread::yield_now();
        }
        programming
    });
    for turn in 0..TURNS {
        worker.turn();
        match turn {
            1 => worker.end_flows(),
            5 => receive(&worker.nic, &[b]),
            _ => {}
        }
        thread::yield_now();
    }
    arriving.join().unwrap();
    let mut programming = programmed.join().unwrap();
    // Nobody is beside them any more: all of it comes to its end.
    for turn in 0..40 {
        if turn == 10 {
            worker.end_flows();
        }
        worker.turn();
        programming.turn();
        programming.nic.lock().unwrap().time += 1;
    }
    let stats = worker.engine.stats();
    assert_eq!((stats.tracked, stats.active()), (3, 0));
    assert_eq!(worker.engine.mark_stats().mismatched, 0);
    assert_eq!(worker.engine.offload_state(Side::A).live, 0);
    assert!(programming.programmer.is_empty());
    let left = programming.nic.lock().unwrap().rules.len();
    assert_eq!(left, programming.programmer.leaked().len());
    if !is_stubborn {
        // The mark is free again.
        receive(&worker.nic, &[b]);
        (0..3).for_each(|_| worker.turn());
        (0..2).for_each(|_| programming.turn());
        assert_eq!(programming.programmer.len(), 1);
    }
}

/// Every order with so many switches away from a thread that could have gone on.
fn in_every_order(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// With a quarantine of no time two switches are enough to find one that has.
#[test]
fn no_mark_has_two_meanings() {
    in_every_order(2, || two_connections(false, false));
}

/// `make prove-offload` takes the minute that two switches need.
#[test]
fn no_mark_has_two_meanings_where_results_come_later() {
    let switches = if std::env::var_os("MILLRACE_CYCLES").is_some() { 2 } else { 1 };
    in_every_order(switches, || two_connections(false, true));
}

#[test]
fn the_mark_of_a_rule_that_stays_is_not_used_again() {
    in_every_order(1, || two_connections(true, false));
    in_every_order(1, || two_connections(true, true));
}
