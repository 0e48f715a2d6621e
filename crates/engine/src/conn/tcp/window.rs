// SPDX-License-Identifier: BSD-3-Clause
//! Checks the sequence numbers of TCP segments (RFC 9293 section 3.4), and tracks the window.
//!
//! The method is that of G. van Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (2001): a
//! tracker derives both windows from the segments that it has seen. All comparisons are of
//! distances modulo 2^32 (RFC 9293 section 3.4, RFC 1982).

use crate::api::Anomaly;
use crate::packet::{SCALE_MAX, SeqNumbers, TcpReach, TcpSegment};

/// Maximum window without a shift, in bytes.
const WINDOW_MAX: i64 = u16::MAX as i64;

/// Lower bound of [`ACK_AGE_MAX`], in bytes: the largest window without a shift, and some bytes
/// more.
const ACK_AGE_MIN: i64 = 66_000;

/// Maximum age of a segment in bytes, by the window shift of its receiver: one window.
const AGE_MAX: [u32; 16] = by_shift(0);

/// Maximum age of an acknowledgment in bytes, by the window shift of its sender.
const ACK_AGE_MAX: [u32; 16] = by_shift(ACK_AGE_MIN);

/// Returns the largest window with each shift, but at least `least`.
const fn by_shift(least: i64) -> [u32; 16] {
    let (mut windows, mut shift) = ([0; 16], 0);
    while shift < 16 {
        let window = WINDOW_MAX << shift;
        windows[shift] = if window < least { least as u32 } else { window as u32 };
        shift += 1;
    }
    windows
}

/// Window shifts of both sides (RFC 7323 section 2), the originator's in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowScales(pub(crate) u8);

impl WindowScales {
    /// Stands for a shift that was not offered.
    const NOT_OFFERED: u8 = 15;

    /// Stands for a connection without window check.
    pub(crate) const UNCHECKED: WindowScales = WindowScales(0xff);

    /// Stands for a connection whose window check is paused, because the NIC forwards packets of
    /// it that no worker sees.
    pub(crate) const PAUSED: WindowScales = WindowScales(0xfe);

    /// Shifts of a connection whose handshake was not seen: the maximum.
    pub(crate) const UNKNOWN: WindowScales = WindowScales(SCALE_MAX << 4 | SCALE_MAX);

    /// Returns the shifts after a SYN of the originator.
    pub(crate) fn on_syn(offer: Option<u8>) -> Self {
        WindowScales(offer.unwrap_or(Self::NOT_OFFERED) << 4)
    }

    /// Returns the shifts after the responder's SYN. Unless both sides offer a shift, there is
    /// none.
    fn on_syn_ack(self, offer: Option<u8>) -> Self {
        match (self.0 >> 4, offer) {
            (Self::NOT_OFFERED, _) | (_, None) => WindowScales(0),
            (of_originator, Some(of_responder)) => WindowScales(of_originator << 4 | of_responder),
        }
    }

    /// Returns the shifts after a SYN+ACK of `direction` that replaces its SYN.
    fn answered_anew(self, direction: usize, offer: Option<u8>) -> Self {
        let Some(shift) = offer else { return WindowScales(0) };
        let of_peer = match self.0 {
            // Shifts of 0 say that one side offered none; the peer's own offer was not stored. But
            // the peer has offered one, as a SYN+ACK has no shift otherwise (RFC 7323 section 2.2).
            0 => SCALE_MAX,
            _ => self.of(1 - direction) as u8,
        };
        WindowScales(if direction == 0 { shift << 4 | of_peer } else { of_peer << 4 | shift })
    }

    /// True unless the window check is off or paused.
    #[inline(always)]
    pub(crate) fn are_known(self) -> bool {
        self.0 < Self::PAUSED.0
    }

    /// Returns both shifts for a snapshot; `None` without window check.
    pub(crate) fn saved(self) -> Option<[u8; 2]> {
        self.are_known().then_some([self.0 >> 4, self.0 & 0xf])
    }

    /// Returns the shifts of a snapshot; `None` if they are invalid.
    pub(crate) fn of_saved(shifts: [u8; 2]) -> Option<Self> {
        let [a, b] = shifts;
        (a <= SCALE_MAX && b <= SCALE_MAX).then_some(WindowScales(a << 4 | b))
    }

    /// Returns the shift of the originator (0) or the responder (1).
    #[inline(always)]
    fn of(self, direction: usize) -> u32 {
        u32::from(self.0 >> (4 * (1 - direction)) & 0xf)
    }
}

