// SPDX-License-Identifier: BSD-3-Clause
//! Asks the access lists about packets: without a connection, of a connection whose decision is
//! open or varies, and ICMP errors.
//!
//! Packets of a connection whose directions are both permitted are never compared with a list.

use super::super::verdicts::{CtStates, Verdicts};
use super::candidate::{Candidate, Lists, states};
use super::rejudge::{is_reflected, judge_open};
use crate::account::{Accounts, NamedRule};
use crate::api::{
    AccessLists, AccessLog, Anomaly, CtMark, CtState, DirectionAccess, MarkChange, PROTO_TCP,
    PROTO_UDP, Side, Stats, Tracking, VlanTags,
};
use crate::packet::{HeaderInfo, IPV4_MIN, IPV6, IcmpHeader, Key, PacketMeta, PacketView, SYN};
use crate::policy::{Judgement, NO_RULE, Outcome};
use crate::tracker::{Foreseen, Tracker};

/// Returns the lists that judge packets of the burst, if any do.
#[inline(always)]
fn lists<'a, S>(side: Option<Side>, verdicts: &Verdicts<'a, S>) -> Option<Lists<'a>> {
    let lists = verdicts.access?;
    side.filter(|side| lists.is_bound(*side)).map(|side| (lists, side))
}

impl Candidate<'_> {
    /// Returns the rule that the mark of an untagged plain TCP or UDP packet names. NICs differ in
    /// which headers of other packets they find, and do not have the rules for other protocols.
    fn rule_of_mark<const W: usize>(
        &self,
        key: &Key<W>,
        accounts: &mut Accounts,
        lists: &AccessLists,
    ) -> Option<NamedRule> {
        let plain_header = if W > 2 { IPV6 } else { IPV4_MIN } as u8 / 4;
        let is_plain = matches!(key.proto(), PROTO_TCP | PROTO_UDP)
            && !self.is_fragment
            && !self.info.is_later_fragment()
            && self.info.vlan == VlanTags::NONE
            && self.info.ip_header == plain_header;
        let marks = accounts.list_marks.as_deref_mut().filter(|_| is_plain)?;
        marks.rule_of(self.mark, lists.epoch())
    }
}

/// The packet is denied, and has its verdict.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denied;

/// Judges a packet without a connection, which has this relation to connections. Returns the
/// judgement if the packet may pass; `Ok(None)` if no list judges it.
///
/// # Errors
/// [`Denied`] if a list denies it.
#[inline(always)]
pub(super) fn judge_new<const W: usize>(
    tracker: &mut Tracker<W>,
    (key, ct): (&Key<W>, impl FnOnce(&Tracker<W>) -> CtState),
    candidate: Candidate,
    verdicts: &mut Verdicts<impl CtStates>,
) -> Result<Option<Judgement>, Denied> {
    // Where no list is bound, the answer is stored too: lists may be bound later.
    let (Some(lists), Some(side)) = (verdicts.access, tracker.side()) else { return Ok(None) };
    // To find the state verifies a checksum, and often no rule asks for it.
    let ct = if lists.mentions_ct { states(ct(tracker)) } else { acl::CtStates::NEW };
    let named = candidate.rule_of_mark(key, verdicts.accounts, lists);
    let trusted = named.filter(|named| !named.is_checked);
    let by_mark = trusted.and_then(|named| lists.judge_by_rule(side, named.rule));
    let judgement = match by_mark {
        Some(judgement) => {
            count_decided(tracker, &judgement, candidate.meta, verdicts);
            judgement
        }
        None => {
            let fields = candidate.fields_in(key, (ct, 0));
            judge(tracker, (lists, side), (&fields, candidate.meta), verdicts)
        }
    };
    if let Some(named) = named.filter(|named| named.is_checked) {
        verdicts.accounts.note_check(named.rule, judgement.rules.contains(&named.rule));
    }
    match judgement.permits {
        true => Ok(Some(judgement)),
        false => {
            verdicts.denied(candidate.info.position, judgement.rejects);
            Err(Denied)
        }
    }
}

/// What the lists say about a connection that begins.
pub(super) struct Opening {
    /// What they say about its first packet.
    pub(super) first: Judgement,
    /// What they say about the answer, if the answer begins it and is judged by itself.
    pub(super) answer: Option<Judgement>,
}

impl Opening {
    /// Returns what its rules write to mark and label.
    pub(super) fn marks(&self) -> MarkChange {
        let of_answer = self.answer.as_ref().map_or(MarkChange::NONE, |answer| answer.marks);
        self.first.marks.then(of_answer)
    }
}

