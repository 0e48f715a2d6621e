// SPDX-License-Identifier: BSD-3-Clause
//! The C interface that `pmd/` calls. Its functions are declared and described in
//! `pmd/twin_model.h`.
//!
//! Layouts on both sides must agree: both sides assert the same sizes. A panic ends the process,
//! because it is a programming error and must not unwind into C.
#![allow(unsafe_code)]

use crate::action::{Action, Age, Spread};
use crate::nic::{Nic, PortForwards, Verdict};
use crate::pattern::{Attributes, HEADER_MAX, Item, ItemSpec, Proto};
use crate::refusal::{Errno, Kind, Place, Refusal};
use crate::rss::RssTypes;
use crate::rule_check::{Rule, refusal_of_unknown};
use crate::rules::{Counted, Handle};
use std::ffi::{CStr, c_char};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, RwLock};

mod capture;
mod change;
mod inspect;
mod lifetime;
mod port;

/// `struct twin_nic`.
pub(crate) struct TwinNic {
    nic: RwLock<Nic>,
    /// Verdicts of an older generation may be out of date.
    generation: AtomicU64,
    /// Time at which the next generation begins by the clock, in microseconds; 0 for never.
    change_us: AtomicU64,
    /// The client that stores verdicts of the replayed capture, if there is one. A thread that
    /// changes rules holds this lock, and takes it before `nic`.
    follower: Mutex<Option<change::CaptureClient>>,
}

/// `struct twin_item`.
#[repr(C)]
pub(crate) struct TwinItem {
    /// Headers as in a packet, or null.
    spec: *const u8,
    last: *const u8,
    mask: *const u8,
    proto: u16,
    /// Bits: spec, last, mask.
    given: u8,
    follower_matters: u8,
    is_followed: u8,
}

/// `struct twin_action`.
#[repr(C)]
pub(crate) struct TwinAction {
    kind: u32,
    value: u32,
    context: u64,
    queues: *const u16,
    queue_count: u32,
}

/// `struct twin_rule`.
#[repr(C)]
pub(crate) struct TwinRule {
    group: u32,
    priority: u32,
    /// Bits: ingress, egress, transfer; the pattern names the port.
    direction: u32,
    item_count: u32,
    action_count: u32,
    items: *const TwinItem,
    actions: *const TwinAction,
}

/// `struct twin_call`.
#[repr(C)]
pub(crate) struct TwinCall {
    now_us: u64,
    wait_us: u32,
    errno: i32,
    kind: u32,
    /// 0 for the rule, 1 for an item, 2 for an action.
    place_kind: u32,
    place: u32,
    message: *const c_char,
}

/// `struct twin_frame`.
#[repr(C)]
pub(crate) struct TwinFrame {
    bytes: *const u8,
    /// Bytes that are present.
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
    /// Counter of the rule that counts, plus one; 0 if no rule counts, `COUNTED_OFTEN` if several
    /// do.
    counter: u32,
}

/// `struct twin_tally`.
#[repr(C)]
pub(crate) struct TwinTally {
    hits: u64,
    bytes: u64,
    has_bytes: u8,
}

const _: () = assert!(size_of::<TwinItem>() == 8 + 3 * size_of::<*const u8>());
const _: () = assert!(size_of::<TwinAction>() == 24 + size_of::<*const u16>());
const _: () = assert!(size_of::<TwinRule>() == 24 + 2 * size_of::<*const u8>());
const _: () = assert!(size_of::<TwinCall>() == 32 + size_of::<*const u8>());
const _: () = assert!(size_of::<TwinFrame>() == 8 + size_of::<*const u8>());
const _: () = assert!(size_of::<TwinVerdict>() == 24 && size_of::<TwinTally>() == 24);

const HAS_MARK: u32 = 1;
const HAS_FLAG: u32 = 2;
const HAS_HASH: u32 = 4;
const DROPPED: u32 = 8;
/// Bit for a good checksum; the next higher bit stands for a bad one.
const NETWORK_GOOD: u32 = 16;
const TRANSPORT_GOOD: u32 = 64;
/// Bits for the wire of another port, and for another port; the port is in `queue`.
const TO_WIRE: u32 = 256;
const TO_PORT: u32 = 512;
const COUNTED_OFTEN: u32 = u32::MAX;

