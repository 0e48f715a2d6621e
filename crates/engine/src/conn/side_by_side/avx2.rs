// SPDX-License-Identifier: BSD-3-Clause
//! Counts eight packets side by side with AVX2. A vector holds one field of each of eight records.
//!
//! Differences of sequence numbers are computed in 32 bits. A packet for which they could overflow
//! is not counted here; [`TcpWindow`] checks it in 64 bits.

// Vector code is listed in the fence of unsafe code. `unused_unsafe` is for Rust up to 1.86, where
// these intrinsics are unsafe even with the feature enabled.
#![allow(unused_unsafe, unsafe_code)]

use super::{Counted, EIGHT, MarkedEight};
use crate::base::Micros;
use crate::conn::record::ConnHot;
use crate::conn::sampler::Sampler;
use crate::conn::state::State;
use crate::conn::tcp::window::TcpWindow;
use crate::packet::{ACK, FIN, PacketMeta, RST, SYN_FIN_RST};
use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_epi8,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32,
    _mm256_loadu_si256, _mm256_max_epi32, _mm256_max_epu32, _mm256_min_epi32, _mm256_min_epu32,
    _mm256_movemask_ps, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_permute4x64_epi64,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setzero_si256,
    _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sllv_epi32, _mm256_srav_epi32, _mm256_srli_epi32,
    _mm256_srlv_epi32, _mm256_storeu_si256, _mm256_sub_epi32, _mm256_unpackhi_epi32,
    _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
};
use std::mem::offset_of;

/// One number of each of eight packets or records.
type Lanes = __m256i;

/// The second part of eight hot records, column by column: eight words of 32 bits, from the state
/// word to the window.
#[derive(Clone, Copy)]
struct Columns {
    /// Halves of the state word.
    time: Lanes,
    state: Lanes,
    expected: Lanes,
    ends: [Lanes; 2],
    acks: [Lanes; 2],
    windows: Lanes,
}

/// The numbers of eight segments, and the sides of their senders.
struct Segments {
    /// 1 where the responder is the sender.
    direction: Lanes,
    seq: Lanes,
    ack: Lanes,
    window: Lanes,
    len: Lanes,
}

/// Bit of the upper half of the state word at which the state begins.
const STATE_SHIFT: i32 = 24;

/// Bit of the upper half at which the shift of the responder begins; that of the originator is
/// behind it.
const SCALES_SHIFT: i32 = 16;

/// Bounds of the differences for which 32 bits suffice.
const NEAR: i32 = 1 << 29;

const _: () = assert!(
    offset_of!(TcpWindow, ends) == 0
        && offset_of!(TcpWindow, acks) == 8
        && offset_of!(TcpWindow, windows) == 16
);

impl<const W: usize> ConnHot<W> {
    const COLUMNS: usize = {
        let at = offset_of!(ConnHot<W>, state_word);
        assert!(offset_of!(ConnHot<W>, expected) == at + 8);
        assert!(offset_of!(ConnHot<W>, window) == at + 12);
        assert!(size_of::<ConnHot<W>>() >= at + 32);
        at
    };
}

/// Counts packets as [`super::count_eight`] does, which calls it only if the processor has AVX2.
#[inline(always)]
pub(super) fn count_eight<const W: usize>(
    records: &mut [ConnHot<W>],
    packets: MarkedEight,
    sampler: impl Sampler,
) -> Counted {
    // SAFETY: the caller has asked `detect`, which has found AVX2.
    unsafe { count(records, packets, sampler) }
}

