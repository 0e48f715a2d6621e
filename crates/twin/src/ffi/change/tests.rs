// SPDX-License-Identifier: BSD-3-Clause
//! Tests that a receiver that stores verdicts, as the driver does, never uses an old one.

use super::*;
use crate::action::{Action, Spread};
use crate::faults::Faults;
use crate::headers::Headers;
use crate::nic::Verdict;
use crate::pattern::{Attributes, HEADER_MAX, Item, Proto};
use crate::personality::{Duplicate, OnStop, Personality};
use crate::rss::{KEY_LEN, Rss, RssTypes};
use crate::tuple::Tuple;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use wire::FrameBuilder;

/// Packets of a block.
const BLOCK: usize = 64;

/// State of a block, as in the C code.
#[derive(Default)]
struct Block {
    generation: u64,
    old: u64,
}

/// Notifications that the receiver has not processed yet.
type Updates = Arc<Mutex<Vec<(Vec<u32>, bool)>>>;

/// A capture, and its receiver's state.
struct Replay {
    nic: TwinNic,
    now_us: u64,
    frames: Vec<Vec<u8>>,
    blocks: Vec<Block>,
    verdicts: Vec<Verdict>,
    updates: Updates,
}

impl Replay {
    fn new(nic: Nic, frames: Vec<Vec<u8>>) -> Self {
        let nic = TwinNic::of(nic);
        let blocks = frames.chunks(BLOCK).map(|_| Block::default()).collect();
        let index = Index::of(frames.len(), |packet| &frames[packet as usize]);
        let updates = Updates::default();
        let update = {
            let updates = Arc::clone(&updates);
            move |Packets { numbers, are_alike }: Packets<'_>| {
                updates.lock().unwrap().push((numbers.to_vec(), are_alike));
            }
        };
        *nic.follower.lock().unwrap() = Some(CaptureClient { index, update: Box::new(update) });
        let verdicts = vec![Verdict::default(); frames.len()];
        let mut replay = Self { nic, now_us: 1, frames, blocks, verdicts, updates };
        (0..replay.blocks.len()).for_each(|block| _ = replay.receive(block));
        replay
    }

    fn generation(&self) -> u64 {
        let change_us = self.nic.change_us.load(Ordering::Relaxed);
        if change_us != 0 && self.now_us >= change_us {
            self.nic.settle(self.now_us);
        }
        self.nic.generation.load(Ordering::Acquire)
    }

    /// Processes notifications as the driver does before a call about rules returns. Alike packets
    /// get the mark of the first, if their verdicts do not differ otherwise. The others become old.
    /// Returns the numbers of packets with a new mark, and of old ones.
    fn heed(&mut self) -> [usize; 2] {
        let updates = std::mem::take(&mut *self.updates.lock().unwrap());
        let mut counts = [0; 2];
        for (numbers, are_alike) in updates {
            let first = numbers.first().map(|&first| self.now(first as usize));
            for number in numbers.into_iter().map(|number| number as usize) {
                let verdict = &mut self.verdicts[number];
                let Verdict { checksums, mark, flag, .. } = *verdict;
                let first = first.expect("there is one");
                let as_if = Verdict { checksums, mark, flag, ..first };
                let is_now = are_alike && !first.drop && as_if == *verdict;
                if is_now {
                    (verdict.mark, verdict.flag) = (first.mark, first.flag);
                } else {
                    self.blocks[number / BLOCK].old |= 1 << (number % BLOCK);
                }
                counts[usize::from(!is_now)] += 1;
            }
        }
        counts
    }

    /// Returns the packets of a block whose verdicts are old, each with its bit.
    fn old(&self, block: usize) -> Vec<usize> {
        let generation = self.generation();
        let Block { generation: own, old } = self.blocks[block];
        let bits = if own < generation { u64::MAX } else { old };
        let begin = block * BLOCK;
        let packets = begin..self.frames.len().min(begin + BLOCK);
        packets.filter(|packet| bits & 1 << (packet - begin) != 0).collect()
    }

    /// Receives a block: classifies packets with old verdicts again. Returns their number.
    fn receive(&mut self, block: usize) -> usize {
        let old = self.old(block);
        self.blocks[block] = Block { generation: self.generation(), old: 0 };
        for &packet in &old {
            self.verdicts[packet] = self.now(packet);
        }
        old.len()
    }

    fn now(&self, packet: usize) -> Verdict {
        self.nic.read().foresee(&self.frames[packet], self.now_us)
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for block in 0..self.blocks.len() {
            let old = self.old(block);
            let begin = block * BLOCK;
            let packets = begin..self.frames.len().min(begin + BLOCK);
            for packet in packets.filter(|packet| !old.contains(packet)) {
                prop_assert_eq!(self.verdicts[packet], self.now(packet), "packet {}", packet);
            }
        }
        Ok(())
    }
}

