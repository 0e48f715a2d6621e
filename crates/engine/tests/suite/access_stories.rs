// SPDX-License-Identifier: BSD-3-Clause
//! Access lists in the stories of connections: packets that do not fit, connections that begin
//! anew, fragments, and changes of lists. Tests quote what docs/access-lists.md promises.

use crate::access::{SECOND, bind, config, list, set_lists};
use acl::Action;
use engine::{
    Config, Cursor, Engine, ListBinding, ListDirection, RuleHits, Side, Tracking, Verdict,
};
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

/// An engine with lists, and its time.
pub(crate) struct Run {
    pub(crate) engine: Engine,
    lists: Arc<engine::AccessLists>,
    now: u64,
}

impl Run {
    pub(crate) fn new(bindings: &[ListBinding]) -> Self {
        let config: Config = config(bindings, Tracking::Connections);
        let lists = config.access.clone().unwrap();
        Self { engine: Engine::new(&config), lists, now: SECOND }
    }

    pub(crate) fn send(&mut self, side: Side, frame: &FrameBuilder) -> Verdict {
        let mut verdicts = [Verdict::Hold];
        self.now += 1000;
        let frame = frame.build();
        self.engine.process_from(side, self.now, &[BytesPacket::new(&frame)], &mut verdicts);
        verdicts[0]
    }

    fn reload(&mut self, bindings: &[ListBinding]) {
        set_lists(&mut self.engine, &self.lists.clone(), bindings);
        self.lists = Arc::new(
            engine::AccessLists::new(bindings).unwrap().with_epoch(self.lists.epoch() + 1),
        );
    }

    pub(crate) fn hits(&mut self, counters: usize) -> Vec<u64> {
        let mut cursor = Cursor::default();
        while self.engine.settle_rules(&mut cursor, 64) {}
        let mut hits = vec![RuleHits::default(); counters];
        self.engine.add_rule_hits(&mut hits);
        hits.iter().map(|hits| hits.packets).collect()
    }
}

pub(crate) fn lists(of_a: &[&str], of_b: &[&str]) -> Vec<ListBinding> {
    let bound = |name, side, rules| bind(list(name, Action::Deny, rules), side, ListDirection::In);
    vec![bound("a", Side::A, of_a), bound("b", Side::B, of_b)]
}

fn udp() -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(4000, 53)
}

pub(crate) fn tcp(flags: u8, seq: u32, ack: u32) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).tcp(4000, 80).flags(flags).seq(seq).ack(ack)
}

pub(crate) fn handshake(run: &mut Run) {
    assert_eq!(run.send(Side::A, &tcp(2, 1000, 0)), Verdict::Forward);
    assert_eq!(run.send(Side::B, &tcp(0x12, 5000, 1001).reversed()), Verdict::Forward);
    assert_eq!(run.send(Side::A, &tcp(0x10, 1001, 5001)), Verdict::Forward);
}

pub(crate) const ANSWERS: &str = "permit ct established,related,reply";

/// "A connection goes on if the lists would reflect its first packet"; "The first packet of a
/// connection finds 0."
#[test]
fn a_reload_judges_the_first_packet_with_mark_0() {
    let of_a = ["permit+reflect mark 0/1 ct new set-mark 1/1"];
    let mut run = Run::new(&lists(&of_a, &[ANSWERS]));
    assert_eq!(run.send(Side::A, &udp()), Verdict::Forward);
    assert_eq!(run.send(Side::B, &udp().reversed()), Verdict::Forward);
    assert_eq!(run.send(Side::A, &udp()), Verdict::Forward);
    run.reload(&lists(&[of_a[0], "deny proto 47"], &[ANSWERS]));
    assert_eq!(run.send(Side::A, &udp()), Verdict::Forward);
}

fn ping_fragments() -> Vec<FrameBuilder> {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2])
        .ip_id(77)
        .icmp_echo(7, 1)
        .payload([1; 88])
        .fragments(48)
}

fn ping() -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).icmp_echo(7, 1)
}

