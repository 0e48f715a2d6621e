// SPDX-License-Identifier: BSD-3-Clause
//! Makes the frames of a profile one by one, in the order of their times, without a clock.
//!
//! One heap has the templates, by the time of their next flow. A second heap has the flows that
//! have begun, by the time of their next frame. A flow of one frame never enters the second heap.
//! Both heaps are allocated at the start, so making frames allocates nothing.

use super::decimal::Decimal;
use super::frame::Link;
use super::pace::{FlowRange, MULTIPLIER_MAX, Pace};
use super::pool::TupleMaker;
use super::script::{Script, Step};
use super::traffic::Traffic;
use crate::Side;
use crate::ramp::Ramp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::net::Ipv4Addr;
use std::sync::Arc;
use thiserror::Error;

/// Maximum number of flows of one [`Replay`] that have begun and not ended. Each takes 32 bytes.
pub const MAX_ACTIVE_FLOWS: u64 = 1 << 22;

/// Rule by which frames are divided between the two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Side A sends frames of clients, side B those of servers.
    #[default]
    Side,
    /// One port sends all frames of a flow: side A if the client address is even, else side B.
    /// Addresses do not change. This is `-p` of TRex.
    Parity,
}

/// Options of a [`Replay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Factor for the flow rate of each template: `-m` of TRex.
    pub multiplier: Decimal,
    /// Rule by which frames are divided between the ports.
    pub split: Split,
    /// Number of the port pair, from 0. Addresses of all pools move by this number times
    /// `dual_port_mask`.
    pub port_pair: u8,
    /// MAC addresses of the ports of side A and side B. Each sends to the other.
    pub macs: [[u8; 6]; 2],
    /// End of the replay in nanoseconds from the start; `None` for never.
    pub end_ns: Option<u64>,
    /// The port whose frames are made; `None` for both.
    pub side: Option<Side>,
    /// Nanoseconds in which the rate of new flows grows linearly from 0. With 0 the rate is full
    /// from the start.
    pub ramp_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            multiplier: Decimal::ONE,
            split: Split::Side,
            port_pair: 0,
            macs: [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]],
            end_ns: None,
            side: None,
            ramp_ns: 0,
        }
    }
}

/// Reason why a profile cannot be replayed with some [`Options`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The multiplier is 0 or too large.
    #[error("multiplier {multiplier} is not allowed; give a number from 0.000001 to 1000000")]
    Multiplier {
        /// The multiplier.
        multiplier: Decimal,
    },
    /// Too many flows would be active at the same time.
    #[error(
        "{flows} flows would be active at the same time; at most {MAX_ACTIVE_FLOWS} are possible; \
         lower the multiplier or use more threads"
    )]
    ActiveFlows {
        /// The number of flows.
        flows: u64,
    },
}

/// Generator of a profile's frames, in the order of their times.
#[derive(Clone, Debug)]
pub struct Replay {
    streams: Vec<Stream>,
    /// Time of the next flow of each stream, and index of the stream.
    arrivals: BinaryHeap<Reverse<(u64, u32)>>,
    active: BinaryHeap<Reverse<Active>>,
    link: Link,
    split: Split,
    ramp: Ramp,
    end_ns: u64,
}

/// A template that is being sent, and its next flow.
#[derive(Clone, Debug)]
struct Stream {
    script: Arc<Script>,
    tuples: TupleMaker,
    pace: Pace,
    /// Time from the start of a flow to its first frame of this side, in nanoseconds.
    delay_ns: u64,
    burst: u64,
    range: FlowRange,
    /// Parity of the client addresses whose flows are made; `None` for both.
    parity: Option<u32>,
    /// Number of the current burst.
    burst_number: u64,
    /// Number of the next flow in the current burst.
    in_burst: u64,
    /// Offset of the next flow in a repeated range.
    offset: u64,
}

/// A flow that has begun, and its next frame.
///
/// Flows are ordered by time, then by flow, stream and step, so the order of frames does not depend
/// on the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Active {
    due_ns: u64,
    flow: u64,
    stream: u32,
    step: u32,
}

const _: () = assert!(size_of::<Active>() <= 32);

