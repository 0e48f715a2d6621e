// SPDX-License-Identifier: BSD-3-Clause
//! Exports functions that create and free a NIC.

use super::TwinNic;
use crate::faults::Faults;
use crate::nic::Nic;
use crate::personality::Personality;
use std::ffi::{CStr, c_char};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, RwLock};

/// Creates the NIC of a port, with its faults. The error names the personality or fault that is
/// not valid.
fn play(personality: &str, seed: u64, faults: &str) -> Result<Nic, String> {
    let personality = Personality::named(personality).map_err(|error| error.to_string())?;
    let faults = Faults::parse(faults, seed).map_err(|error| error.to_string())?;
    Ok(Nic::with_faults(personality, seed, faults))
}

impl TwinNic {
    pub(super) fn of(nic: Nic) -> Self {
        Self {
            nic: RwLock::new(nic),
            generation: AtomicU64::new(1),
            change_us: AtomicU64::new(0),
            follower: Mutex::new(None),
        }
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `personality` and `faults` are strings, and `message` has room for `message_len` bytes, at least
/// one.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_new(
    personality: *const c_char,
    seed: u64,
    faults: *const c_char,
    message: *mut u8,
    message_len: u32,
) -> *mut TwinNic {
    // SAFETY: by the contract above.
    let (personality, faults) = unsafe { (CStr::from_ptr(personality), CStr::from_ptr(faults)) };
    match play(&personality.to_string_lossy(), seed, &faults.to_string_lossy()) {
        Ok(nic) => Box::into_raw(Box::new(TwinNic::of(nic))),
        Err(text) => {
            // SAFETY: by the contract above.
            let room = unsafe { std::slice::from_raw_parts_mut(message, message_len as usize) };
            let len = text.len().min(room.len() - 1);
            room[..len].copy_from_slice(&text.as_bytes()[..len]);
            room[len] = 0;
            std::ptr::null_mut()
        }
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` comes from [`twin_nic_new`] and is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_free(nic: *mut TwinNic) {
    // SAFETY: it was made by `Box::into_raw` and is given back once, by the contract above.
    drop(unsafe { Box::from_raw(nic) });
}
