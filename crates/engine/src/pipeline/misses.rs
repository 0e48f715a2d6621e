// SPDX-License-Identifier: BSD-3-Clause
//! Runs the pass over packets without a connection, in packet order.
//!
//! Each packet is looked up again, so that two packets of one new connection in one burst begin
//! only one.

use super::admission;
use super::pass::{Pass, Passes};
use super::track::view;
use super::verdicts::{CtStates, Verdicts};
use crate::api::Tracking;
use crate::packet::{Burst, HeaderInfo, Key, PacketView};
use wire::Packet;

impl<const W: usize> Pass<'_, W> {
    /// Returns the position in the burst of the packet of this miss; `usize::MAX` if there is no
    /// such miss.
    fn position_of_miss(&self, miss: usize) -> usize {
        match miss < self.lookup.missed {
            true => self.batch.position(self.lookup.missing(miss)),
            false => usize::MAX,
        }
    }

    /// Begins a connection with the packet of this miss, unless an earlier packet began it. ICMP
    /// errors and later fragments begin none.
    pub(super) fn admit<P: Packet>(
        &mut self,
        miss: usize,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let i = self.lookup.missing(miss);
        let key = Key::from_words(&self.batch.keys, i);
        let (mut gathered, hash) = (None, self.lookup.hashes[i]);
        let is_tracked = self.tracker.tracking(key.zone()) != Tracking::Off;
        // Connections that began before their zone was not tracked any more are found by the pass
        // before.
        let record = if is_tracked { self.tracker.table.find(hash, &key) } else { None };
        if let Some(record) = record {
            return self.track_known((i, record), burst, verdicts);
        }
        let HeaderInfo { position, .. } = self.batch.headers[i];
        if self.batch.headers[i].quoted().is_some() {
            if !is_tracked && verdicts.access.is_none() {
                return verdicts.tracking_off(position);
            }
            return self.relate_error((i, None), burst, verdicts);
        }
        if self.batch.headers[i].is_later_fragment() {
            let packet =
                PacketView::of_fragment(self.batch.metas[i], &self.batch.headers[i], burst.1);
            return admission::pass_fragment(self.tracker, &key, &packet, verdicts);
        }
        let packet = view(self, i, burst, &mut gathered);
        admission::begin(self.tracker, (hash, key), &packet, verdicts);
    }
}

/// Begins new connections of both IP versions in the order of their packets.
#[inline(never)]
pub(super) fn admit<P: Packet>(
    Passes { mut v4, mut v6 }: Passes,
    burst: Burst<P>,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let (mut of_v4, mut of_v6) = (0, 0);
    while of_v4 < v4.lookup.missed || of_v6 < v6.lookup.missed {
        if v4.position_of_miss(of_v4) < v6.position_of_miss(of_v6) {
            v4.admit(of_v4, burst, verdicts);
            of_v4 += 1;
        } else {
            v6.admit(of_v6, burst, verdicts);
            of_v6 += 1;
        }
    }
}