/// Ends of a packet, from few values, so that rules match packets.
#[derive(Clone, Copy, Debug)]
struct Ends {
    is_v6: bool,
    src: u8,
    dst: u8,
    /// TCP, UDP, SCTP.
    transport: usize,
    sport: u8,
    dport: u8,
}

fn ends() -> impl Strategy<Value = Ends> {
    let bit = || 0..2_u8;
    let (src, dst, sport, dport) = (bit(), bit(), bit(), bit());
    (any::<bool>(), src, dst, 0..3_usize, sport, dport).prop_map(
        |(is_v6, src, dst, transport, sport, dport)| Ends {
            is_v6,
            src,
            dst,
            transport,
            sport,
            dport,
        },
    )
}

fn v6(last: u8) -> [u8; 16] {
    let mut address = [0x20; 16];
    address[15] = last;
    address
}

/// Returns a frame. Some kinds have no tuple, or share one: fragments, tunnels, ICMP, tags.
fn frame(ends: Ends, kind: u8) -> Vec<u8> {
    let Ends { is_v6, src, dst, transport, .. } = ends;
    let (sport, dport) = (ends.sport.into(), ends.dport.into());
    let ip = || match is_v6 {
        true => FrameBuilder::ipv6(v6(src), v6(dst)),
        false => FrameBuilder::ipv4([10, 0, 0, src], [10, 0, 0, dst]),
    };
    let whole = |ip: FrameBuilder| match transport {
        0 => ip.tcp(sport, dport),
        1 => ip.udp(sport, dport),
        _ => ip.sctp(sport, dport),
    };
    match kind {
        0 => whole(ip().vlan(5)).build(),
        1 => whole(ip()).fragment(0, true).build(),
        2 => whole(ip()).fragment(8, false).build(),
        3 => ip().icmp_echo(1, 2).build(),
        4 => {
            let inside = whole(ip()).build();
            ip().udp(9, 4789).payload([&[8, 0, 0, 0, 0, 0, 7, 0], &inside[..]].concat()).build()
        }
        _ => {
            let mut frame = whole(ip()).build();
            frame[14 + hops(is_v6)] = kind % 2;
            if !is_v6 && kind % 3 == 0 {
                frame[14 + OFFSET] ^= DONT_FRAGMENT;
            }
            frame
        }
    }
}

/// Returns the offset of the hop limit in the header.
fn hops(is_v6: bool) -> usize {
    if is_v6 { 7 } else { 8 }
}

/// Offset of the IPv4 field with the fragment offset and the flags.
const OFFSET: usize = 6;
const DONT_FRAGMENT: u8 = 0x40;

/// Draws a mask for each byte of a field: all bits, none, or some.
fn mask() -> impl Strategy<Value = u8> {
    prop_oneof![8 => Just(0xff), 1 => Just(0), 1 => Just(0xfe)]
}

#[derive(Clone, Debug)]
struct RandomRule {
    ends: Ends,
    /// Masks of both addresses and both ports.
    masks: [u8; 4],
    hops: Option<u8>,
    /// Flags beside which the rule matches whole packets only; `None` if it does not.
    whole: Option<u8>,
    has_transport: bool,
    has_tag: Option<bool>,
    attributes: Attributes,
    actions: Vec<Action>,
}

fn put(item: &mut Item, bytes: std::ops::Range<usize>, value: u8, mask: u8) {
    item.mask[bytes.clone()].fill(mask);
    match bytes.len() {
        16 => item.spec[bytes].copy_from_slice(&v6(value)),
        4 => item.spec[bytes].copy_from_slice(&[10, 0, 0, value]),
        _ => item.spec[bytes].copy_from_slice(&[0, value]),
    }
}

