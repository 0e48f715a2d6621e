// SPDX-License-Identifier: BSD-3-Clause
//! Access lists whose rules name the state `invalid`: they judge packets that do not fit their
//! connection, also if the connection is decided.

use crate::access::{SECOND, bind, config, list};
use acl::Action;
use engine::{
    Cursor, Engine, ListBinding, ListDirection, RuleHits, Side, Tracking, UntrackedReason, Verdict,
};
use wire::{BytesPacket, FrameBuilder};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A TCP connection between a host behind port A and one behind port B.
struct Talk {
    engine: Engine,
    now: u64,
    /// How far numbers of invalid segments are from those that fit.
    far: u32,
}

impl Talk {
    /// The handshake has the initial sequence numbers 1000 and 5000.
    fn established(lists: &[ListBinding]) -> Self {
        let engine = Engine::new(&config(lists, Tracking::Connections));
        let mut talk = Self { engine, now: SECOND, far: 1 << 30 };
        for (side, flags, numbers) in [
            (Side::A, SYN, [1000, 0]),
            (Side::B, SYN | ACK, [5000, 1001]),
            (Side::A, ACK, [1001, 5001]),
        ] {
            assert_eq!(talk.segment(side, flags, numbers), Verdict::Forward);
        }
        talk
    }

    fn segment(&mut self, side: Side, flags: u8, [seq, ack]: [u32; 2]) -> Verdict {
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).tcp(4000, 80);
        let frame = if side == Side::A { frame } else { frame.reversed() };
        self.send(side, &frame.flags(flags).seq(seq).ack(ack))
    }

    fn send(&mut self, side: Side, frame: &FrameBuilder) -> Verdict {
        let mut verdicts = [Verdict::Hold];
        self.now += 1000;
        let frame = frame.build();
        self.engine.process_from(side, self.now, &[BytesPacket::new(&frame)], &mut verdicts);
        verdicts[0]
    }

    fn hits(&mut self, counters: usize) -> Vec<u64> {
        let mut cursor = Cursor::default();
        while self.engine.settle_rules(&mut cursor, 64) {}
        let mut hits = vec![RuleHits::default(); counters];
        self.engine.add_rule_hits(&mut hits);
        hits.iter().map(|hits| hits.packets).collect()
    }

    /// Sends what the connection cannot have: no flags at all, SYN with FIN, and sequence numbers
    /// and acknowledgments far beyond the window.
    fn send_invalid(&mut self, side: Side) -> Vec<Verdict> {
        let [seq, ack] = if side == Side::A { [1001, 5001] } else { [5001, 1001] };
        let far = self.far;
        [(0, [seq, ack]), (0x03, [seq, ack]), (ACK, [seq + far, ack]), (ACK, [seq, ack + far])]
            .map(|(flags, numbers)| self.segment(side, flags, numbers))
            .to_vec()
    }
}

fn lists(of_a: &[&str], of_b: &[&str]) -> Vec<ListBinding> {
    let bound = |name, side, rules| bind(list(name, Action::Deny, rules), side, ListDirection::In);
    vec![bound("a", Side::A, of_a), bound("b", Side::B, of_b)]
}

const REFLECT: [&str; 1] = ["permit+reflect ct new"];
const ANSWERS: [&str; 1] = ["permit ct established,related,reply"];

#[test]
fn what_does_not_fit_a_reflected_connection_is_denied() {
    let of_a = ["deny ct invalid", REFLECT[0]];
    let of_b = ["count proto udp", "reject ct invalid dst 10.0.0.0/8", ANSWERS[0]];
    let mut talk = Talk::established(&lists(&of_a, &of_b));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Drop; 4]);
    // Two such segments that answer one another would be taken for the connection itself.
    talk.far /= 2;
    assert_eq!(talk.send_invalid(Side::B), [Verdict::Reject; 4]);
    // The connection goes on as if they had not been sent: window, state and counters.
    assert_eq!(talk.segment(Side::A, ACK, [1001, 5001]), Verdict::Forward);
    assert_eq!(talk.segment(Side::B, ACK, [5001, 1001]), Verdict::Forward);
    assert_eq!(talk.hits(7), [4, 5, 0, 0, 4, 0, 0]);
    let stats = talk.engine.stats();
    assert_eq!((stats.tracked, stats.dropped[UntrackedReason::Denied as usize]), (5, 8));
    assert_eq!(stats.anomalies.iter().sum::<u64>(), 8);
}

/// The default of a list judges what none of its rules permits, as it does for other packets.
#[test]
fn a_list_that_names_invalid_denies_by_its_default_too() {
    let of_a = ["permit ct invalid dst 10.0.9.0/24", REFLECT[0]];
    let mut talk = Talk::established(&lists(&of_a, &ANSWERS));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Drop; 4]);
    assert_eq!(talk.hits(5), [0, 3, 4, 0, 0]);
}

/// No rule for packets that arrive at port B names the state.
#[test]
fn other_lists_let_a_connection_have_what_does_not_fit() {
    let mut talk = Talk::established(&lists(&["deny ct invalid", REFLECT[0]], &ANSWERS));
    assert_eq!(talk.send_invalid(Side::B), [Verdict::Forward; 4]);
    let mut talk = Talk::established(&lists(&REFLECT, &ANSWERS));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Forward; 4]);
    assert_eq!(talk.hits(4), [7, 0, 0, 0]);
}

/// If such a packet passes, the rules of its connection count it, and rules that only count do.
#[test]
fn a_permitted_packet_counts_for_the_rules_of_its_connection() {
    let of_a = ["count ct invalid", "permit ct invalid", REFLECT[0]];
    let mut talk = Talk::established(&lists(&of_a, &ANSWERS));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Forward; 4]);
    assert_eq!(talk.hits(6), [4, 0, 7, 0, 0, 0]);
    assert_eq!(talk.engine.stats().tracked, 7);
}
