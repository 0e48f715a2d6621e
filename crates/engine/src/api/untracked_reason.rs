// SPDX-License-Identifier: BSD-3-Clause
//! Why a packet was not tracked: one list that is the enum, the counters, the member names in
//! `--json` and the table in the documentation.

/// Why the engine could not count a packet to a flow. One counter each.
///
/// A bump in the wire is transparent: by default all of these are passed on untouched. What may be
/// dropped instead is the class [`malformed`](Reason::is_malformed) (`[policy] malformed`), what
/// found no room (`[table] when_full`), and [`Invalid`](Reason::Invalid) and
/// [`Unrelated`](Reason::Unrelated) (`[policy] invalid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// EtherType is neither IPv4 nor IPv6 (ARP, LLDP, MPLS, ...).
    NonIp,
    /// IEEE 802.3 length field instead of an EtherType: LLC/SNAP (spanning tree, IS-IS, ...).
    Llc,
    /// More than two VLAN tags.
    VlanDepth,
    /// A fragment other than the first, whose first one was not here: there are no ports to look
    /// at. Or its connection is over.
    Fragment,
    /// A fragment of a datagram for which there was no room.
    FragmentFull,
    /// A fragment of a datagram whose fragments overlap (RFC 5722), or lie behind its end.
    FragmentOverlap,
    /// A first fragment that ends inside the headers with ports and flags, or one that could
    /// overwrite the flags of TCP (RFC 1858, RFC 3128, RFC 7112).
    FragmentTiny,
    /// A fragment that is empty, that ends beyond 65,535 bytes, or in the middle of 8.
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
    /// A new flow found the flow table full.
    TableFull,
    /// A new flow found its zone full.
    ZoneFull,
    /// The source of a new flow has as many as it may.
    SourceFull,
    /// As many flows have begun in this second as may.
    NewRate,
    /// None its connection can have, by one of the reasons in [`Irregular`](crate::Irregular).
    Invalid,
    /// An ICMP error about a packet of a known connection. It belongs to the connection, changes
    /// nothing about it, and is counted to none.
    Related,
    /// An ICMP error about no known connection, about what its sender has not sent, or that quotes
    /// no packet at all.
    Unrelated,
    /// An ICMP error or a fragment whose connection another worker has, which had no room for it.
    WorkerBusy,
}

impl Reason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Reason; 27] = [
        Reason::NonIp,
        Reason::Llc,
        Reason::VlanDepth,
        Reason::Fragment,
        Reason::FragmentFull,
        Reason::FragmentOverlap,
        Reason::FragmentTiny,
        Reason::FragmentLength,
        Reason::ExtensionLimit,
        Reason::CaptureCut,
        Reason::EthernetTruncated,
        Reason::IpTruncated,
        Reason::IpVersion,
        Reason::IpHeaderLength,
        Reason::IpLength,
        Reason::ExtensionTruncated,
        Reason::TransportTruncated,
        Reason::TcpOffset,
        Reason::UdpLength,
        Reason::TableFull,
        Reason::ZoneFull,
        Reason::SourceFull,
        Reason::NewRate,
        Reason::Invalid,
        Reason::Related,
        Reason::Unrelated,
        Reason::WorkerBusy,
    ];

    /// The name in `--json`, metrics and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::NonIp => "non_ip",
            Reason::Llc => "llc",
            Reason::VlanDepth => "vlan_depth",
            Reason::Fragment => "fragment",
            Reason::FragmentFull => "fragment_full",
            Reason::FragmentOverlap => "fragment_overlap",
            Reason::FragmentTiny => "fragment_tiny",
            Reason::FragmentLength => "fragment_length",
            Reason::ExtensionLimit => "extension_limit",
            Reason::CaptureCut => "capture_cut",
            Reason::EthernetTruncated => "ethernet_truncated",
            Reason::IpTruncated => "ip_truncated",
            Reason::IpVersion => "ip_version",
            Reason::IpHeaderLength => "ip_header_length",
            Reason::IpLength => "ip_length",
            Reason::ExtensionTruncated => "extension_truncated",
            Reason::TransportTruncated => "transport_truncated",
            Reason::TcpOffset => "tcp_offset",
            Reason::UdpLength => "udp_length",
            Reason::TableFull => "table_full",
            Reason::ZoneFull => "zone_full",
            Reason::SourceFull => "source_full",
            Reason::NewRate => "new_rate",
            Reason::Invalid => "invalid",
            Reason::Related => "related",
            Reason::Unrelated => "unrelated",
            Reason::WorkerBusy => "worker_busy",
        }
    }

    /// One line for people.
    pub const fn doc(self) -> &'static str {
        match self {
            Reason::NonIp => "neither IPv4 nor IPv6 (ARP, LLDP, MPLS, ...)",
            Reason::Llc => "IEEE 802.3 frame with LLC (spanning tree, IS-IS, ...)",
            Reason::VlanDepth => "more than two VLAN tags",
            Reason::Fragment => "IP fragment of a datagram whose first fragment was not here",
            Reason::FragmentFull => "IP fragment for which there was no room",
            Reason::FragmentOverlap => "IP fragment of a datagram whose fragments overlap",
            Reason::FragmentTiny => "IP fragment that ends inside its headers, or begins in them",
            Reason::FragmentLength => "IP fragment of a length that none can have",
            Reason::ExtensionLimit => "more than 8 IPv6 extension headers or 256 bytes of them",
            Reason::CaptureCut => "the capture cut the packet before its ports",
            Reason::EthernetTruncated => "frame ends inside the Ethernet header or a VLAN tag",
            Reason::IpTruncated => "frame ends inside the IP header",
            Reason::IpVersion => "IP version field disagrees with the EtherType",
            Reason::IpHeaderLength => "IPv4 header length below 20 or beyond the total length",
            Reason::IpLength => "IP length beyond the frame, or from 1 to 19",
            Reason::ExtensionTruncated => "IPv6 extension header ends beyond the packet",
            Reason::TransportTruncated => "packet ends inside the transport header",
            Reason::TcpOffset => "TCP data offset below 5 or beyond the packet",
            Reason::UdpLength => "UDP length below 8 or beyond the packet",
            Reason::TableFull => "a new flow found the flow table full",
            Reason::ZoneFull => "a new flow found its zone full",
            Reason::SourceFull => "the source of a new flow has as many as it may",
            Reason::NewRate => "as many flows have begun in this second as may",
            Reason::Invalid => "a packet its connection cannot have",
            Reason::Related => "ICMP error about a known connection",
            Reason::Unrelated => "ICMP error about no known connection",
            Reason::WorkerBusy => "the worker that has its connection had no room for it",
        }
    }

    /// True for fragments that no correct sender makes (`[policy] fragments`).
    pub const fn is_odd_fragment(self) -> bool {
        matches!(self, Reason::FragmentOverlap | Reason::FragmentTiny | Reason::FragmentLength)
    }

    /// True for packets that no correct sender makes, but for
    /// [odd fragments](Self::is_odd_fragment).
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            Reason::EthernetTruncated
                | Reason::IpTruncated
                | Reason::IpVersion
                | Reason::IpHeaderLength
                | Reason::IpLength
                | Reason::ExtensionTruncated
                | Reason::TransportTruncated
                | Reason::TcpOffset
                | Reason::UdpLength
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::api::untracked_reason::Reason;

    #[test]
    fn the_list_is_in_counter_order_and_names_are_unique() {
        for (i, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(Reason::ALL[..i].iter().all(|other| other.name() != reason.name()));
        }
    }
}
