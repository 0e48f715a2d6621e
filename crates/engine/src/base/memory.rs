// SPDX-License-Identifier: BSD-3-Clause
//! Owns the fixed memory regions of the engine, prefetch instructions, and the compare of eight
//! tags.
//!
//! The flow table has no other unsafe code.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::iter::Sum;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

const CACHE_LINE: usize = 64;

/// A fixed array, allocated at start and aligned to cache lines.
///
/// It lies on huge pages where the system grants them. Every page is touched before the first
/// packet.
pub(crate) struct HugeRegion<T: Copy> {
    base: NonNull<T>,
    len: usize,
    pages: Backing,
}

/// Source of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// The allocator: the region is small, or huge pages were not requested.
    Ordinary,
    /// Huge pages from the system's pool.
    Huge,
    /// The allocator, because the pool had too few huge pages.
    Refused,
}

/// Memory that was allocated at start, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Total.
    pub bytes: usize,
    /// Part on 2 MB pages of the system's pool.
    pub huge_page_bytes: usize,
    /// Part for which the pool had too few pages. The kernel may back it with transparent huge
    /// pages.
    pub refused_bytes: usize,
}

impl Sum for MemoryUse {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            bytes: sum.bytes + part.bytes,
            huge_page_bytes: sum.huge_page_bytes + part.huge_page_bytes,
            refused_bytes: sum.refused_bytes + part.refused_bytes,
        })
    }
}

impl<T: Copy> HugeRegion<T> {
    /// Allocates a region with `len` (at least 1) copies of `value`.
    ///
    /// With `huge_pages`, huge pages from the system's pool are tried first. Transparent huge pages
    /// are always requested for memory of the allocator.
    ///
    /// # Panics
    /// If `len` or the size of `T` is 0, or if the region is larger than the address space.
    pub(crate) fn new(len: usize, value: T, huge_pages: bool) -> Self {
        let layout = Self::layout(len);
        let mapped = if huge_pages { map_huge_pages(layout) } else { None };
        let pages = match mapped {
            Some(_) => Backing::Huge,
            None if huge_pages && layout.align() == HUGE_PAGE => Backing::Refused,
            None => Backing::Ordinary,
        };
        let base = mapped.unwrap_or_else(|| {
            // SAFETY: `layout` has a non-zero size, `layout()` asserts it.
            let Some(base) = NonNull::new(unsafe { alloc(layout) }) else {
                handle_alloc_error(layout)
            };
            advise_huge_pages(base, layout);
            base
        });
        let base = base.cast::<T>();
        for i in 0..len {
            // SAFETY: `base` is valid for writes of `len` aligned `T` by `layout()`, and i < len.
            unsafe { base.add(i).write(value) };
        }
        Self { base, len, pages }
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0 && size_of::<T>() > 0, "a region holds at least one byte");
        let layout = Layout::array::<T>(len).expect("region larger than the address space");
        let align = if layout.size() >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        layout.align_to(align).expect("region larger than the address space")
    }

    /// Returns the size of this region and the kind of pages it lies on.
    pub(crate) fn memory(&self) -> MemoryUse {
        let bytes = Self::layout(self.len).size();
        let part = |pages| if self.pages == pages { bytes } else { 0 };
        MemoryUse {
            bytes,
            huge_page_bytes: part(Backing::Huge),
            refused_bytes: part(Backing::Refused),
        }
    }

    /// Returns element `i` modulo the length if the length is a power of two; else some element.
    #[inline(always)]
    pub(crate) fn wrapping_get(&self, i: usize) -> &T {
        // SAFETY: `x & (len - 1)` is less than `len`, which is at least 1. `new` initialised all
        // `len` elements at `base`, owned by self.
        unsafe { &*self.base.as_ptr().add(i & (self.len - 1)) }
    }

    /// Prefetches the cache line at byte `offset` of element `i` into the first-level cache.
    ///
    /// Any index is allowed; a prefetch outside the region has no effect on the program.
    #[inline(always)]
    pub(crate) fn prefetch(&self, i: usize, offset: usize) {
        prefetch(self.base.as_ptr().wrapping_add(i).cast::<u8>().wrapping_add(offset));
    }

    /// Prefetches the cache line at byte `offset` of element `i` into the second-level cache only.
    ///
    /// More loads can run at once this way: none of them occupies one of the few buffers between
    /// the first level and the second (16 on Sapphire Rapids).
    #[inline(always)]
    pub(crate) fn prefetch_many(&self, i: usize, offset: usize) {
        prefetch_into::<FAR>(self.base.as_ptr().wrapping_add(i).cast::<u8>().wrapping_add(offset));
    }
}

