// SPDX-License-Identifier: BSD-3-Clause
//! Converts the pattern of a rule into header bytes and masks to compare.
//!
//! A pattern is given as items in the order of the headers. It becomes a [`Shape`] and a key. The
//! shape has the protocol at each place and the masked bytes; the key has the values of those
//! bytes. Rules of one shape share a hash table.

use crate::headers::{Headers, Protos, RequiredHeaders, Slot};
use crate::refusal::{Errno, Kind, Refusal};
use std::ffi::CStr;
use wire::proto;

/// Bytes of the longest header that items hold: IPv6.
pub const HEADER_MAX: usize = 40;

/// A header that items can name. The numbers are those of `pmd/twin_model.h`.
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
    /// Fragment header of IPv6, behind the IPv6 header.
    Ipv6Frag = 10,
    /// VXLAN, behind UDP to port 4789, RFC 7348.
    Vxlan = 11,
    /// GTP-U, behind UDP to port 2152, without its extension headers, 3GPP TS 29.281.
    Gtpu = 12,
    /// GRE without its options, RFC 2784.
    Gre = 13,
}

impl Proto {
    /// All protocols.
    pub const ALL: [Self; 13] = [
        Self::Eth,
        Self::Vlan,
        Self::Ipv4,
        Self::Ipv6,
        Self::Tcp,
        Self::Udp,
        Self::Sctp,
        Self::Icmp,
        Self::Icmp6,
        Self::Ipv6Frag,
        Self::Vxlan,
        Self::Gtpu,
        Self::Gre,
    ];

    /// Returns the protocol with this number.
    pub(crate) fn of_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns the protocol of an IP protocol number, if the header is whole in `len` bytes.
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

    /// Returns the number of bytes of the header that rules can match.
    pub fn header_len(self) -> usize {
        match self {
            Self::Eth => 14,
            Self::Vlan | Self::Icmp6 | Self::Gre => 4,
            Self::Ipv4 | Self::Tcp => 20,
            Self::Ipv6 => 40,
            Self::Sctp => 12,
            Self::Udp | Self::Icmp | Self::Ipv6Frag | Self::Vxlan | Self::Gtpu => 8,
        }
    }

    /// Returns the layer, 2 to 4 as in the OSI model; tunnels are above.
    pub(crate) fn layer(self) -> u8 {
        match self {
            Self::Eth | Self::Vlan => 2,
            Self::Ipv4 | Self::Ipv6 => 3,
            Self::Tcp | Self::Udp | Self::Sctp | Self::Icmp | Self::Icmp6 => 4,
            Self::Ipv6Frag | Self::Vxlan | Self::Gtpu | Self::Gre => 5,
        }
    }

    /// True if other headers may follow as if they were the first.
    pub fn is_tunnel(self) -> bool {
        matches!(self, Self::Vxlan | Self::Gtpu | Self::Gre)
    }
}

/// The parts of an item that a rule gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemSpec {
    /// True if values are given.
    pub spec: bool,
    /// True if the ends of ranges are given.
    pub last: bool,
    /// True if a mask is given.
    pub mask: bool,
}

/// One header of a pattern, in network byte order.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The header.
    pub proto: Proto,
    /// The parts below that were given.
    pub given: ItemSpec,
    /// Values of its bytes. Those outside of the mask do not matter.
    pub spec: [u8; HEADER_MAX],
    /// The ends of ranges that begin at `spec`, if given.
    pub last: [u8; HEADER_MAX],
    /// Bits of `spec` that count; without any, the header only has to be present. If no mask was
    /// given, that of `rte_flow.h`.
    pub mask: [u8; HEADER_MAX],
    /// Ethernet and tags: whether a tag must follow; IPv6: whether a fragment header must follow.
    /// True if so, false if it must not, `None` if it does not matter.
    pub followed: Option<bool>,
}

impl Item {
    /// Returns an item that matches any header of this protocol.
    pub fn any(proto: Proto) -> Self {
        let none = [0; HEADER_MAX];
        Self {
            proto,
            given: ItemSpec::default(),
            spec: none,
            last: none,
            mask: none,
            followed: None,
        }
    }

