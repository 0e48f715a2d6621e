// SPDX-License-Identifier: BSD-3-Clause
//! The processor's time-stamp counter, as DPDK counts it.

use crate::Eal;
use crate::sys;

/// Cycles of the time-stamp counter now. Constant rate, not serialising.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction and Linux leaves it open to programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks of the generic timer now.
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

/// Rate of [`tsc`] in hertz.
pub fn tsc_hz(_eal: &Eal) -> u64 {
    // SAFETY: the rate is measured during EAL initialisation, which `_eal` proves.
    unsafe { sys::rte_get_tsc_hz() }
}
