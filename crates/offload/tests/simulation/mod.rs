// SPDX-License-Identifier: BSD-3-Clause
//! Who gets the rules of a NIC that has few and is slow, beside who would if somebody knew how busy
//! every flow is. Time is made up, so what comes out is the same on any machine.

use engine::{
    BURST_MAX, BypassConfig, Config, Engine, FiveTuple, MarkLayout, MarkVerification,
    OffloadConfig, OffloadPolicy, Side, Timeouts, Verdict,
};
use offload::{
    CallPacer, Completion, Limits, Next, NicAction, Programmer, Refusal, RefusalClass, RuleNumber,
    RulePort,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use testkit::random::Random;
use wire::{BytesPacket, FrameBuilder};

/// What is simulated.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) flows: u32,
    /// Zipf's: the rate of a flow is its rank to the power of minus this.
    pub(crate) exponent: f64,
    pub(crate) packets_per_second: u64,
    pub(crate) seconds: u64,
    /// Rules that the NIC has room for.
    pub(crate) room: u32,
    /// What making or destroying one takes.
    pub(crate) call_ns: u64,
    /// As many packets again are of these.
    pub(crate) attack: Attack,
    /// Rules that a zone may have.
    pub(crate) zone_rules_max: Option<u32>,
}

/// Flows that are made for the rules they take, in a zone of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// None.
    Never,
    /// With so many packets each, one flow after the other.
    Short(u32),
    /// So many, which all go on.
    Busy(u32),
}

/// Draws numbers by their weight, in the same time whichever it is (the alias method).
struct Urn {
    /// By place: the chance of staying there, in 1/2^32, and where to go else.
    places: Vec<(u32, u32)>,
    random: Random,
}

impl Urn {
    fn new(weights: &[f64], seed: u64) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut left: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let (mut low, mut high): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|&i| left[i] < 1.0);
        let mut places = vec![(u32::MAX, 0); left.len()];
        while let (Some(poor), Some(&rich)) = (low.pop(), high.last()) {
            places[poor] = ((left[poor] * f64::from(u32::MAX)) as u32, rich as u32);
            left[rich] -= 1.0 - left[poor];
            if left[rich] < 1.0 {
                low.extend(high.pop());
            }
        }
        Self { places, random: Random::new(seed) }
    }

    fn draw(&mut self) -> u32 {
        let bits = self.random.bits();
        let place = ((bits >> 32) * self.places.len() as u64 >> 32) as u32;
        let (stays, other) = self.places[place as usize];
        if bits as u32 <= stays { place } else { other }
    }
}

/// A NIC with little room; each call takes a while.
pub(crate) struct Nic {
    marks: Vec<u32>,
    load: Load,
    /// Flows with rules, by those.
    rules: HashMap<RuleNumber, u32>,
    now: Rc<Cell<u64>>,
    done: Vec<Completion>,
}

impl Nic {
    fn end(&mut self, rule: RuleNumber, result: Result<(), Refusal>) {
        self.now.set(self.now.get() + self.load.call_ns);
        self.done.push(Completion { rule, result });
    }
}