/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
unsafe fn count<const W: usize>(
    records: &mut [ConnHot<W>],
    packets: MarkedEight,
    sampler: impl Sampler,
) -> Counted {
    if records.is_empty() {
        return Counted::default();
    }
    // SAFETY: the caller guarantees AVX2. All records are inside the table, and those of lanes that
    // are written differ.
    unsafe {
        let named = load(packets.records);
        let is_behind_another = mask(is_repeated(named));
        let is_inside = !mask(is_at_least(named, records.len()));
        let wanted = packets.wanted & is_inside & !is_behind_another;
        // Other lanes read a record too, but change none. The table has one at least.
        let (base, last) = (records.as_mut_ptr(), records.len() - 1);
        let records = packets.records.map(|record| base.add((record as usize).min(last)));
        let columns = records.map(|record| record.cast::<u8>().add(ConnHot::<W>::COLUMNS));
        let mut fields = Columns::of(columns.map(|at| loadu(at)));
        let metas = low_halves(packets.plain.metas.as_ptr().cast());
        let direction = _mm256_xor_si256(load(packets.marks), fields.expected);
        let is_plain = is_plain(fields.state, direction, metas);
        let scales = _mm256_and_si256(fields.state, all(0xff << SCALES_SHIFT));
        let is_unchecked = _mm256_cmpeq_epi32(scales, all(0xff << SCALES_SHIFT));
        let segments = Segments::of(&packets, direction);
        let is_ack = _mm256_cmpeq_epi32(
            _mm256_and_si256(metas, all((SYN_FIN_RST | ACK).into())),
            all(ACK.into()),
        );
        let fits = fields.follow(&segments, is_unchecked);
        let fits = _mm256_or_si256(is_unchecked, _mm256_and_si256(fits, is_ack));
        let set = wanted & mask(_mm256_and_si256(is_plain, fits));
        fields.set_time(packets.now);
        let rows = fields.rows();
        for_each(set, |lane| storeu(columns[lane], rows[lane]));
        let mut directions = [0_u32; EIGHT];
        _mm256_storeu_si256(directions.as_mut_ptr().cast(), direction);
        let mut rare = 0;
        for_each(set, |lane| {
            let hot = &mut *records[lane];
            let counters = &mut hot.counters[directions[lane] as usize & 1];
            *counters = counters.plus(packets.plain.metas[lane]);
            let sampler = sampler.of(packets.records[lane]);
            if counters.is_full() || sampler.is_sample_due(counters.packets()) {
                rare |= 1 << lane;
            }
        });
        Counted { counted: set, rare }
    }
}

/// Calls `each` for the lanes in a set, in order.
#[inline(always)]
fn for_each(set: u8, mut each: impl FnMut(usize)) {
    if set == u8::MAX {
        (0..EIGHT).for_each(each);
        return;
    }
    let mut left = set;
    while left != 0 {
        each(left.trailing_zeros() as usize % EIGHT);
        left &= left - 1;
    }
}

/// Returns all ones where a packet changes only counters, if it fits the window: as
/// [`ConnHot::direction_of`] decides.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn is_plain(state: Lanes, direction: Lanes, metas: Lanes) -> Lanes {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let first = _mm256_and_si256(_mm256_srli_epi32::<STATE_SHIFT>(state), all(1));
        let more = _mm256_or_si256(first, all(!1));
        let is_expected = is_zero(_mm256_and_si256(direction, more));
        let has_no_end = is_zero(_mm256_and_si256(metas, all((FIN | RST).into())));
        let [kind, flagless] = [State::FLAGLESS | State::OPEN, State::FLAGLESS]
            .map(|bits| i32::from(bits) << STATE_SHIFT);
        let is_flagless = _mm256_cmpeq_epi32(_mm256_and_si256(state, all(kind)), all(flagless));
        let unusual = i32::from(PacketMeta::UNUSUAL.tcp_flags());
        let is_unusual = _mm256_cmpeq_epi32(_mm256_and_si256(metas, all(0xff)), all(unusual));
        let is_ignored = _mm256_andnot_si256(is_unusual, is_flagless);
        _mm256_and_si256(is_expected, _mm256_or_si256(has_no_end, is_ignored))
    }
}

