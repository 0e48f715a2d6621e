// SPDX-License-Identifier: BSD-3-Clause
//! Decides whether a NIC of some personality accepts a rule, as far as this depends on the rule
//! alone.
//!
//! [`crate::Personality`] has the requirements and refusals of the NIC. A rule that no NIC could
//! execute is refused with a message of the model.

mod actions;
mod items;

use crate::action::{Action, Age, Effect, Outcome, Spread};
use crate::pattern::{Attributes, Item, Key, Pattern, Proto, Shape};
use crate::personality::{Check, Personality, RefusalFacts, Steps};
use crate::refusal::{Errno, Kind, Place, Refusal};
use crate::table::Stage;

/// A rule as an application requests it.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// Group, priority and direction.
    pub attributes: Attributes,
    /// Items that packets must match.
    pub items: &'a [Item],
    /// Actions on the packets that match.
    pub actions: &'a [Action],
}

/// A rule that the NIC accepts.
pub(crate) struct ValidRule {
    pub(crate) shape: Shape,
    pub(crate) key: Key,
    pub(crate) effect: Effect,
    /// The spread, if the destination is one.
    pub(crate) spread: Option<Spread>,
    pub(crate) counts: bool,
    pub(crate) age: Option<Age>,
    /// Fields with masks, if the personality limits them.
    pub(crate) fields: Fields,
    /// The rule's sides in conflicts: two bits for each conflict, `one` and `other`.
    pub(crate) sides: u32,
    /// Group, priority and direction.
    pub(crate) attributes: Attributes,
    pub(crate) stage: Stage,
}

/// Fields that a rule matches, and their protocols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Network and transport.
    pub(crate) protos: [Option<Proto>; 2],
    /// Fields whose masks have bits.
    pub(crate) set: Vec<MaskedField>,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaskedField {
    pub(crate) proto: Proto,
    /// Number of the field in the header.
    pub(crate) number: usize,
    /// True if the header is behind a tunnel's header.
    pub(crate) is_inner: bool,
}

/// Checks rules for one engine.
#[derive(Clone, Copy)]
pub(crate) struct RuleChecker<'a> {
    pub(crate) personality: &'a Personality,
    /// Number of receive queues.
    pub(crate) queues: u16,
    /// True if the port is one of a switch.
    pub(crate) has_switch: bool,
    stage: Stage,
}

impl<'a> RuleChecker<'a> {
    pub(crate) fn new(personality: &'a Personality, queues: u16, has_switch: bool) -> Self {
        Self { personality, queues, has_switch, stage: Stage::Port }
    }

    /// Checks a rule with one engine after the other.
    pub(crate) fn check(&self, rule: Rule<'_>) -> Result<ValidRule, Refusal> {
        match &self.personality.ahead {
            Some(personality) => {
                let ahead = RuleChecker { personality, stage: Stage::Ahead, ..*self };
                ahead.engine(rule).or_else(|refusal| self.behind(rule, refusal))
            }
            None => self.engine(rule),
        }
    }

    /// Checks a rule with the port's usual engine, after the one ahead of it has refused.
    pub(crate) fn behind(&self, rule: Rule<'_>, before: Refusal) -> Result<ValidRule, Refusal> {
        self.engine(rule).map_err(|refusal| refusal.after(before))
    }

    fn engine(&self, rule: Rule<'_>) -> Result<ValidRule, Refusal> {
        self.first_parser(rule).map_err(|refusal| self.last_parser(rule.items).unwrap_or(refusal))
    }

    /// Returns the refusal of the parser that is tried after the first has refused.
    fn last_parser(&self, items: &[Item]) -> Option<Refusal> {
        let names = || items.iter().map(|item| item.proto.name());
        let parsers = &self.personality.last_parsers;
        let parser = parsers.iter().find(|parser| parser.items.takes(names()))?;
        let mut refusals = items.iter().enumerate().filter_map(|(place, item)| {
            let is_given = item.given.spec || item.given.mask;
            let facts = if is_given { &parser.given } else { &parser.null };
            let facts = facts.get(item.proto.name())?;
            Some(refusal(self.personality, Some(facts), PARSER.at(Place::Item(place))))
        });
        refusals.next()
    }

    fn first_parser(&self, rule: Rule<'_>) -> Result<ValidRule, Refusal> {
        let order = match self.personality.order.as_slice() {
            [] => &Check::USUAL,
            order => order,
        };
        let mut items = None;
        for check in order {
            match check {
                Check::Attributes => self.attributes(rule.attributes)?,
                Check::Pattern => items = Some(self.items(rule)?),
                Check::Actions => {
                    self.actions(rule)?;
                    self.in_group(rule)?;
                }
            }
        }
        let items::Taken { pattern, fields } = match items {
            Some(taken) => taken,
            None => self.items(rule)?,
        };
        let Pattern { shape, key, .. } = pattern?;
        let Outcome { mut effect, spread, counts, age } = Outcome::of(rule.actions)?;
        let facts = &self.personality.mark;
        effect.mark = effect.mark.filter(|&mark| {
            !facts.never_delivered && facts.means_none.is_none_or(|none| none != mark)
        });
        effect.flag &= !facts.flag_never_delivered;
        let sides = self.sides(rule.items);
        let attributes = rule.attributes;
        let stage = if attributes.transfer { Stage::Switch } else { self.stage };
        Ok(ValidRule { shape, key, effect, spread, counts, age, fields, sides, attributes, stage })
    }

