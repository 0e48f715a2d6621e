// SPDX-License-Identifier: BSD-3-Clause
//! Holds a stock of empty mbufs for packets to be written and sent.

use crate::mbuf::Segment;
use crate::{Burst, Mempool};

/// Empty mbufs of a pool, taken from it in bulk.
pub struct Stock {
    mempool: Mempool,
    /// Mbufs straight from the pool: each is one segment, whose data begins behind the headroom.
    empty: Burst,
    /// Bytes of room in each.
    room: usize,
}

/// Bytes of the shortest frame with its padding; one or two stores write them.
const SHORT: usize = 64;

impl Stock {
    /// Returns an empty stock that is filled from `mempool`.
    pub fn new(mempool: Mempool) -> Self {
        Self { mempool, empty: Burst::new(), room: mempool.data_room_bytes() as usize }
    }

    /// Takes `count` mbufs from the pool if the stock is empty. Returns the number of mbufs in the
    /// stock: 0 if the pool has too few left.
    ///
    /// # Panics
    /// If the stock is empty, and `count` is above [`BURST_MAX`](crate::BURST_MAX).
    #[inline(always)]
    pub fn refill(&mut self, count: usize) -> usize {
        if self.empty.is_empty() {
            // If the pool has too few left, the stock stays empty.
            self.mempool.alloc_bulk(&mut self.empty, count);
        }
        self.empty.len()
    }

    /// Moves one mbuf behind those of `burst`. `write` writes the packet into its room, which holds
    /// bytes of earlier packets, and returns the length.
    ///
    /// # Panics
    /// If the stock is empty, `burst` is full, or `write` returns more bytes than there is room.
    #[inline(always)]
    pub fn write_to(&mut self, burst: &mut Burst, write: impl FnOnce(&mut [u8]) -> usize) {
        let mbuf = self.empty.pop().expect("a stock with an mbuf");
        let segment = Segment::of(&mbuf);
        // SAFETY:
        // - an mbuf of this pool has `room` bytes from `data()` on, in memory that the system has
        //   given DPDK, and so initialised;
        // - `mbuf` is the only reference to that buffer.
        let bytes = unsafe { std::slice::from_raw_parts_mut(segment.data(), self.room) };
        let len = write(bytes);
        assert!(len <= self.room, "{len} bytes in a room of {}", self.room);
        segment.set_len(len);
        burst.push(mbuf).expect("a burst with room");
    }

    /// Moves `count` mbufs behind those of `burst`, each with the bytes of `frame`.
    ///
    /// # Panics
    /// If the stock has fewer mbufs, `burst` has room for fewer, or an mbuf has no room for
    /// `frame`, or for 64 bytes.
    #[inline(always)]
    pub fn copy_to(&mut self, burst: &mut Burst, frame: &[u8], count: usize) {
        assert!(frame.len().max(SHORT) <= self.room, "a frame of {} bytes", frame.len());
        let begin = burst.len();
        burst.append_last(&mut self.empty, count);
        // Most frames are short: they stay in registers.
        let mut short = [0; SHORT];
        let is_short = frame.len() <= SHORT;
        if is_short {
            short[..frame.len()].copy_from_slice(frame);
        }
        for mbuf in &mut burst[begin..] {
            let segment = Segment::of(mbuf);
            // SAFETY: as in `write_to`, and `frame` and `short` are other memory, no longer than
            // `room`.
            unsafe {
                match is_short {
                    true => segment.data().cast::<[u8; SHORT]>().write(short),
                    false => segment.data().copy_from_nonoverlapping(frame.as_ptr(), frame.len()),
                }
            }
            segment.set_len(frame.len());
        }
    }
}
