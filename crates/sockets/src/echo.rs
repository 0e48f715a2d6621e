// SPDX-License-Identifier: BSD-3-Clause
//! Sends every datagram back to its sender.

use crate::arrivals::{Arrivals, ReceiveOptions};
use crate::counts::{KernelCounts, Remedy};
use crate::sys::{Name, Opt, Outgoing, SendRing, Socket, SocketError};
use crate::udp::JOINED_MAX;
use generator::{Laps, Outbox, PublishedCounters, Report, Stage, Task, Work};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use traffic::ROOM;
use traffic::reflector_query::answer_payload;

/// Counters of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EchoReport {
    /// Datagrams received.
    pub received: u64,
    /// Bytes of their payloads that the buffers had room for.
    pub bytes: u64,
    /// Datagrams that were sent back.
    pub reflected: u64,
    /// Datagrams that were longer than the buffer, and therefore not sent back.
    pub too_long: u64,
    /// Datagrams for which the kernel had no room after all tries.
    pub port_full: u64,
    /// Datagrams that the kernel refused for another reason, such as an unreachable sender.
    pub refused: u64,
    /// Queries for the counters that were answered. They also count as received.
    pub answered: u64,
    /// Longest time between two polls of the sockets, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Report for EchoReport {
    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Options of a reflector on UDP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoOptions {
    /// Number of sockets that share the port.
    pub sockets: usize,
    /// Datagrams per call; with 1 they are received and sent by `recvfrom` and `sendto`, or by
    /// io_uring.
    pub batch: usize,
    /// Bytes of the longest datagram that is sent back.
    pub room: usize,
    /// Receive joined datagrams (`UDP_GRO`), and send them back joined for the kernel to segment
    /// (`UDP_SEGMENT`).
    pub joined: bool,
    /// Receive and send with io_uring. Not with `joined`.
    pub io_uring: bool,
    /// With `io_uring`: send from user memory without a copy (Linux 6.1).
    pub zero_copy: bool,
    /// Number of times that a datagram is offered again to a kernel that has no room.
    pub tries: u32,
    /// Bytes for packets that wait in a socket, for each direction.
    pub buffer_bytes: i32,
}

impl Default for EchoOptions {
    fn default() -> Self {
        Self {
            sockets: 1,
            batch: 32,
            room: ROOM,
            joined: false,
            io_uring: false,
            zero_copy: false,
            tries: 1000,
            buffer_bytes: 4 << 20,
        }
    }
}

/// The sockets of a reflector.
#[derive(Debug)]
pub struct EchoPort {
    sockets: Vec<Arc<Socket>>,
    options: EchoOptions,
    address: SocketAddr,
    counts: Arc<KernelCounts>,
    published: Arc<PublishedCounters>,
}

impl EchoPort {
    /// Opens the sockets. With an unspecified IPv6 address, they also receive IPv4.
    pub fn open(address: SocketAddr, options: EchoOptions) -> io::Result<Self> {
        let (mut sockets, mut address) = (Vec::new(), address);
        if options.sockets > 1 {
            // With `SO_REUSEPORT`, the sockets would silently join those of another reflector. Bind
            // a socket without it first, which fails if the port is in use.
            let alone = Socket::udp(address.is_ipv6())?;
            if address.is_ipv6() {
                alone.set(Opt::V6Only, 0)?;
            }
            alone.bind(address)?;
            address = alone.local_address()?;
        }
        for _ in 0..options.sockets.max(1) {
            let is_ipv6 = address.is_ipv6();
            let socket = Socket::udp(is_ipv6)?;
            socket.set(Opt::SendBuffer, options.buffer_bytes)?;
            socket.set(Opt::ReceiveBuffer, options.buffer_bytes)?;
            socket.set(Opt::Errors { is_ipv6 }, 1)?;
            if is_ipv6 {
                socket.set(Opt::V6Only, 0)?;
                socket.set(Opt::Errors { is_ipv6: false }, 1)?;
            }
            if options.joined {
                socket.set(Opt::Gro, 1)?;
            }
            if options.sockets > 1 {
                socket.set(Opt::ReusePort, 1)?;
            }
            socket.bind(address)?;
            address = socket.local_address()?;
            sockets.push(Arc::new(socket));
        }
        let (counts, published) = Default::default();
        Ok(Self { sockets, options, address, counts, published })
    }

    /// Returns the address of the sockets.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the task of socket `number`. Fails if io_uring is set and the kernel refuses it.
    ///
    /// # Panics
    /// If there is no such socket.
    pub fn task(&self, number: usize, outbox: Outbox<EchoReport>) -> io::Result<Echo> {
        let EchoOptions { room, joined, io_uring, zero_copy, tries, .. } = self.options;
        let batch = self.options.batch.clamp(1, 1024);
        let room = if joined { JOINED_MAX } else { room };
        let socket = Arc::clone(&self.sockets[number]);
        let options = ReceiveOptions { batch, room, is_named: true, is_gro: joined };
        let mut outgoing = Outgoing::new(batch, false);
        if io_uring {
            outgoing = outgoing.with_ring(SendRing::new(batch, zero_copy)?);
        }
        Ok(Echo {
            arrivals: Arrivals::new(Arc::clone(&socket), options, io_uring)?,
            socket,
            outgoing,
            single: (batch == 1 && !joined && !io_uring).then(|| vec![0; room].into()),
            counts: Arc::clone(&self.counts),
            published: Arc::clone(&self.published),
            tries,
            outbox,
            last_turn: None,
        })
    }

