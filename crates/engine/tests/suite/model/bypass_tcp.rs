// SPDX-License-Identifier: BSD-3-Clause
//! A NIC forwards TCP by itself, except packets with SYN, FIN or RST. The same packets go to an
//! engine without a NIC. Both must forward every packet, count all of them, and end every
//! connection for the same reason.

use engine::{
    BypassAfter, BypassConfig, BypassCount, Config, EndReason, Engine, FiveTuple, FlowRecord,
    InvalidPackets, MarkLayout, MarkVerification, OffloadConfig, OffloadPolicy, RuleAction, RuleId,
    RuleRequest, RuleResult, Side, Timeouts, Tracking, Verdict,
};
use proptest::prelude::*;
use std::collections::HashMap;
use wire::{BytesPacket, FrameBuilder, proto};

const MS: u64 = 1_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Packets of a direction after which the NIC may forward it.
const AFTER: u32 = 3;
const CONNECTIONS: usize = 3;
const WINDOW: u16 = 1000;
/// Window shift that both ends offer.
const SHIFT: u8 = 4;

/// Numbers of one end: the next one that it sends, and the next one that it expects.
#[derive(Clone, Copy, Default)]
struct End {
    next: u32,
    expects: u32,
    has_fin: bool,
}

/// A TCP connection as its ends see it.
#[derive(Clone, Default)]
struct Session {
    ends: [End; 2],
    is_open: bool,
    /// The last segment with data of each end.
    last: [Option<Segment>; 2],
    generation: u32,
}

#[derive(Clone, Copy)]
struct Segment {
    flags: u8,
    seq: u32,
    ack: u32,
    len: usize,
}

/// What happens to a connection next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// An end sends so many segments of this length, and the other acknowledges them.
    Data(usize, u8, usize),
    /// An end repeats its last segment.
    Again(usize),
    /// An end sends data that is lost before the NIC, and then repeats it.
    Lost(usize),
    /// An end sends a probe one byte behind, and gets an answer.
    KeepAlive(usize),
    Fin(usize),
    Rst(usize),
    /// Both ends finish, and the ports are used again.
    Reuse,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Act(usize, Act),
    /// The NIC answers so many requests.
    Work(usize),
    Tell,
    Wait(u64),
}

/// An engine with its records.
struct Tracked {
    engine: Engine,
    records: Vec<FlowRecord>,
}

impl Tracked {
    fn new(offload: Option<OffloadConfig>, tracking: Tracking) -> Self {
        let config = Config {
            capacity_ipv4: 64,
            capacity_ipv6: 64,
            offload,
            tracking,
            deepest: tracking,
            timeouts: Timeouts::SHORT,
            invalid: InvalidPackets::Drop,
            ..Config::default()
        };
        Self { engine: Engine::new(&config), records: Vec::new() }
    }

    fn process(&mut self, end: usize, now: u64, frame: &[u8], mark: Option<u32>) {
        let side = if end == 0 { Side::A } else { Side::B };
        let mut verdict = [Verdict::Drop];
        let packet = BytesPacket::new(frame).marked(mark);
        self.engine.process_from(side, now, &[packet], &mut verdict);
        assert_eq!(verdict, [Verdict::Forward], "at {now}, of end {end}: {frame:?}");
    }

    fn turn(&mut self, now: u64) {
        self.engine.expire(now, 100);
        self.engine.recheck_rules(now, 100);
        self.engine.queue_drained(Side::A);
        self.engine.queue_drained(Side::B);
        self.records.extend(std::iter::from_fn(|| self.engine.next_record()));
    }

    /// Packets, bytes and IP bytes of each end of each connection, as recorded.
    fn sums(&self) -> HashMap<(u16, usize), [u64; 3]> {
        let mut sums = HashMap::new();
        for record in &self.records {
            let client = usize::from(record.sport == 80);
            let port = record.sport.max(record.dport);
            for (end, tally) in [(client, record.orig), (1 - client, record.reply)] {
                let sum: &mut [u64; 3] = sums.entry((port, end)).or_default();
                for (sum, more) in sum.iter_mut().zip([tally.packets, tally.bytes, tally.ip_bytes])
                {
                    *sum += more;
                }
            }
        }
        sums
    }

    fn reasons(&self) -> Vec<(u16, EndReason)> {
        let port = |record: &FlowRecord| record.sport.max(record.dport);
        let mut reasons: Vec<_> =
            self.records.iter().map(|record| (port(record), record.end_reason)).collect();
        reasons.sort_by_key(|(port, reason)| (*port, *reason as usize));
        reasons
    }
}

struct Rule {
    id: RuleId,
    action: RuleAction,
    counted: BypassCount,
}

