// SPDX-License-Identifier: BSD-3-Clause
//! Defines the actions of rules, and computes the effect of a list of actions.

use crate::refusal::{Errno, Kind, Place, Refusal};
use crate::rss::RssTypes;

/// One action of a rule's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Puts a number on the packet.
    Mark(u32),
    /// Flags the packet as hit, without a number.
    Flag,
    /// Delivers to this queue.
    Queue(u16),
    /// Spreads over queues, by the port's key. If the action has no types, those of the port apply.
    Rss(Spread),
    /// Drops the packet.
    Drop,
    /// Delivers as without the rule.
    Passthru,
    /// Counts packets and bytes.
    Count,
    /// Continues with the rules of this group.
    Jump(u32),
    /// Reports the rule to the application once no packet has hit it during the timeout.
    Age(Age),
    /// Sends out on the wire of the port with this number, by the action from before DPDK 21.11.
    PortId(u16),
    /// Sends out on the wire of the port with this number, by the action that DPDK 21.11 added.
    RepresentedPort(u16),
    /// Delivers to the port with this number as if the packet had arrived by its wire. `None` is
    /// the rule's own port, where nothing changes.
    PortRepresentor(Option<u16>),
}

/// Timeout of a rule's age action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Seconds; 0 is none.
    pub timeout_s: u32,
    /// The application's value for the rule; 0 for the rule's handle.
    pub context: u64,
}

/// Names of the actions in testpmd's flow syntax and in personalities.
pub(crate) const NAMES: [&str; 12] = [
    "mark",
    "flag",
    "queue",
    "rss",
    "drop",
    "passthru",
    "count",
    "jump",
    "age",
    "port_id",
    "represented_port",
    "port_representor",
];

/// How a rule spreads packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Packets that are hashed, and their fields; other packets go to the first of the queues.
    pub types: RssTypes,
    /// Queues, at least one.
    pub queues: Box<[u16]>,
}

/// Effect of a rule on a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effect {
    pub(crate) mark: Option<u32>,
    pub(crate) flag: bool,
    pub(crate) destination: Destination,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Destination {
    /// Delivered as without the rule.
    #[default]
    Default,
    Queue(u16),
    /// Place of the spread in the table of spreads.
    Spread(u32),
    Drop,
    Jump(u32),
    /// Out on the wire of this port.
    Wire(u16),
    /// In at this port.
    Port(u16),
}

/// Combined effect of a list of actions.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) effect: Effect,
    /// The spread, if the destination is one.
    pub(crate) spread: Option<Spread>,
    pub(crate) counts: bool,
    pub(crate) age: Option<Age>,
}

impl Action {
    /// Returns the name of the action.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mark(_) => "mark",
            Self::Flag => "flag",
            Self::Queue(_) => "queue",
            Self::Rss(_) => "rss",
            Self::Drop => "drop",
            Self::Passthru => "passthru",
            Self::Count => "count",
            Self::Jump(_) => "jump",
            Self::Age(_) => "age",
            Self::PortId(_) => "port_id",
            Self::RepresentedPort(_) => "represented_port",
            Self::PortRepresentor(_) => "port_representor",
        }
    }

    /// True if the action names a port of a switch.
    pub fn is_about_port(&self) -> bool {
        matches!(self, Self::PortId(_) | Self::RepresentedPort(_) | Self::PortRepresentor(_))
    }

    fn is_destination(&self) -> bool {
        !matches!(self, Self::Mark(_) | Self::Flag | Self::Count | Self::Age(_))
    }
}

impl Outcome {
    /// Returns the combined effect of `actions`. A packet has one destination; `passthru` beside
    /// `rss` is none, as in Intel's drivers.
    pub(crate) fn of(actions: &[Action]) -> Result<Self, Refusal> {
        let mut outcome = Self::default();
        let mut fates = 0;
        let is_spread = actions.iter().any(|action| matches!(action, Action::Rss(_)));
        for (place, action) in actions.iter().enumerate() {
            outcome.add(action);
            let is_void = is_spread && *action == Action::Passthru;
            fates += u32::from(action.is_destination() && !is_void);
            if fates > 1 {
                let message =
                    c"a packet has one fate: a queue, rss, drop, jump, passthru or a port";
                let refusal = Refusal::new(Errno::EINVAL, Kind::Action, message);
                return Err(refusal.at(Place::Action(place)));
            }
        }
        Ok(outcome)
    }

    fn add(&mut self, action: &Action) {
        match action {
            Action::Mark(mark) => self.effect.mark = Some(*mark),
            Action::Flag => self.effect.flag = true,
            Action::Queue(queue) => self.effect.destination = Destination::Queue(*queue),
            Action::Rss(spread) => self.spread = Some(spread.clone()),
            Action::Drop => self.effect.destination = Destination::Drop,
            Action::Jump(group) => self.effect.destination = Destination::Jump(*group),
            Action::PortId(port) | Action::RepresentedPort(port) => {
                self.effect.destination = Destination::Wire(*port);
            }
            Action::PortRepresentor(Some(port)) => {
                self.effect.destination = Destination::Port(*port)
            }
            Action::Passthru | Action::PortRepresentor(None) => {}
            Action::Count => self.counts = true,
            Action::Age(age) => self.age = Some(*age),
        }
    }
}
