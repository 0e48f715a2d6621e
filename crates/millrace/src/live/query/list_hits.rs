// SPDX-License-Identifier: BSD-3-Clause
//! Tells ports that have no room for all rules of their access list which rules decide about most
//! packets.

use crate::live::offload::{ListRequest, RulesHandle};
use crate::live::query::client::{QueryClient, RunEnding};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time from one count of packets to the next. A count visits every connection.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts the packets of rules now and then, in a thread of its own: the control thread must not
/// wait for workers.
pub(crate) struct ListHitsTimer {
    queries: Arc<QueryClient>,
    next: Instant,
    running: Option<JoinHandle<()>>,
}

impl ListHitsTimer {
    pub(crate) fn new(queries: Arc<QueryClient>) -> Self {
        Self { queries, next: Instant::now() + PERIOD, running: None }
    }

    /// Starts a count if it is time, and the last one has ended.
    pub(crate) fn start_due(&mut self) {
        let is_running = self.running.as_ref().is_some_and(|thread| !thread.is_finished());
        if Instant::now() < self.next || is_running {
            return;
        }
        self.next = Instant::now() + PERIOD;
        if self.queries.access().iter().all(Option::is_none) {
            return;
        }
        let queries = Arc::clone(&self.queries);
        let thread = std::thread::Builder::new().name("list hits".to_owned());
        // Without the thread, the rules stay as they are. A run that ends needs no hits.
        self.running = thread.spawn(move || _ = tell_hits(&queries)).ok();
    }
}

fn tell_hits(queries: &QueryClient) -> Result<(), RunEnding> {
    let is_short = |(_, rules): &(usize, &_)| {
        let rules: &RulesHandle = rules;
        rules.list_report().is_ok_and(|report| report.is_short_of_room)
    };
    let short: Vec<_> = queries.rules.iter().enumerate().filter(is_short).collect();
    if short.is_empty() {
        return Ok(());
    }
    let hits = queries.rule_hits()?.pairs;
    for (port, rules) in short {
        if let Some(hits) = hits.get(port / 2) {
            let packets = hits.rules.iter().map(|hits| hits.packets).collect();
            rules.ask_about_lists(ListRequest::Hits(packets));
        }
    }
    Ok(())
}
