// SPDX-License-Identifier: BSD-3-Clause
//! Owns the reasons why a packet was not tracked.
//!
//! The list defines the enum, the counters, the member names in `--json` and the table in the
//! documentation.

/// Reason why the engine did not count a packet to a connection. Each reason has a counter.
///
/// A bump in the wire is transparent: by default it passes all of these packets untouched. Some can
/// be dropped instead:
///
/// - [`malformed`](UntrackedReason::is_malformed) packets (`[policy] malformed`)
/// - packets that found no room (`[table] when_full`)
/// - [`Invalid`](UntrackedReason::Invalid) and [`Unrelated`](UntrackedReason::Unrelated) packets
///   (`[policy] invalid`)
/// - [odd fragments](UntrackedReason::is_odd_fragment) (`[policy] fragments`)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UntrackedReason {
    /// EtherType is neither IPv4 nor IPv6 (ARP, LLDP, MPLS, ...).
    NonIp,
    /// IEEE 802.3 length field instead of an EtherType: LLC/SNAP (spanning tree, IS-IS, ...).
    Llc,
    /// More than two VLAN tags.
    VlanDepth,
    /// A later fragment whose first fragment did not arrive, so its ports are unknown. Or the
    /// connection of the datagram has ended.
    Fragment,
    /// A fragment of a datagram that found no room.
    FragmentFull,
    /// A fragment of a datagram whose fragments overlap (RFC 5722) or lie beyond its end.
    FragmentOverlap,
    /// A first fragment that ends inside the headers with ports and flags (RFC 1858, RFC 7112).
    ///
    /// Also a fragment that could overwrite the TCP flags (RFC 3128), or a fragment of a fragment.
    FragmentTiny,
    /// A fragment that is empty, that ends beyond 65,535 bytes, or whose length is no multiple of 8
    /// though more fragments follow. Also a fragment of a jumbogram (RFC 2675 section 4).
    FragmentLength,
    /// More than 8 IPv6 extension headers, or more than 256 bytes of them.
    ExtensionLimit,
    /// The capture holds too few bytes of the packet to find its ports and flags.
    CaptureCut,
    /// The frame ends inside the Ethernet header or a VLAN tag.
    EthernetTruncated,
    /// The frame ends inside the IP header.
    IpTruncated,
    /// The version field does not agree with the EtherType.
    IpVersion,
    /// The IPv4 header length is below 20 bytes or beyond the total length.
    IpHeaderLength,
    /// The IP length says more bytes than the frame has, or (IPv4) fewer than 20.
    IpLength,
    /// An IPv6 extension header ends beyond the packet.
    ExtensionTruncated,
    /// The packet ends inside the TCP, UDP, SCTP, ICMP, GRE or ESP header.
    TransportTruncated,
    /// The TCP data offset is below 5 or beyond the packet.
    TcpOffset,
    /// The UDP length is below 8 or beyond the packet.
    UdpLength,
    /// The flow table was full when a new connection began.
    TableFull,
    /// The zone of a new connection was full.
    ZoneFull,
    /// The source of a new connection has reached its limit of connections.
    SourceFull,
    /// The limit of new connections per second was reached.
    NewRate,
    /// The connection cannot have this packet, for one of the reasons in
    /// [`Anomaly`](crate::Anomaly).
    Invalid,
    /// An ICMP error about a packet of a known connection. It is not counted to the connection and
    /// changes no state.
    Related,
    /// An ICMP error that quotes no packet, a packet of no known connection, or one that was not
    /// sent.
    Unrelated,
    /// An ICMP error or a fragment whose connection belongs to another worker, which had no room
    /// for it.
    WorkerBusy,
    /// The packet's zone is not tracked (`tracking = "off"`).
    TrackingOff,
    /// A message of IPv6 neighbour discovery (RFC 4861) or multicast listener discovery (RFC 2710,
    /// RFC 3810), which is part of no connection.
    NeighbourDiscovery,
    /// An access list denies the packet.
    Denied,
}

