// SPDX-License-Identifier: BSD-3-Clause
//! Owns the types by which the engine and the owner of a port exchange NIC rules: configuration,
//! requests, results, and what a worker does with marks.

use super::flow_mark::{MarkLayout, RuleId};
use std::net::IpAddr;

/// Frequency at which the key of a marked packet is compared with the key of its mark's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkVerification {
    /// With every packet, and no packet is counted before an earlier one.
    ///
    /// The result is right even if the NIC is wrong. It saves work only while all packets of a
    /// burst are marked.
    Always,
    /// With the first packets of each rule, and with a sample of the others.
    Sampled {
        /// Number of first packets of each rule.
        first: u8,
        /// Sampling interval: one of this many packets whose mark names a record; at least 1.
        one_in: u32,
    },
}

/// Configuration of a worker for NIC rules.
#[derive(Clone, Copy, Debug)]
pub struct OffloadConfig {
    /// Layout of marks, for the slots of all workers.
    pub layout: MarkLayout,
    /// Index of this worker's first slot: `slots` for IPv4, then as many for IPv6.
    pub first_index: u32,
    /// Maximum number of connections of one IP version with rules at a time; at least 1.
    pub slots: u32,
    /// Selects the marked packets whose key is compared.
    pub check: MarkVerification,
    /// Selects the connections that get a rule.
    pub admission: OffloadPolicy,
    /// Maximum number of rules of this worker at a time, per side.
    pub rules_max: u32,
    /// Maximum number of rules of one zone and IP version, per side; `None`: no limit.
    pub zone_rules_max: Option<u32>,
    /// True if the worker finds out itself whether marks save time, and uses them only then.
    pub chooses_marks: bool,
    /// Per side: which directions the NIC forwards by itself.
    pub bypass: [BypassConfig; 2],
}

/// What a worker does with marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkUse {
    /// Packets are counted by their marks.
    #[default]
    Used,
    /// Marked packets are processed in software, because that costs less. Rules stay.
    Ignored,
    /// Marks cost more than they save: no rules are installed for them.
    NoRules,
}

impl MarkUse {
    /// Returns the name in output.
    pub const fn name(self) -> &'static str {
        match self {
            MarkUse::Used => "used",
            MarkUse::Ignored => "ignored",
            MarkUse::NoRules => "no_rules",
        }
    }
}

/// What a worker has found out about marks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MarkChoiceStatus {
    /// What it does with them.
    pub in_use: MarkUse,
    /// Cycles per packet of bursts with marks in the last trial, if marks are used; 0 if there was
    /// no trial.
    pub by_mark: f64,
    /// Cycles per packet of such bursts in software.
    pub in_software: f64,
    /// Number of changes so far.
    pub switches: u64,
}

/// After how many packets the NIC forwards a direction of an open connection by itself, if the
/// direction is worth a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BypassAfter {
    /// It never does.
    #[default]
    Never,
    /// After this many.
    Packets(u32),
    /// After as many as pay for the rule, as measured: if as many follow, the worker saves more
    /// time than it took to install and remove the rule.
    Payback,
}

/// Which directions the NIC forwards by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BypassConfig {
    /// UDP.
    pub udp: BypassAfter,
    /// TCP. The rules must not match packets with SYN, FIN or RST.
    pub tcp: BypassAfter,
}

impl BypassConfig {
    /// No packet is bypassed.
    pub const OFF: BypassConfig = BypassConfig { udp: BypassAfter::Never, tcp: BypassAfter::Never };
}

impl OffloadConfig {
    /// Returns the number of indices that a worker with this many slots per IP version needs.
    pub const fn indices(slots: u32) -> u32 {
        2 * slots
    }
}

/// Policy that selects the directions of connections for NIC rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadPolicy {
    /// A direction with this many packets, while there is room. If there is none, it is evaluated
    /// again after about as many more packets, at least 64.
    After {
        /// At least 1.
        packets: u32,
    },
    /// A direction with this rate. Its rule is removed when the rate falls below half of it.
    Rate {
        /// Packets per second.
        per_second: u32,
    },
    /// The busiest directions, as the room and the speed of the NIC allow. A busier connection
    /// replaces a less busy one.
    Measured {
        /// Minimum number of packets in a direction; at least 1.
        least: u32,
    },
}

/// Port of a bump at which packets arrive.
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
    /// Returns the other side.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    pub(crate) const BOTH: [Side; 2] = [Side::A, Side::B];
}

/// The five-tuple and zone that select the packets of one direction.
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
    /// Identifier of the VLAN tag that gives the zone of the connection; 0 if the zone has no tag.
    pub zone: u16,
}

/// Action of a rule on its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// The packets arrive with the mark of the rule.
    Mark,
    /// The NIC counts the packets and sends them out of the peer port itself; no worker sees them.
    /// TCP packets with SYN, FIN or RST are excepted.
    Bypass,
}

/// Request of a worker to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleRequest {
    /// Install a rule.
    Install {
        /// Identifies the rule. The mark encodes it if the action is [`RuleAction::Mark`].
        rule: RuleId,
        /// Port of the rule.
        side: Side,
        /// Packets that the rule matches.
        tuple: FiveTuple,
        /// Action of the rule.
        action: RuleAction,
    },
    /// Remove a rule, or withdraw its installation.
    Remove {
        /// The identifier from the install request.
        rule: RuleId,
        /// Port of the rule.
        side: Side,
    },
}

/// Result of a rule request.
///
/// An install request gets exactly one result other than `Removed` and `Passed`, unless it was
/// withdrawn before. A remove request gets `Removed`. `Passed` may come any number of times in
/// between, for the last time before `Removed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The NIC has installed the rule.
    Installed {
        /// Time until the NIC could install the next rule, in nanoseconds.
        pace: u32,
        /// Time of a cpu that the installation took, in nanoseconds.
        took: u32,
    },
    /// The NIC has no room for the rule.
    Full,
    /// The port has trouble; the request may succeed later.
    Postponed,
    /// The NIC does not support such a rule.
    Refused,
    /// The rule is no longer installed.
    Removed,
    /// Packets that the bypass rule has forwarded since the last result of this kind.
    Passed(BypassCount),
}

/// Number of packets that the NIC forwarded by itself, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BypassCount {
    /// Number of packets.
    pub packets: u64,
    /// Their frame bytes, without FCS.
    pub bytes: u64,
}
