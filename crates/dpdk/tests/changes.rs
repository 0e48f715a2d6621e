// SPDX-License-Identifier: BSD-3-Clause
//! Rules that come and go while others receive: each holds for every packet that is received after
//! the call that made it has returned, and for none received after that which destroyed it.

use dpdk::flow::{Action, Attributes, Item, ItemKind, Rule, Value};
use dpdk::{Burst, Mbuf, Port, PortConfig, RxQueue};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use testkit::capture::write_pcap;
use testkit::port::{mempool, port_config, start_eal_with_twin};
use testkit::scratch::Scratch;
use wire::{FrameBuilder, Packet};

const FLOWS: usize = 64;
const PACKETS: usize = 32;
const CHANGES: u32 = 30_000;

/// Of a flow: the change that was begun last, and that which is done. Those with odd numbers make
/// its rule, and their number is its mark.
#[derive(Default)]
struct Changes {
    begun: AtomicU32,
    done: AtomicU32,
}

/// The hash that spreads packets is linear: where six bits make all the difference, one key in 64
/// has all flows in one queue.
fn address(flow: usize) -> [u8; 4] {
    let [spread, other, ..] = (flow as u32).wrapping_mul(0x9e37_79b1).to_be_bytes();
    [10, spread, other, flow as u8]
}

/// Of one flow, packets differ in what no rule asks for.
fn frame(flow: usize, number: usize) -> Vec<u8> {
    let ip = FrameBuilder::ipv4(address(flow), [10, 9, 9, 9]);
    ip.udp(7, 8).payload(vec![number as u8; number]).build()
}

fn flow_of(mbuf: &Mbuf) -> usize {
    mbuf.head()[14 + 15].into()
}

fn item(kind: ItemKind, at: usize, bytes: &[u8]) -> Item {
    let (mut spec, mut mask) = ([0; Value::LEN], [0; Value::LEN]);
    spec[at..at + bytes.len()].copy_from_slice(bytes);
    mask[at..at + bytes.len()].fill(0xff);
    Item { spec: Some(Value::new(&spec)), mask: Some(Value::new(&mask)), ..Item::any(kind) }
}

fn queue(flow: usize) -> u16 {
    flow as u16 / 4 % 2
}

/// Some rules do more than marks.
fn rule(flow: usize, mark: u32) -> Rule {
    let addresses = [address(flow), [10, 9, 9, 9]].concat();
    let (ip, udp) = (item(ItemKind::Ipv4, 12, &addresses), item(ItemKind::Udp, 0, &[0, 7, 0, 8]));
    let actions = match flow % 4 {
        0 => vec![Action::Mark(mark), Action::Count(0)],
        1 => vec![Action::Mark(mark), Action::Queue(queue(flow))],
        _ => vec![Action::Mark(mark)],
    };
    let attributes = Attributes { ingress: true, ..Attributes::default() };
    Rule { attributes, pattern: vec![Item::any(ItemKind::Eth), ip, udp], actions }
}

/// Not of a flow: verdicts of all packets have to be made anew.
fn wildcard() -> Rule {
    Rule { pattern: vec![item(ItemKind::Ipv4, 12, &[11])], ..rule(0, 1) }
}

/// Ends the receivers, be it by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn change(port: &mut Port, changes: &[Changes], _over: Over<'_>) {
    let mut rules: Vec<_> = (0..FLOWS).map(|_| None).collect();
    for number in 0..CHANGES {
        // No order that the capture has.
        let flow = number as usize * 29 % FLOWS;
        let Changes { begun, done } = &changes[flow];
        let next = done.load(SeqCst) + 1;
        begun.store(next, SeqCst);
        match rules[flow].take() {
            Some(rule) => port.flow_destroy(rule).map_err(|(_, error)| error).unwrap(),
            None => rules[flow] = Some(port.flow_create(&rule(flow, next)).unwrap()),
        }
        done.store(next, SeqCst);
        if number % 1000 == 0 {
            let all = port.flow_create(&wildcard()).unwrap();
            port.flow_destroy(all).map_err(|(_, error)| error).unwrap();
        }
    }
}

