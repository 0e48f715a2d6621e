// SPDX-License-Identifier: BSD-3-Clause
//! Allocates pools of mbufs. They are never freed, because a pool must outlive all of its mbufs,
//! and these may be anywhere.

use crate::error::{Errno, MempoolError};
use crate::{Burst, Eal, log, sys};
use std::ffi::CString;
use std::ptr::NonNull;

/// A handle of a pool of mbufs; copies name the same pool.
#[derive(Clone, Copy, Debug)]
pub struct Mempool {
    pool: NonNull<sys::rte_mempool>,
    data_room_bytes: u16,
}

// SAFETY: a mempool serves any number of threads at once, and is never freed.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

/// Mbufs that each lcore keeps for itself: a few bursts, so that the shared ring is rarely touched.
const CACHE_MAX: u32 = 256;

impl Mempool {
    /// Allocates `count` mbufs, each with room for `data_room_bytes` of frame beside the headroom,
    /// on NUMA node `socket_id` (`None`: any). `name` must be new in this process.
    ///
    /// A count of a power of two minus one wastes no memory.
    pub fn new(
        _eal: &Eal,
        name: &str,
        count: u32,
        data_room_bytes: u16,
        socket_id: Option<u32>,
    ) -> Result<Self, MempoolError> {
        let fail = |errno, log| MempoolError { name: name.into(), count, errno, log };
        let c_name = CString::new(name).map_err(|_| fail(Errno::Invalid, Default::default()))?;
        let room = u16::try_from(sys::RTE_PKTMBUF_HEADROOM)
            .ok()
            .and_then(|headroom| data_room_bytes.checked_add(headroom))
            .ok_or_else(|| fail(Errno::Invalid, Default::default()))?;
        let cache = CACHE_MAX.min(count / 4);
        let socket = socket_id.map_or(sys::BIND_SOCKET_ANY, |id| id as i32);
        let (result, log) = log::capture(|| {
            // SAFETY: EAL is up (`_eal`) and the name is a C string, which DPDK copies.
            let pool = unsafe {
                sys::rte_pktmbuf_pool_create(c_name.as_ptr(), count, cache, 0, room, socket)
            };
            NonNull::new(pool).ok_or_else(Errno::last)
        });
        result.map(|pool| Self { pool, data_room_bytes }).map_err(|errno| fail(errno, log))
    }

    /// Adds `count` empty mbufs to `burst`. If the pool has fewer left, it adds none and returns
    /// false.
    ///
    /// # Panics
    /// If `burst` has room for fewer.
    #[inline]
    pub fn alloc_bulk(&self, burst: &mut Burst, count: usize) -> bool {
        assert!(count <= burst.room(), "a burst with room for {} mbufs", burst.room());
        // SAFETY: DPDK writes `count` fresh mbufs, which fit, or returns an error and writes none.
        let added = unsafe {
            burst.fill(|free, _| {
                let count = count as u16;
                let ret = sys::shim_alloc_bulk(self.pool.as_ptr(), free, u32::from(count));
                if ret == 0 { count } else { 0 }
            })
        };
        added == count
    }

    /// Returns the number of mbufs that are out of the pool: in bursts, in queues of ports, in
    /// rings. Exact only while no other thread uses the pool.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool is never freed.
        unsafe { sys::rte_mempool_in_use_count(self.pool.as_ptr()) }
    }

    /// Returns the bytes of frame for which one mbuf has room.
    pub(crate) fn data_room_bytes(self) -> u32 {
        self.data_room_bytes.into()
    }

    pub(crate) fn as_raw(self) -> *mut sys::rte_mempool {
        self.pool.as_ptr()
    }
}