/// Converts a slice of C; an empty one may be null.
///
/// # Safety
///
/// `start` is null or points to `count` values to which no thread writes during `'a`.
unsafe fn slice<'a, T>(start: *const T, count: u32) -> &'a [T] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: not null, so it holds `count` values for `'a`, by the contract above.
    unsafe { std::slice::from_raw_parts(start, count as usize) }
}

/// A rule in the model's types.
struct Parts {
    attributes: Attributes,
    items: Vec<Item>,
    actions: Vec<Action>,
}

impl Parts {
    fn rule(&self) -> Rule<'_> {
        Rule { attributes: self.attributes, items: &self.items, actions: &self.actions }
    }
}

impl TwinRule {
    /// Converts the rule into the types of the model.
    ///
    /// # Safety
    ///
    /// `items`, `actions` and the queues of each action hold as many as their counts say. Items
    /// point to whole headers.
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
            names_port: has(8),
        };
        let mut parts = Parts {
            attributes,
            items: Vec::with_capacity(items.len()),
            actions: Vec::with_capacity(actions.len()),
        };
        for (place, item) in items.iter().enumerate() {
            // SAFETY: its headers are those of a live rule, by the contract above.
            let item = unsafe { item_of(item) };
            parts.items.push(item.ok_or(NO_ITEM.at(Place::Item(place)))?);
        }
        for (place, action) in actions.iter().enumerate() {
            // SAFETY: its queues are those of a live rule, by the contract above.
            let action = unsafe { action_of(action) };
            parts.actions.push(action.ok_or(NO_ACTION.at(Place::Action(place)))?);
        }
        Ok(parts)
    }
}

const NO_ITEM: Refusal = Refusal::new(Errno::ENOTSUP, Kind::Item, c"this item is not supported");
const NO_ACTION: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"this action is not supported");

/// Converts an item; returns `None` if the model does not know its protocol.
///
/// # Safety
///
/// `spec`, `last` and `mask` are null or point to a header of the protocol.
unsafe fn item_of(item: &TwinItem) -> Option<Item> {
    let given = |bit: u8| item.given & bit != 0;
    let proto = Proto::of_number(item.proto)?;
    let header = |bytes: *const u8| {
        let mut header = [0; HEADER_MAX];
        // SAFETY: by the contract above.
        let bytes = unsafe { slice(bytes, proto.header_len() as u32) };
        header[..bytes.len()].copy_from_slice(bytes);
        header
    };
    Some(Item {
        proto,
        given: ItemSpec { spec: given(1), last: given(2), mask: given(4) },
        spec: header(item.spec),
        last: header(item.last),
        mask: header(item.mask),
        followed: (item.follower_matters != 0).then_some(item.is_followed != 0),
    })
}

/// Converts an action, by the numbers of `enum twin_action_kind`.
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
            Some(Action::Rss(Spread { types: RssTypes(action.value), queues: queues.into() }))
        }
        8 => Some(Action::Jump(action.value)),
        9 => Some(Action::Age(Age { timeout_s: action.value, context: action.context })),
        10 => Some(Action::PortId(u16::try_from(action.value).ok()?)),
        11 => Some(Action::RepresentedPort(u16::try_from(action.value).ok()?)),
        // A value above all port numbers (`TWIN_OWN_PORT`) means the port of the rule.
        12 => Some(Action::PortRepresentor(u16::try_from(action.value).ok())),
        _ => None,
    }
}

impl TwinCall {
    fn refuse(&mut self, refusal: Refusal) {
        let (place_kind, place) = match refusal.place {
            Place::Rule => (0, 0),
            Place::Item(place) => (1, place),
            Place::Action(place) => (2, place),
        };
        self.errno = refusal.errno as i32;
        self.kind = refusal.kind as u32;
        self.place_kind = place_kind;
        self.place = place as u32;
        self.message = refusal.message.map_or(std::ptr::null(), CStr::as_ptr);
    }

    /// Returns the value, or 0 after noting the refusal.
    fn answer(&mut self, result: Result<u64, Refusal>) -> u64 {
        result.unwrap_or_else(|refusal| {
            self.refuse(refusal);
            0
        })
    }
}

