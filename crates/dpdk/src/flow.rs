// SPDX-License-Identifier: BSD-3-Clause
//! Validates, creates, queries and destroys flow rules (`rte_flow`) of a port.
//!
//! A [`Rule`] is plain data. A port that accepts it returns a [`FlowRule`], the only way to refer
//! to the rule there. A `FlowRule` belongs to its port and ends when it is destroyed, when the
//! rules are flushed, or when the port is closed. Later use is an error, never a dangling pointer.
//! Drivers are not trusted: they may fail without a message, and a handle that a driver returns
//! twice is refused.

mod action;
mod error;
mod indirect;
mod item;
mod lower;
mod other;
mod table;

pub use action::{Action, HashFunction, RSS_TYPES, Rss};
pub use error::{Cause, ErrorKind, FlowError};
pub use indirect::IndirectAction;
pub use item::{Item, ItemKind, LongValues, Value, bits_of, set_bits_of};
pub use other::{ActionData, OtherAction, OtherActionKind, OtherItem};
pub use table::{Done, QueueInfo, TableStep};
pub(crate) use table::{RuleTables, no_queue};

use crate::{Port, log, sys};
use lower::RteRule;
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Group and priority of a rule, and the direction of packets that it matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Rules of group 0 are matched first; a `jump` leads to those of another group.
    pub group: u32,
    /// Within a group, rules of priority 0 are matched first.
    pub priority: u32,
    /// The rule matches packets that arrive.
    pub ingress: bool,
    /// The rule matches packets that are sent.
    pub egress: bool,
    /// The rule matches packets within the NIC's switch.
    pub transfer: bool,
}

/// A rule as a program requests it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Group, priority and direction.
    pub attributes: Attributes,
    /// Headers that packets must have, from the outermost inwards.
    pub pattern: Vec<Item>,
    /// Actions on the packets that match.
    pub actions: Vec<Action>,
}

impl Rule {
    /// Checks whether this DPDK has all items and actions of the rule. A rule for which this fails
    /// reaches no driver.
    pub fn check(&self) -> Result<(), FlowError> {
        RteRule::new(self).map(drop)
    }
}

/// A rule that a port has accepted.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FlowRule {
    handle: Handle,
    /// [`LiveRules::lot`] of its port when the rule was created.
    lot: u64,
}

/// Identifies a rule in comparisons, as long as the rule exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(NonNull<sys::rte_flow>);

// SAFETY: an address that is given back to the driver only by the port's one user.
unsafe impl Send for Handle {}

impl FlowRule {
    /// Returns the handle that identifies the rule.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

/// The existing rules of a port.
#[derive(Debug)]
pub(crate) struct LiveRules {
    /// A number unique in this process; a new one after each flush, which ends all rules.
    lot: u64,
    handles: HashSet<Handle>,
}

impl LiveRules {
    pub(crate) fn new() -> Self {
        static LOTS: AtomicU64 = AtomicU64::new(0);
        Self { lot: LOTS.fetch_add(1, Ordering::Relaxed), handles: HashSet::new() }
    }

    fn check(&self, rule: &FlowRule) -> Result<*mut sys::rte_flow, FlowError> {
        let is_live = rule.lot == self.lot && self.handles.contains(&rule.handle);
        if is_live { Ok(rule.handle.0.as_ptr()) } else { Err(FlowError::gone()) }
    }
}

/// Packets and bytes that a rule with a `count` action has matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Packets, if the NIC counts them.
    pub hits: Option<u64>,
    /// Bytes, if the NIC counts them.
    pub bytes: Option<u64>,
}

impl Count {
    fn of(count: &sys::rte_flow_query_count) -> Self {
        Self {
            hits: (count.hits_set() != 0).then_some(count.hits),
            bytes: (count.bytes_set() != 0).then_some(count.bytes),
        }
    }
}

/// Age of a rule with an `age` action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// True if the rule has matched no packet during its timeout.
    pub aged: bool,
    /// Seconds since the last match, if the NIC knows them.
    pub idle_seconds: Option<u32>,
}

impl Age {
    fn of(age: &sys::rte_flow_query_age) -> Self {
        Self {
            aged: age.aged() != 0,
            idle_seconds: (age.sec_since_last_hit_valid() != 0).then(|| age.sec_since_last_hit()),
        }
    }
}

impl Port {
    /// Checks whether the port would accept `rule`, as far as its driver knows without creating it.
    pub fn flow_validate(&self, rule: &Rule) -> Result<(), FlowError> {
        self.check_indirect(&rule.actions)?;
        let lowered = RteRule::new(rule)?;
        let (attr, items, actions) = (lowered.attributes(), lowered.items(), lowered.actions());
        let ask = |error: *mut _| {
            // SAFETY: the port is open; the arrays end with END and outlive the call.
            unsafe { sys::rte_flow_validate(self.open.id(), attr, items, actions, error) }
        };
        call(Some(&lowered), ask, |ret| ret >= 0).map(drop)
    }