/// After a reload between two fragments of a ping, the stored decision must be that of the ping.
#[test]
fn a_later_fragment_after_a_reload_does_not_decide_without_the_type() {
    let of_a = ["permit proto icmp icmp-type 8"];
    let of_b = ["permit proto icmp icmp-type 0"];
    let mut run = Run::new(&lists(&of_a, &of_b));
    assert_eq!(run.send(Side::A, &ping()), Verdict::Forward);
    let pong = FrameBuilder::ipv4([10, 0, 1, 2], [10, 0, 0, 1]).icmp_echo_reply(7, 1);
    assert_eq!(run.send(Side::B, &pong), Verdict::Forward);
    let parts = ping_fragments();
    assert_eq!(run.send(Side::A, &parts[0]), Verdict::Forward);
    run.reload(&lists(&[of_a[0], "deny proto 47"], &of_b));
    let second = run.send(Side::A, &parts[1]);
    let ping_ = run.send(Side::A, &ping());
    let pong_ = run.send(Side::B, &pong);
    assert_eq!((second, ping_, pong_), (Verdict::Forward, Verdict::Forward, Verdict::Forward));
}

/// A rule that only counts must not change which fragments pass.
#[test]
fn a_count_rule_does_not_change_verdicts_of_fragments() {
    for of_a in [
        &["permit proto icmp icmp-type 8"][..],
        &["count proto icmp", "permit proto icmp icmp-type 8"],
    ] {
        let mut run = Run::new(&lists(of_a, &[ANSWERS]));
        for part in ping_fragments() {
            assert_eq!(run.send(Side::A, &part), Verdict::Forward, "{of_a:?}");
        }
    }
}

/// "permit+reflect: the packet passes, and so do all later packets of its connection in both
/// directions, and ICMP errors about it. No list judges them"
#[test]
fn an_icmp_error_passes_after_a_reload() {
    let of_a = ["permit+reflect ct new"];
    let mut run = Run::new(&lists(&of_a, &[]));
    assert_eq!(run.send(Side::A, &udp()), Verdict::Forward);
    let error =
        FrameBuilder::ipv4([10, 9, 9, 9], [10, 0, 0, 1]).icmp_error(3, 1, &udp().build_packet());
    assert_eq!(run.send(Side::B, &error), Verdict::Forward);
    run.reload(&lists(&[of_a[0], "deny proto 47"], &[]));
    assert_eq!(run.send(Side::B, &error), Verdict::Forward);
}

/// A connection of B's own, with the addresses of a closed one, whose answers may have been denied.
#[test]
fn a_new_syn_is_judged_anew_although_answers_of_the_closed_connection_were_denied() {
    for has_answer in [false, true] {
        let of_b = ["permit ct new dst 10.0.0.1 proto tcp dport 4000"];
        let mut run = Run::new(&lists(&["permit"], &of_b));
        assert_eq!(run.send(Side::A, &tcp(2, 1000, 0)), Verdict::Forward);
        if has_answer {
            let answer = tcp(0x12, 5000, 1001).reversed();
            assert_eq!(run.send(Side::B, &answer), Verdict::Drop);
        }
        assert_eq!(run.send(Side::A, &tcp(4, 1001, 0)), Verdict::Forward);
        run.now += 1_000_000_000;
        assert_eq!(run.send(Side::B, &tcp(2, 90_000, 0).reversed()), Verdict::Forward);
    }
}

/// "The lists then judge that packet alone"; a count rule counts each packet once.
#[test]
fn an_invalid_packet_is_counted_once_where_every_packet_is_compared() {
    let of_a = ["count proto tcp", "deny ct invalid", "permit"];
    let mut run = Run::new(&lists(&of_a, &["permit"]));
    handshake(&mut run);
    assert_eq!(run.hits(4)[..4], [2, 0, 2, 0]);
    assert_eq!(run.send(Side::A, &tcp(0x10, 1001 + (1 << 30), 5001)), Verdict::Drop);
    assert_eq!(run.hits(4)[..4], [3, 1, 2, 0]);
}

/// "A packet that is dropped writes nothing"
#[test]
fn a_dropped_invalid_packet_writes_no_mark() {
    let of_a = ["deny ct invalid", "permit proto tcp tcp-flags psh set-mark 1/1", "permit"];
    let mut run = Run::new(&lists(&of_a, &["permit"]));
    handshake(&mut run);
    assert_eq!(run.send(Side::A, &tcp(0x18, 1001 + (1 << 30), 5001)), Verdict::Drop);
    let marks = crate::access::marks_of(&run.engine);
    assert_eq!(marks, [[0, 0]]);
}