impl<T: Copy> Deref for HugeRegion<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` initialised `len` elements at `base`, owned by self until drop.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for HugeRegion<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for HugeRegion<T> {
    fn drop(&mut self) {
        let (base, layout) = (self.base.as_ptr().cast(), Self::layout(self.len));
        if self.pages == Backing::Huge {
            unmap_huge_pages(base, layout);
        } else {
            // SAFETY: allocated in `new` with the same layout; `T: Copy` has nothing to drop.
            unsafe { dealloc(base, layout) }
        }
    }
}

// SAFETY: a region owns its memory alone, like a `Box<[T]>`.
unsafe impl<T: Copy + Send> Send for HugeRegion<T> {}

// SAFETY: shared access only reads, like a `Box<[T]>`.
unsafe impl<T: Copy + Sync> Sync for HugeRegion<T> {}

/// Maps memory for `layout` from the system's pool of huge pages.
///
/// The pool is available even if memory is fragmented or transparent huge pages are off. Returns
/// `None` if the pool has too few pages, or if the region is smaller than one page.
fn map_huge_pages(layout: Layout) -> Option<NonNull<u8>> {
    #[cfg(all(target_os = "linux", not(miri)))]
    if layout.align() == HUGE_PAGE {
        let flags =
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
        let (len, protection) = (mapped_len(layout), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, of no file, at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // The kernel may promise a page that a container's limit denies. Using it would end the
        // process. SAFETY: fills the new mapping with pages, or returns an error.
        if unsafe { libc::madvise(base, len, libc::MADV_POPULATE_WRITE) } != 0 {
            unmap_huge_pages(base.cast(), layout);
            return None;
        }
        return NonNull::new(base.cast());
    }
    let _ = layout;
    None
}

/// Unmaps the memory that `map_huge_pages` mapped for `layout` at `base`.
fn unmap_huge_pages(base: *mut u8, layout: Layout) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: `map_huge_pages` mapped this range, and no reference into it is left: its region is
    // being dropped, or was never made.
    unsafe {
        libc::munmap(base.cast(), mapped_len(layout));
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (base, layout);
}

/// Returns the size of `layout` in bytes, rounded up to whole huge pages.
fn mapped_len(layout: Layout) -> usize {
    layout.size().next_multiple_of(HUGE_PAGE)
}

/// Asks the kernel for transparent huge pages under this memory.
///
/// On 4 KiB pages, random probes over hundreds of megabytes miss the TLB at every packet. A kernel
/// without transparent huge pages refuses; that costs only speed, so the result is ignored.
fn advise_huge_pages(base: NonNull<u8>, layout: Layout) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if layout.align() == HUGE_PAGE {
        // SAFETY: the range is one live allocation of ours; the advice does not change its bytes.
        unsafe { libc::madvise(base.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (base, layout);
}

/// Prefetches the cache line of `address`, which need not be valid, into the first-level cache.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    prefetch_into::<NEAR>(address);
}

/// Selects the first-level cache in `prefetch_into`. [`FAR`] selects the second level.
const NEAR: u8 = 1;

const FAR: u8 = 2;

#[inline(always)]
fn prefetch_into<const CACHE: u8>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect but on the caches; SSE is in the baseline.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match CACHE {
            NEAR => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above: PRFM is a hint.
    unsafe {
        use core::arch::asm;
        match CACHE {
            NEAR => asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly)),
            _ => asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, readonly)),
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Returns a bit mask of the tags that equal `tag`: bit `i` is set if `tags[i] == tag`.
#[inline(always)]
pub(crate) fn match_tags(tags: &[u16; 8], tag: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is in the baseline; the load is unaligned and reads the 16 bytes of `tags`.
    unsafe {
        use core::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
            _mm_setzero_si128,
        };
        let tags = _mm_loadu_si128(tags.as_ptr().cast());
        let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    match_tags_portable(tags, tag)
}

/// Returns a bit mask of the tags that equal `tag`, without SSE2. The compiler vectorises it where
/// it can.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn match_tags_portable(tags: &[u16; 8], tag: u16) -> u32 {
    tags.iter().enumerate().map(|(i, &t)| u32::from(t == tag) << i).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_initialised_and_counted() {
        // Must pass with and without huge pages in the pool.
        for (len, huge_pages) in
            [(1, true), (7, false), (64, true), (100_000, false), (99_999, true)]
        {
            let mut region = HugeRegion::new(len, [7_u64; 8], huge_pages);
            assert_eq!(region.len(), len);
            assert_eq!(region.as_ptr().align_offset(CACHE_LINE), 0);
            assert!(region.iter().all(|line| *line == [7; 8]));
            let MemoryUse { bytes, huge_page_bytes, refused_bytes } = region.memory();
            assert_eq!(bytes, len * 64);
            let wanted = if huge_pages && bytes >= HUGE_PAGE { bytes } else { 0 };
            assert_eq!(huge_page_bytes + refused_bytes, wanted);
            region[len - 1] = [1; 8];
            assert_eq!(region[len - 1], [1; 8]);
            region.prefetch(len * 2, 0);
        }
    }

    #[test]
    fn both_tag_matchers_agree() {
        let tags = [1, 2, 3, 0xffff, 1, 0, 0x8000, 1];
        for tag in [0, 1, 2, 3, 4, 0x7fff, 0x8000, 0xffff] {
            assert_eq!(match_tags(&tags, tag), match_tags_portable(&tags, tag));
        }
        assert_eq!(match_tags(&tags, 1), 0b1001_0001);
    }
}