impl Traffic {
    /// Returns the generator of the frames. If this is a part from [`Traffic::share`], it makes the
    /// frames of that part.
    ///
    /// # Errors
    /// The multiplier is out of range, or more than [`MAX_ACTIVE_FLOWS`] flows would be active at
    /// the same time.
    pub fn replay(&self, options: &Options) -> Result<Replay, ReplayError> {
        let multiplier = options.multiplier;
        if multiplier == Decimal::ZERO || multiplier > MULTIPLIER_MAX {
            return Err(ReplayError::Multiplier { multiplier });
        }
        let mut streams = Vec::with_capacity(self.streams.len());
        let mut flows: u64 = 0;
        for bound in &self.streams {
            let Some(range) = FlowRange::new(&bound.template, self.share) else { continue };
            let Some((script, delay_ns)) = bound.script.of_side(options) else { continue };
            let template = &bound.template;
            let part = range.part(template);
            if script.steps.len() > 1 {
                let rate =
                    template.cps.to_f64() * multiplier.to_f64() * part.0 as f64 / part.1 as f64;
                // Two bursts more: one at the start of the time span, and one for rounding.
                let bursts =
                    script.duration_ns() as f64 * 1e-9 * rate + 2.0 * f64::from(template.burst);
                flows = flows.saturating_add(bursts.ceil() as u64);
            }
            let pace = Pace::new(template.cps, multiplier, part, template.burst);
            let mut stream = Stream {
                script,
                tuples: self.moved_tuples(&bound.tuples, options.port_pair),
                pace: pace.shifted(self.share),
                delay_ns,
                burst: template.burst.into(),
                range,
                parity: options.parity(),
                burst_number: 0,
                in_burst: 0,
                offset: 0,
            };
            if stream.has_flows() {
                stream.skip_others();
                streams.push(stream);
            }
        }
        if flows > MAX_ACTIVE_FLOWS {
            return Err(ReplayError::ActiveFlows { flows });
        }
        let link = Link {
            macs: options.macs,
            mac_override: self.settings.mac_override,
            vlans: self.settings.vlans,
        };
        let ramp = Ramp::new(options.ramp_ns);
        let first = streams.iter().enumerate();
        let first = first.map(|(index, it)| Reverse((it.due_ns(ramp), index as u32)));
        Ok(Replay {
            arrivals: first.collect(),
            active: BinaryHeap::with_capacity(flows as usize),
            streams,
            link,
            split: options.split,
            ramp,
            end_ns: options.end_ns.unwrap_or(u64::MAX),
        })
    }

    /// Returns the tuples of an additional port pair.
    fn moved_tuples(&self, tuples: &TupleMaker, port_pair: u8) -> TupleMaker {
        let offset = self.dual_port_mask.wrapping_mul(port_pair.into());
        let mut tuples = tuples.clone();
        for pool in [&mut tuples.clients, &mut tuples.servers] {
            pool.first = Ipv4Addr::from_bits(pool.first.to_bits().wrapping_add(offset));
            pool.last = Ipv4Addr::from_bits(pool.last.to_bits().wrapping_add(offset));
        }
        tuples
    }
}

impl Replay {
    /// Returns the time of the next frame in nanoseconds from the start. Returns `None` if there
    /// are no more frames.
    #[must_use]
    #[inline]
    pub fn due(&self) -> Option<u64> {
        let arrival = self.arrivals.peek().map(|Reverse((due_ns, _))| *due_ns);
        let active = self.active.peek().map(|Reverse(flow)| flow.due_ns);
        let due_ns = match (arrival, active) {
            (Some(arrival), Some(active)) => arrival.min(active),
            (one, other) => one.or(other)?,
        };
        (due_ns < self.end_ns).then_some(due_ns)
    }

    /// Writes the next frame to the start of `frame`, and advances to the one behind it. Returns
    /// the port that sends the frame, and its length without FCS.
    ///
    /// # Panics
    /// If the replay has no frames, or `frame` is shorter than [`Traffic::longest_frame`].
    #[inline]
    pub fn write(&mut self, frame: &mut [u8]) -> (Side, usize) {
        let arrival_ns = self.arrivals.peek().map(|Reverse((due_ns, _))| *due_ns);
        let active_ns = self.active.peek().map(|Reverse(flow)| flow.due_ns);
        // At the same time, frames of begun flows come before those of new flows.
        let next = match (arrival_ns, active_ns) {
            (Some(arrival_ns), Some(active_ns)) if arrival_ns < active_ns => self.begin_flow(),
            (_, Some(_)) => self.continue_flow(),
            _ => self.begin_flow(),
        };
        self.write_frame(next, frame)
    }

    /// Takes the first frame of the next flow.
    #[inline]
    fn begin_flow(&mut self) -> Active {
        let mut top = self.arrivals.peek_mut().expect("a replay without frames is never written");
        let Reverse((due_ns, index)) = *top;
        let stream = &mut self.streams[index as usize];
        let flow = stream.next_flow();
        *top = Reverse((stream.due_ns(self.ramp), index));
        drop(top);
        let begun = Active { due_ns, flow, stream: index, step: 0 };
        if let Some(step) = stream.script.steps.get(1) {
            let due_ns = due_ns.saturating_add(step.gap_ns);
            debug_assert!(self.active.len() < self.active.capacity(), "room for all flows");
            self.active.push(Reverse(Active { due_ns, step: 1, ..begun }));
        }
        begun
    }