struct World {
    with_nic: Tracked,
    without: Tracked,
    layout: MarkLayout,
    rules: HashMap<FiveTuple, Rule>,
    waiting: Vec<RuleRequest>,
    sessions: Vec<Session>,
    bypassed: u64,
    now: u64,
}

impl World {
    fn new(tracking: Tracking) -> Self {
        let slots = 16;
        let layout = MarkLayout::new(32, OffloadConfig::indices(slots)).unwrap();
        let bypass = BypassConfig { udp: BypassAfter::Never, tcp: BypassAfter::Packets(AFTER) };
        let offload = OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check: MarkVerification::Sampled { first: 2, one_in: 7 },
            admission: OffloadPolicy::After { packets: 1 },
            rules_max: 64,
            zone_rules_max: None,
            chooses_marks: false,
            bypass: [bypass; 2],
        };
        Self {
            with_nic: Tracked::new(Some(offload), tracking),
            without: Tracked::new(None, tracking),
            layout,
            rules: HashMap::new(),
            waiting: Vec::new(),
            sessions: vec![Session::default(); CONNECTIONS],
            bypassed: 0,
            now: MS,
        }
    }

    /// A segment passes the NIC, and the engine without a NIC.
    fn pass(&mut self, at: usize, end: usize, segment: Segment) {
        let frame = frame(at, end, segment);
        self.without.process(end, self.now, &frame, None);
        let mark = match self.rules.get_mut(&tuple(at, end)) {
            Some(Rule { action: RuleAction::Bypass, counted, .. })
                if segment.flags & (SYN | FIN | RST) == 0 =>
            {
                counted.packets += 1;
                counted.bytes += frame.len() as u64;
                self.bypassed += 1;
                return;
            }
            Some(Rule { id, action: RuleAction::Mark, .. }) => Some(self.layout.encode(*id)),
            _ => None,
        };
        self.with_nic.process(end, self.now, &frame, mark);
    }

    fn send(&mut self, at: usize, end: usize, flags: u8, len: usize) {
        let End { next, expects, .. } = self.sessions[at].ends[end];
        let ack = if flags & (SYN | ACK) == SYN { 0 } else { expects };
        let segment = Segment { flags, seq: next, ack, len };
        let more = len as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.sessions[at].ends[end].next = next.wrapping_add(more);
        if len > 0 {
            self.sessions[at].last[end] = Some(segment);
        }
        self.pass(at, end, segment);
        self.sessions[at].ends[1 - end].expects = next.wrapping_add(more);
    }

    fn open(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        session.generation += 1;
        let first = session.generation.wrapping_mul(0x2345_6789).wrapping_add(at as u32);
        let ends = [first, !first].map(|next| End { next, ..End::default() });
        *session = Session { ends, is_open: true, generation: session.generation, last: [None; 2] };
        self.send(at, 0, SYN, 0);
        self.send(at, 1, SYN | ACK, 0);
        self.send(at, 0, ACK, 0);
    }

    fn fin(&mut self, at: usize, end: usize) {
        if !std::mem::replace(&mut self.sessions[at].ends[end].has_fin, true) {
            self.send(at, end, FIN | ACK, 0);
            self.send(at, 1 - end, ACK, 0);
        }
        self.sessions[at].is_open &= !self.sessions[at].ends.iter().all(|end| end.has_fin);
    }

    fn act(&mut self, at: usize, act: Act) {
        if !self.sessions[at].is_open {
            self.open(at);
        }
        let can_send = |world: &Self, end: usize| !world.sessions[at].ends[end].has_fin;
        match act {
            Act::Data(end, count, len) if can_send(self, end) => {
                for _ in 0..count {
                    self.send(at, end, ACK, len);
                    self.send(at, 1 - end, ACK, 0);
                }
            }
            Act::Again(end) => {
                if let Some(segment) = self.sessions[at].last[end] {
                    self.pass(at, end, segment);
                    self.send(at, 1 - end, ACK, 0);
                }
            }
            Act::Lost(end) if can_send(self, end) => {
                let lost = self.sessions[at].ends[end];
                self.sessions[at].ends[end].next = lost.next.wrapping_add(500);
                let segment = Segment {
                    flags: ACK,
                    seq: lost.next.wrapping_add(500),
                    ack: lost.expects,
                    len: 300,
                };
                self.pass(at, end, segment);
                self.send(at, 1 - end, ACK, 0);
                self.sessions[at].ends[end].next = lost.next;
                self.send(at, end, ACK, 800);
                self.send(at, 1 - end, ACK, 0);
            }
            Act::KeepAlive(end) if can_send(self, end) => {
                let End { next, expects, .. } = self.sessions[at].ends[end];
                let probe = Segment { flags: ACK, seq: next.wrapping_sub(1), ack: expects, len: 0 };
                self.pass(at, end, probe);
                self.send(at, 1 - end, ACK, 0);
            }
            Act::Fin(end) => self.fin(at, end),
            Act::Rst(end) => {
                self.send(at, end, RST | ACK, 0);
                self.sessions[at].is_open = false;
            }
            Act::Reuse => {
                self.fin(at, 0);
                self.fin(at, 1);
                self.open(at);
            }
            Act::Data(..) | Act::Lost(_) | Act::KeepAlive(_) => {}
        }
    }

    fn work(&mut self, most: usize) {
        self.waiting.extend(std::iter::from_fn(|| self.with_nic.engine.next_request()));
        for _ in 0..most.min(self.waiting.len()) {
            match self.waiting.remove(0) {
                RuleRequest::Install { rule: id, tuple, action, .. } => {
                    let rule = Rule { id, action, counted: BypassCount::default() };
                    assert!(self.rules.insert(tuple, rule).is_none(), "one rule at a time");
                    self.with_nic
                        .engine
                        .apply_result(id, RuleResult::Installed { pace: 1000, took: 100 });
                }
                RuleRequest::Remove { rule, .. } => {
                    self.tell(rule);
                    self.rules.retain(|_, there| there.id != rule);
                    self.with_nic.engine.apply_result(rule, RuleResult::Removed);
                }
            }
        }
    }

    fn tell(&mut self, id: RuleId) {
        let Some(rule) = self.rules.values_mut().find(|rule| rule.id == id) else { return };
        let counted = std::mem::take(&mut rule.counted);
        if counted.packets > 0 {
            self.with_nic.engine.apply_result(id, RuleResult::Passed(counted));
        }
    }

    fn tell_all(&mut self) {
        let rules: Vec<_> = self.rules.values().map(|rule| rule.id).collect();
        rules.into_iter().for_each(|id| self.tell(id));
    }

    fn play(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Act(at, act) => self.act(at, act),
                Step::Work(most) => self.work(most),
                Step::Tell => self.tell_all(),
                Step::Wait(span) => self.now += span,
            }
            // No connection is silent for so long that it ends.
            if matches!(step, Step::Wait(_)) {
                self.tell_all();
                let open = |at: &usize| self.sessions[*at].is_open;
                let open: Vec<_> = (0..CONNECTIONS).filter(open).collect();
                for at in open {
                    let end = usize::from(self.sessions[at].ends[0].has_fin);
                    self.act(at, Act::KeepAlive(end));
                }
                self.tell_all();
            }
            self.with_nic.turn(self.now);
            self.without.turn(self.now);
        }
    }

    /// Ends all connections, and waits until none is left.
    fn end(&mut self) {
        for at in (0..CONNECTIONS).filter(|&at| self.sessions[at].is_open).collect::<Vec<_>>() {
            (0..2).for_each(|end| self.fin(at, end));
        }
        self.work(usize::MAX);
        self.tell_all();
        for _ in 0..100 {
            self.now += 100 * MS;
            self.with_nic.turn(self.now);
            self.work(usize::MAX);
            self.without.turn(self.now);
        }
        let left = [&self.with_nic, &self.without].map(|one| one.engine.stats().active());
        assert_eq!(left, [0, 0], "connections are left over");
    }
}

