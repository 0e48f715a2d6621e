// SPDX-License-Identifier: BSD-3-Clause
//! Streams of stateless traffic: packets of one kind, at a rate, with fields that vary.
//!
//! [`StreamSpec`] is a stream as the user writes it. [`Streams`] sends several streams: it is a
//! [`Source`] of frames.

mod ends;
mod fields;
mod places;
mod poisson;
mod rate;
mod recording;
mod schedule;
mod size;
mod spec;
mod template;
mod tunnel;
mod turns;
mod values;

pub use rate::{NoLinkSpeed, Rate, RateError};
pub use recording::{Playback, Recording, RecordingError};
pub use schedule::TimeError;
pub use size::{FCS, SIZES, SizeError};
pub use spec::{KEYS, SpecError, StreamSpec, ValueFault};
pub use values::ValuesError;

use crate::Part;
use crate::filler::Filler;
use crate::ramp::Ramp;
use crate::source::{Alike, Source, Written};
use crate::stamp::PayloadFormat;
use fields::Fields;
use recording::Player;
use schedule::{Gaps, Group, Interval, Schedule};
use std::sync::Arc;
use template::{HEAD, Head, Payload, Template};
use turns::Turns;

/// Common settings of a run's streams.
#[derive(Clone, Debug)]
pub struct StreamSetup {
    /// MAC addresses of the ports A and B.
    pub macs: [[u8; 6]; 2],
    /// Megabits per second of the ports, where known.
    pub link_mbps: [Option<u32>; 2],
    /// Payload, and which random values there are.
    pub seed: u64,
    /// Format of the payload of stamped packets.
    pub format: PayloadFormat,
    /// True if every packet has a stamp.
    pub is_stamped: bool,
    /// The part of the packets that is sent.
    pub part: Part,
    /// Nanoseconds from the start of each stream in which its rate grows linearly from 0; 0: it is
    /// whole at once.
    pub ramp_ns: u64,
}

/// Several streams at work.
#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    turns: Turns,
    filler: Arc<Filler>,
    format: PayloadFormat,
    /// Number of streams whose packets are stamped: the first ones.
    stamped: usize,
}

/// Maximum number of sizes of a stream whose frames, or heads of frames, are kept ready.
const READY_MAX: usize = 64;

/// A stream at work.
#[derive(Debug)]
struct Stream {
    /// For stamps; `None`: it has none.
    lane: Option<u16>,
    /// The capture that it sends, instead of packets by the template.
    player: Option<Player>,
    template: Template,
    fields: Fields,
    sizes: Vec<u16>,
    size: usize,
    /// The head of a frame of each size; none if those are many.
    heads: Vec<Head>,
    /// The frame of each size, where nothing else varies; else none.
    ready: Vec<Box<[u8]>>,
    /// Packets of this share so far.
    index: u64,
    /// Packets of this share to send.
    count: u64,
    /// Frames of the capture to the first of this share's next burst.
    jump: u64,
    /// True if this share leaves packets out between its bursts.
    has_jumps: bool,
    /// Sizes from the last packet of a burst to the first of this share's next one.
    size_jump: usize,
}

/// A stream that cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("stream {name}: {fault}")]
pub struct StreamError {
    /// The stream.
    pub name: String,
    /// The fault of the stream.
    pub fault: StreamFault,
}

/// Why a stream cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamFault {
    /// The keys or values are wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Its rate depends on a link without a speed.
    #[error(transparent)]
    Link(#[from] NoLinkSpeed),
    /// Rate `max` would leave nothing to other streams, or they to it.
    #[error("rate max is for all streams or for none: it leaves no room for others")]
    MaxBesideRate,
    /// The stream has times, and a rate at which times have no meaning.
    #[error("arrivals, on and start need a rate: rate max sends all the time")]
    MaxBesideTimes,
    /// The stream's capture has no frames, or has not been read.
    #[error("the capture has no packets")]
    NoFrames,
    /// Its capture has no times.
    #[error("all packets of the capture have the same time: give a rate")]
    NoTimes,
    /// Payloads of dpdk-project do not name their stream.
    #[error("payloads of dpdk-project do not name their stream: give one stream only")]
    NotAlone,
    /// A stamp has 16 bits for stream and share.
    #[error("there are more than 65,535 streams, times the senders of each")]
    TooMany,
}

