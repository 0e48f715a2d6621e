// SPDX-License-Identifier: BSD-3-Clause
//! Streams of stateless traffic: packets of one kind, at a rate, with fields that vary.
//!
//! [`StreamSpec`] is a stream as it is written; [`Streams`] are several at work, a [`Source`] of
//! frames.

mod rate;
mod size;
mod spec;
mod template;
mod values;

pub use rate::{NoLinkSpeed, Rate, RateError};
pub use size::{FCS, SIZES, SizeError};
pub use spec::{KEYS, SpecError, StreamSpec, ValueFault};
pub use values::ValuesError;

use crate::Side;
use crate::filler::Filler;
use crate::source::{Source, Written};
use crate::stamp::{Stamp, StampKey};
use rate::Interval;
use std::sync::Arc;
use template::{HEAD, Payload, Template, ValueSums, Varying};

/// What streams of a run have in common.
#[derive(Clone, Debug)]
pub struct StreamSetup {
    /// MAC addresses of the ports A and B.
    pub macs: [[u8; 6]; 2],
    /// Megabits per second of the ports, where known.
    pub link_mbps: [Option<u32>; 2],
    /// Payload, and which random values there are.
    pub seed: u64,
    /// Of this run, so that packets of others do not count as ours.
    pub key: StampKey,
    /// Whether every packet has a stamp.
    pub is_stamped: bool,
}

/// Several streams at work.
#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    groups: Vec<Group>,
    /// The group whose frame is due next.
    next: usize,
    filler: Arc<Filler>,
    key: StampKey,
    is_stamped: bool,
}

/// Streams of one rate that take turns: each has the whole interval between two of its frames.
#[derive(Debug)]
struct Group {
    interval: Interval,
    burst: u64,
    members: Vec<u16>,
    /// The member whose turn it is.
    turn: usize,
    /// From when on it has these members, and the frames since.
    since: u64,
    sent: u64,
    /// When the next frame is due; `u64::MAX`: never.
    due: u64,
}

/// A stream at work.
#[derive(Debug)]
struct Stream {
    side: Side,
    template: Template,
    digits: Vec<Digit>,
    sizes: Vec<u16>,
    size: usize,
    /// Packets so far.
    index: u64,
    /// Packets to send.
    count: u64,
    /// Packets since the fields began anew, and after how many they do.
    flow: u64,
    flows: u64,
    seed: u64,
}

/// The current value of a field that varies.
#[derive(Debug)]
struct Digit {
    field: Varying,
    count: u64,
    index: u64,
    value: u128,
}

/// A stream that cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("stream {name}: {fault}")]
pub struct StreamError {
    /// The stream.
    pub name: String,
    /// What is wrong with it.
    pub fault: StreamFault,
}

/// Why a stream cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamFault {
    /// By its keys.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Its rate depends on a link without a speed.
    #[error(transparent)]
    Link(#[from] NoLinkSpeed),
    /// It would leave the others nothing, or they it.
    #[error("rate max is for all streams or for none: it leaves no room for others")]
    MaxBesideRate,
    /// A stamp has 16 bits for the stream.
    #[error("there are more than 65,535 streams")]
    TooMany,
}

impl Streams {
    /// Sets streams up. Stream number `i` has lane `i`.
    pub fn new(specs: &[StreamSpec], setup: &StreamSetup) -> Result<Self, StreamError> {
        let filler = Arc::new(Filler::new(setup.seed));
        let mut streams = Self {
            streams: Vec::new(),
            groups: Vec::new(),
            next: 0,
            filler,
            key: setup.key,
            is_stamped: setup.is_stamped,
        };
        for (number, spec) in specs.iter().enumerate() {
            let added = streams.add(number, spec, setup);
            added.map_err(|fault| StreamError { name: spec.name.clone(), fault })?;
        }
        streams.find_next();
        Ok(streams)
    }

    fn add(
        &mut self,
        number: usize,
        spec: &StreamSpec,
        setup: &StreamSetup,
    ) -> Result<(), StreamFault> {
        let lane = u16::try_from(number).ok().filter(|lane| *lane < u16::MAX);
        let lane = lane.ok_or(StreamFault::TooMany)?;
        let side = spec.side as usize;
        let rate = spec.rate.packets_per_second(spec.mean_size(), setup.link_mbps[side])?;
        self.streams.push(Stream::new(spec, setup, number as u64, &self.filler)?);
        let interval = rate.map_or(Interval::NONE, Interval::at_rate);
        let is_max = |group: &Group| group.interval == Interval::NONE;
        if self.groups.iter().any(|group| is_max(group) != rate.is_none()) {
            return Err(StreamFault::MaxBesideRate);
        }
        let same = |group: &&mut Group| group.interval == interval && group.burst == 1;
        match self.groups.iter_mut().find(same).filter(|_| spec.burst == 1) {
            Some(group) => group.members.push(lane),
            None => self.groups.push(Group::new(interval, spec.burst, lane)),
        }
        Ok(())
    }

    fn find_next(&mut self) {
        let dues = self.groups.iter().map(|group| group.due).enumerate();
        self.next = dues.min_by_key(|(_, due)| *due).map_or(0, |(group, _)| group);
    }
}

