// SPDX-License-Identifier: BSD-3-Clause
//! Finds the effect of a stop of the port on its rules.

use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;
use super::witness::EffectObserver;
use twin::personality::OnStop;

const UNSEEN: &str = "the effect of a stop on rules could not be observed";

/// Stops and starts the port, and writes the effect on rules into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    bench.stage("stop and start")?;
    let pattern = base.pattern();
    let of_frame =
        witness.zip(pattern.frame.as_ref()).and_then(|(witness, frame)| witness.of(bench, frame));
    let witness = of_frame.as_ref();
    let question = match witness {
        Some(witness) => witness.question(bench, &pattern),
        None => bench.about(&pattern),
    };
    if !bench.subject.set_started(false) {
        bench.note("the port does not stop");
        return Ok(());
    }
    let stopped = bench.with(&question, |_, _| Ok(()));
    bench.start()?;
    bench.draft.port.stopped = stopped?.err().map(|refused| refused.to_facts());
    let sees = witness.zip(pattern.frame.as_deref());
    let knows_dead_rules = bench.subject.knows_dead_rules();
    if !knows_dead_rules && (sees.is_none() || bench.seen.has_others()) {
        // The rule would have to be flushed: without a result, or together with rules of others.
        bench.note(UNSEEN);
        return Ok(());
    }
    let Ok(rule) = bench.create(&question) else { return Ok(()) };
    bench.subject.set_started(false);
    bench.start()?;
    let sees = sees.filter(|_| bench.has_link());
    let hit = sees.map(|(witness, frame)| witness.is_hit(bench.deliver(frame)));
    if hit == Some(true) {
        return bench.destroy(rule);
    }
    // The stop has ended the rule, or the call below does.
    bench.calls.destroyed += 1;
    let on_stop = if knows_dead_rules {
        match (bench.subject.destroy(rule), hit) {
            (Err(_), _) => Some(OnStop::Flush),
            (Ok(()), Some(_)) => Some(OnStop::Stale),
            (Ok(()), None) => None,
        }
    } else {
        let _ = bench.subject.flush();
        bench.note("after the stop, a rule was flushed, because its handle may be invalid");
        hit.map(|_| OnStop::Flush)
    };
    match on_stop {
        Some(on_stop) => bench.draft.port.on_stop = on_stop,
        None => bench.note(UNSEEN),
    }
    Ok(())
}