fn empty(proto: Proto) -> Item {
    Item::masked(proto, [0; HEADER_MAX], [0; HEADER_MAX])
}

impl RandomRule {
    fn items(&self) -> Vec<Item> {
        let Ends { is_v6, src, dst, transport, sport, dport } = self.ends;
        let mut eth = empty(Proto::Eth);
        eth.followed = self.has_tag;
        let mut ip = empty(if is_v6 { Proto::Ipv6 } else { Proto::Ipv4 });
        let [of_src, of_dst] = if is_v6 { [8..24, 24..40] } else { [12..16, 16..20] };
        put(&mut ip, of_src, src, self.masks[0]);
        put(&mut ip, of_dst, dst, self.masks[1]);
        if let Some(wanted) = self.hops {
            (ip.spec[hops(is_v6)], ip.mask[hops(is_v6)]) = (wanted, 0xff);
        }
        match self.whole {
            Some(_) if is_v6 => ip.followed = Some(false),
            Some(flags) => ip.mask[OFFSET..OFFSET + 2].copy_from_slice(&[0x3f | flags, 0xff]),
            None => {}
        }
        let mut ports = empty([Proto::Tcp, Proto::Udp, Proto::Sctp][transport]);
        put(&mut ports, 0..2, sport, self.masks[2]);
        put(&mut ports, 2..4, dport, self.masks[3]);
        let mut items = vec![eth, ip];
        items.extend(self.has_transport.then_some(ports));
        items
    }
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let spread = Spread { types: RssTypes(8), queues: Box::new([1, 0]) };
    let destination = prop_oneof![
        3 => Just(Action::Passthru),
        2 => Just(Action::Queue(1)),
        1 => Just(Action::Drop),
        1 => Just(Action::Jump(1)),
        1 => Just(Action::Rss(spread)),
    ];
    (any::<bool>(), 1..99_u32, destination).prop_map(|(counts, mark, destination)| {
        let mut actions = vec![Action::Mark(mark), destination];
        actions.extend(counts.then_some(Action::Count));
        actions
    })
}

