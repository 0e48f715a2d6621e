// SPDX-License-Identifier: BSD-3-Clause
//! Decides at which packets of a direction the worker evaluates whether it is worth a NIC rule.

use crate::api::{OffloadPolicy, Side};
use crate::conn::Sampler;

impl OffloadPolicy {
    pub(crate) fn eval_interval(self) -> EvalInterval {
        let first = match self {
            OffloadPolicy::After { packets } => packets,
            OffloadPolicy::Rate { .. } => EVAL_INTERVAL_MIN,
            OffloadPolicy::Measured { least } => least,
        };
        let first = first.max(1);
        let interval = first.clamp(EVAL_INTERVAL_MIN, EVAL_INTERVAL_MAX).next_power_of_two();
        EvalInterval { first, later: MarkedInterval { mask: interval as u16 - 1, offset: 0 } }
    }
}

/// At which packets of a direction the worker evaluates whether it is worth a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvalInterval {
    /// Number of the packet at the first evaluation.
    pub(super) first: u32,
    pub(super) later: MarkedInterval,
}

/// At which packets of a direction the evaluations after the first one take place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkedInterval {
    /// An evaluation is due when these bits of the packet count plus `offset` are 0.
    mask: u16,
    /// Differs by record, so that connections in step are not all evaluated at once.
    offset: u16,
}

impl EvalInterval {
    /// Returns the interval for packets with a mark, which is longer.
    #[inline(always)]
    pub(crate) fn of_marked(self) -> MarkedInterval {
        MarkedInterval { mask: self.later.mask.max(EVAL_INTERVAL_MARKED_MIN - 1), ..self.later }
    }

    /// Returns an interval with the same first evaluation, and as few later ones as of packets with
    /// a mark.
    pub(crate) fn with_few_later(self) -> Self {
        EvalInterval { later: self.of_marked(), ..self }
    }

    /// Returns the number of an evaluation: one for every [`EVAL_INTERVAL_MIN`] packets. It wraps.
    pub(crate) fn number(self, packets: u64, record: u32) -> u8 {
        ((packets + u64::from(record)) / u64::from(EVAL_INTERVAL_MIN)) as u8
    }

    /// Returns the number of packets before which no evaluation counts.
    pub(crate) fn first(self) -> u32 {
        self.first
    }
}

/// Fewest packets between two evaluations of a direction.
pub(super) const EVAL_INTERVAL_MIN: u32 = 64;

/// Fewest packets between two evaluations of a direction with a mark. An evaluation costs more
/// than a lookup, and less needs to be known of a direction with a rule.
const EVAL_INTERVAL_MARKED_MIN: u16 = 1024;

/// Most packets between two evaluations: neither the packet count nor the number of evaluations
/// may wrap meanwhile.
const EVAL_INTERVAL_MAX: u32 = 8192;

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
        packets.wrapping_add(self.offset) & self.mask == 0
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        MarkedInterval { offset: record as u16, ..self }
    }
}

/// A direction that is due for evaluation.
#[derive(Clone, Copy)]
pub(crate) struct PendingEval {
    pub(crate) record: u32,
    pub(crate) direction: u8,
    /// Side at which its packet arrived.
    pub(crate) side: Side,
}

impl PendingEval {
    pub(crate) fn is_of(self, record: u32) -> bool {
        self.record == record
    }
}