/// Sequence numbers of both ends: of the originator and of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TcpWindow {
    /// End of the data sent: the highest sequence number plus one.
    pub(crate) ends: [u32; 2],
    /// Highest acknowledgment sent. Before the responder's first one, the lowest that answers the
    /// SYN.
    pub(crate) acks: [u32; 2],
    /// Window that this side offers, from its highest acknowledgment on, in units of its shift.
    ///
    /// It is rounded up. Otherwise the right edge would move left when an acknowledgment advances.
    pub(crate) windows: [u16; 2],
}

/// Returns the distance from `from` ahead to `to`, modulo 2^32; negative if `to` is behind.
#[inline(always)]
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

impl TcpWindow {
    pub(crate) const NONE: TcpWindow = TcpWindow { ends: [0; 2], acks: [0; 2], windows: [0; 2] };

    /// Creates the window of a connection whose check is paused. It stores the shifts.
    pub(crate) fn paused(scales: WindowScales) -> Self {
        TcpWindow { ends: [scales.0.into(), 0], ..Self::NONE }
    }

    /// Returns the shifts that [`paused`](Self::paused) has stored.
    pub(crate) fn scales_before_pause(&self) -> WindowScales {
        WindowScales(self.ends[0] as u8)
    }

    /// Creates a window from these numbers.
    #[cfg(test)]
    pub(crate) fn of_parts(ends: [u32; 2], acks: [u32; 2], windows: [u16; 2]) -> Self {
        TcpWindow { ends, acks, windows }
    }

    /// Creates the window after the first SYN, or one that replaces it.
    pub(crate) fn on_syn(TcpSegment { numbers: syn, scale }: TcpSegment) -> (Self, WindowScales) {
        let window = TcpWindow {
            ends: [syn.end(), 0],
            // Data in the SYN need not be acknowledged with it (RFC 7413 section 4.1.2).
            acks: [0, syn.seq.wrapping_add(1)],
            // The window field of a SYN has no shift.
            windows: [syn.window, 0],
        };
        (window, WindowScales::on_syn(scale))
    }

    /// Creates the window after a first packet that is not a SYN.
    ///
    /// Its acknowledgment is taken as the end of the peer's data. How much the sender itself may
    /// send is unknown.
    pub(crate) fn picked_up(first: SeqNumbers) -> (Self, WindowScales) {
        (Self::learn_side(0, first), WindowScales::UNKNOWN)
    }

    /// Creates the window from one segment of a connection whose numbers are unknown.
    pub(crate) fn learn_side(direction: usize, first: SeqNumbers) -> Self {
        let of_both = |sender: u32, peer: u32| match direction {
            0 => [sender, peer],
            _ => [peer, sender],
        };
        let room = if direction == 0 { [first.window, u16::MAX] } else { [u16::MAX, first.window] };
        TcpWindow {
            ends: of_both(first.end(), first.ack),
            acks: of_both(first.ack, first.seq),
            windows: room,
        }
    }

    /// Creates the window after a segment and its answer, which `direction` has sent.
    pub(crate) fn answered_by(direction: usize, segment: SeqNumbers, answer: SeqNumbers) -> Self {
        let by_sender = |first: SeqNumbers, second: SeqNumbers| {
            let [ends, acks] = [[first.end(), second.end()], [first.ack, second.ack]];
            TcpWindow { ends, acks, windows: [first.window, second.window] }
        };
        if direction == 0 { by_sender(answer, segment) } else { by_sender(segment, answer) }
    }

    /// True if a SYN repeats the originator's SYN.
    pub(crate) fn is_syn_repeated(&self, syn: SeqNumbers) -> bool {
        self.acks[1] == syn.seq.wrapping_add(1)
    }

    /// True if a segment of the responder acknowledges the originator's SYN.
    pub(crate) fn is_answer(&self, answer: SeqNumbers) -> bool {
        self.is_answer_of(1, answer)
    }

    /// True if a segment of this side acknowledges its peer's SYN, which must have been seen.
    fn is_answer_of(&self, direction: usize, answer: SeqNumbers) -> bool {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let more = distance(self.acks[sender], answer.ack);
        (0..=distance(self.acks[sender], self.ends[peer])).contains(&more)
    }

    /// True if a SYN+ACK acknowledges its peer's SYN and has another sequence number than its
    /// sender's SYN.
    ///
    /// Both sides have sent a SYN; the sender's earlier SYN was then a forgery.
    pub(crate) fn is_answer_of_another(&self, direction: usize, answer: SeqNumbers) -> bool {
        let is_other = self.acks[1 - (direction & 1)] != answer.seq.wrapping_add(1);
        is_other && self.is_answer_of(direction, answer)
    }

