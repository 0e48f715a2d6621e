// SPDX-License-Identifier: BSD-3-Clause
//! Sends the replay of a TRex profile, and stamped probes beside it that measure latency and loss.

use crate::source::{Source, Written};
use crate::stream::Streams;
use crate::trex::Replay;

/// A source of probes and of a replay. The replay is one stream, numbered after those of the
/// probes.
#[derive(Debug)]
pub struct ProbedReplay {
    probes: Streams,
    replay: Replay,
    replayed: u64,
}

impl ProbedReplay {
    /// Joins both sources; each keeps its own times.
    pub fn new(probes: Streams, replay: Replay) -> Self {
        Self { probes, replay, replayed: 0 }
    }
}

impl Source for ProbedReplay {
    #[inline]
    fn due(&self) -> Option<u64> {
        match (self.probes.due(), self.replay.due()) {
            (Some(probe), Some(frame)) => Some(probe.min(frame)),
            (probe, frame) => probe.or(frame),
        }
    }

    #[inline]
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written {
        let probe = self.probes.due();
        let is_probe = match self.replay.due() {
            Some(frame) => probe.is_some_and(|probe| probe <= frame),
            None => true,
        };
        if is_probe {
            return self.probes.write(room, now_ns);
        }
        self.replayed += 1;
        let (_, len) = self.replay.write(room);
        Written { len, stream: self.probes.streams() as u16 }
    }

    fn streams(&self) -> usize {
        self.probes.streams() + 1
    }

    fn stamped_streams(&self) -> usize {
        self.probes.streams()
    }

    fn written(&self, stream: usize) -> u64 {
        if stream < self.probes.streams() { self.probes.written(stream) } else { self.replayed }
    }
}
