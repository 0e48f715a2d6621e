// SPDX-License-Identifier: BSD-3-Clause
//! Sends packets to find which ones hit a rule, whether marks arrive, and how long after a call
//! rules come into effect or lose it.

use super::actions::question;
use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;
use super::frame::Frame;
use super::witness::EffectObserver;
use twin::{Action, Proto};

/// Longest wait for a rule to come into effect, or to lose its effect.
const LATE_MAX_US: u64 = 2_000_000;

/// Notes the chains that end with IP and whose rules packets with TCP, UDP or SCTP do not hit.
pub(super) fn classes(
    bench: &mut Bench<'_>,
    taken: &mut [AcceptedChain],
    witness: &EffectObserver,
) -> Result<(), Stopped> {
    bench.stage("kinds of packets")?;
    let is_plain = |chain: &&mut AcceptedChain| {
        let is_ip = matches!(chain.headers.last(), Some(Proto::Ipv4 | Proto::Ipv6));
        is_ip && !chain.headers.iter().any(|proto| proto.header_len() == 8 || *proto == Proto::Gre)
    };
    for chain in taken.iter_mut().filter(is_plain) {
        let pattern = chain.pattern();
        let mut misses = 0;
        for transport in [Proto::Tcp, Proto::Udp, Proto::Sctp] {
            let Some(frame) = Frame::of(&[&chain.headers[..], &[transport]].concat()) else {
                continue;
            };
            let hit = witness.hits_with(bench, &pattern, &frame.bytes)?;
            if hit == Some(true) {
                break;
            }
            misses += 1;
        }
        let others = misses == 3 && witness.hits(bench, &pattern)? == Some(true);
        chain.other_transports_only = others;
    }
    Ok(())
}

/// Measures how long after `create` a rule is in effect, and how long after `destroy` it still is.
pub(super) fn delays(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    witness: &EffectObserver,
) -> Result<(), Stopped> {
    bench.stage("delays")?;
    let pattern = base.pattern();
    let Some(frame) = pattern.frame.clone() else { return Ok(()) };
    let Some(witness) = witness.of(bench, &frame) else { return Ok(()) };
    let question = witness.question(bench, &pattern);
    let after = bench.with(&question, |bench, _| Ok(bench.until(&frame, &witness, true)))?;
    match after {
        Ok(Some(late)) => bench.draft.latency.effective_after_us = late,
        Ok(None) => bench.note("packets did not hit a rule that was taken"),
        Err(_) => return Ok(()),
    }
    match bench.until(&frame, &witness, false) {
        Some(late) => bench.draft.latency.effective_until_us = late,
        None => bench.finding("packets hit a rule 2 s after it was destroyed"),
    }
    Ok(())
}

impl Bench<'_> {
    /// Returns the microseconds until packets hit a rule (`wanted`), or no longer hit it. `None` if
    /// that does not happen within [`LATE_MAX_US`].
    fn until(&mut self, frame: &[u8], witness: &EffectObserver, wanted: bool) -> Option<u32> {
        let from = self.subject.now_us();
        let mut polled = from;
        let mut is_missed = false;
        while polled - from < LATE_MAX_US {
            let delivery = self.subject.deliver(frame);
            is_missed |= delivery.is_none() && !witness.is_drop();
            if witness.is_hit(delivery) == wanted && !(delivery.is_none() && is_missed) {
                if is_missed {
                    self.finding("packets are missed for a while after a rule changed");
                }
                return u32::try_from(polled - from).ok();
            }
            polled = self.subject.now_us();
        }
        None
    }
}

/// Finds whether flags arrive, as flags without a mark.
pub(super) fn flags(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    lists: &[Vec<&'static str>],
) -> Result<(), Stopped> {
    bench.stage("flags")?;
    let pattern = base.pattern();
    let (Some(list), Some(frame)) =
        (lists.iter().find(|list| list.contains(&"flag")), pattern.frame.as_ref())
    else {
        return Ok(());
    };
    let question = question(bench, &pattern, list);
    let arrived = bench.with(&question, |bench, _| Ok(bench.deliver(frame)))?;
    if let Ok(Some(delivery)) = arrived {
        bench.draft.mark.flag_never_delivered = !delivery.flag;
        if let Some(mark) = delivery.mark {
            bench.note(format!("a flag arrives with mark {mark}, which the file cannot express"));
        }
    }
    Ok(())
}

/// Finds whether marks arrive unchanged.
pub(super) fn marks(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    witness: &EffectObserver,
    can_mark: bool,
) -> Result<(), Stopped> {
    bench.stage("marks")?;
    if !witness.is_mark() {
        bench.draft.mark.never_delivered = can_mark;
        return Ok(());
    }
    let pattern = base.pattern();
    let Some(frame) = pattern.frame.clone() else { return Ok(()) };
    let most = bench.draft.mark.max.unwrap_or(u32::MAX);
    let mut others = Vec::new();
    for value in [0, 1 << 14, 1 << 15, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 31, most] {
        if value > most {
            continue;
        }
        let mut question = witness.question(bench, &pattern);
        for action in &mut question.actions {
            if let Action::Mark(mark) = action {
                *mark = value;
            }
        }
        let mark = bench.with(&question, |bench, _| {
            Ok(bench.deliver(&frame).and_then(|delivery| delivery.mark))
        })?;
        match mark {
            Ok(None) if bench.draft.mark.means_none.is_none() => {
                bench.draft.mark.means_none = Some(value);
            }
            Ok(mark) if mark != Some(value) => {
                let mark = mark.map_or("none".to_owned(), |mark| mark.to_string());
                others.push(format!("{value} as {mark}"));
            }
            _ => {}
        }
    }
    if !others.is_empty() {
        bench.finding(format!("marks arrive changed: {}", others.join(", ")));
    }
    Ok(())
}
