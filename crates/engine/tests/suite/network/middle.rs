// SPDX-License-Identifier: BSD-3-Clause
//! The box between the hosts: an engine that drops what is invalid, and an account of its own of
//! all that passes.

use super::link::Link;
use engine::{
    Anomaly, Config, Cursor, EndReason, Engine, FlowRecord, InvalidPackets, Stats, TcpWindowCheck,
    Timeouts, Verdict, ZonePolicies,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::tcp::{ACK, FIN, RST, SYN};
use wire::{BytesPacket, FrameBuilder, ethernet::ether_type};

/// IPv6, port of the client, port of the server.
pub(crate) type Tuple = (bool, u16, u16);

/// What has passed of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Of client and server.
    packets: [u64; 2],
    bytes: [u64; 2],
    /// Flags of packets that were not irregular.
    flags: [u8; 2],
    /// Who sent the first packet.
    first: usize,
    /// First numbers of both sides, if they were seen.
    asked: [Option<u32>; 2],
    /// Whether all that was sent is acknowledged.
    is_acked: bool,
}

impl Account {
    /// Whether a packet of this side that is not irregular is the first of another connection: a
    /// SYN that is not that of this one, or after its end. Nobody can tell a late copy of the own
    /// one from that of a host that has forgotten it all.
    fn is_left_by(&self, side: usize, header: &Header) -> bool {
        let is_over = self.has(RST) != [false; 2] || self.has(FIN) == [true; 2] && self.is_acked;
        header.opens() && (is_over || self.asked[side].is_some_and(|asked| asked != header.seq))
    }

    /// True if a packet of this side answers a SYN that was an anomaly: both hosts have forgotten
    /// the connection.
    fn is_forgotten_by(&self, side: usize, header: &Header) -> bool {
        let is_other = self.asked[side].is_some_and(|asked| asked != header.seq);
        header.flags & (SYN | ACK) == SYN | ACK && is_other
    }

    fn has(&self, flag: u8) -> [bool; 2] {
        self.flags.map(|flags| flags & flag != 0)
    }
}

/// Numbers of the connection that a tuple has now, of both sides.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Those that it began with.
    first: [Option<u32>; 2],
    /// Behind all that was sent, and the highest acknowledgments.
    ends: [Option<u32>; 2],
    acks: [Option<u32>; 2],
    /// An RST has passed that was not what its receiver waited for.
    is_in_doubt: bool,
    /// The engine took a SYN of it for none of its own: it was of the responder of the connection
    /// before, whose end was not seen, or an ACK of smoltcp has overtaken its SYN+ACK, which in
    /// SYN-RECEIVED has the number of the SYN, not the one behind it.
    is_stuck: bool,
}

/// The engine and what it is held against.
pub(crate) struct Middle {
    engine: Option<Engine>,
    numbers: BTreeMap<Tuple, Numbers>,
    /// Connections of each tuple, one after the other, since the engine was started.
    pub(crate) accounts: BTreeMap<Tuple, Vec<Account>>,
    records: Vec<FlowRecord>,
    pub(crate) irregular: [u64; Anomaly::ALL.len()],
    /// Invalid packets: of connections that had the ports before, and RSTs that come late.
    pub(crate) foreign: u64,
    /// Of an engine that began late: acknowledgments of what passed before.
    pub(crate) unseen: u64,
    /// It was restarted, or did not judge before.
    begins_late: bool,
    /// Connections some of whose packets were invalid because that before was not over.
    pub(crate) stuck: BTreeSet<(Tuple, [Option<u32>; 2])>,
    pub(crate) packets: u64,
}

const SECOND: u64 = 1_000_000_000;

fn config() -> Config {
    let timeouts = Timeouts {
        tcp_syn_sent: 300 * SECOND,
        tcp_syn_recv: 300 * SECOND,
        tcp_established: 3600 * SECOND,
        tcp_fin_wait: 3600 * SECOND,
        tcp_time_wait: 120 * SECOND,
        tcp_close: 120 * SECOND,
        ..Timeouts::default()
    };
    let (capacity_ipv4, capacity_ipv6) = (256, 256);
    let invalid = InvalidPackets::Drop;
    Config { capacity_ipv4, capacity_ipv6, timeouts, invalid, ..Config::default() }
}

#[derive(Debug)]
/// A TCP segment as far as the account needs it.
struct Header {
    tuple: Tuple,
    seq: u32,
    ack: u32,
    flags: u8,
    /// Data, SYN and FIN.
    len: u32,
}

fn header(side: usize, packet: &[u8]) -> Header {
    let is_v6 = packet[0] >> 4 == 6;
    let tcp = &packet[if is_v6 { 40 } else { 20 }..];
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let (client, server) = if side == 0 { (port(0), port(2)) } else { (port(2), port(0)) };
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let marks = u32::from(tcp[13] & FIN) + u32::from(tcp[13] & SYN) / 2;
    let len = (tcp.len() - usize::from(tcp[12] >> 4) * 4) as u32 + marks;
    Header { tuple: (is_v6, client, server), seq: word(4), ack: word(8), flags: tcp[13], len }
}