/// Judges a SYN+ACK that begins a connection together with the SYN before it: the SYN by the lists
/// of the other side, where it arrived, and the SYN+ACK as its answer.
///
/// # Errors
/// [`Denied`] if a list denies one of them.
#[inline(never)]
pub(super) fn judge_agreed<const W: usize>(
    tracker: &mut Tracker<W>,
    key: &Key<W>,
    candidate: Candidate,
    verdicts: &mut Verdicts<impl CtStates>,
) -> Result<Option<Opening>, Denied> {
    let (Some(lists), Some(side)) = (verdicts.access, tracker.side()) else { return Ok(None) };
    let meta = candidate.meta;
    let syn = Candidate { meta: meta.sent_by(meta.swapped() ^ 1), ..candidate };
    let syn = acl::Packet { tcp_flags: Some(SYN), ..syn.fields(key, (CtState::NEW, 0)) };
    let first = lists.judge(side.other(), &syn);
    if !first.permits {
        tracker.count_hit(first.rules, meta, verdicts.now);
        verdicts.denied(candidate.info.position, false);
        return Err(Denied);
    }
    if first.reflects {
        return Ok(Some(Opening { first, answer: None }));
    }
    let mark = first.marks.written_to(CtMark::default()).mark;
    let fields = candidate.fields(key, (CtState::ESTABLISHED | CtState::REPLY, mark));
    let answer = judge(tracker, (lists, side), (&fields, meta), verdicts);
    match answer.permits {
        true => Ok(Some(Opening { first, answer: Some(answer) })),
        false => {
            verdicts.denied(candidate.info.position, answer.rejects);
            Err(Denied)
        }
    }
}

/// Counts a packet that a mark has decided about: as decided, and, if it is denied, for the rule.
fn count_decided<const W: usize>(
    tracker: &mut Tracker<W>,
    judgement: &Judgement,
    meta: PacketMeta,
    verdicts: &mut Verdicts<impl CtStates>,
) {
    if let Some(marks) = &mut verdicts.accounts.list_marks {
        marks.stats.decided += 1;
    }
    if !judgement.permits {
        tracker.count_hit(judgement.rules, meta, verdicts.now);
    }
}

impl<S: CtStates> Verdicts<'_, S> {
    /// True if a rule of these lists may log a packet, and someone follows the log.
    #[inline(always)]
    fn has_log_followers(&self, lists: &AccessLists) -> bool {
        lists.logs && self.accounts.logs.has_followers
    }

    /// Logs a packet for those of these rules that log packets, given by their counters.
    #[cold]
    fn log(
        &mut self,
        (lists, side): Lists,
        rules: [u32; 2],
        (fields, meta): (&acl::Packet, PacketMeta),
    ) {
        let limit = (lists.limits().logs_per_second, self.now);
        for (list, rule) in rules.into_iter().filter_map(|rule| lists.logging_rule(side, rule)) {
            let is_logged = self.accounts.logs.push(limit, || AccessLog {
                at: limit.1,
                list: list.clone(),
                rule,
                side,
                packet: *fields,
                bytes: meta.frame_bytes(),
            });
            let Stats { logged, logs_suppressed, .. } = &mut self.accounts.stats;
            *if is_logged { logged } else { logs_suppressed } += 1;
        }
    }
}

/// Judges a packet. Counts it for rules that only count, and, if it is denied, for those that
/// decided.
#[inline(never)]
fn judge<const W: usize>(
    tracker: &mut Tracker<W>,
    (lists, side): Lists,
    (fields, meta): (&acl::Packet, PacketMeta),
    verdicts: &mut Verdicts<impl CtStates>,
) -> Judgement {
    let (judgement, now) = (lists.judge(side, fields), verdicts.now);
    tracker.note_search(judgement.rules, fields.ct);
    let logs = verdicts.has_log_followers(lists);
    if judgement.varies {
        lists.for_each_counting(side, (fields, &judgement), &mut |rule| {
            tracker.count_hit([rule, NO_RULE], meta, now);
            if logs {
                verdicts.log((lists, side), [rule, NO_RULE], (fields, meta));
            }
        });
    }
    if !judgement.permits {
        tracker.count_hit(judgement.rules, meta, now);
    }
    if logs {
        verdicts.log((lists, side), judgement.rules, (fields, meta));
    }
    judgement
}

/// Counts the first packet of a connection for the rules that permitted it, unless the connection
/// has begun and counts it for them.
pub(super) fn count_new<const W: usize>(
    tracker: &mut Tracker<W>,
    (judgement, has_begun): (&Judgement, bool),
    packet: &PacketView,
) {
    if !has_begun || judgement.decision() == DirectionAccess::Varies {
        tracker.count_hit(judgement.rules, packet.meta, packet.now);
    }
}