impl Streams {
    /// Sets up the part of the streams that `setup` names. The stamps of stream `i` have the lane
    /// `share * streams + i`, where only stamped streams count.
    ///
    /// # Panics
    /// If a stream of a capture, which has no stamps, is in front of one of packets.
    pub fn new(specs: &[StreamSpec], setup: &StreamSetup) -> Result<Self, StreamError> {
        let (made, recorded) = specs.split_at(specs.partition_point(|it| it.playback.is_none()));
        assert!(recorded.iter().all(|it| it.playback.is_some()), "captures come last");
        let mut streams = Self {
            streams: Vec::new(),
            turns: Turns::new(Vec::new()),
            filler: Arc::new(Filler::new(setup.seed)),
            format: setup.format,
            stamped: if setup.is_stamped { made.len() } else { 0 },
        };
        let mut groups = Vec::new();
        for (number, spec) in specs.iter().enumerate() {
            let added = streams.add(number, spec, setup, &mut groups);
            added.map_err(|fault| StreamError { name: spec.name.clone(), fault })?;
        }
        streams.turns = Turns::new(groups);
        Ok(streams)
    }

    fn add(
        &mut self,
        number: usize,
        spec: &StreamSpec,
        setup: &StreamSetup,
        groups: &mut Vec<Group>,
    ) -> Result<(), StreamFault> {
        if number < self.stamped {
            check_format(number, spec, setup.format)?;
        }
        let in_stamp = |number: usize| {
            let number = u16::try_from(number).ok().filter(|number| *number < u16::MAX);
            number.ok_or(StreamFault::TooMany)
        };
        let lane = usize::from(setup.part.share) * self.stamped + number;
        let lane = (number < self.stamped).then(|| in_stamp(lane)).transpose()?;
        let number = in_stamp(number)?;
        let stream = Stream::new(spec, setup, (number, lane), &self.filler)?;
        let is_ours = stream.count > 0 && setup.part.has_side(spec.side);
        let player = stream.player.clone();
        self.streams.push(stream);
        if is_ours { schedule(number, spec, setup, player, groups) } else { Ok(()) }
    }
}

/// Gives a stream its times: a group of its own, or a place in one of `groups`.
fn schedule(
    number: u16,
    spec: &StreamSpec,
    setup: &StreamSetup,
    player: Option<Player>,
    groups: &mut Vec<Group>,
) -> Result<(), StreamFault> {
    let (schedule, part, burst) = (spec.schedule, setup.part, spec.burst);
    let link_mbps = setup.link_mbps[spec.side as usize];
    let speed = spec.playback.as_ref().and_then(|it| it.speed);
    let rate = spec.rate.packets_per_second(spec.mean_size(), link_mbps)?;
    let is_max = rate.is_none() && speed.is_none();
    if groups.iter().any(|group| group.is_max() != is_max) {
        return Err(StreamFault::MaxBesideRate);
    }
    if is_max && schedule != Schedule::default() {
        return Err(StreamFault::MaxBesideTimes);
    }
    let interval = rate.map_or(Interval::NONE, Interval::at_rate);
    let gaps = match (player, speed) {
        (Some(player), Some(_)) if player.is_timeless() => return Err(StreamFault::NoTimes),
        (Some(player), Some(speed)) => Gaps::recorded(player, speed, part),
        _ if schedule.is_poisson => {
            Gaps::random(interval, burst, part, setup.seed ^ u64::from(number) << 32)
        }
        _ => {
            let is_taken = |group: &mut Group| group.takes(interval, schedule, number);
            if burst == 1 && groups.iter_mut().any(is_taken) {
                return Ok(());
            }
            Gaps::even(interval, burst, part)
        }
    };
    let mut group = Group::new(gaps, burst, number, schedule);
    if !is_max {
        group.grow(Ramp::new(setup.ramp_ns));
    }
    groups.push(group);
    Ok(())
}

/// Refuses streams whose frames are too short for their headers, or for the stamps of all.
///
/// # Errors
/// The first such stream.
pub fn check_sizes(specs: &[StreamSpec], is_stamped: bool) -> Result<(), StreamError> {
    let filler = Filler::new(0);
    for spec in specs.iter().filter(|spec| spec.playback.is_none()) {
        let (template, _) = Template::new(&spec.packet, [[0; 6]; 2], &filler);
        let checked = template.check_room(shortest(spec), is_stamped);
        checked.map_err(|fault| StreamError { name: spec.name.clone(), fault: fault.into() })?;
    }
    Ok(())
}

/// Bytes of its shortest frame, without FCS.
fn shortest(spec: &StreamSpec) -> usize {
    spec.sizes.pattern().iter().copied().min().map_or(0, usize::from)
}

/// Refuses a stream whose packets cannot have such payloads.
fn check_format(
    number: usize,
    spec: &StreamSpec,
    format: PayloadFormat,
) -> Result<(), StreamFault> {
    if !format.has_protocol(spec.packet.protocol) {
        let fault = ValueFault::NotOfDpdkProject;
        return Err(SpecError::Value { key: "proto", fault }.into());
    }
    match format {
        PayloadFormat::DpdkProject { .. } if number > 0 => Err(StreamFault::NotAlone),
        _ => Ok(()),
    }
}