impl RulePort for Nic {
    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, fate: NicAction) {
        let NicAction::Mark { mark, .. } = fate else { panic!("nothing is released") };
        if self.rules.len() >= self.load.room as usize {
            let refusal = Refusal { class: RefusalClass::Full, words: String::new() };
            return self.end(rule, Err(refusal));
        }
        let IpAddr::V4(src) = tuple.src else { unreachable!() };
        let flow = src.to_bits() & 0xff_ffff;
        let mark = std::mem::replace(&mut self.marks[flow as usize], mark);
        assert_eq!(mark, 0, "a flow has one rule at a time");
        self.rules.insert(rule, flow);
        self.end(rule, Ok(()));
    }

    fn destroy(&mut self, rule: RuleNumber) {
        let flow = self.rules.remove(&rule).expect("it is there");
        self.marks[flow as usize] = 0;
        self.end(rule, Ok(()));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

fn frame(flow: u32, vlan: u16) -> Vec<u8> {
    let [_, a, b, c] = flow.to_be_bytes();
    FrameBuilder::ipv4([10, a, b, c], [11, 0, 0, 1]).vlan(vlan).pad().udp(7, 9).build()
}

/// Flows of an attack that are told apart.
const ATTACKERS: u32 = 100_000;
/// VLANs of the others; those of an attack have the next.
const VLANS: u16 = 16;

/// Shares of the packets that are not of an attack.
pub(crate) struct Shares {
    pub(crate) marked: f64,
    /// Those that would be if whoever admits knew every rate and began with the best.
    pub(crate) clairvoyant: f64,
}

/// Everything that there is.
pub(crate) struct World {
    load: Load,
    engine: Engine,
    programmer: Programmer<Nic>,
    now: Rc<Cell<u64>>,
    urn: Urn,
    frames: Vec<Vec<u8>>,
    attacked: u64,
}

impl World {
    pub(crate) fn new(load: Load, admission: OffloadPolicy) -> Self {
        let slots = load.room * 2;
        let layout = MarkLayout::new(32, OffloadConfig::indices(slots)).expect("wide enough");
        let check = MarkVerification::Sampled { first: 2, one_in: 256 };
        let rules_max = load.room;
        let zone_rules_max = load.zone_rules_max;
        let offload = OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check,
            admission,
            rules_max,
            zone_rules_max,
            chooses_marks: false,
            bypass: [BypassConfig::OFF; 2],
        };
        let all_flows = load.flows + if load.attack == Attack::Never { 0 } else { ATTACKERS };
        let config = Config {
            capacity_ipv4: all_flows + all_flows / 4,
            capacity_ipv6: 1,
            offload: Some(offload),
            timeouts: Timeouts::SHORT,
            embryonic_percent: 100,
            ..Config::default()
        };
        let now = Rc::new(Cell::new(0));
        let marks = vec![0; all_flows as usize];
        let (rules, done) = (HashMap::new(), Vec::new());
        let nic = Nic { marks, load, rules, now: Rc::clone(&now), done };
        let limits = Limits { waiting: 1024, quarantine: 1_000_000, reading: 1_000_000 };
        let rank = |rank: u32| f64::from(rank).powf(-load.exponent);
        let weights: Vec<f64> = (1..=load.flows).map(rank).collect();
        Self {
            load,
            engine: Engine::new(&config),
            programmer: Programmer::new(nic, layout, 1, limits, CallPacer::new(256)),
            now,
            urn: Urn::new(&weights, 7),
            frames: (0..all_flows)
                .map(|flow| match flow < load.flows {
                    true => frame(flow, flow as u16 % VLANS),
                    false => frame(flow, VLANS),
                })
                .collect(),
            attacked: 0,
        }
    }

    /// To the end of its time.
    pub(crate) fn run(mut self) -> Shares {
        let Load { packets_per_second, seconds, call_ns, room, .. } = self.load;
        let burst_ns = BURST_MAX as u64 * 1_000_000_000 / packets_per_second;
        let bursts = seconds * 1_000_000_000 / burst_ns;
        let (mut marked, mut clairvoyant) = (0, 0);
        for burst in 0..bursts {
            let time = (burst + 1) * burst_ns;
            let known = (time / call_ns).min(u64::from(room)) as u32;
            let flows: [u32; BURST_MAX] = std::array::from_fn(|_| self.urn.draw());
            marked += self.process(time, &flows);
            clairvoyant += flows.iter().filter(|&&flow| flow < known).count();
            if self.load.attack != Attack::Never {
                let flows = std::array::from_fn(|_| self.attacker());
                self.process(time, &flows);
            }
            if burst % 16 == 0 {
                self.keep_house(time);
            }
        }
        let share = |packets: usize| packets as f64 / (bursts * BURST_MAX as u64) as f64;
        Shares { marked: share(marked), clairvoyant: share(clairvoyant) }
    }

    fn attacker(&mut self) -> u32 {
        let number = self.attacked;
        self.attacked += 1;
        let flow = match self.load.attack {
            Attack::Never => unreachable!("nobody attacks"),
            Attack::Short(packets) => number / u64::from(packets) % u64::from(ATTACKERS),
            Attack::Busy(flows) => number % u64::from(flows),
        };
        self.load.flows + flow as u32
    }

    /// Packets of these flows; how many of them had a mark.
    fn process(&mut self, time: u64, flows: &[u32; BURST_MAX]) -> usize {
        let marks = &self.programmer.port().marks;
        let packets = flows.map(|flow| {
            let mark = marks[flow as usize];
            BytesPacket::new(&self.frames[flow as usize]).marked((mark != 0).then_some(mark))
        });
        let marked = flows.iter().filter(|&&flow| marks[flow as usize] != 0).count();
        self.engine.process_from(Side::A, time, &packets, &mut [Verdict::Forward; BURST_MAX]);
        marked
    }

    /// What a worker and a programmer do beside the packets, until this time.
    fn keep_house(&mut self, time: u64) {
        let Self { engine, programmer, now, .. } = self;
        engine.queue_drained(Side::A);
        engine.queue_drained(Side::B);
        engine.expire(time, 32);
        while engine.next_record().is_some() {}
        engine.recheck_rules(time, 16);
        (0..32)
            .map_while(|_| engine.next_request())
            .for_each(|request| programmer.submit(0, request));
        while now.get() < time {
            match programmer.step(&mut || now.get()) {
                Next::Now => {}
                Next::At(at) => now.set(at.min(time).max(now.get() + 1)),
                Next::Idle => now.set(time),
            }
        }
        while let Some((_, rule, answer)) = programmer.next_answer() {
            engine.apply_result(rule, answer);
        }
    }
}
