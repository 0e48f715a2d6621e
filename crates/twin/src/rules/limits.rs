// SPDX-License-Identifier: BSD-3-Clause
//! Enforces the limits that rules share: room in the table, and parser settings of which a NIC has
//! only one at a time.

use crate::personality::Personality;
use crate::refusal::{Errno, Kind, Refusal};
use crate::rule_check::{Fields, ValidRule, refusal};
use crate::table::Stage;

/// The share of the limits that one rule uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Place of the rule's fields; `NO_FIELDS` if the personality does not limit them.
    fields: u16,
    /// Two bits for each conflict: one, and other.
    sides: u32,
    is_root: bool,
    is_ahead: bool,
}

const NO_FIELDS: u16 = u16::MAX;

impl Share {
    pub(super) const NONE: Self =
        Self { fields: NO_FIELDS, sides: 0, is_root: false, is_ahead: false };
}

/// Limits of the port's usual engine, and of the engine ahead of it.
pub(super) struct Limits {
    port: EngineLimits,
    ahead: EngineLimits,
}

impl Limits {
    pub(super) fn new(personality: &Personality, capacity: u64) -> Self {
        let ahead = personality.ahead.as_ref().map_or(0, |ahead| ahead.table.capacity().whole());
        Self { port: EngineLimits::new(capacity), ahead: EngineLimits::new(ahead) }
    }

    /// Returns the number of rules.
    pub(super) fn rules(&self) -> u64 {
        self.port.rules + self.ahead.rules
    }

    /// Returns the number of rules of the engine ahead.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.rules
    }

    pub(super) fn clear(&mut self) {
        self.port.clear();
        self.ahead.clear();
    }

    /// Returns the share of its engine's limits that a rule would use; refuses it if there is no
    /// room.
    pub(super) fn share(
        &mut self,
        engine: &Personality,
        checked: &ValidRule,
    ) -> Result<Share, Refusal> {
        let is_ahead = checked.stage == Stage::Ahead;
        let share = self.of(is_ahead).share(engine, checked)?;
        Ok(Share { is_ahead, ..share })
    }

    pub(super) fn add(&mut self, share: &Share) {
        self.of(share.is_ahead).add(share);
    }

    pub(super) fn remove(&mut self, share: &Share) {
        self.of(share.is_ahead).remove(share);
    }

    fn of(&mut self, is_ahead: bool) -> &mut EngineLimits {
        if is_ahead { &mut self.ahead } else { &mut self.port }
    }
}

#[derive(Default)]
struct EngineLimits {
    capacity: u64,
    rules: u64,
    root_rules: u64,
    /// Fields in use, and by how many rules.
    fields: Vec<(Fields, u32)>,
    /// Rules on both sides of each conflict.
    sides: Vec<u32>,
}

impl EngineLimits {
    fn new(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn share(&mut self, personality: &Personality, checked: &ValidRule) -> Result<Share, Refusal> {
        let table = &personality.table;
        let is_root = checked.attributes.group == 0;
        let is_full = self.rules >= self.capacity;
        let root_is_full = table.root.is_some_and(|root| self.root_rules >= root.into());
        if is_full || (is_root && root_is_full) {
            return Err(refusal(personality, table.full.as_ref(), FULL));
        }
        self.check_sides(personality, checked.sides)?;
        let fields = match &personality.pattern.other_fields {
            Some(facts) => {
                let place = self.place_of(&checked.fields);
                place.ok_or_else(|| refusal(personality, Some(facts), CONFLICT))?
            }
            None => NO_FIELDS,
        };
        Ok(Share { fields, sides: checked.sides, is_root, is_ahead: false })
    }

    fn check_sides(&mut self, personality: &Personality, sides: u32) -> Result<(), Refusal> {
        self.sides.resize(2 * personality.conflicts.len(), 0);
        for (number, conflict) in personality.conflicts.iter().enumerate() {
            let [one, other] = [2 * number, 2 * number + 1];
            let has = |side: usize| sides & 1 << side != 0;
            if (has(one) && self.sides[other] > 0) || (has(other) && self.sides[one] > 0) {
                return Err(refusal(personality, Some(&conflict.told), CONFLICT));
            }
        }
        Ok(())
    }

    /// Returns the place at which these fields are noted; `None` while others of the same protocols
    /// are in use.
    fn place_of(&mut self, fields: &Fields) -> Option<u16> {
        let same = |(other, _): &(Fields, u32)| other.protos == fields.protos;
        match self.fields.iter().position(same) {
            Some(place) => {
                let (other, rules) = &mut self.fields[place];
                if *rules == 0 {
                    *other = fields.clone();
                }
                (*other == *fields).then_some(place as u16)
            }
            None => {
                self.fields.push((fields.clone(), 0));
                Some(self.fields.len() as u16 - 1)
            }
        }
    }

    fn add(&mut self, share: &Share) {
        self.rules += 1;
        self.root_rules += u64::from(share.is_root);
        self.each(share, |rules| *rules += 1);
    }

    fn remove(&mut self, share: &Share) {
        self.rules -= 1;
        self.root_rules -= u64::from(share.is_root);
        self.each(share, |rules| *rules -= 1);
    }

    fn each(&mut self, share: &Share, change: impl Fn(&mut u32)) {
        if let Some((_, rules)) = self.fields.get_mut(usize::from(share.fields)) {
            change(rules);
        }
        let sides = self.sides.iter_mut().enumerate();
        let touched = sides.filter(|(side, _)| share.sides & 1 << side != 0);
        touched.for_each(|(_, rules)| change(rules));
    }
}

const FULL: Refusal = Refusal::new(Errno::ENOSPC, Kind::Unspecified, c"the table is full");
const CONFLICT: Refusal =
    Refusal::new(Errno::EINVAL, Kind::Handle, c"rules that are there exclude this one");
