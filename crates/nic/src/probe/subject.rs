// SPDX-License-Identifier: BSD-3-Clause
//! Interface to the subject of the prober: a NIC behind a port, or the model of one.
//!
//! Rules have the items and fields of the software NIC, because the answers become one of its
//! personalities. Any call of a subject may be refused, fail or have no effect.

use super::flow_queue::FlowQueue;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use twin::personality::RefusalFacts;
use twin::{Action, Attributes, Errno, Item, Kind, Place, Rule};

/// A rule that the prober tries on a subject.
#[derive(Clone, Debug)]
pub struct RuleProbe {
    pub(crate) attributes: Attributes,
    pub(crate) items: Vec<Item>,
    pub(crate) actions: Vec<Action>,
}

impl RuleProbe {
    pub(crate) fn rule(&self) -> Rule<'_> {
        Rule { attributes: self.attributes, items: &self.items, actions: &self.actions }
    }
}

/// Number of a rule that a subject accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(pub(crate) u64);

/// A subject's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `None` for error numbers without a name in personalities.
    pub(crate) errno: Option<Errno>,
    pub(crate) kind: Kind,
    /// The part of the rule that the driver points at, if any.
    pub(crate) place: Option<Place>,
    pub(crate) message: Option<String>,
}

impl Refused {
    /// True if another refusal is equal, except for the part that it points at.
    pub(crate) fn is_same_refusal(&self, other: &Self) -> bool {
        let words = |refused: &Self| (refused.errno, refused.kind, refused.message.clone());
        words(self) == words(other)
    }

    /// True for ENOSYS: the call does not exist.
    pub(crate) fn is_no_call(&self) -> bool {
        self.errno == Some(Errno::ENOSYS) && self.kind == Kind::Unspecified
    }

    /// Returns the refusal in the form of personalities.
    pub(crate) fn to_facts(&self) -> RefusalFacts {
        RefusalFacts::Full {
            errno: self.errno,
            kind: Some(self.kind),
            message: self.message.clone(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_deref().unwrap_or("(no message)");
        let errno = self.errno.map_or("?".to_owned(), |errno| format!("{errno:?}"));
        write!(f, "{message} ({errno})")
    }
}

/// The answer to a rule: accepted or refused.
pub(crate) type Answer = Result<(), Refused>;

/// Mark, flag and queue of a packet that the NIC delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(crate) mark: Option<u32>,
    pub(crate) flag: bool,
    pub(crate) queue: u16,
}

/// Packets and bytes of a rule; `None` for a value that the NIC does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    pub(crate) hits: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// A NIC's report of a rule's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// True if no packet hit the rule during its timeout.
    pub(crate) is_over: bool,
}

/// One port with flow rules.
pub trait Subject: FlowQueue {
    /// Returns the number of receive queues.
    fn queues(&self) -> u16;
    /// True if [`Subject::deliver`] can deliver packets.
    fn has_wire(&self) -> bool;
    /// True if the link is up, and that of the peer, if there is one.
    fn has_link(&mut self) -> bool;
    fn validate(&mut self, question: &RuleProbe) -> Answer;
    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused>;
    fn destroy(&mut self, rule: RuleId) -> Answer;
    fn flush(&mut self) -> Answer;
    /// Returns the number of lines of the driver's list of rules (`rte_flow_dev_dump`).
    fn dump_lines(&mut self) -> Result<usize, Refused>;
    /// True if the list has no lines when there are no rules.
    fn lists_only_rules(&self) -> bool;
    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused>;
    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused>;
    /// Returns the rules that no packet has hit during their timeout.
    fn aged(&mut self) -> Result<Vec<RuleId>, Refused>;
    fn isolate(&mut self, isolate: bool) -> Answer;
    /// True if destroying a rule that no longer exists is safe. Drivers of hardware would follow a
    /// dangling pointer.
    fn knows_dead_rules(&self) -> bool;
    /// Starts or stops the port; returns false if that fails.
    fn set_started(&mut self, is_started: bool) -> bool;
    /// Has the NIC receive a frame; returns `None` if it was not delivered.
    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery>;
    /// Returns the microseconds of a clock that never goes back.
    fn now_us(&self) -> u64;
    /// Lets time pass.
    fn wait_us(&mut self, us: u64);
}

/// Longest time for a link to come up after its port was started.
const LINK_US: u64 = 10_000_000;
/// Time between two checks of the link.
const LOOK_US: u64 = 10_000;

/// Waits until the link is up; returns false if it is interrupted or the time is over.
pub fn wait_for_link(subject: &mut dyn Subject, interrupted: &AtomicBool) -> bool {
    let until = subject.now_us() + LINK_US;
    loop {
        if subject.has_link() {
            return true;
        }
        if subject.now_us() > until || interrupted.load(Ordering::Relaxed) {
            return false;
        }
        subject.wait_us(LOOK_US);
    }
}
