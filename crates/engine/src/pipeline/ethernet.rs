// SPDX-License-Identifier: BSD-3-Clause
//! Decides about packets without a key: frames that are not IP by the lists for them, all others by
//! the policy for drops.

use super::verdicts::{CtStates, Verdicts};
use crate::api::{CtState, Side, UntrackedReason, Verdict, ZoneSource};
use crate::packet::parse::ethernet_fields;
use crate::policy::NO_RULE;
use wire::Packet;

/// True for a frame that is read to its EtherType and is not IP.
fn is_not_ip(reason: UntrackedReason) -> bool {
    matches!(reason, UntrackedReason::NonIp | UntrackedReason::Llc)
}

/// Writes the verdict of a packet without a key, and counts it.
#[inline(always)]
pub(super) fn decide(
    packet: Option<&impl Packet>,
    zone: ZoneSource,
    (position, reason): (u8, UntrackedReason),
    verdicts: &mut Verdicts<impl CtStates>,
) {
    let judging = verdicts.accounts.frames.side.filter(|_| is_not_ip(reason));
    if let Some((side, packet)) = judging.zip(packet) {
        if denies(side, (packet, zone), verdicts) {
            return verdicts.denied_keyless(position);
        }
    }
    verdicts.keyless(position, reason);
}

/// True if a list denies the frame, which arrived at this side. Counts it for the rules that decide
/// and for those that only count.
#[inline(never)]
fn denies(
    side: Side,
    (packet, zone): (&impl Packet, ZoneSource),
    verdicts: &mut Verdicts<impl CtStates>,
) -> bool {
    let Some((lists, frame)) = verdicts.access.zip(ethernet_fields(packet, zone)) else {
        return false;
    };
    let (bytes, now, frames) =
        (packet.wire_len() as u64, verdicts.now, &mut verdicts.accounts.frames);
    let judgement = lists.judge_frame(side, &frame, &mut |rule| frames.count(rule, bytes, now));
    for rule in judgement.rules.into_iter().filter(|rule| *rule != NO_RULE) {
        frames.count(rule, bytes, now);
    }
    !judgement.permits
}

impl<S: CtStates> Verdicts<'_, S> {
    /// Drops a frame without a key that an access list denies.
    fn denied_keyless(&mut self, position: u8) {
        self.accounts.stats.dropped[UntrackedReason::Denied as usize] += 1;
        self.out[usize::from(position)] = Verdict::Drop;
        self.ct_states.write(position, || CtState::of_reason(UntrackedReason::Denied));
    }
}
