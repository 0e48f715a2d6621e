// SPDX-License-Identifier: BSD-3-Clause
//! Explains what access lists would say about a packet that may arrive. Decides and counts nothing.

use super::candidate::{Candidate, Lists, states};
use super::ct_of_first;
use super::rejudge::{Rejudgement, rejudge_by};
use crate::api::{
    AccessLists, AccessSource, AccessTrace, CtState, DirectionAccess, PROTO_TCP, PacketQuestion,
    PacketRelation,
};
use crate::conn::State;
use crate::packet::{
    HeaderInfo, IPV4_MIN, IPV6, Key, PacketMeta, PacketView, has_valid_flags, is_error, is_syn,
};
use crate::pipeline::explain::rule_numbers;
use crate::policy::{Judgement, NO_RULE};
use crate::tracker::Tracker;

/// What the lists say about a packet: the counters of the rules that decide, and how they are
/// found.
type Answer = ([u32; 2], AccessSource);

/// Returns what the lists would say about a packet with this key, its relation to connections, and
/// the record of the connection that has the key. `swapped`: its source is the second end.
pub(crate) fn explain<const W: usize>(
    tracker: &Tracker<W>,
    (key, swapped): (&Key<W>, bool),
    lists: Option<&AccessLists>,
    question: &PacketQuestion,
) -> (AccessTrace, PacketRelation, Option<u32>) {
    let flags = question.packet.tcp_flags.unwrap_or(0);
    let meta = PacketMeta::new(0, 0, flags).sent_by(swapped.into());
    let icmp = question.packet.icmp.map_or(0, u16::from_be_bytes);
    let header = if W > 2 { IPV6 } else { IPV4_MIN };
    let info = HeaderInfo { icmp, ..HeaderInfo::plain(0, header) };
    let view = PacketView { is_fragment: false, ..PacketView::of_fragment(meta, &info, 0) };
    let quotes = question.packet.icmp.is_some_and(|[kind, _]| is_error(key.proto(), kind));
    let record = tracker.table.find(tracker.table.hasher.hash_one(&key.0), key);
    let record = record.filter(|_| !quotes);
    let relation = match record {
        _ if quotes => PacketRelation::Error,
        Some(record) if reopens(tracker, record, meta) => PacketRelation::Reopens,
        Some(_) => PacketRelation::Belongs,
        None => first_relation(tracker, key, &view),
    };
    let fields = |ct, mark| acl::Packet {
        zone: key.zone(),
        ct: question.ct.unwrap_or(states(ct)),
        mark,
        ..question.packet
    };
    let first = fields(ct_without_connection(relation), 0);
    let candidate = Candidate::of(&view);
    let lists = lists.map(|lists| (lists, question.side));
    let (packet, (rules, source)) = match record.filter(|_| relation != PacketRelation::Reopens) {
        Some(record) => {
            let mark = tracker.table.ct_mark(record).mark;
            let known = fields(tracker.ct_state(record, meta), mark);
            let answer = match question.ct {
                Some(_) => compare(lists, &known),
                None => of_known(tracker, record, (candidate, lists), &known),
            };
            (known, answer)
        }
        None => (first, compare(lists, &first)),
    };
    (AccessTrace { packet, rules: rule_numbers(rules), source }, relation, record)
}

/// True if this packet begins another connection in place of the one in `record`, unless its
/// sequence number shows that it is late.
fn reopens<const W: usize>(tracker: &Tracker<W>, record: u32, meta: PacketMeta) -> bool {
    let hot = &tracker.table.hot[record as usize];
    let yields = hot.state() == State::TcpPickedUp && hot.checks_window();
    is_syn(meta.tcp_flags()) && (hot.state().is_closing() || yields)
}

/// Returns the relation of a packet that has no connection.
fn first_relation<const W: usize>(
    tracker: &Tracker<W>,
    key: &Key<W>,
    view: &PacketView,
) -> PacketRelation {
    let is_checked = key.proto() == PROTO_TCP && tracker.checks_window(key.zone());
    match ct_of_first(tracker, key, view) {
        CtState::UNTRACKED => PacketRelation::Untracked,
        CtState::INVALID => PacketRelation::Invalid,
        _ if is_checked && !has_valid_flags(view.meta.tcp_flags()) => PacketRelation::Invalid,
        _ => PacketRelation::Begins,
    }
}

fn ct_without_connection(relation: PacketRelation) -> CtState {
    match relation {
        PacketRelation::Untracked => CtState::UNTRACKED,
        PacketRelation::Invalid => CtState::INVALID,
        PacketRelation::Error => CtState::RELATED,
        PacketRelation::Begins | PacketRelation::Reopens | PacketRelation::Belongs => CtState::NEW,
    }
}

/// Compares a packet with the lists that judge it, if any do.
fn compare(lists: Option<Lists>, packet: &acl::Packet) -> Answer {
    match lists.filter(|(lists, side)| lists.is_bound(*side)) {
        Some((lists, side)) => of_judgement(&lists.judge(side, packet)),
        None => ([NO_RULE; 2], AccessSource::NotAsked),
    }
}

fn of_judgement(judgement: &Judgement) -> Answer {
    (judgement.rules, AccessSource::Search)
}

/// Returns what the lists say about a packet of the connection in `record`, as `judge_known` would.
fn of_known<const W: usize>(
    tracker: &Tracker<W>,
    record: u32,
    (candidate, lists): (Candidate, Option<Lists>),
    packet: &acl::Packet,
) -> Answer {
    let Some((lists, side)) = lists else { return compare(None, packet) };
    let (access, direction) = (tracker.access(record), tracker.direction(record, candidate.meta));
    let judges_answers = lists.mentions_ct || lists.is_bound(side);
    let is_asked = tracker.needs_access_check(record, candidate.meta, judges_answers);
    let is_open = is_asked && (access.is_open || tracker.has_old_access(record));
    let mut packet = *packet;
    let (decisions, rules) = match is_open {
        false => (access.decisions, tracker.rules_of_access(record)),
        true => match rejudge_by(tracker, record, (candidate, (lists, side))) {
            Rejudgement::Reflected(judgement) => return of_judgement(&judgement),
            Rejudgement::Decided { decisions, rules, marks, .. } => {
                // Rules may have written the mark before this packet is compared.
                packet.mark = marks.written_to(tracker.table.ct_mark(record)).mark;
                (decisions, rules)
            }
        },
    };
    let rules = match decisions[direction] {
        DirectionAccess::Undecided | DirectionAccess::Varies if is_asked => {
            return compare(Some((lists, side)), &packet);
        }
        _ => rules[direction],
    };
    let source = match is_open {
        _ if rules == [NO_RULE; 2] => AccessSource::NotAsked,
        true => AccessSource::Search,
        false => AccessSource::Stored,
    };
    (rules, source)
}
