// SPDX-License-Identifier: BSD-3-Clause
//! Holds a burst: up to 64 mbufs that are received, sent and freed together.

use crate::mbuf::Segment;
use crate::{Mbuf, sys};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Maximum number of mbufs in a [`Burst`].
pub const BURST_MAX: usize = 64;

/// An array of owned mbufs, in the order of their arrival. Dropping it frees them in bulk.
pub struct Burst {
    /// The first `len` are initialised.
    mbufs: [MaybeUninit<Mbuf>; BURST_MAX],
    len: usize,
}

impl Burst {
    /// Returns an empty burst.
    pub const fn new() -> Self {
        Self { mbufs: [const { MaybeUninit::uninit() }; BURST_MAX], len: 0 }
    }

    /// Returns the number of mbufs that can still be added.
    pub fn room(&self) -> usize {
        BURST_MAX - self.len
    }

    /// Prefetches the first bytes of each packet: their cache lines may be on another cpu.
    #[inline(always)]
    pub fn prefetch(&self) {
        for mbuf in self.iter() {
            prefetch(Segment::of(mbuf).data());
        }
    }

    /// Keeps the mbufs whose index satisfies `keep`, in their order, and frees the others in bulk.
    /// Returns the number of freed mbufs.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) -> usize {
        let mut dropped = Burst::new();
        // Until the loop ends, no index may count as initialised: `keep` could panic.
        let len = std::mem::take(&mut self.len);
        let mut kept = 0;
        for i in 0..len {
            // SAFETY: `i < len` is initialised and each index is read once.
            let mbuf = unsafe { self.mbufs[i].assume_init_read() };
            if keep(i) {
                self.mbufs[kept].write(mbuf);
                kept += 1;
            } else {
                dropped.mbufs[dropped.len].write(mbuf);
                dropped.len += 1;
            }
        }
        self.len = kept;
        dropped.len
    }

    /// Passes each mbuf to `sort`, in order, and keeps those that it returns. `sort` owns the
    /// others. For the rare bursts from which some packets go elsewhere.
    pub fn sort_out(&mut self, mut sort: impl FnMut(usize, Mbuf) -> Option<Mbuf>) {
        // As in `retain`.
        let len = std::mem::take(&mut self.len);
        let mut kept = 0;
        for i in 0..len {
            // SAFETY: `i < len` is initialised and each index is read once.
            let mbuf = unsafe { self.mbufs[i].assume_init_read() };
            if let Some(mbuf) = sort(i, mbuf) {
                self.mbufs[kept].write(mbuf);
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// Adds an mbuf behind the others; returns it as the error if there is no room.
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        let Some(place) = self.mbufs.get_mut(self.len) else { return Err(mbuf) };
        place.write(mbuf);
        self.len += 1;
        Ok(())
    }

    /// Removes the last mbuf.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was initialised, and does not count as such any more.
        Some(unsafe { self.mbufs[self.len].assume_init_read() })
    }

    /// Moves the last `count` mbufs of `other` behind those of this burst, in their order.
    ///
    /// # Panics
    /// If `other` has fewer, or this burst has room for fewer.
    #[inline(always)]
    pub fn append_last(&mut self, other: &mut Self, count: usize) {
        let from = other.len.checked_sub(count).expect("enough mbufs to move");
        let places = &mut self.mbufs[self.len..self.len + count];
        for (place, mbuf) in places.iter_mut().zip(&other.mbufs[from..]) {
            // SAFETY: the mbuf was initialised, and counts as such in this burst only.
            place.write(unsafe { mbuf.assume_init_read() });
        }
        other.len = from;
        self.len += count;
    }

    /// Frees all mbufs in bulk; returns their number.
    pub fn free_all(&mut self) -> usize {
        let count = std::mem::take(&mut self.len);
        if count > 0 {
            // SAFETY: the first `count` are valid, owned, and no longer count as initialised.
            unsafe { sys::rte_pktmbuf_free_bulk(self.as_raw(), count as u32) };
        }
        count
    }

    /// Lets `fill` write mbufs into the free room. `fill` gets a pointer to the first free place
    /// and the number of places, and returns how many mbufs it wrote.
    ///
    /// # Safety
    /// `fill` must write as many valid mbufs as it returns, each without another owner.
    #[inline(always)]
    pub(crate) unsafe fn fill(
        &mut self,
        fill: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> usize {
        let (len, room) = (self.len, self.room());
        // SAFETY: `len <= BURST_MAX`: inside the array or one past it.
        let free = unsafe { self.as_raw().add(len) };
        let added = usize::from(fill(free, room as u16));
        debug_assert!(added <= room);
        self.len += added;
        added
    }

    /// Lets `take` take mbufs from the front. `take` gets a pointer to the first mbuf and their
    /// number, and returns how many of the first ones it took.
    ///
    /// # Safety
    /// `take` must own afterwards as many of the first mbufs as it returns, and no other.
    #[inline(always)]
    pub(crate) unsafe fn take_front(
        &mut self,
        take: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> usize {
        let first = self.as_raw();
        let taken = usize::from(take(first, self.len as u16));
        debug_assert!(taken <= self.len);
        self.len -= taken;
        if self.len > 0 {
            // SAFETY: the `len` mbufs behind the taken ones move to the front of the same array.
            unsafe { std::ptr::copy(first.add(taken), first, self.len) };
        }
        taken
    }

    /// Returns the array as DPDK uses it: `Mbuf` is transparent over DPDK's pointer.
    #[inline(always)]
    fn as_raw(&mut self) -> *mut *mut sys::rte_mbuf {
        self.mbufs.as_mut_ptr().cast()
    }
}

#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that never faults; SSE is in the baseline.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly));
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Burst {
    type Target = [Mbuf];

    #[inline(always)]
    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` are initialised.
        unsafe { std::slice::from_raw_parts(self.mbufs.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Burst {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: the first `len` are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.mbufs.as_mut_ptr().cast(), self.len) }
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.free_all();
    }
}
