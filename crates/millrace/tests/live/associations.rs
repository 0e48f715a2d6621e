// SPDX-License-Identifier: BSD-3-Clause
//! Compares the engine with the kernel packet by packet: SCTP associations on a network that loses,
//! repeats and reorders packets. Also with forged packets, with associations that are older than
//! the tracker, and with a second association on the same ports.

use crate::conntrack::{Router, TOOLS, seed, sessions};

use fastrand::Rng;
use std::net::IpAddr;
use testkit::host::has_root_and;
use wire::FrameBuilder;

/// Types of the first chunk of a packet (RFC 9260 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Chunk {
    Data = 0,
    Init = 1,
    InitAck = 2,
    Sack = 3,
    Heartbeat = 4,
    HeartbeatAck = 5,
    Abort = 6,
    Shutdown = 7,
    ShutdownAck = 8,
    CookieEcho = 10,
    CookieAck = 11,
    ShutdownComplete = 14,
}

/// One packet, sent by side 0 or 1.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: usize,
    chunk: Chunk,
    tag: u32,
    /// Initiate tag of INIT and INIT ACK.
    initiate: u32,
    /// True if the tag is the sender's own, with the T bit (the tag that the peer sends).
    reflects: bool,
    /// True if the sender is forged and does not know the tags.
    is_strange: bool,
}

/// Packets between two hosts.
#[derive(Clone, Debug)]
struct Talk {
    is_v6: bool,
    steps: Vec<Step>,
}

/// Returns one association without forged packets.
fn talk(seed: u64) -> Talk {
    let mut rng = Rng::with_seed(seed);
    let (is_v6, steps) = (rng.bool(), life(&mut rng));
    Talk { is_v6, steps: on_the_way(&mut rng, &steps, false) }
}

/// Returns an association with forged packets. Another one may follow it, or its start may be
/// missing.
fn strange_talk(seed: u64) -> Talk {
    let mut rng = Rng::with_seed(seed);
    let is_v6 = rng.bool();
    let mut steps = life(&mut rng);
    if rng.u32(0..4) == 0 {
        // A second association on the same ports.
        steps.extend(life(&mut rng));
    }
    // The tracker has missed the start of one association in 32.
    let unseen = if rng.u32(0..32) == 0 { rng.usize(1..steps.len()) } else { 0 };
    Talk { is_v6, steps: on_the_way(&mut rng, &steps[unseen..], true) }
}

/// Returns the packets of an association from INIT to its end, if it ends.
fn life(rng: &mut Rng) -> Vec<Step> {
    let tags = [rng.u32(1..), rng.u32(1..)];
    let step = |from: usize, chunk| {
        let (tag, initiate) = match chunk {
            Chunk::Init => (0, tags[1 - from]),
            _ => (tags[from], tags[1 - from]),
        };
        Step { from, chunk, tag, initiate, reflects: false, is_strange: false }
    };
    let mut steps = vec![
        step(0, Chunk::Init),
        step(1, Chunk::InitAck),
        step(0, Chunk::CookieEcho),
        step(1, Chunk::CookieAck),
    ];
    for _ in 0..rng.usize(0..16) {
        let chunks = [Chunk::Data, Chunk::Sack, Chunk::Heartbeat, Chunk::HeartbeatAck];
        steps.push(step(rng.usize(0..2), chunks[rng.usize(0..4)]));
    }
    let side = rng.usize(0..2);
    match rng.u32(0..4) {
        0 => {}
        1 => steps.push(step(side, Chunk::Abort)),
        2 => {
            let (tag, reflects) = (tags[1 - side], true);
            steps.push(Step { tag, reflects, ..step(side, Chunk::Abort) });
        }
        _ => steps.extend([
            step(side, Chunk::Shutdown),
            step(1 - side, Chunk::ShutdownAck),
            step(side, Chunk::ShutdownComplete),
        ]),
    }
    steps
}