    /// Returns an item that matches headers with these values under this mask.
    pub fn masked(proto: Proto, spec: [u8; HEADER_MAX], mask: [u8; HEADER_MAX]) -> Self {
        let given = ItemSpec { spec: true, last: false, mask: true };
        Self { given, spec, mask, ..Self::any(proto) }
    }

    /// True if every range has a single value.
    pub(crate) fn last_is_spec(&self) -> bool {
        let bytes = self.spec.iter().zip(&self.last).zip(&self.mask);
        bytes.into_iter().all(|((spec, last), mask)| (spec ^ last) & mask == 0)
    }

    /// Makes the item match any header.
    pub(crate) fn forget_bits(&mut self) {
        self.mask = [0; HEADER_MAX];
        self.followed = None;
    }
}

/// Group and priority of a rule, and the direction of packets that it matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Table of the rule; packets begin in group 0.
    pub group: u32,
    /// Priority; 0 is matched first.
    pub priority: u32,
    /// The rule is for packets that arrive.
    pub ingress: bool,
    /// The rule is for packets that leave.
    pub egress: bool,
    /// The rule is for the switch between ports, which packets reach before the port at which they
    /// arrived.
    pub transfer: bool,
    /// The pattern names the port at which packets arrive, which is the port of the rule.
    pub names_port: bool,
}

impl Attributes {
    /// Attributes of rules for packets that arrive, in the first group and with the first priority.
    pub const INGRESS: Self = Self {
        group: 0,
        priority: 0,
        ingress: true,
        egress: false,
        transfer: false,
        names_port: false,
    };
}

/// Eight bytes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    mask: u64,
    slot: Slot,
    /// From the start of the header.
    offset: u8,
}

/// A pattern without its values, which many rules share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    required: RequiredHeaders,
    /// True if packets with TCP, UDP or SCTP do not match.
    other_transports_only: bool,
    words: Vec<Word>,
}

/// Maximum number of words of a shape: all headers, all bytes.
pub(crate) const WORDS_MAX: usize = 2 + 1 + 1 + 5 + 1 + 3 + 1 + 2 + 1 + 5 + 3;

/// Values of the words of a shape.
pub(crate) type Key = [u64; WORDS_MAX];

/// A pattern to which items are added: its shape, and its key.
#[derive(Default)]
pub(crate) struct Pattern {
    pub(crate) shape: Shape,
    pub(crate) key: Key,
    /// Place behind the last item.
    next: usize,
}

impl Pattern {
    /// Adds an item behind the others. `Err` if it cannot follow them.
    pub(crate) fn add(&mut self, item: &Item) -> Result<(), Refusal> {
        let Self { shape, key, next } = self;
        let slot = slot_of(item.proto, *next, shape.required.protocols())?;
        *next = slot as usize + 1;
        if shape.required.is_absent(slot) {
            return Err(NOT_THERE);
        }
        shape.required.put(slot, item.proto);
        shape.follow(item, *next);
        let len = item.proto.header_len();
        for offset in (0..len).step_by(8) {
            let mask = load(&item.mask[..len], offset);
            if mask != 0 {
                key[shape.words.len()] = load(&item.spec[..len], offset) & mask;
                shape.words.push(Word { mask, slot, offset: offset as u8 });
            }
        }
        Ok(())
    }

    /// Excludes packets with TCP, UDP or SCTP if the pattern names no transport header.
    pub(crate) fn without_usual_transports(mut self) -> Self {
        let has_none = self.shape.required.protocols().get(Slot::Transport).is_none();
        self.shape.other_transports_only = has_none;
        self
    }
}

impl Shape {
    /// Adds what an item requires of the place behind its own.
    fn follow(&mut self, item: &Item, next: usize) {
        let follower = match item.proto {
            Proto::Ipv6 => Proto::Ipv6Frag,
            _ => Proto::Vlan,
        };
        let Some(place) = Slot::places(follower).find(|&slot| slot as usize == next) else {
            return;
        };
        match item.followed {
            Some(true) => self.required.put(place, follower),
            Some(false) => self.required.put_nothing(place),
            None => {}
        }
    }

