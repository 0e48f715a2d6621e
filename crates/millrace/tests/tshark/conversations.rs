// SPDX-License-Identifier: BSD-3-Clause
//! The tables of `tshark -z conv`, and what they must be: the flows of `millrace`, set right packet
//! by packet where tshark counts otherwise (`counted.rs`).
//!
//! tshark's tables know no VLAN; a pair of ends has one row there, whatever its tags. Versions
//! differ in how exactly they print bytes: what is rounded is compared as far as it was printed.

use crate::counted::{ip_conversation, is_counted_by_some, transport_conversation};
use crate::packet::{Flow, Packet};
use crate::tally::{End, Tallies, Tuple};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Tables by name, and the protocol of their conversations.
const TABLES: [(&str, Option<u8>); 5] =
    [("TCP", Some(6)), ("UDP", Some(17)), ("SCTP", Some(132)), ("IPv4", None), ("IPv6", None)];

/// One direction of a conversation: its table, both ends in order, and the end that sent.
type Key = (&'static str, [End; 2], End);

/// Conversations by direction.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    counts: BTreeMap<Key, Count>,
    /// What of it not every version of tshark counts.
    optional: BTreeMap<Key, Count>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    packets: u64,
    bytes: u64,
    /// Most by which `bytes` can be too few, because they were printed in kB or MB.
    rounding: u64,
}

impl Conversations {
    /// From the text that tshark prints.
    pub(crate) fn parse(text: &str) -> Self {
        let mut conversations = Self::default();
        let mut table = None;
        for line in text.lines() {
            if let Some(name) = line.strip_suffix(" Conversations") {
                table = TABLES.iter().find(|(known, _)| *known == name);
            } else if let Some((a, rest)) = line.split_once("<->") {
                let (name, proto) = *table.expect("rows are in a table");
                conversations.add_row(name, proto.is_some(), a, rest);
            }
        }
        conversations
    }

    /// A row: two ends, then frames and bytes from the second to the first, the other way, and
    /// in total.
    fn add_row(&mut self, table: &'static str, has_ports: bool, a: &str, rest: &str) {
        let mut words = rest.split_whitespace().peekable();
        let end = |text: &str| parse_end(text.trim(), has_ports);
        let (a, b) = (end(a), end(words.next().expect("a second end")));
        for sender in [b, a] {
            let packets = words.next().expect("a number of frames").replace(',', "");
            let packets = packets.parse().expect("a number of frames");
            let bytes = words.next().expect("a number of bytes").replace(',', "");
            let is_unit = words.peek().is_some_and(|word| word.parse::<f64>().is_err());
            let unit = match if is_unit { words.next() } else { None } {
                None | Some("bytes") => 1,
                Some("kB") => 1_000,
                Some("MB") => 1_000_000,
                Some(unit) => panic!("tshark counts in {unit}"),
            };
            let bytes = (bytes.parse::<f64>().expect("a number of bytes") * unit as f64) as u64;
            self.add(
                (table, [a.min(b), a.max(b)], sender),
                Count { packets, bytes, rounding: unit - 1 },
            );
        }
    }

    /// What the flows of `millrace` come to.
    pub(crate) fn add_flows(&mut self, flows: &Tallies) {
        for ((tuple, sender), tally) in flows {
            let count = Count { packets: tally.packets, bytes: tally.bytes, rounding: 0 };
            for key in keys_of_flow(tuple, *sender) {
                self.add(key, count);
            }
        }
    }

    /// Sets right what tshark counts otherwise than `millrace`, which counts the packet to `flow`
    /// or to none. Returns whether there was something to set right.
    pub(crate) fn correct(&mut self, packet: &Packet, flow: Option<&Flow>) -> bool {
        let ours: BTreeSet<Key> =
            flow.iter().flat_map(|flow| keys_of_flow(&flow.tuple, flow.from)).collect();
        let theirs = keys_of_packet(packet);
        let count = Count { packets: 1, bytes: packet.frame_len(), rounding: 0 };
        for key in ours.difference(&theirs) {
            self.remove(*key, count);
        }
        for key in theirs.difference(&ours) {
            self.add(*key, count);
        }
        let transport = theirs.iter().find(|(table, ..)| ["TCP", "SCTP"].contains(table));
        let optional = transport.filter(|_| is_counted_by_some(packet));
        if let Some(key) = optional {
            self.optional.entry(*key).or_default().add(count);
        }
        optional.is_some() || ours != theirs
    }

    fn add(&mut self, key: Key, count: Count) {
        if count.packets > 0 {
            self.counts.entry(key).or_default().add(count);
        }
    }

    fn remove(&mut self, key: Key, count: Count) {
        let sum = self.counts.entry(key).or_default();
        *sum = sum.less(count);
    }

    /// Directions of conversations.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Where these differ from what they must be, in words.
    pub(crate) fn differences(&self, must: &Self) -> Vec<String> {
        let keys: BTreeSet<&Key> = self.counts.keys().chain(must.counts.keys()).collect();
        let count =
            |counts: &BTreeMap<Key, Count>, key| counts.get(key).copied().unwrap_or_default();
        let mut differences = Vec::new();
        for key in keys {
            let (tshark, most) = (count(&self.counts, key), count(&must.counts, key));
            let least = most.less(count(&must.optional, key));
            if !tshark.is(most) && !tshark.is(least) {
                differences.push(format!("{key:?}: tshark has {tshark:?}, must have {most:?}"));
            }
        }
        differences
    }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.rounding += other.rounding;
    }

    fn less(self, other: Self) -> Self {
        let packets = self.packets.saturating_sub(other.packets);
        Self { packets, bytes: self.bytes.saturating_sub(other.bytes), ..self }
    }

    /// Whether this is `other`, as far as it was printed.
    fn is(self, other: Self) -> bool {
        let bytes = self.bytes..=self.bytes + self.rounding;
        self.packets == other.packets && bytes.contains(&other.bytes)
    }
}

/// Where tshark counts a flow of `millrace`: in the table of its protocol and in that of its IP
/// version.
fn keys_of_flow(tuple: &Tuple, from: End) -> Vec<Key> {
    let [a, b] = tuple.ends();
    let to = if from == a { b } else { a };
    let mut keys = vec![ip_key([without_port(from), without_port(to)])];
    keys.extend(transport_key(tuple.proto, [from, to]));
    keys
}

/// Where tshark counts a packet.
fn keys_of_packet(packet: &Packet) -> BTreeSet<Key> {
    let transport = transport_conversation(packet);
    let transport = transport.and_then(|(proto, ends)| transport_key(proto, ends));
    ip_conversation(packet).map(ip_key).into_iter().chain(transport).collect()
}

fn ip_key([from, to]: [End; 2]) -> Key {
    (if from.0.is_ipv4() { "IPv4" } else { "IPv6" }, [from.min(to), from.max(to)], from)
}

fn transport_key(proto: u8, [from, to]: [End; 2]) -> Option<Key> {
    let (table, _) = TABLES.iter().find(|(_, known)| *known == Some(proto))?;
    Some((table, [from.min(to), from.max(to)], from))
}

fn without_port((address, _): End) -> End {
    (address, 0)
}

fn parse_end(text: &str, has_port: bool) -> End {
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) if has_port => (address, port.parse().expect("a port")),
        _ => (text, 0),
    };
    let address: IpAddr = address.parse().unwrap_or_else(|_| panic!("{text:?} is no end"));
    (address, port)
}
