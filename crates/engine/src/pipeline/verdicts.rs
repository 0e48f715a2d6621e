// SPDX-License-Identifier: BSD-3-Clause
//! Writes the verdict of each packet, its counter and, if requested, its connection state.

use super::steering::Steering;
use crate::account::Accounts;
use crate::api::{AccessLists, Anomaly, CtState, UntrackedReason, Verdict, WhenFull};
use crate::base::Nanos;
use crate::packet::{HandedOff, Handoff};
use crate::policy::ZonePolicies;
use crate::tracker::Step;
use wire::Packet;

/// Where connection states of the packets of a burst are written.
pub(crate) trait CtStates {
    /// Writes the state of the packet at this position.
    fn write(&mut self, position: u8, state: impl FnOnce() -> CtState);
}

/// Discards connection states, for callers that do not request them.
pub(crate) struct NoCtStates;

impl CtStates for NoCtStates {
    #[inline(always)]
    fn write(&mut self, _position: u8, _state: impl FnOnce() -> CtState) {}
}

impl CtStates for &mut [CtState] {
    #[inline(always)]
    fn write(&mut self, position: u8, state: impl FnOnce() -> CtState) {
        if let Some(place) = self.get_mut(usize::from(position)) {
            *place = state();
        }
    }
}

impl Accounts {
    /// Counts packets that pass because no zone is tracked.
    pub(super) fn pass_untracked<P: Packet>(&mut self, packets: &[P]) {
        self.stats.passed[UntrackedReason::TrackingOff as usize] += packets.len() as u64;
        self.stats.bytes += packets.iter().map(|packet| packet.frame_len() as u64).sum::<u64>();
    }

    /// Counts a packet that has no flow key for this reason, and returns its verdict.
    #[inline(never)]
    pub(crate) fn drop_or_pass(&mut self, reason: UntrackedReason) -> Verdict {
        if self.drops.drops_keyless(reason) {
            self.stats.dropped[reason as usize] += 1;
            return Verdict::Drop;
        }
        self.stats.passed[reason as usize] += 1;
        Verdict::Forward
    }
}

/// The verdicts of one burst, and what is needed to count them.
pub(crate) struct Verdicts<'a, S> {
    /// By position in the burst. [`Verdict::Forward`] unless written.
    pub(crate) out: &'a mut [Verdict],
    pub(crate) ct_states: S,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) steering: &'a mut Steering,
    pub(crate) zones: &'a ZonePolicies,
    /// Access lists, if there are any.
    pub(crate) access: Option<&'a AccessLists>,
    pub(crate) now: Nanos,
}

