// SPDX-License-Identifier: BSD-3-Clause
//! Decides whether a connection may begin, by policy, checksum and limits. An access list would
//! belong here.
//!
//! Two kinds of packets come here: packets without a connection, and packets that begin a new
//! connection with the key of an existing one. Other packets of existing connections are not
//! checked. Whether the table has room is decided later, in [`Tracker::admit`].

use super::verdicts::{CtStates, Verdicts};
use crate::api::{Anomaly, CtState, Tracking};
use crate::packet::{Key, PacketView};
use crate::tracker::{ReopenCause, Step, Tracker};

/// Replaces the connection in `record` by a new one with the same key, if the limits allow it, and
/// counts the packet for the new one. Writes the verdict of the packet.
pub(super) fn reopen<const W: usize>(
    tracker: &mut Tracker<W>,
    (record, cause): (u32, ReopenCause),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let position = packet.header_info.position;
    let originators = tracker.originators(record, packet, cause);
    let (key, limits) = (tracker.key(record), &mut verdicts.accounts.limits);
    let zone = key.zone();
    let step = match limits.check_next(key, originators, packet.now) {
        Ok(()) => tracker.reopen(record, packet, cause, verdicts.accounts),
        Err(reason) => Step::NoRoom(reason),
    };
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
    match tracker.tracking(zone) {
        Tracking::Off => return verdicts.tracking_off(position),
        Tracking::Flows => return begin_flow(tracker, (hash, key), packet, verdicts),
        Tracking::Connections => {}
    }
    if let Some(anomaly) = packet.unsolicited(&key).filter(|_| !tracker.allows_pickup(zone)) {
        return verdicts.cannot_start(position, anomaly);
    }
    if !packet.is_intact(&key) {
        return verdicts.cannot_start(position, Anomaly::Checksum);
    }
    // No connection begins with such a packet. Unless the policy drops it, it gets a record in a
    // stray state (`TcpStray`, `IcmpStray` or `SctpStray`).
    if packet.anomaly(&key).is_some_and(|anomaly| verdicts.drop_or_count(position, anomaly)) {
        return;
    }
    let step = admit(tracker, (hash, key), packet, verdicts);
    let is_none = || packet.starts_nothing(&key);
    let state = || if is_none() { CtState::INVALID } else { CtState::NEW };
    verdicts.write(position, zone, step, state);
}

/// Begins a flow whose states are not tracked, if the limits allow it. Writes the verdict of the
/// packet.
fn begin_flow<const W: usize>(
    tracker: &mut Tracker<W>,
    (hash, key): (u64, Key<W>),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let (position, zone) = (packet.header_info.position, key.zone());
    let step = admit(tracker, (hash, key), packet, verdicts);
    verdicts.write(position, zone, step, || CtState::NEW);
}

/// Makes a record for a packet without connection, if the limits allow it.
#[inline(always)]
fn admit<const W: usize>(
    tracker: &mut Tracker<W>,
    (hash, key): (u64, Key<W>),
    packet: &PacketView,
    verdicts: &mut Verdicts<impl CtStates>,
) -> Step {
    let limits = &mut verdicts.accounts.limits;
    match limits.check(verdicts.zones, (&key, packet.meta.swapped()), verdicts.now) {
        Ok(()) => tracker.admit(hash, key, packet, verdicts.accounts),
        Err(reason) => Step::NoRoom(reason),
    }
}
