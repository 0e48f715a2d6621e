// SPDX-License-Identifier: BSD-3-Clause
//! Access lists whose rules name the state `invalid`: they judge packets that do not fit their
//! connection, also if the connection is decided.

use crate::access_stories::{ANSWERS, Run, handshake, lists, tcp};
use engine::{ListBinding, Side, UntrackedReason, Verdict};

const ACK: u8 = 0x10;

/// A TCP connection between a host behind port A and one behind port B.
struct Talk {
    run: Run,
    /// How far numbers of invalid segments are from those that fit.
    far: u32,
}

impl Talk {
    /// The handshake has the initial sequence numbers 1000 and 5000.
    fn established(lists: &[ListBinding]) -> Self {
        let mut run = Run::new(lists);
        handshake(&mut run);
        Self { run, far: 1 << 30 }
    }

    fn segment(&mut self, side: Side, flags: u8, [seq, ack]: [u32; 2]) -> Verdict {
        let frame = tcp(flags, seq, ack);
        self.run.send(side, &if side == Side::A { frame } else { frame.reversed() })
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

const REFLECT: [&str; 1] = ["permit+reflect ct new"];

#[test]
fn what_does_not_fit_a_reflected_connection_is_denied() {
    let of_a = ["deny ct invalid", REFLECT[0]];
    let of_b = ["count proto udp", "reject ct invalid dst 10.0.0.0/8", ANSWERS];
    let mut talk = Talk::established(&lists(&of_a, &of_b));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Drop; 4]);
    // Two such segments that answer one another would be taken for the connection itself.
    talk.far /= 2;
    assert_eq!(talk.send_invalid(Side::B), [Verdict::Reject; 4]);
    // The connection goes on as if they had not been sent: window, state and counters.
    assert_eq!(talk.segment(Side::A, ACK, [1001, 5001]), Verdict::Forward);
    assert_eq!(talk.segment(Side::B, ACK, [5001, 1001]), Verdict::Forward);
    assert_eq!(talk.run.hits(7), [4, 5, 0, 0, 4, 0, 0]);
    let stats = talk.run.engine.stats();
    assert_eq!((stats.tracked, stats.dropped[UntrackedReason::Denied as usize]), (5, 8));
    assert_eq!(stats.anomalies.iter().sum::<u64>(), 8);
}

/// The default of a list judges what none of its rules permits, as it does for other packets.
#[test]
fn a_list_that_names_invalid_denies_by_its_default_too() {
    let of_a = ["permit ct invalid dst 10.0.9.0/24", REFLECT[0]];
    let mut talk = Talk::established(&lists(&of_a, &[ANSWERS]));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Drop; 4]);
    assert_eq!(talk.run.hits(5), [0, 3, 4, 0, 0]);
}

/// No rule for packets that arrive at port B names the state.
#[test]
fn other_lists_let_a_connection_have_what_does_not_fit() {
    let mut talk = Talk::established(&lists(&["deny ct invalid", REFLECT[0]], &[ANSWERS]));
    assert_eq!(talk.send_invalid(Side::B), [Verdict::Forward; 4]);
    let mut talk = Talk::established(&lists(&REFLECT, &[ANSWERS]));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Forward; 4]);
    assert_eq!(talk.run.hits(4), [7, 0, 0, 0]);
}

/// If such a packet passes, the rules of its connection count it, and rules that only count do.
#[test]
fn a_permitted_packet_counts_for_the_rules_of_its_connection() {
    let of_a = ["count ct invalid", "permit ct invalid", REFLECT[0]];
    let mut talk = Talk::established(&lists(&of_a, &[ANSWERS]));
    assert_eq!(talk.send_invalid(Side::A), [Verdict::Forward; 4]);
    assert_eq!(talk.run.hits(6), [4, 0, 7, 0, 0, 0]);
    assert_eq!(talk.run.engine.stats().tracked, 7);
}
