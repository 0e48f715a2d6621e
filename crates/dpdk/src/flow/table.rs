// SPDX-License-Identifier: BSD-3-Clause
//! Manages rules by templates: tables of similar rules, created and destroyed through a flow queue
//! whose results come later.
//!
//! A port has one flow queue, and one table for each shape of rules. Callers refer to rules by
//! numbers of their own, so a rule that does not exist, or not yet, cannot reach the driver.
//! Results are not verified. A result without a pending operation is ignored.

use super::lower::RteRule;
use super::{Action, ErrorKind, FlowError, ItemKind, OtherActionKind, Rule, call};
use crate::{Port, sys};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::ptr::{NonNull, null_mut};

/// Resources of a port for rules by templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// Maximum number of flow queues.
    pub queues: u32,
    /// Operations that each of them holds.
    pub operations: u32,
}

/// A call that creates a table or its templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableStep {
    /// Creates the common part of the patterns of all rules.
    PatternTemplate,
    /// Creates the common part of their actions.
    ActionsTemplate,
    /// Creates the table from both.
    Table,
}

impl fmt::Display for TableStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PatternTemplate => "pattern template",
            Self::ActionsTemplate => "actions template",
            Self::Table => "template table",
        })
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The rule's number.
    pub number: u64,
    /// True if the operation has succeeded.
    pub is_good: bool,
}

/// The tables of a port, and their rules.
#[derive(Debug, Default)]
pub(crate) struct RuleTables {
    tables: Vec<RuleTable>,
    /// The rules, by their numbers.
    rules: HashMap<u64, TableRule>,
}

/// A table and its templates.
#[derive(Debug)]
struct RuleTable {
    table: NonNull<sys::rte_flow_template_table>,
    pattern: NonNull<sys::rte_flow_pattern_template>,
    actions: NonNull<sys::rte_flow_actions_template>,
    /// Shape of all rules of this table. No other table of the port has it.
    shape: Shape,
}

// SAFETY: addresses that are given back to the driver only by the port's one user.
unsafe impl Send for RuleTable {}

#[derive(Debug)]
struct TableRule {
    flow: NonNull<sys::rte_flow>,
    state: State,
}

// SAFETY: as for `RuleTable`.
unsafe impl Send for TableRule {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Coming,
    There,
    Leaving,
}

/// Common part of a table's rules. Every rule must have it, because drivers read the arrays of a
/// rule by the templates, without checking for an end or a null pointer.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// Kind of each item, and whether it has spec, last and mask.
    items: Vec<(ItemKind, [bool; 3])>,
    actions: Vec<(Discriminant<Action>, Option<OtherActionKind>)>,
}

impl Shape {
    fn of(rule: &Rule) -> Self {
        let items = rule.pattern.iter().map(|item| {
            let values = [item.spec, item.last, item.mask];
            (item.kind, values.map(|value| value.is_some()))
        });
        let kind = |action: &Action| match action {
            Action::Other(other) => (discriminant(action), Some(other.kind)),
            _ => (discriminant(action), None),
        };
        Self { items: items.collect(), actions: rule.actions.iter().map(kind).collect() }
    }
}

impl RuleTables {
    /// Forgets the rules, which ended without an operation and must not be used any more.
    pub(crate) fn forget_rules(&mut self) {
        self.rules.clear();
    }

    fn of_shape(&self, shape: &Shape) -> Option<&RuleTable> {
        self.tables.iter().find(|table| table.shape == *shape)
    }

    /// Applies a result to its rule and returns it; `None` if no operation on that rule is pending.
    fn take_result(&mut self, number: u64, is_good: bool) -> Option<Done> {
        let rule = self.rules.get_mut(&number)?;
        match (rule.state, is_good) {
            (State::There, _) => return None,
            (State::Coming, true) | (State::Leaving, false) => rule.state = State::There,
            (State::Coming, false) | (State::Leaving, true) => _ = self.rules.remove(&number),
        }
        Some(Done { number, is_good })
    }
}

/// The only flow queue.
const QUEUE: u32 = 0;
/// Maximum number of results of one call.
const RESULTS_MAX: usize = 64;

