// SPDX-License-Identifier: BSD-3-Clause
//! All ends of one worker at one port: opens connections as a client, accepts them as a server, and
//! passes packets and deadlines to them.

mod ended;
mod hold;
mod icmp;
mod open;
mod unknown;

use crate::addresses::Addresses;
use crate::context::{Context, Fate, Macs, Waits};
use crate::counters::{Counter, Counters, Latencies};
use crate::endpoint::{EndpointId, State, flag};
use crate::ends::Ends;
use crate::frame::Output;
use crate::packet::{Headers, NotRead, read};
use crate::profile::Profile;
use crate::sharing::Sharing;
use crate::table::{Key, Table};
use crate::tcp::WINDOW_MAX;
use crate::wheel::{NONE, Wheel, is_over, tick_of};
use hold::Held;
pub use icmp::Note;
use open::Opener;
use std::sync::Arc;
use wire::tcp::{ACK, RST, SYN};

/// Most frames of a burst: as many as DPDK queues hand over at once.
pub const BURST_MAX: usize = 64;
/// Most deadlines of a turn.
const DEADLINES_MAX: u32 = 64;

/// Which end of connections a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens connections.
    Client,
    /// It accepts them.
    Server,
}

/// Options of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The traffic.
    pub profile: Arc<Profile>,
    /// Which end of the connections it is.
    pub role: Role,
    /// Most connections at a time. One that is open takes 88 bytes, and 6 of the index.
    pub capacity: u32,
    /// MAC address of the port, and that of the next hop.
    pub macs: [[u8; 6]; 2],
    /// MTU of the port.
    pub mtu: u16,
    /// How it shares connections with the other workers of its end.
    pub sharing: Sharing,
    /// Seed of random delays.
    pub seed: u64,
    /// Microseconds since any moment before the start, the same for all runs: initial sequence
    /// numbers are counted from there.
    pub begun_us: u64,
}

/// A packet of a burst.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    headers: Headers,
    key: Option<Key>,
    hash: u64,
    /// True if it comes from an address that no connection has.
    is_unknown: bool,
}

/// The ends of connections of one worker.
#[derive(Debug)]
pub struct Stack {
    profile: Arc<Profile>,
    role: Role,
    table: Table,
    wheel: Wheel,
    addresses: Addresses,
    macs: Macs,
    waits: Waits,
    /// MSS of TCP within the MTU.
    mss: u16,
    openers: Vec<Opener>,
    held: Held,
    sharing: Sharing,
    counters: Counters,
    latencies: Latencies,
    random: u64,
    begun_us: u64,
    /// Time at which deadlines were last acted on.
    expired_ns: u64,
    burst: Box<[Noted; BURST_MAX]>,
    /// The record that [`Self::abort`] looks at next.
    next_aborted: EndpointId,
    /// Sum of what the look-ups have touched, so that the compiler keeps them.
    touched: u32,
}

