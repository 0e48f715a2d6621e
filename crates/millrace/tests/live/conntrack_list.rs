// SPDX-License-Identifier: BSD-3-Clause
//! Compares `millrace ct list` with `conntrack -L -o extended`, line by line: the same packets pass
//! a running instance and the kernel's connection tracking. Then both flush their connections, and
//! the events of their ends are compared as well.

use crate::bump::Setup;
use crate::conntrack::{Router, TOOLS, Word};
use crate::instance;
use crate::new_scratch;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use testkit::capture::write_pcap;
use testkit::host::has_root_and;
use testkit::process::{Process, run, wait_until};
use testkit::scratch::Scratch;
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

/// A TCP segment: the end that sends it, flags, sequence number, acknowledgment, bytes of data.
type Segment = (usize, u8, u32, u32, usize);

/// Packets of one connection: the end that sends each, and the packet.
type Story = Vec<(usize, FrameBuilder)>;

/// Returns packets of both ends of story `number`, without content. Their addresses are IPv4 or
/// IPv6 addresses that the router knows.
fn ends(is_v6: bool, number: u16) -> [FrameBuilder; 2] {
    let [high, low] = number.to_be_bytes();
    let address = |end: u16| -> IpAddr {
        match is_v6 {
            true => [0xfd00, end, 0, 0, 0, 0, 0, number].into(),
            false => [10, end as u8, high, low].into(),
        }
    };
    [0, 1].map(|from| FrameBuilder::ip(address(from), address(1 - from)))
}

/// Returns a TCP connection of these segments.
fn tcp([a, b]: [FrameBuilder; 2], segments: &[Segment]) -> Story {
    let ends = [a.tcp(40_000, 443), b.tcp(443, 40_000)];
    let segment = |&(from, flags, seq, ack, data): &Segment| {
        let segment = ends[from].clone().flags(flags).seq(seq).ack(ack).window(1000);
        (from, segment.payload(vec![0; data]))
    };
    segments.iter().map(segment).collect()
}

/// Beginnings of TCP connections, each of which ends in another state.
fn tcp_stories() -> Vec<Vec<Segment>> {
    let open = [(0, SYN, 100, 0, 0), (1, SYN | ACK, 500, 101, 0), (0, ACK, 101, 501, 0)];
    let data = [(0, PSH | ACK, 101, 501, 90), (1, PSH | ACK, 501, 191, 700)];
    let fin = [(0, FIN | ACK, 191, 1201, 0), (1, ACK, 1201, 192, 0)];
    let other_fin = [(1, FIN | ACK, 1201, 192, 0), (0, ACK, 192, 1202, 0)];
    vec![
        open[..1].to_vec(),
        open[..2].to_vec(),
        open.to_vec(),
        [&open[..], &data].concat(),
        [&open[..], &data, &fin[..1]].concat(),
        [&open[..], &data, &fin].concat(),
        [&open[..], &data, &fin, &other_fin[..1]].concat(),
        [&open[..], &data, &fin, &other_fin].concat(),
        [&open[..], &data, &[(1, RST | ACK, 1201, 191, 0)]].concat(),
        // The beginning was not seen.
        data[..1].to_vec(),
    ]
}

fn udp([a, b]: [FrameBuilder; 2], senders: &[usize]) -> Story {
    let ends = [a.udp(5000, 53), b.udp(53, 5000)];
    let packet = |&from: &usize| (from, ends[from].clone().payload([7; 33]));
    senders.iter().map(packet).collect()
}

/// Chunks of an SCTP association: sender, type, verification tag, initiate tag (of INIT and INIT
/// ACK).
fn sctp([a, b]: [FrameBuilder; 2], chunks: &[(usize, u8, u32, u32)]) -> Story {
    let ends = [a.sctp(3000, 3001), b.sctp(3001, 3000)];
    let packet = |&(from, kind, tag, initiate): &(usize, u8, u32, u32)| {
        let packet = ends[from].clone().verification_tag(tag);
        let packet = match kind {
            1 | 2 => packet.init_chunk(kind, initiate),
            _ => packet.chunk(kind, 0, &[0; 12]),
        };
        (from, packet)
    };
    chunks.iter().map(packet).collect()
}