    /// Refuses actions that are not allowed in group 0, where packets begin.
    fn in_group(&self, rule: Rule<'_>) -> Result<(), Refusal> {
        let not_in_root = &self.personality.actions.not_in_root;
        if rule.attributes.group > 0 || not_in_root.is_empty() {
            return Ok(());
        }
        for (place, action) in rule.actions.iter().enumerate() {
            if let Some(facts) = not_in_root.get(action.name()) {
                return self.refuse(Some(facts), NOT_IN_ROOT, Place::Action(place));
            }
        }
        Ok(())
    }

    fn sides(&self, items: &[Item]) -> u32 {
        let conflicts = self.personality.conflicts.iter();
        let sides = conflicts.flat_map(|conflict| [&conflict.one, &conflict.other]);
        let is_on = |side: &Steps| side.takes(items.iter().map(|item| item.proto.name()));
        sides.enumerate().fold(0, |bits, (number, side)| bits | u32::from(is_on(side)) << number)
    }

    /// Returns a refusal; `facts` takes precedence over the usual message of the model.
    fn refuse<T>(
        &self,
        facts: Option<&RefusalFacts>,
        usual: Refusal,
        place: Place,
    ) -> Result<T, Refusal> {
        Err(refusal(self.personality, facts, usual.at(place)))
    }

    /// True if the rule is for transfer, and transfer is possible.
    fn has_transfer(&self, attributes: Attributes) -> bool {
        attributes.transfer && self.personality.attributes.transfer && self.has_switch
    }

    fn attributes(&self, attributes: Attributes) -> Result<(), Refusal> {
        let facts = &self.personality.attributes;
        let beyond = |number: u32, count: Option<u32>| count.is_some_and(|count| number >= count);
        let refuse =
            |facts: &Option<RefusalFacts>, usual| self.refuse(facts.as_ref(), usual, Place::Rule);
        // Drivers that support only ingress refuse transfer as missing ingress.
        let knows_transfer = facts.transfer || facts.ingress.is_none();
        if !(attributes.ingress || attributes.transfer && knows_transfer) {
            refuse(&facts.ingress, INGRESS)
        } else if attributes.egress {
            refuse(&facts.egress, EGRESS)
        } else if attributes.transfer && !self.has_transfer(attributes) {
            refuse(&facts.no_transfer, TRANSFER)
        } else if beyond(attributes.priority, facts.priorities) {
            refuse(&facts.priority, PRIORITY)
        } else if beyond(attributes.group, facts.groups) {
            refuse(&facts.group, GROUP)
        } else {
            Ok(())
        }
    }
}

/// Returns the refusal of a NIC: that of `facts`, with the NIC's error number where `facts` has
/// none.
pub(crate) fn refusal(
    personality: &Personality,
    facts: Option<&RefusalFacts>,
    usual: Refusal,
) -> Refusal {
    let usual = Refusal { errno: personality.errno.unwrap_or(usual.errno), ..usual };
    facts.map_or(usual, |facts| facts.refusal(usual))
}

/// Returns the refusal of an item or action that no NIC of the model takes, in the NIC's words.
pub(crate) fn refusal_of_unknown(personality: &Personality, usual: Refusal) -> Refusal {
    let facts = match usual.kind {
        Kind::Action => personality.actions.unknown.as_ref(),
        _ => personality.pattern.unknown.as_ref(),
    };
    refusal(personality, facts, usual)
}

const NOT_IN_ROOT: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"this action is not for group 0");
const PARSER: Refusal = Refusal::new(Errno::EINVAL, Kind::Item, c"no parser takes the rule");
const INGRESS: Refusal = Refusal::new(Errno::EINVAL, Kind::AttrIngress, c"a rule is for ingress");
const EGRESS: Refusal = Refusal::new(Errno::ENOTSUP, Kind::AttrEgress, c"egress is not supported");
const TRANSFER: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::AttrTransfer, c"transfer is not supported");
const PRIORITY: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::AttrPriority, c"there is no such priority");
const GROUP: Refusal = Refusal::new(Errno::ENOTSUP, Kind::AttrGroup, c"there is no such group");

#[cfg(test)]
mod tests {
    use super::*;

    /// An item that the model does not have is refused as the NIC refuses one that it does not
    /// take.
    #[test]
    fn an_unknown_part_is_refused_in_the_words_of_the_nic() {
        let said = |name: &str, kind| {
            let usual = Refusal::new(Errno::ENOTSUP, kind, c"usual").at(Place::Item(2));
            let refusal = refusal_of_unknown(&Personality::named(name).unwrap(), usual);
            assert_eq!(refusal.place, Place::Item(2));
            (refusal.errno, refusal.message.unwrap().to_str().unwrap())
        };
        assert_eq!(said("x710-17.02", Kind::Item), (Errno::EINVAL, "Unsupported pattern"));
        assert_eq!(said("x710-17.02", Kind::Action), (Errno::EINVAL, "Invalid action."));
        assert_eq!(said("ideal", Kind::Item), (Errno::ENOTSUP, "usual"));
    }
}
