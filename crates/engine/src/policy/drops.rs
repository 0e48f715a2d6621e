// SPDX-License-Identifier: BSD-3-Clause
//! Decides which packets are dropped: those without a connection, or that do not fit theirs.

use crate::api::{
    Anomaly, Config, InvalidFragments, InvalidPackets, MalformedPackets, UntrackedReason,
};

/// Drop policy of the configuration for malformed packets, invalid packets and odd fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropPolicy {
    malformed: bool,
    invalid: bool,
    odd_fragments: bool,
    /// True if no connection of these packets can be on another worker.
    pub(crate) has_all_packets: bool,
    /// True if access lists judge the packets of this burst.
    pub(crate) judges: bool,
    /// True if they judge packets that do not fit their connection.
    pub(crate) judges_invalid: bool,
    /// True if they drop IP packets that cannot be compared with rules.
    pub(crate) denies_unjudged: bool,
    /// True if they drop frames whose EtherType cannot be read.
    pub(crate) denies_unread_frames: bool,
}

impl DropPolicy {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            malformed: config.malformed == MalformedPackets::Drop,
            invalid: config.invalid == InvalidPackets::Drop,
            odd_fragments: config.odd_fragments == InvalidFragments::Drop,
            has_all_packets: config.has_all_packets,
            judges: false,
            judges_invalid: false,
            denies_unjudged: false,
            denies_unread_frames: false,
        }
    }

    /// True if a packet without a flow key is dropped.
    pub(crate) fn drops_keyless(self, reason: UntrackedReason) -> bool {
        match reason {
            UntrackedReason::NonIp | UntrackedReason::Llc => false,
            _ if self.denies_unjudged => true,
            UntrackedReason::EthernetTruncated | UntrackedReason::VlanDepth
                if self.denies_unread_frames =>
            {
                true
            }
            UntrackedReason::Unrelated => self.invalid,
            _ if reason.is_odd_fragment() => self.odd_fragments,
            _ => reason.is_malformed() && self.malformed,
        }
    }

    /// True if a packet that does not fit its connection is dropped. Others are counted to it.
    pub(crate) fn drops(self, anomaly: Anomaly) -> bool {
        self.invalid && self.is_surely_invalid(anomaly)
    }

    /// True if access lists judge a packet that does not fit its connection.
    pub(crate) fn judges_invalid(self, anomaly: Anomaly) -> bool {
        self.judges_invalid && self.is_surely_invalid(anomaly)
    }

    fn is_surely_invalid(self, anomaly: Anomaly) -> bool {
        // The request of a reply may have passed another worker.
        anomaly.is_invalid() && (anomaly != Anomaly::IcmpReply || self.has_all_packets)
    }

    /// True if a packet that no connection can begin with is dropped.
    pub(crate) fn drops_invalid(self) -> bool {
        self.invalid
    }

    /// True if an ICMP error about a connection that is not here is dropped.
    pub(crate) fn drops_unknown(self) -> bool {
        self.invalid && self.has_all_packets
    }
}
