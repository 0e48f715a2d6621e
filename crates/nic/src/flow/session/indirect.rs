// SPDX-License-Identifier: BSD-3-Clause
//! Executes `flow indirect_action`: creates, changes, destroys and queries actions that rules
//! share.

use super::{Answer, Place, Shared, done_or_refused, lines_of_age, lines_of_count, with_failed};
use crate::flow::by_id::by_id;
use crate::flow::grammar::Indirect;
use dpdk::flow::{Action, Attributes, FlowError, Rule};
use serde_json::json;

impl Place {
    pub(super) fn indirect(&mut self, what: &Indirect, shared: &Shared<'_>) -> Answer {
        match what {
            Indirect::Create { id, attributes, action } => {
                self.create_indirect(*id, *attributes, action, shared)
            }
            Indirect::Update { id, action } => self.update_indirect(*id, action, shared),
            Indirect::Destroy { ids } => self.destroy_indirect(ids),
            Indirect::Query { id } => self.query_indirect(*id),
        }
    }

    fn create_indirect(
        &mut self,
        id: Option<u32>,
        attributes: Attributes,
        action: &Action,
        shared: &Shared<'_>,
    ) -> Answer {
        let highest = self.indirect.last_key_value().map(|(highest, _)| highest);
        let id = id.unwrap_or(highest.map_or(0, |highest| highest.saturating_add(1)));
        if self.indirect.contains_key(&id) {
            let message = format!("Indirect action #{id} is already assigned, delete it first");
            return Answer::not_done(message).with("action", id);
        }
        let prepared = match self.prepared_action(action, shared) {
            Ok(prepared) => prepared,
            Err(answer) => return answer,
        };
        match self.port.flow_indirect_create(attributes, &prepared) {
            Ok(handle) => {
                self.indirect.insert(id, (handle, action.clone()));
                let line = format!("Indirect action #{id} created");
                Answer::done(vec![line], json!({ "action": id }))
            }
            Err(error) => refused(action, &error).with("action", id),
        }
    }

    /// Returns the action with the data that it refers to.
    fn prepared_action(&self, action: &Action, shared: &Shared<'_>) -> Result<Action, Answer> {
        let rule = Rule { actions: vec![action.clone()], ..Rule::default() };
        let applied = shared.settings.applied(&rule, &self.indirect).map_err(Answer::not_done)?;
        Ok(by_id(&applied, shared.ids).actions.remove(0))
    }

    fn update_indirect(&mut self, id: u32, action: &Action, shared: &Shared<'_>) -> Answer {
        let Some((handle, _)) = self.indirect.get(&id) else { return not_found(id) };
        let updated = self.prepared_action(action, shared).map(|prepared| {
            done_or_refused(self.port.flow_indirect_update(*handle, &prepared), |()| {
                let line = format!("Indirect action #{id} updated");
                (vec![line], json!({ "action": id }))
            })
        });
        updated.unwrap_or_else(|answer| answer)
    }

    fn destroy_indirect(&mut self, ids: &[u32]) -> Answer {
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for id in ids {
            let Some((handle, action)) = self.indirect.get(id) else {
                failed.push(not_found(*id));
                continue;
            };
            match self.port.flow_indirect_destroy(*handle) {
                Ok(()) => {
                    self.indirect.remove(id);
                    lines.push(format!("Indirect action #{id} destroyed"));
                }
                Err(error) => failed.push(refused(action, &error).with("action", *id)),
            }
        }
        with_failed(Answer::done(lines, json!({})), failed)
    }

    fn query_indirect(&self, id: u32) -> Answer {
        let Some((handle, action)) = self.indirect.get(&id) else { return not_found(id) };
        let answer = match action {
            Action::Count(_) => {
                self.port.flow_indirect_count(*handle).map(|count| lines_of_count(&count))
            }
            Action::Age(_) => self.port.flow_indirect_age(*handle).map(|age| lines_of_age(&age)),
            action => {
                let name = action.name();
                return Answer::not_done(format!(
                    "Indirect action #{id} (`{name}`) has nothing to query: only count and age \
                     have"
                ));
            }
        };
        match answer {
            Ok((lines, json)) => Answer::done(lines, json).with("action", id),
            Err(error) => refused(action, &error).with("action", id),
        }
    }
}

fn refused(action: &Action, error: &FlowError) -> Answer {
    let rule = Rule { actions: vec![action.clone()], ..Rule::default() };
    Answer::refused(Some(&rule), error)
}

fn not_found(id: u32) -> Answer {
    let message = format!("Failed to find indirect action #{id} on this port");
    Answer::not_done(message).with("action", id)
}