impl Header {
    fn opens(&self) -> bool {
        self.flags & (SYN | ACK | FIN | RST) == SYN
    }
}

fn is_behind(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}

impl Numbers {
    /// Whether a packet of this side is the first of another connection.
    fn are_left_by(&self, side: usize, header: &Header) -> bool {
        header.opens() && self.first[side].is_some_and(|first| first != header.seq)
    }

    fn follow(&mut self, side: usize, header: &Header) {
        let Header { seq, ack, flags, len, .. } = *header;
        let raise = |most: &mut Option<u32>, number: u32| {
            if most.is_none_or(|most| is_behind(most, number)) {
                *most = Some(number);
            }
        };
        if flags & RST != 0 {
            let is_exact = [self.ends[side], self.acks[1 - side]].contains(&Some(seq));
            self.is_in_doubt |= self.has(side, header) && !is_exact;
        } else if self.has(side, header) {
            raise(&mut self.ends[side], seq.wrapping_add(len));
            if flags & ACK != 0 {
                raise(&mut self.acks[side], ack);
            }
        }
        if flags & SYN != 0 {
            self.first[side] = Some(seq);
        }
    }

    fn are_all_acked(&self) -> bool {
        self.acks == [self.ends[1], self.ends[0]]
    }

    /// Whether a packet has numbers near to those that the connection began with, as far as these
    /// are known. If not, it is of another one, which had the ports before.
    fn has(&self, side: usize, header: &Header) -> bool {
        let is_near = |first: Option<u32>, number: u32| {
            first.is_none_or(|first| number.wrapping_sub(first).wrapping_add(2) < 1 << 20)
        };
        let is_acked = header.flags & ACK == 0 || is_near(self.first[1 - side], header.ack);
        is_near(self.first[side], header.seq) && is_acked
    }

    /// Whether it is an RST in answer to something that came late: there is nobody who takes it
    /// (RFC 9293 section 3.10.7.4).
    fn is_late_reset(&self, side: usize, header: &Header) -> bool {
        let is_unknown = self.first[side].is_none();
        let is_late = self.acks[1 - side].is_some_and(|acked| is_behind(header.seq, acked));
        header.flags & RST != 0 && (is_unknown || is_late)
    }
}

impl Middle {
    /// With an engine, or a piece of wire.
    pub(crate) fn new(has_engine: bool) -> Self {
        Self {
            engine: has_engine.then(|| Engine::new(&config())),
            numbers: BTreeMap::new(),
            accounts: BTreeMap::new(),
            records: vec![],
            irregular: [0; Anomaly::ALL.len()],
            foreign: 0,
            unseen: 0,
            begins_late: false,
            stuck: BTreeSet::new(),
            packets: 0,
        }
    }

    /// An engine that does not judge by numbers, until somebody says so.
    pub(crate) fn liberal() -> Self {
        let config = Config { tcp: TcpWindowCheck::Liberal, ..config() };
        Self { engine: Some(Engine::new(&config)), ..Self::new(false) }
    }

    /// From now on it does.
    pub(crate) fn judge(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        engine.set_zones(Arc::new(ZonePolicies::new(&config())));
        let (mut cursor, mut retimed) = (Cursor::default(), 0);
        while engine.review(&mut cursor, 16, &mut retimed) {}
        self.begins_late = true;
    }

    /// Whether an IP packet from this side goes on.
    pub(crate) fn pass(&mut self, micros: u64, side: usize, packet: &[u8]) -> bool {
        let header = header(side, packet);
        let numbers = self.numbers.entry(header.tuple).or_default();
        if numbers.are_left_by(side, &header) {
            *numbers = Numbers::default();
        }
        let before = *numbers;
        numbers.follow(side, &header);
        let Some(engine) = &mut self.engine else { return true };
        let kind = if header.tuple.0 { ether_type::IPV6 } else { ether_type::IPV4 };
        let frame = FrameBuilder::ethernet(kind).payload(packet).build();
        let irregular_before = engine.stats().anomalies;
        let mut verdict = [Verdict::Drop];
        engine.process(micros * 1000, &[BytesPacket::new(&frame)], &mut verdict);
        while engine.expire(micros * 1000, 64) > 0 {}
        self.records.extend(std::iter::from_fn(|| engine.next_record()));
        let irregular = Anomaly::ALL.into_iter().find(|reason| {
            engine.stats().anomalies[*reason as usize] != irregular_before[*reason as usize]
        });
        self.packets += 1;
        let numbers = self.numbers.entry(header.tuple).or_default();
        let is_syn = matches!(irregular, Some(Anomaly::TcpSyn | Anomaly::TcpSynOfOther));
        numbers.is_stuck |= is_syn;
        let is_beyond = irregular == Some(Anomaly::TcpAckBeyond);
        if is_beyond && self.begins_late {
            // What it acknowledges passed before, and came late.
            self.unseen += 1;
        } else if irregular.is_some_and(Anomaly::is_invalid) && numbers.is_stuck {
            self.stuck.insert((header.tuple, numbers.first));
        } else if irregular.is_some_and(Anomaly::is_invalid) {
            let is_foreign = !before.has(side, &header) || before.is_late_reset(side, &header);
            assert!(is_foreign, "{irregular:?} {header:?} {before:?}");
            self.foreign += 1;
        }
        let frame_len = frame.len() as u64;
        let is_passed = verdict[0] == Verdict::Forward;
        if is_passed {
            self.write_down(side, &header, frame_len, irregular);
        }
        is_passed
    }

