// SPDX-License-Identifier: BSD-3-Clause
//! Opens the connections of clients as they are due.

use super::{Role, Stack};
use crate::addresses::Addresses;
use crate::context::Fate;
use crate::counters::Counter;
use crate::endpoint::State;
use crate::ends::Ends;
use crate::frame::Output;
use crate::pace::Pace;
use crate::profile::{Profile, Share, Transport};
use crate::sharing::Sharing;
use crate::table::Key;
use crate::tuples::Tuples;

/// Connections that are opened in a turn at most.
const OPENED_MAX: u64 = 32;
/// Tuples that are looked at in a turn until one is this worker's.
const DRAWS: u32 = 1 << 12;
/// Tuples of others in a row after which a worker has none of its own. With two workers or more,
/// longer rows are as good as impossible: a hash that depends on so few bits spreads nothing.
const DRAWS_MAX: u64 = 1 << 20;
/// Tuples that are tried for a connection.
const TRIES: u32 = 16;

/// Opens connections of a template.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    tuples: Tuples,
    /// Tuples of which one is this worker's, on average.
    tuples_each: u16,
    /// Tuples of other workers since the last one of this worker.
    others: u64,
    pace: Pace,
    /// Connections each second of this worker, by the profile.
    rate: f64,
    /// Number of connections that were opened, or could not be.
    pub(super) opened: u64,
    /// Number of those that have not ended.
    pub(super) active: u64,
    /// Most connections: active ones if they are replaced, otherwise in total.
    limit: Option<u64>,
    is_continuous: bool,
    pub(super) is_stopped: bool,
}

impl Opener {
    pub(super) fn of_profile(profile: &Profile, sharing: &Sharing) -> Vec<Self> {
        let (number, workers) = (u64::from(sharing.worker), u64::from(sharing.workers));
        let servers = profile.servers.count();
        let counts = |share: Share| [profile.clients.count(), share.count(servers)];
        let opener = |template: &crate::Template| Self {
            tuples: Tuples::new(counts(template.share), &profile.client_ports, sharing.of_ports()),
            tuples_each: sharing.tuples_each(),
            others: 0,
            pace: Pace::new(0.0, 0, 0),
            rate: template.cps / workers as f64,
            opened: 0,
            active: 0,
            // The first workers take what does not divide.
            limit: template.limit.map(|limit| (limit + workers - 1 - number) / workers),
            is_continuous: template.is_continuous,
            is_stopped: true,
        };
        profile.templates.iter().map(opener).collect()
    }

    /// True if this tuple may be taken again before it has rested for so long.
    pub(super) fn is_reused_soon(&self, client: u32, port: u16, rest_ms: u32) -> bool {
        let opened = self.rate_now() * f64::from(rest_ms) / 1000.0 + OPENED_MAX as f64;
        let taken = opened * f64::from(self.tuples_each);
        self.tuples.distance(client, port) as f64 <= taken
    }

    /// False if other workers have all tuples.
    fn has_tuples(&self) -> bool {
        self.tuples.pairs() > 0 && self.others < DRAWS_MAX
    }

    fn rate_now(&self) -> f64 {
        self.pace.rate()
    }

    /// True if as many connections are open as should be.
    pub(super) fn is_full(&self) -> bool {
        self.is_continuous && self.limit.is_some_and(|limit| self.active >= limit)
    }

    /// Returns how many connections may be opened now.
    #[inline(always)]
    fn due(&self, now_ns: u64) -> u64 {
        if self.is_stopped {
            return 0;
        }
        let due = (self.pace.due(now_ns) as u64).saturating_sub(self.opened);
        let allowed = match (self.limit, self.is_continuous) {
            (None, _) => u64::MAX,
            (Some(limit), true) => limit.saturating_sub(self.active),
            (Some(limit), false) => limit.saturating_sub(self.opened),
        };
        due.min(allowed)
    }
}

/// Returns addresses and ports of a client's key.
fn ends_of(key: &Key, addresses: &Addresses) -> Ends {
    Ends {
        addresses: [key.local, key.remote].map(|number| addresses.address(number)),
        ports: [key.local_port, key.remote_port],
        is_udp: key.is_udp,
    }
}

impl Stack {
    /// Begins to open connections at `now_ns`: `multiplier` times as many as the profile says,
    /// after a linear ramp.
    pub fn start(&mut self, multiplier: f64, now_ns: u64, ramp_ns: u64) {
        for opener in &mut self.openers {
            opener.pace = Pace::new(opener.rate * multiplier, now_ns, ramp_ns);
            opener.opened = 0;
            opener.is_stopped = false;
        }
    }

    /// Changes the rate to `multiplier` times that of the profile. With 0, no connection is opened
    /// any more, not even one that is overdue.
    pub fn set_multiplier(&mut self, multiplier: f64, now_ns: u64) {
        for opener in &mut self.openers {
            opener.pace.set_rate(opener.rate * multiplier, now_ns);
            opener.is_stopped = multiplier == 0.0;
        }
    }

    /// Returns the number of connections that are due and not opened.
    pub fn overdue(&self, now_ns: u64) -> u64 {
        self.openers.iter().map(|opener| opener.due(now_ns)).sum()
    }

