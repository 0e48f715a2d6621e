// SPDX-License-Identifier: BSD-3-Clause
//! What a port that stops does to rules.

use super::bench::{Bench, Stopped};
use super::chains::Taken;
use super::witness::Witness;
use twin::personality::OnStop;

/// Stops and starts the port; finds what that does, and puts it into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    base: &Taken,
    witness: Option<&Witness>,
) -> Result<(), Stopped> {
    bench.stage("stop and start")?;
    let pattern = base.pattern();
    let question = match witness {
        Some(witness) => witness.question(bench, &pattern),
        None => bench.about(&pattern),
    };
    if !bench.subject.set_started(false) {
        bench.note("the port does not stop");
        return Ok(());
    }
    let stopped = bench.with(&question, |_, _| Ok(()));
    start(bench)?;
    bench.draft.port.stopped = stopped?.err().map(|refused| refused.told());
    let Ok(rule) = bench.create(&question) else { return Ok(()) };
    bench.subject.set_started(false);
    start(bench)?;
    let hit = match (witness, &pattern.frame) {
        (Some(witness), Some(frame)) => {
            let delivery = bench.deliver(frame);
            Some(witness.is_hit(delivery))
        }
        _ => None,
    };
    if hit == Some(true) {
        bench.draft.port.on_stop = OnStop::Keep;
        return bench.destroy(rule);
    }
    // However it went: it went by the port's stop, or goes here.
    bench.calls.destroyed += 1;
    bench.draft.port.on_stop = match hit {
        _ if bench.subject.knows_dead_rules() => match bench.subject.destroy(rule) {
            Err(_) => OnStop::Flush,
            Ok(()) if hit.is_some() => OnStop::Stale,
            Ok(()) => OnStop::Keep,
        },
        _ => {
            // Its name may mean nothing any more.
            if !bench.strangers.are_there() {
                let _ = bench.subject.flush();
            }
            bench.note("rules are not in effect after a stop; they were not named again");
            OnStop::Flush
        }
    };
    Ok(())
}

fn start(bench: &mut Bench<'_>) -> Result<(), Stopped> {
    if bench.subject.set_started(true) { Ok(()) } else { Err(Stopped::DoesNotStart) }
}