    /// Replaces the numbers of a forged SYN by those of its sender's SYN+ACK. Returns the new
    /// shifts.
    pub(crate) fn answered_anew(
        &mut self,
        scales: WindowScales,
        direction: usize,
        TcpSegment { numbers: syn, scale }: TcpSegment,
    ) -> WindowScales {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let room = i64::from(self.windows[peer]) << scales.of(peer);
        let scales = scales.answered_anew(sender, scale);
        let in_units = |room: i64, of: usize| {
            let shift = scales.of(of);
            ((room + (1 << shift) - 1) >> shift).min(WINDOW_MAX) as u16
        };
        self.ends[sender] = syn.end();
        (self.acks[sender], self.acks[peer]) = (syn.ack, syn.seq.wrapping_add(1));
        self.windows[sender] = in_units(syn.window.into(), sender);
        self.windows[peer] = in_units(room, peer);
        scales
    }

    /// Tracks a SYN of the responder, and its acknowledgment if `acks`. Returns the new shifts.
    pub(crate) fn on_syn_ack(
        &mut self,
        scales: WindowScales,
        syn: TcpSegment,
        acks: bool,
    ) -> WindowScales {
        let scales = scales.on_syn_ack(syn.scale);
        let syn = syn.numbers;
        if acks {
            self.acks[1] = syn.ack;
        }
        self.ends[1] = syn.end();
        self.acks[0] = syn.seq.wrapping_add(1);
        let in_units = |room: u16, direction: usize| {
            room.div_ceil(1 << scales.of(direction).min(u16::BITS - 1))
        };
        self.windows = [in_units(self.windows[0], 0), in_units(syn.window, 1)];
        scales
    }

    /// Tracks an answer of the responder without SYN: its SYN was not seen. Returns the new shifts.
    pub(crate) fn joined(&mut self, answer: SeqNumbers) -> WindowScales {
        self.ends[1] = answer.end();
        self.acks = [answer.seq, answer.ack];
        self.windows[1] = answer.window;
        WindowScales::UNKNOWN
    }

    /// Accepts an acknowledgment up to the largest window ahead, because the peer's earlier data
    /// was not seen.
    pub(crate) fn accept_ack(&mut self, direction: usize, ack: u32) {
        let peer = 1 - direction;
        if (0..=WINDOW_MAX << SCALE_MAX).contains(&distance(self.ends[peer], ack)) {
            self.ends[peer] = ack;
        }
    }

    /// True if this side has let its peer send data up to `ack`.
    pub(crate) fn has_offered(&self, scales: WindowScales, direction: usize, ack: u32) -> bool {
        let sender = direction & 1;
        let room = i64::from(self.windows[sender]) << scales.of(sender);
        (0..=room).contains(&distance(self.acks[sender], ack))
    }