fn stories() -> Vec<Story> {
    let mut stories = Vec::new();
    let mut number = 0;
    let mut next = |is_v6| {
        number += 1;
        ends(is_v6, number)
    };
    for is_v6 in [false, true] {
        let (request, reply) = if is_v6 { (128, 129) } else { (8, 0) };
        stories.extend(tcp_stories().iter().map(|segments| tcp(next(is_v6), segments)));
        for senders in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 0, 1]] {
            stories.push(udp(next(is_v6), senders));
        }
        let init = [(0, 1, 0, 7), (1, 2, 7, 8)];
        let cookie = [(0, 10, 8, 0), (1, 11, 7, 0)];
        let down = [(0, 7, 8, 0), (1, 8, 7, 0)];
        for chunks in [
            &init[..1],
            &init,
            &[&init[..], &cookie[..1]].concat(),
            &[&init[..], &cookie].concat(),
            &[&init[..], &cookie, &[(0, 0, 8, 0), (1, 3, 7, 0)]].concat(),
            &[&init[..], &cookie, &down[..1]].concat(),
            &[&init[..], &cookie, &down].concat(),
        ] {
            stories.push(sctp(next(is_v6), chunks));
        }
        for answers in [0, 1] {
            let echo =
                |kind, from: FrameBuilder| from.icmp(kind, 0, [0, 77, 0, 1]).payload([1; 56]);
            let [a, b] = next(is_v6);
            let both = [(0, echo(request, a)), (1, echo(reply, b))];
            stories.push(both.into_iter().take(1 + answers).collect());
        }
    }
    let [a, b] = next(false);
    let stamp = |kind, from: FrameBuilder| from.icmp(kind, 0, [0, 9, 0, 1]).payload([0; 12]);
    stories.push(vec![(0, stamp(13, a)), (1, stamp(14, b))]);
    stories
}

/// A SYN that meets an older connection at the server, and its challenge ACK (RFC 5961 section 4).
/// Then also the RST of the client, which knows no such connection.
fn challenged() -> [Story; 2] {
    let segments = [(0, SYN, 100, 0, 0), (1, ACK, 9000, 77, 0), (0, RST, 77, 0, 0)];
    [2, 3].map(|count| tcp(ends(false, 990 + count as u16), &segments[..count]))
}

/// Returns messages of neighbour discovery and multicast listener discovery, which a router does
/// not forward. Linux tracks none of them.
fn neighbour_discovery() -> Vec<FrameBuilder> {
    let [a, _] = ends(true, 999);
    let message = |kind| a.clone().icmp(kind, 0, [0; 4]).payload([0; 16]);
    [130, 131, 132, 133, 134, 135, 136, 143].map(message).to_vec()
}

/// Splits the events of ends into lines of a list: without what only one of both prints there.
/// Linux prints the timeout, and which process has deleted the connection; Millrace has the reason
/// of the end.
fn of_events(text: &str) -> String {
    let line = |event: &str| {
        let mut words: Vec<_> = event.split_whitespace().skip(1).collect();
        if words[4].parse::<u64>().is_err() {
            words.insert(4, "0");
        }
        let only = ["mark=", "use=", "end=", "[USERSPACE]", "portid=", "progname="];
        words.retain(|word| !only.iter().any(|start| word.starts_with(start)));
        words.join(" ") + "\n"
    };
    text.lines().filter(|line| line.starts_with("[DESTROY]")).map(line).collect()
}

/// Splits the list into lines, and replaces what is known to differ. Timeouts are those of other
/// settings and of another time. Linux has no assured UDP before 2 seconds, and no assured SCTP
/// before the COOKIE ACK; it says `CLOSED` of an association whose INIT has no
/// answer, and `ESTABLISHED` of TCP whose beginning it has not seen.
fn comparable(text: &str) -> Vec<String> {
    let comparable = |line: &str| {
        let mut words: Vec<_> = line.split_whitespace().collect();
        words[4] = "TIMEOUT";
        let (proto, state) = (words[2], words[5]);
        if proto == "udp" || state == "COOKIE_ECHOED" {
            words.retain(|word| *word != "[ASSURED]");
        }
        if state == "PICKED_UP" {
            words[5] = "ESTABLISHED";
        }
        if state == "COOKIE_WAIT" && words.contains(&"[UNREPLIED]") {
            words[5] = "CLOSED";
        }
        words.join(" ")
    };
    let mut lines: Vec<_> = text.lines().map(comparable).collect();
    lines.sort();
    lines
}

/// Prints events until it is told to end.
struct Events {
    process: Process,
    lines: Receiver<String>,
    text: String,
}

impl Events {
    fn start(command: &mut Command) -> Self {
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let output = BufReader::new(process.child().stdout.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|it| to.send(it))
        });
        Self { process, lines, text: String::new() }
    }

    /// Takes what was printed. True if these are events of so many ends.
    fn has_told(&mut self, ends: usize) -> bool {
        for line in self.lines.try_iter() {
            self.text += &(line + "\n");
        }
        self.text.matches("[DESTROY]").count() >= ends
    }

    fn end(mut self) -> String {
        self.process.signal("INT");
        self.process.wait();
        self.has_told(0);
        self.text
    }
}

