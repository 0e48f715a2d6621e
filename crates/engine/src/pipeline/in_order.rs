// SPDX-License-Identifier: BSD-3-Clause
//! Tracks packet by packet where the order within a burst matters: near a limit, for packets from
//! other workers, and if fragments wait for a packet of the burst.

use super::pass::{Pass, Passes};
use super::verdicts::{CtStates, Verdicts};
use crate::packet::Burst;
use crate::tracker::Tracker;
use wire::Packet;

/// Tracks packets of both IP versions in their order, and begins connections as they come. Calls
/// `then` after each packet with its position in the burst.
#[inline(never)]
pub(super) fn track_in_order<P: Packet, S: CtStates>(
    Passes { mut v4, mut v6 }: Passes,
    burst: Burst<P>,
    verdicts: &mut Verdicts<S>,
    then: &mut impl FnMut(usize, &mut Tracker<2>, &mut Tracker<5>, &mut Verdicts<S>),
) {
    let (mut of_v4, mut of_v6) = (0, 0);
    while of_v4 < v4.batch.len || of_v6 < v6.batch.len {
        let positions = (v4.batch.position(of_v4), v6.batch.position(of_v6));
        if positions.0 < positions.1 {
            v4.track_now(of_v4, burst, verdicts);
            of_v4 += 1;
        } else {
            v6.track_now(of_v6, burst, verdicts);
            of_v6 += 1;
        }
        then(positions.0.min(positions.1), v4.tracker, v6.tracker, verdicts);
    }
}

impl<const W: usize> Pass<'_, W> {
    fn track_now<P: Packet>(
        &mut self,
        i: usize,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        self.track_any(i, burst, verdicts);
        if self.lookup.missed > 0 {
            self.admit(0, burst, verdicts);
            self.lookup.missed = 0;
        }
    }
}
