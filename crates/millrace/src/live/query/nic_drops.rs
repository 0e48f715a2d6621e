// SPDX-License-Identifier: BSD-3-Clause
//! Makes ports drop no packets by themselves before access lists change: a rule that drops does so
//! until it is gone.

use crate::live::offload::RulesHandle;
use crate::live::query::client::QueryClient;
use crate::live::query::list_state::PairLists;
use control::Failure;
use offload::DropsLeft;
use results::units;
use std::time::{Duration, Instant};

/// Time between two questions to a port.
const PAUSE: Duration = Duration::from_micros(500);

/// What became of the rules by which NICs dropped packets by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropsStopped {
    /// Port rules that dropped.
    pub(crate) rules: u64,
    /// Time until none was left.
    pub(crate) time: Duration,
}

impl QueryClient {
    /// Makes the ports of pairs whose lists are to change drop no packets by themselves. They do
    /// not drop again before they get other lists.
    ///
    /// # Errors
    /// If a port still drops packets when the longest time of the lists in force is over, or fails
    /// to destroy a rule. Then all ports go on with the lists in force.
    pub(super) fn stop_drops(&self, wanted: &PairLists) -> Result<DropsStopped, Failure> {
        self.check()?;
        let running = self.access();
        let is_changed = |pair: usize| match [&running, wanted].map(|of| of.get(pair)) {
            [Some(Some(old)), Some(Some(new))] => !old.is_same(new),
            _ => false,
        };
        let longest = running.iter().flatten().map(|lists| lists.limits().recall_ms).max();
        let longest = Duration::from_millis(longest.unwrap_or(0).into());
        let ports = self.rules.iter().enumerate().filter(|(port, _)| is_changed(port / 2));
        let ports = ports.map(|(_, rules)| rules).collect();
        self.wait_for_drops(ports, longest).inspect_err(|_| self.program_lists())
    }

    fn wait_for_drops(
        &self,
        mut ports: Vec<&RulesHandle>,
        longest: Duration,
    ) -> Result<DropsStopped, Failure> {
        let began = Instant::now();
        let mut rules = None;
        loop {
            let mut left_now = 0;
            let mut still = Vec::new();
            for port in ports {
                let refusal = |words: String| refusal(port, &words);
                let DropsLeft { left, failure } = port.stop_drops().map_err(refusal)?;
                if let (Some(words), true) = (failure, left > 0) {
                    return Err(refusal(format!("it failed to remove one: {words}")));
                }
                if left > 0 && began.elapsed() > longest {
                    let [count, longest] =
                        [units::thousands(left as u64), units::duration(longest.as_nanos() as u64)];
                    return Err(refusal(format!("{count} are left after {longest}")));
                }
                left_now += left as u64;
                still.extend((left > 0).then_some(port));
            }
            let rules = *rules.get_or_insert(left_now);
            if still.is_empty() {
                return Ok(DropsStopped { rules, time: began.elapsed() });
            }
            ports = still;
            self.check()?;
            std::thread::sleep(PAUSE);
        }
    }
}

fn refusal(port: &RulesHandle, words: &str) -> Failure {
    Failure::Lists(format!(
        "port {} still drops packets by rules of the lists in force, so these stay: {words}",
        port.name()
    ))
}
