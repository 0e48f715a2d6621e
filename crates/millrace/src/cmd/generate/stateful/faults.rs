// SPDX-License-Identifier: BSD-3-Clause
//! Says why a run of stateful traffic was not good.

use crate::connections::{EndTotals, Finished};
use results::units;
use stateful::Counter;

/// Returns why connections failed, or why none was established; `None` if there is no such fault.
pub(super) fn fault(finished: &Finished) -> Option<String> {
    let ends = [&finished.totals.client, &finished.totals.server].map(Option::as_ref);
    let failed = ends.map(|end| end.map_or(0, |end| end.counters.failures()));
    if is_unanswered(finished) {
        return Some(format!("no connection was established: {}", why_unanswered(ends[0])));
    }
    if failed == [0, 0] {
        return None;
    }
    let [of_clients, of_servers] = failed.map(units::thousands);
    let mut text = format!("{of_clients} connections failed at clients, {of_servers} at servers");
    if ends.iter().flatten().any(|end| end.counters[Counter::WrongData] > 0) {
        text += "; wrong data is other bytes than the program of the other end sends";
    }
    Some(text)
}

/// True if clients have opened connections, and none was answered. Sessions of captures may be
/// complete without an answer.
pub(super) fn is_unanswered(finished: &Finished) -> bool {
    finished.totals.client.as_ref().is_some_and(|client| {
        let has = |counter| client.counters[counter] > 0;
        has(Counter::Attempted) && !has(Counter::Established) && !has(Counter::Completed)
    })
}

fn why_unanswered(client: Option<&EndTotals>) -> String {
    let refused =
        client.map_or(0, |it| it.counters[Counter::Refused] + it.counters[Counter::Reset]);
    match refused {
        0 => {
            "does the device forward from port A to port B and back? The addresses of the profile \
              and --gateway must suit it"
                .to_owned()
        }
        refused => format!(
            "{} were refused: does a server listen at the addresses and ports of the profile?",
            units::thousands(refused)
        ),
    }
}
