// SPDX-License-Identifier: BSD-3-Clause
//! Decides at which packets of a connection its offload is evaluated.

/// Selects packets at which a connection is evaluated for offload.
pub(crate) trait Sampler: Copy {
    /// Returns the sampler for the connection in a record.
    fn of(self, record: u32) -> Self;
    /// True if the evaluation is due at the packet with this number in its direction. Only 13 bits
    /// of the number are known, so an earlier packet may match too.
    fn is_sample_due(self, packets: u16) -> bool;
}

/// `None` stands for no NIC rules: no sample is due.
impl<T: Sampler> Sampler for Option<T> {
    #[inline(always)]
    fn is_sample_due(self, packets: u16) -> bool {
        self.is_some_and(|sampler| sampler.is_sample_due(packets))
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        self.map(|sampler| sampler.of(record))
    }
}

/// Sampler without NIC rules.
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
