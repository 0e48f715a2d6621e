// SPDX-License-Identifier: BSD-3-Clause
//! Reads the RSS key and table of a configured port from its driver.

use crate::{Errno, ethdev, flow, sys};
use wire::rss::{RssFields, RssSpread};

/// Key and table of a port's receive-side scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpread {
    /// Key of the Toeplitz hash.
    pub key: Vec<u8>,
    /// Packets that are hashed, and their fields: DPDK's `RTE_ETH_RSS_` bits.
    pub types: u64,
    /// The queue for each remainder of the hash.
    pub queues: Vec<u16>,
}

impl PortSpread {
    /// Returns what computes the queue of a packet.
    pub fn to_queues(&self) -> RssSpread {
        let has = |name: &str| {
            flow::RSS_TYPES.iter().any(|(is, bit)| *is == name && self.types & bit != 0)
        };
        let of = |version: &str| {
            let has = |kind: &str| has(&format!("{version}{kind}"));
            let addresses = has("") || has("-other");
            RssFields { tcp: has("-tcp"), udp: has("-udp"), sctp: has("-sctp"), addresses }
        };
        RssSpread::new(&self.key, self.queues.clone(), ["ipv4", "ipv6"].map(of))
    }
}

/// Entries of a table that are read at a time: `RTE_ETH_RETA_GROUP_SIZE`.
const GROUP: usize = 64;
/// Entries of the largest table that any driver has.
const TABLE_MAX: u16 = 1 << 12;

/// Reads key and table of an ethdev; fails if its driver does not report them.
pub(crate) fn of(id: u16) -> Result<PortSpread, Errno> {
    let info = ethdev::info(id)?;
    let mut key = vec![0; u8::MAX.into()];
    // SAFETY: a plain C struct for which zero is "not set".
    let mut conf: sys::rte_eth_rss_conf = unsafe { std::mem::zeroed() };
    (conf.rss_key, conf.rss_key_len) = (key.as_mut_ptr(), key.len() as u8);
    // SAFETY: the ethdev exists; `conf` has room for a key of the length that it says.
    Errno::check(unsafe { sys::rte_eth_dev_rss_hash_conf_get(id, &mut conf) })?;
    key.truncate(match info.hash_key_size {
        0 => conf.rss_key_len.into(),
        len => len.into(),
    });
    let len = info.reta_size;
    if len == 0 || len > TABLE_MAX || key.is_empty() {
        return Err(Errno::NotSupported);
    }
    let group = sys::rte_eth_rss_reta_entry64 { mask: u64::MAX, reta: [0; GROUP] };
    let mut groups = vec![group; usize::from(len).div_ceil(GROUP)];
    // SAFETY: the ethdev exists; there are as many groups as `len` entries take.
    Errno::check(unsafe { sys::rte_eth_dev_rss_reta_query(id, groups.as_mut_ptr(), len) })?;
    let queues = groups.iter().flat_map(|group| group.reta).take(len.into()).collect();
    Ok(PortSpread { key, types: conf.rss_hf, queues })
}
