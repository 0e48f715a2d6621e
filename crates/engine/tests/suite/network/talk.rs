// SPDX-License-Identifier: BSD-3-Clause
//! What two programs do with a connection: who sends how much, who closes first, who gives up.

use super::host::{Host, Shape, address};
use super::middle::Tuple;
use fastrand::Rng;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, State};
use smoltcp::wire::IpAddress;

/// How a connection begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// This end closes when it has sent all, the other one when it has received all.
    ClosedBy(usize),
    /// Both close when they have sent all.
    ClosedByBoth,
    /// This end gives up after so many bytes, sent and received.
    AbortedBy(usize, usize),
    /// Nobody listens.
    Refused,
    /// Both ends connect at once.
    Crossed,
}

/// One connection, as both programs would have it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    manner: Manner,
    /// Bytes that client and server send.
    bytes: [usize; 2],
    shapes: [Shape; 2],
    /// Of eight looks at what has arrived, those that take it.
    eagerness: u32,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut len = || {
            let magnitude = rng.u32(1..19);
            rng.usize(0..1 << magnitude)
        };
        let bytes = [len(), len()];
        let manner = match rng.u32(0..16) {
            0..=7 => Manner::ClosedBy(rng.usize(0..2)),
            8..=10 => Manner::ClosedByBoth,
            11 | 12 => Manner::AbortedBy(rng.usize(0..2), rng.usize(0..=bytes[0] + bytes[1])),
            13 => Manner::Refused,
            _ => Manner::Crossed,
        };
        let mut shape = || Shape {
            receive: rng.usize(600..10_000) << rng.u32(0..6),
            send: rng.usize(600..60_000) << rng.u32(0..4),
            nagle: rng.bool(),
            delays_acks: rng.bool(),
        };
        Self { manner, bytes, shapes: [shape(), shape()], eagerness: rng.u32(1..=8) }
    }
}

/// Where the ends of a connection are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) is_v6: bool,
    /// Of client and server.
    pub(crate) ports: [u16; 2],
}

impl Place {
    pub(crate) fn tuple(self) -> Tuple {
        (self.is_v6, self.ports[0], self.ports[1])
    }

    fn end(self, side: usize) -> (IpAddress, u16) {
        (address(side as u16 + 1, self.is_v6), self.ports[side])
    }
}

/// What one program has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) sent: usize,
    pub(crate) received: usize,
    /// The peer has closed, and all it sent has come.
    pub(crate) is_finished: bool,
    /// It has closed, or given up.
    is_closed: bool,
}

/// One connection under way.
pub(crate) struct Talk {
    plan: Plan,
    handles: [SocketHandle; 2],
    seen: [Seen; 2],
    /// Sets the bytes of connections apart.
    number: usize,
}

/// What is at this place in what a side sends.
fn byte(number: usize, side: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8 ^ number * 7 ^ side * 0x55) as u8
}

impl Talk {
    pub(crate) fn begin(plan: Plan, place: Place, number: usize, hosts: &mut [Host; 2]) -> Self {
        let handles = [0, 1].map(|side| hosts[side].socket(plan.shapes[side]));
        match plan.manner {
            Manner::Refused => {}
            Manner::Crossed => hosts[1].connect(handles[1], place.end(0), place.end(1)),
            _ => {
                let server = hosts[1].sockets.get_mut::<Socket>(handles[1]);
                server.listen(place.end(1)).expect("a socket that is closed");
            }
        }
        hosts[0].connect(handles[0], place.end(1), place.end(0));
        Self { plan, handles, seen: Default::default(), number }
    }

    /// One program looks at its socket.
    pub(crate) fn step(&mut self, side: usize, host: &mut Host, rng: &mut Rng) {
        let socket = host.sockets.get_mut::<Socket>(self.handles[side]);
        let is_tired = match self.plan.manner {
            Manner::AbortedBy(who, bytes) => {
                let seen = self.seen[side];
                who == side && seen.sent + seen.received >= bytes && socket.may_send()
            }
            _ => false,
        };
        if is_tired && !self.seen[side].is_closed {
            socket.abort();
            self.seen[side].is_closed = true;
            return;
        }
        self.send(side, host);
        if rng.u32(0..8) < self.plan.eagerness {
            self.receive(side, host);
        }
        self.close(side, host);
    }

    fn send(&mut self, side: usize, host: &mut Host) {
        let (number, total) = (self.number, self.plan.bytes[side]);
        let socket = host.sockets.get_mut::<Socket>(self.handles[side]);
        let sent = &mut self.seen[side].sent;
        while *sent < total && socket.can_send() {
            let more = socket.send(|room| {
                let len = room.len().min(total - *sent);
                for (i, place) in room[..len].iter_mut().enumerate() {
                    *place = byte(number, side, *sent + i);
                }
                (len, len)
            });
            *sent += more.expect("it can send");
        }
    }

    fn receive(&mut self, side: usize, host: &mut Host) {
        let (number, seen) = (self.number, &mut self.seen[side]);
        let socket = host.sockets.get_mut::<Socket>(self.handles[side]);
        loop {
            let taken = socket.recv(|bytes| {
                for (i, there) in bytes.iter().enumerate() {
                    assert_eq!(*there, byte(number, 1 - side, seen.received + i));
                }
                (bytes.len(), bytes.len())
            });
            match taken {
                Ok(0) => return,
                Ok(len) => seen.received += len,
                Err(RecvError::Finished) => return seen.is_finished = true,
                Err(RecvError::InvalidState) => return,
            }
        }
    }

    fn close(&mut self, side: usize, host: &mut Host) {
        let socket = host.sockets.get_mut::<Socket>(self.handles[side]);
        let seen = &mut self.seen[side];
        let is_my_turn = match self.plan.manner {
            Manner::ClosedBy(who) | Manner::AbortedBy(who, _) if who != side => seen.is_finished,
            Manner::AbortedBy(..) => false,
            _ => true,
        };
        let is_open = matches!(socket.state(), State::Established | State::CloseWait);
        if is_my_turn && is_open && seen.sent == self.plan.bytes[side] {
            socket.close();
            seen.is_closed = true;
        }
    }

    /// Whether this end needs its ports no more.
    pub(crate) fn is_over_at(&self, side: usize, host: &Host) -> bool {
        let socket = host.sockets.get::<Socket>(self.handles[side]);
        match socket.state() {
            State::Closed => !socket.can_recv(),
            // Nobody will come to a server whose client has gone.
            State::Listen => true,
            _ => false,
        }
    }

    /// Whether an end may do something before it hears of the other.
    pub(crate) fn is_busy_at(&self, side: usize, host: &Host) -> bool {
        let socket = host.sockets.get::<Socket>(self.handles[side]);
        let is_quiet = matches!(
            socket.state(),
            State::Closed | State::Listen | State::TimeWait | State::LastAck
        );
        !is_quiet || socket.can_recv()
    }

    /// Whether nobody gave up, and all bytes arrived.
    pub(crate) fn is_complete(&self) -> bool {
        let is_meant_to = !matches!(self.plan.manner, Manner::AbortedBy(..));
        let all = |side: usize| self.seen[side].received == self.plan.bytes[1 - side];
        is_meant_to && all(0) && all(1)
    }

    /// Gives its sockets back; its number, and what both have seen.
    pub(crate) fn end(self, hosts: &mut [Host; 2]) -> (usize, [Seen; 2]) {
        for (host, handle) in hosts.iter_mut().zip(self.handles) {
            host.sockets.remove(handle);
        }
        (self.number, self.seen)
    }
}