    /// Opens connections that are due, up to 32 of each template; true if there was any.
    /// Before, releases held ones.
    pub fn open(&mut self, now_ns: u64, out: &mut impl Output) -> bool {
        let mut is_any = self.release(now_ns, out);
        for template in 0..self.openers.len() {
            let wanted = self.openers[template].due(now_ns).min(OPENED_MAX);
            // It may be the rest of a burst. There is none if the port takes no frame.
            let room = out.room() as u64;
            self.counters[Counter::HeldBack] += u64::from(wanted > 0 && room == 0);
            let due = wanted.min(room);
            if due > 0 {
                self.open_batch(template, due as usize, now_ns, out);
                is_any = true;
            }
        }
        is_any
    }

    /// Opens `count` connections. Their places in the index are brought into the cache before the
    /// first one is opened: with many connections, each would be waited for otherwise.
    fn open_batch(&mut self, template: usize, count: usize, now_ns: u64, out: &mut impl Output) {
        let mut keys = [None; OPENED_MAX as usize];
        let mut hashes = [0; OPENED_MAX as usize];
        let mut count = count;
        for at in 0..count {
            match self.next_key(template) {
                Some(key) => {
                    hashes[at] = key.hash();
                    keys[at] = Some((key, hashes[at]));
                }
                // The others stay due.
                None if self.openers[template].has_tuples() => {
                    count = at;
                    break;
                }
                None => {}
            }
        }
        // Nothing else is in this loop, so that the processor has all loads on their way at once.
        for hash in &hashes[..count] {
            self.touched ^= self.table.peek(*hash).unwrap_or(0);
        }
        for key in &keys[..count] {
            self.openers[template].opened += 1;
            let free = key.and_then(|(key, hash)| self.free_key(template, key, hash));
            match free {
                Some((key, hash)) => self.open_one(template, (key, hash), now_ns, out),
                None => self.counters[Counter::Unopened] += 1,
            }
        }
    }

    /// Returns the key of the next connection of a template. `None` if this worker has no tuples,
    /// or if many others' were next.
    fn next_key(&mut self, template: usize) -> Option<Key> {
        if !self.openers[template].has_tuples() {
            return None;
        }
        let Opener { tuples, tuples_each, others, .. } = &mut self.openers[template];
        let template = &self.profile.templates[template];
        let first_port = *self.profile.client_ports.start();
        for _ in 0..DRAWS {
            let tuple = tuples.take();
            let key = Key {
                remote: self.addresses.server(template.share.place(tuple.server)),
                local: self.addresses.client(tuple.client),
                remote_port: template.port,
                local_port: tuple.port,
                is_udp: template.transport == Transport::Udp,
            };
            let is_own = || {
                let ends = ends_of(&key, &self.addresses);
                self.sharing.owner(&ends, first_port) == self.sharing.worker
            };
            if *tuples_each == 1 || is_own() {
                *others = 0;
                return Some(key);
            }
            *others += 1;
        }
        None
    }

    /// Returns this key, or if it is in use one of the next ones; `None` if all those are, too.
    fn free_key(&mut self, template: usize, key: Key, hash: u64) -> Option<(Key, u64)> {
        let mut tried = (key, hash);
        for _ in 0..TRIES {
            if self.table.find(&tried.0, tried.1).is_none() {
                return Some(tried);
            }
            let key = self.next_key(template)?;
            tried = (key, key.hash());
        }
        None
    }

    fn open_one(
        &mut self,
        template: usize,
        (key, hash): (Key, u64),
        now_ns: u64,
        out: &mut impl Output,
    ) {
        let state = if key.is_udp { State::Udp } else { State::SynSent };
        let Some(id) = self.table.insert(&key, hash, state) else {
            self.counters[Counter::Unopened] += 1;
            self.counters[Counter::TableFull] += 1;
            return;
        };
        self.openers[template].active += 1;
        self.counters[Counter::Attempted] += 1;
        self.table.records[id as usize].template = template as u8;
        self.act(id, now_ns, out, |context, end| {
            if key.is_udp {
                end.begin_udp();
                end.iss = context.initial_number(hash);
                return context.advance_udp(end);
            }
            end.iss = context.initial_number(hash);
            (end.una, end.inflight) = (end.iss, 1);
            end.written = end.iss.wrapping_add(1);
            end.timed_at = context.now_us as u32;
            context.send_syn(end);
            Fate::Open
        });
    }

    /// Cuts off up to `most` connections, TCP with a RST; true if some are left. No connection may
    /// be opened meanwhile.
    pub fn abort(&mut self, most: usize, now_ns: u64, out: &mut impl Output) -> bool {
        let mut left = most;
        while self.table.used() > 0 {
            let id = self.next_aborted;
            self.next_aborted = (id + 1) % self.table.records.len() as u32;
            if self.table.records[id as usize].state == State::Free {
                continue;
            }
            if left == 0 || out.room() == 0 {
                self.next_aborted = id;
                return true;
            }
            left -= 1;
            self.act(id, now_ns, out, |context, end| match end.state {
                State::Kept | State::RestsTcp | State::RestsUdp => Fate::Gone,
                State::TimeWait => Fate::Ended(Counter::Completed),
                State::Udp if context.is_between_messages(end) => Fate::Ended(Counter::Completed),
                State::Udp => Fate::Ended(Counter::Aborted),
                _ => {
                    context.send_reset(end);
                    Fate::Ended(Counter::Aborted)
                }
            });
        }
        false
    }

    /// True for a client whose connections have all been opened and have ended.
    pub fn is_done(&self) -> bool {
        let is_done = |opener: &Opener| {
            let is_limited = opener.limit.is_some() && !opener.is_continuous;
            is_limited && opener.limit <= Some(opener.opened) && opener.active == 0
        };
        self.role == Role::Client && self.openers.iter().all(is_done)
    }
}
