// SPDX-License-Identifier: BSD-3-Clause
//! Streams of stateless traffic: packets of one kind, at a rate, with fields that vary.
//!
//! [`StreamSpec`] is a stream as it is written; [`Streams`] are several at work, a [`Source`] of
//! frames.

mod addresses;
mod rate;
mod size;
mod spec;
mod template;
mod values;

pub use rate::{NoLinkSpeed, Rate, RateError};
pub use size::{FCS, SIZES, SizeError};
pub use spec::{KEYS, SpecError, StreamSpec, ValueFault};
pub use values::ValuesError;

use crate::filler::Filler;
use crate::source::{Source, Written};
use crate::stamp::{Stamp, StampKey};
use crate::{Part, Side};
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
    /// The part of the packets that is sent.
    pub part: Part,
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
    members: Vec<Member>,
    /// The member whose turn it is.
    turn: usize,
    /// Packets that leave together.
    burst: u64,
    /// How many of the burst have left.
    in_burst: u64,
    /// Number of the first packet of the burst, counted over all shares, and the distance to that
    /// of the next burst of this share.
    first: u64,
    step: u64,
    /// When the next frame is due; `u64::MAX`: never.
    due: u64,
}

/// A stream of a group.
#[derive(Debug)]
struct Member {
    /// Number of the stream.
    stream: u16,
    /// How long after the first stream of the group it sends.
    offset_ns: u64,
}

/// A stream at work.
#[derive(Debug)]
struct Stream {
    side: Side,
    /// For stamps.
    lane: u16,
    template: Template,
    digits: Vec<Digit>,
    sizes: Vec<u16>,
    size: usize,
    /// Packets of this share so far.
    index: u64,
    /// Packets of this share to send.
    count: u64,
    /// Number of the packet over all shares since the fields began anew, and after how many they
    /// do.
    flow: u64,
    flows: u64,
    /// From the last packet of a burst to the first of this share's next one; the same in sizes.
    jump: u64,
    size_jump: usize,
    seed: u64,
}

/// The current value of a field that varies.
#[derive(Debug)]
struct Digit {
    field: Varying,
    count: u64,
    index: u64,
    value: u128,
    /// Values between the last packet of a burst and the first of this share's next one, without
    /// the carry of faster fields.
    jump: u64,
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
    /// A stamp has 16 bits for stream and share.
    #[error("there are more than 65,535 streams, times the senders of each")]
    TooMany,
}

impl Streams {
    /// Sets up the part of the streams that `setup` names. The stamps of stream `i` have the lane
    /// `share * streams + i`.
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
            let lane = usize::from(setup.part.share) * specs.len() + number;
            let lane = u16::try_from(lane).ok().filter(|lane| *lane < u16::MAX);
            let added = lane.ok_or(StreamFault::TooMany);
            let added = added.and_then(|lane| streams.add(number as u16, lane, spec, setup));
            added.map_err(|fault| StreamError { name: spec.name.clone(), fault })?;
        }
        streams.groups.iter_mut().for_each(Group::space_members);
        streams.find_next();
        Ok(streams)
    }

    fn add(
        &mut self,
        number: u16,
        lane: u16,
        spec: &StreamSpec,
        setup: &StreamSetup,
    ) -> Result<(), StreamFault> {
        let side = spec.side as usize;
        let rate = spec.rate.packets_per_second(spec.mean_size(), setup.link_mbps[side])?;
        let stream = Stream::new(spec, setup, (number, lane), &self.filler)?;
        let is_ours = stream.count > 0 && setup.part.has_side(spec.side);
        self.streams.push(stream);
        if !is_ours {
            return Ok(());
        }
        let interval = rate.map_or(Interval::NONE, Interval::at_rate);
        let is_max = |group: &Group| group.interval == Interval::NONE;
        if self.groups.iter().any(|group| is_max(group) != rate.is_none()) {
            return Err(StreamFault::MaxBesideRate);
        }
        let same = |group: &&mut Group| group.interval == interval && group.burst == 1;
        let member = Member { stream: number, offset_ns: 0 };
        match self.groups.iter_mut().find(same).filter(|_| spec.burst == 1) {
            Some(group) => group.members.push(member),
            None => self.groups.push(Group::new(interval, spec.burst, member, setup.part)),
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
        let number = group.members[group.turn].stream;
        let stream = &mut self.streams[usize::from(number)];
        let payload = match self.is_stamped {
            true => {
                let index = stream.index as u32;
                Payload::Stamped(Stamp { lane: stream.lane, index, sent_ns: now_ns }, self.key)
            }
            false => Payload::Fixed,
        };
        let len = stream.write(room, payload, &self.filler);
        let is_over = stream.advance(group.is_last_of_burst());
        group.advance(is_over);
        let side = stream.side;
        if self.groups.len() > 1 {
            self.find_next();
        }
        Written { side, len, stream: number }
    }

    fn streams(&self) -> usize {
        self.streams.len()
    }

    fn stamped_streams(&self) -> usize {
        if self.is_stamped { self.streams.len() } else { 0 }
    }

    fn written(&self, stream: usize) -> u64 {
        self.streams[stream].index
    }
}

