// SPDX-License-Identifier: BSD-3-Clause
//! Says what a change of access lists would do, and changes nothing.

use crate::live::commands::queue::WalkKind;
use crate::live::query::client::{ListedConn, QueryClient, RunEnding, Walk, WalkItem};
use crate::live::query::list_edit::{NewLists, RuleChange, compare_lists, edit_lists};
use crate::live::query::list_state::{ListState, PairLists, each_list};
use crate::live::query::reload::NewPolicy;
use acl::AccessList;
use control::{Failure, ListChange};
use engine::{DecisionChange, Nanos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Examples of each kind of change.
const EXAMPLES: usize = 10;

/// What a change of access lists would do.
pub(crate) struct Preview {
    pub(crate) changes: Vec<RuleChange>,
    /// Numbers of changes of lists now, and after the change.
    pub(crate) epochs: [u32; 2],
    /// The lists whose rules would change, as they would be.
    pub(crate) lists: Vec<Arc<AccessList>>,
    pub(crate) decisions: BTreeMap<DecisionChange, Connections>,
}

/// Connections that the lists would decide about otherwise.
#[derive(Default)]
pub(crate) struct Connections {
    pub(crate) count: u64,
    /// Some of them, each with the time of its view.
    pub(crate) examples: Vec<(ListedConn, Nanos)>,
}

impl QueryClient {
    /// Says what a change of rules would do.
    ///
    /// # Errors
    /// If the change would be refused.
    pub(crate) fn preview_change(&self, change: &ListChange) -> Result<Preview, Failure> {
        let state = self.reloads.take();
        let running = self.access();
        let new = edit_lists(&running, &state, change).map_err(Failure::Lists)?;
        self.preview(&state, &running, new).map_err(|_| Failure::Ending)
    }

    /// Says what a reload would do to access lists.
    ///
    /// # Errors
    /// If the configuration would be refused.
    pub(crate) fn preview_reload<E: From<RunEnding>>(
        &self,
        read: impl FnOnce() -> Result<NewPolicy, E>,
    ) -> Result<Preview, E> {
        let state = self.reloads.take();
        let running = self.access();
        let lists = read()?.access;
        let changes = compare_lists(&running, &lists);
        Ok(self.preview(&state, &running, NewLists { lists, changes })?)
    }

    fn preview(
        &self,
        state: &ListState,
        running: &PairLists,
        NewLists { lists, changes }: NewLists,
    ) -> Result<Preview, RunEnding> {
        let mut decisions: BTreeMap<DecisionChange, Connections> = BTreeMap::new();
        let mut is_change = false;
        for (index, worker) in self.workers.iter().enumerate() {
            let of_wire = [running, &lists].map(|of| of.get(worker.wire).and_then(Option::as_ref));
            let [Some(old), Some(new)] = of_wire else { continue };
            if old.is_same(new) {
                continue;
            }
            is_change = true;
            let mut walk = Walk::of_worker(WalkKind::PreviewAccess(Arc::clone(new)), index);
            while self.run_part(&mut walk, &mut |item| {
                if let WalkItem::Decision(change, connection) = item {
                    let found = decisions.entry(change).or_default();
                    found.count += 1;
                    if found.examples.len() < EXAMPLES {
                        found.examples.push((connection, self.time()));
                    }
                }
            })? {}
        }
        let has_changed = |list: &&Arc<AccessList>| {
            let old = each_list(running).into_iter().find(|old| old.name == list.name);
            old.is_none_or(|old| old.rules != list.rules)
        };
        let epoch = state.epoch();
        Ok(Preview {
            changes,
            epochs: [epoch, epoch.wrapping_add(u32::from(is_change))],
            lists: each_list(&lists).into_iter().filter(has_changed).cloned().collect(),
            decisions,
        })
    }
}