/// How many packets had no mark, and how many had one.
fn receive(
    (number, rx): (u16, &mut RxQueue),
    changes: &[Changes],
    is_over: &AtomicBool,
) -> [u64; 2] {
    let mut burst = Burst::new();
    let mut seen = [0; 2];
    while !is_over.load(SeqCst) {
        let done: Vec<_> = changes.iter().map(|flow| flow.done.load(SeqCst)).collect();
        rx.burst(&mut burst);
        for mbuf in burst.iter() {
            let flow = flow_of(mbuf);
            let (done, begun) = (done[flow], changes[flow].begun.load(SeqCst));
            let good = match mbuf.mark() {
                Some(mark) => (done..=begun).contains(&mark) && mark % 2 == 1,
                None => (done..=begun).any(|change| change % 2 == 0),
            };
            let mark = mbuf.mark();
            assert!(good, "flow {flow}: {mark:?} between changes {done} and {begun}");
            let is_elsewhere = flow % 4 == 1 && mark.is_some() && queue(flow) != number;
            assert!(!is_elsewhere, "flow {flow} in queue {number}");
            seen[usize::from(mark.is_some())] += 1;
        }
        burst.free_all();
    }
    seen
}

#[test]
fn a_rule_holds_when_the_call_has_returned() {
    let Some(eal) = start_eal_with_twin() else { return };
    let frames = (0..PACKETS).flat_map(|i| (0..FLOWS).map(move |flow| frame(flow, i)));
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "changes");
    let capture = scratch.path("changes.pcap");
    write_pcap(&capture, &frames.collect::<Vec<_>>());
    let pool = mempool(&eal, "changes");
    let devargs = format!("net_twin0,replay={capture},loops=forever");
    let mut port = Port::probe(&eal, &devargs).unwrap();
    port.negotiate_marks().unwrap();
    let queues = PortConfig { tx_queues: 0, ..port_config(2, 64, pool) };
    let (mut queues, _) = port.configure(&queues).unwrap();
    drop(scratch);

    let changes: Vec<_> = (0..FLOWS).map(|_| Changes::default()).collect();
    let is_over = AtomicBool::new(false);
    let seen: Vec<_> = std::thread::scope(|scope| {
        let (changes, is_over) = (&changes, &is_over);
        let receivers = (0..).zip(&mut queues);
        let receivers: Vec<_> = receivers
            .map(|numbered| scope.spawn(move || receive(numbered, changes, is_over)))
            .collect();
        change(&mut port, changes, Over(is_over));
        receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect()
    });
    for seen in seen {
        assert!(seen.iter().all(|&packets| packets > 0), "without a mark, with one: {seen:?}");
    }
    count(&mut port, &mut queues);
}

/// What has the mark of a rule that counts is counted.
fn count(port: &mut Port, queues: &mut [RxQueue]) {
    port.flow_flush().unwrap();
    // By now nothing is to be made anew but for the rule.
    receive_twice(queues, None);
    let rule = port.flow_create(&rule(0, 1)).unwrap();
    let marked = receive_twice(queues, Some(1));
    assert_eq!(port.flow_query_count(&rule, false).unwrap().hits, Some(marked));
}

/// All packets of the first flow, with this mark: how many.
fn receive_twice(queues: &mut [RxQueue], mark: Option<u32>) -> u64 {
    let (mut burst, mut count) = (Burst::new(), 0);
    while count < 2 * PACKETS {
        for rx in &mut *queues {
            rx.burst(&mut burst);
            let is_wanted = |mbuf: &&Mbuf| flow_of(mbuf) == 0 && mbuf.mark() == mark;
            count += burst.iter().filter(is_wanted).count();
            burst.free_all();
        }
    }
    count as u64
}