/// Counts a packet that passes and that no connection counts for the rules that permitted it.
pub(super) fn count_passed<const W: usize>(
    tracker: &mut Tracker<W>,
    judgement: Option<&Judgement>,
    packet: &PacketView,
) {
    if let Some(judgement) = judgement {
        tracker.count_hit(judgement.rules, packet.meta, packet.now);
    }
}

/// True if the lists deny a packet of the connection in `record`. Its verdict is written then.
/// Admission asks them about one that would begin another connection.
#[inline(always)]
pub(in crate::pipeline) fn denies_known<const W: usize>(
    tracker: &mut Tracker<W>,
    (record, foreseen): (u32, Foreseen),
    candidate: Candidate,
    verdicts: &mut Verdicts<impl CtStates>,
) -> bool {
    let drops = verdicts.accounts.drops;
    match foreseen {
        Foreseen::Begins => return false,
        Foreseen::Ignored(anomaly) if drops.drops(anomaly) => return false,
        Foreseen::Ignored(anomaly) if drops.judges_invalid(anomaly) => {
            return denies_invalid(tracker, (record, anomaly), candidate, verdicts);
        }
        Foreseen::Ignored(_) | Foreseen::Fits => {}
    }
    let (Some(lists), Some(side)) = (verdicts.access, tracker.side()) else { return false };
    // An answer may arrive where no list is bound, and end the time in which its connection is new.
    let judges_answers = lists.mentions_ct || lists.is_bound(side);
    if !tracker.needs_access_check(record, candidate.meta, judges_answers) {
        return false;
    }
    let lists = (lists, side);
    let outcome = judge_known(tracker, record, (candidate, lists), verdicts);
    if outcome != Outcome::Permit {
        verdicts.denied(candidate.info.position, outcome == Outcome::Reject);
    }
    outcome != Outcome::Permit
}

/// True if the lists deny a packet that does not fit the connection in `record`: they judge it as
/// invalid. Its verdict is written then. If it passes, it is counted for the rules of its
/// connection, whatever rule permits it.
#[cold]
fn denies_invalid<const W: usize>(
    tracker: &mut Tracker<W>,
    (record, anomaly): (u32, Anomaly),
    candidate: Candidate,
    verdicts: &mut Verdicts<impl CtStates>,
) -> bool {
    let Some(lists) = lists(tracker.side(), verdicts) else { return false };
    let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
    let fields = candidate.fields(&key, (CtState::INVALID, mark));
    let judgement = judge(tracker, lists, (&fields, candidate.meta), verdicts);
    if !judgement.permits {
        verdicts.accounts.stats.anomalies[anomaly as usize] += 1;
        verdicts.denied(candidate.info.position, judgement.rejects);
    }
    !judgement.permits
}

/// True if the lists deny a fragment that has waited for the first one of its connection. No
/// sender is told of a later fragment (RFC 1812 4.3.2.7).
pub(in crate::pipeline) fn denies_held<const W: usize>(
    tracker: &mut Tracker<W>,
    key: &Key<W>,
    meta: PacketMeta,
    verdicts: &mut Verdicts<impl CtStates>,
) -> bool {
    let Some(lists) = lists(tracker.side(), verdicts) else { return false };
    let info = &HeaderInfo::later_fragment(0);
    let candidate = Candidate { meta, info, is_fragment: true, mark: 0 };
    let hash = tracker.table.hasher.hash_one(&key.0);
    let Some(record) = tracker.table.find(hash, key) else {
        // The first fragment began no connection, perhaps because a list denied it.
        let fields = candidate.fields(key, (CtState::UNTRACKED, 0));
        let judgement = judge(tracker, lists, (&fields, meta), verdicts);
        if judgement.permits {
            tracker.count_hit(judgement.rules, meta, verdicts.now);
        }
        return !judgement.permits;
    };
    tracker.needs_access_check(record, meta, true)
        && judge_known(tracker, record, (candidate, lists), verdicts) != Outcome::Permit
}