    fn write_down(&mut self, side: usize, header: &Header, bytes: u64, irregular: Option<Anomaly>) {
        let numbers = self.numbers[&header.tuple];
        let accounts = self.accounts.entry(header.tuple).or_default();
        let is_sound = irregular.is_none();
        if accounts.last().is_some_and(|last| is_sound && last.is_forgotten_by(side, header)) {
            accounts.push(Account { first: 1 - side, ..Account::default() });
        }
        if accounts.last().is_none_or(|last| is_sound && last.is_left_by(side, header)) {
            accounts.push(Account { first: side, ..Account::default() });
        }
        let account = accounts.last_mut().expect("there is one now");
        account.packets[side] += 1;
        account.bytes[side] += bytes;
        match irregular {
            None => {
                account.flags[side] |= header.flags;
                account.is_acked |= account.has(FIN) == [true; 2] && numbers.are_all_acked();
                if header.flags & SYN != 0 {
                    account.asked[side] = Some(header.seq);
                }
            }
            Some(reason) => self.irregular[reason as usize] += 1,
        }
    }

    /// Whether the hosts may know of an end that a box cannot believe.
    pub(crate) fn is_in_doubt(&self, tuple: Tuple) -> bool {
        self.numbers.get(&tuple).is_some_and(|numbers| numbers.is_in_doubt)
    }

    /// Another engine takes the place of this one, and knows nothing.
    pub(crate) fn restart(&mut self) {
        self.close(u64::MAX / 2000);
        self.engine = Some(Engine::new(&config()));
        self.begins_late = true;
        self.accounts.clear();
        self.records.clear();
    }

    /// Ends all that is left and holds the records against the account. Connections that a restart
    /// ends, at a time beyond all others, have no reason of their own.
    pub(crate) fn close(&mut self, micros: u64) -> Option<Stats> {
        let engine = self.engine.as_mut()?;
        let is_restart = micros == u64::MAX / 2000;
        if !is_restart {
            while engine.expire(micros * 1000, 64) > 0 {
                self.records.extend(std::iter::from_fn(|| engine.next_record()));
            }
        }
        while engine.flush(64) {}
        self.records.extend(std::iter::from_fn(|| engine.next_record()));
        let stats = engine.stats().clone();
        self.records.sort_by_key(|record| (record.start, record.end));
        let mut records = BTreeMap::<Tuple, Vec<&FlowRecord>>::new();
        for record in &self.records {
            let is_client = sent_by(record) == 0;
            let (client, server) = match is_client {
                true => (record.sport, record.dport),
                false => (record.dport, record.sport),
            };
            records.entry((record.src.is_ipv6(), client, server)).or_default().push(record);
        }
        assert_eq!(records.len(), self.accounts.len());
        for (tuple, accounts) in &self.accounts {
            let records = &records[tuple];
            assert_eq!(records.len(), accounts.len(), "{tuple:?}: {records:#?} {accounts:#?}");
            for (i, (record, account)) in records.iter().zip(accounts).enumerate() {
                check(record, account, is_restart, i + 1 < accounts.len());
            }
        }
        Some(stats)
    }
}

/// Which host is the originator.
fn sent_by(record: &FlowRecord) -> usize {
    let last = match record.src {
        std::net::IpAddr::V4(address) => address.octets()[3],
        std::net::IpAddr::V6(address) => address.octets()[15],
    };
    usize::from(last) - 1
}

fn check(record: &FlowRecord, account: &Account, is_restart: bool, has_successor: bool) {
    let context = || format!("{record:#?} {account:#?}");
    assert_eq!(sent_by(record), account.first, "{}", context());
    for (tally, side) in [(record.orig, account.first), (record.reply, 1 - account.first)] {
        let passed = (account.packets[side], account.bytes[side], account.flags[side]);
        assert_eq!((tally.packets, tally.bytes, tally.tcp_flags), passed, "{}", context());
    }
    if is_restart {
        return;
    }
    let end = match () {
        () if account.has(FIN) == [true; 2] => EndReason::Fin,
        () if account.has(RST) != [false; 2] => EndReason::Rst,
        () => EndReason::Idle,
    };
    let is_end = record.end_reason == end;
    let is_reuse = has_successor && record.end_reason == EndReason::Reuse;
    assert!(is_end || is_reuse, "{}", context());
    let is_closing = record.state == engine::FlowState::Closing;
    assert_eq!(is_closing, end != EndReason::Idle, "{}", context());
}

/// From a host to the box and from there to the other host.
pub(crate) struct Way {
    pub(crate) legs: [Link; 2],
}
