// SPDX-License-Identifier: BSD-3-Clause
//! Where the headers of a frame are.
//!
//! A NIC's parser goes as far as it knows the way and stops without complaint: what lies behind is
//! not there for any rule. Every offset is inside the frame.

use crate::pattern::Proto;
use wire::ethernet::{Ethernet, ether_type};
use wire::vlan::Vlan;

/// Places where a header can be; each has at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    Ethernet,
    OuterVlan,
    InnerVlan,
    Network,
    Transport,
}

pub(crate) const SLOTS: usize = 5;

/// The headers of one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    at: [Option<(Proto, usize)>; SLOTS],
    is_fragment: bool,
}

impl Headers {
    /// Reads as far as the headers are whole.
    pub(crate) fn of(frame: &[u8]) -> Self {
        let mut headers = Self::default();
        // None only says where it ended.
        let _ = headers.walk(frame);
        headers
    }

    /// Which protocol is at `slot`.
    pub(crate) fn proto(&self, slot: Slot) -> Option<Proto> {
        self.at[slot as usize].map(|(proto, _)| proto)
    }

    /// Offset of the header at `slot`; the frame's start where there is none.
    pub(crate) fn offset(&self, slot: Slot) -> usize {
        self.at[slot as usize].map_or(0, |(_, offset)| offset)
    }

    /// Whether it is a part of a packet, be it the first.
    pub(crate) fn is_fragment(&self) -> bool {
        self.is_fragment
    }

    fn put(&mut self, slot: Slot, proto: Proto, offset: usize) {
        self.at[slot as usize] = Some((proto, offset));
    }

    fn walk(&mut self, frame: &[u8]) -> Option<()> {
        let mut ether_type = Ethernet::new(frame)?.ether_type();
        self.put(Slot::Ethernet, Proto::Eth, 0);
        let mut offset = Ethernet::LEN;
        for slot in [Slot::OuterVlan, Slot::InnerVlan] {
            if wire::vlan::is_tag(ether_type) {
                ether_type = Vlan::new(frame.get(offset..)?)?.ether_type();
                self.put(slot, Proto::Vlan, offset);
                offset += Vlan::LEN;
            }
        }
        let packet = frame.get(offset..)?;
        let (protocol, header_len) = match ether_type {
            ether_type::IPV4 => {
                let ip = wire::ipv4::Ipv4::new(packet).filter(|ip| ip.version() == 4)?;
                self.put(Slot::Network, Proto::Ipv4, offset);
                let is_later_fragment = ip.fragment_offset() != 0;
                self.is_fragment = is_later_fragment || ip.more_fragments();
                (ip.protocol(), (!is_later_fragment).then(|| ip.header_len())?)
            }
            ether_type::IPV6 => {
                let ip = wire::ipv6::Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
                self.put(Slot::Network, Proto::Ipv6, offset);
                self.is_fragment = ip.next_header() == wire::proto::FRAGMENT;
                (ip.next_header(), wire::ipv6::Ipv6::LEN)
            }
            _ => return None,
        };
        let segment = packet.get(header_len..)?;
        let proto = Proto::of_transport(protocol, segment.len())?;
        self.put(Slot::Transport, proto, offset + header_len);
        Some(())
    }
}
