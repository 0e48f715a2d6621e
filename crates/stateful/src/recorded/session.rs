// SPDX-License-Identifier: BSD-3-Clause
//! One captured TCP connection or UDP exchange: what its ends sent, and when.

use super::choice::Pauses;
use super::packet::{End, Packet};
use super::stream::Stream;
use crate::profile::{DATAGRAM_MAX, Transport};
use crate::program::Action;
use std::fmt;
use wire::tcp::{ACK, FIN, RST, SYN};

/// Numbers of the ends.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Shorter pauses are left out: those between the segments of one message are.
const PAUSE_MIN_NS: u64 = 1_000_000;

/// A session of a capture.
pub(crate) struct Session {
    pub(crate) transport: Transport,
    /// Client and server.
    ends: [End; 2],
    /// What both ends have sent; `None` before their SYN was seen.
    streams: [Option<Stream>; 2],
    events: Vec<Event>,
    /// End of the handshake, or the first datagram.
    begun_ns: u64,
    /// What of the capture cannot be replayed, with the number of the packet.
    pub(crate) fault: Option<String>,
}

/// A message, or the FIN, of an end.
struct Event {
    end: usize,
    /// Times of its first and its last packet.
    time_ns: [u64; 2],
    /// Empty for a FIN.
    bytes: Vec<u8>,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [client, server] = self.ends.map(std::net::SocketAddr::from);
        write!(f, "{} {client} to {server}", self.transport.name())
    }
}

impl Session {
    /// Begins a session with its first packet.
    pub(super) fn new(packet: &Packet<'_>) -> Self {
        let is_reply = packet.has(SYN | ACK, SYN | ACK);
        let ends = if is_reply { [packet.dst, packet.src] } else { [packet.src, packet.dst] };
        Self {
            transport: packet.transport,
            ends,
            streams: [None, None],
            events: Vec::new(),
            begun_ns: packet.time_ns,
            fault: None,
        }
    }

    /// Returns the port of the server.
    pub(crate) fn port(&self) -> u16 {
        self.ends[SERVER].1
    }

    /// True if the addresses are IPv6.
    pub(crate) fn is_ipv6(&self) -> bool {
        self.ends[SERVER].0.is_ipv6()
    }

    /// True if a packet of the same ends begins another session.
    pub(super) fn is_followed_by(&self, packet: &Packet<'_>) -> bool {
        let is_syn = packet.has(SYN, SYN | ACK | RST);
        let is_known = |stream: &Stream| stream.began_with(packet.seq);
        is_syn && !self.streams.iter().flatten().any(is_known)
    }

    /// Adds a packet of this session.
    pub(super) fn add(&mut self, packet: &Packet<'_>) {
        if let Some(fault) = packet.fault {
            self.refuse(format!("packet {} {fault}", packet.number));
        }
        let end = if packet.src == self.ends[CLIENT] { CLIENT } else { SERVER };
        match self.transport {
            Transport::Tcp => self.add_segment(end, packet),
            Transport::Udp => self.add_datagram(end, packet),
        }
    }

    fn add_datagram(&mut self, end: usize, packet: &Packet<'_>) {
        let len = packet.payload.len();
        if len > DATAGRAM_MAX as usize {
            let number = packet.number;
            self.refuse(format!(
                "packet {number} has {len} bytes of payload; a datagram has at most {DATAGRAM_MAX}"
            ));
        }
        if len > 0 {
            let time_ns = [packet.time_ns; 2];
            self.events.push(Event { end, time_ns, bytes: packet.payload.to_vec() });
        }
    }

    fn add_segment(&mut self, end: usize, packet: &Packet<'_>) {
        if packet.flags & RST != 0 {
            return;
        }
        let is_syn = packet.flags & SYN != 0;
        if is_syn {
            self.streams[end].get_or_insert_with(|| Stream::new(packet.seq));
        }
        if self.events.is_empty() && (is_syn || packet.payload.is_empty()) {
            self.begun_ns = packet.time_ns;
        }
        let peer = self.streams[1 - end].as_mut();
        if let Some(peer) = peer.filter(|_| packet.flags & ACK != 0) {
            peer.note_acknowledged(packet.ack, packet.number);
        }
        let Some(stream) = &mut self.streams[end] else { return };
        let seq = packet.seq.wrapping_add(u32::from(is_syn));
        let was_closed = stream.is_closed();
        let bytes = stream.take(seq, packet.payload, packet.number);
        if packet.flags & FIN != 0 {
            let fin = seq.wrapping_add(packet.payload.len() as u32);
            stream.note_fin(fin, packet.number);
        }
        let closes = !was_closed && stream.is_closed();
        if !bytes.is_empty() && !was_closed {
            self.add_bytes(end, packet.time_ns, bytes);
        }
        if closes {
            let time_ns = [packet.time_ns; 2];
            self.events.push(Event { end, time_ns, bytes: Vec::new() });
        }
    }

    /// Adds bytes to the latest message, or begins another one.
    fn add_bytes(&mut self, end: usize, now_ns: u64, bytes: Vec<u8>) {
        if let Some(last) = self.events.last_mut() {
            let is_same = last.end == end && !last.bytes.is_empty();
            if is_same && now_ns.saturating_sub(last.time_ns[1]) < PAUSE_MIN_NS {
                last.time_ns[1] = now_ns;
                return last.bytes.extend(bytes);
            }
        }
        self.events.push(Event { end, time_ns: [now_ns; 2], bytes });
    }

    fn refuse(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Looks for what the capture lacks, when all packets are there.
    pub(super) fn finish(&mut self) {
        let faults = self.streams.iter().flatten().filter_map(Stream::fault);
        if let Some(fault) = faults.into_iter().next() {
            self.refuse(fault);
        }
    }

    /// Returns why the session is left out: it is none that could be replayed.
    pub(crate) fn incomplete(&self) -> Option<&'static str> {
        match (self.transport, &self.streams) {
            (Transport::Tcp, [None, _]) => Some("begins before the capture"),
            (Transport::Tcp, [_, None]) => Some("was not accepted"),
            (Transport::Udp, _) if self.events.is_empty() => Some("has no data"),
            _ => None,
        }
    }

    /// Returns the actions of an end, and the longest pause in milliseconds.
    pub(crate) fn actions(&self, end: usize, pauses: Pauses) -> (Vec<Action>, u32) {
        let keeps_pauses = pauses.are_kept(self.transport);
        let (mut actions, mut before_ns, mut longest_us) = (Vec::new(), self.begun_ns, 0);
        for event in &self.events {
            let pause_ns = event.time_ns[0].saturating_sub(before_ns);
            before_ns = event.time_ns[1];
            if keeps_pauses && pause_ns >= PAUSE_MIN_NS {
                let us = u32::try_from(pause_ns / 1000).unwrap_or(u32::MAX);
                longest_us = longest_us.max(us);
                if event.end == end {
                    actions.push(Action::Delay(us, us));
                }
            }
            match (event.end == end, event.bytes.as_slice()) {
                (true, []) => {
                    actions.push(Action::Close);
                    break;
                }
                (false, []) => actions.push(Action::WaitForClose),
                (true, bytes) => actions.push(Action::SendBytes(bytes.into())),
                (false, bytes) => receive(&mut actions, bytes.len() as u32),
            }
        }
        (actions, longest_us / 1000)
    }
}

/// Appends the action that receives bytes; one action for what comes without a pause of this end.
fn receive(actions: &mut Vec<Action>, len: u32) {
    match actions.last_mut() {
        Some(Action::Receive(sum)) if *sum < 1 << 29 => *sum += len,
        _ => actions.push(Action::Receive(len)),
    }
}