impl<S: CtStates> Verdicts<'_, S> {
    /// Returns these verdicts without writing connection states.
    pub(super) fn without_ct_states(&mut self) -> Verdicts<'_, NoCtStates> {
        let Self { out, accounts, steering, zones, access, now, .. } = self;
        let (ct_states, access, now) = (NoCtStates, *access, *now);
        Verdicts { out, ct_states, accounts, steering, zones, access, now }
    }

    /// Writes the connection state of a packet that was counted for its connection.
    #[inline(always)]
    pub(super) fn counted(&mut self, position: u8, state: impl FnOnce() -> CtState) {
        self.ct_states.write(position, state);
    }

    /// Writes verdict, counter and connection state for the result of a packet whose connection is
    /// in this zone.
    pub(super) fn write(
        &mut self,
        position: u8,
        zone: u16,
        step: Step,
        state: impl FnOnce() -> CtState,
    ) {
        match step {
            Step::Tracked => self.ct_states.write(position, state),
            Step::NoRoom(reason) => self.no_room(position, zone, reason),
            Step::Ignored(anomaly) => {
                self.accounts.stats.anomalies[anomaly as usize] += 1;
                match anomaly.is_invalid() {
                    true => self.ct_states.write(position, || CtState::INVALID),
                    false => self.ct_states.write(position, state),
                }
            }
            Step::Invalid(anomaly) => self.invalid(position, anomaly),
            Step::NeedsAdmission(_) => debug_assert!(false, "admission has answered"),
        }
    }

    /// Drops a packet that does not fit its connection.
    fn invalid(&mut self, position: u8, anomaly: Anomaly) {
        self.accounts.stats.anomalies[anomaly as usize] += 1;
        self.untracked(position, UntrackedReason::Invalid, true);
    }

    /// Counts an anomaly of a packet that no connection can begin with. True if the packet is
    /// dropped.
    pub(super) fn drop_or_count(&mut self, position: u8, anomaly: Anomaly) -> bool {
        if self.accounts.drops.drops(anomaly) {
            self.invalid(position, anomaly);
            return true;
        }
        self.accounts.stats.anomalies[anomaly as usize] += 1;
        false
    }

    /// Passes or drops a packet that found no room to begin a connection in this zone.
    fn no_room(&mut self, position: u8, zone: u16, reason: UntrackedReason) {
        let is_dropped = self.zones.of(zone).when_full == WhenFull::Drop;
        self.untracked(position, reason, is_dropped);
    }

    /// Passes or drops a packet that has no connection and cannot begin one.
    pub(super) fn cannot_start(&mut self, position: u8, anomaly: Anomaly) {
        self.accounts.stats.anomalies[anomaly as usize] += 1;
        self.untracked(position, UntrackedReason::Invalid, self.accounts.drops.drops_invalid());
    }

    /// Passes a packet whose zone is not tracked.
    pub(super) fn tracking_off(&mut self, position: u8) {
        self.untracked(position, UntrackedReason::TrackingOff, false);
    }

    /// Passes a message of neighbour discovery.
    pub(super) fn neighbour_discovery(&mut self, position: u8) {
        self.untracked(position, UntrackedReason::NeighbourDiscovery, false);
    }

    /// Drops a packet that an access list denies. Its sender is told if a list rejects it.
    pub(super) fn denied(&mut self, position: u8, rejects: bool) {
        self.untracked(position, UntrackedReason::Denied, true);
        if rejects {
            self.out[usize::from(position)] = Verdict::Reject;
        }
    }

    /// Passes a fragment whose connection is not in the table.
    pub(super) fn no_connection(&mut self, position: u8) {
        self.untracked(position, UntrackedReason::Fragment, false);
    }

    /// Writes the verdict of an ICMP error about a connection.
    ///
    /// `is_related`: `None` if that connection is not here. Otherwise true if the sender of the
    /// quoted packet can have sent it. The error is a reply if it goes to the originator.
    pub(super) fn error(&mut self, position: u8, is_related: Option<bool>, is_reply: bool) {
        let drops = self.accounts.drops;
        match is_related {
            Some(true) => self.untracked(position, UntrackedReason::Related, false),
            Some(false) => {
                self.untracked(position, UntrackedReason::Unrelated, drops.drops_invalid())
            }
            None => self.untracked(position, UntrackedReason::Unrelated, drops.drops_unknown()),
        }
        if is_related == Some(true) && is_reply {
            self.ct_states.write(position, || CtState::RELATED | CtState::REPLY);
        }
    }

    /// Writes the verdict of a packet without a key, which was not counted as tracked.
    pub(super) fn keyless(&mut self, position: u8, reason: UntrackedReason) {
        self.out[usize::from(position)] = self.accounts.drop_or_pass(reason);
        self.ct_states.write(position, || CtState::of_reason(reason));
    }

    /// Notes that the packet waits for the first fragment of its datagram.
    pub(super) fn hold(&mut self, position: u8) {
        self.accounts.stats.held += 1;
        self.out[usize::from(position)] = Verdict::Hold;
        self.ct_states.write(position, || CtState::UNTRACKED);
    }

    /// Notes that the packet goes to another worker.
    pub(super) fn hand_off(&mut self, handoff: Handoff) {
        let position = handoff.info.position;
        self.accounts.stats.handed += 1;
        self.steering.handed.push(HandedOff { position, handoff });
        self.out[usize::from(position)] = Verdict::Elsewhere;
        self.ct_states.write(position, || CtState::UNTRACKED);
    }

    /// Moves a packet that was counted as tracked to the counters of passed or dropped packets.
    fn untracked(&mut self, position: u8, reason: UntrackedReason, is_dropped: bool) {
        let stats = &mut self.accounts.stats;
        stats.tracked -= 1;
        self.ct_states.write(position, || CtState::of_reason(reason));
        match is_dropped {
            false => stats.passed[reason as usize] += 1,
            true => {
                stats.dropped[reason as usize] += 1;
                self.out[usize::from(position)] = Verdict::Drop;
            }
        }
    }
}
