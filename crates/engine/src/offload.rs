// SPDX-License-Identifier: BSD-3-Clause
//! Which flows the NIC gets a rule for, and what it was asked: the worker's side.
//!
//! A rule is for one direction of a connection, at the side where its packets arrive. The worker
//! wishes, somebody else makes rules, and answers come back whenever they do: until then, and
//! whatever they are, packets are tracked as before. Nothing here waits, and all of it is bounded.
//!
//! Wishes are made late, when there is somebody to hear them: until then the best is chosen anew.

mod bypass;
mod candidates;
mod governor;
mod look;
mod rules;
mod score;
mod slots;
mod view;
mod watch;
mod zones;

use crate::mark::{MarkLayout, RuleId};
use crate::marked::KeyCheck;
pub(crate) use governor::Governor;
pub(crate) use look::{Sight, Wanted};
use rules::Watched;
pub(crate) use rules::{Learnt, Rules};
pub(crate) use score::Score;
pub(crate) use slots::Named;
use slots::Standing;
use std::net::IpAddr;
pub use view::{NoRule, RuleState, RuleView};
pub(crate) use view::{Subject, Terms};

/// What a worker needs for rules of the NIC.
#[derive(Clone, Copy, Debug)]
pub struct Offload {
    /// How marks are made; for the slots of all workers.
    pub layout: MarkLayout,
    /// Index of this worker's first slot: `slots` for IPv4, then as many for IPv6.
    pub first_index: u32,
    /// Connections of one IP version that may have rules at a time; at least 1.
    pub slots: u32,
    /// Which marked packets have their key compared.
    pub check: KeyCheck,
    /// Who is worth a rule.
    pub admission: Admission,
    /// Rules that the worker may have at a time, at each side.
    pub rules_max: u32,
    /// The same of one zone and IP version; `None`: as many as there are.
    pub zone_rules_max: Option<u32>,
    /// By side: packets after which the NIC forwards a direction of an open UDP connection by
    /// itself, if it has a rule; `None`: never. TCP is never left to it: its FIN and RST must be
    /// seen.
    pub bypass: [Option<u32>; 2],
}

impl Offload {
    /// Indices that one worker needs for so many slots.
    pub const fn indices(slots: u32) -> u32 {
        2 * slots
    }

    /// Bytes that an engine takes for so many records and slots, about, and for zones if they have
    /// shares.
    pub const fn bytes(records: u64, slots: u64, has_shares: bool) -> u64 {
        let zones = if has_shares { 2 * zones::BYTES } else { 0 };
        records * size_of::<Watched>() as u64 + 2 * slots * slots::SLOT_BYTES + zones
    }
}

/// Who is worth a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A direction with so many packets, as long as there is room. One that finds none is looked at
    /// again, 64 packets later or as many more.
    After {
        /// At least 1.
        packets: u32,
    },
    /// A direction with so many packets in a second; when it has less than half of them, its rule
    /// goes.
    Rate {
        /// Packets.
        per_second: u32,
    },
    /// The busiest ones, by what the NIC has room and time for: a busier flow takes the place of
    /// one that is less so.
    Measured {
        /// No flow with fewer packets in a direction; at least 1.
        least: u32,
    },
}

impl Admission {
    fn looks(self) -> Looks {
        let first = match self {
            Admission::After { packets } => packets,
            Admission::Rate { .. } => LOOKS_APART,
            Admission::Measured { least } => least,
        };
        let first = first.max(1);
        let apart = first.clamp(LOOKS_APART, LOOKS_APART_MOST).next_power_of_two();
        Looks { first, later: LaterLooks { mask: apart as u16 - 1, phase: 0 } }
    }
}

/// Of the two ports of a bump, the one at which packets arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Side {
    /// Port A.
    #[default]
    A,
    /// Port B.
    B,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::A, Side::B];
}

/// The packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol number: TCP or UDP.
    pub proto: u8,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Identifier of the VLAN tag that is the zone of the connection; 0 if none is.
    pub zone: u16,
}

/// What a rule has the NIC do with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// They arrive with the mark of the rule.
    Mark,
    /// The NIC counts them and sends them out of the peer port by itself: none arrives.
    Bypass,
}

/// What a worker wants of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That something is done with packets.
    Install {
        /// What the mark says, where it is a mark.
        rule: RuleId,
        /// At this port.
        side: Side,
        /// These packets.
        tuple: Tuple,
        /// This is done.
        action: RuleAction,
    },
    /// That a rule goes, or does not come.
    Remove {
        /// As it was asked for.
        rule: RuleId,
        /// At this port.
        side: Side,
    },
}

/// What became of a wish. One for a new rule is answered once by any of them but `Removed` and
/// `Passed`, unless it was withdrawn before; one that a rule goes, by `Removed`. `Passed` comes in
/// between, now and then, and for the last time before `Removed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The NIC has the rule.
    Installed {
        /// Until there could be one more, in nanoseconds.
        pace: u32,
    },
    /// The NIC has no room for it.
    Full,
    /// Not now: the port has trouble.
    Postponed,
    /// The NIC does not take such a rule.
    Refused,
    /// The NIC has it no more.
    Removed,
    /// The NIC has forwarded so many more by itself.
    Passed(Passed),
}

