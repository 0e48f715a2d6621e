// SPDX-License-Identifier: BSD-3-Clause
//! Decides anew about both directions of a connection after a change of access lists, and foretells
//! that decision.

use super::candidate::{Candidate, Lists};
use crate::account::Accounts;
use crate::api::{AccessLists, CtState, DirectionAccess, MarkChange, PROTO_TCP, Side};
use crate::packet::{ACK, HeaderInfo, IPV4_MIN, Key, PacketMeta, SYN};
use crate::policy::{Judgement, NO_RULE};
use crate::tracker::Tracker;
use acl::Fragment;

/// What lists say about both directions of a connection.
pub(super) enum Rejudgement {
    /// A rule reflects it.
    Reflected(Judgement),
    /// Each direction has its decision and the counters of the rules that decided. `marks` are
    /// those of directions whose later packets are compared with no rule.
    Decided {
        decisions: [DirectionAccess; 2],
        rules: [[u32; 2]; 2],
        no_offload: bool,
        marks: MarkChange,
    },
}

/// Decides anew about both directions of a connection, by a packet that has arrived.
pub(super) fn judge_open<const W: usize>(
    tracker: &mut Tracker<W>,
    record: u32,
    packet: (Candidate, Lists),
    accounts: &mut Accounts,
) {
    match rejudge_by(tracker, record, packet) {
        Rejudgement::Reflected(judgement) => {
            tracker.set_marks_by_rules(record, judgement.marks, accounts);
            tracker.reflect_access(record, &judgement);
        }
        Rejudgement::Decided { decisions, rules, no_offload, marks } => {
            tracker.set_marks_by_rules(record, marks, accounts);
            tracker.close_access(record, decisions, (rules, no_offload));
        }
    }
}

/// Judges both directions of a connection, of which this packet arrives at this side. If it is not
/// known at which side it began, because it was restored, the packet shows that.
pub(super) fn rejudge_by<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    (packet, (lists, side)): (Candidate, Lists),
) -> Rejudgement {
    let is_reply = tracker.direction(record, packet.meta) == 1;
    let side_of_packet = if is_reply { side.other() } else { side };
    let side = tracker.access(record).side.unwrap_or(side_of_packet);
    rejudge(tracker, record, (packet, (lists, side)))
}

/// Judges both directions of a connection that began at `side`, of which this is a packet.
///
/// If a rule would reflect the connection by its first packet, for TCP a SYN, it does so now.
/// Otherwise each direction is judged by the state that the connection has.
fn rejudge<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    (packet, (lists, side)): (Candidate, Lists),
) -> Rejudgement {
    let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
    let orig = packet.meta.swapped() ^ tracker.direction(record, packet.meta) as u8;
    // A decision is about whole packets, also if this one is a fragment.
    let fields = |swapped, ct| {
        let meta = packet.meta.sent_by(swapped);
        let own = Candidate { meta, ..packet }.fields(&key, (ct, mark));
        let flags = own.tcp_flags.unwrap_or(ACK);
        let tcp_flags = (key.proto() == PROTO_TCP).then_some(flags);
        let icmp = (key.proto() == Key::<W>::ICMP).then(|| key.icmp(swapped));
        acl::Packet { fragment: Fragment::None, tcp_flags, icmp, ..own }
    };
    let judge = |side, swapped, ct| lists.judge(side, &fields(swapped, ct));
    let mut first = fields(orig, CtState::NEW);
    first.mark = 0;
    first.tcp_flags = first.tcp_flags.map(|_| SYN);
    let begun = lists.judge(side, &first);
    if begun.reflects {
        return Rejudgement::Reflected(begun);
    }
    // A packet that is to reflect the connection does so when it comes.
    let decision = |judgement: &Judgement| match judgement.reflects {
        true => DirectionAccess::Varies,
        false => judgement.decision(),
    };
    let marks = |judgement: &Judgement| match decision(judgement) {
        DirectionAccess::Permitted => judgement.marks,
        _ => MarkChange::NONE,
    };
    if tracker.is_unanswered(record) {
        let decisions = [decision(&begun), DirectionAccess::Undecided];
        let (rules, no_offload) = ([begun.rules, [NO_RULE; 2]], begun.no_offload);
        return Rejudgement::Decided { decisions, rules, no_offload, marks: marks(&begun) };
    }
    let established = judge(side, orig, CtState::ESTABLISHED);
    let reply = judge(side.other(), orig ^ 1, CtState::ESTABLISHED | CtState::REPLY);
    let decisions = [decision(&established), decision(&reply)];
    let no_offload = established.no_offload || reply.no_offload;
    let (rules, marks) =
        ([established.rules, reply.rules], marks(&established).then(marks(&reply)));
    Rejudgement::Decided { decisions, rules, no_offload, marks }
}

/// True if a rule permits both directions of the connection in `record`, or would when its next
/// packet comes.
pub(super) fn is_reflected<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    lists: &AccessLists,
) -> bool {
    let access = tracker.access(record);
    match access.side.filter(|_| access.is_open) {
        None => access.reflects,
        Some(side) => {
            let packet = usual_packet(tracker, record);
            matches!(rejudge(tracker, record, (packet, (lists, side))), Rejudgement::Reflected(_))
        }
    }
}

/// Returns a packet of the originator of the connection in `record`.
fn usual_packet<const W: usize>(tracker: &Tracker<W>, record: u32) -> Candidate<'static> {
    const INFO: HeaderInfo = HeaderInfo::plain(0, IPV4_MIN);
    let meta = PacketMeta::EMPTY;
    let meta = meta.sent_by(tracker.direction(record, meta) as u8);
    Candidate { meta, info: &INFO, is_fragment: false, mark: 0 }
}

/// Returns what [`judge_open`] would decide with these lists, if the next packet is one of the
/// originator. Decides nothing. `None` if it depends on the side at which that packet arrives,
/// because the connection was restored.
///
/// If the lists have denied its first answer so far, the next one is foretold too.
pub(crate) fn foretell<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    lists: &AccessLists,
) -> Option<[DirectionAccess; 2]> {
    let packet = usual_packet(tracker, record);
    let access = tracker.access(record);
    let has_denied_answers =
        !matches!(access.decisions[1], DirectionAccess::Undecided | DirectionAccess::Permitted);
    let decisions = |side: Side| match rejudge(tracker, record, (packet, (lists, side))) {
        Rejudgement::Reflected(_) => [DirectionAccess::Permitted; 2],
        Rejudgement::Decided { decisions: [orig, DirectionAccess::Undecided], .. }
            if has_denied_answers =>
        {
            let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
            let meta = packet.meta.sent_by(packet.meta.swapped() ^ 1);
            let answer = Candidate { meta, ..packet };
            let fields = answer.fields(&key, (CtState::ESTABLISHED | CtState::REPLY, mark));
            [orig, lists.judge(side.other(), &fields).decision()]
        }
        Rejudgement::Decided { decisions, .. } => decisions,
    };
    match access.side {
        Some(side) => Some(decisions(side)),
        None => {
            let [of_a, of_b] = Side::BOTH.map(decisions);
            (of_a == of_b).then_some(of_a)
        }
    }
}
