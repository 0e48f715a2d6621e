// SPDX-License-Identifier: BSD-3-Clause
//! Tracking packet by packet, where the order within a burst matters: near a limit, and where
//! packets wait for others.

use super::verdicts::Outcome;
use crate::packet::{Burst, Lane, Lanes};
use crate::tracker::Tracker;
use wire::Packet;

/// Tracks packets of both IP versions one after the other, and begins flows on the way: where there
/// is little room, or something waits for a packet, who is first matters. `then` comes behind each
/// packet and learns its place in the burst.
#[inline(never)]
pub(crate) fn track_in_order<P: Packet, O: Outcome>(
    lanes: &mut Lanes,
    tables: (&mut Tracker<2>, &mut Tracker<5>),
    burst: Burst<P>,
    outcome: &mut O,
    then: &mut impl FnMut(usize, &mut Tracker<2>, &mut Tracker<5>, &mut O),
) {
    let ((v4, v6), (mut of_v4, mut of_v6)) = (tables, (0, 0));
    while of_v4 < lanes.v4.len || of_v6 < lanes.v6.len {
        let positions = (lanes.v4.position(of_v4), lanes.v6.position(of_v6));
        if positions.0 < positions.1 {
            lanes.v4.track_now(v4, of_v4, burst, outcome);
            of_v4 += 1;
        } else {
            lanes.v6.track_now(v6, of_v6, burst, outcome);
            of_v6 += 1;
        }
        then(positions.0.min(positions.1), v4, v6, outcome);
    }
}

impl<const W: usize> Lane<W> {
    fn track_now<P: Packet>(
        &mut self,
        tracker: &mut Tracker<W>,
        i: usize,
        burst: Burst<P>,
        outcome: &mut impl Outcome,
    ) {
        self.track_any(tracker, i, burst, outcome);
        if self.missed > 0 {
            self.admit(tracker, 0, burst, outcome);
            self.missed = 0;
        }
    }
}
