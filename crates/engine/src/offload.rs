// SPDX-License-Identifier: BSD-3-Clause
//! Which flows the NIC gets a rule for, and what it was asked: the worker's side.
//!
//! A rule is for one direction of a connection, at the side where its packets arrive. The worker
//! wishes, somebody else makes rules, and answers come back whenever they do: until then, and
//! whatever they are, packets are tracked as before. Nothing here waits, and all of it is bounded.
//!
//! An index has one generation at a time. As long as the NIC may know rules of the last one, the
//! connection that has the index now gets none.

use crate::flow::{Hot, PROTO_TCP, PROTO_UDP};
use crate::mark::{MarkLayout, RuleId};
use crate::marked::{self, KeyCheck};
use crate::parse::Meta;
use crate::table::raw::{Memory, Region};
use std::collections::VecDeque;
use std::net::IpAddr;

/// What a worker needs for rules of the NIC.
#[derive(Clone, Copy, Debug)]
pub struct Offload {
    /// How marks are made; for the connections of all workers.
    pub layout: MarkLayout,
    /// The first index of this worker: of IPv4, then of IPv6, as many as its tables hold.
    pub first_index: u32,
    /// Which marked packets have their key compared.
    pub check: KeyCheck,
    /// Who is worth a rule.
    pub admission: Admission,
    /// Rules that the worker may have at a time.
    pub rules_max: u32,
}

/// Who is worth a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A direction with so many packets. One that finds no room then is looked at again, 64 packets
    /// later or as many more.
    After {
        /// At least 1.
        packets: u32,
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
    /// Zone of the connection; 0 if its packets have no tag.
    pub zone: u16,
}

/// What a worker wants of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That packets get this mark.
    Install {
        /// What the mark says.
        rule: RuleId,
        /// At this port.
        side: Side,
        /// These packets.
        tuple: Tuple,
    },
    /// That a rule goes, or does not come.
    Remove {
        /// As it was asked for.
        rule: RuleId,
        /// At this port.
        side: Side,
    },
}

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The NIC has the rule.
    Installed,
    /// The NIC does not have it, and will not.
    Refused,
    /// The NIC has it no more, and no packet that it marked is on its way.
    Removed,
}

/// At which packets of a direction somebody looks whether it is worth a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// At this one first.
    first: u32,
    /// Then so many later and one, again and again; a power of two less one.
    mask: u32,
}

/// Fewest packets between two looks.
const LOOKS_APART: u32 = 64;

/// When to look.
pub(crate) trait When: Copy {
    /// Whether that is at the packet that made it so many.
    fn is_due(self, packets: u32) -> bool;
}

impl When for Looks {
    #[inline(always)]
    fn is_due(self, packets: u32) -> bool {
        packets.wrapping_sub(self.first) & self.mask == 0
    }
}

/// There are no rules, and nothing to look at.
#[derive(Clone, Copy)]
pub(crate) struct Never;

impl When for Never {
    #[inline(always)]
    fn is_due(self, _: u32) -> bool {
        false
    }
}

/// Where one rule stands, by what the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Standing {
    /// There is none.
    None,
    /// In the queue of wishes.
    Wished,
    /// In somebody else's hands.
    Asked,
    Installed,
    Refused,
    /// Its index has another generation from now on.
    Leaving,
}

/// What was asked for a record.
#[derive(Clone, Copy)]
struct Asked {
    /// The last one that marks were made of.
    generation: u16,
    /// By direction.
    standing: [Standing; 2],
    side: [Side; 2],
    /// Packets whose keys are compared before marks are enough.
    checks: u8,
    /// Until the end of the burst: a packet in it may end the flow.
    is_unsettled: bool,
}

/// Wishes of new rules that may wait to be taken; those beyond are asked for later, if at all.
const INSTALLS_MAX: usize = 1024;

/// The rules of one table's flows.
pub(crate) struct Rules {
    offload: Offload,
    asked: Region<Asked>,
    /// Where the packets that are being looked at arrived.
    pub(crate) side: Side,
    /// Rules that are not [`Standing::None`] or refused.
    live: u32,
    installs: VecDeque<Wish>,
    /// As many as there are rules.
    removes: VecDeque<Wish>,
}

