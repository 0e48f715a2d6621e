// SPDX-License-Identifier: BSD-3-Clause
//! At which packets of a direction the worker evaluates whether it is worth a NIC rule.

use crate::api::{OffloadPolicy, Side};
use crate::conn::Sampler;

impl OffloadPolicy {
    pub(crate) fn eval_interval(self) -> EvalInterval {
        let first = match self {
            OffloadPolicy::After { packets } => packets,
            OffloadPolicy::Rate { .. } => LOOKS_APART,
            OffloadPolicy::Measured { least } => least,
        };
        let first = first.max(1);
        let apart = first.clamp(LOOKS_APART, LOOKS_APART_MOST).next_power_of_two();
        EvalInterval { first, later: MarkedInterval { mask: apart as u16 - 1, phase: 0 } }
    }
}

/// At which packets of a direction somebody looks whether it is worth a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvalInterval {
    /// At this one.
    pub(super) first: u32,
    pub(super) later: MarkedInterval,
}

/// The same once there was a first look, as there was before any rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkedInterval {
    /// Of packets and phase, the bits that are 0 then.
    mask: u16,
    /// The flow's own, so that flows which keep step are not all looked at together.
    phase: u16,
}

impl EvalInterval {
    /// At packets with a mark.
    #[inline(always)]
    pub(crate) fn of_marked(self) -> MarkedInterval {
        MarkedInterval { mask: self.later.mask.max(LOOKS_APART_MARKED - 1), ..self.later }
    }

    /// The number of a look, one for so many packets as are between two at least; it comes round.
    pub(crate) fn number(self, packets: u64, record: u32) -> u8 {
        ((packets + u64::from(record)) / u64::from(LOOKS_APART)) as u8
    }

    /// Packets before which no look counts.
    pub(crate) fn first(self) -> u32 {
        self.first
    }
}

/// Fewest packets between two looks, and as long as they are marked: a look costs more than a
/// lookup, and of a flow with a rule less is to be known. At most so many that neither the packets
/// nor the numbers of looks come round meanwhile.
pub(super) const LOOKS_APART: u32 = 64;

const LOOKS_APART_MARKED: u16 = 1024;

const LOOKS_APART_MOST: u32 = 8192;

impl Sampler for EvalInterval {
    #[inline(always)]
    fn is_sample_due(self, packets: u16) -> bool {
        (packets == self.first as u16 & 0x1fff) | self.later.is_sample_due(packets)
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        EvalInterval { later: self.later.of(record), ..self }
    }
}

impl Sampler for MarkedInterval {
    #[inline(always)]
    fn is_sample_due(self, packets: u16) -> bool {
        packets.wrapping_add(self.phase) & self.mask == 0
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        MarkedInterval { phase: record as u16, ..self }
    }
}

/// A direction that is to be looked at.
#[derive(Clone, Copy)]
pub(crate) struct PendingEval {
    pub(crate) record: u32,
    pub(crate) direction: u8,
    /// Where its packet arrived.
    pub(crate) side: Side,
}

impl PendingEval {
    pub(crate) fn is_of(self, record: u32) -> bool {
        self.record == record
    }
}
