// SPDX-License-Identifier: BSD-3-Clause
//! Settings of ports and workers that Millrace chooses where the user does not.

use crate::host::Cpus;

/// Descriptors of a queue.
const DESCRIPTORS: u16 = 1024;

/// Settings that the user may leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Cpus of the workers, senders first.
    pub(crate) cpus: Option<Vec<u32>>,
    /// Descriptors of each receive queue.
    pub(crate) rx_descriptors: Option<u16>,
    /// Descriptors of each transmit queue.
    pub(crate) tx_descriptors: Option<u16>,
    /// File prefix of DPDK.
    pub(crate) file_prefix: Option<String>,
}

impl Tuning {
    /// The cpus of so many workers, or of fewer if fewer are named.
    pub(super) fn choose_cpus(&self, workers: usize, cpus: &Cpus) -> Vec<u32> {
        let chosen = self.cpus.clone().unwrap_or_else(|| cpus.by_preference());
        chosen.into_iter().take(workers).collect()
    }

    pub(super) fn rx_descriptors(&self) -> u16 {
        self.rx_descriptors.unwrap_or(DESCRIPTORS)
    }

    pub(super) fn tx_descriptors(&self) -> u16 {
        self.tx_descriptors.unwrap_or(DESCRIPTORS)
    }
}