/// Packets that the NIC forwarded by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// How many.
    pub packets: u64,
    /// Their frame bytes, without FCS.
    pub bytes: u64,
}

/// What became of rules, and how things stand with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStats {
    /// Rules that the NIC was asked for.
    pub asked: u64,
    /// Rules that it took.
    pub installed: u64,
    /// Rules whose mark a packet had.
    pub effective: u64,
    /// Not taken for want of room.
    pub full: u64,
    /// Not taken for trouble.
    pub postponed: u64,
    /// Not taken for what they are.
    pub refused: u64,
    /// Rules that went.
    pub removed: u64,
    /// Of those, to make room for busier flows, or for having become too slow.
    pub evicted: u64,
    /// Taken, without any effect.
    pub ineffective: u64,
    /// Rules that had an effect and lost it.
    pub lost_effect: u64,
    /// Candidates that better ones took the place of.
    pub crowded_out: u64,
    /// Candidates for which no slot was free.
    pub no_slot: u64,
    /// Candidates whose zone had as many rules as it may have.
    pub zone_full: u64,
    /// Rules that the NIC took to forward by itself.
    pub bypasses: u64,
    /// What it forwarded by them, as far as it is counted to flows.
    pub passed: Passed,
    /// Of these rules, those that were not known to be gone when their flow ended.
    pub unsettled: u64,
}

impl OffloadStats {
    fn count(&mut self, answer: Answer, before: Standing) {
        match answer {
            Answer::Installed { .. } => self.installed += 1,
            Answer::Full => self.full += 1,
            Answer::Postponed => self.postponed += 1,
            Answer::Refused => self.refused += 1,
            Answer::Removed => self.removed += u64::from(before == Standing::Leaving),
            Answer::Passed(_) => {}
        }
    }

    /// Of two tables.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            installed: self.installed + other.installed,
            effective: self.effective + other.effective,
            full: self.full + other.full,
            postponed: self.postponed + other.postponed,
            refused: self.refused + other.refused,
            removed: self.removed + other.removed,
            evicted: self.evicted + other.evicted,
            ineffective: self.ineffective + other.ineffective,
            lost_effect: self.lost_effect + other.lost_effect,
            crowded_out: self.crowded_out + other.crowded_out,
            no_slot: self.no_slot + other.no_slot,
            zone_full: self.zone_full + other.zone_full,
            bypasses: self.bypasses + other.bypasses,
            passed: Passed {
                packets: self.passed.packets + other.passed.packets,
                bytes: self.passed.bytes + other.passed.bytes,
            },
            unsettled: self.unsettled + other.unsettled,
        }
    }
}

/// At which packets of a direction somebody looks whether it is worth a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// At this one.
    first: u32,
    later: LaterLooks,
}

/// The same once there was a first look, as there was before any rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaterLooks {
    /// Of packets and phase, the bits that are 0 then.
    mask: u16,
    /// The flow's own, so that flows which keep step are not all looked at together.
    phase: u16,
}

impl Looks {
    /// At packets with a mark.
    #[inline(always)]
    pub(crate) fn of_marked(self) -> LaterLooks {
        LaterLooks { mask: self.later.mask.max(LOOKS_APART_MARKED - 1), ..self.later }
    }

    /// The number of a look, one for so many packets as are between two at least; it comes round.
    pub(crate) fn number(self, packets: u64, record: u32) -> u8 {
        ((packets + u64::from(record)) / u64::from(LOOKS_APART)) as u8
    }

    /// Packets before which no look counts.
    pub(crate) fn first(self) -> u32 {
        self.first
    }
}

/// Fewest packets between two looks, and as long as they are marked: a look costs more than a
/// lookup, and of a flow with a rule less is to be known. At most so many that neither the packets
/// nor the numbers of looks come round meanwhile.
const LOOKS_APART: u32 = 64;

const LOOKS_APART_MARKED: u16 = 1024;

const LOOKS_APART_MOST: u32 = 8192;

/// When to look.
pub(crate) trait When: Copy {
    /// For the flow in a record.
    fn of(self, record: u32) -> Self;
    /// Whether that is at the packet that made it so many, as far as 13 bits tell. It may be an
    /// earlier one.
    fn is_due(self, packets: u16) -> bool;
}

impl When for Looks {
    #[inline(always)]
    fn is_due(self, packets: u16) -> bool {
        (packets == self.first as u16 & 0x1fff) | self.later.is_due(packets)
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        Looks { later: self.later.of(record), ..self }
    }
}

impl When for LaterLooks {
    #[inline(always)]
    fn is_due(self, packets: u16) -> bool {
        packets.wrapping_add(self.phase) & self.mask == 0
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        LaterLooks { phase: record as u16, ..self }
    }
}

/// Where there may be no rules, and then nothing to look at.
impl<T: When> When for Option<T> {
    #[inline(always)]
    fn is_due(self, packets: u16) -> bool {
        self.is_some_and(|looks| looks.is_due(packets))
    }

    #[inline(always)]
    fn of(self, record: u32) -> Self {
        self.map(|looks| looks.of(record))
    }
}

/// There are no rules.
#[derive(Clone, Copy)]
pub(crate) struct Never;

impl When for Never {
    #[inline(always)]
    fn is_due(self, _: u16) -> bool {
        false
    }

    #[inline(always)]
    fn of(self, _: u32) -> Self {
        self
    }
}
