// SPDX-License-Identifier: BSD-3-Clause
//! The record of one end of a connection. Millions of them fit into memory, so that each field has
//! the smallest type that holds its values. Times are ticks of the [wheel](crate::wheel).

use crate::wheel::{NONE, earlier};

/// Number of a record in the table.
pub(crate) type EndpointId = u32;

/// State of an end (RFC 9293 section 3.3.2). An end that is closed has no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The record is not in use.
    #[default]
    Free,
    /// The client has sent a SYN.
    SynSent,
    /// The server has answered a SYN.
    SynReceived,
    /// Both directions are open.
    Established,
    /// This end has sent its FIN, which the peer has not acknowledged.
    FinWait1,
    /// The peer has acknowledged our FIN.
    FinWait2,
    /// Both ends have sent their FIN at the same time; ours is not acknowledged.
    Closing,
    /// The peer has sent its FIN; this end has not.
    CloseWait,
    /// The peer has sent its FIN, then this end its own.
    LastAck,
    /// Both directions are closed. The last acknowledgement may still wait for room.
    TimeWait,
    /// Closed and counted. The record keeps its ports from being used again too early, and answers
    /// late segments as in TIME-WAIT.
    Kept,
    /// A UDP exchange.
    Udp,
    /// Ended otherwise, and counted. The record only keeps its ports: packets belong to no
    /// connection.
    RestsTcp,
    /// A UDP exchange that has ended and was counted. The record only keeps its ports.
    RestsUdp,
}

impl State {
    #[inline(always)]
    pub(crate) fn rests(self) -> bool {
        matches!(self, Self::RestsTcp | Self::RestsUdp)
    }
}

/// Bits of [`Endpoint::flags`].
pub(crate) mod flag {
    /// The program has ended: a FIN follows the data.
    pub(crate) const CLOSES: u16 = 1 << 0;
    /// An acknowledgement must be sent now.
    pub(crate) const ACK_NOW: u16 = 1 << 1;
    /// An acknowledgement may wait for data or for the delay.
    pub(crate) const ACK_LATER: u16 = 1 << 2;
    /// The round trip of the oldest data is being timed (Karn: not if it was sent again).
    pub(crate) const TIMES_ROUND_TRIP: u16 = 1 << 3;
    /// No byte of the response to the last request has arrived.
    pub(crate) const AWAITS_RESPONSE: u16 = 1 << 4;
    /// Fast recovery (RFC 6582).
    pub(crate) const RECOVERS: u16 = 1 << 5;
    /// The program waits for `program_at`.
    pub(crate) const PROGRAM_WAITS: u16 = 1 << 6;
    /// `transport_at` counts.
    pub(crate) const TRANSPORT_WAITS: u16 = 1 << 7;
    /// A deadline is earlier than the place in the wheel.
    pub(crate) const RELINK: u16 = 1 << 8;
    /// The port had no room for a frame.
    pub(crate) const BLOCKED: u16 = 1 << 9;
    /// The peer has sent its FIN, which is received.
    pub(crate) const PEER_CLOSED: u16 = 1 << 10;
    /// Received bytes were not those that the peer's program sends.
    pub(crate) const WRONG_DATA: u16 = 1 << 11;
    /// A byte of data has arrived.
    pub(crate) const HAS_RECEIVED: u16 = 1 << 12;
    /// The response to the last request has not arrived whole.
    pub(crate) const TIMES_RESPONSE: u16 = 1 << 13;
    /// The program holds the connection open until it is released.
    pub(crate) const HOLDS: u16 = 1 << 14;
    /// A packet with a wrong checksum has come.
    pub(crate) const BAD_CHECKSUM: u16 = 1 << 15;
}

/// Ticks in a unit of [`Endpoint::wake`].
pub(crate) const WAKE_TICKS: u32 = 16;