    /// Creates `rule`.
    pub fn flow_create(&mut self, rule: &Rule) -> Result<FlowRule, FlowError> {
        self.check_indirect(&rule.actions)?;
        let lowered = RteRule::new(rule)?;
        let (attr, items, actions) = (lowered.attributes(), lowered.items(), lowered.actions());
        let create = |error: *mut _| {
            // SAFETY: as in `flow_validate`.
            unsafe { sys::rte_flow_create(self.open.id(), attr, items, actions, error) }
        };
        let flow = call(Some(&lowered), create, |flow| !flow.is_null())?;
        let handle = Handle(NonNull::new(flow).expect("not null, or an error"));
        if !self.rules.handles.insert(handle) {
            let message = "the driver returned the handle of another rule, which still exists";
            return Err(FlowError { message: Some(message.to_owned()), ..FlowError::gone() });
        }
        Ok(FlowRule { handle, lot: self.rules.lot })
    }

    /// Destroys `rule`; returns it with the error if that fails.
    pub fn flow_destroy(&mut self, rule: FlowRule) -> Result<(), (FlowRule, FlowError)> {
        let flow = match self.rules.check(&rule) {
            Ok(flow) => flow,
            Err(error) => return Err((rule, error)),
        };
        // SAFETY: the port is open, and the rule one of its live ones.
        let destroy = |error: *mut _| unsafe { sys::rte_flow_destroy(self.open.id(), flow, error) };
        match call(None, destroy, |ret| ret >= 0) {
            Ok(_) => {
                self.rules.handles.remove(&rule.handle);
                Ok(())
            }
            Err(error) => Err((rule, error)),
        }
    }

    /// Destroys every rule of the port. No rule may be used afterwards, even if the driver refuses.
    pub fn flow_flush(&mut self) -> Result<(), FlowError> {
        self.rules = LiveRules::new();
        self.tables.forget_rules();
        // SAFETY: the port is open.
        let flush = |error: *mut _| unsafe { sys::rte_flow_flush(self.open.id(), error) };
        call(None, flush, |ret| ret >= 0).map(drop)
    }

    /// Begins or ends isolated mode, in which the port receives only packets that rules deliver.
    /// Many drivers allow this only before the port is configured.
    pub fn flow_isolate(&mut self, isolate: bool) -> Result<(), FlowError> {
        let isolate = c_int::from(isolate);
        // SAFETY: the port is open.
        let set = |error: *mut _| unsafe { sys::rte_flow_isolate(self.open.id(), isolate, error) };
        call(None, set, |ret| ret >= 0).map(drop)
    }

    /// Returns the counts of `rule`; resets them to 0 if `reset`.
    pub fn flow_query_count(&self, rule: &FlowRule, reset: bool) -> Result<Count, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut count: sys::rte_flow_query_count = unsafe { std::mem::zeroed() };
        count.set_reset(reset.into());
        let action = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_COUNT;
        // SAFETY: it is the answer to this action.
        unsafe { self.query(rule, action, &mut count)? };
        Ok(Count::of(&count))
    }

    /// Returns the age of `rule`, which has an `age` action.
    pub fn flow_query_age(&self, rule: &FlowRule) -> Result<Age, FlowError> {
        // SAFETY: a plain C struct of numbers.
        let mut age: sys::rte_flow_query_age = unsafe { std::mem::zeroed() };
        let action = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_AGE;
        // SAFETY: it is the answer to this action.
        unsafe { self.query(rule, action, &mut age)? };
        Ok(Age::of(&age))
    }

    /// Returns the RSS configuration of `rule`, which has an `rss` action.
    pub fn flow_query_rss(&self, rule: &FlowRule) -> Result<Rss, FlowError> {
        // SAFETY: a plain C struct, for which null pointers and zeros are "nothing".
        let mut rss: sys::rte_flow_action_rss = unsafe { std::mem::zeroed() };
        let action = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_RSS;
        // SAFETY: it is the answer to this action.
        unsafe { self.query(rule, action, &mut rss)? };
        // SAFETY: the arrays are the driver's and stay as long as the rule does.
        Ok(unsafe { lower::rss_from(&rss) })
    }

    /// Queries the property of `rule` that `action` stands for, and writes it into `answer`.
    ///
    /// # Safety
    /// `T` is the type that DPDK documents for `action`.
    unsafe fn query<T>(
        &self,
        rule: &FlowRule,
        action: sys::rte_flow_action_type,
        answer: &mut T,
    ) -> Result<(), FlowError> {
        let flow = self.rules.check(rule)?;
        let end = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_END;
        let actions = [action, end].map(|type_| sys::rte_flow_action { type_, conf: null() });
        let answer: *mut c_void = std::ptr::from_mut(answer).cast();
        let ask = |error: *mut _| {
            // SAFETY: the port is open, the rule one of its live ones; `answer` by contract.
            unsafe { sys::rte_flow_query(self.open.id(), flow, actions.as_ptr(), answer, error) }
        };
        call(None, ask, |ret| ret >= 0).map(drop)
    }

    /// Returns the driver's own description of `rule`, or of all rules.
    pub fn flow_dump(&self, rule: Option<&FlowRule>) -> Result<String, FlowError> {
        let flow = rule.map_or(Ok(null_mut()), |rule| self.rules.check(rule))?;
        let mut memory = Memory::default();
        // SAFETY: both are written now, and again when the stream is closed, before it is dropped.
        let stream = unsafe { sys::open_memstream(&mut memory.text, &mut memory.len) };
        assert!(!stream.is_null(), "no memory for a stream");
        let dump = |error: *mut _| {
            // SAFETY: the port is open, the rule one of its live ones or null for all of them.
            unsafe { sys::rte_flow_dev_dump(self.open.id(), flow, stream, error) }
        };
        let dumped = call(None, dump, |ret| ret >= 0);
        // SAFETY: the stream was opened above and has no other user.
        unsafe { sys::fclose(stream) };
        dumped.map(|_| memory.take())
    }

    /// Returns the rules that have aged and were not reported before.
    pub fn flow_aged(&self) -> Result<Vec<Handle>, FlowError> {
        let mut contexts: Vec<*mut c_void> = Vec::new();
        loop {
            let (array, room) = (contexts.as_mut_ptr(), contexts.len() as u32);
            let array = if room == 0 { null_mut() } else { array };
            let ask = |error: *mut _| {
                // SAFETY: the port is open; the array has room for that number, and 0 asks only how
                // many there are.
                unsafe { sys::rte_flow_get_aged_flows(self.open.id(), array, room, error) }
            };
            let count = call(None, ask, |ret| ret >= 0)? as usize;
            if room > 0 || count == 0 {
                contexts.truncate(count);
                // Rules are created without a context, so DPDK reports the handle.
                let handles = contexts.into_iter().filter_map(|flow| NonNull::new(flow.cast()));
                return Ok(handles.map(Handle).collect());
            }
            contexts.resize(count, null_mut());
        }
    }
}

