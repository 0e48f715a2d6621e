// SPDX-License-Identifier: BSD-3-Clause
//! Indirect actions: actions that a port creates once, and that several of its rules share.

use super::lower::RteRule;
use super::{Action, ActionData, Age, Attributes, Count, FlowError, Rule, call};
use crate::{Port, sys};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Identifies an indirect action of a port. Later use than its destruction is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndirectAction(NonNull<sys::rte_flow_action_handle>);

// SAFETY: an address that is given back to the driver only by the port's one user.
unsafe impl Send for IndirectAction {}
// SAFETY: as above; nothing is read through it.
unsafe impl Sync for IndirectAction {}

impl IndirectAction {
    pub(super) fn address(self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// Returns a rule with this action only, to convert it.
fn rule_of(action: &Action) -> Rule {
    Rule { actions: vec![action.clone()], ..Rule::default() }
}

const COUNT: sys::rte_flow_action_type = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_COUNT;
const AGE: sys::rte_flow_action_type = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_AGE;

/// True if an update of this action is given to drivers as its configuration, not as an action.
fn is_update(action: &Action) -> bool {
    let names = ["age_update", "conntrack_update", "quota_update"];
    names.contains(&action.name())
}

impl Port {
    /// Fails if an action is an indirect one that does not exist on this port.
    pub(super) fn check_indirect(&self, actions: &[Action]) -> Result<(), FlowError> {
        actions.iter().try_for_each(|action| match action {
            Action::Other(other) => match &other.data {
                ActionData::Indirect(of) if !self.indirect.contains_key(of) => {
                    Err(FlowError::no_action())
                }
                ActionData::Actions(inner) => self.check_indirect(inner),
                _ => Ok(()),
            },
            _ => Ok(()),
        })
    }

    /// Creates an indirect action for rules of the directions in `attributes`.
    pub fn flow_indirect_create(
        &mut self,
        attributes: Attributes,
        action: &Action,
    ) -> Result<IndirectAction, FlowError> {
        let rule = rule_of(action);
        self.check_indirect(&rule.actions)?;
        let lowered = RteRule::new(&rule)?;
        // SAFETY: a plain C struct of numbers.
        let mut conf: sys::rte_flow_indir_action_conf = unsafe { std::mem::zeroed() };
        conf.set_ingress(attributes.ingress.into());
        conf.set_egress(attributes.egress.into());
        conf.set_transfer(attributes.transfer.into());
        let create = |error: *mut _| {
            let id = self.open.id();
            // SAFETY: the port is open; configuration and action outlive the call.
            unsafe { sys::rte_flow_action_handle_create(id, &conf, lowered.actions(), error) }
        };
        let handle = call(Some(&lowered), create, |handle| !handle.is_null())?;
        let action = IndirectAction(NonNull::new(handle).expect("not null, or an error"));
        // SAFETY: the list has one action at least.
        self.indirect.insert(action, unsafe { (*lowered.actions()).type_ });
        Ok(action)
    }

    /// Changes an indirect action, for all rules that have it.
    pub fn flow_indirect_update(
        &self,
        action: IndirectAction,
        to: &Action,
    ) -> Result<(), FlowError> {
        let handle = self.live_indirect(action)?;
        let rule = rule_of(to);
        self.check_indirect(&rule.actions)?;
        let lowered = RteRule::new(&rule)?;
        // SAFETY: the list has one action at least.
        let first = unsafe { *lowered.actions() };
        // Drivers take another form to update an age than to create it.
        let is_wrong_form = first.type_ == AGE && !is_update(to);
        if self.indirect.get(&action) != Some(&first.type_) || is_wrong_form {
            return Err(FlowError::other_kind());
        }
        let change = if is_update(to) { first.conf } else { lowered.actions().cast() };
        let update = |error: *mut _| {
            let id = self.open.id();
            // SAFETY: the port is open, and the action one of its live ones; what it changes to
            // outlives the call.
            unsafe { sys::rte_flow_action_handle_update(id, handle, change, error) }
        };
        call(Some(&lowered), update, |ret| ret >= 0).map(drop)
    }

    /// Destroys an indirect action.
    pub fn flow_indirect_destroy(&mut self, action: IndirectAction) -> Result<(), FlowError> {
        let handle = self.live_indirect(action)?;
        let destroy = |error: *mut _| {
            // SAFETY: the port is open, and the action one of its live ones.
            unsafe { sys::rte_flow_action_handle_destroy(self.open.id(), handle, error) }
        };
        call(None, destroy, |ret| ret >= 0)?;
        self.indirect.remove(&action);
        Ok(())
    }

    /// Returns the counts of an indirect `count`.
    pub fn flow_indirect_count(&self, action: IndirectAction) -> Result<Count, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut count: sys::rte_flow_query_count = unsafe { std::mem::zeroed() };
        // SAFETY: it is the answer to this action.
        unsafe { self.indirect_query((action, COUNT), &mut count)? };
        Ok(Count::of(&count))
    }

    /// Returns the age of an indirect `age`.
    pub fn flow_indirect_age(&self, action: IndirectAction) -> Result<Age, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut age: sys::rte_flow_query_age = unsafe { std::mem::zeroed() };
        // SAFETY: it is the answer to this action.
        unsafe { self.indirect_query((action, AGE), &mut age)? };
        Ok(Age::of(&age))
    }

    /// # Safety
    /// `T` is the type that DPDK documents for an action of this kind.
    unsafe fn indirect_query<T>(
        &self,
        (action, kind): (IndirectAction, sys::rte_flow_action_type),
        answer: &mut T,
    ) -> Result<(), FlowError> {
        let handle = self.live_indirect(action)?;
        if self.indirect.get(&action) != Some(&kind) {
            return Err(FlowError::other_kind());
        }
        let answer: *mut c_void = std::ptr::from_mut(answer).cast();
        let ask = |error: *mut _| {
            // SAFETY: the port is open, the action one of its live ones; `answer` by contract.
            unsafe { sys::rte_flow_action_handle_query(self.open.id(), handle, answer, error) }
        };
        call(None, ask, |ret| ret >= 0).map(drop)
    }

    fn live_indirect(
        &self,
        action: IndirectAction,
    ) -> Result<*mut sys::rte_flow_action_handle, FlowError> {
        match self.indirect.contains_key(&action) {
            true => Ok(action.0.as_ptr()),
            false => Err(FlowError::no_action()),
        }
    }
}
