// SPDX-License-Identifier: BSD-3-Clause
//! Exports functions that read and set properties of a port's NIC other than its rules.

use super::{TwinCall, TwinNic, slice};
use crate::checksum::Checks;
use crate::rss::{KEY_LEN, Rss, RssTypes};

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_has_async(nic: *const TwinNic) -> bool {
    // SAFETY: by the contract above.
    unsafe { &*nic }.read().personality().operations.r#async
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_started(nic: *const TwinNic, is_started: bool) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.change(|model| model.set_started(is_started));
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_go_down(nic: *const TwinNic) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().go_down();
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_bring_back(nic: *const TwinNic) -> bool {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().bring_back()
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_switch(nic: *const TwinNic, has_switch: bool) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().set_switch(has_switch);
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_reorder_chance(nic: *const TwinNic) -> f64 {
    // SAFETY: by the contract above.
    unsafe { &*nic }.read().reorder_chance()
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_queues(nic: *const TwinNic, queues: u16) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().set_queues(queues);
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_checks(nic: *const TwinNic, checks: u8) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.write().set_checks(Checks(checks));
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `key` can be read, and `reta` holds `reta_len` queues.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_rss(
    nic: *const TwinNic,
    types: u32,
    key: *const [u8; KEY_LEN],
    reta: *const u16,
    reta_len: u32,
) {
    // SAFETY: by the contract above.
    let (nic, key, reta) = unsafe { (&*nic, &*key, slice(reta, reta_len)) };
    // Before the lock is taken, because building the tables takes long and packets wait for it.
    let rss = Rss::new(RssTypes(types), key, reta.to_vec());
    nic.write().set_rss(rss);
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive and no other thread uses `call`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_flow_isolate(
    nic: *const TwinNic,
    is_isolated: bool,
    call: *mut TwinCall,
) -> u64 {
    // SAFETY: by the contract above.
    let (nic, call) = unsafe { (&*nic, &mut *call) };
    let result = nic.write().isolate(is_isolated).map(|()| 1);
    call.answer(result)
}
