// SPDX-License-Identifier: BSD-3-Clause
//! Finds what counters count, and how old their values are.

use super::actions::action;
use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;
use super::subject::{Refused, RuleId, RuleProbe};

/// Longest wait for a packet to be counted.
const PATIENCE_US: u64 = 3_000_000;
const POLL_US: u64 = 1000;

/// Finds what counters count and writes it into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    lists: &[Vec<&'static str>],
) -> Result<(), Stopped> {
    bench.stage("counters")?;
    let pattern = base.pattern();
    let counting = lists.iter().find(|list| list.contains(&"count"));
    let actions = match counting {
        Some(list) => list.iter().map(|name| action(name)).collect(),
        None => bench.usual_actions.clone(),
    };
    let question = RuleProbe { actions, ..bench.about(&pattern) };
    let frame = pattern.frame.filter(|_| bench.subject.has_wire());
    let refused = bench.with(&question, |bench, rule| match bench.subject.query(rule) {
        Err(refused) => Ok(Some(refused)),
        Ok(tally) => {
            match frame {
                Some(frame) => refresh(bench, rule, &frame)?,
                None => bench.note("what counters count was not seen"),
            }
            bench.draft.count.hits_only = tally.bytes.is_none();
            Ok(None)
        }
    })?;
    if let Ok(Some(refused)) = refused {
        no_query(bench, &refused);
    }
    Ok(())
}

fn no_query(bench: &mut Bench<'_>, refused: &Refused) {
    match refused.is_no_call() {
        true => bench.draft.operations.no_query = true,
        false => bench.draft.count.no_query = Some(refused.told()),
    }
}

/// Measures the time between two readings of the counters. It sends a packet directly after a query
/// first saw another, and waits until a query sees the new one.
fn refresh(bench: &mut Bench<'_>, rule: RuleId, frame: &[u8]) -> Result<(), Stopped> {
    let Some((first, wait_us)) = seen(bench, rule, frame, 1)? else { return Ok(()) };
    if wait_us < POLL_US {
        return Ok(());
    }
    if let Some((second, _)) = seen(bench, rule, frame, 2)? {
        // The interval is not more exact than 10 ms.
        bench.draft.count.refresh_ms = ((second - first + 5000) / 10_000 * 10) as u32;
    }
    Ok(())
}

/// Sends a packet; returns when a query first saw `count` packets, and how long after sending that
/// was, in microseconds.
fn seen(
    bench: &mut Bench<'_>,
    rule: RuleId,
    frame: &[u8],
    count: u64,
) -> Result<Option<(u64, u64)>, Stopped> {
    bench.deliver(frame);
    let from = bench.subject.now_us();
    loop {
        let hits = bench.subject.query(rule).ok().and_then(|tally| tally.hits);
        let now = bench.subject.now_us();
        if hits.is_some_and(|hits| hits >= count) {
            return Ok(Some((now, now - from)));
        }
        if now - from > PATIENCE_US {
            bench.note("counters do not count packets that hit their rules");
            return Ok(None);
        }
        bench.go_on()?;
        bench.wait(POLL_US);
    }
}
