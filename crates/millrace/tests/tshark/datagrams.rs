// SPDX-License-Identifier: BSD-3-Clause
//! Fragments behind the first: the flow of each, by what tshark shows of their IP headers alone.
//!
//! tshark puts nothing together here (`tool.rs`): it would show ports of another packet. So these
//! are lists of parts, searched from end to end, a whole capture at a time; how long anything is
//! remembered is in other tests.

use crate::packet::{Flow, Packet};
use std::net::IpAddr;

/// The part of a datagram that a fragment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: u64,
    /// The first byte, and behind the last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) has_more: bool,
}

/// Where a packet belongs: its flow, or the reason why it has none.
pub(crate) type Place = Result<Flow, &'static str>;

/// What the fragments of a datagram share: addresses, for IPv4 the protocol, and zone; its number.
type Name = (IpAddr, IpAddr, Option<u64>, u16, u64);

struct Datagram {
    name: Name,
    parts: Vec<Part>,
    first: Option<Flow>,
    overlaps: bool,
    /// Fragments that came before the first.
    waiting: Vec<usize>,
}

/// The place of each packet of a capture, from what each has by itself: `None` for a fragment
/// behind the first, which has none.
pub(crate) fn places(packets: &[Packet], alone: Vec<Option<Place>>) -> Vec<Place> {
    // What has no place for what it is itself tells others nothing.
    let part_of = |(packet, place): (&Packet, &Option<Place>)| match place {
        Some(Err(_)) => None,
        _ => packet.part(),
    };
    let parts: Vec<Option<Part>> = packets.iter().zip(&alone).map(part_of).collect();
    // Without a first one that is what they are.
    let unknown = |place: Option<Place>| place.unwrap_or(Err("fragment"));
    let mut places: Vec<Place> = alone.into_iter().map(unknown).collect();
    let mut datagrams: Vec<Datagram> = vec![];
    for (at, part) in parts.into_iter().enumerate() {
        let Some(part) = part else { continue };
        let name = name_of(&packets[at], part);
        let known = datagrams.iter().position(|datagram| datagram.name == name);
        let which = known.unwrap_or_else(|| {
            let (parts, waiting) = (vec![], vec![]);
            datagrams.push(Datagram { name, parts, first: None, overlaps: false, waiting });
            datagrams.len() - 1
        });
        datagrams[which].take(at, part, &mut places);
        if datagrams[which].is_whole() {
            datagrams.remove(which);
        }
    }
    places
}

fn name_of(packet: &Packet, part: Part) -> Name {
    let (src, dst) = packet.addresses().expect("a fragment has addresses");
    let proto = packet.is_ipv4().then(|| packet.number("ip.proto").unwrap_or(0));
    (src, dst, proto, packet.zone(), part.id)
}

impl Datagram {
    fn take(&mut self, at: usize, part: Part, places: &mut [Place]) {
        let flow = places[at].clone().ok().filter(|_| part.start == 0);
        let others =
            |(known, other): (&Flow, &Flow)| known.tuple != other.tuple || known.from != other.from;
        let is_of_other = self.first.as_ref().zip(flow.as_ref()).is_some_and(others);
        if self.overlaps || !self.fits(part) || is_of_other {
            self.overlaps = true;
            for at in self.waiting.drain(..).chain([at]) {
                places[at] = Err("fragment_overlap");
            }
            return;
        }
        self.parts.push(part);
        if let Some(flow) = flow {
            for at in self.waiting.drain(..) {
                places[at] = Ok(flow.clone());
            }
            self.first = Some(flow);
        } else if let Some(flow) = &self.first {
            places[at] = Ok(flow.clone());
        } else {
            self.waiting.push(at);
        }
    }

    /// Whether it may be a part of this datagram, by those that came before: exactly one of them,
    /// or bytes that none of them has, and not behind the end.
    fn fits(&self, part: Part) -> bool {
        self.parts.iter().all(|other| {
            let is_apart = part.end <= other.start || other.end <= part.start;
            let behind_last = |last: &Part, other: &Part| !last.has_more && other.end > last.end;
            let are_two_ends = !part.has_more && !other.has_more;
            let is_behind = behind_last(other, &part) || behind_last(&part, other);
            part == *other || is_apart && !is_behind && !are_two_ends
        }) || self.parts.contains(&part)
    }

    fn is_whole(&self) -> bool {
        let Some(last) = self.parts.iter().find(|part| !part.has_more) else { return false };
        let mut parts = self.parts.clone();
        parts.sort_by_key(|part| part.start);
        parts.dedup();
        let covered: u64 = parts.iter().map(|part| part.end - part.start).sum();
        self.first.is_some() && !self.overlaps && covered == last.end
    }
}
