// SPDX-License-Identifier: BSD-3-Clause
//! Where `millrace` and tshark differ, and why: every difference, none besides.
//!
//! A rule is about one packet and looks only at what tshark says of it. The first that holds names
//! the counter under which `millrace` must have passed the packet; if none holds, `millrace` must
//! have counted the packet to the flow that tshark sees. So a rule that holds for one packet too
//! many or too few fails the test.

use crate::chain::Chain;
use crate::packet::Packet;

/// A class of packets that no flow of `millrace` counts.
pub(crate) struct Rule {
    /// The counter in the summary's `passed`.
    pub(crate) reason: &'static str,
    /// Why `millrace` has no flow for it, and what tshark does.
    pub(crate) why: &'static str,
    pub(crate) holds: fn(&Packet) -> bool,
}

/// One of [`OF_ICMP_ERRORS`]: which of them, tshark does not say.
pub(crate) const ICMP_ERROR: &str = "ICMP error";
pub(crate) const OF_ICMP_ERRORS: [&str; 5] =
    ["related", "unrelated", "capture_cut", "fragment", "extension_limit"];

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const GRE: u8 = 47;
const ESP: u8 = 50;

/// In the order in which a packet is read.
pub(crate) const RULES: [Rule; 23] = [
    Rule {
        reason: "link_type",
        why: "tshark knows hundreds of link types, millrace the usual ones",
        holds: |packet| packet.link_len().is_none(),
    },
    Rule { reason: "llc", why: "IP behind LLC and SNAP is not followed", holds: Packet::is_llc },
    Rule {
        reason: "ethernet_truncated",
        why: "the frame ends in its link header",
        holds: |packet| !packet.has_ip() && packet.frame_len() < link_least(packet),
    },
    Rule {
        reason: "capture_cut",
        why: "captured bytes end in the link header",
        holds: |packet| !packet.has_ip() && packet.captured_len() < link_least(packet),
    },
    Rule {
        reason: "vlan_depth",
        why: "tshark follows any number of tags, millrace two",
        holds: |packet| packet.tags() > 2,
    },
    Rule {
        reason: "ip_truncated",
        why: "the frame ends in the IP header",
        holds: |packet| packet.ip_end().is_some_and(|end| packet.frame_len() < end),
    },
    Rule {
        reason: "capture_cut",
        why: "captured bytes end in the IP header",
        holds: |packet| packet.ip_end().is_some_and(|end| packet.captured_len() < end),
    },
    Rule {
        reason: "ip_version",
        why: "the version is not the one that the EtherType says; tshark follows the version",
        holds: Packet::has_wrong_version,
    },
    Rule {
        reason: "non_ip",
        why: "what is not IP has no flow; tshark agrees",
        holds: |packet| !packet.has_ip(),
    },
    Rule {
        reason: "ip_header_length",
        why: "the IPv4 header is shorter than 20 bytes or longer than the packet; tshark gives up",
        holds: |packet| {
            let len = packet.number("ip.len").unwrap_or(0);
            let header_len = packet.number("ip.hdr_len");
            header_len.is_some_and(|header_len| header_len < 20 || 20 <= len && len < header_len)
        },
    },
    Rule {
        reason: "ip_length",
        why: "the IP packet is longer than the frame, or shorter than its header; tshark goes on \
              with the frame's length",
        holds: |packet| {
            let (len, least) = (packet.ip_len(), 20);
            let most = packet.frame_len() - packet.link_len().unwrap_or(0);
            len.is_none_or(|len| len < least || most < len)
        },
    },
    Rule {
        reason: "fragment_length",
        why: "no fragment can be so long: empty, beyond the longest datagram, or cut inside 8",
        holds: |packet| packet.chain() == Chain::FragmentLength,
    },
    Rule {
        reason: "fragment_tiny",
        why: "extension headers go beyond the first fragment, or flags of TCP are in the second",
        holds: |packet| packet.chain() == Chain::FragmentTiny,
    },
    Rule {
        reason: "extension_limit",
        why: "tshark follows any number of extension headers",
        holds: |packet| packet.chain() == Chain::TooLong,
    },
    Rule {
        reason: "extension_truncated",
        why: "the packet ends in an extension header",
        holds: |packet| packet.chain() == Chain::Truncated,
    },
    Rule {
        reason: "capture_cut",
        why: "captured bytes end in an extension header",
        holds: |packet| packet.chain() == Chain::Cut,
    },
    Rule {
        reason: "fragment_tiny",
        why: "the first fragment ends in the transport header",
        holds: |packet| packet.is_first_fragment() && ends_in_transport(packet),
    },
    Rule {
        reason: "transport_truncated",
        why: "the packet ends in the transport header; tshark may have seen the ports before that",
        holds: ends_in_transport,
    },
    Rule {
        reason: "capture_cut",
        why: "captured bytes end in front of what is read of the transport header: ports, type, \
              identifier; tshark may have seen the type before that",
        holds: |packet| {
            packet.transport().is_some_and(|transport| {
                transport.captured
                    < match transport.proto {
                        TCP | UDP | SCTP | ESP => 4,
                        GRE if packet.gre_len() > 4 => packet.gre_len(),
                        GRE => 2,
                        _ if packet.is_icmp() && packet.has_icmp_identifier() => 6,
                        _ if packet.is_icmp() => 2,
                        _ => 0,
                    }
            })
        },
    },
    Rule {
        reason: ICMP_ERROR,
        why: "an ICMP error has no flow of its own; what it quotes is in other tests",
        holds: Packet::is_icmp_error,
    },
    Rule {
        reason: "fragment_tiny",
        why: "the first fragment ends in the options of TCP",
        holds: |packet| {
            packet.transport().is_some_and(|transport| {
                let len = packet.number("tcp.hdr_len");
                let is_tcp = transport.proto == TCP && packet.is_first_fragment();
                is_tcp && len.is_some_and(|len| len >= 20 && len > transport.len)
            })
        },
    },
    Rule {
        reason: "tcp_offset",
        why: "the TCP header is shorter than 20 bytes or longer than the packet",
        holds: |packet| {
            packet.transport().is_some_and(|transport| {
                let len = packet.number("tcp.hdr_len");
                let is_beyond = |len| len > transport.len && !packet.is_first_fragment();
                transport.proto == TCP && len.is_some_and(|len| len < 20 || is_beyond(len))
            })
        },
    },
    Rule {
        reason: "udp_length",
        why: "the UDP datagram is longer than the packet or shorter than its header (0 is for \
              jumbograms); tshark counts it",
        holds: |packet| {
            packet.transport().is_some_and(|transport| {
                let len = packet.number("udp.length");
                let is_short = |len| len < 8 && !(len == 0 && packet.is_jumbogram());
                let is_beyond = |len| len > transport.len && !packet.is_first_fragment();
                transport.proto == UDP && len.is_some_and(|len| is_short(len) || is_beyond(len))
            })
        },
    },
];

