// SPDX-License-Identifier: BSD-3-Clause
//! What a tester measures in a trial, and whether it may have been the limit itself.

use super::goals::{is_above, is_setup_above};
use results::search::{ConnectionFigures, LatencyMax, SearchTrial, TrialKind};
use results::{Latency, units};
use search::mlr::{Counts, Trial};

/// A receiver that does not run for longer may lose packets, or deliver them late, in nanoseconds.
/// After this time 2000 packets wait at 1 Mpps, more than a queue has descriptors.
pub(super) const GAP_TOLERATED_NS: u64 = 2_000_000;

/// Share of the load that is offered by a tester that is fast enough and was delayed once.
const OFFERED_OF_FAST: f64 = 0.9;

/// Sends a load to a device and receives what comes back.
pub(in super::super) trait Tester {
    /// Measures at this load for this time.
    fn measure(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement>;

    /// Returns the packets per second of a load, if they are known.
    fn packets_per_second(&self, load: f64) -> Option<f64>;
}

/// Result of a trial.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Measurement {
    pub(in super::super) counts: Counts,
    pub(super) latency: Option<Latency>,
    pub(super) longest_gap_ns: u64,
    pub(super) steal_ms: Option<u64>,
    pub(super) seed: u64,
    /// Why the tester may be the limit, as it says itself.
    pub(super) limits: Vec<String>,
    /// Share of packets of connections that were lost, if it counts.
    pub(super) packet_loss_ratio: f64,
    /// Figures of a load that is connections.
    pub(super) connections: Option<ConnectionFigures>,
    /// Seconds with preparation and the wait for late packets.
    pub(super) whole_s: f64,
}

impl Measurement {
    /// Returns the reasons for which the tester may be the limit.
    pub(in super::super) fn reasons(&self) -> Vec<String> {
        let Counts { intended, offered, missed, .. } = self.counts;
        let mut reasons = self.limits.clone();
        if self.counts.is_offered_short() {
            let percent = 100.0 * offered as f64 / intended as f64;
            reasons.push(format!("it offered {percent:.1} % of the load"));
        }
        if missed > 0 {
            reasons.push(format!("its ports dropped {} packets", units::thousands(missed)));
        }
        let unsent = self.counts.unsent();
        if unsent > 0 && !self.counts.is_offered_short() {
            reasons.push(format!("it did not send {} in time", units::thousands(unsent)));
        }
        if self.longest_gap_ns > GAP_TOLERATED_NS {
            let gap = units::duration(self.longest_gap_ns);
            reasons.push(format!("its receiver did not run for {gap}"));
        }
        reasons
    }

    /// Returns the trial as the search takes it, and the share of packets that the device has lost
    /// for sure. A latency above its limit counts as the loss of all packets or connections.
    pub(in super::super) fn trial(&self, seconds: f64, limit: Option<&LatencyMax>) -> (Trial, f64) {
        let (trial, of_device) = self.losses(seconds);
        match limit.is_some_and(|limit| self.is_late(limit)) {
            // A tester that did not run, or is too slow, finds packets late that came in time.
            true if self.longest_gap_ns > GAP_TOLERATED_NS || !self.limits.is_empty() => {
                (Trial { loss_ratio: 1.0, ..trial }, of_device)
            }
            true => (Trial { loss_ratio: 1.0, ..trial }, 1.0),
            false => (trial, of_device),
        }
    }

    /// True if the latency of packets, or the setup time of connections, is above its limit.
    pub(in super::super) fn is_late(&self, limit: &LatencyMax) -> bool {
        let setup = self.connections.as_ref().and_then(|it| it.setup.as_ref());
        self.latency.as_ref().is_some_and(|latency| is_above(limit, latency))
            || setup.is_some_and(|setup| is_setup_above(limit, setup))
    }

    /// Returns the trial without a limit of latency, and the share that the device has lost.
    ///
    /// If packets of connections are sent again, none of them fails. So the share of lost packets
    /// counts if it is larger. It is not known which losses are the tester's if it had a limit.
    fn losses(&self, seconds: f64) -> (Trial, f64) {
        let (trial, of_device) = (self.counts.trial(seconds), self.counts.loss_ratio_of_device());
        let packets = self.packet_loss_ratio;
        let loss_ratio = trial.loss_ratio.max(packets);
        let of_device = if self.limits.is_empty() { of_device.max(packets) } else { 0.0 };
        (Trial { loss_ratio, ..trial }, of_device)
    }

    /// True if a delay of the tester may have caused the losses, and not a lack of speed.
    pub(in super::super) fn is_disturbed(&self) -> bool {
        let Counts { intended, offered, .. } = self.counts;
        let is_fast = offered as f64 >= intended as f64 * OFFERED_OF_FAST;
        is_fast && !self.reasons().is_empty()
    }

    /// Returns the trial as the results show it, without its verdicts.
    pub(in super::super) fn shown(
        &self,
        (load, start_s): (f64, f64),
        of: (Trial, f64),
    ) -> SearchTrial {
        let (Trial { duration, loss_ratio }, loss_ratio_of_device) = of;
        let Counts { intended, offered, forwarded, missed, .. } = self.counts;
        SearchTrial {
            start_s,
            load,
            duration_s: duration,
            whole_s: self.whole_s,
            seed: self.seed,
            kind: TrialKind::Counted,
            intended,
            offered,
            forwarded,
            unsent: self.counts.unsent(),
            lost: self.counts.lost(),
            missed,
            loss_ratio,
            loss_ratio_of_device,
            latency: self.latency,
            connections: self.connections.clone(),
            longest_gap_ns: self.longest_gap_ns,
            steal_ms: self.steal_ms,
            tester: self.reasons(),
            verdicts: Vec::new(),
        }
    }
}
