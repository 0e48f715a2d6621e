// SPDX-License-Identifier: BSD-3-Clause
//! Owns what a packet contains: key, counters, TCP and SCTP headers, checksum, fragment header; and
//! the batch of parsed packets in columns.
//!
//! It knows no connection: it imports `base` and `api` only.

mod batch;
mod checksum;
mod descriptor;
mod fragment;
mod handoff;
mod headers;
mod icmp;
mod icmp_header;
mod key;
pub(crate) mod parse;
mod plain_batch;
mod sctp;
mod tcp;
mod view;

pub(crate) use batch::{Batch, BatchFragment, Batches, Burst, FamilyBatch, LaterFragment};
pub(crate) use checksum::{ChecksumSource, is_plain_tcp_right};
pub(crate) use descriptor::{
    BYTES_MAX, BYTES_SHIFT, HeaderInfo, OVERHEAD_MAX, OVERHEAD_SHIFT, PACKETS_SHIFT, PacketMeta,
    TcpHead, TcpReach,
};
pub(crate) use fragment::{FragmentHeader, FragmentRange, SourceKey, UNIT, key_of};
pub use handoff::{HandedOff, Handoff};
pub(crate) use headers::{
    AUTHENTICATION, DESTINATION, ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MIN,
    ETHERTYPE_TAGS, EXTENSION_BYTES_MAX, FRAGMENT, HEADERS_MAX, HOP_BY_HOP, IPV4_MIN, IPV6,
    ROUTING, SCTP, TCP_MIN, UDP, VLAN_TAG, extension_len, total_len4, zone_of,
};
pub(crate) use icmp::{has_identifier, icmp_ports, is_error, is_neighbour_discovery, is_reply};
pub(crate) use icmp_header::IcmpHeader;
pub(crate) use key::{Key, Key4, Key6, KeyParts, L4Id, key4, key6, zone_proto};
pub(crate) use plain_batch::{PlainBatch, PlainColumns, PlainRows};
pub(crate) use sctp::{ChunkKind, Probe, SctpChunks};
pub(crate) use tcp::{
    ACK, FIN, HeaderBuf, RST, SCALE_MAX, SYN, SYN_FIN_RST, SeqNumbers, TcpHeader, TcpSegment, URG,
    has_valid_flags, is_syn,
};
pub(crate) use view::{PacketView, prefetch_head, prefetch_heads};
