// SPDX-License-Identifier: BSD-3-Clause
//! Exports queries about rules other than counters: ages, aged rules, and the list of rules.

use super::{TwinCall, TwinNic};
use crate::refusal::Refusal;
use crate::rules::Handle;
use std::ffi::{CString, c_char};

/// Number of rules that are examined under one lock.
const RULES_AT_ONCE: usize = 4096;

/// `struct twin_idle`.
#[repr(C)]
pub(crate) struct TwinIdle {
    idle_us: u64,
    is_aged: u8,
}

const _: () = assert!(size_of::<TwinIdle>() == 16);

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `idle` can be written to; no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_idle(
    nic: *const TwinNic,
    handle: u64,
    idle: *mut TwinIdle,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let result = nic.read().idle(Handle(handle), call.now_us).map(|found| {
        // SAFETY: by the contract above.
        unsafe { idle.write(TwinIdle { idle_us: found.idle_us, is_aged: found.is_aged.into() }) };
        1
    });
    call.answer(result)
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `contexts` has room for `room` of them.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_aged(
    nic: *const TwinNic,
    now_us: u64,
    contexts: *mut u64,
    room: u32,
) -> u32 {
    // SAFETY: by the contract above.
    let nic = unsafe { &*nic }.read();
    let mut count = 0;
    for context in nic.aged(now_us) {
        if count < room {
            // SAFETY: there is room for it, by the contract above.
            unsafe { contexts.add(count as usize).write(context) };
        }
        count += 1;
    }
    count
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_is_ageing_news(nic: *const TwinNic, now_us: u64) -> bool {
    // SAFETY: by the contract above.
    let nic = unsafe { &*nic };
    let mut has_new = false;
    // A writer waits for readers, and all others wait for the writer: not for long.
    for begin in (0..).step_by(RULES_AT_ONCE) {
        let model = nic.read();
        if begin >= model.ageing() {
            break;
        }
        has_new |= model.is_ageing_news(begin..begin + RULES_AT_ONCE, now_us);
    }
    has_new
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_dump(
    nic: *const TwinNic,
    handle: u64,
    call: *mut TwinCall,
) -> *mut c_char {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let mut text = None;
    let wanted = (handle != 0).then_some(Handle(handle));
    let result: Result<u64, Refusal> = nic.read().dump(wanted, call.now_us).map(|dumped| {
        text = CString::new(dumped).ok();
        1
    });
    call.answer(result);
    text.map_or(std::ptr::null_mut(), CString::into_raw)
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `text` comes from [`twin_flow_dump`], is not null, and is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_text_free(text: *mut c_char) {
    // SAFETY: it was made by `CString::into_raw` and is given back once, by the contract above.
    drop(unsafe { CString::from_raw(text) });
}
