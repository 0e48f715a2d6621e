// SPDX-License-Identifier: BSD-3-Clause
//! Says how a workload is composed. Percentages are shares of connections, not of packets.

/// Parameters of a [`Workload`](crate::Workload).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Maximum number of connections at the same time. The actual number is a little lower.
    pub concurrent: u32,
    /// Percentage of connections that are IPv6.
    pub ipv6_percent: u32,
    /// Percentage of connections with one VLAN tag.
    pub vlan_percent: u32,
    /// Percentage of connections with two VLAN tags.
    pub qinq_percent: u32,
    /// Percentage of connections that are one request and one answer over UDP (DNS).
    pub lookup_percent: u32,
    /// Percentage of connections that are voice or video over UDP (RTP).
    pub stream_percent: u32,
    /// Percentage of connections that are ICMP echo. The rest is TCP.
    pub ping_percent: u32,
    /// Frames in a million that are not IP: ARP, LLDP, spanning tree.
    pub background_ppm: u32,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            concurrent: 20_000,
            ipv6_percent: 30,
            vlan_percent: 15,
            qinq_percent: 5,
            lookup_percent: 20,
            stream_percent: 5,
            ping_percent: 4,
            background_ppm: 500,
        }
    }
}

impl Profile {
    /// Checks the parameters.
    ///
    /// # Panics
    /// If there are no connections, or percentages are above 100 together.
    pub(crate) fn assert_valid(&self) {
        assert!(self.concurrent > 0, "a workload of 0 flows");
        assert!(self.ipv6_percent <= 100, "{} % IPv6", self.ipv6_percent);
        let tagged = self.vlan_percent + self.qinq_percent;
        assert!(tagged <= 100, "{tagged} % of flows with VLAN tags");
        let not_tcp = self.lookup_percent + self.stream_percent + self.ping_percent;
        assert!(not_tcp <= 100, "{not_tcp} % of flows are not TCP");
    }
}