/// "is invalid ... The lists then judge that packet alone, whatever is stored": an answer that does
/// not fit ends no time in which its connection is new.
#[test]
fn an_invalid_answer_decides_nothing() {
    let of_a = ["permit ct new"];
    let of_b = ["deny ct invalid", "permit ct established set-mark 1/1"];
    let mut run = Run::new(&lists(&of_a, &of_b));
    assert_eq!(run.send(Side::A, &tcp(2, 1000, 0)), Verdict::Forward);
    // Acknowledges what was never sent.
    assert_eq!(run.send(Side::B, &tcp(0x12, 5000, 99_001).reversed()), Verdict::Drop);
    assert_eq!(crate::access::marks_of(&run.engine), [[0, 0]]);
    // The SYN again: no answer has passed, so its connection is new.
    assert_eq!(run.send(Side::A, &tcp(2, 1000, 0)), Verdict::Forward);
}

/// "whatever is stored with its connection": count ct invalid counts it.
#[test]
fn an_invalid_packet_of_a_denied_direction_is_judged_as_invalid() {
    let of_b = ["count ct invalid", "deny"];
    let mut run = Run::new(&lists(&["permit"], &["permit"]));
    handshake(&mut run);
    run.reload(&lists(&["permit"], &of_b));
    assert_eq!(run.send(Side::A, &tcp(0x10, 1001, 5001)), Verdict::Forward);
    assert_eq!(run.send(Side::B, &tcp(0x10, 5001 + (1 << 29), 1001).reversed()), Verdict::Drop);
    assert_eq!(run.hits(5)[2..], [1, 1, 0]);
}

/// A second change finds the connection as the first one has left it: no packet came in between.
#[test]
fn a_connection_goes_on_after_two_changes() {
    let of_a = ["permit+reflect ct new"];
    let mut run = Run::new(&lists(&of_a, &[]));
    handshake(&mut run);
    run.reload(&lists(&[of_a[0], "deny proto 47"], &[]));
    run.reload(&lists(&of_a, &[]));
    assert_eq!(run.send(Side::B, &tcp(0x10, 5001, 1001).reversed()), Verdict::Forward);
    assert_eq!(run.hits(3), [4, 0, 0]);
}

/// Both hosts have lost the connection (a reboot), and A connects again from the same port. Without
/// lists the SYN+ACK begins the new connection; A's SYN was permitted, so its answer belongs to it.
#[test]
fn an_agreed_syn_is_judged_by_the_port_of_the_syn() {
    for with_lists in [false, true] {
        let of_b: &[&str] = if with_lists { &[ANSWERS] } else { &["permit"] };
        let mut run = Run::new(&lists(&["permit+reflect ct new"], of_b));
        handshake(&mut run);
        run.now += 1_000_000_000;
        assert_eq!(run.send(Side::A, &tcp(2, 3_000_000_000, 0)), Verdict::Forward);
        let answer = tcp(0x12, 77_000_000, 3_000_000_001).reversed();
        assert_eq!(run.send(Side::B, &answer), Verdict::Forward, "lists: {with_lists}");
        assert_eq!(run.send(Side::A, &tcp(0x10, 3_000_000_001, 77_000_001)), Verdict::Forward);
        assert_eq!(
            run.send(Side::B, &tcp(0x18, 77_000_001, 3_000_000_001).reversed()),
            Verdict::Forward
        );
    }
}

/// A later fragment of a denied ping is denied, as one of a denied UDP datagram is.
#[test]
fn later_fragments_of_a_denied_ping_are_denied() {
    let a = list("a", Action::Permit, &["deny proto icmp icmp-type 8"]);
    let mut run = Run::new(&[bind(a, Side::A, ListDirection::In)]);
    for part in ping_fragments() {
        assert_eq!(run.send(Side::A, &part), Verdict::Drop);
    }
}

/// "The lists then judge that packet alone": the rule on flags denies other packets only.
#[test]
fn an_invalid_packet_that_is_permitted_is_not_dropped_as_established() {
    let of_a = ["permit ct invalid", "deny proto tcp tcp-flags urg", "permit"];
    let mut run = Run::new(&lists(&of_a, &["permit"]));
    handshake(&mut run);
    assert_eq!(run.send(Side::A, &tcp(0x30, 1001 + (1 << 30), 5001)), Verdict::Forward);
}

