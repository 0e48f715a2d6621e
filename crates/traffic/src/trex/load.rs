// SPDX-License-Identifier: BSD-3-Clause
//! Computes the load of a profile: flows, packets and bits per second.

use super::decimal::Decimal;
use super::pace::FlowRange;
use super::replay::Split;
use super::traffic::{BoundTemplate, Traffic};
use wire::ethernet::MIN_FRAME;

/// Bytes that a frame occupies on the wire besides its own bytes: FCS 4, preamble and start
/// delimiter 8, gap 12 (IEEE 802.3).
pub const WIRE_OVERHEAD: usize = 4 + 8 + 12;

/// Returns the bits that a frame of `len` bytes without FCS occupies on the wire:
/// `(max(len, 60) + 24) * 8`.
#[must_use]
pub const fn wire_bits(len: usize) -> u64 {
    let len = if len < MIN_FRAME { MIN_FRAME } else { len };
    (len + WIRE_OVERHEAD) as u64 * 8
}

/// Load of a profile, in all and by port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Number of different five-tuples. `None` if a template has no `limit`: then every flow has a
    /// new tuple.
    pub tuples: Option<u64>,
    /// Number of flows that start per second.
    pub flows_per_second: f64,
    /// Loads of the ports of side A and side B.
    pub ports: [PortLoad; 2],
}

/// Load of the frames that one port sends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortLoad {
    /// Number of flows that send frames by this port, of templates with a `limit`. For a random
    /// distribution, the expected number.
    pub flows: u64,
    /// Frames per second.
    pub packets_per_second: f64,
    /// Bits per second of the frames as they are written. This includes an FCS in the capture, but
    /// not the FCS that the port appends.
    pub captured_bits_per_second: f64,
    /// Bits per second on the wire, with 24 more bytes for each frame: see [`wire_bits`].
    pub wire_bits_per_second: f64,
}

impl Load {
    /// Returns the load of both ports together.
    #[must_use]
    pub fn total(&self) -> PortLoad {
        let [a, b] = self.ports;
        PortLoad {
            flows: a.flows + b.flows,
            packets_per_second: a.packets_per_second + b.packets_per_second,
            captured_bits_per_second: a.captured_bits_per_second + b.captured_bits_per_second,
            wire_bits_per_second: a.wire_bits_per_second + b.wire_bits_per_second,
        }
    }
}

impl Traffic {
    /// Returns the load with `multiplier` times the profile's rates.
    ///
    /// If this is a part from [`Traffic::share`], the load is that of the part.
    #[must_use]
    pub fn load(&self, multiplier: Decimal, split: Split) -> Load {
        let mut load = Load { tuples: Some(0), ..Load::default() };
        for stream in &self.streams {
            let Some(range) = FlowRange::new(&stream.template, self.share) else { continue };
            let (numerator, denominator) = range.part(&stream.template);
            let part = numerator as f64 / denominator as f64;
            let rate = stream.template.cps.to_f64() * multiplier.to_f64() * part;
            load.flows_per_second += rate;
            let flows = match range {
                FlowRange::Repeated { count, .. } => {
                    load.tuples = load.tuples.map(|tuples| tuples + count);
                    Some(count)
                }
                FlowRange::Endless { .. } => {
                    load.tuples = None;
                    None
                }
            };
            add_template(&mut load.ports, stream, split, (rate, range, flows));
        }
        load
    }
}

fn add_template(
    ports: &mut [PortLoad; 2],
    stream: &BoundTemplate,
    split: Split,
    (rate, range, flows): (f64, FlowRange, Option<u64>),
) {
    let odd = match range {
        FlowRange::Repeated { first, count } => stream.tuples.odd_clients(first, count),
        FlowRange::Endless { .. } => 0.0,
    };
    let odd_part = match flows {
        Some(flows) => odd / flows as f64,
        None => stream.tuples.clients.odd_part(),
    };
    for (index, port) in ports.iter_mut().enumerate() {
        let mut has_frames = false;
        for step in &stream.script.steps {
            let part = match split {
                Split::Side => f64::from(u8::from(step.frame.is_from_client == (index == 0))),
                Split::Parity if index == 1 => odd_part,
                Split::Parity => 1.0 - odd_part,
            };
            has_frames |= part > 0.0;
            let rate = rate * part;
            port.packets_per_second += rate;
            port.captured_bits_per_second += rate * step.frame.len() as f64 * 8.0;
            port.wire_bits_per_second += rate * wire_bits(step.frame.len()) as f64;
        }
        let of_limit = flows.unwrap_or(0);
        port.flows += match split {
            Split::Side => u64::from(has_frames) * of_limit,
            Split::Parity if index == 1 => odd.round() as u64,
            Split::Parity => of_limit - (odd.round() as u64).min(of_limit),
        };
    }
}
