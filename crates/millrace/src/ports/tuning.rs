// SPDX-License-Identifier: BSD-3-Clause
//! Owns the options of ports and workers that have defaults: cpus, descriptors and burst sizes.

use doctor::host::Cpus;
use generator::BurstSizes;

/// Default number of descriptors of a queue.
const DESCRIPTORS: u16 = 1024;
/// Range of descriptors, as `run` accepts it.
const DESCRIPTOR_RANGE: std::ops::RangeInclusive<i64> = 32..=32_768;

/// Options for the descriptors of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct DescriptorArgs {
    /// Descriptors of each receive queue, 32 to 32768: more absorb longer pauses, but use cache
    ///
    /// By default 1024. The driver may round them, or take fewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(DESCRIPTOR_RANGE))]
    pub(crate) rx_descriptors: Option<u16>,
    /// Descriptors of each transmit queue, 32 to 32768; 1024 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(DESCRIPTOR_RANGE))]
    pub(crate) tx_descriptors: Option<u16>,
}

/// Options for the frames of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct BurstArgs {
    /// Take up to N packets from a receive queue at once, 1 to 64; 64 by default
    ///
    /// Some drivers round N down to a multiple of 4 or 8, and receive nothing with fewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(BURST_RANGE))]
    pub(crate) rx_burst: Option<u8>,
    /// Hand up to N packets to a transmit queue at once, 1 to 64; 64 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(BURST_RANGE))]
    pub(crate) tx_burst: Option<u8>,
}

/// Range of burst sizes.
const BURST_RANGE: std::ops::RangeInclusive<i64> = 1..=dpdk::BURST_MAX as i64;

impl BurstArgs {
    /// Returns the burst sizes of the options, or the defaults.
    pub(crate) fn sizes(self) -> BurstSizes {
        let of_default = BurstSizes::default();
        BurstSizes {
            rx: self.rx_burst.map_or(of_default.rx, usize::from),
            tx: self.tx_burst.map_or(of_default.tx, usize::from),
        }
    }
}

/// Settings that the user may leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Cpus of the workers, senders first.
    pub(crate) cpus: Option<Vec<u32>>,
    /// Descriptors of queues.
    pub(crate) descriptors: DescriptorArgs,
    /// File prefix of DPDK.
    pub(crate) file_prefix: Option<String>,
}

impl Tuning {
    /// Returns the cpus of `workers` workers, or fewer if the user named fewer. `nodes` are the
    /// NUMA nodes of the ports.
    pub(super) fn choose_cpus(&self, workers: usize, cpus: &Cpus, nodes: &[u32]) -> Vec<u32> {
        let chosen = self.cpus.clone().unwrap_or_else(|| cpus.by_preference_near(nodes));
        chosen.into_iter().take(workers).collect()
    }

    /// Returns the number of descriptors of each receive queue.
    pub(super) fn rx_descriptors(&self) -> u16 {
        self.descriptors.rx_descriptors.unwrap_or(DESCRIPTORS)
    }

    /// Returns the number of descriptors of each transmit queue.
    pub(crate) fn tx_descriptors(&self) -> u16 {
        self.descriptors.tx_descriptors.unwrap_or(DESCRIPTORS)
    }
}