fn tuple(at: usize, end: usize) -> FiveTuple {
    let hosts = [[10, 0, 0, 1], [10, 0, 1, 1]].map(std::net::IpAddr::from);
    let ports = [1000 + at as u16, 80];
    FiveTuple {
        src: hosts[end],
        dst: hosts[1 - end],
        proto: proto::TCP,
        sport: ports[end],
        dport: ports[1 - end],
        zone: 0,
    }
}

fn frame(at: usize, end: usize, segment: Segment) -> Vec<u8> {
    let FiveTuple { src, dst, sport, dport, .. } = tuple(at, end);
    let frame = FrameBuilder::ip(src, dst).tcp(sport, dport);
    let frame = frame.flags(segment.flags).seq(segment.seq).ack(segment.ack).window(WINDOW);
    let options = [3, 3, SHIFT, 1];
    let frame = if segment.flags & SYN != 0 { frame.tcp_options(&options) } else { frame };
    frame.payload(vec![0; segment.len]).build()
}

fn acts() -> impl Strategy<Value = Act> {
    let data = (0..2_usize, 1..40_u8, 1..1400_usize);
    prop_oneof![
        10 => data.prop_map(|(end, count, len)| Act::Data(end, count, len)),
        1 => (0..2_usize).prop_map(Act::Again),
        1 => (0..2_usize).prop_map(Act::Lost),
        1 => (0..2_usize).prop_map(Act::KeepAlive),
        1 => (0..2_usize).prop_map(Act::Fin),
        1 => Just(Act::Reuse),
    ]
}