fn random_rule() -> impl Strategy<Value = RandomRule> {
    let masks = [mask(), mask(), mask(), mask()];
    let has_tag = prop_oneof![4 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let place = (prop_oneof![3 => Just(0_u32), 1 => Just(1)], 0..2_u32);
    let hops = prop::option::weighted(0.1, 0..2_u8);
    let flags = prop_oneof![4 => Just(0), 1 => Just(DONT_FRAGMENT)];
    let of_ip = (hops, prop::option::weighted(0.3, flags));
    let (items, rest) = ((prop::bool::weighted(0.9), has_tag, of_ip), (place, actions()));
    (ends(), masks, items, rest).prop_map(|(ends, masks, items, (place, actions))| {
        let (has_transport, has_tag, (hops, whole)) = items;
        let attributes = Attributes { group: place.0, priority: place.1, ..Attributes::INGRESS };
        RandomRule { ends, masks, hops, whole, has_transport, has_tag, attributes, actions }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Create(RandomRule),
    /// Creates an earlier rule again.
    Repeat(prop::sample::Index),
    /// Destroys an earlier rule, which may no longer exist.
    Destroy(prop::sample::Index),
    Flush,
    /// Sets another RETA.
    Spread(u16),
    Isolate(bool),
    Restart,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => random_rule().prop_map(Step::Create),
        3 => any::<prop::sample::Index>().prop_map(Step::Repeat),
        8 => any::<prop::sample::Index>().prop_map(Step::Destroy),
        1 => Just(Step::Flush),
        1 => (0..3_u16).prop_map(Step::Spread),
        1 => any::<bool>().prop_map(Step::Isolate),
        1 => Just(Step::Restart),
        4 => (0..9_u64).prop_map(Step::Pass),
    ]
}

impl Replay {
    fn take(&mut self, step: Step, made: &mut Vec<(RandomRule, Handle)>) {
        match step {
            Step::Create(random_rule) => self.create(random_rule, made),
            Step::Repeat(_) | Step::Destroy(_) if made.is_empty() => {}
            Step::Repeat(index) => self.create(index.get(made).0.clone(), made),
            Step::Destroy(index) => {
                let _ = self.nic.destroy(index.get(made).1, self.now_us);
            }
            Step::Flush => _ = self.nic.change(Nic::flush),
            Step::Spread(queue) => {
                let rss = Rss::new(RssTypes(8), &[7; KEY_LEN], vec![queue, 1]);
                self.nic.write().set_rss(rss);
            }
            Step::Isolate(is_isolated) => _ = self.nic.write().isolate(is_isolated),
            Step::Restart => [false, true]
                .into_iter()
                .for_each(|is_started| self.nic.change(|nic| nic.set_started(is_started))),
            Step::Pass(us) => self.now_us += us,
        }
    }

    fn create(&self, random_rule: RandomRule, made: &mut Vec<(RandomRule, Handle)>) {
        let items = random_rule.items();
        let (attributes, actions) = (random_rule.attributes, &random_rule.actions[..]);
        let created = self.nic.create(Rule { attributes, items: &items, actions }, self.now_us);
        made.extend(created.ok().map(|answer| (random_rule, answer.value)));
    }
}

/// Returns personalities that treat accepted rules differently.
fn personality(number: u8) -> Personality {
    let mut personality = Personality::default();
    match number {
        0 => personality.table.duplicate = Duplicate::LastWins,
        1 => personality.table.duplicate = Duplicate::FirstWins,
        2 => personality.latency.effective_after_us = 5,
        3 => personality.latency.effective_until_us = 7,
        4 => {
            let mut ahead = Personality::default();
            ahead.table.guaranteed = Some(2);
            personality.ahead = Some(Box::new(ahead));
            personality.port.on_stop = OnStop::Flush;
        }
        5 => personality.port.on_stop = OnStop::Stale,
        6 => personality.count.max = Some(1),
        _ => {}
    }
    personality
}

const FAULTS: [&str; 7] = [
    "destroy-leaves-rule:0.5",
    "undeletable:0.2+phantom-success:0.3",
    "mask-ignored:0.3+truncated-mark",
    "late-activation:0.3",
    "receive-stall:0.2",
    "random:0.1",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(1_000, 20_000)))]

    #[test]
    fn verdicts_that_are_not_old_are_those_of_now(
        packets in prop::collection::vec((ends(), 0..20_u8), 70..150),
        (number, faults) in (0..8_u8, 0..10_usize),
        steps in prop::collection::vec((step(), prop::option::of(any::<[bool; 3]>())), 1..60),
    ) {
        let frames = packets.into_iter().map(|(ends, kind)| frame(ends, kind)).collect();
        let faults = Faults::parse(FAULTS.get(faults).unwrap_or(&""), 1).unwrap();
        let mut nic = Nic::with_faults(personality(number), 1, faults);
        nic.set_queues(2);
        nic.set_started(true);
        let mut replay = Replay::new(nic, frames);
        let mut made = Vec::new();
        for (step, received) in steps {
            replay.take(step, &mut made);
            replay.heed();
            // Between some steps, no packet is received.
            let Some(received) = received else { continue };
            replay.check()?;
            let received = (0..replay.blocks.len()).filter(|&block| received[block]);
            let received: Vec<_> = received.collect();
            received.into_iter().for_each(|block| _ = replay.receive(block));
        }
    }
}

fn flow(number: u32) -> Vec<u8> {
    FrameBuilder::ipv4(0x0a00_0000 + number, [10, 9, 9, 9]).tcp(80, 443).build()
}

/// Returns the items of an exact rule for the flow with this number.
fn items_of(number: u32) -> [Item; 2] {
    let (mut ip, mut tcp) = (empty(Proto::Ipv4), empty(Proto::Tcp));
    ip.spec[12..16].copy_from_slice(&(0x0a00_0000 + number).to_be_bytes());
    ip.spec[16..20].copy_from_slice(&[10, 9, 9, 9]);
    ip.mask[12..20].fill(0xff);
    tcp.spec[..4].copy_from_slice(&[0, 80, 1, 187]);
    tcp.mask[..4].fill(0xff);
    [ip, tcp]
}