/// Loops of a program that may be inside each other.
pub(crate) const LOOPS: usize = 2;

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Endpoint {
    /// Number of the peer's address.
    pub(crate) remote: u32,
    /// Number of our address.
    pub(crate) local: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    /// Number of the template.
    pub(crate) template: u8,
    /// Number of the MAC address that frames go to.
    pub(crate) neighbour: u16,
    pub(crate) state: State,
    /// Times that the oldest data was sent again after a timeout.
    pub(crate) retries: u8,
    /// Bits of [`flag`].
    pub(crate) flags: u16,
    /// Longest payload of a segment.
    pub(crate) mss: u16,
    /// Our initial sequence number, and the peer's.
    pub(crate) iss: u32,
    pub(crate) irs: u32,
    /// Oldest sequence number that is not acknowledged.
    pub(crate) una: u32,
    /// Next sequence number that is expected from the peer.
    pub(crate) rcv_nxt: u32,
    /// Sequence number behind the data that the program has sent.
    pub(crate) written: u32,
    /// Microsecond at which the SYN or the last request was sent.
    pub(crate) timed_at: u32,
    /// Tick of the retransmission, the delayed acknowledgement, or the end of the wait.
    pub(crate) transport_at: u32,
    /// Tick at which the program goes on.
    pub(crate) program_at: u32,
    /// Links of the wheel; the free list uses `next`.
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// Sequence numbers behind `una` that are sent.
    pub(crate) inflight: u16,
    /// Sequence numbers behind `una` that were sent before the last loss.
    pub(crate) recover: u16,
    /// Distance from `rcv_nxt` to data that arrived out of order, and its length; 0 if there is
    /// none.
    pub(crate) gap: u16,
    pub(crate) early: u16,
    /// Window of the peer.
    pub(crate) window: u16,
    /// Congestion window, and its threshold of slow start (RFC 5681), in bytes.
    pub(crate) cwnd: u16,
    pub(crate) ssthresh: u16,
    /// Smoothed round-trip time in ticks, times 8; its variation, times 4 (RFC 6298).
    pub(crate) srtt: u16,
    pub(crate) rttvar: u16,
    /// Step of the program, and the counters of its loops.
    pub(crate) step: u16,
    pub(crate) loops: [u16; LOOPS],
    /// Place in the wheel, in units of [`WAKE_TICKS`], rounded up.
    pub(crate) wake: u16,
    /// Duplicate acknowledgements in a row.
    pub(crate) dup_acks: u8,
}

// Both ends of a connection, with their places in the index, take at most 192 bytes.
const _: () = assert!(size_of::<Endpoint>() <= 88);

impl Endpoint {
    #[inline(always)]
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, flag: u16) {
        self.flags |= flag;
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self, flag: u16) {
        self.flags &= !flag;
    }

    /// Clears a flag; returns true if it was set.
    #[inline(always)]
    pub(crate) fn take(&mut self, flag: u16) -> bool {
        let is_set = self.has(flag);
        self.clear(flag);
        is_set
    }

    /// Returns the next sequence number to send.
    #[inline(always)]
    pub(crate) fn nxt(&self) -> u32 {
        self.una.wrapping_add(self.inflight.into())
    }

    /// Returns the number of received bytes in order, modulo 2^32.
    #[inline(always)]
    pub(crate) fn received(&self) -> u32 {
        let fin = u32::from(self.has(flag::PEER_CLOSED));
        self.rcv_nxt.wrapping_sub(self.irs).wrapping_sub(1 + fin)
    }

    /// Returns the place in the stream of a sequence number that we send.
    #[inline(always)]
    pub(crate) fn offset_sent(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.iss).wrapping_sub(1)
    }

    /// Returns the place in the stream of a sequence number that the peer sends.
    #[inline(always)]
    pub(crate) fn offset_received(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.irs).wrapping_sub(1)
    }

    /// True if the wheel holds this record.
    #[inline(always)]
    pub(crate) fn is_linked(&self) -> bool {
        self.prev != NONE
    }

    /// Sets the deadline of the transport, `after` ticks from now.
    #[inline(always)]
    pub(crate) fn wait_transport(&mut self, now: u32, after: u32) {
        self.relink_if_earlier(now, after);
        self.transport_at = deadline(now, after);
        self.set(flag::TRANSPORT_WAITS);
    }

    /// Sets the deadline of the program, `after` ticks from now.
    #[inline(always)]
    pub(crate) fn wait_program(&mut self, now: u32, after: u32) {
        self.relink_if_earlier(now, after);
        self.program_at = deadline(now, after);
        self.set(flag::PROGRAM_WAITS);
    }

    /// A deadline that is later than the place in the wheel leaves the record there. It is put
    /// further back when its place comes, which is rare: most deadlines are replaced before.
    #[inline(always)]
    fn relink_if_earlier(&mut self, now: u32, after: u32) {
        let left = self.wake.wrapping_sub((now / WAKE_TICKS) as u16);
        if !self.is_linked() || after / WAKE_TICKS < u32::from(left) {
            self.set(flag::RELINK);
        }
    }

    /// Returns the earliest deadline that counts; `NONE` if there is none. Forgets the others.
    pub(crate) fn settle_deadlines(&mut self) -> u32 {
        if !self.has(flag::TRANSPORT_WAITS) {
            self.transport_at = NONE;
        }
        if !self.has(flag::PROGRAM_WAITS) {
            self.program_at = NONE;
        }
        earlier(self.transport_at, self.program_at)
    }
}

/// Returns the tick that is `after` ticks from now, or the next one if that is [`NONE`].
#[inline(always)]
fn deadline(now: u32, after: u32) -> u32 {
    match now.wrapping_add(after) {
        NONE => 0,
        at => at,
    }
}

/// True if sequence number `a` is before `b` (RFC 9293 section 3.4).
#[inline(always)]
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
