// SPDX-License-Identifier: BSD-3-Clause
//! Sets the times at which a port sends frames.

use crate::mbuf::Segment;
use crate::{Eal, Errno, Mbuf, sys};

/// The field for the send time, which DPDK reserves in all mbufs of a process. Only ports with
/// [`PortConfig::sends_on_time`](crate::PortConfig::sends_on_time) respect it.
#[derive(Clone, Copy, Debug)]
pub struct SendTime {
    offset: usize,
    flag: u64,
}

impl SendTime {
    /// Reserves the field, or finds it reserved. Fails if mbufs have no room for it.
    pub fn reserve(_eal: &Eal) -> Result<Self, Errno> {
        let (mut offset, mut flag) = (0, 0);
        // SAFETY: EAL is up (`_eal`); two numbers are written.
        let ret = unsafe { sys::rte_mbuf_dyn_tx_timestamp_register(&mut offset, &mut flag) };
        let offset = usize::try_from(offset).ok().filter(|_| ret == 0);
        offset.map(|offset| Self { offset, flag }).ok_or_else(Errno::last)
    }

    /// Sets the time, in ticks of the port's clock, before which the port must not send `mbuf`. A
    /// port sends frames whose time has passed at once. Times of a queue must not decrease, because
    /// ports do not sort frames.
    #[inline(always)]
    pub fn set(self, mbuf: &mut Mbuf, ticks: u64) {
        // DPDK has reserved an aligned field of 64 bits at this offset in every mbuf.
        Segment::of(mbuf).set_send_time(self.offset, self.flag, ticks);
    }
}