/// Returns the packets as they pass the tracker. Packets that were lost behind it, or that the
/// network duplicates, pass again. Packets of one side may be reordered. Packets that were lost
/// before the tracker are seen only when they are sent again.
fn on_the_way(rng: &mut Rng, steps: &[Step], has_strangers: bool) -> Vec<Step> {
    let mut seen: Vec<Step> = Vec::new();
    for step in steps {
        seen.push(*step);
        if rng.u32(0..12) == 0 {
            seen.push(*step);
        }
        if let [.., before, last] = &mut seen[..] {
            if before.from == last.from && rng.u32(0..8) == 0 {
                std::mem::swap(before, last);
            }
        }
        if has_strangers && rng.u32(0..24) == 0 {
            let chunks = [Chunk::Data, Chunk::Abort, Chunk::Shutdown, Chunk::CookieAck];
            let (chunk, tag) = (chunks[rng.usize(0..4)], rng.u32(1..));
            let from = rng.usize(0..2);
            seen.push(Step { from, chunk, tag, initiate: 0, reflects: false, is_strange: true });
        }
    }
    seen
}

impl Talk {
    /// Returns the frames of talk `number`. `place` is the index of the first one among all frames.
    fn frames(&self, number: usize, place: usize) -> Vec<(usize, Vec<u8>)> {
        let [high, low] = (number as u16).to_be_bytes();
        let end = |side: u16| match self.is_v6 {
            true => IpAddr::from([0xfd00, side, 0, 0, 0, 0, 0, number as u16 + 1]),
            false => IpAddr::from([10, side as u8, high, low]),
        };
        let frame = |place: usize, step: &Step| {
            let from = step.from;
            let ends = FrameBuilder::ip(end(from as u16), end(1 - from as u16));
            let ports = [2905, 36412];
            let frame = ends.sctp(ports[from], ports[1 - from]).verification_tag(step.tag);
            let frame = frame.macs([2, 0, 0, 0, 0, 0x10], [2, 0, 0, 0, 0, from as u8]);
            let place = place as u32 % 65_536;
            let named = if self.is_v6 { frame.flow_label(place) } else { frame.ip_id(place) };
            let kind = step.chunk as u8;
            let frame = match step.chunk {
                Chunk::Init | Chunk::InitAck => named.init_chunk(kind, step.initiate),
                _ => named.chunk(kind, u8::from(step.reflects), &[0; 12]),
            };
            (from, frame.build())
        };
        let steps = self.steps.iter().enumerate();
        steps.map(|(i, step)| frame(place + i, step)).collect()
    }

    /// Returns the known reason why the kernel's result for a packet differs.
    fn explanation(&self, packet: usize) -> Option<&'static str> {
        let (first, chunk) = (self.steps[0], self.steps[packet].chunk);
        let before = &self.steps[..packet];
        let ends = |step: &Step| matches!(step.chunk, Chunk::Abort | Chunk::ShutdownComplete);
        if first.chunk != Chunk::Init {
            return Some("it was there before: picked up here, tags and all, and not there");
        }
        if chunk == Chunk::Init && before.iter().any(|step| ends(step) && !step.is_strange) {
            return Some("an INIT behind the end begins another association here, not there");
        }
        let is_again = |s: &Step| s.chunk == Chunk::Init && s.initiate != first.initiate;
        let is_asked_anew = before.iter().any(is_again);
        is_asked_anew.then_some("an INIT of an association changes its tags there, as nobody knows")
    }
}

/// `make prove-conntrack` runs it with more packets.
#[test]
fn the_kernel_says_the_same_of_sctp() {
    if let Some(same) = alike("associations", talk) {
        assert!(same >= 0.999, "{same}");
    }
}

#[test]
fn the_kernel_says_the_same_of_strange_sctp_or_it_is_known_why() {
    if let Some(same) = alike("strange-associations", strange_talk) {
        assert!(same >= 0.97, "{same}");
    }
}

/// Returns the share of packets with the same result in both. Fails on a difference without a known
/// reason.
fn alike(name: &str, talk: fn(u64) -> Talk) -> Option<f64> {
    if !has_root_and(&TOOLS) {
        return None;
    }
    let router = Router::new()?;
    let (count, seed) = (sessions(65_000), seed());
    let talks: Vec<_> = (0..count as u64).map(|i| talk(seed << 32 | i)).collect();
    let mut place = 0;
    let frames = |(number, talk): (usize, &Talk)| {
        let frames = talk.frames(number, place);
        place += frames.len();
        frames
    };
    let frames: Vec<_> = talks.iter().enumerate().map(frames).collect();
    Some(router.compare(name, &frames, |session, packet, told| {
        let reason = talks[session].explanation(packet);
        reason.unwrap_or_else(|| panic!("{packet} of {:?}: {told}", talks[session]))
    }))
}