impl Stack {
    /// Makes a stack without connections.
    pub fn new(config: StackConfig) -> Self {
        let StackConfig { profile, role, capacity, macs, mtu, sharing, seed, begun_us } = config;
        let [own, next_hop] = macs;
        let headers = if profile.clients.is_ipv4() { 40 } else { 60 };
        let openers = match role {
            Role::Client => Opener::of_profile(&profile, &sharing),
            Role::Server => Vec::new(),
        };
        Self {
            role,
            table: Table::new(capacity),
            wheel: Wheel::new(),
            addresses: Addresses::new(profile.clients, profile.servers),
            macs: Macs::new(own, next_hop),
            waits: Waits::new(&profile.timeouts),
            mss: mtu.saturating_sub(headers).max(64),
            openers,
            held: Held::new(profile.churn.unwrap_or(0.0) / f64::from(sharing.workers)),
            sharing,
            counters: Counters::default(),
            latencies: Latencies::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            begun_us,
            expired_ns: 0,
            burst: Box::new([Noted::default(); BURST_MAX]),
            next_aborted: 0,
            touched: 0,
            profile,
        }
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the latencies since they were cleared.
    pub fn latencies(&mut self) -> &mut Latencies {
        &mut self.latencies
    }

    /// Returns the number of records in use: connections that are open, and closed ones whose ports
    /// must not be used yet.
    pub fn records(&self) -> u32 {
        self.table.used()
    }

    /// Returns the bytes of memory for a record and its place in the index.
    pub fn bytes_per_record(&self) -> f64 {
        self.table.bytes_per_record()
    }

    /// Counts a frame that its port has sent for this end besides: an answer to a neighbour.
    pub fn count_sent(&mut self, bytes: usize) {
        self.counters[Counter::FramesSent] += 1;
        self.counters[Counter::BytesSent] += bytes as u64;
    }

    /// Counts frames that were never sent: the port had no room for them until the end.
    pub fn count_unsent(&mut self, frames: u64) {
        self.counters[Counter::Unsent] += frames;
    }

    /// Counts frames that arrived after the end.
    pub fn count_late(&mut self, frames: usize, bytes: u64) {
        self.counters[Counter::FramesReceived] += frames as u64;
        self.counters[Counter::BytesReceived] += bytes;
    }

    /// True if ARP and neighbour discovery of this address are ours to answer.
    pub fn is_own(&self, address: std::net::IpAddr) -> bool {
        match self.role {
            Role::Client => self.profile.clients.contains(address),
            Role::Server => self.profile.servers.contains(address),
        }
    }

    /// Counts a frame that the port has received.
    #[inline(always)]
    pub fn count_received(&mut self, frame: &[u8]) {
        self.counters[Counter::FramesReceived] += 1;
        self.counters[Counter::BytesReceived] += frame.len() as u64;
    }

    /// Counts a frame that could not be handed off to its worker.
    pub fn count_lost_hand_off(&mut self) {
        self.counters[Counter::HandOffsLost] += 1;
    }

    /// Reads the headers of frame `number` of a burst, below [`BURST_MAX`]. All frames of a burst
    /// are noted before the first one is processed, so that their records are in the cache by then.
    #[inline(always)]
    pub fn note(&mut self, number: usize, frame: &[u8]) -> Note {
        let noted = &mut self.burst[number];
        (noted.key, noted.is_unknown) = (None, false);
        let headers = match read(frame) {
            Ok(headers) => headers,
            Err(NotRead::Foreign) => return self.note_foreign(frame),
            Err(NotRead::Malformed) => {
                self.counters[Counter::Malformed] += 1;
                return Note::Noted;
            }
            Err(NotRead::BadChecksum) => return self.note_bad_checksum(frame),
        };
        let Some(local) = own_number(self.role, &self.addresses, headers.dst) else {
            self.counters[Counter::Foreign] += 1;
            return Note::Noted;
        };
        let remote = match self.role {
            Role::Client => self.addresses.number(headers.src),
            // Only what begins a connection makes its sender known.
            Role::Server if headers.is_udp || headers.flags & (SYN | ACK | RST) == SYN => {
                self.addresses.learn(headers.src)
            }
            Role::Server => self.addresses.number(headers.src),
        };
        let Some(remote) = remote else {
            *noted = Noted { headers, is_unknown: self.role == Role::Server, ..Noted::default() };
            self.counters[Counter::Stray] += u64::from(self.role == Role::Client);
            return Note::Noted;
        };
        let Headers { sport, dport, is_udp, .. } = headers;
        let key = Key { remote, local, remote_port: sport, local_port: dport, is_udp };
        let hash = key.hash();
        *noted = Noted { headers, key: Some(key), hash, is_unknown: false };
        Note::Noted
    }

    /// Counts a packet with a wrong checksum, and marks the connection that it seems to be of.
    #[cold]
    fn note_bad_checksum(&mut self, frame: &[u8]) -> Note {
        let ends = Ends::of_frame(frame).map(Ends::reversed);
        let is_ours =
            |ends: &Ends| own_number(self.role, &self.addresses, ends.addresses[0]).is_some();
        if let Some(ends) = ends.filter(is_ours) {
            // Another worker may know a peer that this one does not.
            let key = self.key_of(&ends);
            if let Some(id) = key.and_then(|key| self.table.find(&key, key.hash())) {
                self.table.records[id as usize].set(flag::BAD_CHECKSUM);
            } else if let Some(worker) = self.other_owner(ends) {
                return Note::OfWorker(worker);
            }
        }
        self.counters[Counter::BadChecksums] += 1;
        Note::Noted
    }

    /// Returns the key of the connection between these ends, ours first; `None` if one is unknown.
    fn key_of(&self, ends: &Ends) -> Option<Key> {
        let ([local, remote], [local_port, remote_port]) = (ends.addresses, ends.ports);
        Some(Key {
            local: own_number(self.role, &self.addresses, local)?,
            remote: self.addresses.number(remote)?,
            remote_port,
            local_port,
            is_udp: ends.is_udp,
        })
    }

    /// Brings the records of the first `count` frames of the burst into the cache.
    #[inline(always)]
    pub fn look_up(&mut self, count: usize) {
        let mut ids = [NONE; BURST_MAX];
        for (id, noted) in ids.iter_mut().zip(&self.burst[..count]) {
            *id = self.table.peek(noted.hash).unwrap_or(0);
        }
        for id in &ids[..count] {
            self.touched ^= self.table.records.get(*id as usize).map_or(0, |record| record.una);
        }
    }

    /// Processes frame `number` of the burst. If its connection is another worker's, returns that
    /// worker, which must process the frame.
    #[inline(always)]
    pub fn process(
        &mut self,
        number: usize,
        frame: &[u8],
        now_ns: u64,
        out: &mut impl Output,
    ) -> Option<u16> {
        let Noted { headers, key, hash, is_unknown } = self.burst[number];
        if is_unknown {
            // Another worker may know the peer.
            let other = self.other_owner(headers.ends());
            if other.is_none() {
                self.answer_stray(number, frame, out);
            }
            return other;
        }
        let key = key?;
        let Some(id) = self.table.find(&key, hash) else {
            // The peer has sent it.
            let other = self.other_owner(headers.ends());
            if other.is_none() {
                self.process_unknown(number, frame, now_ns, out);
            }
            return other;
        };
        if self.table.records[id as usize].state.rests() {
            self.answer_stray(number, frame, out);
            return None;
        }
        self.act(id, now_ns, out, |context, end| {
            let data = &frame[headers.payload()];
            match headers.is_udp {
                true => context.receive_udp(end, &headers, data),
                false => context.receive(end, &headers, data),
            }
        });
        None
    }

    /// Returns the worker that has the connection between these ends, ours first; `None` if it is
    /// this one.
    fn other_owner(&mut self, ends: Ends) -> Option<u16> {
        if self.sharing.workers == 1 {
            return None;
        }
        let ends = match self.role {
            Role::Client => ends,
            Role::Server => ends.reversed(),
        };
        let owner = self.sharing.owner(&ends, *self.profile.client_ports.start());
        let other = Some(owner).filter(|owner| *owner != self.sharing.worker);
        self.counters[Counter::HandedOff] += u64::from(other.is_some());
        other
    }

    /// Acts on deadlines that are over; true if there was any.
    pub fn expire(&mut self, now_ns: u64, out: &mut impl Output) -> bool {
        let tick = tick_of(now_ns / 1000);
        self.expired_ns = now_ns;
        let mut is_any = false;
        for _ in 0..DEADLINES_MAX {
            let Some(id) = self.wheel.pop(&mut self.table.records, tick) else { break };
            is_any = true;
            self.act(id, now_ns, out, |context, end| {
                if end.has(flag::PROGRAM_WAITS) && is_over(end.program_at, tick) {
                    let fate = context.go_on(end);
                    if fate != Fate::Open {
                        return fate;
                    }
                }
                if end.has(flag::TRANSPORT_WAITS) && is_over(end.transport_at, tick) {
                    return match end.state {
                        State::Udp => context.expire_udp(end),
                        State::RestsTcp | State::RestsUdp => Fate::Gone,
                        _ => context.expire(end),
                    };
                }
                Fate::Open
            });
        }
        is_any
    }

    /// Lets an end act, and does what follows for its record.
    #[inline(always)]
    fn act<O: Output>(
        &mut self,
        id: EndpointId,
        now_ns: u64,
        out: &mut O,
        act: impl FnOnce(&mut Context<'_, O>, &mut crate::endpoint::Endpoint) -> Fate,
    ) {
        let end = &mut self.table.records[id as usize];
        let mut context = Context {
            now_us: now_ns / 1000,
            is_client: self.role == Role::Client,
            template: &self.profile.templates[usize::from(end.template)],
            waits: &self.waits,
            addresses: &self.addresses,
            macs: &self.macs,
            mss: self.mss,
            counters: &mut self.counters,
            latencies: &mut self.latencies,
            random: &mut self.random,
            begun_us: self.begun_us,
            begins_to_hold: false,
            out,
        };
        let fate = act(&mut context, end);
        let begins_to_hold = context.begins_to_hold;
        match fate {
            Fate::Open => {
                if begins_to_hold {
                    self.hold(id);
                }
                self.arm(id);
            }
            Fate::Ended(counter) => self.end(id, counter, now_ns),
            Fate::Closed(counter) => self.close(id, counter, now_ns),
            Fate::Gone => self.forget(id),
        }
    }

    /// Puts a record into the wheel, if it must be there and is not, or is too late.
    #[inline(always)]
    fn arm(&mut self, id: EndpointId) {
        let end = &mut self.table.records[id as usize];
        if end.is_linked() && !end.has(flag::RELINK) {
            return;
        }
        end.clear(flag::RELINK);
        let at = end.settle_deadlines();
        if at != NONE {
            self.wheel.link(&mut self.table.records, id, at);
        }
    }
}

/// Returns the number of an address of the ends with this role; `None` if it is another. It borrows
/// the addresses only, so that a frame can be noted at its place meanwhile.
#[inline(always)]
fn own_number(role: Role, addresses: &Addresses, address: u128) -> Option<u32> {
    match role {
        Role::Client => addresses.number_of_client(address),
        Role::Server => addresses.number_of_server(address),
    }
}

impl<O: Output> Context<'_, O> {
    /// Goes on with the program after a delay.
    pub(crate) fn go_on(&mut self, end: &mut crate::endpoint::Endpoint) -> Fate {
        if end.state == State::Udp {
            end.clear(flag::PROGRAM_WAITS);
            return self.advance_udp(end);
        }
        let before = self.window(end);
        end.clear(flag::PROGRAM_WAITS);
        let fate = self.advance(end);
        if fate != Fate::Open {
            return fate;
        }
        // The peer learns that a window is open again that was nearly closed (RFC 9293 section
        // 3.8.6.2.2).
        if before < WINDOW_MAX / 2 && self.window(end) > before {
            end.set(flag::ACK_NOW);
        }
        self.close_or_go_on(end)
    }
}
