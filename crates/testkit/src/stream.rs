// SPDX-License-Identifier: BSD-3-Clause
//! Streams of the generator, from texts such as `count=100 rate=1kpps size=64`.

use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, StampKey};

/// Returns the stream that a text of keys and values describes.
///
/// # Panics
/// If it describes none, with the reason.
pub fn spec(number: usize, text: &str) -> StreamSpec {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("KEY=VALUE"));
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    StreamSpec::from_pairs(number, pairs).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the streams of some texts, numbered in their order.
pub fn specs<T: AsRef<str>>(texts: &[T]) -> Vec<StreamSpec> {
    texts.iter().enumerate().map(|(number, text)| spec(number, text.as_ref())).collect()
}

/// Returns a setup in which one sender sends all streams from the start on, on links without a
/// known speed. Their packets have stamps of the key that belongs to `seed`.
pub fn setup(seed: u64) -> StreamSetup {
    StreamSetup {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        link_mbps: [None; 2],
        seed,
        format: StampKey::new(seed).into(),
        is_stamped: true,
        part: Part::default(),
        ramp_ns: 0,
    }
}

/// Returns the frames of the streams of some texts in this setup.
///
/// # Panics
/// If they do not go together.
pub fn streams<T: AsRef<str>>(texts: &[T], setup: &StreamSetup) -> Streams {
    Streams::new(&specs(texts), setup).unwrap_or_else(|error| panic!("{error}"))
}
