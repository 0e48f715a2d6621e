// SPDX-License-Identifier: BSD-3-Clause
//! Replaces zone configuration and access lists of the workers of a running instance.

use crate::live::commands::queue::{Command, Reply, WalkKind};
use crate::live::offload::ListRequest;
use crate::live::query::client::{QueryClient, RunEnding, Walk};
use crate::live::query::list_edit::{NewLists, RuleChange, edit_lists};
use crate::live::query::list_state::{ListState, PairLists};
use crate::live::query::nic_drops::DropsStopped;
use crate::live::query::recall::Recalled;
use config::plan::{ListContext, ZoneRules};
use control::{Failure, ListChange};
use engine::AccessUpdate;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// What a reload replaces.
pub(crate) struct NewPolicy {
    pub(crate) zones: ZoneRules,
    /// Access lists of each pair.
    pub(crate) access: PairLists,
    pub(crate) list_context: ListContext,
}

/// What a reload has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Connections that have an earlier timeout now.
    pub(crate) retimed: u64,
    /// `None` if no access list has changed.
    pub(crate) lists: Option<ChangeEffect>,
}

/// What a change of access lists has done to packets and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeEffect {
    /// What the NICs dropped by themselves before.
    pub(crate) drops: DropsStopped,
    /// What was called back from the NICs before.
    pub(crate) recalled: Recalled,
    /// At most this long, some workers followed the old lists and others the new ones.
    pub(crate) both_lists: Duration,
    /// Connections about which the new lists decide from now on, and the time until they did about
    /// all of them.
    pub(crate) visited: u64,
    pub(crate) visit_time: Duration,
}

/// A change of access lists that is complete.
pub(crate) struct ListsChanged {
    pub(crate) changes: Vec<RuleChange>,
    /// Numbers of changes of lists before and after.
    pub(crate) epochs: [u32; 2],
    /// `None` if the lists are the same as before.
    pub(crate) effect: Option<ChangeEffect>,
}

impl QueryClient {
    /// Replaces zone configuration and access lists of all workers, one after the other, then
    /// reviews the existing connections.
    ///
    /// Concurrent calls run in turn, and each reads its configuration when its turn comes. So the
    /// file that was written last takes effect.
    ///
    /// # Errors
    /// If the configuration cannot be read, or a NIC still drops packets by the old lists. Then
    /// nothing has changed.
    pub(crate) fn reload<E: From<Failure>>(
        &self,
        read: impl FnOnce() -> Result<NewPolicy, E>,
    ) -> Result<Reloaded, E> {
        let mut state = self.reloads.take();
        Ok(self.apply(&mut state, read()?)?)
    }

    /// Changes rules of the access lists in force, until the next reload. Takes its turn with
    /// reloads.
    ///
    /// # Errors
    /// If the change is refused. Then nothing has changed.
    pub(crate) fn change_lists(&self, change: &ListChange) -> Result<ListsChanged, Failure> {
        let mut state = self.reloads.take();
        let before = state.epoch();
        let NewLists { lists, changes } =
            edit_lists(&self.access(), &state, change).map_err(Failure::Lists)?;
        let drops = self.stop_drops(&lists)?;
        let effect = self.apply_access(&mut state, lists, drops).map_err(|_| Failure::Ending)?;
        Ok(ListsChanged { changes, epochs: [before, state.epoch()], effect })
    }

    fn apply(
        &self,
        state: &mut ListState,
        NewPolicy { zones: rules, access, list_context }: NewPolicy,
    ) -> Result<Reloaded, Failure> {
        let drops = self.stop_drops(&access)?;
        for worker in &self.workers {
            self.check()?;
            // The old configuration is freed here, not by a worker.
            match worker.request(|replies| Command::Zones(rules.zones(), replies))? {
                Reply::Zones(old) => drop(old),
                _ => return Err(Failure::Ending),
            }
        }
        *self.zones.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        let mut walk = Walk::new(WalkKind::Review);
        while self.run_part(&mut walk, &mut |_| ())? {}
        let lists = self.apply_access(state, access, drops)?;
        state.context = list_context;
        Ok(Reloaded { retimed: walk.matched, lists })
    }

    /// Lets the NICs have the rules of the lists in force. Marks of earlier lists name nothing any
    /// more.
    pub(super) fn program_lists(&self) {
        for (port, rules) in self.rules.iter().enumerate() {
            if let Some(Some(lists)) = self.access().get(port / 2) {
                rules.ask_about_lists(ListRequest::Replace(Arc::clone(lists)));
            }
        }
    }

    /// Replaces the access lists of pairs whose lists have changed. Returns what that has done;
    /// `None` if no list has changed.
    fn apply_access(
        &self,
        state: &mut ListState,
        mut wanted: PairLists,
        drops: DropsStopped,
    ) -> Result<Option<ChangeEffect>, RunEnding> {
        let running = self.access();
        for (old, new) in running.iter().zip(&mut wanted) {
            if let (Some(old), Some(new)) = (old, new) {
                if old.is_same(new) {
                    // Marks of the NIC's rules go on to name these.
                    *new = Arc::clone(old);
                } else {
                    let new = Arc::get_mut(new).expect("new lists have one owner");
                    new.set_epoch_after(old);
                }
            }
        }
        let mut updates = Vec::new();
        for worker in &self.workers {
            let lists = [&running, &wanted].map(|of| of.get(worker.wire).and_then(Option::as_ref));
            let [Some(old), Some(new)] = lists else { continue };
            if !old.is_same(new) {
                updates.push((worker, AccessUpdate::new(old, Arc::clone(new))));
            }
        }
        if updates.is_empty() {
            return Ok(None);
        }
        self.check()?;
        let longest = wanted.iter().flatten().map(|lists| lists.limits().recall_ms).max();
        let longest = Duration::from_millis(longest.unwrap_or(0).into());
        let recalled = self.recall(updates.iter().map(|(worker, _)| *worker), longest)?;
        let is_one = updates.len() == 1;
        let started = Instant::now();
        // All updates are there before the first is sent, so that workers change at nearly the same
        // time. The old lists are freed here, not by a worker.
        let mut replies = Vec::with_capacity(updates.len());
        for (worker, update) in updates {
            replies.push((worker, worker.send_for_reply(|ring| Command::Access(update, ring))?));
        }
        let mut old = Vec::with_capacity(replies.len());
        for (worker, ring) in replies {
            match worker.only_reply(ring)? {
                Reply::Access(update) => old.push(update),
                _ => return Err(RunEnding),
            }
        }
        let both_lists = if is_one { Duration::ZERO } else { started.elapsed() };
        drop(old);
        state.note_change(&running, &wanted);
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
        self.program_lists();
        let mut walk = Walk::new(WalkKind::OpenAccess);
        while self.run_part(&mut walk, &mut |_| ())? {}
        let (visited, visit_time) = (walk.matched, started.elapsed());
        Ok(Some(ChangeEffect { drops, recalled, both_lists, visited, visit_time }))
    }
}
