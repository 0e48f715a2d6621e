// SPDX-License-Identifier: BSD-3-Clause
//! Asks the workers of a pair what would happen to a packet.

use crate::live::commands::queue::{Command, Reply};
use crate::live::query::client::{ListedConn, QueryClient, RunEnding};
use engine::{
    AccessLists, AccessTrace, EndpointMatch, Filter, FlowRecord, PacketExplanation, PacketQuestion,
    PacketRelation, Query,
};
use std::sync::Arc;

/// What would happen to a packet, and the lists that say so.
pub(crate) struct Explained {
    pub(crate) packet: PacketExplanation,
    /// Lcore of the worker that has the connection of the packet.
    pub(crate) lcore: u32,
    pub(crate) lists: Option<Arc<AccessLists>>,
    /// Number of changes of lists so far.
    pub(crate) epoch: u32,
}

impl QueryClient {
    /// Returns the access lists of a pair, and the number of changes of lists so far.
    pub(crate) fn lists_of(&self, pair: usize) -> (Option<Arc<AccessLists>>, u32) {
        let state = self.reloads.take();
        (self.access().get(pair).cloned().flatten(), state.epoch())
    }

    /// Returns what would happen to a packet that arrives at a port of this pair, while no other
    /// client changes lists. `None` if its addresses are of two IP versions.
    ///
    /// Connections without ports have numbers instead, which the packet does not show. Of several
    /// such connections between its addresses, it is taken for a packet of the latest.
    pub(crate) fn explain(
        &self,
        pair: usize,
        question: &PacketQuestion,
    ) -> Result<Option<Explained>, RunEnding> {
        let state = self.reloads.take();
        let mut found = self.ask_workers(pair, question)?;
        let lacks_numbers = |explained: &PacketExplanation| {
            let PacketExplanation { trace, conn, relation } = explained;
            trace.packet.ports.is_none() && conn.is_none() && *relation != PacketRelation::Error
        };
        if let Some((explained, _)) = found.as_ref().filter(|(packet, _)| lacks_numbers(packet)) {
            if let Some(numbers) = self.numbers(pair, &explained.trace)? {
                found = self.ask_workers(pair, &PacketQuestion { numbers, ..*question })?;
            }
        }
        let lists = self.access().get(pair).cloned().flatten();
        let epoch = state.epoch();
        Ok(found.map(|(packet, lcore)| Explained { packet, lcore, lists, epoch }))
    }

    /// Returns the explanation of the worker that has the connection of the packet, and its lcore;
    /// of any worker of the pair if none has.
    fn ask_workers(
        &self,
        pair: usize,
        question: &PacketQuestion,
    ) -> Result<Option<(PacketExplanation, u32)>, RunEnding> {
        let mut found = None;
        for worker in self.workers.iter().filter(|worker| worker.wire == pair) {
            match worker.request(|replies| Command::Explain(*question, replies))? {
                Reply::Explained(Some(packet)) if packet.conn.is_some() || found.is_none() => {
                    found = Some((packet, worker.lcore));
                }
                Reply::Explained(_) => {}
                _ => return Err(RunEnding),
            }
        }
        Ok(found)
    }

    /// Returns the numbers, in place of ports, of the latest connection that may have this packet.
    fn numbers(
        &self,
        pair: usize,
        AccessTrace { packet, .. }: &AccessTrace,
    ) -> Result<Option<[u16; 2]>, RunEnding> {
        let either = EndpointMatch { address: Some(packet.src.into()), port: None };
        let (zone, proto) = (Some(packet.zone), Some(packet.proto));
        let filter = Filter { zone, proto, either, ..Filter::default() };
        let mut latest = (0, None);
        let may_have = |record: &FlowRecord| match (record.src, record.dst) {
            // Of ICMP, type and code of the first packet are in the second number.
            ends if ends == (packet.src, packet.dst) => {
                packet.icmp.is_none_or(|icmp| record.dport == u16::from_be_bytes(icmp))
            }
            ends => ends == (packet.dst, packet.src),
        };
        self.flows(
            Query { filter, ..Query::default() },
            &mut |ListedConn { flow, wire, .. }, _| {
                let record = &flow.record;
                if wire == pair && record.end >= latest.0 && may_have(record) {
                    latest = (record.end, Some([record.sport, record.dport]));
                }
            },
        )?;
        Ok(latest.1)
    }
}