    /// Checks whether this side may send this segment, which has an ACK.
    ///
    /// # Errors
    /// [`Anomaly`] of the first bound that the segment violates.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        scales: WindowScales,
        direction: usize,
        segment: SeqNumbers,
    ) -> Result<(), Anomaly> {
        if self.in_window(scales, direction, segment) {
            return Ok(());
        }
        Err(self.violation(scales, direction, segment))
    }

    /// True if the segment is in the window.
    ///
    /// The segment must begin at or before the right edge of the peer's window, and must not end
    /// more than one window before the end of the data sent. Its acknowledgment must not exceed
    /// the data that the peer has sent, nor be older than [`ACK_AGE_MAX`].
    #[inline(always)]
    fn in_window(&self, scales: WindowScales, direction: usize, segment: SeqNumbers) -> bool {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let room = i64::from(self.windows[peer]) << scales.of(peer);
        // Unsigned: an acknowledgment of unsent data wraps to an age of at least 2^31, more than
        // any maximum. So one comparison checks both bounds.
        let unacked = self.ends[peer].wrapping_sub(segment.ack);
        distance(self.acks[peer], segment.seq) <= room
            && self.new_bytes(direction, segment)
                >= -i64::from(AGE_MAX[scales.of(peer) as usize % 16])
            && unacked <= ACK_AGE_MAX[scales.of(sender) as usize % 16]
    }

    /// Returns the first bound that the segment violates. The caller knows that there is one.
    #[cold]
    #[inline(never)]
    fn violation(&self, scales: WindowScales, direction: usize, segment: SeqNumbers) -> Anomaly {
        let peer = 1 - (direction & 1);
        let room = i64::from(self.windows[peer]) << scales.of(peer);
        match () {
            () if distance(self.acks[peer], segment.seq) > room => Anomaly::TcpBeyondWindow,
            () if self.new_bytes(direction, segment) < -(WINDOW_MAX << scales.of(peer)) => {
                Anomaly::TcpOld
            }
            () if distance(segment.ack, self.ends[peer]) < 0 => Anomaly::TcpAckBeyond,
            () => Anomaly::TcpAckOld,
        }
    }

    /// Returns the number of new bytes: distance from the end of all data sent to the segment's
    /// end.
    ///
    /// Both are measured from the peer's acknowledgment. Otherwise a distance of half the number
    /// space would be old in one check and new in another.
    #[inline(always)]
    fn new_bytes(&self, direction: usize, segment: SeqNumbers) -> i64 {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let ahead = distance(self.acks[peer], segment.seq) + i64::from(segment.len);
        ahead - distance(self.acks[peer], self.ends[sender])
    }

    /// Tracks a segment that passed the [`check`](Self::check).
    ///
    /// The code has no branches, because the processor cannot predict whether a segment has new
    /// data.
    #[inline(always)]
    pub(crate) fn follow(&mut self, scales: WindowScales, direction: usize, segment: SeqNumbers) {
        let sender = direction & 1;
        let shift = scales.of(sender);
        let added = self.new_bytes(direction, segment).max(0);
        self.ends[sender] = self.ends[sender].wrapping_add(added as u32);
        let more = distance(self.acks[sender], segment.ack);
        let acked = more.max(0);
        self.acks[sender] = self.acks[sender].wrapping_add(acked as u32);
        // Both edges relative to the old acknowledgment; the farther one relative to the new one.
        let (before, now) =
            (i64::from(self.windows[sender]) << shift, i64::from(segment.window) << shift);
        let room = before.max(now + more) - acked;
        // Rounded up, because shifts round down.
        self.windows[sender] = (-(-room >> shift)).min(WINDOW_MAX) as u16;
    }

    /// Extends the end of the data sent by the later fragments of a segment, if the data sent
    /// includes its first fragment.
    pub(crate) fn reach(&mut self, direction: usize, TcpReach { front, more }: TcpReach) {
        let sent = &mut self.ends[direction & 1];
        let seen = front.end();
        let end = seen.wrapping_add(more.into());
        if distance(seen, *sent) >= 0 && distance(*sent, end) > 0 {
            *sent = end;
        }
    }

    /// Checks whether an RST of this side ends the connection (RFC 5961 section 3.2).
    ///
    /// # Errors
    /// [`Anomaly::TcpRstInWindow`] or [`Anomaly::TcpRst`] if it does not.
    pub(crate) fn check_rst(
        &self,
        scales: WindowScales,
        direction: usize,
        rst: SeqNumbers,
    ) -> Result<(), Anomaly> {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        if rst.seq == self.acks[peer] || rst.seq == self.ends[sender] {
            return Ok(());
        }
        let room = i64::from(self.windows[peer]) << scales.of(peer);
        Err(match (0..=room).contains(&distance(self.acks[peer], rst.seq)) {
            true => Anomaly::TcpRstInWindow,
            false => Anomaly::TcpRst,
        })
    }

    /// True if a segment, usually a SYN, was sent before: it ends at most one window before the end
    /// of all data sent, and not beyond it.
    pub(crate) fn is_repeated(
        &self,
        scales: WindowScales,
        direction: usize,
        segment: SeqNumbers,
    ) -> bool {
        let age = distance(segment.end(), self.ends[direction & 1]);
        (0..=WINDOW_MAX << scales.of(1 - (direction & 1))).contains(&age)
    }

    /// True if this side can have sent a segment with this sequence number.
    ///
    /// Used for packets that ICMP errors quote. The range begins one window before the peer's
    /// acknowledgment: a retransmission may be acknowledged before its error arrives. The range
    /// ends at the end of all data sent, because segments without data have that number.
    pub(crate) fn has_sent(&self, scales: WindowScales, direction: usize, seq: u32) -> bool {
        let (sender, peer) = (direction & 1, 1 - (direction & 1));
        let age = WINDOW_MAX << scales.of(peer);
        let ahead = distance(self.acks[peer], seq);
        (-age..=distance(self.acks[peer], self.ends[sender])).contains(&ahead)
    }

    /// True if the originator can have sent this sequence number before any answer: its SYN, or
    /// data behind it.
    pub(crate) fn has_sent_unanswered(&self, seq: u32) -> bool {
        (-1..=distance(self.acks[1], self.ends[0])).contains(&distance(self.acks[1], seq))
    }

    /// True if the peer of this side has acknowledged all that the side has sent.
    pub(crate) fn is_acknowledged(&self, direction: usize) -> bool {
        distance(self.ends[direction], self.acks[1 - direction]) >= 0
    }

    /// True if both sides have acknowledged all data.
    pub(crate) fn is_all_acked(&self) -> bool {
        self.acks[0] == self.ends[1] && self.acks[1] == self.ends[0]
    }
}