    /// Takes the next frame of the flow that is due first.
    fn continue_flow(&mut self) -> Active {
        let mut top = self.active.peek_mut().expect("the caller has seen it");
        let Reverse(taken) = *top;
        let steps = &self.streams[taken.stream as usize].script.steps;
        match steps.get(taken.step as usize + 1) {
            Some(step) => {
                let due_ns = taken.due_ns.saturating_add(step.gap_ns);
                *top = Reverse(Active { due_ns, step: taken.step + 1, ..taken });
            }
            None => {
                PeekMut::pop(top);
            }
        }
        taken
    }

    #[inline]
    fn write_frame(&self, next: Active, frame: &mut [u8]) -> (Side, usize) {
        let stream = &self.streams[next.stream as usize];
        let tuple = stream.tuples.tuple(next.flow);
        let step = &stream.script.steps[next.step as usize];
        let is_first_port = match self.split {
            Split::Side => step.frame.is_from_client,
            Split::Parity => tuple.client & 1 == 0,
        };
        let side = if is_first_port { Side::A } else { Side::B };
        (side, step.frame.write(frame, &tuple, side, &self.link))
    }

    /// Returns the number of flows that have begun and not ended.
    #[must_use]
    pub fn active_flows(&self) -> usize {
        self.active.len()
    }
}

impl Options {
    /// Returns the parity of the client addresses whose flows are made; `None` for both.
    fn parity(&self) -> Option<u32> {
        self.side.filter(|_| self.split == Split::Parity).map(|side| side as u32)
    }
}

impl Script {
    /// Returns the frames of a flow that the side of `options` sends; `None` if there are none.
    /// Also returns the nanoseconds from the start of the flow to the first of them.
    fn of_side(self: &Arc<Self>, options: &Options) -> Option<(Arc<Self>, u64)> {
        let Some(side) = options.side.filter(|_| options.split == Split::Side) else {
            return Some((Arc::clone(self), 0));
        };
        let (mut steps, mut gap_ns) = (Vec::new(), 0_u64);
        for step in &self.steps {
            gap_ns = gap_ns.saturating_add(step.gap_ns);
            if step.frame.is_from_client == (side == Side::A) {
                steps.push(Step { gap_ns, frame: step.frame.clone() });
                gap_ns = 0;
            }
        }
        let first = steps.first_mut()?;
        let delay_ns = std::mem::take(&mut first.gap_ns);
        Some((Arc::new(Self { steps, ..**self }), delay_ns))
    }
}

impl Stream {
    /// Returns the time of the next flow's first frame, in nanoseconds.
    #[inline]
    fn due_ns(&self, ramp: Ramp) -> u64 {
        ramp.time(self.pace.now_ns()).saturating_add(self.delay_ns)
    }

    /// Returns the number of the next flow, and advances to the one behind it.
    #[inline]
    fn next_flow(&mut self) -> u64 {
        let flow = self.flow();
        self.advance();
        if self.parity.is_some() {
            self.skip_others();
        }
        flow
    }

    /// Advances to the next flow whose client address has the parity; no further if the current one
    /// has it.
    ///
    /// Sequential addresses alternate between even and odd, so at most one flow is skipped. Only
    /// with an odd number of addresses and an even number of shares, a share may have up to half a
    /// pool of one parity in a row.
    fn skip_others(&mut self) {
        while self.parity.is_some_and(|parity| self.tuples.client(self.flow()) & 1 != parity) {
            self.advance();
        }
    }

    /// True if the stream has a flow whose client address has the parity.
    fn has_flows(&self) -> bool {
        let Some(parity) = self.parity else { return true };
        let is_ours = |flow: u64| self.tuples.client(flow) & 1 == parity;
        match self.range {
            FlowRange::Repeated { first, count } => (first..first + count).any(is_ours),
            FlowRange::Endless { first, step } => {
                is_ours(first * self.burst) || self.tuples.has_both_parities(step)
            }
        }
    }

    /// Returns the number of the next flow.
    #[inline]
    fn flow(&self) -> u64 {
        match self.range {
            FlowRange::Repeated { first, .. } => first + self.offset,
            FlowRange::Endless { first, step } => {
                (first + self.burst_number * step) * self.burst + self.in_burst
            }
        }
    }

    /// Advances by one flow.
    #[inline]
    fn advance(&mut self) {
        if let FlowRange::Repeated { count, .. } = self.range {
            self.offset = if self.offset + 1 == count { 0 } else { self.offset + 1 };
        }
        self.in_burst += 1;
        if self.in_burst == self.burst {
            self.in_burst = 0;
            self.burst_number += 1;
            self.pace.advance();
        }
    }
}
