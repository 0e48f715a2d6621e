// SPDX-License-Identifier: BSD-3-Clause
//! Implements the flow queue of a subject with the templates and the queue of a DPDK port.

use super::super::flow_queue::{Done, FlowQueue, NoTable};
use super::{Answer, PortSubject, Refused, RuleProbe, refused, rule_of};

impl FlowQueue for PortSubject {
    fn most_operations(&mut self) -> Result<u32, Refused> {
        let info = self.side.port.flow_info().map_err(refused)?;
        Ok(info.operations)
    }

    fn configure(&mut self, operations: u32) -> Answer {
        self.side.port.flow_configure(operations).map_err(refused)
    }

    fn make_table(&mut self, like: &RuleProbe, room: u32) -> Result<(), NoTable> {
        let made = self.side.port.flow_table_make(&rule_of(like), room);
        made.map_err(|(step, error)| NoTable { step: step.to_string(), refused: refused(error) })
    }

    fn destroy_table(&mut self) -> Answer {
        self.side.port.flow_tables_destroy().map_err(refused)
    }

    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer {
        self.side.port.flow_enqueue_create(&rule_of(question), number).map_err(refused)
    }

    fn enqueue_destroy(&mut self, number: u64) -> Answer {
        self.side.port.flow_enqueue_destroy(number).map_err(refused)
    }

    fn push(&mut self) -> Answer {
        self.side.port.flow_push().map_err(refused)
    }

    fn pull(&mut self) -> Result<Vec<Done>, Refused> {
        let done = self.side.port.flow_pull().map_err(refused)?;
        let plain = |done: dpdk::flow::Done| Done { number: done.number, is_good: done.is_good };
        Ok(done.into_iter().map(plain).collect())
    }
}
