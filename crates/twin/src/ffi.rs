// SPDX-License-Identifier: BSD-3-Clause
//! The border to the C of `pmd/`: its functions are declared, and described, in `pmd/twin.h`.
//!
//! Layouts here and there must agree; `pmd/twin_flow.c` asserts sizes. A panic ends the process:
//! it is a programmer's error, and must not unwind into C.
#![allow(unsafe_code)]

use crate::nic::{Action, Handle, Nic, Spread, Verdict};
use crate::pattern::{Attributes, HEADER_MAX, Item, Proto};
use crate::refusal::errno::ENOTSUP;
use crate::refusal::{Cause, Refusal};
use crate::rss::{KEY_LEN, Rss, RssTypes};
use std::ffi::c_char;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// `struct twin_nic`.
pub(crate) struct TwinNic(RwLock<Nic>);

/// `struct twin_item`.
#[repr(C)]
pub(crate) struct TwinItem {
    proto: u16,
    spec: [u8; HEADER_MAX],
    mask: [u8; HEADER_MAX],
    has_vlan: u8,
    vlan_matters: u8,
}

/// `struct twin_action`.
#[repr(C)]
pub(crate) struct TwinAction {
    kind: u32,
    value: u32,
    queues: *const u16,
    queue_count: u32,
}

/// `struct twin_rule`.
#[repr(C)]
pub(crate) struct TwinRule {
    group: u32,
    priority: u32,
    /// Bits: ingress, egress, transfer.
    direction: u32,
    item_count: u32,
    action_count: u32,
    items: *const TwinItem,
    actions: *const TwinAction,
}

/// `struct twin_refusal`.
#[repr(C)]
pub(crate) struct TwinRefusal {
    errno: i32,
    cause: u32,
    place: u32,
    message: *const c_char,
}

/// `struct twin_frame`.
#[repr(C)]
pub(crate) struct TwinFrame {
    bytes: *const u8,
    /// Bytes there.
    len: u32,
    /// Bytes of the whole frame.
    frame_len: u32,
}

/// `struct twin_verdict`.
#[repr(C)]
pub(crate) struct TwinVerdict {
    flags: u32,
    mark: u32,
    hash: u32,
    queue: u16,
    network: u16,
    transport: u16,
}

const HAS_MARK: u32 = 1;
const HAS_FLAG: u32 = 2;
const HAS_HASH: u32 = 4;
const DROPPED: u32 = 8;

impl TwinNic {
    // A poisoned lock would be a panic, and that ends the process.
    fn read(&self) -> RwLockReadGuard<'_, Nic> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Nic> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slice of C, of which an empty one may be null.
///
/// # Safety
///
/// `start` is null or points to `count` values that nobody writes to during `'a`.
unsafe fn slice<'a, T>(start: *const T, count: u32) -> &'a [T] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: not null, so it holds `count` values for `'a`, by the contract above.
    unsafe { std::slice::from_raw_parts(start, count as usize) }
}

/// A rule in the model's terms.
struct Parts {
    attributes: Attributes,
    items: Vec<Item>,
    actions: Vec<Action>,
}

impl TwinRule {
    /// # Safety
    ///
    /// `items`, `actions` and the queues of each action hold as many as their counts say.
    unsafe fn parts(&self) -> Result<Parts, Refusal> {
        // SAFETY: the counts are those of the arrays, by the contract above.
        let (items, actions) =
            unsafe { (slice(self.items, self.item_count), slice(self.actions, self.action_count)) };
        let has = |bit: u32| self.direction & bit != 0;
        let attributes = Attributes {
            group: self.group,
            priority: self.priority,
            ingress: has(1),
            egress: has(2),
            transfer: has(4),
        };
        let items = items.iter().enumerate().map(|(place, item)| {
            let proto = Proto::of_number(item.proto).ok_or(Refusal::new(
                ENOTSUP,
                Cause::Item(place),
                c"this item is not supported",
            ))?;
            let has_vlan = (item.vlan_matters != 0).then_some(item.has_vlan != 0);
            Ok(Item { proto, spec: item.spec, mask: item.mask, has_vlan })
        });
        let actions = actions.iter().enumerate().map(|(place, action)| {
            // SAFETY: its queues are those of a live rule, by the contract above.
            unsafe { action_of(action) }.ok_or(Refusal::new(
                ENOTSUP,
                Cause::Action(place),
                c"this action is not supported",
            ))
        });
        Ok(Parts {
            attributes,
            items: items.collect::<Result<_, _>>()?,
            actions: actions.collect::<Result<_, _>>()?,
        })
    }
}

/// By the numbers of `enum twin_action_kind`.
///
/// # Safety
///
/// `queues` holds as many as its count says.
unsafe fn action_of(action: &TwinAction) -> Option<Action> {
    match action.kind {
        1 => Some(Action::Mark(action.value)),
        2 => Some(Action::Flag),
        3 => Some(Action::Queue(u16::try_from(action.value).ok()?)),
        4 => Some(Action::Drop),
        5 => Some(Action::Passthru),
        6 => Some(Action::Count),
        7 => {
            // SAFETY: by the contract above.
            let queues = unsafe { slice(action.queues, action.queue_count) };
            let types = RssTypes(u16::try_from(action.value).ok()?);
            Some(Action::Rss(Spread { types, queues: queues.into() }))
        }
        _ => None,
    }
}