impl Columns {
    /// Returns the columns of eight rows.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn of(rows: [Lanes; EIGHT]) -> Self {
        // SAFETY: the caller guarantees AVX2.
        let [time, state, expected, end, end_1, ack, ack_1, windows] = unsafe { transposed(rows) };
        Columns { time, state, expected, ends: [end, end_1], acks: [ack, ack_1], windows }
    }

    /// Returns the rows of these columns.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn rows(self) -> [Lanes; EIGHT] {
        let Columns { time, state, expected, ends: [end, end_1], acks: [ack, ack_1], windows } =
            self;
        // SAFETY: the caller guarantees AVX2.
        unsafe { transposed([time, state, expected, end, end_1, ack, ack_1, windows]) }
    }

    /// Sets the time of the last packet.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn set_time(&mut self, now: Micros) {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            self.time = all(now.0 as i32);
            let rest = _mm256_and_si256(self.state, all(!((Micros::MASK >> 32) as i32)));
            self.state = _mm256_or_si256(rest, all((now.0 >> 32) as i32));
        }
    }

    /// Applies segments to their windows, except where `is_unchecked` is all ones. Returns all ones
    /// where the segment is in the window; elsewhere the columns are wrong.
    ///
    /// It computes what [`TcpWindow::check`] and [`TcpWindow::follow`] do.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn follow(&mut self, segments: &Segments, is_unchecked: Lanes) -> Lanes {
        let Segments { direction, seq, ack, window, len } = *segments;
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let of_responder = _mm256_sub_epi32(all(0), direction);
            let sides = |[a, b]: [Lanes; 2]| {
                [_mm256_blendv_epi8(a, b, of_responder), _mm256_blendv_epi8(b, a, of_responder)]
            };
            let ([end, peer_end], [acked, peer_acked]) = (sides(self.ends), sides(self.acks));
            let at = _mm256_slli_epi32::<4>(direction);
            let peer_at = _mm256_sub_epi32(all(16), at);
            let half = |at| _mm256_and_si256(_mm256_srlv_epi32(self.windows, at), all(0xffff));
            let (offered, peer_offered) = (half(at), half(peer_at));
            let four = _mm256_slli_epi32::<2>(direction);
            let shift = |at| _mm256_and_si256(_mm256_srlv_epi32(self.state, at), all(0xf));
            let scale = shift(_mm256_sub_epi32(all(SCALES_SHIFT + 4), four));
            let peer_scale = shift(_mm256_add_epi32(all(SCALES_SHIFT), four));

            let ahead = _mm256_sub_epi32(seq, peer_acked);
            let sent = _mm256_sub_epi32(end, peer_acked);
            let new = _mm256_sub_epi32(_mm256_add_epi32(ahead, len), sent);
            let unacked = _mm256_sub_epi32(peer_end, ack);
            let more = _mm256_sub_epi32(ack, acked);
            let room = _mm256_sllv_epi32(peer_offered, peer_scale);
            let age_max = _mm256_sllv_epi32(all(0xffff), peer_scale);
            let ack_age_max =
                _mm256_max_epi32(_mm256_sllv_epi32(all(0xffff), scale), all(ACK_AGE_MIN));
            let is_beyond = _mm256_cmpgt_epi32(ahead, room);
            let is_old = _mm256_cmpgt_epi32(_mm256_sub_epi32(all(0), age_max), new);
            let is_acking = _mm256_cmpeq_epi32(_mm256_min_epu32(unacked, ack_age_max), unacked);
            let is_far = [ahead, sent, more].map(|by| _mm256_add_epi32(by, all(NEAR)));
            let is_far = _mm256_or_si256(_mm256_or_si256(is_far[0], is_far[1]), is_far[2]);
            let is_near = is_zero(_mm256_and_si256(is_far, all(!(2 * NEAR - 1))));
            // A shift of 15 is none; with it, sums could overflow.
            let is_scaled = _mm256_cmpgt_epi32(all(15), _mm256_max_epi32(scale, peer_scale));

            let is_checked = _mm256_xor_si256(is_unchecked, all(-1));
            let if_new = |by| _mm256_and_si256(_mm256_max_epi32(by, all(0)), is_checked);
            let (added, newly_acked) = (if_new(new), if_new(more));
            let before = _mm256_sllv_epi32(offered, scale);
            let now = _mm256_add_epi32(_mm256_sllv_epi32(window, scale), more);
            let negative = _mm256_sub_epi32(newly_acked, _mm256_max_epi32(before, now));
            let units = _mm256_sub_epi32(all(0), _mm256_srav_epi32(negative, scale));
            let units = _mm256_min_epi32(units, all(0xffff));
            let units = _mm256_blendv_epi8(units, offered, is_unchecked);
            let to = |side: Lanes, old, new| _mm256_blendv_epi8(old, new, side);
            let of_originator = _mm256_xor_si256(of_responder, all(-1));
            let (end, acked) = (_mm256_add_epi32(end, added), _mm256_add_epi32(acked, newly_acked));
            self.ends = [to(of_originator, self.ends[0], end), to(of_responder, self.ends[1], end)];
            self.acks =
                [to(of_originator, self.acks[0], acked), to(of_responder, self.acks[1], acked)];
            self.windows = _mm256_or_si256(
                _mm256_sllv_epi32(units, at),
                _mm256_sllv_epi32(peer_offered, peer_at),
            );
            let is_wrong = _mm256_or_si256(is_beyond, is_old);
            let is_right = _mm256_and_si256(is_acking, _mm256_and_si256(is_near, is_scaled));
            _mm256_andnot_si256(is_wrong, is_right)
        }
    }
}

