// SPDX-License-Identifier: BSD-3-Clause
//! Exports functions for a port that replays a capture: its frames, verdicts computed ahead, and
//! the generation that tells whether such verdicts are still valid.

use super::{TwinFrame, TwinNic, TwinVerdict, classify_each, slice};
use crate::capture::Capture;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// `struct twin_count`.
#[repr(C)]
pub(crate) struct TwinCount {
    counter: u32,
    bytes: u32,
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `path` is a string; `error` has room for `room` bytes, at least one.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_capture_read(
    path: *const c_char,
    error: *mut c_char,
    room: usize,
) -> *mut Capture {
    // SAFETY: by the contract above.
    let path = unsafe { CStr::from_ptr(path) };
    match Capture::read(Path::new(OsStr::from_bytes(path.to_bytes()))) {
        Ok(capture) => Box::into_raw(Box::new(capture)),
        Err(why) => {
            let why = why.to_string();
            let len = why.len().min(room - 1);
            // SAFETY: `len` bytes and the zero behind them fit into `room`.
            unsafe {
                ptr::copy_nonoverlapping(why.as_ptr().cast(), error, len);
                error.add(len).write(0);
            }
            ptr::null_mut()
        }
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `capture` comes from [`twin_capture_read`] and is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_capture_free(capture: *mut Capture) {
    // SAFETY: it was made by `Box::into_raw` and is given back once, by the contract above.
    drop(unsafe { Box::from_raw(capture) });
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `capture` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_capture_count(capture: *const Capture) -> usize {
    // SAFETY: by the contract above.
    unsafe { &*capture }.len()
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `capture` is alive and holds more than `place` frames; `frame` can be written to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_capture_frame(
    capture: *const Capture,
    place: usize,
    frame: *mut TwinFrame,
) {
    // SAFETY: by the contract above.
    let bytes = unsafe { &*capture }.frame(place);
    let len = bytes.len() as u32;
    // SAFETY: by the contract above.
    unsafe { frame.write(TwinFrame { bytes: bytes.as_ptr(), len, frame_len: len }) };
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive for as long as the number is read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_generation(nic: *const TwinNic) -> *const u64 {
    // SAFETY: by the contract above.
    unsafe { &*nic }.generation.as_ptr()
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive for as long as the number is read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_change_us(nic: *const TwinNic) -> *const u64 {
    // SAFETY: by the contract above.
    unsafe { &*nic }.change_us.as_ptr()
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_settle(nic: *const TwinNic, now_us: u64) {
    // SAFETY: by the contract above.
    unsafe { &*nic }.settle(now_us);
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// As for `twin_nic_classify`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_foresee(
    nic: *const TwinNic,
    frames: *const TwinFrame,
    count: u32,
    now_us: u64,
    verdicts: *mut TwinVerdict,
) {
    // SAFETY: by the contract above.
    let (nic, frames) = unsafe { (&*nic, slice(frames, count)) };
    let nic = nic.read();
    // SAFETY: by the contract above.
    unsafe { classify_each(frames, verdicts, |bytes, _| nic.foresee(bytes, now_us)) };
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` is alive; `counts` holds `count` of them.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_count(
    nic: *const TwinNic,
    counts: *const TwinCount,
    count: u32,
    now_us: u64,
) {
    // SAFETY: by the contract above.
    let (nic, counts) = unsafe { (&*nic, slice(counts, count)) };
    let nic = nic.read();
    for TwinCount { counter, bytes } in counts {
        if let Some(rule) = counter.checked_sub(1) {
            nic.count(rule, *bytes, now_us);
        }
    }
}