impl UntrackedReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [UntrackedReason; 30] = [
        UntrackedReason::NonIp,
        UntrackedReason::Llc,
        UntrackedReason::VlanDepth,
        UntrackedReason::Fragment,
        UntrackedReason::FragmentFull,
        UntrackedReason::FragmentOverlap,
        UntrackedReason::FragmentTiny,
        UntrackedReason::FragmentLength,
        UntrackedReason::ExtensionLimit,
        UntrackedReason::CaptureCut,
        UntrackedReason::EthernetTruncated,
        UntrackedReason::IpTruncated,
        UntrackedReason::IpVersion,
        UntrackedReason::IpHeaderLength,
        UntrackedReason::IpLength,
        UntrackedReason::ExtensionTruncated,
        UntrackedReason::TransportTruncated,
        UntrackedReason::TcpOffset,
        UntrackedReason::UdpLength,
        UntrackedReason::TableFull,
        UntrackedReason::ZoneFull,
        UntrackedReason::SourceFull,
        UntrackedReason::NewRate,
        UntrackedReason::Invalid,
        UntrackedReason::Related,
        UntrackedReason::Unrelated,
        UntrackedReason::WorkerBusy,
        UntrackedReason::TrackingOff,
        UntrackedReason::NeighbourDiscovery,
        UntrackedReason::Denied,
    ];

    /// Returns the name in `--json`, metrics and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            UntrackedReason::NonIp => "non_ip",
            UntrackedReason::Llc => "llc",
            UntrackedReason::VlanDepth => "vlan_depth",
            UntrackedReason::Fragment => "fragment",
            UntrackedReason::FragmentFull => "fragment_full",
            UntrackedReason::FragmentOverlap => "fragment_overlap",
            UntrackedReason::FragmentTiny => "fragment_tiny",
            UntrackedReason::FragmentLength => "fragment_length",
            UntrackedReason::ExtensionLimit => "extension_limit",
            UntrackedReason::CaptureCut => "capture_cut",
            UntrackedReason::EthernetTruncated => "ethernet_truncated",
            UntrackedReason::IpTruncated => "ip_truncated",
            UntrackedReason::IpVersion => "ip_version",
            UntrackedReason::IpHeaderLength => "ip_header_length",
            UntrackedReason::IpLength => "ip_length",
            UntrackedReason::ExtensionTruncated => "extension_truncated",
            UntrackedReason::TransportTruncated => "transport_truncated",
            UntrackedReason::TcpOffset => "tcp_offset",
            UntrackedReason::UdpLength => "udp_length",
            UntrackedReason::TableFull => "table_full",
            UntrackedReason::ZoneFull => "zone_full",
            UntrackedReason::SourceFull => "source_full",
            UntrackedReason::NewRate => "new_rate",
            UntrackedReason::Invalid => "invalid",
            UntrackedReason::Related => "related",
            UntrackedReason::Unrelated => "unrelated",
            UntrackedReason::WorkerBusy => "worker_busy",
            UntrackedReason::TrackingOff => "tracking_off",
            UntrackedReason::NeighbourDiscovery => "neighbour_discovery",
            UntrackedReason::Denied => "denied",
        }
    }

    /// Returns a one-line description for reports and documentation.
    pub const fn doc(self) -> &'static str {
        match self {
            UntrackedReason::NonIp => "neither IPv4 nor IPv6 (ARP, LLDP, MPLS, ...)",
            UntrackedReason::Llc => "IEEE 802.3 frame with LLC (spanning tree, IS-IS, ...)",
            UntrackedReason::VlanDepth => "more than two VLAN tags",
            UntrackedReason::Fragment => {
                "later IP fragment whose first fragment or connection is missing"
            }
            UntrackedReason::FragmentFull => "IP fragment of a datagram that found no room",
            UntrackedReason::FragmentOverlap => "IP fragment of a datagram whose fragments overlap",
            UntrackedReason::FragmentTiny => "IP fragment that ends or begins inside the headers",
            UntrackedReason::FragmentLength => "IP fragment with an impossible length",
            UntrackedReason::ExtensionLimit => {
                "more than 8 IPv6 extension headers or 256 bytes of them"
            }
            UntrackedReason::CaptureCut => "the capture cut the packet before its ports",
            UntrackedReason::EthernetTruncated => {
                "frame ends inside the Ethernet header or a VLAN tag"
            }
            UntrackedReason::IpTruncated => "frame ends inside the IP header",
            UntrackedReason::IpVersion => "IP version field disagrees with the EtherType",
            UntrackedReason::IpHeaderLength => {
                "IPv4 header length below 20 or beyond the total length"
            }
            UntrackedReason::IpLength => "IP length beyond the frame, or from 1 to 19",
            UntrackedReason::ExtensionTruncated => "IPv6 extension header ends beyond the packet",
            UntrackedReason::TransportTruncated => "packet ends inside the transport header",
            UntrackedReason::TcpOffset => "TCP data offset below 5 or beyond the packet",
            UntrackedReason::UdpLength => "UDP length below 8 or beyond the packet",
            UntrackedReason::TableFull => "new connection, but the flow table was full",
            UntrackedReason::ZoneFull => "new connection, but its zone was full",
            UntrackedReason::SourceFull => "new connection, but its source was at its limit",
            UntrackedReason::NewRate => "new connection, but the limit per second was reached",
            UntrackedReason::Invalid => {
                "packet that does not fit its connection, or cannot begin one"
            }
            UntrackedReason::Related => "ICMP error about a known connection",
            UntrackedReason::Unrelated => "ICMP error about no known connection",
            UntrackedReason::WorkerBusy => "the worker of its connection had no room for it",
            UntrackedReason::TrackingOff => "its zone is not tracked",
            UntrackedReason::NeighbourDiscovery => {
                "IPv6 neighbour discovery or multicast listener discovery"
            }
            UntrackedReason::Denied => "an access list denies it",
        }
    }

    /// True for fragments that no correct sender makes (`[policy] fragments`).
    pub const fn is_odd_fragment(self) -> bool {
        matches!(
            self,
            UntrackedReason::FragmentOverlap
                | UntrackedReason::FragmentTiny
                | UntrackedReason::FragmentLength
        )
    }

    /// True for packets that no correct sender makes, except [odd
    /// fragments](Self::is_odd_fragment).
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            UntrackedReason::EthernetTruncated
                | UntrackedReason::IpTruncated
                | UntrackedReason::IpVersion
                | UntrackedReason::IpHeaderLength
                | UntrackedReason::IpLength
                | UntrackedReason::ExtensionTruncated
                | UntrackedReason::TransportTruncated
                | UntrackedReason::TcpOffset
                | UntrackedReason::UdpLength
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::api::untracked_reason::UntrackedReason;

    #[test]
    fn the_list_is_in_counter_order_and_names_are_unique() {
        for (i, reason) in UntrackedReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(UntrackedReason::ALL[..i].iter().all(|other| other.name() != reason.name()));
        }
    }
}