impl From<Verdict> for TwinVerdict {
    fn from(verdict: Verdict) -> Self {
        let Verdict {
            mark, flag, queue, hash, drop, network, transport, checksums, counted, ..
        } = verdict;
        let (elsewhere, queue) = match verdict.elsewhere {
            Some(PortForwards::Wire(port)) => (TO_WIRE, port),
            Some(PortForwards::Port(port)) => (TO_PORT, port),
            None => (0, queue),
        };
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let checked = |is_good: Option<bool>, good: u32| {
            is_good.map_or(0, |is_good| if is_good { good } else { good << 1 })
        };
        let flags = bit(mark.is_some(), HAS_MARK)
            | bit(flag, HAS_FLAG)
            | bit(hash.is_some(), HAS_HASH)
            | bit(drop, DROPPED)
            | elsewhere
            | checked(checksums.network, NETWORK_GOOD)
            | checked(checksums.transport, TRANSPORT_GOOD);
        let number = |proto: Option<Proto>| proto.map_or(0, |proto| proto as u16);
        Self {
            flags,
            mark: mark.unwrap_or(0),
            hash: hash.unwrap_or(0),
            queue,
            network: number(network),
            transport: number(transport),
            counter: match counted {
                Counted::Not => 0,
                Counted::By(counter) => counter + 1,
                Counted::Often => COUNTED_OFTEN,
            },
        }
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `rule` and its arrays can be read; no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_validate(
    nic: *const TwinNic,
    rule: *const TwinRule,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, parts, call) = unsafe { (&*nic, (*rule).parts(), &mut *call) };
    let parts = parts.map_err(|refusal| refusal_of_unknown(nic.read().personality(), refusal));
    call.answer(parts.and_then(|parts| nic.read().validate(parts.rule()).map(|()| 1)))
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// As for [`twin_flow_validate`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_create(
    nic: *const TwinNic,
    rule: *const TwinRule,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, parts, call) = unsafe { (&*nic, (*rule).parts(), &mut *call) };
    let now_us = call.now_us;
    let parts = parts.map_err(|refusal| refusal_of_unknown(nic.read().personality(), refusal));
    let result = parts.and_then(|parts| {
        let answer = nic.create(parts.rule(), now_us)?;
        call.wait_us = answer.wait_us;
        Ok(answer.value.0)
    });
    call.answer(result)
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive and no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_destroy(
    nic: *const TwinNic,
    handle: u64,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let result = nic.destroy(Handle(handle), call.now_us).map(|answer| {
        call.wait_us = answer.wait_us;
        1
    });
    call.answer(result)
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_exists(nic: *const TwinNic, handle: u64) -> bool {
    // SAFETY: by the contract above.
    unsafe { &*nic }.read().has(Handle(handle))
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// As for [`twin_flow_destroy`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_flush(nic: *const TwinNic, call: *mut TwinCall) -> u64 {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let result = nic.change(Nic::flush).map(|()| 1);
    call.answer(result)
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `tally` can be written to; no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_query(
    nic: *const TwinNic,
    handle: u64,
    reset: bool,
    tally: *mut TwinTally,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let result = nic.read().query(Handle(handle), reset, call.now_us).map(|counted| {
        let has_bytes = counted.bytes.is_some().into();
        let bytes = counted.bytes.unwrap_or(0);
        // SAFETY: by the contract above.
        unsafe { tally.write(TwinTally { hits: counted.hits, bytes, has_bytes }) };
        1
    });
    call.answer(result)
}

/// See `pmd/twin_model.h`.
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
    now_us: u64,
    verdicts: *mut TwinVerdict,
) {
    // SAFETY: by the contract above.
    let (nic, frames) = unsafe { (&*nic, slice(frames, count)) };
    let nic = nic.read();
    let classify = |bytes: &[u8], len| nic.classify(bytes, len, now_us);
    // SAFETY: by the contract above.
    unsafe { classify_each(frames, verdicts, classify) };
}

/// # Safety
///
/// The bytes of the frames can be read, and `verdicts` has room for as many.
unsafe fn classify_each(
    frames: &[TwinFrame],
    verdicts: *mut TwinVerdict,
    classify: impl Fn(&[u8], u32) -> Verdict,
) {
    for (place, frame) in frames.iter().enumerate() {
        // SAFETY: `bytes` holds `len` bytes, and `verdicts` has a place for every frame.
        unsafe {
            let verdict = classify(slice(frame.bytes, frame.len), frame.frame_len);
            verdicts.add(place).write(verdict.into());
        }
    }
}
