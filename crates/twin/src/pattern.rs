// SPDX-License-Identifier: BSD-3-Clause
//! What a rule matches: header bytes under masks.
//!
//! A pattern comes as items in the order of the headers. It becomes a [`Shape`], which protocols
//! must be where and which bytes count, and a key, the values of those bytes. Rules of one
//! shape share a hash table, whatever their values.

use crate::headers::{Headers, SLOTS, Slot};
use crate::refusal::errno::{EINVAL, ENOTSUP};
use crate::refusal::{Cause, Refusal};
use std::ffi::CStr;
use wire::proto;

/// Bytes of the longest header that items hold: IPv6.
pub const HEADER_MAX: usize = 40;

/// A header that items can name. The numbers are those of `pmd/twin.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Proto {
    /// Ethernet: destination, source, type of what follows the tags.
    Eth = 1,
    /// A tag of 802.1Q or 802.1ad: TCI and type of what follows.
    Vlan = 2,
    /// IPv4 without options.
    Ipv4 = 3,
    /// IPv6 without extension headers.
    Ipv6 = 4,
    /// TCP without options.
    Tcp = 5,
    /// UDP.
    Udp = 6,
    /// SCTP common header.
    Sctp = 7,
    /// ICMP: type, code, checksum, identifier, sequence number.
    Icmp = 8,
    /// ICMPv6: type, code, checksum.
    Icmp6 = 9,
}

impl Proto {
    const ALL: [Self; 9] = [
        Self::Eth,
        Self::Vlan,
        Self::Ipv4,
        Self::Ipv6,
        Self::Tcp,
        Self::Udp,
        Self::Sctp,
        Self::Icmp,
        Self::Icmp6,
    ];

    /// Of its number.
    pub(crate) fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| *proto as u16 == number)
    }

    /// Of an IP protocol number, if the header is whole in `len` bytes.
    pub(crate) fn of_transport(number: u8, len: usize) -> Option<Self> {
        let proto = match number {
            proto::TCP => Self::Tcp,
            proto::UDP => Self::Udp,
            proto::SCTP => Self::Sctp,
            proto::ICMP => Self::Icmp,
            proto::ICMPV6 => Self::Icmp6,
            _ => return None,
        };
        (len >= proto.header_len()).then_some(proto)
    }

    /// Bytes of its header that rules can look at.
    pub fn header_len(self) -> usize {
        match self {
            Self::Eth => 14,
            Self::Vlan => 4,
            Self::Ipv4 | Self::Tcp => 20,
            Self::Ipv6 => 40,
            Self::Sctp => 12,
            Self::Udp | Self::Icmp => 8,
            Self::Icmp6 => 4,
        }
    }
}

/// One header of a pattern, in network byte order.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Which header.
    pub proto: Proto,
    /// Values of its bytes. Those outside of the mask do not matter.
    pub spec: [u8; HEADER_MAX],
    /// Bits of `spec` that count; without any, the header only has to be there.
    pub mask: [u8; HEADER_MAX],
    /// Whether a tag follows an Ethernet header or a tag; `None` where it does not matter.
    pub has_vlan: Option<bool>,
}

/// Where a rule stands among others, and which packets it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Table it is in; packets begin in 0.
    pub group: u32,
    /// 0 is asked first.
    pub priority: u32,
    /// For packets that arrive.
    pub ingress: bool,
    /// For packets that leave.
    pub egress: bool,
    /// For the switch between ports.
    pub transfer: bool,
}

/// Eight bytes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    slot: Slot,
    /// From the start of the header.
    offset: usize,
    mask: u64,
}

/// What patterns can have in common: all but the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    protos: [Option<Proto>; SLOTS],
    /// Places where there must be nothing.
    absent: [bool; SLOTS],
    words: Box<[Word]>,
}

/// Most words of a shape: all headers, all bytes.
pub(crate) const WORDS_MAX: usize = 2 + 1 + 1 + 5 + 3;

/// Values of the words of a shape.
pub(crate) type Key = [u64; WORDS_MAX];