    /// Returns the number of received packets that the sockets dropped, which the reflector has
    /// lost.
    pub fn drops(&self) -> io::Result<u64> {
        self.sockets.iter().map(|socket| socket.drops().map(u64::from)).sum()
    }

    /// Returns the counters that are sent to senders on request.
    pub fn published(&self) -> &PublishedCounters {
        &self.published
    }

    /// Returns the counters of packets that the kernel refused.
    pub fn counts(&self) -> &KernelCounts {
        &self.counts
    }
}

/// Sends the datagrams of one socket back.
pub struct Echo {
    socket: Arc<Socket>,
    arrivals: Arrivals,
    outgoing: Outgoing,
    /// The buffer for one datagram, if datagrams are received one by one.
    single: Option<Box<[u8]>>,
    counts: Arc<KernelCounts>,
    published: Arc<PublishedCounters>,
    tries: u32,
    outbox: Outbox<EchoReport>,
    last_turn: Option<u64>,
}

impl Echo {
    /// Receives a batch and sends it back; true if datagrams had arrived.
    fn reflect_batch(&mut self, laps: &mut Laps) -> bool {
        let count = match self.arrivals.receive() {
            Ok(count) => count,
            Err(error) => return self.note_receive_error(error),
        };
        laps.lap(Work::Rx);
        let report = self.outbox.current();
        for number in 0..count {
            let arrived = self.arrivals.arrived(number);
            let datagrams = arrived.len.div_ceil(arrived.segment.max(1)).max(1) as u64;
            report.received += datagrams;
            report.bytes += arrived.len as u64;
            if arrived.is_cut {
                report.too_long += datagrams;
                continue;
            }
            for place in arrived.datagrams() {
                let datagram = self.arrivals.bytes_mut(place);
                report.answered += u64::from(answer_payload(datagram, || self.published.get()));
            }
            let name = *self.arrivals.name(number);
            self.outgoing.push_joined(name, arrived.place(), arrived.segment);
        }
        laps.lap(Work::Build);
        self.send_all();
        laps.lap(Work::Tx);
        self.arrivals.free();
        laps.lap(Work::Rx);
        count > 0
    }

    /// Sends the datagrams that wait; drops those that the kernel does not take.
    fn send_all(&mut self) {
        let mut tries = 0;
        while self.outgoing.waiting() > 0 {
            match self.outgoing.send(&self.socket, |place| self.arrivals.bytes(place)) {
                Ok(sent) => {
                    self.outbox.current().reflected += sent as u64;
                    if self.outgoing.waiting() > 0 {
                        self.counts.drain(&self.socket);
                    }
                }
                Err(error) => match self.counts.classify(error, &self.socket) {
                    Remedy::Drop => {
                        self.outbox.current().refused += self.outgoing.drop_first() as u64;
                    }
                    Remedy::Again if tries == self.tries => break,
                    Remedy::Again => tries += 1,
                },
            }
        }
        self.outbox.current().port_full += self.outgoing.drop_all() as u64;
    }

    /// Receives one datagram and sends it back; true if one had arrived.
    fn reflect_one(&mut self, room: &mut [u8], laps: &mut Laps) -> bool {
        let (len, name) = match self.socket.receive_from(room) {
            Ok(received) => received,
            Err(error) => return self.note_receive_error(error),
        };
        laps.lap(Work::Rx);
        let report = self.outbox.current();
        report.received += 1;
        report.bytes += len.min(room.len()) as u64;
        match room.get_mut(..len) {
            Some(datagram) => {
                report.answered += u64::from(answer_payload(datagram, || self.published.get()));
                laps.lap(Work::Build);
                self.send_one(datagram, &name);
                laps.lap(Work::Tx);
            }
            None => report.too_long += 1,
        }
        true
    }

    fn send_one(&mut self, datagram: &[u8], to: &Name) {
        let report = self.outbox.current();
        for _ in 0..=self.tries {
            let Err(error) = self.socket.send_to(datagram, to) else {
                report.reflected += 1;
                return;
            };
            if self.counts.classify(error, &self.socket) == Remedy::Drop {
                report.refused += 1;
                return;
            }
        }
        report.port_full += 1;
    }

    fn note_receive_error(&self, error: SocketError) -> bool {
        if let SocketError::Other(_) = error {
            self.counts.drain(&self.socket);
        }
        false
    }
}

impl Task for Echo {
    #[inline]
    fn turn(&mut self, now: u64, _stage: Stage, laps: &mut Laps) -> bool {
        if self.outbox.is_due(now) {
            self.outbox.hand_over(now);
            laps.lap(Work::Count);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        let Some(mut room) = self.single.take() else { return self.reflect_batch(laps) };
        let is_any = self.reflect_one(&mut room, laps);
        self.single = Some(room);
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.outbox.hand_over(now);
    }
}
