// SPDX-License-Identifier: BSD-3-Clause
//! Decides whether a NIC accepts a list of actions.

use super::{Rule, RuleChecker};
use crate::action::{Action, Spread};
use crate::personality::{ActionFacts, Steps, Walk};
use crate::refusal::{Errno, Kind, Place, Refusal};

impl RuleChecker<'_> {
    pub(super) fn actions(&self, rule: Rule<'_>) -> Result<(), Refusal> {
        let Rule { attributes, actions, .. } = rule;
        let facts = &self.personality.actions;
        if actions.is_empty() {
            return self.refuse(facts.empty.as_ref(), EMPTY, Place::Action(0));
        }
        let lists = match facts.accepted_transfer.as_slice() {
            [_, ..] if attributes.transfer => &facts.accepted_transfer,
            _ => &facts.accepted,
        };
        match lists.as_slice() {
            [] => {}
            [list] if facts.any_order => self.any_order(list, actions)?,
            lists => self.in_order(lists, actions)?,
        }
        let places = actions.iter().enumerate();
        places.into_iter().try_for_each(|(place, action)| match action.is_about_port() {
            true if !self.has_switch => self.stray(place, action),
            _ => self.configuration(Place::Action(place), action),
        })
    }

    /// Checks the order of actions; a refusal follows the list that matches longest.
    fn in_order(&self, lists: &[Steps], actions: &[Action]) -> Result<(), Refusal> {
        let missing = self.personality.actions.missing.as_ref();
        let walks = lists.iter().map(|list| list.walk(actions.iter().map(Action::name)));
        let far = |walk: &Walk| match *walk {
            Walk::Stray(place) => place,
            Walk::Short => actions.len(),
            Walk::Whole => usize::MAX,
        };
        match walks.max_by_key(far) {
            Some(Walk::Stray(place)) => self.stray(place, &actions[place]),
            Some(Walk::Short) => self.refuse(missing, MISSING, Place::Action(actions.len())),
            _ => Ok(()),
        }
    }

    fn any_order(&self, list: &Steps, actions: &[Action]) -> Result<(), Refusal> {
        let ActionFacts { missing, twice, .. } = &self.personality.actions;
        let mut is_there = vec![false; list.steps().len()];
        for (place, action) in actions.iter().enumerate() {
            let name = action.name();
            let Some(step) = list.steps().iter().position(|step| step.has(name)) else {
                return self.stray(place, action);
            };
            if std::mem::replace(&mut is_there[step], true) {
                return self.refuse(twice.get(name), TWICE, Place::Action(place));
            }
        }
        let mut steps = list.steps().iter().zip(is_there);
        match steps.all(|(step, is_there)| step.optional || is_there) {
            true => Ok(()),
            false => self.refuse(missing.as_ref(), MISSING, Place::Action(actions.len())),
        }
    }

    /// Refuses an action that is out of place.
    fn stray(&self, place: usize, action: &Action) -> Result<(), Refusal> {
        let ActionFacts { unknown, out_of_place, .. } = &self.personality.actions;
        let facts = out_of_place.get(action.name()).or(unknown.as_ref());
        self.refuse(facts, UNKNOWN, Place::Action(place))
    }

    /// Checks the configuration of an action.
    fn configuration(&self, place: Place, action: &Action) -> Result<(), Refusal> {
        let facts = &self.personality.actions;
        match action {
            Action::Queue(queue) if *queue >= self.queues => {
                self.refuse(facts.no_queue.as_ref(), NO_QUEUE, place)
            }
            Action::Mark(mark) if self.personality.mark.max.is_some_and(|max| *mark > max) => {
                self.refuse(self.personality.mark.too_high.as_ref(), TOO_HIGH, place)
            }
            Action::Rss(spread) => self.spread(place, spread),
            _ => Ok(()),
        }
    }

    fn spread(&self, place: Place, Spread { queues, .. }: &Spread) -> Result<(), Refusal> {
        let ActionFacts { rss, no_queue, .. } = &self.personality.actions;
        if queues.is_empty() {
            return Err(NO_QUEUES.at(place));
        }
        if queues.iter().any(|&queue| queue >= self.queues) {
            return self.refuse(no_queue.as_ref(), NO_QUEUE, place);
        }
        let follow = queues.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if let Some(facts) = rss.not_contiguous.as_ref().filter(|_| !follow) {
            return self.refuse(Some(facts), NO_QUEUES, place);
        }
        let is_power = queues.len() > 1 && queues.len().is_power_of_two();
        if let Some(facts) = rss.not_power_of_two.as_ref().filter(|_| !is_power) {
            return self.refuse(Some(facts), NO_QUEUES, place);
        }
        Ok(())
    }
}

const EMPTY: Refusal =
    Refusal::new(Errno::EINVAL, Kind::ActionNum, c"a rule without an action does nothing");
const UNKNOWN: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Action, c"this action is not supported here");
const MISSING: Refusal = Refusal::new(Errno::EINVAL, Kind::Action, c"an action is missing");
const TWICE: Refusal =
    Refusal::new(Errno::EINVAL, Kind::Action, c"this action, or one like it, came before");
const NO_QUEUE: Refusal =
    Refusal::new(Errno::EINVAL, Kind::ActionConf, c"queue index out of range");
const NO_QUEUES: Refusal =
    Refusal::new(Errno::EINVAL, Kind::ActionConf, c"rss needs at least one queue");
const TOO_HIGH: Refusal = Refusal::new(Errno::EINVAL, Kind::ActionConf, c"the mark is too high");