/// After a change, rules on flags are compared with each packet.
#[test]
fn the_reply_of_an_open_connection_is_judged_with_its_own_flags() {
    let of_b = ["permit proto tcp tcp-flags ack/ack", "deny"];
    let mut run = Run::new(&lists(&["permit"], &["permit"]));
    handshake(&mut run);
    run.reload(&lists(&["permit"], &of_b));
    assert_eq!(run.send(Side::A, &tcp(0x10, 1001, 5001)), Verdict::Forward);
    assert_eq!(run.send(Side::B, &tcp(0x10, 5001, 1001).reversed()), Verdict::Forward);
    assert_eq!(run.send(Side::B, &tcp(0x04, 5001, 0).reversed()), Verdict::Drop);
}

/// The lists permit A's connection, but no new one: the SYN passes as a packet of the old one, its
/// answer begins none, and is counted for the rule that denies the SYN.
#[test]
fn an_agreed_syn_that_may_not_begin_is_counted_for_the_rule_that_denies_it() {
    let mut run = Run::new(&lists(&["permit"], &["permit"]));
    handshake(&mut run);
    run.reload(&lists(&["permit ct established", "deny ct new"], &["permit"]));
    assert_eq!(run.send(Side::A, &tcp(0x10, 1001, 5001)), Verdict::Forward);
    run.now += 1_000_000_000;
    assert_eq!(run.send(Side::A, &tcp(2, 3_000_000_000, 0)), Verdict::Forward);
    let answer = tcp(0x12, 77_000_000, 3_000_000_001).reversed();
    assert_eq!(run.send(Side::B, &answer), Verdict::Drop);
    assert_eq!(run.hits(5)[1], 1);
}

/// After an agreed SYN, the packets of A are counted for the rule of A's list.
#[test]
fn an_agreed_syn_leaves_each_direction_its_own_list() {
    let mut run = Run::new(&lists(&["permit"], &["permit"]));
    handshake(&mut run);
    run.now += 1_000_000_000;
    assert_eq!(run.send(Side::A, &tcp(2, 3_000_000_000, 0)), Verdict::Forward);
    assert_eq!(
        run.send(Side::B, &tcp(0x12, 77_000_000, 3_000_000_001).reversed()),
        Verdict::Forward
    );
    let before = run.hits(4);
    for _ in 0..10 {
        assert_eq!(run.send(Side::A, &tcp(0x10, 3_000_000_001, 77_000_001)), Verdict::Forward);
    }
    let after = run.hits(4);
    assert_eq!([after[0] - before[0], after[2] - before[2]], [10, 0]);
}

/// The list of port B denies everything, so no packet that arrives there passes.
#[test]
fn a_list_that_denies_everything_denies_everything() {
    let found: Vec<String> = [0_u8, 1, 4, 0x14]
        .into_iter()
        .flat_map(|first| [0x10, 0x18, 4, 1, 0x12].map(|second| (first, second)))
        .filter(|(first, second)| {
            let bound =
                |name, side, default| bind(list(name, default, &[]), side, ListDirection::In);
            let mut run =
                Run::new(&[bound("a", Side::A, Action::Permit), bound("b", Side::B, Action::Deny)]);
            assert_eq!(run.send(Side::A, &tcp(*first, 1000, 5001)), Verdict::Forward);
            let answer = tcp(*second, 5001, 1001).reversed().payload(b"attack");
            run.send(Side::B, &answer) == Verdict::Forward
        })
        .map(|(first, second)| format!("A {first:02x}, B {second:02x}"))
        .collect();
    assert_eq!(found, [""; 0]);
}

