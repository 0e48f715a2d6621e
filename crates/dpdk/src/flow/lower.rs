// SPDX-License-Identifier: BSD-3-Clause
//! Converts a rule into the arrays of C structures of `rte_flow`, and an address in these arrays
//! back to a part of the rule.

mod actions;
mod items;

use super::{Attributes, Cause, ErrorKind, FlowError, Rule};
use crate::sys;
use actions::RteActions;
pub(super) use actions::rss_from;
use items::RteItems;
use std::ffi::c_void;
use std::marker::PhantomData;

/// Room for the structure of an item or action, filled up with zeros. It is boxed, or in a vector
/// that no longer grows, so that its address stays valid.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Room([u8; Room::LEN]);

impl Room {
    const LEN: usize = 48;

    fn of<T>(value: T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= 8) };
        let mut room = Self([0; Self::LEN]);
        // SAFETY: it has the room and the alignment, by the assertion.
        unsafe { (&raw mut room).cast::<T>().write(value) };
        room
    }

    /// Returns the structure with `header` at its beginning.
    fn with(mut self, header: &[u8]) -> Self {
        self.0[..header.len()].copy_from_slice(header);
        self
    }

    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// Reverses numbers where the machine is little-endian. `native` is their offsets and lengths.
fn to_native(bytes: &mut [u8], native: &[(usize, usize)]) {
    for &(offset, len) in native {
        if cfg!(target_endian = "little") {
            bytes[offset..offset + len].reverse();
        }
    }
}

/// A rule in the structures of `rte_flow`. They point into each other, and into the original rule.
pub(super) struct RteRule<'a> {
    attributes: sys::rte_flow_attr,
    pattern: RteItems,
    actions: RteActions,
    _rule: PhantomData<&'a Rule>,
}

impl<'a> RteRule<'a> {
    /// Fails if this DPDK has no such item or action.
    pub(super) fn new(rule: &'a Rule) -> Result<Self, FlowError> {
        let refused = |kind, cause, reason: String| FlowError {
            cause: Some(cause),
            ..FlowError::ours(FlowError::ENOTSUP, kind, &reason)
        };
        Ok(Self {
            attributes: attributes_of(&rule.attributes),
            pattern: RteItems::new(&rule.pattern)
                .map_err(|(place, reason)| refused(ErrorKind::Item, Cause::Item(place), reason))?,
            actions: RteActions::new(&rule.actions).map_err(|(place, reason)| {
                refused(ErrorKind::Action, Cause::Action(place), reason)
            })?,
            _rule: PhantomData,
        })
    }

    pub(super) fn attributes(&self) -> *const sys::rte_flow_attr {
        &self.attributes
    }

    pub(super) fn items(&self) -> *const sys::rte_flow_item {
        self.pattern.as_ptr()
    }

    pub(super) fn actions(&self) -> *const sys::rte_flow_action {
        self.actions.as_ptr()
    }

    /// Returns the actions without their values, as the masks of a template: each rule then has its
    /// own values.
    pub(super) fn action_kinds(&self) -> Vec<sys::rte_flow_action> {
        self.actions.kinds()
    }

    /// Returns the part of the rule that contains `address`.
    pub(super) fn cause(&self, address: *const c_void) -> Option<Cause> {
        let address = address as usize;
        if place_in(std::slice::from_ref(&self.attributes), address).is_some() {
            return Some(Cause::Attributes);
        }
        let action = || self.actions.place_of(address).map(Cause::Action);
        self.pattern.place_of(address).map(Cause::Item).or_else(action)
    }
}

/// True if `address` is in the room.
fn is_in_room(room: &Room, address: usize) -> bool {
    place_in(&room.0, address).is_some()
}

/// Returns the index of the element of `array` that contains an address.
fn place_in<T>(array: &[T], address: usize) -> Option<usize> {
    let offset = address.checked_sub(array.as_ptr() as usize)?;
    Some(offset / size_of::<T>()).filter(|place| *place < array.len())
}

fn attributes_of(attributes: &Attributes) -> sys::rte_flow_attr {
    // SAFETY: a plain C struct of numbers.
    let mut attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    attr.group = attributes.group;
    attr.priority = attributes.priority;
    attr.set_ingress(attributes.ingress.into());
    attr.set_egress(attributes.egress.into());
    attr.set_transfer(attributes.transfer.into());
    attr
}

#[cfg(test)]
mod tests;
