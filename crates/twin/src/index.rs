// SPDX-License-Identifier: BSD-3-Clause
//! Where the packets of a tuple are in a capture: two words for each packet, and a lookup is two
//! loads. Tuples may share a place, so others can be among those that are found.

use crate::headers::Headers;
use crate::tuple::Tuple;

/// The packets of a capture by their tuples.
#[derive(Debug)]
pub(crate) struct Index {
    /// Where each place begins in `packets`, and where the last one ends.
    starts: Vec<u32>,
    /// By place, and then in the order of the capture.
    packets: Vec<u32>,
}

impl Index {
    /// Of fewer than 2^32 frames.
    pub(crate) fn of<'a>(frames: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let places = frames.len();
        let place_of = |frame: &[u8]| {
            let tuple = Tuple::of_frame(frame, &Headers::of(frame))?;
            Some(tuple.place(places) as u32)
        };
        let found =
            (0..).zip(frames).filter_map(|(packet, frame)| Some((place_of(frame)?, packet)));
        let found: Vec<(u32, u32)> = found.collect();
        let mut starts = vec![0; places + 1];
        for &(place, _) in &found {
            starts[place as usize] += 1;
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // From the ends to the starts.
        let mut packets = vec![0; found.len()];
        for &(place, packet) in found.iter().rev() {
            let start = &mut starts[place as usize];
            *start -= 1;
            packets[*start as usize] = packet;
        }
        Self { starts, packets }
    }

    /// Those of a tuple, and perhaps others, in the order of the capture.
    pub(crate) fn packets(&self, tuple: Tuple) -> &[u32] {
        let place = tuple.place(self.starts.len() - 1);
        &self.packets[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}