/// Nor does one in random stories of one protocol.
#[test]
fn random_stories_against_a_list_that_denies_everything() {
    let mut found = Vec::new();
    let bound = |name, side, default| bind(list(name, default, &[]), side, ListDirection::In);
    let deny_b = [bound("a", Side::A, Action::Permit), bound("b", Side::B, Action::Deny)];
    let open = [bound("a", Side::A, Action::Permit), bound("b", Side::B, Action::Permit)];
    for seed in 0..7_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        let kind = random(6);
        // Half of the stories begin with lists that permit everything.
        let begins_open = random(2) == 0;
        let mut run = Run::new(if begins_open { &open } else { &deny_b });
        let mut denies = !begins_open;
        let mut story = vec![format!("denies from the start: {denies}")];
        for step in 0..2 + random(5) {
            if !denies && step > 0 && random(3) == 0 {
                run.reload(&deny_b);
                denies = true;
                story.push("reload".into());
            }
            let (frame, what) = random_frame(kind, &mut random);
            let side = if random(3) == 0 { Side::B } else { Side::A };
            let frame = if side == Side::A { frame } else { frame.reversed() };
            run.now += random(3) * SECOND;
            let verdict = run.send(side, &frame);
            story.push(format!("{side:?} {what}"));
            if denies && side == Side::B && verdict == Verdict::Forward {
                found.push(story.clone());
                break;
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

/// After a change to lists that deny everything, nothing passes, whatever was there before.
#[test]
fn random_stories_with_a_reload_that_denies_everything() {
    let mut found = Vec::new();
    let bound = |name, side, rules: &[&str], default| {
        bind(list(name, default, rules), side, ListDirection::In)
    };
    let deny = [bound("a", Side::A, &[], Action::Deny), bound("b", Side::B, &[], Action::Reject)];
    let opens = [
        vec![bound("a", Side::A, &[], Action::Permit), bound("b", Side::B, &[], Action::Permit)],
        lists(&["permit+reflect ct new,invalid"], &[ANSWERS]),
        lists(&["count", "permit"], &["permit proto tcp tcp-flags ack", "permit ct invalid,reply"]),
        vec![bound("a", Side::A, &[], Action::Permit)],
    ];
    for seed in 0..8_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        let (kind, open) = (random(6), &opens[random(4) as usize]);
        let mut run = Run::new(open);
        let (mut denies, mut story) = (false, Vec::new());
        for step in 0..2 + random(6) {
            if step > 0 && random(4) == 0 {
                denies = !denies || random(2) == 0;
                run.reload(if denies { &deny } else { open });
                story.push(format!("reload, denies: {denies}"));
            }
            let (mut frame, mut what) = random_frame(kind, &mut random);
            if random(5) == 0 {
                frame = FrameBuilder::ipv4([10, 9, 9, 9], [10, 0, 1, 2]).icmp_error(
                    3,
                    1,
                    &frame.reversed().build_packet(),
                );
                what = format!("error about {what}");
            }
            let side = if random(2) == 0 { Side::B } else { Side::A };
            let frame = if side == Side::A { frame } else { frame.reversed() };
            run.now += random(3) * SECOND;
            let verdict = run.send(side, &frame);
            story.push(format!("{side:?} {what} {verdict:?}"));
            if denies && verdict == Verdict::Forward {
                found.push(story.clone());
                break;
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

fn random_frame(kind: u64, random: &mut impl FnMut(u64) -> u64) -> (FrameBuilder, String) {
    let base = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]);
    match kind {
        0..=2 => {
            let flags = [2, 0x12, 0x10, 4, 0x14, 1, 0x11, 0, 0x18][random(9) as usize];
            let seq = [1000, 1001, 5000, 5001, 1 << 30][random(5) as usize];
            let ack = [1001, 5001, 0, 7][random(4) as usize];
            let frame = base.tcp(4000, 80).flags(flags).seq(seq).ack(ack);
            (frame, format!("tcp {flags:02x} {seq} {ack}"))
        }
        3 => (base.udp(4000, 53), "udp".into()),
        4 => {
            let kind = [0, 8, 13, 14, 15, 9, 10, 17, 18, 30][random(10) as usize];
            (base.icmp(kind, 0, [0, 7, 0, 1]), format!("icmp {kind}"))
        }
        _ => {
            let kind = [0_u8, 1, 2, 3, 4, 6, 7, 10, 11, 14][random(10) as usize];
            let is_init = kind == 1 || kind == 2;
            let value: &[u8] =
                if is_init { &[0, 0, 0, 9, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1] } else { &[0; 12] };
            let tag = if kind == 1 { 0 } else { 9 };
            let frame = base.sctp(4000, 80).verification_tag(tag).chunk(kind, 0, value);
            (frame, format!("sctp {kind}"))
        }
    }
}