const _: () = assert!(size_of::<TcpWindow>() == 20);

impl TcpSegment {
    /// True if a segment acknowledges this SYN, with or without its data.
    pub(crate) fn is_answered_by(self, answer: TcpSegment) -> bool {
        TcpWindow::on_syn(self).0.is_answer(answer.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the distance of a segment from each bound, computed directly; negative if violated.
    fn margins(
        window: &TcpWindow,
        scales: WindowScales,
        direction: usize,
        segment: SeqNumbers,
    ) -> [(i64, Anomaly); 4] {
        let (sender, peer) = (direction, 1 - direction);
        let of = |side: usize| WINDOW_MAX << scales.of(side);
        let ahead = distance(window.acks[peer], segment.seq);
        let sent = distance(window.acks[peer], window.ends[sender]);
        let unacked = distance(segment.ack, window.ends[peer]);
        [
            (
                (i64::from(window.windows[peer]) << scales.of(peer)) - ahead,
                Anomaly::TcpBeyondWindow,
            ),
            (ahead + i64::from(segment.len) - sent + of(peer), Anomaly::TcpOld),
            (unacked, Anomaly::TcpAckBeyond),
            (of(sender).max(ACK_AGE_MIN) - unacked, Anomaly::TcpAckOld),
        ]
    }

    /// Returns the window after a segment, computed step by step.
    fn followed(
        mut window: TcpWindow,
        scales: WindowScales,
        sender: usize,
        segment: SeqNumbers,
    ) -> TcpWindow {
        let (shift, peer) = (scales.of(sender), 1 - sender);
        let ahead = distance(window.acks[peer], segment.seq) + i64::from(segment.len);
        if ahead > distance(window.acks[peer], window.ends[sender]) {
            window.ends[sender] = segment.end();
        }
        let edge = i64::from(window.windows[sender]) << shift;
        let new = distance(window.acks[sender], segment.ack) + (i64::from(segment.window) << shift);
        let from = distance(window.acks[sender], segment.ack).max(0);
        if from > 0 {
            window.acks[sender] = segment.ack;
        }
        let (room, unit) = (edge.max(new) - from, 1_i64 << shift);
        let units = room.div_euclid(unit) + i64::from(room.rem_euclid(unit) > 0);
        window.windows[sender] = units.min(WINDOW_MAX) as u16;
        window
    }

    /// Numbers near one another, near a bound, or arbitrary.
    fn near() -> impl Strategy<Value = u32> {
        const BOUNDS: [u32; 6] = [0, 1 << 31, 65_535, 66_000, 65_535 << 7, 65_535 << 14];
        let signed = (proptest::sample::select(&BOUNDS[..]), -3..4_i32, any::<bool>()).prop_map(
            |(bound, by, is_behind): (u32, i32, bool)| {
                let number = bound.wrapping_add_signed(by);
                if is_behind { number.wrapping_neg() } else { number }
            },
        );
        prop_oneof![4 => signed, 1 => any::<u32>()]
    }

    fn window() -> impl Strategy<Value = TcpWindow> {
        let sides = ([near(), near()], [near(), near()], any::<[u16; 2]>());
        sides.prop_map(|(ends, acks, windows)| TcpWindow { ends, acks, windows })
    }

    proptest! {
        #[test]
        fn a_segment_fits_where_it_is_inside_of_every_bound(
            window in window(),
            shifts in 0..=0xff_u8,
            direction in 0..2_usize,
            (seq, ack, room, len) in (near(), near(), any::<u16>(), 0..65_536_u32),
        ) {
            let scales = WindowScales(shifts);
            let segment = SeqNumbers { seq, ack, window: room, len };
            let margins = margins(&window, scales, direction, segment);
            let outside = margins.iter().find(|(margin, _)| *margin < 0);
            let expected = outside.map_or(Ok(()), |&(_, why)| Err(why));
            prop_assert_eq!(window.check(scales, direction, segment), expected);
            let mut after = window;
            after.follow(scales, direction, segment);
            if expected.is_ok() {
                prop_assert_eq!(after, followed(window, scales, direction, segment));
            }
        }
    }
}