    /// Returns a text of headers and their bytes with masks, `ipv4[8]=.../...`.
    pub(crate) fn describe(&self, key: &[u64]) -> String {
        let mut headers = Vec::new();
        for slot in Slot::ALL {
            let mut words = match self.required.protocols().get(slot) {
                Some(proto) => vec![proto.name().to_owned()],
                None if self.required.is_absent(slot) => vec![format!("no {slot:?}")],
                None => continue,
            };
            let here = self.words.iter().zip(key).filter(|(word, _)| word.slot == slot);
            words.extend(here.map(|(word, value)| {
                let (value, mask) = (u64::from_be(*value), u64::from_be(word.mask));
                format!("[{}]={value:016x}/{mask:016x}", word.offset)
            }));
            headers.push(words.join(" "));
        }
        if self.other_transports_only {
            headers.push("no tcp, udp, sctp".to_owned());
        }
        headers.join(" / ")
    }

    /// Returns what the pattern requires of the header at `slot`, if that must be present.
    pub(crate) fn item(&self, key: &[u64], slot: Slot) -> Option<Item> {
        let mut item = Item::any(self.required.protocols().get(slot)?);
        for (word, value) in self.words.iter().zip(key).filter(|(word, _)| word.slot == slot) {
            let bytes = usize::from(word.offset)..usize::from(word.offset) + 8;
            item.spec[bytes.clone()].copy_from_slice(&value.to_ne_bytes());
            item.mask[bytes].copy_from_slice(&word.mask.to_ne_bytes());
        }
        Some(item)
    }

    /// Returns the masked bytes: slot, offset from the start of the header, and mask.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = (Slot, usize, u8)> {
        self.words.iter().flat_map(|word| {
            let bytes = word.mask.to_ne_bytes().into_iter().enumerate();
            let counting = bytes.filter(|&(_, mask)| mask != 0);
            counting.map(|(byte, mask)| (word.slot, usize::from(word.offset) + byte, mask))
        })
    }

    /// Returns the protocol that must be at `slot`.
    pub(crate) fn proto(&self, slot: Slot) -> Option<Proto> {
        self.required.protocols().get(slot)
    }

    /// Returns the number of words of a key.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// True if a frame has the headers that the shape requires.
    pub(crate) fn fits(&self, headers: &Headers) -> bool {
        let is_usual = || {
            let transport = headers.proto(Slot::Transport);
            matches!(transport, Some(Proto::Tcp | Proto::Udp | Proto::Sctp))
        };
        headers.has_all(&self.required) && !(self.other_transports_only && is_usual())
    }

    /// Returns the key of a frame with these headers, word by word.
    pub(crate) fn key(&self, frame: &[u8], headers: &Headers) -> impl Iterator<Item = u64> {
        let value = |word: &Word| {
            load(frame, headers.offset(word.slot) + usize::from(word.offset)) & word.mask
        };
        self.words.iter().map(value)
    }
}

/// Returns the place of an item that follows others; `next` is the first place behind them.
fn slot_of(proto: Proto, next: usize, before: Protos) -> Result<Slot, Refusal> {
    // Behind a tunnel's header the next frame begins; only there may headers be skipped.
    let is_inside = next > Slot::Tunnel as usize;
    let mut places = Slot::places(proto).filter(|&slot| (slot > Slot::Tunnel) == is_inside);
    let slot = places.find(|&slot| slot as usize >= next).ok_or(ORDER)?;
    let network = if is_inside { Slot::TunnelNetwork } else { Slot::Network };
    match (proto, before.get(network)) {
        (Proto::Icmp, Some(Proto::Ipv6)) | (Proto::Icmp6, Some(Proto::Ipv4)) => Err(VERSION),
        _ => Ok(slot),
    }
}

const fn refusal(errno: Errno, message: &'static CStr) -> Refusal {
    Refusal::new(errno, Kind::Item, message)
}

const NOT_THERE: Refusal = refusal(Errno::EINVAL, c"an item before says that it is not there");
const ORDER: Refusal =
    refusal(Errno::EINVAL, c"a header of this layer, or of one above, came before");
const VERSION: Refusal = refusal(Errno::ENOTSUP, c"ICMP is of another version than IP");

/// Loads eight bytes from `offset`; bytes behind the end are zero.
pub(crate) fn load(bytes: &[u8], offset: usize) -> u64 {
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
