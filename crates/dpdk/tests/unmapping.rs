// SPDX-License-Identifier: BSD-3-Clause
//! Memory that goes while a lcore is in a driver goes when it is out, whoever asks for that.

use dpdk::{Burst, Eal, EalConfig, ring_cable};
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread;
use std::time::Duration;
use testkit::port::{eal_config, mempool, port_config};

const PAGE: usize = 4096;
const READ: c_int = 1;
const PRIVATE_ANONYMOUS: c_int = 0x22;

type RxCallback =
    extern "C" fn(u16, u16, *mut *mut c_void, u16, received_max: u16, *mut c_void) -> u16;
type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        n: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        from: c_long,
    ) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn rte_eth_add_rx_callback(
        port: u16,
        queue: u16,
        callback: RxCallback,
        of_user: *mut c_void,
    ) -> *const c_void;
}

static SHARED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static IS_IN: AtomicBool = AtomicBool::new(false);
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// A driver that looks, is interrupted, and goes on with what it saw.
extern "C" fn slow(_: u16, _: u16, _: *mut *mut c_void, n: u16, _: u16, _: *mut c_void) -> u16 {
    let shared = SHARED.swap(ptr::null_mut(), Ordering::SeqCst);
    if !shared.is_null() {
        IS_IN.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(50));
        // SAFETY: it is mapped until this burst is over; that is what is tried.
        black_box(unsafe { shared.read_volatile() });
        IS_DONE.store(true, Ordering::SeqCst);
    }
    n
}

/// As a driver finds it, which is a library that the program loads.
fn munmap_of_drivers() -> Munmap {
    let name: &CStr = c"munmap";
    // SAFETY: a null handle is the whole program; the symbol is a function of this type.
    unsafe {
        let found = dlsym(ptr::null_mut(), name.as_ptr());
        assert!(!found.is_null());
        std::mem::transmute::<*mut c_void, Munmap>(found)
    }
}

#[test]
fn memory_stays_until_a_burst_is_over() {
    let config = EalConfig { lcores: vec![0], ..eal_config(256) };
    let mut eal = Eal::init(&config).unwrap();
    let pool = mempool(&eal, "unmapping");
    let (mut a, _b) = ring_cable(&eal, "unmapping0", 1, 255).unwrap();
    let queues = port_config(1, 256, pool);
    let (mut rx, _tx) = a.configure(&queues).unwrap();
    // SAFETY: the port, the first of this process, has this queue; the callback is never taken off.
    let added = unsafe { rte_eth_add_rx_callback(0, 0, slow, ptr::null_mut()) };
    assert!(!added.is_null());

    // SAFETY: new memory, anywhere.
    let page = unsafe { mmap(ptr::null_mut(), PAGE, READ, PRIVATE_ANONYMOUS, -1, 0) };
    assert_ne!(page.addr(), usize::MAX, "no memory");
    SHARED.store(page.cast(), Ordering::SeqCst);
    let lcore = eal.take_lcores().pop().unwrap();
    let job = lcore.launch(move || {
        let mut burst = Burst::new();
        while !IS_DONE.load(Ordering::SeqCst) {
            rx[0].burst(&mut burst);
        }
    });
    while !IS_IN.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    // SAFETY: whose memory it is does not read it any more, but for the burst that has begun.
    assert_eq!(unsafe { munmap_of_drivers()(page, PAGE) }, 0);
    assert!(IS_DONE.load(Ordering::SeqCst), "it went in the middle of a burst");
    job.join();
}