impl Rules {
    /// For `capacity` records, of which the first has `offload.first_index`.
    pub(crate) fn new(capacity: usize, offload: Offload, huge_pages: bool) -> Self {
        let none = Asked {
            generation: 0,
            standing: [Standing::None; 2],
            side: [Side::A; 2],
            checks: 0,
            is_unsettled: false,
        };
        Self {
            offload,
            asked: Region::new(capacity, none, huge_pages),
            side: Side::A,
            live: 0,
            installs: VecDeque::with_capacity(INSTALLS_MAX),
            removes: VecDeque::with_capacity(offload.rules_max as usize),
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        self.asked.memory()
    }

    /// When to look at a direction.
    pub(crate) fn looks(&self) -> Looks {
        let Admission::After { packets } = self.offload.admission;
        let first = packets.clamp(1, 1 << 30);
        Looks { first, mask: first.next_power_of_two().max(LOOKS_APART) - 1 }
    }

    /// Looks at a direction (`swapped`: its sender is the second end of the key) that may be worth
    /// a rule.
    #[inline(never)]
    pub(crate) fn look<const W: usize>(&mut self, record: u32, swapped: u8, hot: &mut Hot<W>) {
        let asked = &mut self.asked[record as usize];
        let direction = usize::from(swapped & 1);
        let was_left = asked.standing.contains(&Standing::Leaving);
        let is_there = asked.standing[direction] != Standing::None;
        let has_room = self.installs.len() < INSTALLS_MAX && self.live < self.offload.rules_max;
        let proto = hot.key.proto();
        if was_left || is_there || !has_room || !matches!(proto, PROTO_TCP | PROTO_UDP) {
            return;
        }
        if hot.is_ruled == 0 {
            hot.is_ruled = 1;
            asked.generation = self.offload.layout.next(asked.generation);
        }
        if let KeyCheck::Sampled { first, .. } = self.offload.check {
            asked.checks = first;
        }
        asked.standing[direction] = Standing::Wished;
        asked.side[direction] = self.side;
        self.live += 1;
        let index = self.offload.first_index + record;
        let rule = RuleId { index, generation: asked.generation, direction: direction as u8 };
        let tuple = hot.key.tuple(direction == 1);
        self.installs.push_back(Wish::Install { rule, side: self.side, tuple });
        self.trust(record, hot);
    }

    /// Whether marks are enough from now on.
    fn trust<const W: usize>(&self, record: u32, hot: &mut Hot<W>) {
        let Asked { generation, checks, is_unsettled, .. } = self.asked[record as usize];
        let is_sampled = self.offload.check != KeyCheck::Always;
        let is_sure = is_sampled && checks == 0 && !is_unsettled;
        let index = self.offload.first_index + record;
        let mark = self.offload.layout.encode(RuleId { index, generation, direction: 0 });
        let is_plain = hot.key.zone() == 0 && hot.is_ruled == 1 && !hot.is_closing();
        hot.expected = if is_sure && is_plain { mark } else { 0 };
    }

    /// What is known of a packet whose mark says this, and which is in this zone.
    pub(crate) fn standing<const W: usize>(
        &self,
        (record, rule): (u32, RuleId),
        hot: &Hot<W>,
        (meta, zone): (&Meta, u16),
    ) -> marked::Standing {
        use marked::Standing as Found;
        let asked = &self.asked[record as usize];
        let standing = asked.standing[usize::from(rule.direction & 1)];
        let is_live = matches!(standing, Standing::Wished | Standing::Asked | Standing::Installed);
        if !is_live || asked.generation != rule.generation {
            Found::Stale
        } else if hot.is_closing() || asked.is_unsettled || !hot.is_one_more(meta) {
            // Out of its place among the packets of the burst: where the flow is closing, a SYN
            // before it would have made it another flow's.
            Found::Unusual
        } else if asked.checks > 0
            || hot.key.zone() != zone
            || self.offload.check == KeyCheck::Always
        {
            Found::Doubted
        } else {
            Found::Good
        }
    }

    /// A packet with a mark of this record had its key.
    pub(crate) fn believe<const W: usize>(&mut self, record: u32, hot: &mut Hot<W>) {
        let checks = &mut self.asked[record as usize].checks;
        *checks = checks.saturating_sub(1);
        self.trust(record, hot);
    }

    /// Until the end of the burst, or from then on, a packet may have ended the flow.
    pub(crate) fn unsettle<const W: usize>(&mut self, record: u32, hot: &mut Hot<W>, is: bool) {
        self.asked[record as usize].is_unsettled = is;
        self.trust(record, hot);
    }

    /// The flow of a record has ended: its rules are to go.
    #[inline(always)]
    pub(crate) fn end<const W: usize>(&mut self, record: u32, hot: &Hot<W>) {
        if hot.is_ruled != 0 {
            self.leave(record);
        }
    }

    #[inline(never)]
    fn leave(&mut self, record: u32) {
        let asked = &mut self.asked[record as usize];
        for direction in 0..2 {
            let standing = &mut asked.standing[direction];
            match *standing {
                Standing::Asked | Standing::Installed => {
                    *standing = Standing::Leaving;
                    let rule = RuleId {
                        index: self.offload.first_index + record,
                        generation: asked.generation,
                        direction: direction as u8,
                    };
                    self.removes.push_back(Wish::Remove { rule, side: asked.side[direction] });
                }
                Standing::Wished => {
                    *standing = Standing::None;
                    self.live -= 1;
                }
                Standing::Refused => *standing = Standing::None,
                Standing::None | Standing::Leaving => {}
            }
        }
    }

    /// What somebody is to do next. Rules that are to go come first: they make room.
    pub(crate) fn next_wish(&mut self) -> Option<Wish> {
        if let Some(wish) = self.removes.pop_front() {
            return Some(wish);
        }
        while let Some(wish) = self.installs.pop_front() {
            let Wish::Install { rule, .. } = wish else { continue };
            let asked = &mut self.asked[(rule.index - self.offload.first_index) as usize];
            let standing = &mut asked.standing[usize::from(rule.direction)];
            // Its flow may have ended meanwhile.
            if asked.generation == rule.generation && *standing == Standing::Wished {
                *standing = Standing::Asked;
                return Some(wish);
            }
        }
        None
    }

    /// Learns what became of a wish. One that is not known is not believed.
    pub(crate) fn learn(&mut self, record: u32, rule: RuleId, answer: Answer) {
        let asked = &mut self.asked[record as usize];
        let standing = &mut asked.standing[usize::from(rule.direction & 1)];
        if asked.generation != rule.generation {
            return;
        }
        *standing = match (*standing, answer) {
            (Standing::Asked, Answer::Installed) => Standing::Installed,
            (Standing::Asked, Answer::Refused) => {
                self.live -= 1;
                Standing::Refused
            }
            // A rule that was refused after it was to go is gone as well.
            (Standing::Leaving, Answer::Removed | Answer::Refused) => {
                self.live -= 1;
                Standing::None
            }
            (standing, _) => standing,
        };
    }
}
