// SPDX-License-Identifier: BSD-3-Clause
//! Answers of one end to single segments of a peer, as RFC 9293 and RFC 5961 want them.

use stateful::{Counter, Output, Profile, Role, Sharing, Stack, StackConfig};
use std::sync::Arc;
use wire::FrameBuilder;
use wire::ethernet::Ethernet;
use wire::ipv4::Ipv4;
use wire::tcp::{ACK, FIN, PSH, RST, SYN, Tcp};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const SERVER_PORT: u16 = 80;
const MS: u64 = 1_000_000;

/// A segment without addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    data: Vec<u8>,
}

#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Output for Sent {
    fn room(&mut self) -> usize {
        100
    }

    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut frame = vec![0; 9234];
        let len = write(&mut frame);
        frame.truncate(len);
        self.0.push(frame);
    }
}

/// One end, and the numbers of the connection as the peer knows them.
struct End {
    stack: Stack,
    role: Role,
    now: u64,
    client_port: u16,
    /// Next number that the peer sends, and the next one that it expects.
    seq: u32,
    ack: u32,
}

impl End {
    fn new(role: Role, [client, server]: [&str; 2]) -> Self {
        let text = format!(
            "clients = \"10.0.0.1\"\nservers = \"10.0.0.2\"\nclient_ports = \"1024-1024\"\n\
             [timeouts]\nretries = 3\n[[template]]\nport = 80\ncps = 1000\nlimit = 2\n\
             client = [{client}]\nserver = [{server}]\n"
        );
        let profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
        let stack = Stack::new(StackConfig {
            profile: Arc::new(profile),
            role,
            capacity: 10,
            macs: [OURS, PEER],
            mtu: 1500,
            sharing: Sharing::default(),
            seed: 1,
            begun_us: 0,
        });
        Self { stack, role, now: MS, client_port: 1024, seq: 5000, ack: 0 }
    }

    /// Returns the segments that an action has sent.
    fn collect(&mut self, act: impl FnOnce(&mut Stack, u64, &mut Sent)) -> Vec<Segment> {
        let mut sent = Sent::default();
        act(&mut self.stack, self.now, &mut sent);
        sent.0.iter().map(|frame| self.read(frame)).collect()
    }

    fn read(&mut self, frame: &[u8]) -> Segment {
        let ip = Ipv4::new(Ethernet::new(frame).unwrap().payload()).unwrap();
        let tcp = Tcp::new(&ip.payload()[..usize::from(ip.total_len()) - 20]).unwrap();
        if self.role == Role::Client {
            self.client_port = tcp.sport();
        }
        Segment {
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            data: tcp.payload().to_vec(),
        }
    }

    /// Lets time pass; returns what was sent meanwhile.
    fn wait(&mut self, ms: u64) -> Vec<Segment> {
        let mut all = Vec::new();
        for _ in 0..ms {
            self.now += MS;
            all.extend(self.collect(|stack, now, out| while stack.expire(now, out) {}));
        }
        all
    }

    /// Returns the frame of a segment of the peer.
    fn frame(&self, segment: &Segment) -> Vec<u8> {
        let Segment { seq, ack, flags, window, ref data } = *segment;
        let frame = match self.role {
            Role::Client => FrameBuilder::ipv4(SERVER, CLIENT).tcp(SERVER_PORT, self.client_port),
            Role::Server => FrameBuilder::ipv4(CLIENT, SERVER).tcp(self.client_port, SERVER_PORT),
        };
        let frame = frame.macs(PEER, OURS).seq(seq).ack(ack).flags(flags).window(window);
        frame.payload(data).build()
    }

    /// Sends a segment of the peer; returns the answers.
    fn hear(&mut self, segment: &Segment) -> Vec<Segment> {
        let frame = self.frame(segment);
        self.collect(|stack, now, out| hear_frame(stack, &frame, now, out))
    }

    /// Sends a segment of the peer while there is no room for an answer.
    fn hear_without_room(&mut self, segment: &Segment) {
        let frame = self.frame(segment);
        hear_frame(&mut self.stack, &frame, self.now, &mut Full);
    }

    /// Returns a segment of the peer at the expected numbers.
    fn next(&self, flags: u8) -> Segment {
        Segment { seq: self.seq, ack: self.ack, flags, window: 65_535, data: Vec::new() }
    }

