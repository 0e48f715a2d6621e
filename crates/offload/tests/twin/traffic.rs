// SPDX-License-Identifier: BSD-3-Clause
//! Connections that come and go: whole lives of TCP, UDP, pings and fragments over both IP
//! versions, with tags and without; half of those that end begin again with the same ports.

use engine::Side;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::random::Random;
use wire::ethernet::ether_type;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};
use wire::{FrameBuilder, proto};

/// What comes next of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Syn,
    SynAck,
    /// So many turns with data.
    Data(u32),
    Fin,
    FinBack,
    LastAck,
    Reset,
    Over,
}

#[derive(Clone, Debug)]
struct Connection {
    /// From side A and from side B.
    frames: [FrameBuilder; 2],
    proto: u8,
    /// Who began.
    first: usize,
    step: Step,
}

/// The packets of some connections, one turn after the other.
pub(crate) struct Traffic {
    random: Random,
    connections: Vec<Connection>,
    /// Connections so far, which is where the ports of the next come from.
    count: u32,
    /// Turns with data of the longest ones.
    longest: u32,
}

impl Traffic {
    /// So many at a time, of which the longest have so many turns with data.
    pub(crate) fn new(seed: u64, concurrent: usize, longest: u32) -> Self {
        let mut traffic =
            Self { random: Random::new(seed), connections: vec![], count: 0, longest };
        for _ in 0..concurrent {
            let connection = traffic.connection();
            traffic.connections.push(connection);
        }
        traffic
    }

    /// One that was not there before, but for its addresses.
    fn connection(&mut self) -> Connection {
        let random = &mut self.random;
        let number = self.count / 2;
        // Two by two with the same ports: other tags make them others.
        let tag = [None, Some(5)][self.count as usize % 2].filter(|_| random.one_in(2));
        self.count += 1;
        let [high, low] = ((number >> 13) as u16).to_be_bytes();
        let (client, server) = (1024 + (number & 0x1fff) as u16, random.pick(&[80, 53]));
        let (a, b): (IpAddr, IpAddr) = match number % 3 {
            0 => (
                Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, high.into(), low.into()).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0xb, 0, 0, 0, 0, 1).into(),
            ),
            _ => (Ipv4Addr::new(10, 1, high, low).into(), Ipv4Addr::new(10, 2, 0, 1).into()),
        };
        let proto = random.pick(&[proto::TCP, proto::TCP, proto::TCP, proto::UDP, proto::UDP]);
        let there = FrameBuilder::ip(a, b);
        let there = match (proto, a) {
            (proto::TCP, _) => there.tcp(client, server),
            (_, IpAddr::V4(_)) if random.one_in(20) => there.icmp_echo(client, 1),
            _ => there.udp(client, server),
        };
        let there = tag.into_iter().fold(there, FrameBuilder::vlan).pad();
        let mut connection = Connection {
            frames: [there.clone(), there.reversed()],
            proto,
            first: 0,
            step: Step::Over,
        };
        self.begin(&mut connection);
        connection
    }

    fn begin(&mut self, connection: &mut Connection) {
        connection.first = usize::from(self.random.one_in(4));
        // Some were there before anybody looked.
        connection.step = match connection.proto {
            proto::TCP if !self.random.one_in(8) => Step::Syn,
            _ => self.data(),
        };
    }

    /// Most are short.
    fn data(&mut self) -> Step {
        let longest = self.longest >> self.random.below(8);
        Step::Data(1 + self.random.below(longest.max(1).into()) as u32)
    }

    /// Gives the frames of one turn away, with where they arrive.
    pub(crate) fn turn(&mut self, give: &mut impl FnMut(Side, &[u8])) {
        if self.random.one_in(100) {
            return give(Side::A, &self.odd());
        }
        let place = self.random.below(self.connections.len() as u64) as usize;
        if self.connections[place].step == Step::Over {
            let next = match self.random.one_in(2) {
                true => self.connection(),
                false => {
                    let mut same = self.connections[place].clone();
                    self.begin(&mut same);
                    same
                }
            };
            self.connections[place] = next;
        }
        let mut connection = self.connections[place].clone();
        self.play(&mut connection, give);
        self.connections[place] = connection;
    }

    fn play(&mut self, connection: &mut Connection, give: &mut impl FnMut(Side, &[u8])) {
        let first = connection.first;
        let mut bare = |by: usize, flags: u8| {
            give(SIDES[by], &connection.frames[by].clone().flags(flags).build());
        };
        let next = match connection.step {
            Step::Syn => {
                bare(first, SYN);
                // Nobody is there, or it comes again.
                if self.random.one_in(20) { Step::Over } else { self.after_syn() }
            }
            Step::SynAck => {
                bare(1 - first, SYN | ACK);
                self.data()
            }
            Step::Data(left) => {
                self.talk(connection, give);
                match (left, connection.proto) {
                    (2.., _) => Step::Data(left - 1),
                    (_, proto::TCP) => {
                        self.random.pick(&[Step::Fin, Step::Fin, Step::Reset, Step::Over])
                    }
                    _ => Step::Over,
                }
            }
            Step::Fin => {
                bare(first, FIN | ACK);
                Step::FinBack
            }
            Step::FinBack => {
                bare(1 - first, FIN | ACK);
                if self.random.one_in(4) { Step::Over } else { Step::LastAck }
            }
            Step::LastAck => {
                bare(first, ACK);
                Step::Over
            }
            Step::Reset => {
                bare(self.random.below(2) as usize, RST | ACK);
                if self.random.one_in(4) { Step::LastAck } else { Step::Over }
            }
            Step::Over => unreachable!("it has begun again"),
        };
        connection.step = next;
    }

    fn after_syn(&mut self) -> Step {
        if self.random.one_in(10) { Step::Syn } else { Step::SynAck }
    }

    /// Some packets of one direction.
    fn talk(&mut self, connection: &Connection, give: &mut impl FnMut(Side, &[u8])) {
        let by = self.random.below(2) as usize;
        let frame = connection.frames[by].clone().payload(vec![7; self.random.below(300) as usize]);
        if connection.proto == proto::UDP && self.random.one_in(30) {
            give(SIDES[by], &frame.clone().fragment(0, true).build());
            return give(SIDES[by], &frame.fragment(64, false).build());
        }
        let frame = match connection.proto {
            proto::TCP => frame.flags(self.random.pick(&[ACK, ACK, PSH | ACK])).build(),
            _ => frame.build(),
        };
        for _ in 0..1 + self.random.below(8) {
            give(SIDES[by], &frame);
        }
    }

    /// What no rule is about.
    fn odd(&mut self) -> Vec<u8> {
        let host = Ipv4Addr::new(10, 1, 0, self.random.below(4) as u8);
        let datagram = FrameBuilder::ip(host.into(), Ipv4Addr::new(10, 2, 0, 1).into());
        match self.random.below(4) {
            0 => FrameBuilder::ethernet(ether_type::ARP).payload([1; 46]).build(),
            1 => datagram.udp(1, 2).udp_len(3).build(),
            2 => datagram.sctp(1024, 80).pad().build(),
            _ => datagram.tcp(1024, 80).flags(SYN | FIN).pad().build(),
        }
    }
}

const SIDES: [Side; 2] = [Side::A, Side::B];