fn steps(acts: impl Strategy<Value = Act> + 'static) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..CONNECTIONS, acts).prop_map(|(at, act)| Step::Act(at, act)),
        6 => (0..6_usize).prop_map(Step::Work),
        2 => Just(Step::Tell),
        2 => (1..500 * MS).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #[test]
    fn tcp_that_the_nic_forwards_ends_as_without_a_nic(steps in steps(acts())) {
        let mut world = World::new(Tracking::Connections);
        world.play(&steps);
        world.end();
        prop_assert_eq!(world.with_nic.sums(), world.without.sums());
        prop_assert_eq!(world.with_nic.reasons(), world.without.reasons());
        prop_assert_eq!(world.with_nic.engine.offload_stats().unsettled, 0);
    }

    #[test]
    fn flows_that_the_nic_forwards_are_counted(steps in steps(acts())) {
        let mut world = World::new(Tracking::Flows);
        world.play(&steps);
        world.end();
        prop_assert_eq!(world.with_nic.sums(), world.without.sums());
    }

    /// An RST does not end a connection that the NIC forwards, but shortens its timeout.
    #[test]
    fn no_connection_is_left_over_after_resets(
        steps in steps(prop_oneof![9 => acts(), 1 => (0..2_usize).prop_map(Act::Rst)]),
    ) {
        let mut world = World::new(Tracking::Connections);
        world.play(&steps);
        world.end();
        prop_assert_eq!(world.with_nic.sums(), world.without.sums());
    }
}

/// A connection whose both directions the NIC forwards.
fn bypassed() -> World {
    let mut world = World::new(Tracking::Connections);
    for _ in 0..4 {
        world.act(0, Act::Data(0, 64, 100));
        world.work(usize::MAX);
        world.with_nic.turn(world.now);
        world.without.turn(world.now);
    }
    assert_eq!(world.with_nic.engine.bypasses(), 2);
    world
}

#[test]
fn data_of_an_open_connection_costs_the_worker_nothing() {
    let mut world = bypassed();
    let tracked = world.with_nic.engine.stats().tracked;
    world.act(0, Act::Data(1, 100, 1000));
    assert_eq!(world.with_nic.engine.stats().tracked, tracked);
    assert!(world.bypassed >= 200);
}

#[test]
fn a_fin_calls_the_connection_back_before_it_ends() {
    let mut world = bypassed();
    world.act(0, Act::Fin(0));
    world.work(usize::MAX);
    assert_eq!(world.with_nic.engine.bypasses(), 0);
    world.act(0, Act::Data(1, 100, 1000));
    world.end();
    assert_eq!(world.with_nic.reasons(), [(1000, EndReason::Fin)]);
    assert_eq!(world.with_nic.sums(), world.without.sums());
}

/// A forged RST costs the bypass, and no more, while data goes on.
#[test]
fn a_forged_rst_does_not_end_a_connection() {
    let mut world = bypassed();
    let forged = Segment { flags: RST, seq: 12345, ack: 0, len: 0 };
    world.with_nic.process(0, world.now, &frame(0, 0, forged), None);
    world.work(usize::MAX);
    assert_eq!(world.with_nic.engine.bypasses(), 0);
    for _ in 0..10 {
        world.now += 4_000 * MS;
        world.act(0, Act::Data(0, 3, 100));
        world.with_nic.turn(world.now);
    }
    assert_eq!(world.with_nic.engine.stats().active(), 1);
    assert!(world.with_nic.records.is_empty());
    // The windows are known again: what is far from them is refused.
    let far = Segment { flags: ACK, seq: 0x7777_7777, ack: 0x7777_7777, len: 10 };
    let mut verdict = [Verdict::Forward];
    let far = frame(0, 0, far);
    world.with_nic.engine.process_from(Side::A, world.now, &[BytesPacket::new(&far)], &mut verdict);
    assert_eq!(verdict, [Verdict::Drop]);
}

/// What a NIC counts by the rule of a connection whose ports are in use again is not lost.
#[test]
fn ports_that_are_used_again_keep_every_count() {
    let mut world = bypassed();
    world.act(0, Act::Rst(0));
    // The rules are still there.
    world.act(0, Act::Data(0, 50, 100));
    world.end();
    assert_eq!(world.with_nic.sums(), world.without.sums());
    assert_eq!(world.with_nic.engine.offload_stats().unsettled, 0);
}