    /// Opens a connection; returns what the end sends after its handshake.
    fn establish(&mut self) -> Vec<Segment> {
        match self.role {
            Role::Client => {
                self.stack.start(1.0, 0, 0);
                let syn = self.collect(|stack, now, out| _ = stack.open(now, out));
                self.ack = syn[0].seq.wrapping_add(1);
                let mut answer = self.next(SYN | ACK);
                self.seq += 1;
                answer.seq = self.seq - 1;
                self.hear(&answer)
            }
            Role::Server => {
                let syn_ack = self.hear(&self.next(SYN));
                self.seq += 1;
                self.ack = syn_ack[0].seq.wrapping_add(1);
                self.hear(&self.next(ACK))
            }
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.stack.counters()[counter]
    }
}

fn hear_frame(stack: &mut Stack, frame: &[u8], now: u64, out: &mut impl Output) {
    stack.note(0, frame);
    stack.look_up(1);
    stack.process(0, frame, now, out);
}

/// Returns the flags of segments.
fn flags(segments: &[Segment]) -> Vec<u8> {
    segments.iter().map(|it| it.flags).collect()
}

const EXCHANGE: [&str; 2] = ["{send = 20}, {receive = 20}", "{receive = 20}, {send = 20}"];

/// A peer that has the tuple open answers a SYN with an acknowledgement of something else. The RST
/// ends its connection.
#[test]
fn a_client_resets_an_earlier_connection_of_its_tuple() {
    let mut end = End::new(Role::Client, EXCHANGE);
    end.stack.start(1.0, 0, 0);
    let syn = end.collect(|stack, now, out| _ = stack.open(now, out));
    assert_eq!(flags(&syn), [SYN]);
    let odd = Segment { seq: 77, ack: syn[0].seq.wrapping_add(9), ..end.next(ACK) };
    let answer = end.hear(&odd);
    assert_eq!((flags(&answer), answer[0].seq), (vec![RST], odd.ack));
    // The connection opens when the SYN is sent again.
    let again = end.wait(1100);
    assert_eq!((flags(&again), again[0].seq), (vec![SYN], syn[0].seq));
    end.ack = syn[0].seq.wrapping_add(1);
    assert_eq!(flags(&end.hear(&end.next(SYN | ACK))), [ACK | PSH]);
    assert_eq!(end.count(Counter::Established), 1);
}

#[test]
fn a_server_refuses_a_handshake_with_a_wrong_number() {
    let mut end = End::new(Role::Server, EXCHANGE);
    let syn_ack = end.hear(&end.next(SYN));
    end.seq += 1;
    let wrong = Segment { ack: syn_ack[0].seq, data: vec![1; 20], ..end.next(ACK) };
    let answer = end.hear(&wrong);
    assert_eq!((flags(&answer), answer[0].seq), (vec![RST], wrong.ack));
    end.ack = syn_ack[0].seq.wrapping_add(1);
    assert_eq!(end.hear(&end.next(ACK)), []);
    assert_eq!(end.count(Counter::Established), 1);
}

#[test]
fn only_a_reset_at_the_expected_number_counts() {
    let mut end = End::new(Role::Client, EXCHANGE);
    assert_eq!(flags(&end.establish()), [ACK | PSH]);
    let beyond = Segment { seq: end.seq.wrapping_add(70_000), ..end.next(RST) };
    assert_eq!(end.hear(&beyond), []);
    let inside = Segment { seq: end.seq + 5, ..end.next(RST) };
    let challenge = end.hear(&inside);
    assert_eq!((flags(&challenge), challenge[0].ack), (vec![ACK], end.seq));
    assert_eq!(end.count(Counter::Reset), 0);
    assert_eq!(end.hear(&end.next(RST)), []);
    assert_eq!(end.count(Counter::Reset), 1);
}

#[test]
fn a_later_connection_of_a_tuple_begins_behind_the_earlier_one() {
    let mut end = End::new(Role::Client, EXCHANGE);
    end.establish();
    end.hear(&end.next(RST));
    let first = end.ack;
    end.wait(1000);
    let syn = end.collect(|stack, now, out| _ = stack.open(now, out));
    let distance = syn[0].seq.wrapping_sub(first);
    assert!((1 << 20..1 << 30).contains(&distance), "{distance}");
}

/// A peer that answers probes may keep its window closed for as long as it likes.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut end = End::new(Role::Client, EXCHANGE);
    end.stack.start(1.0, 0, 0);
    let syn = end.collect(|stack, now, out| _ = stack.open(now, out));
    end.ack = syn[0].seq.wrapping_add(1);
    let answer = Segment { window: 0, ..end.next(SYN | ACK) };
    assert_eq!(flags(&end.hear(&answer)), [ACK]);
    end.seq += 1;
    for _ in 0..8 {
        let mut probes = end.wait(200);
        while probes.is_empty() {
            probes = end.wait(200);
        }
        assert_eq!((probes.len(), probes[0].data.len(), probes[0].seq), (1, 1, end.ack));
        assert_eq!(end.hear(&Segment { window: 0, ..end.next(ACK) }), []);
    }
    // The window opens: the data begins with the byte of the probes, which the peer has dropped.
    let data = end.hear(&end.next(ACK));
    assert_eq!((data.len(), data[0].data.len(), data[0].seq), (1, 20, end.ack));
    assert_eq!(end.count(Counter::Timeout), 0);
    // A peer that does not answer is given up.
    end.wait(60_000);
    assert_eq!(end.count(Counter::Timeout), 1);
}

