// SPDX-License-Identifier: BSD-3-Clause
//! What is counted of packets whose keys are known: side by side against one by one.

// To call what only some processors have is unsafe.
#![allow(unsafe_code)]

use super::{FRAMES, KINDS, Segments, any_frame, run};
#[cfg(target_arch = "x86_64")]
use crate::parse::avx2;
#[cfg(all(target_arch = "x86_64", avx512))]
use crate::parse::avx512;
use crate::parse::{Meta, plain_all};
use crate::vectors::Vectors;
use proptest::prelude::*;

/// What is counted of packets whose keys are known, and the bytes of their frames.
/// So many more bytes of each are on the wire.
fn metas(frames: &[Vec<u8>], (is_v6, more): (bool, usize), vectors: Vectors) -> (Vec<u64>, u64) {
    let packets = frames.iter().map(|f| Segments::cut(f, f.len(), f.len() + more));
    let packets: Vec<_> = packets.collect();
    let mut metas = vec![Meta::EMPTY; packets.len()];
    let bytes = plain_all(&packets, is_v6, vectors, &mut metas);
    (metas.into_iter().map(|meta| meta.0).collect(), bytes)
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
        more in prop::sample::select(vec![0, 0, 0, 0x7fc0, 0x8000, 1 << 31]),
    ) {
        let mut frames = runs.concat();
        for (frame, at, bit) in flips {
            let frame = frame.index(frames.len());
            if let Some(byte) = frames[frame].get_mut(at) {
                *byte ^= 1_u8 << bit;
            }
        }
        let one_by_one = metas(&frames, (is_v6, more), Vectors::None);
        prop_assert_eq!(&metas(&frames, (is_v6, more), Vectors::detect()), &one_by_one);
        #[cfg(target_arch = "x86_64")]
        if Vectors::detect() > Vectors::Avx2 {
            prop_assert_eq!(&metas(&frames, (is_v6, more), Vectors::Avx2), &one_by_one);
        }
    }
}

/// Of these frames, those that are read together.
#[cfg(target_arch = "x86_64")]
fn read_side_by_side<const V6: bool>(frames: &[usize], vectors: Vectors) -> usize {
    let packet = |&i: &usize| Segments::cut(&FRAMES[i], FRAMES[i].len(), FRAMES[i].len());
    let packets: Vec<_> = frames.iter().map(packet).collect();
    let mut metas = vec![Meta::EMPTY; packets.len()];
    match vectors {
        // SAFETY: `detect` has found it. Without the rest of AVX2, which makes up for all.
        #[cfg(avx512)]
        Vectors::Avx512 => unsafe { avx512::metas::<V6, _>(&packets, &mut metas).0 },
        _ => avx2::metas::<V6, _>(&packets, vectors, &mut metas).0,
    }
}

/// Fails where vectors are there and nothing is made of them; elsewhere there is nothing to see.
#[cfg(target_arch = "x86_64")]
#[test]
fn plain_packets_are_read_side_by_side() {
    let vectors = Vectors::detect();
    if vectors == Vectors::None {
        println!("skipped: no vectors");
        return;
    }
    for (kind, _) in KINDS {
        let plain: Vec<usize> = kind.clone().cycle().take(11).collect();
        for vectors in [Vectors::Avx2, vectors] {
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