impl Port {
    /// Returns the port's resources for rules by templates; an error if it has none.
    pub fn flow_info(&self) -> Result<QueueInfo, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut port: sys::rte_flow_port_info = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut queue: sys::rte_flow_queue_info = unsafe { std::mem::zeroed() };
        let ask = |error: *mut _| {
            // SAFETY: the port is open; both can be written to.
            unsafe { sys::rte_flow_info_get(self.open.id(), &mut port, &mut queue, error) }
        };
        call(None, ask, |ret| ret >= 0)?;
        Ok(QueueInfo { queues: port.max_nb_queues, operations: queue.max_size })
    }

    /// Requests that [`Port::configure`] sets up a flow queue for `operations` operations, or as
    /// many as the port supports. [`Port::flow_queue`] then returns its size.
    pub fn request_flow_queue(&mut self, operations: u32) {
        self.flow_operations = operations;
    }

    /// Returns the number of operations that the flow queue holds.
    ///
    /// # Errors
    /// If there is no flow queue: the reason.
    pub fn flow_queue(&self) -> Result<u32, &FlowError> {
        self.flow_queue.as_ref().copied()
    }

    /// Sets up the requested flow queue; returns the number of operations that it holds. The port
    /// must be configured and not started.
    pub(crate) fn set_up_flow_queue(&mut self) -> Result<u32, FlowError> {
        if self.flow_operations == 0 {
            return Err(no_queue());
        }
        let operations = self.flow_operations.min(self.flow_info()?.operations);
        self.flow_configure(operations)?;
        Ok(operations)
    }

    /// Sets up a flow queue with room for `operations` operations. The port must be stopped and
    /// have no table, because drivers free the tables of the earlier queue.
    pub fn flow_configure(&mut self, operations: u32) -> Result<(), FlowError> {
        if !self.tables.tables.is_empty() {
            return Err(busy("the port has a table; destroy it first"));
        }
        // SAFETY: a plain C struct of numbers.
        let port: sys::rte_flow_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut queue: sys::rte_flow_queue_attr = unsafe { std::mem::zeroed() };
        queue.size = operations;
        let mut queues = [&raw const queue];
        let configure = |error: *mut _| {
            // SAFETY: the port is open; the attributes outlive the call, and there is one queue.
            unsafe { sys::rte_flow_configure(self.open.id(), &port, 1, queues.as_mut_ptr(), error) }
        };
        call(None, configure, |ret| ret >= 0).map(drop)
    }

    /// Creates a table for at most `room` rules with the masks and the kinds of actions of `like`.
    /// Each rule has its own values. Other tables must have other items or actions.
    pub fn flow_table_make(
        &mut self,
        like: &Rule,
        room: u32,
    ) -> Result<(), (TableStep, FlowError)> {
        let shape = Shape::of(like);
        if self.tables.of_shape(&shape).is_some() {
            return Err((TableStep::Table, busy("the port has a table of such rules")));
        }
        let lowered = RteRule::new(like).map_err(|error| (TableStep::PatternTemplate, error))?;
        let pattern = self
            .pattern_template(like, &lowered)
            .map_err(|error| (TableStep::PatternTemplate, error))?;
        let actions = self.actions_template(like, &lowered).map_err(|error| {
            self.drop_templates(Some(pattern), None);
            (TableStep::ActionsTemplate, error)
        })?;
        let table = self.template_table(&lowered, (pattern, actions), room).map_err(|error| {
            self.drop_templates(Some(pattern), Some(actions));
            (TableStep::Table, error)
        })?;
        self.tables.tables.push(RuleTable { table, pattern, actions, shape });
        Ok(())
    }

    fn pattern_template(
        &self,
        like: &Rule,
        lowered: &RteRule<'_>,
    ) -> Result<NonNull<sys::rte_flow_pattern_template>, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut attr: sys::rte_flow_pattern_template_attr = unsafe { std::mem::zeroed() };
        attr.set_ingress(like.attributes.ingress.into());
        attr.set_egress(like.attributes.egress.into());
        attr.set_transfer(like.attributes.transfer.into());
        let (id, items) = (self.open.id(), lowered.items());
        let make = |error: *mut _| {
            // SAFETY: the port is open; the array ends with END and outlives the call.
            unsafe { sys::rte_flow_pattern_template_create(id, &attr, items, error) }
        };
        some(call(Some(lowered), make, |made| !made.is_null()))
    }

    fn actions_template(
        &self,
        like: &Rule,
        lowered: &RteRule<'_>,
    ) -> Result<NonNull<sys::rte_flow_actions_template>, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut attr: sys::rte_flow_actions_template_attr = unsafe { std::mem::zeroed() };
        attr.set_ingress(like.attributes.ingress.into());
        attr.set_egress(like.attributes.egress.into());
        attr.set_transfer(like.attributes.transfer.into());
        let masks = lowered.action_kinds();
        let (id, actions, masks) = (self.open.id(), lowered.actions(), masks.as_ptr());
        let make = |error: *mut _| {
            // SAFETY: the port is open; both arrays end with END and outlive the call.
            unsafe { sys::rte_flow_actions_template_create(id, &attr, actions, masks, error) }
        };
        some(call(Some(lowered), make, |made| !made.is_null()))
    }

    fn template_table(
        &self,
        lowered: &RteRule<'_>,
        (pattern, actions): (
            NonNull<sys::rte_flow_pattern_template>,
            NonNull<sys::rte_flow_actions_template>,
        ),
        room: u32,
    ) -> Result<NonNull<sys::rte_flow_template_table>, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut attr: sys::rte_flow_template_table_attr = unsafe { std::mem::zeroed() };
        // SAFETY: it points into `lowered`.
        attr.flow_attr = unsafe { *lowered.attributes() };
        attr.nb_flows = room;
        let (mut patterns, mut actions) = ([pattern.as_ptr()], [actions.as_ptr()]);
        let (patterns, actions) = (patterns.as_mut_ptr(), actions.as_mut_ptr());
        let id = self.open.id();
        let make = |error: *mut _| {
            // SAFETY: the port is open; the templates are its own, one of each.
            unsafe {
                sys::rte_flow_template_table_create(id, &attr, patterns, 1, actions, 1, error)
            }
        };
        some(call(None, make, |made| !made.is_null()))
    }

    /// Destroys templates. If the driver refuses, they are freed with the port.
    fn drop_templates(
        &self,
        pattern: Option<NonNull<sys::rte_flow_pattern_template>>,
        actions: Option<NonNull<sys::rte_flow_actions_template>>,
    ) {
        let id = self.open.id();
        if let Some(pattern) = pattern {
            // SAFETY: the port is open, and the template one of its own that no table uses.
            unsafe { sys::rte_flow_pattern_template_destroy(id, pattern.as_ptr(), null_mut()) };
        }
        if let Some(actions) = actions {
            // SAFETY: as above.
            unsafe { sys::rte_flow_actions_template_destroy(id, actions.as_ptr(), null_mut()) };
        }
    }

    /// Destroys all tables and their templates. The tables must have no rules.
    pub fn flow_tables_destroy(&mut self) -> Result<(), FlowError> {
        let id = self.open.id();
        if !self.tables.rules.is_empty() {
            return Err(busy("the tables have rules"));
        }
        while let Some(table) = self.tables.tables.last() {
            let destroy = |error: *mut _| {
                // SAFETY: the port is open, and the table its own.
                unsafe { sys::rte_flow_template_table_destroy(id, table.table.as_ptr(), error) }
            };
            call(None, destroy, |ret| ret >= 0)?;
            let RuleTable { pattern, actions, .. } = self.tables.tables.pop().expect("the last");
            self.drop_templates(Some(pattern), Some(actions));
        }
        Ok(())
    }

    /// Queues the creation of a rule, in the table for its items and actions.
    /// `number` must be new. The operation begins with the next push.
    pub fn flow_enqueue_create(&mut self, rule: &Rule, number: u64) -> Result<(), FlowError> {
        let id = self.open.id();
        if self.tables.rules.contains_key(&number) {
            let message = "a rule of the port's tables has this number";
            return Err(FlowError::ours(FlowError::EEXIST, ErrorKind::State, message));
        }
        let Some(table) = self.tables.of_shape(&Shape::of(rule)) else {
            let message = "the port has no table of such rules";
            return Err(FlowError::ours(FlowError::EINVAL, ErrorKind::State, message));
        };
        self.check_indirect(&rule.actions)?;
        let lowered = RteRule::new(rule)?;
        let (items, actions, attr) = (lowered.items(), lowered.actions(), postponed());
        let tag = number as usize as *mut c_void;
        let enqueue = |error: *mut _| {
            let to = table.table.as_ptr();
            // SAFETY: the port is open, the table its own; the arrays have what its templates
            // have, place by place, and outlive the call; the tag is a number, never followed.
            unsafe {
                sys::rte_flow_async_create(id, QUEUE, &attr, to, items, 0, actions, 0, tag, error)
            }
        };
        let flow = some(call(Some(&lowered), enqueue, |flow| !flow.is_null()))?;
        self.tables.rules.insert(number, TableRule { flow, state: State::Coming });
        Ok(())
    }

    /// Queues the destruction of an existing rule. The operation begins with the next push.
    pub fn flow_enqueue_destroy(&mut self, number: u64) -> Result<(), FlowError> {
        let id = self.open.id();
        let rule = self.tables.rules.get_mut(&number);
        let rule = rule.filter(|rule| rule.state == State::There).ok_or_else(FlowError::gone)?;
        let (attr, tag) = (postponed(), number as usize as *mut c_void);
        let enqueue = |error: *mut _| {
            let flow = rule.flow.as_ptr();
            // SAFETY: the port is open, the rule one that its queue has made and not destroyed.
            unsafe { sys::rte_flow_async_destroy(id, QUEUE, &attr, flow, tag, error) }
        };
        call(None, enqueue, |ret| ret >= 0)?;
        rule.state = State::Leaving;
        Ok(())
    }

    /// Hands all queued operations to the NIC.
    pub fn flow_push(&mut self) -> Result<(), FlowError> {
        self.check_tables()?;
        // SAFETY: the port is open, and has the queue because it has a table.
        let push = |error: *mut _| unsafe { sys::rte_flow_push(self.open.id(), QUEUE, error) };
        call(None, push, |ret| ret >= 0).map(drop)
    }

    /// Returns results that have arrived, at most 64; none if there are none yet.
    pub fn flow_pull(&mut self) -> Result<Vec<Done>, FlowError> {
        self.check_tables()?;
        let id = self.open.id();
        // SAFETY: plain C structs, for which zeros are good values.
        let mut results: [sys::rte_flow_op_result; RESULTS_MAX] = unsafe { std::mem::zeroed() };
        let (first, room) = (results.as_mut_ptr(), RESULTS_MAX as u16);
        let pull = |error: *mut _| {
            // SAFETY: the port is open, has the queue, and there is room for that number of
            // results.
            unsafe { sys::rte_flow_pull(id, QUEUE, first, room, error) }
        };
        let count = call(None, pull, |ret| ret >= 0)? as usize;
        let good = sys::rte_flow_op_status_RTE_FLOW_OP_SUCCESS;
        let results = results.iter().take(count);
        let done = results.filter_map(|one| {
            let number = one.user_data as usize as u64;
            self.tables.take_result(number, one.status == good)
        });
        Ok(done.collect())
    }

    fn check_tables(&self) -> Result<(), FlowError> {
        if self.tables.tables.is_empty() { Err(no_table()) } else { Ok(()) }
    }
}

