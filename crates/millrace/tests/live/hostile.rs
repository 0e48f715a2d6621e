// SPDX-License-Identifier: BSD-3-Clause
//! Compares the engine with the kernel packet by packet: TCP sessions with forged segments, sent to
//! end a connection or to inject data. Each difference has a named reason.

use crate::conntrack::{Router, TOOLS, Word, explanation, frames_of, own_words, told};
use crate::sessions::{Segment, session};
use crate::{new_scratch, scaled};
use fastrand::Rng;
use std::collections::BTreeMap;
use testkit::host::has_root_and;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

/// Returns the segments of a session with forged ones among them, and which of them are forged.
fn with_guesses(seed: u64) -> (Vec<Segment>, Vec<bool>) {
    let mut rng = Rng::with_seed(!seed);
    let (mut segments, mut guessed) = (vec![], vec![]);
    for segment in session(seed) {
        let has_begun = segments.len() > 2;
        segments.push(segment);
        guessed.push(false);
        if has_begun && rng.u32(0..12) == 0 {
            let guess = guess(&mut rng, &segments);
            segments.push(guess);
            guessed.push(true);
        }
    }
    (segments, guessed)
}

/// Returns a forged segment. Its numbers are close to those that a side has sent last, or far from
/// them.
fn guess(rng: &mut Rng, segments: &[Segment]) -> Segment {
    let last = segments.iter().rev().find(|segment| segment.flags & RST == 0);
    let last = last.unwrap_or(&segments[0]);
    let near = [0, 1, u32::MAX, 300, 3000, 70_000, 1 << 22, 3 << 29, rng.u32(..)];
    let (seq, ack) = (near[rng.usize(0..near.len())], near[rng.usize(0..near.len())]);
    let flags = [RST, RST | ACK, RST, SYN, SYN | ACK, FIN | ACK, PSH | ACK, ACK];
    let flags = flags[rng.usize(0..flags.len())];
    Segment {
        flags,
        seq: last.seq.wrapping_add(last.data as u32).wrapping_add(seq),
        ack: if flags & ACK != 0 { last.ack.wrapping_sub(ack / 2) } else { 0 },
        data: if flags & PSH != 0 { 8 } else { 0 },
        scale: None,
        ..last.clone()
    }
}

/// Relation of a segment to the segments before it.
struct Place {
    /// Its numbers are before those that its side has sent, or that the peer has acknowledged.
    is_old: bool,
    /// It starts behind what the peer has acknowledged, or acknowledges data that the peer has not
    /// sent.
    is_ahead: bool,
    /// An earlier segment of either side has a FIN or RST.
    is_ending: bool,
    is_reset: bool,
    /// A number is half of the sequence space away.
    is_across: bool,
    /// Since the last SYN, the peer has sent three ACKs without a SYN.
    is_acked: bool,
    /// The last SYN is forged, has the peer's address, and was not answered.
    is_asked_anew: bool,
    /// Since the last SYN, only the sender has sent segments.
    is_alone: bool,
}

impl Place {
    /// Computes the relation. Numbers of forged segments do not count as sent; `guessed` marks
    /// these segments.
    fn of(last: &Segment, before: &[Segment], guessed: &[bool]) -> Self {
        let most = |numbers: &mut dyn Iterator<Item = u32>| {
            numbers.reduce(|a, b| if (b.wrapping_sub(a) as i32) > 0 { b } else { a })
        };
        let own: Vec<_> = before.iter().zip(guessed).filter(|(_, guessed)| !**guessed).collect();
        let of = |from: usize| own.iter().map(|(s, _)| *s).filter(move |s| s.from == from);
        let end = |segment: &Segment| {
            let marks = segment.flags & (SYN | FIN);
            segment.seq.wrapping_add(segment.data as u32 + marks.count_ones())
        };
        let sent = most(&mut of(last.from).map(end)).unwrap_or(last.seq);
        let sent_by_peer = most(&mut of(1 - last.from).map(end)).unwrap_or(last.ack);
        let acks = of(1 - last.from).filter(|segment| segment.flags & ACK != 0);
        let acked = most(&mut acks.map(|segment| segment.ack)).unwrap_or(sent);
        let is_ack = last.flags & ACK != 0;
        let from_to = |from: u32, to: u32| to.wrapping_sub(from) as i32;
        let ack_age = from_to(last.ack, sent_by_peer);
        let is_far = |distance: i32| distance.unsigned_abs() > (1 << 31) - (1 << 24);
        let asks = |segment: &Segment| segment.flags & (SYN | ACK) == SYN;
        let since = own.iter().rposition(|(segment, _)| asks(segment)).unwrap_or(0);
        let answers = own[since..].iter().filter(|(segment, _)| segment.from != last.from);
        let last_syn = before.iter().zip(guessed).rev().find(|(s, _)| s.flags & SYN != 0);
        let last_asked = before.iter().rposition(asks).unwrap_or(0);
        Self {
            is_old: from_to(last.seq, sent) > 0 || is_ack && ack_age > 0,
            is_ahead: from_to(acked, last.seq) > 0 || is_ack && ack_age < 0,
            is_across: is_far(from_to(last.seq, sent)) || is_ack && is_far(ack_age),
            is_acked: answers.filter(|(s, _)| s.flags & (SYN | ACK) == ACK).count() > 2,
            is_reset: before.iter().any(|segment| segment.flags & RST != 0),
            is_ending: before.iter().any(|segment| segment.flags & (FIN | RST) != 0),
            is_asked_anew: last_syn.is_some_and(|(syn, guessed)| {
                *guessed && syn.flags & ACK == 0 && syn.from != last.from
            }),
            is_alone: before[last_asked..].iter().all(|segment| segment.from == last.from),
        }
    }
}

