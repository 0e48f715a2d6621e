// SPDX-License-Identifier: BSD-3-Clause
//! Reads the processor's time-stamp counter, which DPDK uses too.

use crate::Eal;
use crate::sys;
use std::hint::black_box;
use std::sync::OnceLock;

/// Returns the current value of the time-stamp counter. Its rate is constant; the read does not
/// serialise.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction and Linux leaves it open to programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns the current value of the generic timer.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub fn tsc() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that Linux leaves open to programs; touches neither memory nor flags.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

/// Returns the time-stamp counter after all earlier loads are done. [`tsc`] may be read while they
/// still wait for memory.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn tsc_after_loads() -> u64 {
    // SAFETY: LFENCE belongs to SSE2, which every x86-64 processor has; for the rest see `tsc`.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// Returns the generic timer after all earlier loads are done.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub fn tsc_after_loads() -> u64 {
    // SAFETY: waits for loads, and for the instructions before; changes nothing else. Not `nomem`:
    // the compiler leaves those loads in front of it.
    unsafe { core::arch::asm!("dsb ld", "isb", options(nostack, preserves_flags)) };
    tsc()
}

/// Returns the cycles that one reading of [`tsc`] takes: the median of the times between two
/// readings. Measured at the first call.
pub fn tsc_reading_cycles() -> u64 {
    static CYCLES: OnceLock<u64> = OnceLock::new();
    *CYCLES.get_or_init(|| {
        let clock: fn() -> u64 = black_box(tsc);
        let mut last = clock();
        let mut between: [u64; 1001] = std::array::from_fn(|_| {
            let before = std::mem::replace(&mut last, clock());
            last.wrapping_sub(before)
        });
        between.sort_unstable();
        between[between.len() / 2]
    })
}

/// Returns the rate of [`tsc`] in hertz.
pub fn tsc_hz(_eal: &Eal) -> u64 {
    // SAFETY: the rate is measured during EAL initialisation, which `_eal` proves.
    unsafe { sys::rte_get_tsc_hz() }
}
