// SPDX-License-Identifier: BSD-3-Clause
//! Tests that identical frames can be taken many at once.

use crate::streams::{recorded, setup, streams, take};
use traffic::stream::Streams;
use traffic::{ROOM, Source};

/// Takes all frames: identical ones in groups of up to 7, others one by one.
fn taken_in_turns(texts: &[&str]) -> Vec<(u16, Vec<u8>)> {
    let mut streams = streams(texts, false);
    let (mut taken, mut room) = (Vec::new(), vec![0xee; ROOM]);
    for turn in 0.. {
        if streams.due().is_none() {
            break;
        }
        match streams.take_alike(turn % 8) {
            Some(alike) => {
                assert!(alike.count <= turn % 8);
                let frame = (alike.stream, alike.frame.to_vec());
                taken.extend(std::iter::repeat_n(frame, alike.count));
            }
            None => {
                let written = streams.write(&mut room, 0);
                taken.push((written.stream, room[..written.len].to_vec()));
            }
        }
    }
    taken
}

#[test]
fn frames_taken_at_once_are_those_that_are_written() {
    for texts in [
        &["count=1000"][..],
        &["count=100 burst=16 size=1518"],
        &["count=100 size=64,128"],
        &["count=100 sport=1-9"],
        &["count=100 rate=1Mpps"],
        &["count=100", "count=50 dport=9"],
    ] {
        let mut one_by_one = streams(texts, false);
        let written = take(&mut one_by_one, usize::MAX);
        let written: Vec<_> = written.into_iter().map(|it| (it.stream, it.bytes)).collect();
        assert_eq!(taken_in_turns(texts), written, "{texts:?}");
    }
}

#[test]
fn only_frames_without_stamp_time_and_variety_are_alike() {
    let is_alike = |texts: &[&str], is_stamped| {
        let mut streams = streams(texts, is_stamped);
        let count = streams.take_alike(9).map(|alike| alike.count);
        assert_eq!(streams.written(0), count.unwrap_or_default() as u64);
        count == Some(9)
    };
    assert!(is_alike(&["rate=max"], false));
    assert!(!is_alike(&["rate=max"], true));
    assert!(!is_alike(&["rate=1Mpps"], false));
    assert!(!is_alike(&["rate=max", "rate=max"], false));
    assert!(!is_alike(&["rate=max sport=1-2"], false));
}

/// Keys of a stream do not describe the frames of its capture.
#[test]
fn frames_of_a_capture_are_never_alike() {
    let spec = [recorded("rate=max count=7")];
    let mut streams = Streams::new(&spec, &setup(false)).unwrap();
    assert_eq!(streams.take_alike(9), None);
    let sizes: Vec<_> = take(&mut streams, 9).iter().map(|it| it.bytes.len()).collect();
    assert_eq!(sizes, [60, 61, 62, 63, 64, 60, 61]);
}
