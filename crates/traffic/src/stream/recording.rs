// SPDX-License-Identifier: BSD-3-Clause
//! Holds the frames of a capture, which a stream sends unchanged and repeatedly.

use crate::source::ROOM;
use std::sync::Arc;
use wire::ethernet::{Ethernet, ether_type};

/// A capture that a stream sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    /// Path of the file, as the user wrote it.
    pub path: String,
    /// Factor for the capture's own speed; `None` if frames are sent at the rate of the stream.
    pub speed: Option<f64>,
    /// Number of times that the capture is sent; `None` to repeat it until the stream's `count` is
    /// reached, or for ever.
    pub loops: Option<u64>,
    /// The frames, once they have been read.
    pub recording: Arc<Recording>,
}

/// Frames of a capture with their times, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Bytes of all frames, without gaps.
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
    /// Time of the first frame, as in the capture.
    begin_ns: u64,
}

/// Place of a frame in the bytes, and its time since the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    at_ns: u64,
    offset: u32,
    len: u16,
}

/// Reason why a packet of a capture cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// The packet is too short or too long for a frame.
    #[error("packet {number} has {len} bytes; frames have {} to {ROOM} without FCS", Ethernet::LEN)]
    Length {
        /// Number of the packet, from 1.
        number: usize,
        /// Its bytes.
        len: usize,
    },
    /// The frames together have too many bytes.
    #[error(
        "packets 1 to {number} have more than {} MiB: cut the capture (editcap -c)",
        Recording::BYTES_MAX >> 20
    )]
    TooLarge {
        /// Number of the packet, from 1.
        number: usize,
    },
}

impl Recording {
    /// Maximum number of bytes of all frames together.
    pub const BYTES_MAX: usize = 1 << 30;

    /// Adds a frame without FCS. A time before that of the last frame is replaced by that time.
    ///
    /// # Errors
    /// The frame is too short or too long, or the frames have more than [`Self::BYTES_MAX`] bytes.
    pub fn push(&mut self, time_ns: u64, frame: &[u8]) -> Result<(), RecordingError> {
        let (number, len) = (self.frames.len() + 1, frame.len());
        if !(Ethernet::LEN..=ROOM).contains(&len) {
            return Err(RecordingError::Length { number, len });
        }
        if self.bytes.len() + len > Self::BYTES_MAX {
            return Err(RecordingError::TooLarge { number });
        }
        if self.frames.is_empty() {
            self.begin_ns = time_ns;
        }
        let at_ns = time_ns.saturating_sub(self.begin_ns).max(self.duration_ns());
        self.frames.push(Recorded { at_ns, offset: self.bytes.len() as u32, len: len as u16 });
        self.bytes.extend_from_slice(frame);
        Ok(())
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of bytes of all frames.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True if there is no frame.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the time from the first frame to the last, in nanoseconds.
    fn duration_ns(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.at_ns)
    }

    /// Returns the time after which the frames repeat, in nanoseconds: the duration and one mean
    /// gap.
    pub(crate) fn period_ns(&self) -> u64 {
        let gaps = (self.frames.len() as u64).saturating_sub(1).max(1);
        self.duration_ns().saturating_add(self.duration_ns() / gaps)
    }

    /// Returns the mean size of the frames in bytes, with FCS.
    pub(crate) fn mean_size(&self) -> f64 {
        self.bytes.len() as f64 / self.frames.len().max(1) as f64 + super::FCS as f64
    }

    /// Returns the MTU that the longest frame needs: its bytes behind the Ethernet header and tags.
    pub(crate) fn mtu(&self) -> usize {
        (0..self.frames.len()).map(|index| mtu(self.frame(index))).max().unwrap_or(0)
    }

    #[inline(always)]
    fn frame(&self, index: usize) -> &[u8] {
        let frame = &self.frames[index];
        &self.bytes[frame.offset as usize..][..usize::from(frame.len)]
    }
}

fn mtu(frame: &[u8]) -> usize {
    let is_tag = |at: &usize| {
        let found = frame.get(*at..at + 2).map(|it| u16::from_be_bytes([it[0], it[1]]));
        found.is_some_and(|found| [ether_type::VLAN, ether_type::QINQ].contains(&found))
    };
    let tags = [12, 16].iter().take_while(|at| is_tag(at)).count();
    (frame.len() - Ethernet::LEN).saturating_sub(4 * tags)
}

/// Position in a recording that repeats for ever.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    recording: Arc<Recording>,
    index: usize,
    /// Duration of the earlier repetitions, in nanoseconds.
    base_ns: u64,
}

impl Player {
    /// Makes a position at frame number `first`.
    pub(crate) fn new(recording: Arc<Recording>, first: u64) -> Self {
        let mut player = Self { recording, index: 0, base_ns: 0 };
        player.advance(first);
        player
    }

    /// True if all frames have the same time.
    pub(crate) fn is_timeless(&self) -> bool {
        self.recording.period_ns() == 0
    }

    /// Writes the current frame to the start of `room`. Returns its length.
    #[inline(always)]
    pub(crate) fn write(&self, room: &mut [u8]) -> usize {
        let frame = self.recording.frame(self.index);
        room[..frame.len()].copy_from_slice(frame);
        frame.len()
    }

    /// Returns the time of the current frame in nanoseconds since the first, at the recording's
    /// speed.
    #[inline(always)]
    pub(crate) fn at_ns(&self) -> u64 {
        self.base_ns.saturating_add(self.recording.frames[self.index].at_ns)
    }

    /// Moves on by `frames` frames.
    #[inline(always)]
    pub(crate) fn advance(&mut self, frames: u64) {
        let len = self.recording.len();
        let next = (self.index as u64).saturating_add(frames);
        if next < len as u64 {
            self.index = next as usize;
            return;
        }
        self.index = (next % len as u64) as usize;
        let period_ns = self.recording.period_ns();
        self.base_ns = self.base_ns.saturating_add(period_ns.saturating_mul(next / len as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round_at_their_mean_rate() {
        let mut recording = Recording::default();
        for (time, len) in [(1000, 60), (1010, 61), (1005, 62), (1040, 63)] {
            recording.push(time, &vec![7; len]).unwrap();
        }
        let recording = Arc::new(recording);
        assert_eq!((recording.period_ns(), recording.mean_size()), (53, 65.5));
        let mut player = Player::new(Arc::clone(&recording), 0);
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push((player.at_ns(), player.write(&mut [0; 64])));
            player.advance(1);
        }
        assert_eq!(seen, [(0, 60), (10, 61), (10, 62), (40, 63), (53, 60)]);
        let player = Player::new(recording, 10);
        assert_eq!((player.at_ns(), player.write(&mut [0; 64])), (116, 62));
    }

    #[test]
    fn frames_of_no_length_are_refused_with_their_number() {
        let mut recording = Recording::default();
        recording.push(0, &[0; 14]).unwrap();
        let error = recording.push(0, &[0; 13]).unwrap_err().to_string();
        assert_eq!(error, "packet 2 has 13 bytes; frames have 14 to 9212 without FCS");
        assert!(recording.push(0, &[0; ROOM + 1]).is_err());
        recording.push(0, &[0; ROOM]).unwrap();
        assert_eq!(recording.mtu(), ROOM - 14);
    }

    #[test]
    fn tags_do_not_count_for_the_mtu() {
        let mut recording = Recording::default();
        let mut frame = vec![0; 1522];
        frame[12..20].copy_from_slice(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
        recording.push(0, &frame).unwrap();
        assert_eq!(recording.mtu(), 1500);
    }
}
