// SPDX-License-Identifier: BSD-3-Clause
//! Counts eight packets of eight connections side by side, where the processor can.
//!
//! All checks of [`ConnHot::direction_of`] and of the TCP window are arithmetic on columns of eight
//! records, so they cost a fraction of eight checks one by one.

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(test)]
mod tests;

use super::record::ConnHot;
use super::sampler::Sampler;
use crate::base::{Micros, SimdLevel};
use crate::packet::PlainRows;

/// Number of packets that are counted side by side.
pub(crate) const EIGHT: usize = 8;

/// Eight packets whose marks name records.
#[derive(Clone, Copy)]
pub(crate) struct MarkedEight<'a> {
    pub(crate) records: &'a [u32; EIGHT],
    pub(crate) marks: &'a [u32; EIGHT],
    pub(crate) plain: PlainRows<'a>,
    pub(crate) now: Micros,
    /// Packets that are to be counted, bit `i` for packet `i`. The others may have any record.
    pub(crate) wanted: u8,
}

/// Sets of packets of eight: bit `i` for packet `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Packets that were counted. The others have changed nothing, and may yet be plain.
    pub(crate) counted: u8,
    /// Counted packets that have filled a counter, or at which an evaluation is due.
    pub(crate) rare: u8,
}

/// Counts those of eight packets that change only counters and the TCP window.
///
/// It counts no packet behind another one with the same record, which may decide on it.
#[inline(always)]
pub(crate) fn count_eight<const W: usize>(
    simd: SimdLevel,
    records: &mut [ConnHot<W>],
    packets: MarkedEight,
    sampler: impl Sampler,
) -> Counted {
    #[cfg(target_arch = "x86_64")]
    if simd > SimdLevel::None {
        return avx2::count_eight(records, packets, sampler);
    }
    // Only vector code reads them.
    let MarkedEight { plain: PlainRows { metas, seqs, sizes }, now, wanted, .. } = packets;
    let _ = (simd, records, (metas, seqs, sizes), now, wanted, sampler);
    Counted::default()
}