fn postponed() -> sys::rte_flow_op_attr {
    // SAFETY: a plain C struct of numbers.
    let mut attr: sys::rte_flow_op_attr = unsafe { std::mem::zeroed() };
    attr.set_postpone(1);
    attr
}

fn no_table() -> FlowError {
    FlowError::ours(FlowError::ENOENT, ErrorKind::Handle, "the port has no table")
}

/// Returns the error of a port for which no flow queue was requested.
pub(crate) fn no_queue() -> FlowError {
    FlowError::ours(FlowError::ENOENT, ErrorKind::State, "the port has no flow queue")
}

fn busy(message: &str) -> FlowError {
    FlowError::ours(FlowError::EBUSY, ErrorKind::State, message)
}

/// Converts a pointer that `call` has checked for null.
fn some<T>(made: Result<*mut T, FlowError>) -> Result<NonNull<T>, FlowError> {
    made.map(|made| NonNull::new(made).expect("not null, or an error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results for rules without a pending operation change nothing.
    #[test]
    fn results_are_of_what_was_asked() {
        let rule = |state| TableRule { flow: NonNull::dangling(), state };
        let rules = HashMap::from([(1, rule(State::Coming)), (2, rule(State::Coming))]);
        let mut table = RuleTables { rules, ..RuleTables::default() };
        assert_eq!(table.take_result(7, true), None);
        assert_eq!(table.take_result(1, true), Some(Done { number: 1, is_good: true }));
        assert_eq!(table.take_result(1, true), None);
        assert_eq!(table.take_result(2, false), Some(Done { number: 2, is_good: false }));
        assert_eq!(table.rules.keys().collect::<Vec<_>>(), [&1]);
        table.rules.get_mut(&1).unwrap().state = State::Leaving;
        assert!(table.take_result(1, false).is_some() && table.rules[&1].state == State::There);
        table.rules.get_mut(&1).unwrap().state = State::Leaving;
        assert!(table.take_result(1, true).is_some() && table.rules.is_empty());
    }
}
