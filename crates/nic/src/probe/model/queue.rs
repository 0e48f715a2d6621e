// SPDX-License-Identifier: BSD-3-Clause
//! Plays a flow queue of the model. Operations wait until they are pushed; a push takes as long as
//! the NIC needs for them.

use super::super::flow_queue::{Done, FlowQueue, NoTable};
use super::{Answer, Model, Refused, RuleId, RuleProbe, SILENT, Subject};
use std::collections::{HashMap, VecDeque};
use twin::{Errno, Kind};

/// Maximum of pending operations, as in the driver of the software NIC.
const OPERATIONS_MAX: u32 = 4096;
/// Time of a call that pulls results.
const PULL_US: u64 = 1;

enum Operation {
    Create(RuleProbe),
    Destroy,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<(u64, Operation)>,
    results: Vec<Done>,
    rules: HashMap<u64, RuleId>,
}

impl Queue {
    /// Forgets the rules, which ended by a flush or a stop.
    pub(super) fn forget_rules(&mut self) {
        self.rules.clear();
    }
}

impl FlowQueue for Model {
    fn most_operations(&mut self) -> Result<u32, Refused> {
        let operations = &self.nic.personality().operations;
        match operations.r#async && !operations.none {
            true => Ok(OPERATIONS_MAX),
            false => Err(no_call()),
        }
    }

    fn configure(&mut self, _: u32) -> Answer {
        self.most_operations().map(drop)
    }

    fn make_table(&mut self, _: &RuleProbe, _: u32) -> Result<(), NoTable> {
        let made = self.most_operations().map(drop);
        made.map_err(|refused| NoTable { step: "template table".to_owned(), refused })
    }

    fn destroy_table(&mut self) -> Answer {
        if !self.queue.rules.is_empty() {
            let message = Some("the table has rules".to_owned());
            let (errno, kind) = (Some(Errno::EBUSY), Kind::State);
            return Err(Refused { errno, kind, message, ..SILENT });
        }
        self.queue = Queue::default();
        Ok(())
    }

    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer {
        self.queue.waiting.push_back((number, Operation::Create(question.clone())));
        Ok(())
    }

    fn enqueue_destroy(&mut self, number: u64) -> Answer {
        self.queue.waiting.push_back((number, Operation::Destroy));
        Ok(())
    }

    fn push(&mut self) -> Answer {
        while let Some((number, operation)) = self.queue.waiting.pop_front() {
            let is_good = match operation {
                Operation::Create(question) => match self.create(&question) {
                    Ok(rule) => self.queue.rules.insert(number, rule).is_none(),
                    Err(_) => false,
                },
                Operation::Destroy => {
                    let rule = self.queue.rules.remove(&number);
                    rule.is_some_and(|rule| self.destroy(rule).is_ok())
                }
            };
            self.queue.results.push(Done { number, is_good });
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Vec<Done>, Refused> {
        self.now_us += PULL_US;
        Ok(std::mem::take(&mut self.queue.results))
    }
}

fn no_call() -> Refused {
    Refused { errno: Some(Errno::ENOTSUP), kind: Kind::Unspecified, ..SILENT }
}
