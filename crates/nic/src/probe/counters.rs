// SPDX-License-Identifier: BSD-3-Clause
//! Finds whether counters count packets and bytes, and how often the NIC reads them.

use super::actions::action;
use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;
use super::subject::{Refused, RuleId, RuleProbe};

/// Longest wait for a packet to be counted.
const PATIENCE_US: u64 = 3_000_000;
const POLL_US: u64 = 1000;

/// Finds the properties of counters and writes them into the draft.
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
                None => bench.note("whether counters count packets was not tested"),
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
        false => bench.draft.count.no_query = Some(refused.to_facts()),
    }
}

/// Measures the interval at which the NIC reads its counters. It sends a packet, waits until a
/// query counts it, sends another at once, and waits for that one too.
fn refresh(bench: &mut Bench<'_>, rule: RuleId, frame: &[u8]) -> Result<(), Stopped> {
    let Some((first, wait_us)) = seen(bench, rule, frame, 1)? else { return Ok(()) };
    if wait_us < POLL_US {
        return Ok(());
    }
    if let Some((second, _)) = seen(bench, rule, frame, 2)? {
        // Rounded to the interval of the queries, 10 ms.
        bench.draft.count.refresh_ms = ((second - first + 5000) / 10_000 * 10) as u32;
    }
    Ok(())
}

/// Sends a packet and waits until a query returns at least `count` packets. Returns the time of
/// that query, and the time since sending, both in microseconds.
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