/// Returns what `ct list` prints of these packets, and the events when these connections are
/// flushed.
fn told_by_millrace(frames: &[Vec<u8>], connections: usize) -> [String; 2] {
    let setup = Setup::in_scratch(Scratch::new(std::env::temp_dir(), "ctl"));
    let [capture, socket] = ["in", "s"].map(|name| setup.path(name));
    write_pcap(&capture, frames);
    let a = format!("net_pcap0,rx_pcap={capture}");
    let setup = setup.pair(&a, "net_null0,no-rx=1").args(&["--socket", &socket]);
    let bump = setup.start();
    let all = || instance::json(&socket, &["stats"])["ledger"]["rx"] == frames.len();
    wait_until("all packets", all);
    let listed = instance::text(&socket, &["ct", "-L", "-o", "extended"]);
    let count = instance::text(&socket, &["ct", "-C"]);
    assert_eq!(count.trim(), connections.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let mut events = Events::start(command.args(["ct", "events", "--instance", &socket]));
    wait_until("changes are told", || {
        instance::text(&socket, &["ct", "set", "--all", "--to-mark", "1"]);
        instance::text(&socket, &["ct", "set", "--all", "--to-mark", "0"]);
        events.has_told(0);
        !events.text.is_empty()
    });
    instance::text(&socket, &["ct", "flush", "--all"]);
    wait_until("all ends are told", || events.has_told(connections));
    let events = events.end();
    bump.finish().assert_balanced();
    [listed, events]
}

/// Listens to the kernel's events. It has none for connections that began before.
fn events_of_the_kernel(router: &Router) -> Events {
    let events = Events::start(router.conntrack().args(["-E", "-e", "DESTROY", "-o", "extended"]));
    router.wait_for_listener();
    events
}

/// Flushes the kernel's connections; returns the events.
fn flushed_by_the_kernel(router: &Router, mut events: Events, connections: usize) -> String {
    for family in ["ipv4", "ipv6"] {
        run(router.conntrack().args(["-F", "-f", family]));
    }
    wait_until("all ends are told", || events.has_told(connections));
    events.end()
}

#[track_caller]
fn assert_same(own: &[String], kernel: &[String]) {
    let only = |these: &[String], others: &[String]| {
        let these: BTreeSet<_> = these.iter().cloned().collect();
        let others: BTreeSet<_> = others.iter().cloned().collect();
        these.difference(&others).cloned().collect::<Vec<_>>().join("\n")
    };
    let (here, there) = (only(own, kernel), only(kernel, own));
    assert!(own == kernel, "only Millrace:\n{here}\nonly Linux:\n{there}");
}

#[test]
fn the_list_and_events_read_as_conntrack_prints_them() {
    if !has_root_and(&TOOLS) || !has_root_and(&["conntrack"]) {
        return;
    }
    let Some(router) = Router::new() else { return };
    router.count_bytes();
    let stories = stories();
    let frames: Vec<_> = (0..)
        .zip(stories.iter().flatten())
        .map(|(number, (from, packet))| {
            let macs = ([2, 0, 0, 0, 0, 0x10], [2, 0, 0, 0, 0, *from as u8]);
            let packet = packet.clone().macs(macs.0, macs.1);
            // The script that sends them knows them by these numbers.
            let is_v6 = packet.build()[12] == 0x86;
            let packet = if is_v6 { packet.flow_label(number) } else { packet.ip_id(number) };
            (*from, packet.build())
        })
        .collect();
    let events = events_of_the_kernel(&router);
    let words = router.words(&new_scratch("conntrack-list"), &frames);
    assert!(!words.contains(&Word::Lost), "the router lost packets");
    let kernel = comparable(&router.list());
    let events = flushed_by_the_kernel(&router, events, stories.len());
    let ends_there = comparable(&of_events(&events));
    let mut frames: Vec<_> = frames.into_iter().map(|(_, frame)| frame).collect();
    let more = challenged();
    let challenged = more.iter().flatten().map(|(_, packet)| packet);
    frames.extend(neighbour_discovery().iter().chain(challenged).map(FrameBuilder::build));
    let [listed, events] = told_by_millrace(&frames, stories.len() + more.len());
    let is_challenged = |line: &&str| line.contains("src=10.0.3.");
    let (of_challenged, listed): (Vec<_>, Vec<_>) = listed.lines().partition(is_challenged);
    let own = comparable(&listed.join("\n"));
    assert_eq!(own.len(), stories.len());
    assert_same(&own, &kernel);
    let events = of_events(&events);
    let ends: Vec<_> = events.lines().filter(|line| !is_challenged(line)).collect();
    assert_same(&comparable(&ends.join("\n")), &ends_there);
    for line in &of_challenged {
        assert!(line.contains("SYN_SENT src=") && line.contains(" [UNREPLIED] src="), "{line}");
    }
    assert_eq!(of_challenged.len(), more.len());
}
