// SPDX-License-Identifier: BSD-3-Clause
//! NIC rules as the engine and the owner of a port speak about them: configuration, requests,
//! results.

use super::flow_mark::{MarkLayout, RuleId};
use std::net::IpAddr;

/// How often the key of a marked packet is compared with that of the record its mark names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkVerification {
    /// With every packet; and none is counted before one that came earlier. So it is right whatever
    /// the NIC does, and short only as long as all packets of a burst are marked.
    Always,
    /// With the first packets of each rule, and a sample of the rest.
    Sampled {
        /// Of each rule.
        first: u8,
        /// One of so many packets, of bursts with a mark in them; at least 1.
        one_in: u32,
    },
}

/// What a worker needs for rules of the NIC.
#[derive(Clone, Copy, Debug)]
pub struct OffloadConfig {
    /// How marks are made; for the slots of all workers.
    pub layout: MarkLayout,
    /// Index of this worker's first slot: `slots` for IPv4, then as many for IPv6.
    pub first_index: u32,
    /// Connections of one IP version that may have rules at a time; at least 1.
    pub slots: u32,
    /// Which marked packets have their key compared.
    pub check: MarkVerification,
    /// Who is worth a rule.
    pub admission: OffloadPolicy,
    /// Rules that the worker may have at a time, at each side.
    pub rules_max: u32,
    /// The same of one zone and IP version; `None`: as many as there are.
    pub zone_rules_max: Option<u32>,
    /// By side: packets after which the NIC forwards a direction of an open UDP connection by
    /// itself, if it has a rule; `None`: never. TCP is never left to it: its FIN and RST must be
    /// seen.
    pub bypass: [Option<u32>; 2],
}

impl OffloadConfig {
    /// Indices that one worker needs for so many slots.
    pub const fn indices(slots: u32) -> u32 {
        2 * slots
    }
}

/// Who is worth a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadPolicy {
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
pub struct FiveTuple {
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
pub enum RuleRequest {
    /// That something is done with packets.
    Install {
        /// What the mark says, where it is a mark.
        rule: RuleId,
        /// At this port.
        side: Side,
        /// These packets.
        tuple: FiveTuple,
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
/// `BypassCount`, unless it was withdrawn before; one that a rule goes, by `Removed`. `BypassCount`
/// comes in between, now and then, and for the last time before `Removed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
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
    Passed(BypassCount),
}

/// Packets that the NIC forwarded by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BypassCount {
    /// How many.
    pub packets: u64,
    /// Their frame bytes, without FCS.
    pub bytes: u64,
}
