// SPDX-License-Identifier: BSD-3-Clause
//! What outlives the engine: connections in a form of their own, to be written down and to be
//! known again by the next one.
//!
//! Embryonic flows are left out. They are cheap to begin anew, and most of what a flood is made of.
//! So are rules of the NIC: they are gone with whoever made them.

use crate::Engine;
use crate::base::{Nanos, whole_micros};
use crate::ctmark::CtMark;
use crate::flow::{Hot, Phase};
use crate::key::Key;
use crate::listing::Cursor;
use crate::record::{Tally, VlanTags};
use crate::table::FlowTable;
use std::net::IpAddr;

/// A connection, with all of it that is worth keeping. What it says may come from a file that
/// anyone has written: [`Engine::restore`] believes nothing that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFlow {
    /// Address of the originator.
    pub src: IpAddr,
    /// Address of the responder.
    pub dst: IpAddr,
    /// IP protocol number.
    pub proto: u8,
    /// Port of the originator; of ICMP the identifier, of GRE and ESP the upper half of the key or
    /// SPI.
    pub sport: u16,
    /// Port of the responder; of ICMP type * 256 + code of the request; else the lower half.
    pub dport: u16,
    /// Of ICMP, type * 256 + code of the first packet.
    pub icmp: u16,
    /// Zone it was tracked in. Where it is restored is said by what puts packets into zones then.
    pub zone: u16,
    /// VLAN tags of the first packet.
    pub vlan: VlanTags,
    /// Time of the first packet.
    pub start: Nanos,
    /// Time of the last packet.
    pub last_seen: Nanos,
    /// Packets from `src` to `dst`.
    pub orig: Tally,
    /// Packets from `dst` to `src`.
    pub reply: Tally,
    /// Where it is in its life.
    pub phase: SavedPhase,
    /// Of TCP that is judged by its numbers, by how much windows of the originator and of the
    /// responder are shifted. The numbers themselves are soon of yesterday, and are not kept.
    pub scales: Option<[u8; 2]>,
    /// Of SCTP that is judged by its tags, those that packets of the originator and of the
    /// responder carry; 0 for one that is not known. They stay what they are while nobody looks.
    pub tags: [u32; 2],
    /// What somebody has written to it.
    pub ct_mark: CtMark,
}

/// Where a saved connection is in its life. The numbers are written to files: they never change,
/// and none is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SavedPhase {
    /// TCP, and neither side has ended it.
    TcpEstablished = 1,
    /// A FIN of the originator.
    TcpFinWait = 2,
    /// A FIN of the responder.
    TcpCloseWait = 3,
    /// A FIN of both, of which one is not acknowledged.
    TcpLastAck = 4,
    /// A FIN of both.
    TcpTimeWait = 5,
    /// An RST.
    TcpClose = 6,
    /// UDP of both directions.
    Udp = 7,
    /// ICMP and ICMPv6 of both directions.
    Icmp = 8,
    /// Any other protocol, both directions.
    Other = 9,
    /// SCTP, and neither side has ended it.
    SctpEstablished = 10,
    /// A SHUTDOWN of one side, or of both.
    SctpShutdown = 11,
    /// SHUTDOWN COMPLETE.
    SctpClosed = 12,
    /// ABORT.
    SctpAborted = 13,
}

impl SavedPhase {
    /// Every one of them.
    pub const ALL: [SavedPhase; 13] = [
        SavedPhase::TcpEstablished,
        SavedPhase::TcpFinWait,
        SavedPhase::TcpCloseWait,
        SavedPhase::TcpLastAck,
        SavedPhase::TcpTimeWait,
        SavedPhase::TcpClose,
        SavedPhase::Udp,
        SavedPhase::Icmp,
        SavedPhase::Other,
        SavedPhase::SctpEstablished,
        SavedPhase::SctpShutdown,
        SavedPhase::SctpClosed,
        SavedPhase::SctpAborted,
    ];

    /// That with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u8 == number)
    }
}

/// What became of a saved connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It is known again.
    Known,
    /// Its timeout is over.
    Expired,
    /// There is no room for it, it is known already and was seen later, or it cannot be.
    Refused,
}

impl Engine {
    /// Goes on with saving, which begins with `Cursor::default()`: looks at up to `budget` places
    /// and gives the connections in them to `saved`. False: that was the last of it.
    ///
    /// As with [`list`](Self::list), what begins or ends meanwhile may be in it or not. Of two
    /// connections that had one key, one after the other, both may be.
    pub fn save(
        &self,
        cursor: &mut Cursor,
        budget: u32,
        saved: &mut impl FnMut(SavedFlow),
    ) -> bool {
        let mut left = budget;
        loop {
            let places = if cursor.is_v6 { self.v6.used() } else { self.v4.used() };
            let end = places.min(cursor.next.saturating_add(left));
            let range = cursor.next..end;
            left -= range.len() as u32;
            cursor.next = end;
            match cursor.is_v6 {
                false => range.clone().for_each(|record| self.v4.prefetch(record)),
                true => range.clone().for_each(|record| self.v6.prefetch(record)),
            }
            range
                .filter_map(|record| match cursor.is_v6 {
                    false => self.v4.saved(record),
                    true => self.v6.saved(record),
                })
                .for_each(&mut *saved);
            if end < places || cursor.is_v6 {
                return end < places;
            }
            (cursor.is_v6, cursor.next) = (true, 0);
        }
    }