/// The capture has each flow twice, in two blocks.
#[test]
fn receivers_need_not_judge_for_an_exact_rule() {
    const FLOWS: u32 = 5000;
    let frames = (0..2 * FLOWS).map(|packet| flow(packet % FLOWS)).collect();
    let mut replay = Replay::new(Nic::new(Personality::default(), 1), frames);
    for number in (0..FLOWS).step_by(50) {
        let items = items_of(number);
        let (attributes, actions) = (Attributes::INGRESS, &[Action::Mark(number + 1)]);
        let made = replay.nic.create(Rule { attributes, items: &items, actions }, 1).unwrap();
        assert_eq!(replay.heed(), [2, 0], "both packets of flow {number}, and no others");
        replay.check().unwrap();
        let packets = [number, number + FLOWS].map(|packet| packet as usize);
        assert_eq!(packets.map(|packet| replay.verdicts[packet].mark), [Some(number + 1); 2]);
        if number % 100 == 0 {
            replay.nic.destroy(made.value, 1).unwrap();
            assert_eq!(replay.heed(), [2, 0]);
            assert_eq!(packets.map(|packet| replay.verdicts[packet].mark), [None; 2]);
        }
        replay.check().unwrap();
    }
}

/// A rule that matches more than a tuple may distinguish packets of one tuple.
#[test]
fn packets_are_alike_as_far_as_rules_see() {
    let (vlan, plain) = (|tag| FrameBuilder::ipv4([10, 0, 0, 0], [10, 9, 9, 9]).vlan(tag), flow(0));
    let tagged = [5, 6].map(|tag| vlan(tag).tcp(80, 443).build());
    let create = |replay: &Replay, items: &[Item], mark| {
        let (attributes, actions) = (Attributes::INGRESS, &[Action::Mark(mark)]);
        replay.nic.create(Rule { attributes, items, actions }, 1).unwrap()
    };
    let is_alike = |replay: &mut Replay| replay.heed()[1] == 0;
    let fragment = vlan(5).fragment(0, true).tcp(80, 443).build();
    for other in [&plain, &tagged[0], &tagged[1], &fragment] {
        let frames = vec![tagged[0].clone(), other.clone()];
        let mut replay = Replay::new(Nic::new(Personality::default(), 1), frames);
        create(&replay, &items_of(0), 1);
        assert_eq!(is_alike(&mut replay), *other == tagged[0]);
    }
    // Packets of one tuple, of which only one has a tunnel header.
    let outside = |len| {
        let ip = FrameBuilder::ipv4([10, 0, 0, 0], [10, 9, 9, 9]);
        ip.udp(80, 4789).payload(vec![8; len]).build()
    };
    let [ip, mut udp] = items_of(0);
    udp.proto = Proto::Udp;
    udp.spec[2..4].copy_from_slice(&4789_u16.to_be_bytes());
    let frames = vec![outside(60), outside(4)];
    let mut replay = Replay::new(Nic::new(Personality::default(), 1), frames);
    create(&replay, &[ip, udp, empty(Proto::Vxlan)], 1);
    assert!(!is_alike(&mut replay));
    let mut replay = Replay::new(Nic::new(Personality::default(), 1), vec![plain; 2]);
    let mut with_ttl = items_of(0);
    (with_ttl[0].spec[8], with_ttl[0].mask[8]) = (64, 0xff);
    let made = create(&replay, &with_ttl, 1);
    assert!(!is_alike(&mut replay));
    create(&replay, &items_of(0), 2);
    assert!(!is_alike(&mut replay), "while there is a rule that sees more");
    replay.nic.destroy(made.value, 1).unwrap();
    assert!(is_alike(&mut replay), "no rule sees more any longer");
    let mut whole = items_of(0);
    whole[0].mask[OFFSET..OFFSET + 2].copy_from_slice(&[0x3f, 0xff]);
    let made = create(&replay, &whole, 3);
    assert!(is_alike(&mut replay), "fragments are not alike anyway");
    replay.nic.destroy(made.value, 1).unwrap();
    whole[0].mask[OFFSET] |= DONT_FRAGMENT;
    create(&replay, &whole, 4);
    assert!(!is_alike(&mut replay), "other packets may have this flag");
}

#[test]
fn packets_without_a_tuple_are_in_no_index() {
    let ends = Ends { is_v6: false, src: 1, dst: 0, transport: 0, sport: 1, dport: 1 };
    let tuples = [2, 3].map(|kind| {
        let frame = frame(ends, kind);
        Tuple::of_frame(&frame, &Headers::of(&frame))
    });
    assert_eq!(tuples, [None; 2]);
}