impl Source for Streams {
    #[inline(always)]
    fn due(&self) -> Option<u64> {
        self.groups.get(self.next).map(|group| group.due).filter(|due| *due != u64::MAX)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written {
        let group = &mut self.groups[self.next];
        let lane = group.members[group.turn];
        let stream = &mut self.streams[usize::from(lane)];
        let payload = match self.is_stamped {
            true => {
                let stamp = Stamp { lane, index: stream.index as u32, sent_ns: now_ns };
                Payload::Stamped(stamp, self.key)
            }
            false => Payload::Fixed,
        };
        let len = stream.write(room, payload, &self.filler);
        let is_over = stream.advance();
        group.advance(is_over);
        let side = stream.side;
        if self.groups.len() > 1 {
            self.find_next();
        }
        Written { side, len, lane }
    }

    fn lanes(&self) -> usize {
        self.streams.len()
    }

    fn stamped_lanes(&self) -> usize {
        if self.is_stamped { self.streams.len() } else { 0 }
    }

    fn written(&self, lane: usize) -> u64 {
        self.streams[lane].index
    }
}

impl Group {
    fn new(interval: Interval, burst: u64, lane: u16) -> Self {
        Self { interval, burst, members: vec![lane], turn: 0, since: 0, sent: 0, due: 0 }
    }

    #[inline(always)]
    fn advance(&mut self, is_over: bool) {
        self.sent += 1;
        self.turn += 1;
        if is_over {
            self.remove_member();
        }
        if self.turn >= self.members.len() {
            self.turn = 0;
        }
        self.due = match self.members.len() as u64 {
            0 => u64::MAX,
            1 if self.burst > 1 => self.interval.due(self.sent / self.burst * self.burst),
            1 => self.since + self.interval.due(self.sent),
            members => self.since + self.interval.due(self.sent) / members,
        };
    }

    /// Removes the member that was last; the others keep their rates.
    fn remove_member(&mut self) {
        self.turn -= 1;
        self.members.remove(self.turn);
        (self.since, self.sent) = (self.due, 1);
    }
}

impl Stream {
    fn new(
        spec: &StreamSpec,
        setup: &StreamSetup,
        number: u64,
        filler: &Filler,
    ) -> Result<Self, SpecError> {
        let (here, there) = (spec.side as usize, spec.side.other() as usize);
        let macs = [setup.macs[here], setup.macs[there]];
        let (template, varying) = Template::new(&spec.packet, macs, filler);
        let sizes = spec.sizes.pattern().to_vec();
        let shortest = sizes.iter().copied().min().unwrap_or_default();
        template.check_room(shortest.into(), setup.is_stamped)?;
        let seed = setup.seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let mut stream = Self {
            side: spec.side,
            template,
            digits: varying.into_iter().map(Digit::new).collect(),
            sizes,
            size: 0,
            index: 0,
            count: spec.count.unwrap_or(u64::MAX),
            flow: 0,
            flows: spec.flows.unwrap_or(u64::MAX),
            seed,
        };
        stream.restart_fields();
        Ok(stream)
    }

    #[inline(always)]
    fn write(&self, room: &mut [u8], payload: Payload, filler: &Filler) -> usize {
        let len = usize::from(self.sizes[self.size]);
        self.template.write_head(room, len);
        let mut sums = ValueSums::default();
        for digit in &self.digits {
            for place in &digit.field.places {
                place.write(room, digit.value, &mut sums);
            }
        }
        self.template.finish(&mut room[..len], sums, payload, filler);
        len
    }

    /// Goes on to the next packet; true if there is none.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        self.index += 1;
        self.size += 1;
        if self.size == self.sizes.len() {
            self.size = 0;
        }
        if !self.digits.is_empty() {
            self.advance_fields();
        }
        self.index >= self.count
    }

    /// Every combination of values that are taken in turn comes once, the first field the fastest.
    #[inline(always)]
    fn advance_fields(&mut self) {
        self.flow += 1;
        if self.flow >= self.flows {
            return self.restart_fields();
        }
        let mut is_carried = true;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            if digit.field.values.is_random {
                digit.draw(self.seed, self.flow, number as u64);
            } else if is_carried {
                is_carried = digit.advance();
            }
        }
    }

    fn restart_fields(&mut self) {
        self.flow = 0;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            match digit.field.values.is_random {
                true => digit.draw(self.seed, 0, number as u64),
                false => digit.restart(),
            }
        }
    }
}

impl Digit {
    fn new(field: Varying) -> Self {
        let (count, value) = (field.values.count(), field.values.first());
        Self { field, count, index: 0, value }
    }

    fn restart(&mut self) {
        self.index = 0;
        self.value = self.field.values.first();
    }

    /// Takes the next value; true if the first one follows the last.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        self.index += 1;
        if self.index == self.count {
            self.restart();
            return true;
        }
        self.value = self.field.values.at(self.index);
        false
    }

    /// Takes the value of a flow that is drawn for it: the same flow has the same one again
    /// (RFC 4814 wants ports without a pattern).
    #[inline(always)]
    fn draw(&mut self, seed: u64, flow: u64, field: u64) {
        let mixed = mix(mix(seed ^ field << 56).wrapping_add(flow));
        let index = (u128::from(mixed) * u128::from(self.count)) >> 64;
        self.value = self.field.values.at(index as u64);
    }
}

/// Spreads each bit of a number over all bits (the finaliser of SplitMix64, Steele et al. 2014).
#[inline(always)]
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

const _: () = assert!(HEAD <= crate::source::ROOM);