#[test]
fn a_probe_that_the_peer_takes_counts() {
    let mut end = End::new(Role::Client, EXCHANGE);
    end.stack.start(1.0, 0, 0);
    let syn = end.collect(|stack, now, out| _ = stack.open(now, out));
    end.ack = syn[0].seq.wrapping_add(1);
    end.hear(&Segment { window: 0, ..end.next(SYN | ACK) });
    end.seq += 1;
    assert_eq!(end.wait(1500)[0].data.len(), 1);
    end.ack += 1;
    let data = end.hear(&end.next(ACK));
    assert_eq!((data.len(), data[0].data.len(), data[0].seq), (1, 19, end.ack));
}

/// While the program waits, the window closes; the peer learns at once that it is open again.
#[test]
fn a_window_that_opens_is_announced() {
    let slow = ["{send = 60000}", "{delay_ms = 100}, {receive = 60000}"];
    let mut end = End::new(Role::Server, slow);
    end.establish();
    // Other bytes than the client's are refused, so a generator makes them.
    let mut client = End::new(Role::Client, slow);
    let mut data = client.establish();
    let mut windows = Vec::new();
    while end.seq.wrapping_sub(5001) < 60_000 {
        for segment in std::mem::take(&mut data) {
            client.ack = segment.seq.wrapping_add(segment.data.len() as u32);
            let ours = Segment { data: segment.data, ..end.next(ACK) };
            end.seq += ours.data.len() as u32;
            windows.extend(end.hear(&ours).iter().map(|it| it.window));
        }
        data = client.hear(&client.next(ACK));
    }
    let last = *windows.last().unwrap();
    assert!(last < 10_000 && windows.is_sorted_by(|a, b| a > b), "{windows:?}");
    let later = end.wait(101);
    let update = later.iter().find(|it| it.window == 65_535).expect("an update");
    assert_eq!((update.ack, update.data.len()), (end.seq, 0));
}

/// The acknowledgement of data does not wait for the retransmission of other data.
#[test]
fn data_is_acknowledged_while_other_data_is_on_its_way() {
    let both = ["{send = 20}, {receive = 20}", "{send = 20}, {receive = 20}"];
    let mut client = End::new(Role::Client, both);
    let sent = client.establish();
    let mut end = End::new(Role::Server, both);
    assert_eq!(flags(&end.establish()), [ACK | PSH]);
    let data = Segment { data: sent[0].data.clone(), ..end.next(ACK | PSH) };
    let answer = end.hear(&data);
    assert_eq!((flags(&answer), answer[0].ack), (vec![ACK], end.seq + 20));
}

#[test]
fn a_reset_of_the_program_follows_its_data() {
    let mut end = End::new(Role::Client, ["{send = 20}, \"reset\"", "{receive = 20}"]);
    assert_eq!(flags(&end.establish()), [ACK | PSH]);
    assert_eq!(end.count(Counter::ResetsSent), 0);
    end.ack += 20;
    let reset = end.hear(&end.next(ACK));
    assert_eq!((flags(&reset), reset[0].seq), (vec![RST | ACK], end.ack));
    assert_eq!(end.count(Counter::Completed), 1);
}

#[test]
fn keepalives_are_answered_and_their_byte_is_ignored() {
    let mut end = End::new(Role::Client, EXCHANGE);
    end.establish();
    end.ack += 20;
    end.hear(&end.next(ACK));
    for data in [vec![], vec![0xee]] {
        let keepalive = Segment { seq: end.seq - 1, data, ..end.next(ACK) };
        let answer = end.hear(&keepalive);
        assert_eq!((flags(&answer), answer[0].ack), (vec![ACK], end.seq));
    }
    assert_eq!(end.count(Counter::WrongData), 0);
}

