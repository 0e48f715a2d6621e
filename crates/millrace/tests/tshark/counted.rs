// SPDX-License-Identifier: BSD-3-Clause
//! To which conversations tshark counts a packet, and why not always to those of its flow.
//!
//! A packet that `millrace` passes untracked for one of the `RULES` may still have conversations:
//! of those that tshark does not mind. A packet of a flow has the flow's own, or one of the
//! [`CAUSES`] is there.

use crate::chain::Chain;
use crate::packet::{Packet, is_ip};
use crate::tally::End;
use std::net::IpAddr;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// Bytes of its header and of the header of a chunk.
const SCTP_WITH_CHUNK: u64 = 16;
/// The IPv6 Mobility header (RFC 6275).
const MOBILITY: u8 = 135;
/// The authentication header (RFC 4302).
const AUTHENTICATION: u64 = 51;

/// Extension headers as tshark calls them where it runs out of bytes in one.
const EXTENSIONS: [&str; 5] =
    ["AH", "IPv6 Destination", "IPv6 Fragment", "IPv6 Hop-by-Hop", "IPv6 Routing"];

/// Why tshark counts a packet of a flow to other conversations, or to none.
pub(crate) struct Cause {
    pub(crate) why: &'static str,
    pub(crate) holds: fn(&Packet) -> bool,
}

pub(crate) const CAUSES: [Cause; 8] = [
    Cause {
        why: "tshark drops a packet whose TCP header was not captured as a whole, or goes beyond \
              it; 4.4 counts it where only options are missing",
        holds: |packet| is_transport(packet, TCP) && is_counted_by_some(packet),
    },
    Cause {
        why: "tshark drops an IPv6 packet whose extension headers were not captured as a whole, or \
              are wrong inside",
        holds: |packet| gives_up_in(packet, &EXTENSIONS),
    },
    Cause {
        why: "tshark takes the Mobility header for an extension header, and forgets to count it",
        holds: |packet| is_transport(packet, MOBILITY),
    },
    Cause {
        why: "tshark looks behind an authentication header of IPv4, too",
        holds: |packet| packet.number("ip.proto") == Some(AUTHENTICATION),
    },
    Cause {
        why: "to tshark the destination is the last address of a routing header that is not used \
              up (RFC 8200 section 4.4, RFC 8754)",
        holds: |packet| packet.number("ipv6.routing.segleft").is_some_and(|left| left > 0),
    },
    Cause {
        why: "tshark counts a fragment behind the first to no ports",
        holds: |packet| packet.part().is_some_and(|part| part.start > 0),
    },
    Cause {
        why: "tshark drops a UDP datagram whose checksum was not captured",
        holds: |packet| is_transport(packet, UDP),
    },
    Cause {
        why: "tshark drops an SCTP packet without a whole chunk; 4.4 counts it where the header of \
              one is there",
        holds: |packet| is_transport(packet, SCTP),
    },
];

/// The ends of the IP packet as tshark's conversations of IP have them.
pub(crate) fn ip_conversation(packet: &Packet) -> Option<[End; 2]> {
    let (src, dst) = packet.addresses()?;
    let is_counted = if packet.is_ipv4() {
        has_ipv4_options(packet)
    } else {
        packet.part().is_none_or(|part| part.start == 0)
            && !ends_in_extensions(packet)
            && !is_transport(packet, MOBILITY)
            && !gives_up_in(packet, &EXTENSIONS)
    };
    is_counted.then_some([(src, 0), (dst, 0)])
}

/// The transport protocol and its ends as tshark's conversations of it have them.
pub(crate) fn transport_conversation(packet: &Packet) -> Option<(u8, [End; 2])> {
    let mut behind = packet.ip_protocols().filter(|protocol| !is_ip(protocol));
    let name = behind.find(|protocol| !protocol.starts_with("ipv6.") && *protocol != "ah")?;
    let captured = packet.dissected().map_or(u64::MAX, |transport| transport.captured);
    let (proto, is_counted) = match name {
        "tcp" => (TCP, packet.number("tcp.hdr_len")? >= 20),
        "udp" => {
            let len = packet.number("udp.length")?;
            // IPv6 has datagrams of length 0, in jumbograms.
            (UDP, captured >= 8 && (len >= 8 || len == 0 && !packet.is_ipv4()))
        }
        "sctp" => (SCTP, captured >= SCTP_WITH_CHUNK),
        _ => return None,
    };
    let [sport, dport] = packet.ports(name)?;
    let ends = [(packet.addresses()?.0, sport), (final_destination(packet)?, dport)];
    is_counted.then_some((proto, ends))
}

/// Whether the TCP header goes beyond the packet or its capture, or a chunk of SCTP does: not every
/// version of tshark counts these.
pub(crate) fn is_counted_by_some(packet: &Packet) -> bool {
    let Some(transport) = packet.dissected() else { return false };
    match transport.proto {
        TCP => packet.number("tcp.hdr_len").is_none_or(|len| len > transport.captured),
        SCTP => gives_up_in(packet, &["SCTP"]),
        _ => false,
    }
}

fn is_transport(packet: &Packet, proto: u8) -> bool {
    packet.dissected().is_some_and(|transport| transport.proto == proto)
}

/// Whether it is a first fragment with a part of the extension headers.
fn ends_in_extensions(packet: &Packet) -> bool {
    packet.is_first_fragment() && packet.chain() == Chain::FragmentTiny
}

/// Whether the capture has all of the IPv4 header.
fn has_ipv4_options(packet: &Packet) -> bool {
    let end = packet.link_len().zip(packet.number("ip.hdr_len"));
    end.is_some_and(|(link_len, header_len)| packet.captured_len() >= link_len + header_len)
}

/// The IP destination, or the last address of a routing header that is not used up.
fn final_destination(packet: &Packet) -> Option<IpAddr> {
    let (_, dst) = packet.addresses()?;
    let last = match packet.number("ipv6.routing.segleft") {
        None | Some(0) => None,
        Some(_) => {
            // A segment routing header lists them last to first.
            let segments = packet.all("ipv6.routing.srh.addr").next();
            segments.or(packet.all("ipv6.routing.src.addr").last())
        }
    };
    Some(last.map_or(dst, |address| address.parse().expect("an address")))
}

/// Whether tshark ran out of bytes in one of these headers.
fn gives_up_in(packet: &Packet, names: &[&str]) -> bool {
    let marks = packet.all("_ws.malformed").chain(packet.all("_ws.short"));
    let mut places = marks.filter_map(|mark| mark.split_once(": "));
    places.any(|(_, place)| names.iter().any(|name| place.starts_with(name)))
}