/// Judges a packet of the connection in `record`, unless that is decided.
#[inline(never)]
fn judge_known<const W: usize>(
    tracker: &mut Tracker<W>,
    record: u32,
    (candidate, lists): (Candidate, Lists),
    verdicts: &mut Verdicts<impl CtStates>,
) -> Outcome {
    let (meta, now) = (candidate.meta, verdicts.now);
    if tracker.has_old_access(record) {
        tracker.open_access(record, now);
    }
    if tracker.access(record).is_open {
        judge_open(tracker, record, (candidate, lists), verdicts.accounts);
    }
    let (access, direction) = (tracker.access(record), tracker.direction(record, meta));
    match access.decisions[direction] {
        DirectionAccess::Permitted => return Outcome::Permit,
        decision @ (DirectionAccess::Denied | DirectionAccess::Rejected) => {
            tracker.count_hit(access.rules[direction], meta, now);
            if verdicts.has_log_followers(lists.0) {
                let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
                let fields = candidate.fields(&key, (tracker.ct_state(record, meta), mark));
                verdicts.log(lists, access.rules[direction], (&fields, meta));
            }
            let rejects = decision == DirectionAccess::Rejected;
            return if rejects { Outcome::Reject } else { Outcome::Deny };
        }
        DirectionAccess::Undecided | DirectionAccess::Varies => {}
    }
    let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
    let fields = candidate.fields(&key, (tracker.ct_state(record, meta), mark));
    let judgement = judge(tracker, lists, (&fields, meta), verdicts);
    tracker.set_marks_by_rules(record, judgement.marks, verdicts.accounts);
    if judgement.reflects {
        tracker.reflect_access(record, &judgement);
        return Outcome::Permit;
    }
    let is_answer = direction == 1 && tracker.is_unanswered(record);
    if is_answer && judgement.permits && lists.0.mentions_ct {
        judge_answered(tracker, record, (candidate, lists), verdicts.accounts);
    }
    if access.decisions[direction] == DirectionAccess::Undecided {
        tracker.decide_access(record, direction, (judgement.decision(), &judgement));
    }
    if judgement.permits && judgement.varies {
        tracker.count_hit(judgement.rules, meta, now);
    }
    judgement.outcome()
}

/// Decides anew about the packets of the originator, whose connection has its first answer: they
/// are no longer new. They arrive at the other side.
fn judge_answered<const W: usize>(
    tracker: &mut Tracker<W>,
    record: u32,
    (answer, (lists, side)): (Candidate, Lists),
    accounts: &mut Accounts,
) {
    let side = side.other();
    if !lists.is_bound(side) {
        return;
    }
    let meta = answer.meta.sent_by(answer.meta.swapped() ^ 1);
    let (key, mark) = (*tracker.key(record), tracker.table.ct_mark(record).mark);
    let fields = Candidate { meta, ..answer }.fields(&key, (CtState::ESTABLISHED, mark));
    let judgement = lists.judge(side, &fields);
    // If they are to reflect the connection, their next packet does.
    let decision = if judgement.reflects { DirectionAccess::Varies } else { judgement.decision() };
    if decision == DirectionAccess::Permitted {
        tracker.set_marks_by_rules(record, judgement.marks, accounts);
    }
    tracker.decide_access(record, 0, (decision, &judgement));
}

/// An ICMP error of a batch.
pub(in crate::pipeline) struct QuotingError<'a> {
    pub(in crate::pipeline) info: &'a HeaderInfo,
    pub(in crate::pipeline) meta: PacketMeta,
    /// True if it is about a packet that the connection has had.
    pub(in crate::pipeline) is_related: bool,
    /// True if it goes to the originator.
    pub(in crate::pipeline) is_reply: bool,
}

/// True if the lists deny an ICMP error that quotes a packet of the connection in `record`, if it
/// is known. Its verdict is written then.
#[inline(never)]
pub(in crate::pipeline) fn denies_error<const W: usize>(
    (tracker, record): (&mut Tracker<W>, Option<u32>),
    (error, frame, zone): (&QuotingError, &[u8], u16),
    verdicts: &mut Verdicts<impl CtStates>,
) -> bool {
    let Some(lists) = lists(tracker.side(), verdicts) else { return false };
    let related = record.filter(|_| error.is_related);
    if related.is_some_and(|record| is_reflected(tracker, record, lists.0)) {
        return false;
    }
    let is_off = tracker.tracking(zone) == Tracking::Off;
    let ct = match (error.is_related, error.is_reply) {
        _ if is_off => CtState::UNTRACKED,
        (true, true) => CtState::RELATED | CtState::REPLY,
        (true, false) => CtState::RELATED,
        (false, _) => CtState::INVALID,
    };
    let Some(header) = IcmpHeader::of_frame(frame) else {
        // The parser has read it, so this is a frame whose headers lie in several segments.
        let is_denied = verdicts.accounts.drops.denies_unjudged;
        if is_denied {
            verdicts.denied(error.info.position, false);
        }
        return is_denied;
    };
    let fields = acl::Packet {
        src: header.src,
        dst: header.dst,
        proto: Key::<W>::ICMP,
        icmp: Some(header.icmp),
        zone,
        ct: states(ct),
        ..acl::Packet::EMPTY
    };
    let judgement = judge(tracker, lists, (&fields, error.meta), verdicts);
    match judgement.permits {
        true => tracker.count_hit(judgement.rules, error.meta, verdicts.now),
        // An ICMP error gets no answer (RFC 1812 4.3.2.7, RFC 4443 2.4(e.1)).
        false => verdicts.denied(error.info.position, false),
    }
    !judgement.permits
}
