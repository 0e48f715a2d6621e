// SPDX-License-Identifier: BSD-3-Clause
//! A cycle counter that does not measure, but charges for reading headers. With marks, an engine
//! reads fewer of them. So the price decides whether marks pay.

use std::cell::Cell;
use wire::{BytesPacket, Packet};

/// Cycles of a packet, and what is added for each time that its header is asked for.
const BASE: u64 = 4000;
const OF_HEADER: i64 = 800;

thread_local! {
    static CYCLES: Cell<u64> = const { Cell::new(0) };
    static OF_BURST: Cell<u64> = const { Cell::new(0) };
    static PRICE: Cell<i64> = const { Cell::new(OF_HEADER) };
}

fn add(cycles: i64) {
    CYCLES.set(CYCLES.get().wrapping_add_signed(cycles));
}

/// Begins a burst. If marks do not pay, reading a header makes up for other work.
pub(crate) fn begin_burst(packets: usize, do_marks_pay: bool) {
    OF_BURST.set(BASE * packets as u64);
    PRICE.set(if do_marks_pay { OF_HEADER } else { -OF_HEADER });
}

/// The counter: a burst lies between two readings.
pub(crate) fn counter() -> u64 {
    add(OF_BURST.get() as i64);
    CYCLES.get()
}

/// A packet whose header has a price.
pub(crate) struct Priced<'a>(pub(crate) BytesPacket<'a>);

impl Packet for Priced<'_> {
    fn head(&self) -> &[u8] {
        add(PRICE.get());
        self.0.head()
    }

    fn frame_len(&self) -> usize {
        self.0.frame_len()
    }

    fn wire_len(&self) -> usize {
        self.0.wire_len()
    }

    fn mark(&self) -> Option<u32> {
        self.0.mark()
    }

    fn mark_or_zero(&self) -> u32 {
        self.0.mark_or_zero()
    }

    fn is_verified(&self) -> bool {
        self.0.is_verified()
    }

    fn copy_to(&self, buf: &mut [u8]) -> usize {
        self.0.copy_to(buf)
    }

    fn segments(&self, see: &mut dyn FnMut(&[u8])) {
        self.0.segments(see);
    }
}
