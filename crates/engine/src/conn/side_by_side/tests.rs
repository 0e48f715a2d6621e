// SPDX-License-Identifier: BSD-3-Clause
//! Tests packets counted side by side against the same packets counted one by one.

use super::{EIGHT, MarkedEight, count_eight};
use crate::base::{Micros, SimdLevel};
use crate::conn::record::{ConnHot, PackedCounters};
use crate::conn::sampler::NoSampling;
use crate::conn::state::State;
use crate::conn::state_word::StateWord;
use crate::conn::tcp::window::{TcpWindow, WindowScales};
use crate::packet::{PacketMeta, PlainBatch, SeqNumbers};
use proptest::prelude::*;

/// A packet, its mark and its record.
#[derive(Clone, Copy, Debug)]
struct Case {
    state: State,
    shifts: u8,
    window: TcpWindow,
    expected: u32,
    mark: u32,
    flags: u8,
    numbers: SeqNumbers,
    counted_before: u64,
}

/// Numbers near one another, near a bound, or arbitrary.
fn near() -> impl Strategy<Value = u32> {
    const BOUNDS: [u32; 8] =
        [0, 1 << 29, 1 << 30, 1 << 31, 65_535, 66_000, 65_535 << 7, 65_535 << 14];
    let signed = (proptest::sample::select(&BOUNDS[..]), -3..4_i32, any::<bool>());
    let signed = signed.prop_map(|(bound, by, is_behind): (u32, i32, bool)| {
        let number = bound.wrapping_add_signed(by);
        if is_behind { number.wrapping_neg() } else { number }
    });
    prop_oneof![4 => Just(0), 4 => signed, 1 => any::<u32>()]
}

fn case() -> impl Strategy<Value = Case> {
    const STATES: [State; 9] = [
        State::TcpEstablished,
        State::TcpEstablished,
        State::TcpSynSent,
        State::TcpFinSent,
        State::TcpFinAcked,
        State::UdpMultiple,
        State::IcmpReply,
        State::FlowFirst,
        State::FlowMultiple,
    ];
    const FLAGS: [u8; 8] = [0x10, 0x10, 0x18, 0, 0x11, 0x12, 0x04, 0xff];
    let record = (proptest::sample::select(&STATES[..]), shifts(), any::<[u16; 2]>());
    let numbers = ([near(), near()], [near(), near()], [near(), near()]);
    let packet = (proptest::sample::select(&FLAGS[..]), any::<u16>(), 0..2000_u32, 0..2_u32);
    (record, numbers, packet, prop_oneof![9 => Just(8), 1 => 0..20_u32], any::<u64>()).prop_map(
        |((state, shifts, windows), (ends, acks, [seq, ack]), packet, expected, counted)| {
            let (flags, window, len, direction) = packet;
            Case {
                state,
                shifts,
                window: TcpWindow::of_parts(ends, acks, windows),
                expected,
                mark: 8 | direction,
                flags,
                numbers: SeqNumbers { seq, ack, window, len },
                counted_before: counted,
            }
        },
    )
}

fn shifts() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0x77), 1 => Just(0), 2 => Just(0xff), 1 => any::<u8>()]
}

fn record<const W: usize>(case: &Case) -> ConnHot<W> {
    let state_word = StateWord::begin(0).with_scales(WindowScales(case.shifts));
    let before = PackedCounters::new(0, case.counted_before, 14, case.counted_before >> 32);
    ConnHot {
        counters: [before; 2],
        state_word: state_word.with_state(case.state).with_embryonic(case.expected & 1 == 1),
        expected: case.expected,
        window: case.window,
        ..ConnHot::FREE
    }
}

/// Returns all that packets change in a record.
fn content<const W: usize>(hot: &ConnHot<W>) -> ([u64; 2], u64, u32, TcpWindow) {
    (hot.counters.map(|of| of.0), hot.state_word.bits(), hot.expected, hot.window)
}

fn the_same_is_counted<const W: usize>(
    cases: &[Case; EIGHT],
    (records, wanted): ([u32; EIGHT], u8),
    simd: SimdLevel,
) {
    let now = Micros::of(7_000_000_000_000_000);
    let before: Vec<ConnHot<W>> = cases.iter().map(record).collect();
    let mut plain = PlainBatch::EMPTY;
    for (at, case) in cases.iter().enumerate() {
        plain.rows_mut(0..EIGHT).set(at, PacketMeta::new(60, 14, case.flags), case.numbers);
    }
    let mut after = before.clone();
    let marks = cases.map(|case| case.mark);
    let plain_eight = plain.eight(0).unwrap();
    let eight = MarkedEight { records: &records, marks: &marks, plain: plain_eight, now, wanted };
    let set = count_eight(simd, &mut after, eight, NoSampling);
    let mut expected = before.clone();
    for (lane, case) in cases.iter().enumerate() {
        let (meta, is_counted) = (plain.metas[lane], set.counted >> lane & 1 == 1);
        let hot = &mut expected[records[lane] as usize];
        let mut one = *hot;
        let direction = one.direction_of(case.mark, meta).filter(|&direction| {
            !one.checks_window() || one.accepts(direction, meta, Some(case.numbers))
        });
        let is_rare = direction.is_some_and(|to| one.count_to(to, meta, now, NoSampling));
        assert!(!is_counted || direction.is_some(), "{case:x?}");
        let is_first = !records[..lane].contains(&records[lane]);
        let is_wanted = is_first && wanted >> lane & 1 == 1;
        assert!(!is_counted || is_wanted, "{case:x?}");
        // With usual distances, none is left to be counted one by one.
        let &Case { window, shifts, .. } = &cases[records[lane] as usize];
        let numbers = [window.ends, window.acks, [case.numbers.seq, case.numbers.ack]];
        let is_usual = numbers.as_flattened().iter().all(|n| n.wrapping_add(1 << 28) < 1 << 29);
        let is_scaled = shifts == 0xff || shifts & 0xf < 15 && shifts >> 4 < 15;
        if is_wanted && is_usual && is_scaled && simd > SimdLevel::None {
            assert_eq!(is_counted, direction.is_some(), "{case:x?}");
        }
        if is_counted {
            *hot = one;
            assert_eq!(set.rare >> lane & 1 == 1, is_rare);
        }
    }
    for (after, expected) in after.iter().zip(&expected) {
        assert_eq!(content(after), content(expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(5_000, 100_000)))]
    #[test]
    fn eight_side_by_side_are_eight_one_by_one(
        cases in proptest::array::uniform8(case()),
        records in Just([0_u32, 1, 2, 3, 4, 5, 6, 7]).prop_shuffle(),
        wanted in prop_oneof![Just(0xff), any::<u8>()],
        twice in proptest::option::weighted(0.1, (0..EIGHT, 0..EIGHT)),
    ) {
        let mut records = records;
        if let Some((from, to)) = twice {
            records[to] = records[from];
        }
        for simd in [SimdLevel::None, SimdLevel::detect()] {
            the_same_is_counted::<2>(&cases, (records, wanted), simd);
            the_same_is_counted::<5>(&cases, (records, wanted), simd);
        }
    }
}
