// SPDX-License-Identifier: BSD-3-Clause
//! Decides whether a connection may begin, by access lists, policy, checksum and limits.
//!
//! Two kinds of packets come here: packets without a connection, and packets that begin a new
//! connection with the key of an existing one. Of other packets of existing connections, a few are
//! judged by the [access lists](access). Whether the table has room is decided later, in
//! [`Tracker::admit`].

pub(super) mod access;
pub(super) mod candidate;
pub(super) mod explain;
pub(super) mod rejudge;

use super::verdicts::{CtStates, Verdicts};
use crate::api::{Anomaly, CtState, MarkChange, Tracking};
use crate::packet::{Key, PacketView};
use crate::policy::Judgement;
use crate::tracker::{ReopenCause, Step, Tracker};
use access::{Opening, judge_agreed, judge_new};
use candidate::Candidate;

/// Replaces the connection in `record` by a new one with the same key, if the limits allow it, and
/// counts the packet for the new one. Writes the verdict of the packet.
pub(super) fn reopen<const W: usize>(
    tracker: &mut Tracker<W>,
    (record, cause): (u32, ReopenCause),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let position = packet.header_info.position;
    let key = *tracker.key(record);
    let candidate = Candidate::of(packet);
    let is_agreed = cause == ReopenCause::AgreedSyn;
    let opening = match is_agreed {
        true => judge_agreed(tracker, &key, candidate, verdicts),
        false => {
            let first = judge_new(tracker, (&key, |_: &_| CtState::NEW), candidate, verdicts);
            first.map(|first| first.map(|first| Opening { first, answer: None }))
        }
    };
    let Ok(opening) = opening else { return };
    let marks = opening.as_ref().map_or(MarkChange::NONE, Opening::marks);
    let originators = tracker.originators(record, packet, cause);
    let (zone, limits) = (key.zone(), &mut verdicts.accounts.limits);
    let step = match limits.check_next(&key, originators, packet.now) {
        Ok(()) => tracker.reopen((record, cause), packet, marks, verdicts.accounts),
        Err(reason) => Step::NoRoom(reason),
    };
    if let Some(Opening { first, answer }) = &opening {
        let has_begun = step == Step::Tracked;
        if has_begun {
            let side = packet.side.map(|side| if is_agreed { side.other() } else { side });
            tracker.begin_access(record, first, side);
        }
        if let Some(answer) = answer.as_ref().filter(|_| has_begun) {
            tracker.decide_access(record, 1, (answer.decision(), answer));
        }
        access::count_new(tracker, (answer.as_ref().unwrap_or(first), has_begun), packet);
    }
    verdicts.write(position, zone, step, || tracker.ct_state(record, packet.meta));
}

/// Begins a connection with its first packet, if policy and limits allow it. Writes the verdict of
/// the packet.
pub(super) fn begin<const W: usize>(
    tracker: &mut Tracker<W>,
    (hash, key): (u64, Key<W>),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let position = packet.header_info.position;
    let zone = key.zone();
    let tracking = tracker.tracking(zone);
    let ct = |tracker: &Tracker<W>| ct_of_first(tracker, &key, packet);
    let candidate = Candidate::of(packet);
    let Ok(judgement) = judge_new(tracker, (&key, ct), candidate, verdicts) else { return };
    let judgement = judgement.as_ref();
    match tracking {
        Tracking::Off => {
            access::count_passed(tracker, judgement, packet);
            return verdicts.tracking_off(position);
        }
        Tracking::Flows => {
            let step = admit(tracker, (hash, key, judgement), packet, verdicts);
            return verdicts.write(position, zone, step, || CtState::NEW);
        }
        Tracking::Connections if tracker.exempts(&key, packet.header_info) => {
            access::count_passed(tracker, judgement, packet);
            return verdicts.neighbour_discovery(position);
        }
        Tracking::Connections => {}
    }
    if let Some(anomaly) = packet.unsolicited(&key).filter(|_| !tracker.allows_pickup(zone)) {
        access::count_passed(tracker, judgement, packet);
        return verdicts.cannot_start(position, anomaly);
    }
    if !packet.is_intact(&key) {
        access::count_passed(tracker, judgement, packet);
        return verdicts.cannot_start(position, Anomaly::Checksum);
    }
    // No connection begins with such a packet. Unless the policy drops it, it gets a record in a
    // stray state (`TcpStray`, `IcmpStray` or `SctpStray`).
    if packet.anomaly(&key).is_some_and(|anomaly| verdicts.drop_or_count(position, anomaly)) {
        access::count_passed(tracker, judgement, packet);
        return;
    }
    let step = admit(tracker, (hash, key, judgement), packet, verdicts);
    let is_none = || packet.starts_nothing(&key);
    let state = || if is_none() { CtState::INVALID } else { CtState::NEW };
    verdicts.write(position, zone, step, state);
}

/// Returns the relation to connections of a packet that has none.
fn ct_of_first<const W: usize>(tracker: &Tracker<W>, key: &Key<W>, packet: &PacketView) -> CtState {
    let zone = key.zone();
    match tracker.tracking(zone) {
        Tracking::Off => return CtState::UNTRACKED,
        Tracking::Flows => return CtState::NEW,
        Tracking::Connections if tracker.exempts(key, packet.header_info) => {
            return CtState::UNTRACKED;
        }
        Tracking::Connections => {}
    }
    let cannot_begin = !tracker.allows_pickup(zone) && packet.unsolicited(key).is_some();
    match cannot_begin || packet.starts_nothing(key) || !packet.is_intact(key) {
        true => CtState::INVALID,
        false => CtState::NEW,
    }
}

/// Writes the verdict of a later fragment whose connection is not in the table.
pub(super) fn pass_fragment<const W: usize>(
    tracker: &mut Tracker<W>,
    key: &Key<W>,
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let ct = |_: &Tracker<W>| CtState::UNTRACKED;
    let candidate = Candidate::of(packet);
    if let Ok(judgement) = judge_new(tracker, (key, ct), candidate, verdicts) {
        access::count_passed(tracker, judgement.as_ref(), packet);
        verdicts.no_connection(packet.header_info.position);
    }
}

/// Makes a record for a packet without connection, if the limits allow it.
#[inline(always)]
fn admit<const W: usize>(
    tracker: &mut Tracker<W>,
    (hash, key, judgement): (u64, Key<W>, Option<&Judgement>),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) -> Step {
    let limits = &mut verdicts.accounts.limits;
    let step = match limits.check(verdicts.zones, (&key, packet.meta.swapped()), verdicts.now) {
        Ok(()) => tracker.admit((hash, key), packet, judgement, verdicts.accounts),
        Err(reason) => Step::NoRoom(reason),
    };
    if let Some(judgement) = judgement {
        access::count_new(tracker, (judgement, step == Step::Tracked), packet);
    }
    step
}