/// Returns the known reason why the kernel's state of the last segment, which is forged, differs.
fn reason(
    segments: &[Segment],
    guessed: &[bool],
    [own, kernel]: [Word; 2],
) -> Option<&'static str> {
    let (last, before) = segments.split_last()?;
    let place = Place::of(last, before, guessed);
    let Place { is_old, is_ahead, is_across, is_ending, is_reset, is_acked, .. } = place;
    let is_refused = kernel == Word::Invalid && own != Word::Invalid;
    let is_taken = own == Word::Invalid && kernel != Word::Invalid;
    if is_taken && before.first()?.flags & SYN == 0 {
        // nf_conntrack_proto_tcp.c, tcp_new(): IP_CT_TCP_FLAG_BE_LIBERAL for both.
        return Some("a connection whose begin was not seen is not judged there");
    }
    match last.flags & (SYN | FIN | RST | ACK) {
        SYN if is_ending => Some("a SYN after a FIN or RST: other states may be reopened there"),
        SYN if is_refused => Some("a SYN in a connection is invalid there, and ignored here"),
        SYN if own == Word::New => Some("a SYN after a connection whose begin was not seen"),
        flags if flags == SYN | ACK && is_refused => {
            Some("a SYN+ACK in a connection is invalid there, and ignored here")
        }
        flags if flags & RST != 0 && is_taken && is_ending => {
            Some("after a FIN, the numbers of an RST do not count there")
        }
        flags if flags == SYN | ACK && is_taken => {
            Some("a SYN+ACK that acknowledges what was not sent is let pass there")
        }
        flags if flags & RST != 0 && own == Word::New => {
            Some("an RST beside a SYN that has taken the ports of what is over")
        }
        flags if flags & RST != 0 && is_taken && !is_acked => {
            Some("before some ACKs of the peer to a SYN, the numbers of an RST do not count there")
        }
        flags if flags & RST != 0 && is_taken && is_ahead => {
            Some("an RST may be beyond all windows there")
        }
        flags if flags & RST != 0 && is_refused && flags & ACK != 0 => {
            Some("the acknowledgment of an RST is judged there, and not here")
        }
        flags if flags & RST != 0 && is_refused && is_old => {
            Some("an RST at the end of what its side sent, less than acknowledged, is old there")
        }
        // RFC 9293 section 3.5.1: such a segment belongs to the earlier connection, not to the one
        // that the SYN requests.
        _ if is_refused && place.is_asked_anew => {
            Some("what the peer of a SYN says of the connection before is judged there")
        }
        _ if is_refused && is_reset => Some("after an RST, numbers do not count here"),
        _ if is_refused && is_old => {
            Some("how old may be what is late: the largest window seen there, that allowed here")
        }
        _ if is_taken && is_reset && place.is_alone => {
            Some("an RST where one side is known takes the entry away there at once")
        }
        _ if is_taken && is_ahead => Some("a window beyond the window is let pass there"),
        _ if is_across => Some("what is half of all numbers away is old and new"),
        _ => None,
    }
}

/// `make prove-conntrack` runs it with more sessions.
#[test]
fn the_kernel_says_the_same_of_guesses_or_it_is_known_why() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(router) = Router::new() else { return };
    let (count, seed) = (scaled("MILLRACE_SESSIONS", 1000) as usize, scaled("MILLRACE_SEED", 1));
    let scratch = new_scratch("hostile");
    let begins = |(segments, _): &(Vec<Segment>, _)| {
        segments.first().is_some_and(|segment| segment.flags & FIN == 0)
    };
    let sessions = (0..).map(|i| with_guesses(seed << 32 | i)).filter(begins).take(count);
    let (sessions, guessed): (Vec<_>, Vec<_>) = sessions.unzip();
    let frames = frames_of(&sessions);
    let kernel = router.words(&scratch, &frames);
    assert_eq!(kernel.len(), frames.len());

    let (mut at, mut same) = (0, 0);
    let mut reasons = BTreeMap::<_, u32>::new();
    for (segments, guessed) in sessions.iter().zip(&guessed) {
        let here = at..at + segments.len();
        let (own, kernel) = (own_words(&frames[here.clone()]), &kernel[here.clone()]);
        let is_same = |i: &usize| own[*i] == kernel[*i];
        let first = (0..segments.len()).find(|i| !is_same(i));
        same += first.unwrap_or(segments.len());
        if let Some(first) = first {
            let so_far = &segments[..=first];
            let reason = match guessed[first] {
                _ if kernel[first] == Word::Lost => Some("it has not come out there"),
                true => reason(so_far, guessed, [own[first], kernel[first]]),
                false if guessed[..first].contains(&true) => Some("what follows from a guess"),
                false => explanation(so_far),
            };
            let reason = reason.unwrap_or_else(|| panic!("{}", told(so_far, &own, kernel)));
            *reasons.entry(reason).or_default() += 1;
        }
        at = here.end;
    }
    // Later differences may follow from the first one.
    println!("{same} of {} packets of {count} sessions came before a difference", frames.len());
    for (reason, sessions) in reasons {
        println!("{sessions} sessions: {reason}");
    }
}