    /// Makes a connection known that another engine has saved. It counts against limits as if it
    /// had begun here, but none of them keeps it out: it is there, whatever is known of it.
    pub fn restore(&mut self, flow: &SavedFlow, now: Nanos) -> Restored {
        self.advance(now);
        let zone = self.zoning.of_saved(flow);
        let (flow, now) = (SavedFlow { zone, ..flow.at_most(self.now) }, self.now);
        let replaced = match (Key::of_saved_v4(&flow), Key::of_saved_v6(&flow)) {
            (Some(key), _) => self.v4.restore(key, &flow, now),
            (_, Some(key)) => self.v6.restore(key, &flow, now),
            (None, None) => Err(Restored::Refused),
        };
        let replaced = match replaced {
            Ok(replaced) => replaced,
            Err(restored) => return restored,
        };
        let books = &mut self.books;
        match replaced {
            Some(source) => books.limits.ended(flow.zone, || source),
            None => books.stats.restored += 1,
        }
        books.limits.restored(flow.zone, flow.src);
        Restored::Known
    }
}

impl SavedFlow {
    /// The same by a clock on which it is `now`: that of the machine may have been put back.
    fn at_most(&self, now: Nanos) -> Self {
        let last_seen = whole_micros(self.last_seen).min(now);
        Self { last_seen, start: whole_micros(self.start).min(last_seen), ..self.clone() }
    }
}

impl<const W: usize> FlowTable<W> {
    /// The flow in a record, if there is one and it is worth saving.
    fn saved(&self, record: u32) -> Option<SavedFlow> {
        let (hot, cold) = self.parts(record);
        if hot.is_free() || hot.is_embryonic() {
            return None;
        }
        Some(SavedFlow { ct_mark: self.ct_mark(record), ..hot.saved(cold)? })
    }

    /// Who began the flow whose place it took, if there was one with this key.
    fn restore(
        &mut self,
        (key, swapped): (Key<W>, bool),
        flow: &SavedFlow,
        now: Nanos,
    ) -> Result<Option<IpAddr>, Restored> {
        let is_judged = self.judges(flow.zone);
        let parts = Hot::restored((key, swapped), flow, is_judged);
        let (hot, cold) = parts.ok_or(Restored::Refused)?;
        if self.deadline(&hot, &cold) <= now {
            return Err(Restored::Expired);
        }
        self.put((hot, cold), flow.ct_mark, now)
    }
}

impl Phase {
    /// As it is written down.
    pub(crate) fn saved(self) -> Option<SavedPhase> {
        Some(match self {
            Phase::TcpEstablished
            | Phase::TcpOutOfSync
            | Phase::TcpResumed
            | Phase::TcpResumedOrig
            | Phase::TcpResumedReply => SavedPhase::TcpEstablished,
            Phase::TcpFinWait => SavedPhase::TcpFinWait,
            Phase::TcpCloseWait => SavedPhase::TcpCloseWait,
            Phase::TcpLastAck => SavedPhase::TcpLastAck,
            Phase::TcpTimeWait => SavedPhase::TcpTimeWait,
            Phase::TcpClose => SavedPhase::TcpClose,
            Phase::UdpMultiple => SavedPhase::Udp,
            Phase::IcmpReply => SavedPhase::Icmp,
            Phase::OtherMultiple => SavedPhase::Other,
            Phase::SctpCookie | Phase::SctpEstablished => SavedPhase::SctpEstablished,
            Phase::SctpShutdown | Phase::SctpShutdownAck => SavedPhase::SctpShutdown,
            Phase::SctpClosed => SavedPhase::SctpClosed,
            Phase::SctpAborted => SavedPhase::SctpAborted,
            Phase::Free
            | Phase::TcpSynSent
            | Phase::TcpSynSent2
            | Phase::TcpPickedUp
            | Phase::TcpSynRecv
            | Phase::TcpStray
            | Phase::UdpFirst
            | Phase::UdpSingle
            | Phase::IcmpFirst
            | Phase::IcmpStray
            | Phase::SctpInit
            | Phase::SctpHeartbeat
            | Phase::SctpInitAck
            | Phase::SctpWithdrawn
            | Phase::SctpStray
            | Phase::OtherFirst => return None,
        })
    }
}