/// Whether the packet has less than all of the transport header that is looked at.
fn ends_in_transport(packet: &Packet) -> bool {
    packet.transport().is_some_and(|transport| {
        transport.len
            < match transport.proto {
                TCP => 20,
                UDP => 8,
                SCTP => 12,
                GRE => packet.gre_len(),
                ESP => 8,
                _ if packet.is_icmp_error() => 8,
                _ if packet.is_icmp() && packet.has_icmp_identifier() => 8,
                _ if packet.is_icmp() => 4,
                _ => 0,
            }
    })
}

/// Bytes of a frame with a whole link header; an empty one has none.
fn link_least(packet: &Packet) -> u64 {
    packet.link_len().unwrap_or(0).max(1)
}

/// A flow record keeps the bytes of a frame outside its IP packet, and takes for IP bytes what is
/// more than these.
pub(crate) const OVERHEAD_MAX: u64 = 0x7fff;
pub(crate) const OVERHEAD: &str =
    "with more than 32767 bytes outside the IP packet, of which the rest counts as IP bytes";

pub(crate) const CLAIMS_LESS: &str =
    "of which the capture claims fewer bytes than it holds; to millrace, those it holds count";

pub(crate) const FOLLOWED: &str =
    "fragments behind the first, of its flow to millrace; tshark puts nothing together here";

/// Fragments without a flow for what other packets are, by reason.
pub(crate) const OF_DATAGRAMS: [(&str, &str); 2] = [
    ("fragment", "fragments behind the first, which is not there or has no flow"),
    ("fragment_overlap", "fragments of a datagram whose fragments overlap"),
];

/// Differences that no rule and no exception has.
pub(crate) const OTHERS: [&str; 5] =
    [OVERHEAD, CLAIMS_LESS, FOLLOWED, OF_DATAGRAMS[0].1, OF_DATAGRAMS[1].1];

/// Packets that no rule is about.
pub(crate) struct Exception {
    /// Name of the capture, and a number there; `None` means each of its packets.
    pub(crate) capture: &'static str,
    pub(crate) number: Option<u64>,
    pub(crate) why: &'static str,
    pub(crate) ours: Ours,
}

/// What `millrace` makes of an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ours {
    Passed(&'static str),
    /// Counts it to the flow between its addresses of this protocol with these ports, or ICMP type
    /// and code.
    Counted {
        proto: u8,
        ports: [u16; 2],
    },
}

pub(crate) const EXCEPTIONS: [Exception; 7] = [
    Exception {
        capture: "ipv6_missing_jumbo_payload_option.pcap",
        number: Some(1),
        why: "a hop-by-hop header and a length of 0, but no jumbo payload option: tshark takes the \
              length at its word, millrace the frame's; it does not look at options",
        ours: Ours::Counted { proto: 88, ports: [0, 0] },
    },
    Exception {
        capture: "heapoverflow-ppp_hdlc_if_print.pcap",
        number: Some(1),
        why: "PPP in HDLC framing that does not begin as PPP does: Cisco's HDLC to millrace, of \
              which 2 bytes are too few, and another protocol than IP to tshark",
        ours: Ours::Passed("capture_cut"),
    },
    Exception {
        capture: "sctp-cut-behind-ports.pcap",
        number: None,
        why: "of an SCTP header that was not captured as a whole, tshark shows nothing",
        ours: Ours::Counted { proto: SCTP, ports: [1, 2] },
    },
    Exception {
        capture: "icmp-error-cut.pcap",
        number: None,
        why: ICMP_OF_5_BYTES,
        ours: Ours::Passed("capture_cut"),
    },
    Exception {
        capture: "icmp-error-short.pcap",
        number: None,
        why: ICMP_OF_5_BYTES,
        ours: Ours::Passed("transport_truncated"),
    },
    Exception {
        capture: "echo-cut.pcap",
        number: None,
        why: ICMP_OF_5_BYTES,
        ours: Ours::Passed("capture_cut"),
    },
    Exception {
        capture: "echo-short.pcap",
        number: None,
        why: ICMP_OF_5_BYTES,
        ours: Ours::Passed("transport_truncated"),
    },
];

const ICMP_OF_5_BYTES: &str = "tshark does not even show the type of an ICMP message of IPv4 of \
                               which there are less than 6 bytes";
