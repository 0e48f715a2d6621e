// SPDX-License-Identifier: BSD-3-Clause
//! When a packet of a connection is looked at for offload, besides being counted.

/// When to look.
pub(crate) trait Sampler: Copy {
    /// For the flow in a record.
    fn of(self, record: u32) -> Self;
    /// Whether that is at the packet that made it so many, as far as 13 bits tell. It may be an
    /// earlier one.
    fn is_sample_due(self, packets: u16) -> bool;
}

/// Where there may be no rules, and then nothing to look at.
impl<T: Sampler> Sampler for Option<T> {
    #[inline(always)]
    fn is_sample_due(self, packets: u16) -> bool {
        self.is_some_and(|looks| looks.is_sample_due(packets))
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        self.map(|looks| looks.of(record))
    }
}

/// There are no rules.
#[derive(Clone, Copy)]
pub(crate) struct NoSampling;

impl Sampler for NoSampling {
    #[inline(always)]
    fn is_sample_due(self, _: u16) -> bool {
        false
    }

    #[inline(always)]
    fn of(self, _: u32) -> Self {
        self
    }
}
