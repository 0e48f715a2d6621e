// SPDX-License-Identifier: BSD-3-Clause
//! Compares the table of usual transitions with [`ConnHot::event`].

use super::*;
use crate::api::PROTO_TCP;
use crate::conn::event::Transition;
use crate::conn::record::PackedCounters;
use crate::conn::state_word::StateWord;
use crate::conn::tcp::window::{TcpWindow, WindowScales};
use crate::packet::{ChecksumSource, HeaderInfo, Key, PacketView, TcpHeader, zone_proto};
use proptest::prelude::*;
use std::cell::Cell;
use wire::FrameBuilder;

/// TCP states with window check, and a state of another protocol.
const STATES: [State; 18] = [
    State::TcpSynSent,
    State::TcpSynSent2,
    State::TcpPickedUp,
    State::TcpSynRecv,
    State::TcpEstablished,
    State::TcpOutOfSync,
    State::TcpResumed,
    State::TcpResumedOrig,
    State::TcpResumedReply,
    State::TcpFinWait,
    State::TcpCloseWait,
    State::TcpFinSent,
    State::TcpFinSentReply,
    State::TcpFinAcked,
    State::TcpLastAck,
    State::TcpTimeWait,
    State::TcpClose,
    State::UdpMultiple,
];

/// A connection in any of these states.
#[derive(Clone, Debug)]
struct Known {
    state: State,
    ends: [u32; 2],
    acks: [u32; 2],
    windows: [u16; 2],
    flags: [u8; 2],
    scales: u8,
    swapped: u8,
}

impl Known {
    /// Generates a connection whose numbers are near `base`.
    fn near(base: u32) -> impl Strategy<Value = Self> {
        let number = move || (0..4u32).prop_map(move |ahead| base.wrapping_add(ahead));
        let numbers = move || [number(), number()];
        let room = || prop_oneof![0..3u16, Just(u16::MAX)];
        let flags = || prop::sample::select(vec![0, SYN, ACK, FIN, SYN | FIN, ACK | FIN]);
        let scales = prop_oneof![Just(0), Just(0x77), Just(0xe0), any::<u8>()];
        let state = prop::sample::select(STATES.to_vec());
        let parts =
            (state, numbers(), numbers(), [room(), room()], [flags(), flags()], scales, 0..2u8);
        parts.prop_map(|(state, ends, acks, windows, flags, scales, swapped)| Known {
            state,
            ends,
            acks,
            windows,
            flags,
            scales,
            swapped,
        })
    }

    fn hot(&self) -> ConnHot<2> {
        let vital = StateWord::begin(self.swapped).with_scales(WindowScales(self.scales));
        ConnHot {
            key: Key([0, zone_proto(0, PROTO_TCP)]),
            counters: self.flags.map(|flags| PackedCounters::new(flags, 1, 1, 1)),
            state_word: vital.with_state(self.state),
            window: TcpWindow::of_parts(self.ends, self.acks, self.windows),
            ..ConnHot::FREE
        }
    }
}

/// Generates a segment whose numbers are near these.
fn frame(base: u32) -> impl Strategy<Value = Vec<u8>> {
    let near = move || (0..6u32).prop_map(move |ahead| base.wrapping_add(ahead).wrapping_sub(1));
    let flags = prop_oneof![
        4 => prop::sample::select(vec![SYN, SYN | ACK, ACK, FIN | ACK, ACK | 8]),
        1 => any::<u8>(),
    ];
    let options = prop::sample::select(vec![vec![], vec![1, 3, 3, 7], vec![2, 4, 5, 0xb4]]);
    (flags, near(), near(), 0..3u16, options, 0..3usize).prop_map(
        |(flags, seq, ack, window, options, payload)| {
            let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2).flags(flags);
            let frame = frame.seq(seq).ack(ack).window(window).tcp_options(&options);
            frame.payload(vec![0; payload]).build()
        },
    )
}

#[test]
fn it_says_what_the_long_way_says() {
    let seen = [const { Cell::new(0) }; State::BITS];
    let base = prop_oneof![Just(1000u32), Just(0), Just(u32::MAX)];
    let cases = base.prop_flat_map(|base| (Known::near(base), frame(base), 0..2u8));
    proptest!(ProptestConfig::with_cases(100_000), |((known, frame, swapped) in cases)| {
        let hot = known.hot();
        let meta = PacketMeta::new(frame.len() as u32, 14, frame[47]).sent_by(swapped);
        let info = HeaderInfo::plain(0, 20);
        let header = TcpHeader::of_whole(&frame, &info).unwrap();
        let packet = PacketView {
            is_fragment: false,
            meta,
            header_info: &info,
            now: 0,
            mark: 0,
            side: None,
            header: Some(header),
            chunks: None,
            checksum_source: ChecksumSource::Trusted,
        };
        let mut at_length = hot;
        let event = at_length.event(&packet);
        let Some(next) = hot.fast_next_state(meta) else { return Ok(()) };
        if next == State::TcpSynSent {
            prop_assert_eq!(event, Ok(Transition::Reuse));
            seen[next as usize].set(seen[next as usize].get() + 1);
            return Ok(());
        }
        let (segment, mut in_short) = (header.read(meta, &info), hot);
        prop_assert!(!in_short.apply_fast(next, (meta, segment), || false));
        let bits = (in_short.state_word.bits(), hot.state_word.bits());
        prop_assert_eq!((in_short.window, bits.0), (hot.window, bits.1));
        if in_short.apply_fast(next, (meta, segment), || true) {
            let to = in_short.state();
            let event_of_long = match to == hot.state() {
                true => Transition::None,
                false => Transition::Enter(to),
            };
            prop_assert_eq!(event, Ok(event_of_long));
            at_length.enter(to);
            prop_assert_eq!(in_short.window, at_length.window);
            prop_assert_eq!(in_short.state_word.bits(), at_length.state_word.bits());
            prop_assert_eq!(in_short.expected, at_length.expected);
            seen[to as usize].set(seen[to as usize].get() + 1);
        }
    });
    let next_states = TRANSITIONS.iter().map(|(_, _, _, to)| *to).chain([State::TcpLastAck]);
    for state in next_states {
        assert!(seen[state as usize].get() > 20, "{state:?}");
    }
}
