// SPDX-License-Identifier: BSD-3-Clause
//! Notices that the kernel asks for a device: it is being unplugged, or unbound from its driver.
//!
//! Over vfio, the kernel then waits until this process closes the device, and repeats its request
//! every ten seconds. DPDK reports the request as a device event of the bus, not of the ethdev.

use crate::{log, sys};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// EAGAIN, as DPDK returns it: the callback is running.
const RUNNING: i32 = -11;

/// A device that the kernel may ask for.
pub(crate) struct ReturnRequest {
    device: CString,
    /// At the same address until the callback is unregistered.
    is_made: Box<AtomicBool>,
}

impl ReturnRequest {
    /// Waits for requests for `device`, which exists.
    pub(crate) fn watch(device: *const sys::rte_device) -> Self {
        // SAFETY: the bus names its devices with C strings.
        let device = unsafe { CStr::from_ptr(sys::rte_dev_name(device)) }.to_owned();
        let request = Self { device, is_made: Box::new(AtomicBool::new(false)) };
        let (name, flag) = (request.device.as_ptr(), request.flag());
        // SAFETY: the name is copied; the flag is valid until `drop` has unregistered the callback.
        // If there is no memory to register it, no request is noticed; nothing else depends on it.
        unsafe { sys::rte_dev_event_callback_register(name, Some(raise), flag) };
        request
    }

    /// True once the kernel has asked for the device.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Relaxed)
    }

    fn flag(&self) -> *mut c_void {
        std::ptr::from_ref(&*self.is_made).cast_mut().cast()
    }
}

impl Drop for ReturnRequest {
    fn drop(&mut self) {
        let (name, flag) = (self.device.as_ptr(), self.flag());
        // SAFETY: names the callback that `watch` registered. After this it never runs again.
        log::hush(|| unsafe {
            while sys::rte_dev_event_callback_unregister(name, Some(raise), flag) == RUNNING {
                std::thread::yield_now();
            }
        });
    }
}

/// Called with the address of the flag, by EAL's interrupt thread. It must not close the device
/// itself, because that waits for the end of this call.
extern "C" fn raise(_: *const c_char, event: sys::rte_dev_event_type, flag: *mut c_void) {
    if event == sys::BIND_DEVICE_REMOVED {
        // SAFETY: `watch` registered a flag that stays until `drop` has unregistered this.
        unsafe { &*flag.cast::<AtomicBool>() }.store(true, Ordering::Relaxed);
    }
}