/// An end that has forgotten its connection acknowledges a FIN, also one with data.
#[test]
fn a_late_fin_is_acknowledged() {
    for data in [0, 20] {
        let mut end = End::new(Role::Server, EXCHANGE);
        let late = Segment { ack: 99, data: vec![0; data], ..end.next(FIN | ACK) };
        let answer = end.hear(&late);
        assert_eq!(flags(&answer), [ACK]);
        assert_eq!((answer[0].seq, answer[0].ack), (99, end.seq + data as u32 + 1));
    }
}

/// Both ends have sent their FIN, and the peer forgets the connection before our FIN is
/// acknowledged: all data was exchanged, so the connection has not failed.
#[test]
fn a_reset_after_both_fins_is_no_failure() {
    let mut end = End::new(Role::Client, ["{ delay_ms = 50 }", "{ delay_ms = 1 }"]);
    end.establish();
    assert_eq!(flags(&end.wait(60)), [FIN | ACK]);
    end.hear(&end.next(FIN | ACK));
    end.seq = end.seq.wrapping_add(1);
    end.hear(&end.next(RST | ACK));
    assert_eq!((end.count(Counter::Completed), end.count(Counter::Reset)), (1, 0));
}

/// A port without room.
struct Full;

impl Output for Full {
    fn room(&mut self) -> usize {
        0
    }

    fn push(&mut self, _: impl FnOnce(&mut [u8]) -> usize) {
        unreachable!("there is no room");
    }
}

/// The last acknowledgement waits for room, or a later one has none: the connection counts once.
#[test]
fn a_closed_connection_without_room_for_acknowledgements_counts_once() {
    for is_cut_off in [false, true] {
        let mut end = End::new(Role::Client, ["{ delay_ms = 50 }", "{ delay_ms = 1 }"]);
        end.establish();
        assert_eq!(flags(&end.wait(60)), [FIN | ACK]);
        end.ack = end.ack.wrapping_add(1);
        assert_eq!(end.hear(&end.next(ACK)), []);
        let fin = end.next(FIN | ACK);
        end.hear_without_room(&fin);
        assert_eq!(end.count(Counter::Completed), 0);
        if !is_cut_off {
            assert_eq!(flags(&end.wait(2)), [ACK]);
            assert_eq!(end.count(Counter::Completed), 1);
            end.hear_without_room(&fin);
            assert_eq!((end.wait(2), end.stack.records()), (Vec::new(), 1));
            assert_eq!(flags(&end.hear(&fin)), [ACK]);
        }
        assert_eq!(end.collect(|stack, now, out| while stack.abort(9, now, out) {}), []);
        let counters = end.stack.counters();
        assert_eq!((counters[Counter::Completed], counters[Counter::Aborted]), (1, 0));
        assert_eq!((counters.active(), end.stack.records()), (0, 0));
    }
}

#[test]
fn connections_that_wait_for_room_are_counted() {
    let mut end = End::new(Role::Client, ["{ send = 1 }", "{ receive = 1 }"]);
    end.stack.start(1.0, 0, 0);
    assert!(!end.stack.open(5 * MS, &mut Full));
    let counters = end.stack.counters();
    assert_eq!((counters[Counter::HeldBack], counters[Counter::Attempted]), (1, 0));
    end.stack.open(5 * MS, &mut Sent::default());
    let counters = end.stack.counters();
    // The profile has two in all, for one address and port: the second has no tuple.
    assert_eq!((counters[Counter::HeldBack], counters[Counter::Attempted]), (1, 1));
}

/// Its record is free, and must not be taken for one that is held.
#[test]
fn a_held_connection_that_is_reset_is_not_released() {
    let mut end = End::new(Role::Client, ["\"hold\"", "\"wait_for_close\""]);
    end.establish();
    assert_eq!(end.hear(&end.next(RST)), []);
    assert_eq!(end.count(Counter::Reset), 1);
    let now = end.now;
    end.stack.set_multiplier(0.0, now);
    assert_eq!(end.collect(|stack, now, out| _ = stack.open(now, out)), []);
    assert_eq!(end.wait(31_000), []);
    let counters = end.stack.counters();
    assert_eq!((counters.failures(), counters.active()), (1, 0));
}

/// Neither the end that delays nor the one that waits for it gives up.
#[test]
fn delays_may_be_longer_than_the_time_to_wait_for_data() {
    let ends = ["{ delay_ms = 40000 }, { send = 1 }", "{ receive = 1 }"];
    for role in [Role::Client, Role::Server] {
        let mut end = End::new(role, ends);
        end.establish();
        assert_eq!(end.wait(39_000), []);
        assert_eq!(end.count(Counter::Timeout), 0);
        assert_eq!(end.wait(1500).is_empty(), role == Role::Server);
    }
}

