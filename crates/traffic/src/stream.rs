// SPDX-License-Identifier: BSD-3-Clause
//! Makes the frames of stateless streams: packets of one kind, at a rate, with fields that vary.
//!
//! [`StreamSpec`] is a stream as the user writes it. [`Streams`] is the [`Source`] of the frames of
//! several streams.

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
    /// Link speeds of the ports A and B in megabits per second; `None` if unknown.
    pub link_mbps: [Option<u32>; 2],
    /// Seed of payloads and random values.
    pub seed: u64,
    /// Format of the payload of stamped packets.
    pub format: PayloadFormat,
    /// True if every packet has a stamp.
    pub is_stamped: bool,
    /// The part of the packets that is sent.
    pub part: Part,
    /// Nanoseconds from the start of each stream in which its rate grows linearly from 0. With 0
    /// the rate is full from the start.
    pub ramp_ns: u64,
}

/// Source of the frames of several streams.
#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    turns: Turns,
    filler: Arc<Filler>,
    format: PayloadFormat,
    /// Number of streams whose packets are stamped. They are the first ones.
    stamped: usize,
}

/// Maximum number of sizes of a stream for which frames, or heads of frames, are built in advance.
const READY_MAX: usize = 64;

/// A stream that is being sent.
#[derive(Debug)]
struct Stream {
    /// Lane in the stamps; `None` if packets have no stamps.
    lane: Option<u16>,
    /// The capture that the stream sends instead of packets by the template.
    player: Option<Player>,
    template: Template,
    fields: Fields,
    sizes: Vec<u16>,
    size: usize,
    /// The head of a frame of each size; empty if `ready` has the frames, or if there are more than
    /// [`READY_MAX`] sizes.
    heads: Vec<Head>,
    /// The frame of each size if only the size varies, with at most [`READY_MAX`] sizes; else
    /// empty.
    ready: Vec<Box<[u8]>>,
    /// Number of packets that this share has sent.
    index: u64,
    /// Number of packets that this share sends in all.
    count: u64,
    /// Packets of all shares from the last one of a burst to the first one of this share's next
    /// burst.
    jump: u64,
    /// True if other shares send packets between the bursts of this share.
    has_jumps: bool,
    /// `jump`, modulo the number of sizes.
    size_jump: usize,
}

/// A stream that cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("stream {name}: {fault}")]
pub struct StreamError {
    /// Name of the stream.
    pub name: String,
    /// The reason.
    pub fault: StreamFault,
}

/// Reason why a stream cannot be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamFault {
    /// The keys or values are wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The rate is in percent of a link whose speed is unknown.
    #[error(transparent)]
    Link(#[from] NoLinkSpeed),
    /// Some streams have the rate `max`, and others have another rate.
    #[error("rate max leaves no room for other rates: give it to all streams or to none")]
    MaxBesideRate,
    /// The stream has the rate `max`, and times, which have no meaning with it.
    #[error("arrivals, on and start need a rate: rate max sends all the time")]
    MaxBesideTimes,
    /// The stream's capture has no frames, or has not been read.
    #[error("the capture has no packets")]
    NoFrames,
    /// All frames of the capture have the same time, and the stream has no rate.
    #[error("all packets of the capture have the same time: give a rate")]
    NoTimes,
    /// There are several streams with payloads of dpdk-project, which do not name their stream.
    #[error("payloads of dpdk-project do not name their stream: give one stream only")]
    NotAlone,
    /// The streams of all shares are more than fit into the 16 bits of a lane.
    #[error("there are more than 65,535 streams, times the senders of each")]
    TooMany,
}

impl Streams {
    /// Sets up the part of the streams that `setup` names.
    ///
    /// The stamps of stream `i` have the lane `share * stamped + i`, where `stamped` is the number
    /// of stamped streams. Streams that send captures have no stamps.
    ///
    /// # Errors
    /// A stream cannot be sent.
    ///
    /// # Panics
    /// If a stream that sends a capture is in front of one that does not.
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

/// Adds a stream to one of `groups` that has the same rate, or to a new group.
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

/// Checks that the frames of streams have room for their headers, and for stamps if `is_stamped`.
///
/// # Errors
/// Names the first stream whose shortest frame is too short.
pub fn check_sizes(specs: &[StreamSpec], is_stamped: bool) -> Result<(), StreamError> {
    let filler = Filler::new(0);
    for spec in specs.iter().filter(|spec| spec.playback.is_none()) {
        let (template, _) = Template::new(&spec.packet, [[0; 6]; 2], &filler);
        let checked = template.check_room(shortest(spec), is_stamped);
        checked.map_err(|fault| StreamError { name: spec.name.clone(), fault: fault.into() })?;
    }
    Ok(())
}

/// Returns the bytes of a stream's shortest frame, without FCS.
fn shortest(spec: &StreamSpec) -> usize {
    spec.sizes.pattern().iter().copied().min().map_or(0, usize::from)
}

/// Refuses a stream whose packets cannot carry payloads of this format.
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

    /// Advances to the next packet of this share. Returns true if there is none.
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
