// SPDX-License-Identifier: BSD-3-Clause
//! Makes an endless mix of frames, from a fixed number of slots for connections.
//!
//! Every turn belongs to a slot that is drawn at random. An empty slot gets a new connection. So
//! the gaps between turns, and between new connections, are those of independent Poisson processes.
//! Nothing is allocated after [`Workload::new`].

use crate::flow::{Flow, Message};
use crate::ledger::Ledger;
use crate::profile::Profile;
use crate::template::Templates;
use crate::{MAX_FRAME, Side};
use fastrand::Rng;
use wire::FrameBuilder;
use wire::ethernet::ether_type;

/// An endless mix of frames of many connections.
#[derive(Debug)]
pub struct Workload {
    rng: Rng,
    profile: Profile,
    templates: Templates,
    background: Vec<(Side, Vec<u8>)>,
    slots: Vec<Option<Flow>>,
    /// The slot whose turn it is.
    current: usize,
    turn: Message,
    ledger: Ledger,
}

impl Workload {
    /// Makes a workload without connections: they open one by one in the first frames.
    ///
    /// # Panics
    /// If `profile` has no connections, or percentages above 100 together.
    pub fn new(seed: u64, profile: Profile) -> Self {
        profile.assert_valid();
        Self {
            rng: Rng::with_seed(seed),
            templates: Templates::new(),
            background: background(),
            slots: vec![None; profile.concurrent as usize],
            profile,
            current: 0,
            turn: Message::OVER,
            ledger: Ledger::default(),
        }
    }

    /// Writes the next frame to the start of `buf`, which must have [`MAX_FRAME`] bytes. Returns
    /// the side where the frame enters the bump, and its length.
    pub fn fill(&mut self, buf: &mut [u8]) -> (Side, usize) {
        let (side, len) = self.next_frame(buf);
        self.ledger.count_frame(side, len);
        (side, len)
    }

    /// Replaces the bytes of `frame` with the next frame. Returns the side where the frame enters
    /// the bump.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Side {
        frame.resize(MAX_FRAME, 0);
        let (side, len) = self.fill(frame);
        frame.truncate(len);
        side
    }

    /// Returns the counters of the frames made so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn next_frame(&mut self, buf: &mut [u8]) -> (Side, usize) {
        if self.turn.count == 0 {
            if self.rng.u32(..1_000_000) < self.profile.background_ppm {
                return self.background_frame(buf);
            }
            self.begin_turn();
        }
        let slot = &mut self.slots[self.current];
        let flow = slot.as_mut().expect("a turn belongs to a flow");
        let packet = flow.packet(&mut self.turn, self.ledger.total_frames() as u16);
        let len = self.templates.write(buf, &flow.ends, &packet);
        self.ledger.count_ip(flow.protocol(), flow.ends.ipv6, flow.ends.tags > 0);
        if self.turn.count == 0 && flow.is_over() {
            *slot = None;
            self.ledger.finished += 1;
        }
        (packet.side, len)
    }

    fn begin_turn(&mut self) {
        self.current = self.rng.usize(..self.slots.len());
        let flow = self.slots[self.current].get_or_insert_with(|| {
            let number = self.ledger.started as u32;
            self.ledger.started += 1;
            Flow::new(number, &self.profile, &mut self.rng)
        });
        self.turn = flow.turn(&mut self.rng);
    }

    fn background_frame(&mut self, buf: &mut [u8]) -> (Side, usize) {
        self.ledger.background += 1;
        let (side, frame) = &self.background[self.rng.usize(..self.background.len())];
        buf[..frame.len()].copy_from_slice(frame);
        (*side, frame.len())
    }
}

/// Makes the frames of switches and hosts that are not IP.
fn background() -> Vec<(Side, Vec<u8>)> {
    const BROADCAST: [u8; 6] = [0xff; 6];
    const LLDP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
    const BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
    let (a, b) = ([2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]);
    let arp = |operation: u8, from: [u8; 6], to: [u8; 6]| {
        let ends = if operation == 1 { [1, 254] } else { [254, 1] };
        let [sender, target] = ends.map(|host| [10, 16, 0, host]);
        let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
        let about = if to == BROADCAST { [0; 6] } else { to };
        let body = [&fixed[..], &from, &sender, &about, &target].concat();
        FrameBuilder::ethernet(ether_type::ARP).macs(from, to).payload(body).pad().build()
    };
    // Chassis identifier, port identifier, time to live, end (IEEE 802.1AB).
    let lldp = |from: [u8; 6]| {
        let chassis = [&[2, 7, 4][..], &from].concat();
        let body = [&chassis[..], &[4, 2, 7, b'1', 6, 2, 0, 120, 0, 0]].concat();
        FrameBuilder::ethernet(ether_type::LLDP).macs(from, LLDP).payload(body).pad().build()
    };
    // LLC of spanning tree, and a bridge that claims to be the root (IEEE 802.1D).
    let bpdu = [&[0x42, 0x42, 3][..], &[0; 35]].concat();
    let spanning_tree = FrameBuilder::ieee_802_3().macs(b, BRIDGES).payload(bpdu).pad().build();
    vec![
        (Side::A, arp(1, a, BROADCAST)),
        (Side::B, arp(2, b, a)),
        (Side::A, lldp(a)),
        (Side::B, lldp(b)),
        (Side::B, spanning_tree),
    ]
}