#[test]
fn a_program_without_end_does_not_hold_others_up() {
    let rounds =
        "{ repeat = 65535, do = [{ repeat = 65535, do = [{ delay_us = 0 }] }] }, { send = 1 }";
    let mut end = End::new(Role::Client, [rounds, "{ receive = 1 }"]);
    assert_eq!(flags(&end.establish()), [ACK]);
    end.wait(100);
    assert_eq!((end.count(Counter::Established), end.count(Counter::Completed)), (1, 0));
}

/// A server knows only peers that begin connections: others are answered, and forgotten.
#[test]
fn a_segment_of_an_unknown_peer_is_refused() {
    let mut end = End::new(Role::Server, EXCHANGE);
    let frame = FrameBuilder::ipv4([10, 0, 0, 99], SERVER).tcp(7, SERVER_PORT).macs(PEER, OURS);
    let frame = frame.seq(1).ack(2).flags(ACK).window(9).build();
    let answers = end.collect(|stack, now, out| {
        stack.note(0, &frame);
        stack.look_up(1);
        assert_eq!(stack.process(0, &frame, now, out), None);
    });
    assert_eq!((flags(&answers), end.count(Counter::Stray)), (vec![RST], 1));
}

/// The program of a client ends by a reset: a server that has done its part has not failed, one
/// that still waits for data has.
#[test]
fn a_reset_that_the_program_has_is_no_failure() {
    for (is_whole, completed, reset) in [(true, 1, 0), (false, 0, 1)] {
        for own_end in ["", ", \"wait_for_close\"", ", \"reset\""] {
            let server = format!("{{ receive = 5 }}, {{ delay_ms = 1 }}{own_end}");
            let mut end = End::new(Role::Server, ["{ send = \"hello\" }, \"reset\"", &server]);
            end.establish();
            if is_whole {
                let request = Segment { data: b"hello".to_vec(), ..end.next(ACK | PSH) };
                end.hear(&request);
                end.seq += 5;
            }
            end.hear(&end.next(RST | ACK));
            let counts = (end.count(Counter::Completed), end.count(Counter::Reset));
            assert_eq!(counts, (completed, reset), "{own_end}");
        }
    }
}

/// A device that resets connections before their end is not taken for the client.
#[test]
fn a_reset_before_the_end_of_the_program_is_a_failure() {
    let rounds = "{ repeat = 3, do = [{ receive = 5 }, { send = 5 }, { delay_ms = 50 }] }";
    let client = "{ repeat = 3, do = [{ send = \"hello\" }, { receive = 5 }] }, \"reset\"";
    let once = "{ receive = 5 }, { send = 5 }, \"wait_for_close\"";
    let client_once = "{ send = \"hello\" }, { receive = 5 }, \"reset\"";
    for (programs, acknowledged, completed) in
        [([client, rounds], 5, 0), ([client_once, once], 5, 1), ([client_once, once], 4, 0)]
    {
        let mut end = End::new(Role::Server, programs);
        end.establish();
        let request = Segment { data: b"hello".to_vec(), ..end.next(ACK | PSH) };
        assert_eq!(end.hear(&request).last().unwrap().data.len(), 5);
        end.seq += 5;
        end.ack = end.ack.wrapping_add(acknowledged);
        end.hear(&end.next(RST | ACK));
        let counts = (end.count(Counter::Completed), end.count(Counter::Reset));
        assert_eq!(counts, (completed, 1 - completed), "{programs:?}, {acknowledged}");
    }
}

/// What is noted of a frame does not stay for the next one at its place in a burst.
#[test]
fn a_foreign_frame_is_not_answered_as_the_one_before_it() {
    let mut end = End::new(Role::Server, EXCHANGE);
    let frame = FrameBuilder::ipv4([10, 0, 0, 99], SERVER).tcp(7, SERVER_PORT).macs(PEER, OURS);
    let frame = frame.seq(1).ack(2).flags(ACK).window(9).build();
    assert_eq!(end.collect(|stack, now, out| hear_frame(stack, &frame, now, out)).len(), 1);
    let mut damaged = frame.clone();
    damaged[Ethernet::LEN + 24] ^= 1;
    assert_eq!(end.collect(|stack, now, out| hear_frame(stack, &damaged, now, out)), []);
    assert_eq!(end.count(Counter::BadChecksums), 1);
}
