// SPDX-License-Identifier: BSD-3-Clause
//! Sends every frame back to the port that it came from, turned round.

use crate::reports::{Outbox, Report};
use crate::task::{Stage, Task};
use dpdk::{Burst, RxQueue, TxQueue};
use traffic::{KeptPorts, NotTurned, Swap, Turned};
use wire::Packet;

/// Counters of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectorReport {
    /// Frames received.
    pub received: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Frames that were sent back.
    pub reflected: u64,
    /// Frames that were not, by reason ([`NotTurned::ALL`]).
    pub not_turned: [u64; NotTurned::ALL.len()],
    /// Frames whose addresses were exchanged but not their ports, by reason ([`KeptPorts::ALL`]).
    pub without_ports: [u64; KeptPorts::ALL.len()],
    /// Frames that the port had no room for.
    pub port_full: u64,
    /// Longest time between two looks at the queues, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Report for ReflectorReport {
    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is done with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// How far they are turned round.
    pub swap: Swap,
    /// How often a frame is offered to a port that has no room.
    pub tries: u32,
}

/// Reflects on one queue of a port, or several.
pub struct Reflector {
    queues: Vec<(RxQueue, TxQueue)>,
    reflection: Reflection,
    burst: Burst,
    last_turn: Option<u64>,
    outbox: Outbox<ReflectorReport>,
}

impl Reflector {
    /// Reflects what comes by a receive queue by the transmit queue beside it.
    pub fn new(
        queues: Vec<(RxQueue, TxQueue)>,
        reflection: Reflection,
        outbox: Outbox<ReflectorReport>,
    ) -> Self {
        Self { queues, reflection, burst: Burst::new(), last_turn: None, outbox }
    }
}

/// Turns the frames of a burst round; frees those that are not to be sent.
#[inline(always)]
fn turn_all(burst: &mut Burst, swap: Swap, report: &mut ReflectorReport) {
    let mut is_turned = [true; dpdk::BURST_MAX];
    let mut is_all = true;
    for (mbuf, is_turned) in burst.iter_mut().zip(&mut is_turned) {
        report.bytes += mbuf.frame_len() as u64;
        match swap.turn(mbuf.head_mut()) {
            Ok(Turned::Whole) => {}
            Ok(Turned::WithoutPorts(reason)) => report.without_ports[reason as usize] += 1,
            Err(reason) => {
                report.not_turned[reason as usize] += 1;
                (*is_turned, is_all) = (false, false);
            }
        }
    }
    if !is_all {
        burst.retain(|number| is_turned[number]);
    }
}

impl Task for Reflector {
    #[inline]
    fn turn(&mut self, now: u64, _stage: Stage) -> bool {
        if self.outbox.is_due(now) {
            self.outbox.hand_over(now);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        let mut is_any = false;
        for (rx, tx) in &mut self.queues {
            let received = rx.burst(&mut self.burst) as u64;
            if received == 0 {
                continue;
            }
            is_any = true;
            report.received += received;
            turn_all(&mut self.burst, self.reflection.swap, report);
            for _ in 0..=self.reflection.tries {
                report.reflected += tx.burst(&mut self.burst) as u64;
                if self.burst.is_empty() {
                    break;
                }
            }
            report.port_full += self.burst.free_all() as u64;
        }
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.outbox.hand_over(now);
    }
}