impl Source for Streams {
    #[inline(always)]
    fn due(&self) -> Option<u64> {
        self.turns.due()
    }

    #[inline(always)]
    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written {
        let group = self.turns.current();
        let number = group.stream();
        let stream = &mut self.streams[usize::from(number)];
        let payload = match stream.lane {
            Some(lane) => {
                Payload::verified(self.format, (lane, stream.index), now_ns, &self.filler)
            }
            None => Payload::Fixed(&self.filler),
        };
        let len = stream.write(room, payload);
        let is_over = stream.advance(group.is_last_of_burst());
        self.turns.advance(is_over);
        Written { len, stream: number }
    }

    #[inline(always)]
    fn take_alike(&mut self, most: usize) -> Option<Alike<'_>> {
        let group = self.turns.only()?;
        let number = group.only_stream().filter(|_| group.is_max())?;
        let stream = &mut self.streams[usize::from(number)];
        let [frame] = &stream.ready[..] else { return None };
        let count = (stream.count - stream.index).min(most as u64);
        stream.index += count;
        if stream.index == stream.count {
            group.advance(true);
        }
        Some(Alike { frame, stream: number, count: count as usize })
    }

    fn streams(&self) -> usize {
        self.streams.len()
    }

    fn stamped_streams(&self) -> usize {
        self.stamped
    }

    fn written(&self, stream: usize) -> u64 {
        self.streams[stream].index
    }
}

impl Stream {
    fn new(
        spec: &StreamSpec,
        setup: &StreamSetup,
        (number, lane): (u16, Option<u16>),
        filler: &Filler,
    ) -> Result<Self, StreamFault> {
        let (here, there) = (spec.side as usize, spec.side.other() as usize);
        let macs = [setup.macs[here], setup.macs[there]];
        let (template, varying) = Template::new(&spec.packet, macs, filler);
        let sizes = spec.sizes.pattern().to_vec();
        template.check_room(shortest(spec), lane.is_some())?;
        let part = setup.part;
        let flows = spec.flows.unwrap_or(u64::MAX);
        let first = spec.burst.saturating_mul(part.share.into());
        let others = u64::from(part.shares) - 1;
        let jump = spec.burst.saturating_mul(others).saturating_add(1);
        let period = sizes.len() as u64;
        let seed = setup.seed ^ u64::from(number).wrapping_mul(0x2545_f491_4f6c_dd1d);
        let recording = spec.playback.as_ref().map(|it| &it.recording);
        if recording.is_some_and(|it| it.is_empty()) {
            return Err(StreamFault::NoFrames);
        }
        let is_fixed = varying.is_empty() && lane.is_none();
        let few = sizes.iter().filter(|_| sizes.len() <= READY_MAX && recording.is_none());
        let few = few.map(|size| usize::from(*size));
        let ready = few.clone().filter(|_| is_fixed).map(|len| template.fixed_frame(len, filler));
        let fixed = lane.is_none().then_some(filler);
        let heads = few.filter(|_| !is_fixed).map(|len| template.head(len, fixed));
        Ok(Self {
            lane,
            ready: ready.collect(),
            heads: heads.collect(),
            player: recording.map(|it| Player::new(Arc::clone(it), first)),
            template,
            fields: Fields::new(varying, flows, (first, jump), seed),
            size: (first % period) as usize,
            size_jump: (jump % period) as usize,
            sizes,
            index: 0,
            count: spec.packets().map_or(u64::MAX, |count| part.packets(count, spec.burst)),
            jump,
            has_jumps: jump > 1,
        })
    }

    #[inline(always)]
    fn write(&self, room: &mut [u8], payload: Payload<'_>) -> usize {
        if let Some(player) = &self.player {
            return player.write(room);
        }
        if let Some(frame) = self.ready.get(self.size) {
            room[..frame.len()].copy_from_slice(frame);
            return frame.len();
        }
        let made;
        let head = match self.heads.get(self.size) {
            Some(head) => head,
            None => {
                made = self.template.head(self.sizes[self.size].into(), payload.fixed());
                &made
            }
        };
        self.template.write(head, room, &self.fields, payload)
    }

    /// Advances to the next packet of this share; true if there is none.
    #[inline(always)]
    fn advance(&mut self, is_last_of_burst: bool) -> bool {
        self.index += 1;
        let is_jump = is_last_of_burst && self.has_jumps;
        if let Some(player) = &mut self.player {
            player.advance(if is_jump { self.jump } else { 1 });
            return self.index >= self.count;
        }
        self.size += if is_jump { self.size_jump } else { 1 };
        if self.size >= self.sizes.len() {
            self.size -= self.sizes.len();
        }
        self.fields.advance(is_jump);
        self.index >= self.count
    }
}

const _: () = assert!(HEAD <= crate::source::ROOM);
