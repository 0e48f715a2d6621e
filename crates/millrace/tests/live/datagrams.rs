// SPDX-License-Identifier: BSD-3-Clause
//! Compares the engine with the kernel packet by packet: conversations of UDP and of ICMP echo.

use crate::conntrack::{Router, TOOLS, seed, sessions};

use fastrand::Rng;
use std::net::IpAddr;
use testkit::host::has_root_and;
use wire::FrameBuilder;

/// Content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Datagram,
    /// ICMP echo request or reply, with identifier and sequence number.
    Request(u16, u16),
    Reply(u16, u16),
}

/// One packet, sent by side 0 or 1.
type Step = (usize, Said);

/// Packets between two hosts, of one protocol and IP version.
#[derive(Clone, Debug)]
struct Talk {
    is_v6: bool,
    steps: Vec<Step>,
}

/// Returns one-way, answered, and several UDP connections; or echo requests with one reply, two
/// replies, none, or a reply without a request.
fn talk(seed: u64) -> Talk {
    let mut rng = Rng::with_seed(seed);
    let (is_v6, is_udp) = (rng.bool(), rng.bool());
    let count = rng.usize(1..24);
    let answers = [0, 2, 4][rng.usize(0..3)];
    let mut steps: Vec<Step> = vec![];
    let mut sequence = 0;
    for _ in 0..count {
        let is_answer = !steps.is_empty() && rng.u32(0..8) < answers;
        if is_udp {
            steps.push((usize::from(is_answer), Said::Datagram));
            continue;
        }
        // Both sides may send requests. A few identifiers make several connections.
        let (side, id) = (usize::from(rng.u32(0..400) == 0), rng.u16(1..3));
        match is_answer {
            true => match steps[rng.usize(0..steps.len())] {
                (asked, Said::Request(id, sequence)) => {
                    let id = if rng.u32(0..60) == 0 { id + 100 } else { id };
                    steps.push((1 - asked, Said::Reply(id, sequence)));
                }
                again => steps.push(again),
            },
            false => {
                sequence += 1;
                steps.push((side, Said::Request(id, sequence)));
            }
        }
    }
    Talk { is_v6, steps }
}

impl Talk {
    /// Returns the frames of talk `number`. `place` is the index of the first one among all frames.
    fn frames(&self, number: usize, place: usize) -> Vec<(usize, Vec<u8>)> {
        let [high, low] = (number as u16).to_be_bytes();
        let end = |side: u16| match self.is_v6 {
            true => IpAddr::from([0xfd00, side, 0, 0, 0, 0, 0, number as u16 + 1]),
            false => IpAddr::from([10, side as u8, high, low]),
        };
        let frame = |place: usize, (from, said): Step| {
            let ends = FrameBuilder::ip(end(from as u16), end(1 - from as u16));
            let ports = [5000, 53];
            let frame = match said {
                Said::Datagram => ends.udp(ports[from], ports[1 - from]).payload([7; 9]),
                Said::Request(id, sequence) => ends.icmp_echo(id, sequence),
                Said::Reply(id, sequence) => ends.icmp_echo_reply(id, sequence),
            };
            let frame = frame.macs([2, 0, 0, 0, 0, 0x10], [2, 0, 0, 0, 0, from as u8]);
            let place = place as u32 % 65_536;
            let named = if self.is_v6 { frame.flow_label(place) } else { frame.ip_id(place) };
            (from, named.build())
        };
        let steps = self.steps.iter().enumerate();
        steps.map(|(i, step)| frame(place + i, *step)).collect()
    }
}

/// `make prove-conntrack` runs it with more packets.
#[test]
fn the_kernel_says_the_same_of_udp_and_icmp() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(router) = Router::new() else { return };
    let (count, seed) = (sessions(65_000), seed());
    let talks: Vec<_> = (0..count as u64).map(|i| talk(seed << 32 | i)).collect();
    let mut place = 0;
    let frames = |(number, talk): (usize, &Talk)| {
        let frames = talk.frames(number, place);
        place += frames.len();
        frames
    };
    let frames: Vec<_> = talks.iter().enumerate().map(frames).collect();
    router.compare("datagrams", &frames, |session, packet, told| {
        panic!("{packet} of {:?}: {told}", talks[session])
    });
}