impl Shape {
    /// The shape and the key of a pattern. `Err` names the item that cannot follow the others.
    pub(crate) fn of(items: &[Item]) -> Result<(Self, Key), Refusal> {
        let mut protos = [None; SLOTS];
        let mut absent = [false; SLOTS];
        let mut words = Vec::new();
        let mut key = [0; WORDS_MAX];
        let mut next = Slot::Ethernet as usize;
        for (place, item) in items.iter().enumerate() {
            let slot = slot_of(item.proto, next, &protos)
                .map_err(|(errno, message)| Refusal::new(errno, Cause::Item(place), message))?;
            next = slot as usize + 1;
            protos[slot as usize] = Some(item.proto);
            if absent[slot as usize] {
                let message = c"an item before says that there is no tag";
                return Err(Refusal::new(EINVAL, Cause::Item(place), message));
            }
            match item.has_vlan {
                Some(true) if next <= Slot::InnerVlan as usize => protos[next] = Some(Proto::Vlan),
                Some(false) if next <= Slot::InnerVlan as usize => absent[next] = true,
                _ => {}
            }
            for offset in (0..item.proto.header_len()).step_by(8) {
                let len = item.proto.header_len();
                let mask = load(&item.mask[..len], offset);
                if mask != 0 {
                    key[words.len()] = load(&item.spec[..len], offset) & mask;
                    words.push(Word { slot, offset, mask });
                }
            }
        }
        Ok((Self { protos, absent, words: words.into() }, key))
    }

    /// How many words of a key count.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The key of a frame; `None` if its headers are not those of the shape.
    pub(crate) fn key(&self, frame: &[u8], headers: &Headers) -> Option<Key> {
        let has = |slot: Slot| {
            let (wanted, there) = (self.protos[slot as usize], headers.proto(slot));
            let is_free = !self.absent[slot as usize] || there.is_none();
            is_free && (wanted.is_none() || wanted == there)
        };
        if !ALL_SLOTS.into_iter().all(has) {
            return None;
        }
        let mut key = [0; WORDS_MAX];
        for (value, word) in key.iter_mut().zip(&self.words) {
            *value = load(frame, headers.offset(word.slot) + word.offset) & word.mask;
        }
        Some(key)
    }
}

const ALL_SLOTS: [Slot; SLOTS] =
    [Slot::Ethernet, Slot::OuterVlan, Slot::InnerVlan, Slot::Network, Slot::Transport];

/// Where an item goes that follows others; `next` is the first place behind them.
fn slot_of(
    proto: Proto,
    next: usize,
    protos: &[Option<Proto>; SLOTS],
) -> Result<Slot, (i32, &'static CStr)> {
    let slot = match proto {
        Proto::Eth => Slot::Ethernet,
        Proto::Vlan if next <= Slot::OuterVlan as usize => Slot::OuterVlan,
        Proto::Vlan => Slot::InnerVlan,
        Proto::Ipv4 | Proto::Ipv6 => Slot::Network,
        Proto::Tcp | Proto::Udp | Proto::Sctp | Proto::Icmp | Proto::Icmp6 => Slot::Transport,
    };
    if (slot as usize) < next {
        return Err((EINVAL, c"a header of this layer, or of one above, came before"));
    }
    let network = protos[Slot::Network as usize];
    match (proto, network) {
        (Proto::Icmp, Some(Proto::Ipv6)) => Err((ENOTSUP, c"ICMP does not follow IPv6")),
        (Proto::Icmp6, Some(Proto::Ipv4)) => Err((ENOTSUP, c"ICMPv6 does not follow IPv4")),
        _ => Ok(slot),
    }
}

/// Eight bytes from `offset`; those behind the end are zero.
fn load(bytes: &[u8], offset: usize) -> u64 {
    match bytes.get(offset..offset + 8) {
        Some(word) => u64::from_ne_bytes(word.try_into().expect("a slice of eight bytes")),
        None => {
            let mut word = [0; 8];
            let rest = bytes.get(offset..).unwrap_or_default();
            word[..rest.len()].copy_from_slice(rest);
            u64::from_ne_bytes(word)
        }
    }
}
