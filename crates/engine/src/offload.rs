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

use crate::api::Admission;
use crate::conn::When;
pub(crate) use governor::Governor;
pub(crate) use look::{Sight, Wanted};
pub(crate) use rules::{Learnt, MarkCheck, Rules};
pub(crate) use score::Score;
pub(crate) use slots::Named;
pub(crate) use view::{Subject, Terms};

impl Admission {
    pub(crate) fn looks(self) -> Looks {
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
