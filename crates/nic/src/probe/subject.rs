// SPDX-License-Identifier: BSD-3-Clause
//! The subject of the prober: a NIC behind a port, or the model of one.
//!
//! Rules are written with the items and fields of the software NIC, because the answers become one
//! of its personalities. A subject promises nothing: it may refuse, fail or be silent anywhere.

use super::flow_queue::FlowQueue;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use twin::personality::Told;
use twin::{Action, Attributes, Errno, Item, Kind, Place, Rule};

/// A rule that a subject is asked to take.
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

/// Names a rule that a subject took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(pub(crate) u64);

/// How a subject said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `None` for numbers that personalities have no name for.
    pub(crate) errno: Option<Errno>,
    pub(crate) kind: Kind,
    /// What it pointed at, if at anything.
    pub(crate) place: Option<Place>,
    pub(crate) message: Option<String>,
}

impl Refused {
    /// Whether another refusal says the same, wherever it points.
    pub(crate) fn says_as(&self, other: &Self) -> bool {
        let words = |refused: &Self| (refused.errno, refused.kind, refused.message.clone());
        words(self) == words(other)
    }

    /// ENOSYS: there is no such call.
    pub(crate) fn is_no_call(&self) -> bool {
        self.errno == Some(Errno::ENOSYS) && self.kind == Kind::Unspecified
    }

    /// As a personality says it.
    pub(crate) fn told(&self) -> Told {
        Told::Full { errno: self.errno, kind: Some(self.kind), message: self.message.clone() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_deref().unwrap_or("(no words)");
        let errno = self.errno.map_or("?".to_owned(), |errno| format!("{errno:?}"));
        write!(f, "{message} ({errno})")
    }
}

/// Whether a rule was taken.
pub(crate) type Answer = Result<(), Refused>;

/// A packet that came out of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(crate) mark: Option<u32>,
    pub(crate) flag: bool,
    pub(crate) queue: u16,
}

/// What a rule counted; `None` for what the NIC does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    pub(crate) hits: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// What a NIC says of a rule's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// No packet hit it for its timeout.
    pub(crate) is_over: bool,
}

/// One port with flow rules.
pub trait Subject: FlowQueue {
    /// Receive queues it has.
    fn queues(&self) -> u16;
    /// Whether [`Subject::deliver`] leads anywhere.
    fn has_wire(&self) -> bool;
    /// Whether the link is up now; that of the peer too, where there is one.
    fn has_link(&mut self) -> bool;
    fn validate(&mut self, question: &RuleProbe) -> Answer;
    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused>;
    fn destroy(&mut self, rule: RuleId) -> Answer;
    fn flush(&mut self) -> Answer;
    /// Lines of the driver's description of all rules.
    fn dump_lines(&mut self) -> Result<usize, Refused>;
    /// Whether there are no such lines where there are no rules.
    fn lists_only_rules(&self) -> bool;
    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused>;
    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused>;
    /// Rules that no packet hit for their timeout.
    fn aged(&mut self) -> Result<Vec<RuleId>, Refused>;
    fn isolate(&mut self, isolate: bool) -> Answer;
    /// Whether it may be asked to destroy a rule that it has forgotten itself. Drivers of hardware
    /// may not: they would follow a pointer to nothing.
    fn knows_dead_rules(&self) -> bool;
    /// Starts or stops the port; false if it does not.
    fn set_started(&mut self, is_started: bool) -> bool;
    /// Lets the NIC receive a frame; `None` if it did not come out.
    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery>;
    /// Microseconds of a clock that never goes back.
    fn now_us(&self) -> u64;
    /// Lets time pass.
    fn wait_us(&mut self, us: u64);
}

/// Longest time for a link to come up after its port was started.
const LINK_US: u64 = 10_000_000;
/// How often it is looked at meanwhile.
const LOOK_US: u64 = 10_000;

/// Waits until the link is up, unless somebody interrupts that. Whether it is.
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
