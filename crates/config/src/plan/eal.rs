// SPDX-License-Identifier: BSD-3-Clause
//! Plans the start of DPDK: memory, packet buffers, and hugepages.

use super::{PairPlan, Plan, Settings, memory};
use crate::devargs::companions_of;
use crate::{Devargs, Fault, Huge, Located, MBUF_DATA_BYTES_MAX, Problem};

/// The default number of mbufs is a multiple of this, with room for drivers that hold packets.
const MBUFS_STEP: u64 = 16_384;
/// DPDK's default bytes of data in an mbuf.
const MBUF_DATA_BYTES: u16 = 2048;
/// Bytes of Ethernet header, two VLAN tags and FCS.
const L2_BYTES: u32 = 14 + 2 * 4 + 4;

/// Settings of DPDK.
#[derive(Debug)]
pub struct EalPlan {
    /// Whether memory comes from hugepages.
    pub huge: Huge,
    /// Megabytes for packet buffers and ports.
    pub memory_mb: u32,
    /// Packet buffers of all ports together.
    pub mbufs: u32,
    /// Bytes of packet in one buffer; longer packets take several.
    pub mbuf_data_bytes: u16,
    /// More arguments for EAL.
    pub(crate) extra: Vec<String>,
}

impl EalPlan {
    /// Fills in what `written` omits. Fails for less memory or fewer mbufs than `pairs` need.
    /// `held` is the number of packets that each worker may hold.
    pub(super) fn new(
        written: crate::Eal,
        (pairs, held): (&[PairPlan], u64),
        settings: &mut Settings,
    ) -> Result<Self, Vec<Problem>> {
        let needed = memory::mbufs_needed(pairs, held);
        let default = needed.max(1).next_multiple_of(MBUFS_STEP);
        let mbufs_place = written.mbufs.as_ref().map(|mbufs| mbufs.place);
        let memory_place = written.memory_mb.as_ref().map(|memory| memory.place);
        let mut problems: Vec<_> = written.extra.iter().flat_map(requests_for_help).collect();

        settings.open("eal");
        let huge = settings.take("huge", written.huge, Huge::Auto);
        let default = u32::try_from(default).unwrap_or(u32::MAX);
        let mbufs = settings.take_or_compute("mbufs", written.mbufs, default);
        let data = match data_bytes(pairs) {
            MBUF_DATA_BYTES => {
                settings.take("mbuf_data_bytes", written.mbuf_data_bytes, MBUF_DATA_BYTES)
            }
            data => settings.take_or_compute("mbuf_data_bytes", written.mbuf_data_bytes, data),
        };
        let needed_mb = memory::eal_megabytes(memory::pool_bytes(mbufs, data, huge), pairs.len());
        let memory_mb = settings.take_or_compute("memory_mb", written.memory_mb, needed_mb);
        let extra = settings.take("extra", written.extra, Vec::new());

        if let Some(place) = mbufs_place.filter(|_| u64::from(mbufs) < needed) {
            let fault = Fault::TooFewMbufs { found: mbufs, needed };
            problems.push(Problem { place, key: "eal.mbufs".to_owned(), fault });
        }
        if let Some(place) = memory_place.filter(|_| memory_mb < needed_mb) {
            let fault = Fault::TooLittleMemory { found: memory_mb, needed: needed_mb };
            problems.push(Problem { place, key: "eal.memory_mb".to_owned(), fault });
        }
        if problems.is_empty() {
            Ok(Self { huge, memory_mb, mbufs, mbuf_data_bytes: data, extra })
        } else {
            Err(problems)
        }
    }
}

/// Returns bytes of data for whole frames of the largest MTU of `pairs`. Not every driver takes
/// several buffers for one frame, and `net_af_packet` wants a buffer of the size of its own frames.
fn data_bytes(pairs: &[PairPlan]) -> u16 {
    let whole = pairs.iter().map(|pair| (pair.largest_mtu + L2_BYTES).next_multiple_of(64));
    let rings = pairs.iter().flat_map(|pair| {
        let ports = [&pair.a, &pair.b].into_iter();
        ports.filter_map(|port| match port.is_interface() {
            true => Some(Devargs::af_packet_frame(pair.largest_mtu)),
            false => port.ring_frame(),
        })
    });
    let data = whole.chain(rings).max().unwrap_or(0).max(MBUF_DATA_BYTES.into());
    data.min(MBUF_DATA_BYTES_MAX.into()) as u16
}

/// Returns problems for arguments that would end the program with status 0.
fn requests_for_help(extra: &Located<Vec<String>>) -> impl Iterator<Item = Problem> {
    let requests = extra.value.iter().enumerate().filter(|(_, word)| dpdk::asks_for_help(word));
    requests.map(|(index, word)| {
        let (key, fault) = (format!("eal.extra[{index}]"), Fault::AsksForHelp(word.clone()));
        Problem { place: extra.place, key, fault }
    })
}

impl Plan {
    /// Returns the configuration of EAL on a host with `free_mb` megabytes of free hugepages.
    pub fn eal_config(&self, free_mb: u64) -> dpdk::EalConfig {
        let ports = self.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]);
        let workers = self.pairs.iter().flat_map(|pair| &pair.workers);
        dpdk::EalConfig {
            lcores: workers.map(|cpu| *cpu as usize).collect(),
            no_huge: match self.eal.huge {
                Huge::Auto => free_mb < u64::from(self.eal.memory_mb),
                Huge::Yes => false,
                Huge::No => true,
            },
            memory_mb: self.eal.memory_mb,
            companions: companions_of(ports.clone()),
            ports: ports.map(ToString::to_string).collect(),
            extra: self.eal.extra.clone(),
            ..dpdk::EalConfig::default()
        }
    }
}
