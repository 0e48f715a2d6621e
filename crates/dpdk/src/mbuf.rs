// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes a packet buffer (mbuf), which its holder owns.
//!
//! Fields are read at offsets that `bindings.h` takes from the installed header; no function of
//! DPDK is called per packet. Dropping a single mbuf does call DPDK. On the packet path,
//! [`Burst`](crate::Burst) frees mbufs in bulk.

use crate::sys;
use std::ptr::NonNull;

/// A packet: one mbuf, or a chain of them held by its first.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an `Mbuf` is the only reference to its chain, and mempools take mbufs back on any thread.
unsafe impl Send for Mbuf {}

/// The frame is longer than the mbuf's room, or the mbuf is a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {frame_len} bytes does not fit in an mbuf with room for {room}")]
pub struct FrameTooLong {
    /// Bytes of the frame.
    pub frame_len: usize,
    /// Bytes of room in the mbuf; 0 for a chain.
    pub room: usize,
}

impl Mbuf {
    /// Replaces the packet by `frame`, in this one segment.
    #[inline]
    pub fn write(&mut self, frame: &[u8]) -> Result<(), FrameTooLong> {
        let segment = Segment(self.0);
        let room = if segment.next().is_none() { segment.room() } else { 0 };
        if frame.len() > room {
            return Err(FrameTooLong { frame_len: frame.len(), room });
        }
        // SAFETY:
        // - `room` bytes from `data()` lie within the segment's buffer, and `frame` is no longer;
        // - `&mut self` is the only reference to that buffer, so `frame` is other memory.
        unsafe { segment.data().copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
        segment.set_len(frame.len());
        Ok(())
    }

    /// Returns the bytes of a packet of one segment; of a chain, those of the first segment.
    #[inline(always)]
    pub fn head_mut(&mut self) -> &mut [u8] {
        let segment = Segment(self.0);
        // SAFETY: as in `segments`; `&mut self` is the only reference to the buffer.
        unsafe { std::slice::from_raw_parts_mut(segment.data(), segment.data_len()) }
    }

    /// True if a flow rule flagged the packet, with a number or without.
    pub fn is_flagged(&self) -> bool {
        self.flags() & sys::BIND_FLAG_MATCHED != 0
    }

    #[inline(always)]
    fn flags(&self) -> u64 {
        Segment(self.0).load(sys::BIND_MBUF_FLAGS)
    }

    /// Returns the number of segments of the chain, at least 1.
    pub fn segment_count(&self) -> usize {
        self.segments().count()
    }

    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let first = Some(Segment(self.0));
        std::iter::successors(first, |segment| segment.next()).map(|segment| {
            // SAFETY: the segment's `data_len` bytes are initialised by the driver or by `write`,
            // and live as long as the chain, which `self` owns and does not change.
            unsafe { std::slice::from_raw_parts(segment.data(), segment.data_len()) }
        })
    }
}

impl wire::Packet for Mbuf {
    #[inline(always)]
    fn head(&self) -> &[u8] {
        let segment = Segment(self.0);
        // SAFETY: as in `segments`.
        unsafe { std::slice::from_raw_parts(segment.data(), segment.data_len()) }
    }

    #[inline(always)]
    fn frame_len(&self) -> usize {
        Segment(self.0).load::<u32>(sys::BIND_MBUF_PKT_LEN) as usize
    }

    #[inline(always)]
    fn mark(&self) -> Option<u32> {
        let is_marked = self.flags() & sys::BIND_FLAG_MARKED != 0;
        is_marked.then(|| Segment(self.0).load(sys::BIND_MBUF_MARK))
    }

    #[inline(always)]
    fn mark_or_zero(&self) -> u32 {
        let is_marked = u32::from(self.flags() & sys::BIND_FLAG_MARKED != 0);
        Segment(self.0).load::<u32>(sys::BIND_MBUF_MARK) & is_marked.wrapping_neg()
    }

    #[inline(always)]
    fn is_marked(&self) -> bool {
        self.flags() & sys::BIND_FLAG_MARKED != 0
    }

    fn copy_to(&self, buf: &mut [u8]) -> usize {
        let mut copied = 0;
        for segment in self.segments() {
            let n = segment.len().min(buf.len() - copied);
            buf[copied..copied + n].copy_from_slice(&segment[..n]);
            copied += n;
        }
        copied
    }

    #[inline(always)]
    fn is_verified(&self) -> bool {
        self.flags() & sys::BIND_FLAGS_CHECKSUMS == sys::BIND_FLAGS_CHECKSUMS_GOOD
    }

    fn segments(&self, see: &mut dyn FnMut(&[u8])) {
        Mbuf::segments(self).for_each(see);
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        let mut mbuf = self.0.as_ptr();
        // SAFETY: one valid mbuf, owned and not used again.
        unsafe { sys::rte_pktmbuf_free_bulk(&mut mbuf, 1) };
    }
}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mbuf({} bytes)", wire::Packet::frame_len(self))
    }
}

/// One segment of a chain that is borrowed for as long as this value lives.
#[derive(Clone, Copy)]
pub(crate) struct Segment(NonNull<sys::rte_mbuf>);

impl Segment {
    /// Returns the first segment of a packet.
    #[inline(always)]
    pub(crate) fn of(mbuf: &Mbuf) -> Self {
        Self(mbuf.0)
    }

    /// Reads the field of type `T` at `offset`; both come from `bindings.h`, which asserts the
    /// width, or DPDK has reserved a field of that type there.
    #[inline(always)]
    fn load<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the mbuf is live and initialised, and the field lies at `offset`, aligned.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast::<T>().read() }
    }

    #[inline(always)]
    fn store<T: Copy>(self, offset: usize, value: T) {
        // SAFETY: as in `load`; the caller holds the chain mutably.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast::<T>().write(value) }
    }

    #[inline(always)]
    pub(crate) fn data(self) -> *mut u8 {
        let buffer = self.load::<*mut u8>(sys::BIND_MBUF_BUF_ADDR);
        let data_off = self.load::<u16>(sys::BIND_MBUF_DATA_OFF);
        // SAFETY: DPDK keeps `data_off` within the buffer.
        unsafe { buffer.add(usize::from(data_off)) }
    }

    #[inline(always)]
    fn data_len(self) -> usize {
        usize::from(self.load::<u16>(sys::BIND_MBUF_DATA_LEN))
    }

    /// Returns the bytes from the start of the data to the end of the buffer.
    fn room(self) -> usize {
        let buf_len = self.load::<u16>(sys::BIND_MBUF_BUF_LEN);
        usize::from(buf_len - self.load::<u16>(sys::BIND_MBUF_DATA_OFF))
    }

    /// Sets the length of a packet of this one segment; it is at most `room`, so it fits 16 bits.
    #[inline(always)]
    pub(crate) fn set_len(self, len: usize) {
        self.store(sys::BIND_MBUF_DATA_LEN, len as u16);
        self.store(sys::BIND_MBUF_PKT_LEN, len as u32);
    }

    /// Writes the time at which the packet is to be sent to the field at `offset`, and sets `flag`.
    #[inline(always)]
    pub(crate) fn set_send_time(self, offset: usize, flag: u64, ticks: u64) {
        self.store(offset, ticks);
        self.store(sys::BIND_MBUF_FLAGS, self.load::<u64>(sys::BIND_MBUF_FLAGS) | flag);
    }

    fn next(self) -> Option<Segment> {
        self.load::<Option<NonNull<sys::rte_mbuf>>>(sys::BIND_MBUF_NEXT).map(Segment)
    }
}
