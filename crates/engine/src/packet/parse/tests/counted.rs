// SPDX-License-Identifier: BSD-3-Clause
//! Tests the counters of marked packets: parsed side by side against one by one.

// Calling code for some processors only is unsafe.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::{FRAMES, KINDS};
use super::{Segments, any_frame, run};
use crate::api::ZoneSource;
use crate::base::{BURST_MAX, SimdLevel};
#[cfg(target_arch = "x86_64")]
use crate::packet::parse::avx2;
#[cfg(all(target_arch = "x86_64", avx512))]
use crate::packet::parse::avx512;
use crate::packet::parse::general;
use crate::packet::parse::plain::plain_all;
use crate::packet::{
    ACK, BYTES_MAX, Batches, ETHERNET, PacketMeta, PlainBatch, SYN_FIN_RST, SeqNumbers,
};
use proptest::prelude::*;
use wire::FrameBuilder;

/// Returns the counters of packets, and the bytes of their frames. Each packet has `more` bytes on
/// the wire than in the frame.
fn metas(frames: &[Vec<u8>], (is_v6, more): (bool, usize), vectors: SimdLevel) -> (Vec<u64>, u64) {
    let packets = frames.iter().map(|f| Segments::cut(f, f.len(), f.len() + more));
    let packets: Vec<_> = packets.collect();
    // More than a burst, part by part.
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for packets in packets.chunks(BURST_MAX) {
        let mut batch = PlainBatch::EMPTY;
        bytes += plain_all(packets, is_v6, vectors, batch.rows_mut(0..packets.len()));
        for (at, packet) in packets.iter().enumerate() {
            let (meta, numbers) = (batch.metas[at], batch.numbers(at));
            let flags = meta.tcp_flags();
            let is_segment = flags & ACK != 0 && flags & SYN_FIN_RST == 0;
            if is_segment && meta != PacketMeta::UNUSUAL {
                let expected = SeqNumbers::of_plain(packet, meta, is_v6, ETHERNET);
                assert_eq!(Some(numbers), expected);
            }
            rows.push(meta.0);
        }
    }
    (rows, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn what_is_counted_is_the_same_side_by_side(
        runs in prop::collection::vec(
            prop_oneof![4 => run(), 1 => any_frame().prop_map(|frame| vec![frame])],
            1..16,
        ),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 12..70_usize, 0..8), 0..4),
        is_v6: bool,
        more in prop::sample::select(vec![0, 0, 0, 0x7fc0, 0x8000, BYTES_MAX - 40, 1 << 31]),
    ) {
        let mut frames = runs.concat();
        for (frame, at, bit) in flips {
            let frame = frame.index(frames.len());
            if let Some(byte) = frames[frame].get_mut(at) {
                *byte ^= 1_u8 << bit;
            }
        }
        let one_by_one = metas(&frames, (is_v6, more), SimdLevel::None);
        prop_assert_eq!(&metas(&frames, (is_v6, more), SimdLevel::detect()), &one_by_one);
        #[cfg(target_arch = "x86_64")]
        if SimdLevel::detect() > SimdLevel::Avx2 {
            prop_assert_eq!(&metas(&frames, (is_v6, more), SimdLevel::Avx2), &one_by_one);
        }
    }
}

/// Returns the counters of one packet.
fn counted(packet: Segments, is_v6: bool) -> u64 {
    let mut batch = PlainBatch::EMPTY;
    plain_all(&[packet], is_v6, SimdLevel::None, batch.rows_mut(0..1));
    batch.metas[0].0
}

/// Returns the counters by the general parser; `None` if the packet has no key.
fn by_the_long_way(packet: &Segments, is_v6: bool) -> Option<u64> {
    let mut batches = Batches::new();
    general::parse(packet, 0, ZoneSource::None, &mut batches).ok()?;
    let first = if is_v6 {
        batches.v6.first().map(|(_, meta)| meta)
    } else {
        batches.v4.first().map(|(_, meta)| meta)
    };
    first.map(|meta| meta.sent_by(0).0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn what_is_counted_is_what_the_long_way_finds(
        frame in any_frame(), cut: prop::sample::Index, is_whole: bool, is_v6: bool,
    ) {
        let cut = if is_whole { frame.len() } else { cut.index(frame.len() + 1) };
        let packet = Segments::cut(&frame, cut, frame.len());
        let meta = counted(packet, is_v6);
        let found = by_the_long_way(&packet, is_v6);
        prop_assert!(meta == PacketMeta::UNUSUAL.0 || Some(meta) == found, "{found:x?}");
    }
}

/// Frames without padding, as captures have them.
#[test]
fn frames_that_are_shorter_than_headers_of_tcp_are_counted() {
    for bytes in 0..16 {
        let v4 = FrameBuilder::ipv4([10, 0, 0, 200], [192, 168, 0, 1]);
        let v6 = FrameBuilder::ipv6([0x20; 16], [0x2a; 16]);
        for (builder, is_v6) in [(v4, false), (v6, true)] {
            let frame = builder.payload(vec![1; bytes]).udp(1, 2).build();
            let packet = Segments::cut(&frame, frame.len(), frame.len());
            assert_eq!(Some(counted(packet, is_v6)), by_the_long_way(&packet, is_v6));
        }
    }
}

/// Returns how many of these frames are parsed side by side.
#[cfg(target_arch = "x86_64")]
fn read_side_by_side<const V6: bool>(frames: &[usize], vectors: SimdLevel) -> usize {
    let packet = |&i: &usize| Segments::cut(&FRAMES[i], FRAMES[i].len(), FRAMES[i].len());
    let packets: Vec<_> = frames.iter().map(packet).collect();
    let mut batch = PlainBatch::EMPTY;
    let columns = batch.rows_mut(0..packets.len());
    match vectors {
        // SAFETY: `detect` has found AVX-512. Without the rest by AVX2, which would complete the
        // count.
        #[cfg(avx512)]
        SimdLevel::Avx512 => unsafe { avx512::counted::<V6, _>(&packets, columns).0 },
        _ => avx2::counted::<V6, _>(&packets, vectors, columns).0,
    }
}

/// Fails if the processor has vector extensions that are not used. Elsewhere it tests nothing.
#[cfg(target_arch = "x86_64")]
#[test]
fn plain_packets_are_read_side_by_side() {
    let vectors = SimdLevel::detect();
    if vectors == SimdLevel::None {
        println!("skipped: no vectors");
        return;
    }
    for (kind, _) in KINDS {
        let plain: Vec<usize> = kind.clone().cycle().take(11).collect();
        for vectors in [SimdLevel::Avx2, vectors] {
            let read = (
                read_side_by_side::<false>(&plain, vectors),
                read_side_by_side::<true>(&plain, vectors),
            );
            let expected = match FRAMES[kind.start][12] {
                0x08 => (8, 0),
                0x86 => (0, 8),
                _ => (0, 0),
            };
            assert_eq!(read, expected, "{kind:?}, {vectors:?}");
        }
    }
}