/// Lower bound of the maximum age of an acknowledgment, as [`TcpWindow`] has it.
const ACK_AGE_MIN: i32 = 66_000;

impl Segments {
    /// # Safety
    /// The processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn of(packets: &MarkedEight, direction: Lanes) -> Self {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let direction = _mm256_and_si256(direction, all(1));
            let (seqs, sizes) = (packets.plain.seqs.as_ptr(), packets.plain.sizes.as_ptr());
            let (seq, ack) = (low_halves(seqs), high_halves(seqs));
            Segments { direction, seq, ack, window: low_halves(sizes), len: high_halves(sizes) }
        }
    }
}

/// Returns the columns of eight rows, or the rows of eight columns.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transposed([a, b, c, d, e, f, g, h]: [Lanes; 8]) -> [Lanes; 8] {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let four = |[a, b, c, d]: [Lanes; 4]| {
            let (ab, ab_2) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd, cd_2) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ab_2, cd_2),
                _mm256_unpackhi_epi64(ab_2, cd_2),
            ]
        };
        let ([i, j, k, l], [m, n, o, p]) = (four([a, b, c, d]), four([e, f, g, h]));
        [
            _mm256_permute2x128_si256::<0x20>(i, m),
            _mm256_permute2x128_si256::<0x20>(j, n),
            _mm256_permute2x128_si256::<0x20>(k, o),
            _mm256_permute2x128_si256::<0x20>(l, p),
            _mm256_permute2x128_si256::<0x31>(i, m),
            _mm256_permute2x128_si256::<0x31>(j, n),
            _mm256_permute2x128_si256::<0x31>(k, o),
            _mm256_permute2x128_si256::<0x31>(l, p),
        ]
    }
}

/// Sets the top bit where an earlier lane has the same number.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn is_repeated(lanes: Lanes) -> Lanes {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut is_any = all(0);
        for by in 1..EIGHT as i32 {
            // The top bit of `from` is set where there is no earlier lane.
            let from = _mm256_sub_epi32(places, all(by));
            let is_same = _mm256_cmpeq_epi32(lanes, _mm256_permutevar8x32_epi32(lanes, from));
            is_any = _mm256_or_si256(is_any, _mm256_andnot_si256(from, is_same));
        }
        is_any
    }
}

/// Returns all ones where a number is `len` or more.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn is_at_least(lanes: Lanes, len: usize) -> Lanes {
    let len = len.min(u32::MAX as usize) as u32;
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_cmpeq_epi32(_mm256_max_epu32(lanes, all(len as i32)), lanes) }
}

/// Returns the lower halves of eight words.
///
/// # Safety
/// The processor must have AVX2, and there must be eight words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn low_halves(words: *const u64) -> Lanes {
    // SAFETY: as the caller guarantees.
    unsafe { halves::<0b10_00_10_00>(words) }
}

/// Returns the upper halves of eight words.
///
/// # Safety
/// The processor must have AVX2, and there must be eight words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn high_halves(words: *const u64) -> Lanes {
    // SAFETY: as the caller guarantees.
    unsafe { halves::<0b11_01_11_01>(words) }
}

/// # Safety
/// As of [`low_halves`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn halves<const WHICH: i32>(words: *const u64) -> Lanes {
    // SAFETY: as the caller guarantees.
    unsafe {
        let [a, b] =
            [loadu(words.cast()), loadu(words.add(4).cast())].map(|w| _mm256_castsi256_ps(w));
        let halves = _mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(a, b));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(halves)
    }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(numbers: &[u32; EIGHT]) -> Lanes {
    // SAFETY: the caller guarantees AVX2; the load is unaligned, of 32 bytes.
    unsafe { loadu(numbers.as_ptr().cast()) }
}

/// # Safety
/// The processor must have AVX2, and `at` must have 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn loadu(at: *const u8) -> Lanes {
    // SAFETY: as the caller guarantees; the load is unaligned.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// # Safety
/// The processor must have AVX2, and `at` must have 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn storeu(at: *mut u8, row: Lanes) {
    // SAFETY: as the caller guarantees; the store is unaligned.
    unsafe { _mm256_storeu_si256(at.cast(), row) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn all(number: i32) -> Lanes {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_set1_epi32(number) }
}

/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn is_zero(lanes: Lanes) -> Lanes {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_cmpeq_epi32(lanes, _mm256_setzero_si256()) }
}

/// Returns the top bit of each lane.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn mask(lanes: Lanes) -> u8 {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8 }
}