impl Group {
    fn new(interval: Interval, burst: u64, member: Member, part: Part) -> Self {
        let first = burst.saturating_mul(part.share.into());
        Self {
            interval,
            members: vec![member],
            turn: 0,
            burst,
            in_burst: 0,
            first,
            step: burst.saturating_mul(part.shares.into()),
            due: interval.due(first),
        }
    }

    /// Spreads the members evenly over the interval.
    fn space_members(&mut self) {
        let members = self.members.len() as u64;
        for (number, member) in self.members.iter_mut().enumerate() {
            member.offset_ns = self.interval.due(number as u64) / members;
        }
    }

    #[inline(always)]
    fn is_last_of_burst(&self) -> bool {
        self.in_burst + 1 == self.burst
    }

    /// Goes on to the next frame. A member that is over leaves; the others keep their times.
    #[inline(always)]
    fn advance(&mut self, is_over: bool) {
        match is_over {
            true => _ = self.members.remove(self.turn),
            false => self.turn += 1,
        }
        if self.turn >= self.members.len() {
            self.turn = 0;
            self.in_burst += 1;
            if self.in_burst == self.burst {
                self.in_burst = 0;
                self.first = self.first.saturating_add(self.step);
            }
        }
        let member = self.members.get(self.turn);
        self.due = member.map_or(u64::MAX, |it| self.interval.due(self.first) + it.offset_ns);
    }
}

impl Stream {
    fn new(
        spec: &StreamSpec,
        setup: &StreamSetup,
        (number, lane): (u16, u16),
        filler: &Filler,
    ) -> Result<Self, SpecError> {
        let (here, there) = (spec.side as usize, spec.side.other() as usize);
        let macs = [setup.macs[here], setup.macs[there]];
        let (template, varying) = Template::new(&spec.packet, macs, filler);
        let sizes = spec.sizes.pattern().to_vec();
        let shortest = sizes.iter().copied().min().unwrap_or_default();
        template.check_room(shortest.into(), setup.is_stamped)?;
        let part = setup.part;
        let flows = spec.flows.unwrap_or(u64::MAX);
        let first = spec.burst.saturating_mul(part.share.into());
        let others = u64::from(part.shares) - 1;
        let jump = spec.burst.saturating_mul(others).saturating_add(1);
        let period = sizes.len() as u64;
        let mut stream = Self {
            side: spec.side,
            lane,
            template,
            digits: Digit::all(varying, jump),
            size: (first % period) as usize,
            size_jump: (jump % period) as usize,
            sizes,
            index: 0,
            count: spec.count.map_or(u64::MAX, |count| part.packets(count, spec.burst)),
            flow: 0,
            flows,
            jump,
            seed: setup.seed ^ u64::from(number).wrapping_mul(0x2545_f491_4f6c_dd1d),
        };
        stream.seek(first % flows);
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

    /// Goes on to the next packet of this share; true if there is none.
    #[inline(always)]
    fn advance(&mut self, is_last_of_burst: bool) -> bool {
        self.index += 1;
        let is_jump = is_last_of_burst && self.jump > 1;
        self.size += if is_jump { self.size_jump } else { 1 };
        if self.size >= self.sizes.len() {
            self.size -= self.sizes.len();
        }
        if !self.digits.is_empty() {
            self.advance_fields(is_jump);
        }
        self.index >= self.count
    }

    /// Every combination of values that are taken in turn comes once, the first field the fastest.
    #[inline(always)]
    fn advance_fields(&mut self, is_jump: bool) {
        self.flow = self.flow.saturating_add(if is_jump { self.jump } else { 1 });
        if self.flow >= self.flows {
            return self.seek(self.flow % self.flows);
        }
        let mut is_carried = !is_jump;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            if digit.field.values.is_random {
                digit.draw(self.seed, self.flow, number as u64);
            } else if is_jump {
                is_carried = digit.advance_by(digit.jump + u64::from(is_carried));
            } else if is_carried {
                is_carried = digit.advance();
            }
        }
    }

    /// Sets the fields to the values of a flow.
    fn seek(&mut self, flow: u64) {
        self.flow = flow;
        let mut rest = flow;
        for (number, digit) in self.digits.iter_mut().enumerate() {
            match digit.field.values.is_random {
                true => digit.draw(self.seed, flow, number as u64),
                false => {
                    digit.set(rest % digit.count);
                    rest /= digit.count;
                }
            }
        }
    }
}

impl Digit {
    /// The fields of a stream, at their first values.
    fn all(fields: Vec<Varying>, jump: u64) -> Vec<Self> {
        let mut rest = jump;
        let digits = fields.into_iter().map(|field| {
            let (count, value) = (field.values.count(), field.values.first());
            let mut digit = Self { field, count, index: 0, value, jump: 0 };
            if !digit.field.values.is_random {
                digit.jump = rest % count;
                rest /= count;
            }
            digit
        });
        digits.collect()
    }

    #[inline(always)]
    fn set(&mut self, index: u64) {
        self.index = index;
        self.value = self.field.values.at(index);
    }

    /// Goes on by at most `count` values; true if it went over the last one.
    #[inline(always)]
    fn advance_by(&mut self, values: u64) -> bool {
        let next = self.index + values;
        let is_over = next >= self.count;
        self.set(if is_over { next - self.count } else { next });
        is_over
    }

    /// Takes the next value; true if the first one follows the last.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        self.index += 1;
        if self.index == self.count {
            self.set(0);
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
