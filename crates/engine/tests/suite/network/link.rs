// SPDX-License-Identifier: BSD-3-Clause
//! One direction of a link that loses packets, sends them twice, late, and in another order.

use fastrand::Rng;

/// A direction of a link, from its seed.
pub(crate) struct Link {
    rng: Rng,
    /// Of 1024 packets.
    lost: u32,
    doubled: u32,
    reordered: u32,
    delay_micros: u64,
    jitter_micros: u64,
    /// When the last one arrives: those that are not reordered keep their order.
    last: u64,
}

impl Link {
    /// One in three is a good one, one in three bad.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let worst = [0, 30, 110][rng.usize(0..3)];
        Self {
            lost: rng.u32(0..=worst),
            doubled: rng.u32(0..=worst),
            reordered: rng.u32(0..=worst),
            delay_micros: rng.u64(50..30_000),
            jitter_micros: rng.u64(1..20_000),
            last: 0,
            rng: rng.fork(),
        }
    }

    /// When a packet that is sent now arrives: never, once, or twice.
    pub(crate) fn arrivals(&mut self, now: u64) -> impl Iterator<Item = u64> {
        let mut is = |of_1024| self.rng.u32(0..1024) < of_1024;
        let (is_lost, is_doubled) = (is(self.lost), is(self.doubled));
        let mut times = [None; 2];
        let copies = match (is_lost, is_doubled) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        for time in times.iter_mut().take(copies) {
            let at = now + self.delay_micros + self.rng.u64(0..self.jitter_micros);
            let is_late = self.rng.u32(0..1024) < self.reordered;
            *time = Some(match is_late {
                true => at + self.rng.u64(0..4 * (self.delay_micros + self.jitter_micros)),
                false => {
                    self.last = self.last.max(at);
                    self.last
                }
            });
        }
        times.into_iter().flatten()
    }
}