/// A text in memory that a C stream writes.
struct Memory {
    text: *mut c_char,
    len: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { text: null_mut(), len: 0 }
    }
}

impl Memory {
    /// Returns the text, once the stream is closed.
    fn take(self) -> String {
        if self.text.is_null() {
            return String::new();
        }
        // SAFETY: the closed stream has left that many bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(self.text.cast(), self.len) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: of malloc, or null.
        unsafe { sys::free(self.text.cast()) };
    }
}

/// Calls `function` with an empty error. If the call fails, reads the error that it has written.
fn call<T: Copy>(
    rule: Option<&RteRule<'_>>,
    function: impl FnOnce(*mut sys::rte_flow_error) -> T,
    is_good: impl Fn(T) -> bool,
) -> Result<T, FlowError> {
    // SAFETY: a plain C struct, for which zero is "nothing said".
    let mut error: sys::rte_flow_error = unsafe { std::mem::zeroed() };
    // SAFETY: clears a number of the calling thread.
    unsafe { sys::shim_take_errno() };
    let (result, log) = log::capture(|| {
        let result = function(&mut error);
        if is_good(result) { Ok(result) } else { Err(()) }
    });
    result.map_err(|()| {
        let message = NonNull::new(error.message.cast_mut()).map(|text| {
            // SAFETY: where there is a message, it is a C string of the driver.
            unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
        });
        // SAFETY: reads a number of the calling thread.
        let errno = unsafe { sys::shim_take_errno() };
        let kind = ErrorKind::from_number(error.type_);
        let cause = rule.and_then(|rule| rule.cause(error.cause));
        FlowError { errno, kind, cause, message, log }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_says_nothing_is_not_put_words_into_its_mouth() {
        let refused = call(None, |_| -1, |ret: i32| ret >= 0).unwrap_err();
        assert_eq!((refused.errno, refused.kind, refused.cause), (0, ErrorKind::None, None));
        assert_eq!((refused.message.as_deref(), refused.reason()), (None, None));
        assert_eq!(refused.to_string(), "error type 0 (no error): (no stated reason)");
    }

    #[test]
    fn what_a_driver_says_is_reported_with_the_part_it_points_at() {
        let rule = Rule { pattern: vec![Item::any(ItemKind::Tcp)], ..Rule::default() };
        let lowered = RteRule::new(&rule).unwrap();
        let say = |error: *mut sys::rte_flow_error| {
            let cause = lowered.items().cast();
            let message = c"NULL TCP spec/mask".as_ptr();
            // SAFETY: `call` gives a valid pointer.
            unsafe { *error = sys::rte_flow_error { type_: 13, cause, message } };
            false
        };
        let refused = call(Some(&lowered), say, |good| good).unwrap_err();
        assert_eq!((refused.kind, refused.cause), (ErrorKind::Item, Some(Cause::Item(0))));
        let line = "error type 13 (specific pattern item): item 1 (tcp): NULL TCP spec/mask";
        assert_eq!(refused.of(Some(&rule)), line);
    }
}
