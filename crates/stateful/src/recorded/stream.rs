// SPDX-License-Identifier: BSD-3-Clause
//! Puts the segments of one direction of a captured TCP connection in order.

use std::collections::BTreeMap;

/// One direction of a connection, from its SYN on.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sequence number of the next byte in order, and its place behind the SYN.
    next: u32,
    place: u64,
    /// Segments behind a gap, by their places, with the numbers of their packets.
    early: BTreeMap<u64, (Vec<u8>, u64)>,
    /// Place of the FIN, and the number of its packet.
    fin: Option<(u64, u64)>,
    /// Largest place that the other end has acknowledged, and the number of the packet.
    acknowledged: (u64, u64),
}

impl Stream {
    /// Begins a stream whose SYN has this sequence number.
    pub(super) fn new(syn: u32) -> Self {
        let next = syn.wrapping_add(1);
        Self { next, place: 0, early: BTreeMap::new(), fin: None, acknowledged: (0, 0) }
    }

    /// True if this is the sequence number of the SYN.
    pub(super) fn began_with(&self, syn: u32) -> bool {
        self.next.wrapping_sub(self.place as u32) == syn.wrapping_add(1)
    }

    /// Returns the place of a sequence number; below 0 before the first byte.
    fn place_of(&self, seq: u32) -> i64 {
        self.place as i64 + i64::from(seq.wrapping_sub(self.next) as i32)
    }

    /// Takes the payload of packet `number`; returns what is in order with it, and was not before.
    pub(super) fn take(&mut self, seq: u32, payload: &[u8], number: u64) -> Vec<u8> {
        let place = self.place_of(seq);
        let before = (self.place as i64 - place).clamp(0, payload.len() as i64) as usize;
        let payload = &payload[before..];
        if payload.is_empty() {
            return Vec::new();
        }
        let place = (place + before as i64) as u64;
        if place > self.place {
            let kept = self.early.entry(place).or_default();
            if kept.0.len() < payload.len() {
                *kept = (payload.to_vec(), number);
            }
            return Vec::new();
        }
        let mut bytes = payload.to_vec();
        while let Some(entry) = self.early.first_entry() {
            let end = self.place + bytes.len() as u64;
            if *entry.key() > end {
                break;
            }
            let (place, (later, _)) = entry.remove_entry();
            bytes.extend_from_slice(later.get((end - place) as usize..).unwrap_or_default());
        }
        self.place += bytes.len() as u64;
        self.next = self.next.wrapping_add(bytes.len() as u32);
        bytes
    }

    /// Notes the FIN of packet `number` with this sequence number.
    pub(super) fn note_fin(&mut self, seq: u32, number: u64) {
        let place = u64::try_from(self.place_of(seq)).ok();
        self.fin = self.fin.or(place.map(|place| (place, number)));
    }

    /// True if all bytes up to the FIN are in order.
    pub(super) fn is_closed(&self) -> bool {
        self.fin.is_some_and(|(fin, _)| fin <= self.place)
    }

    /// Notes that packet `number` of the other end acknowledges what is before this number.
    pub(super) fn note_acknowledged(&mut self, ack: u32, number: u64) {
        let place = u64::try_from(self.place_of(ack)).unwrap_or(0);
        if place > self.acknowledged.0 {
            self.acknowledged = (place, number);
        }
    }

    /// Returns what the capture lacks.
    pub(super) fn fault(&self) -> Option<String> {
        let early = self.early.first_key_value().map(|(place, (_, number))| (*place, *number));
        if let Some((place, number)) = early.or(self.fin.filter(|(fin, _)| *fin > self.place)) {
            let missing = place - self.place;
            return Some(format!("{missing} bytes before packet {number} are not in the capture"));
        }
        let (place, number) = self.acknowledged;
        // A FIN takes a number, too.
        let missing = place.saturating_sub(self.place + 1);
        (missing > 0).then(|| {
            format!("packet {number} acknowledges {missing} bytes that are not in the capture")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_put_in_order() {
        let syn = u32::MAX - 3;
        let mut stream = Stream::new(syn);
        let first = syn.wrapping_add(1);
        let at = |place: u32| first.wrapping_add(place);
        assert_eq!(stream.take(at(0), b"abc", 1), b"abc");
        assert_eq!(stream.take(at(5), b"fg", 2), b"");
        assert_eq!(stream.take(at(9), b"jk", 3), b"");
        assert_eq!(stream.take(at(0), b"abc", 4), b"", "sent again");
        assert_eq!(stream.fault().unwrap(), "2 bytes before packet 2 are not in the capture");
        assert_eq!(stream.take(at(2), b"cdefgh", 5), b"defgh", "more than what is missing");
        assert_eq!(stream.fault().unwrap(), "1 bytes before packet 3 are not in the capture");
        stream.note_fin(at(11), 5);
        assert!(!stream.is_closed());
        assert_eq!(stream.take(at(8), b"i", 6), b"ijk");
        assert!(stream.is_closed() && stream.began_with(syn));
        stream.note_acknowledged(at(12), 7);
        assert_eq!(stream.fault(), None);
        stream.note_acknowledged(at(20), 8);
        let fault = "packet 8 acknowledges 8 bytes that are not in the capture";
        assert_eq!(stream.fault().unwrap(), fault);
        stream.note_acknowledged(at(3), 9);
        assert_eq!(stream.fault().unwrap(), fault, "an old one");
        assert_eq!(stream.take(first.wrapping_sub(1), b"x", 10), b"", "a keepalive");
    }
}