impl From<Refusal> for TwinRefusal {
    fn from(Refusal { errno, cause, message }: Refusal) -> Self {
        let (cause, place) = match cause {
            Cause::Unspecified => (1, 0),
            Cause::Handle => (2, 0),
            Cause::Group => (3, 0),
            Cause::Ingress => (5, 0),
            Cause::Egress => (6, 0),
            Cause::Transfer => (7, 0),
            Cause::Item(place) => (8, place),
            Cause::Actions => (9, 0),
            Cause::Action(place) => (10, place),
        };
        Self { errno, cause, place: place as u32, message: message.as_ptr() }
    }
}

impl From<Verdict> for TwinVerdict {
    fn from(verdict: Verdict) -> Self {
        let Verdict { mark, flag, queue, hash, drop, network, transport } = verdict;
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let flags = bit(mark.is_some(), HAS_MARK)
            | bit(flag, HAS_FLAG)
            | bit(hash.is_some(), HAS_HASH)
            | bit(drop, DROPPED);
        let number = |proto: Option<Proto>| proto.map_or(0, |proto| proto as u16);
        Self {
            flags,
            mark: mark.unwrap_or(0),
            hash: hash.unwrap_or(0),
            queue,
            network: number(network),
            transport: number(transport),
        }
    }
}

/// What a call returns: its value, or 0 and the refusal.
///
/// # Safety
///
/// `refusal` can be written to.
unsafe fn answer(result: Result<u64, Refusal>, refusal: *mut TwinRefusal) -> u64 {
    result.unwrap_or_else(|why| {
        // SAFETY: it can be written to, by the contract above.
        unsafe { refusal.write(why.into()) };
        0
    })
}

/// See `pmd/twin.h`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn twin_nic_new() -> *mut TwinNic {
    Box::into_raw(Box::new(TwinNic(RwLock::new(Nic::new()))))
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` comes from [`twin_nic_new`] and is used by nobody any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_free(nic: *mut TwinNic) {
    // SAFETY: it was made by `Box::into_raw` and is given back once, by the contract above.
    drop(unsafe { Box::from_raw(nic) });
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive; `rule` and its arrays can be read, `refusal` can be written to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_validate(
    nic: *const TwinNic,
    rule: *const TwinRule,
    refusal: *mut TwinRefusal,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, parts) = unsafe { (&*nic, (*rule).parts()) };
    let result = parts.and_then(|parts| {
        nic.read().validate(&parts.attributes, &parts.items, &parts.actions).map(|()| 1)
    });
    // SAFETY: by the contract above.
    unsafe { answer(result, refusal) }
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// As for [`twin_flow_validate`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_create(
    nic: *const TwinNic,
    rule: *const TwinRule,
    refusal: *mut TwinRefusal,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, parts) = unsafe { (&*nic, (*rule).parts()) };
    let result = parts.and_then(|parts| {
        let handle = nic.write().create(&parts.attributes, &parts.items, &parts.actions)?;
        Ok(handle.0)
    });
    // SAFETY: by the contract above.
    unsafe { answer(result, refusal) }
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive and `refusal` can be written to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_destroy(
    nic: *const TwinNic,
    handle: u64,
    refusal: *mut TwinRefusal,
) -> u64 {
    // SAFETY: by the contract above.
    let nic = unsafe { &*nic };
    let result = nic.write().destroy(Handle(handle)).map(|()| 1);
    // SAFETY: by the contract above.
    unsafe { answer(result, refusal) }
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_flush(nic: *const TwinNic) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().flush();
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive; `tally` has room for two numbers; `refusal` can be written to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_query(
    nic: *const TwinNic,
    handle: u64,
    reset: bool,
    tally: *mut [u64; 2],
    refusal: *mut TwinRefusal,
) -> u64 {
    // SAFETY: by the contract above.
    let nic = unsafe { &*nic };
    let result = nic.read().query(Handle(handle), reset).map(|counted| {
        // SAFETY: by the contract above.
        unsafe { tally.write([counted.hits, counted.bytes]) };
        1
    });
    // SAFETY: by the contract above.
    unsafe { answer(result, refusal) }
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive; `key` can be read, and `reta` holds `reta_len` queues.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_rss(
    nic: *const TwinNic,
    types: u16,
    key: *const [u8; KEY_LEN],
    reta: *const u16,
    reta_len: u32,
) {
    // SAFETY: by the contract above.
    let (nic, key, reta) = unsafe { (&*nic, &*key, slice(reta, reta_len)) };
    nic.write().set_rss(Rss::new(RssTypes(types), key, reta.to_vec()));
}

/// See `pmd/twin.h`.
///
/// # Safety
///
/// `nic` is alive; `frames` holds `count` frames whose bytes can be read; `verdicts` has room for
/// as many.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_classify(
    nic: *const TwinNic,
    frames: *const TwinFrame,
    count: u32,
    verdicts: *mut TwinVerdict,
) {
    // SAFETY: by the contract above.
    let (nic, frames) = unsafe { (&*nic, slice(frames, count)) };
    let nic = nic.read();
    for (place, frame) in frames.iter().enumerate() {
        // SAFETY: `bytes` holds `len` bytes, and `verdicts` has a place for every frame.
        unsafe {
            let verdict = nic.classify(slice(frame.bytes, frame.len), frame.frame_len);
            verdicts.add(place).write(verdict.into());
        }
    }
}
