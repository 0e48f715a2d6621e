// SPDX-License-Identifier: BSD-3-Clause
//! Finds the packets of a capture by their tuples. The index takes three words for each packet; a
//! lookup takes two loads.

use crate::headers::{Headers, Slot};
use crate::tuple::Tuple;

/// An index of the packets of a capture.
#[derive(Debug)]
pub(crate) struct Index {
    /// Start of each place in `packets`, and the end of the last one.
    starts: Vec<u32>,
    /// Packet numbers by place and tag, and then in the order of the capture.
    packets: Vec<u32>,
    /// Tag of each packet. Tuples that share a place have different tags, with overwhelming
    /// probability.
    tags: Vec<u32>,
}

/// The packets of a tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets<'a> {
    /// Packet numbers in the order of the capture.
    pub(crate) numbers: &'a [u32],
    /// True if the packets are alike ([`is_alike`]). Rules that match only properties which alike
    /// packets share cannot distinguish them.
    pub(crate) are_alike: bool,
}

/// Set in the tags of packets that are alike.
const ALIKE: u32 = 1;

fn tag(tuple: Tuple) -> u32 {
    tuple.low() & !ALIKE
}

impl Index {
    /// Makes the index of `count` frames, fewer than 2^32.
    pub(crate) fn of<'a>(count: usize, frame: impl Fn(u32) -> &'a [u8]) -> Self {
        let found = (0..count as u32).filter_map(|packet| {
            let frame = frame(packet);
            let tuple = Tuple::of_frame(frame, &Headers::of(frame))?;
            Some((tuple.place(count) as u32, tag(tuple), packet))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        for same in found.chunk_by_mut(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let first = frame(same[0].2);
            if same.iter().all(|&(_, _, packet)| is_alike(first, frame(packet))) {
                same.iter_mut().for_each(|(_, tag, _)| *tag |= ALIKE);
            }
        }
        let mut starts = vec![0; count + 1];
        for &(place, ..) in &found {
            starts[place as usize + 1] += 1;
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let (packets, tags) = found.iter().map(|&(_, tag, packet)| (packet, tag)).unzip();
        Self { starts, packets, tags }
    }

    /// Returns the packets of a tuple.
    pub(crate) fn packets(&self, tuple: Tuple) -> Packets<'_> {
        let place = tuple.place(self.starts.len() - 1);
        let place = self.starts[place] as usize..self.starts[place + 1] as usize;
        let (packets, tags) = (&self.packets[place.clone()], &self.tags[place]);
        let begin = tags.partition_point(|other| other & !ALIKE < tag(tuple));
        let end = tags.partition_point(|other| other & !ALIKE <= tag(tuple));
        let are_alike = tags[begin..end].first().is_some_and(|tag| tag & ALIKE != 0);
        Packets { numbers: &packets[begin..end], are_alike }
    }
}

/// True if frames have the same headers in the same places, the same bytes ahead of the network
/// header, and the same tuple.
fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let headers = Headers::of(one);
    let ends = |frame| Tuple::ends(frame, &headers);
    let network = headers.offset(Slot::Network);
    headers == Headers::of(other) && one[..network] == other[..network] && ends(one) == ends(other)
}
