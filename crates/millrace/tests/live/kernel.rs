// SPDX-License-Identifier: BSD-3-Clause
//! Tests the kernel's TCP through the bump, between two hosts. The data arrives unchanged, and the
//! records count all packets and bytes that the kernel counted, in the right direction.

use crate::bump::{Ended, Setup, count, total};
use crate::captures::{Talk, is_a, read_pcap};
use crate::lan::{ENDS, Host, Lan, Traffic, nothing_is_under_way};
use crate::records::{Record, Tally, conversations};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use testkit::host::{has_root_and, skip};
use testkit::namespace::Namespace;
use testkit::process::{Process, run, wait_until};
use testkit::random::Random;

/// Programs that all of these tests need.
const TOOLS: [&str; 7] = ["ip", "unshare", "nsenter", "setpriv", "python3", "curl", "ping"];
const PORT: u16 = 8080;
const FILE_BYTES: usize = 3 << 20;

/// Starts a web server on all addresses of `namespace`, for the files in `folder`.
fn web_server(namespace: &Namespace, folder: &str) -> Process {
    let mut command = namespace.command("python3");
    command.args(["-m", "http.server", &PORT.to_string(), "--bind", "::", "--directory", folder]);
    let server = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let probe = format!("curl --silent --output /dev/null http://[::1]:{PORT}/");
    wait_until("the web server answers", || namespace.succeeds(&probe));
    server
}

/// Fetches `/file` from `address` into `path`.
fn fetch(host: &Host, address: &str, path: &str) {
    let url = format!("http://{address}:{PORT}/file");
    run(host.namespace.command("curl").args([
        "--silent",
        "--fail",
        "--max-time",
        "60",
        &url,
        "--output",
        path,
    ]));
}

/// Limits the TCP window, so that no buffer between the hosts overflows and no packet is lost.
fn keep_windows_small(host: &Host) {
    let script = "echo 4096 32768 65536 > /proc/sys/net/ipv4/tcp_rmem";
    run(host.namespace.command("sh").args(["-c", script]));
}

/// Returns pseudo-random bytes, in which a lost or shifted byte shows.
fn file() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..FILE_BYTES).map(|_| random.bits() as u8).collect()
}

/// True if the source of a record is host A.
fn from_a(address: &str) -> bool {
    !address.ends_with('2')
}

/// Returns the records of TCP connections to the web server.
fn web_records(ended: &Ended) -> Vec<Record> {
    let is_web = |record: &Record| record.text("dport") == PORT.to_string();
    ended.records().into_iter().filter(is_web).collect()
}

/// Checks that the record is of one fetch of the file by host A, from SYN to FIN.
#[track_caller]
fn assert_is_fetch(record: &Record) {
    const FIN_SYN_ACK: u64 = 1 | 2 | 16;
    let [request, response] = record.tallies();
    // The upper limit has room for headers, and for retransmissions on a slow machine.
    let bytes = FILE_BYTES as u64..2 * FILE_BYTES as u64;
    assert!(bytes.contains(&response.ip_bytes), "{record:?}");
    assert!(request.packets >= 4 && request.ip_bytes < response.ip_bytes, "{record:?}");
    for flags in ["orig_tcp_flags", "reply_tcp_flags"] {
        assert_eq!(record.number(flags) & FIN_SYN_ACK, FIN_SYN_ACK, "{record:?}");
    }
    assert_eq!(record.text("state"), "closing");
}

/// Checks that the summary agrees with the kernel's counters: those of `settled`, when the hosts
/// were silent, or up to those of `last`, after the end.
fn assert_counted(ended: &Ended, settled: [Traffic; 2], last: [Traffic; 2]) {
    let summary = ended.summary();
    for (port, (settled, last)) in settled.into_iter().zip(last).enumerate() {
        let port = &summary["ports"][port];
        // They differ only if a kernel has sent a packet in between.
        for (member, least, most) in [
            ("rx_packets", settled.sent.0, last.sent.0),
            ("rx_bytes", settled.sent.1, last.sent.1),
            ("tx_packets", settled.received.0, last.received.0),
            ("tx_bytes", settled.received.1, last.received.1),
        ] {
            assert!((least..=most).contains(&count(&port[member])), "{least} {most} {port}");
        }
    }
    let mut sums = [Tally::default(); 2];
    for record in ended.records() {
        for (sum, tally) in sums.iter_mut().zip(record.by_side(from_a)) {
            sum.add(tally);
        }
    }
    assert_eq!(total(&summary["passed"]), 0, "{}", summary["passed"]);
    assert_eq!(total(&summary["drops"]), 0, "{}", summary["drops"]);
    for (port, sum) in sums.into_iter().enumerate() {
        let port = &summary["ports"][port];
        assert_eq!(
            (sum.packets, sum.bytes),
            (count(&port["rx_packets"]), count(&port["rx_bytes"]))
        );
    }
}

#[test]
fn tcp_over_af_packet_is_counted_as_the_kernel_counts() {
    if !has_root_and(&TOOLS) || !has_root_and(&["ethtool"]) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    // The kernel counts neighbour discovery, too.
    let tracked = "[policy]\nneighbour_discovery = \"tracked\"\n";
    let setup = Setup::new("af_packet").config(tracked);
    let [a, b] = Lan::ports();
    let file = file();
    std::fs::write(setup.path("file"), &file).unwrap();
    let copies = ["v4", "v6"].map(|name| setup.path(name));
    let folder = setup.path("");
    lan.set_up();
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    lan.introduce();
    lan.assign_addresses();
    keep_windows_small(&lan.a);
    let server = web_server(&lan.b.namespace, &folder);
    fetch(&lan.a, lan.b.v4, &copies[0]);
    fetch(&lan.a, &format!("[{}]", lan.b.v6), &copies[1]);
    let settled = lan.settle(nothing_is_under_way);
    let ended = bump.finish();
    let last = [&lan.a, &lan.b].map(Host::traffic);
    drop(server);
    ended.assert_balanced();
    for copy in copies {
        assert!(std::fs::read(copy).unwrap() == file, "the file arrived changed");
    }
    let records = web_records(&ended);
    assert_eq!(records.len(), 2);
    records.iter().for_each(assert_is_fetch);
    assert_counted(&ended, settled, last);
}

/// The kernel strips VLAN tags from frames that it gives to a packet socket; the driver restores
/// them.
#[test]
fn tags_stay_on_packets_through_af_packet() {
    if !has_root_and(&TOOLS) || !has_root_and(&["ethtool"]) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("vlan");
    let [a, b] = Lan::ports();
    std::fs::write(setup.path("file"), file()).unwrap();
    let (copy, folder) = (setup.path("copy"), setup.path(""));
    lan.set_up();
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    for (host, last) in [(&lan.a, 1), (&lan.b, 2)] {
        keep_windows_small(host);
        // A veth carries one tag in addition to its MTU.
        for (below, id, mtu, net) in [(host.interface, 100, 1500, 1), ("vlan100", 7, 1496, 2)] {
            let vlan = format!("vlan{id}");
            let add = format!("ip link add link {below} name {vlan} mtu {mtu} type vlan id {id}");
            if !host.namespace.succeeds(&add) {
                return skip("the kernel has no VLAN interfaces");
            }
            host.namespace.run(&format!("ip link set dev {vlan} up"));
            host.assign(&vlan, &format!("10.9.{net}.{last}"));
            host.assign(&vlan, &format!("2001:db8:a:{net}::{last}"));
        }
    }
    let server = web_server(&lan.b.namespace, &folder);
    for address in ["10.9.1.2", "[2001:db8:a:1::2]", "10.9.2.2", "[2001:db8:a:2::2]"] {
        fetch(&lan.a, address, &copy);
        assert!(std::fs::read(&copy).unwrap() == file(), "the file arrived changed");
    }
    lan.settle(nothing_is_under_way);
    let ended = bump.finish();
    drop(server);
    ended.assert_balanced();
    let records = web_records(&ended);
    records.iter().for_each(assert_is_fetch);
    let mut tags: Vec<_> = records.iter().map(|record| record.text("vlan")).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["100", "100", "100/7", "100/7"]);
    assert!(records.iter().all(|record| record.text("zone") == "100"));
    // Both hosts sent ARP requests, with one tag and with two.
    assert!(count(&ended.summary()["passed"]["non_ip"]) >= 4);
}

/// Sends frames of all kinds without VLAN interfaces, through devargs and through interface names.
/// `net_af_packet` restores each tag as 802.1Q, so a service tag (802.1ad) becomes one.
#[test]
fn tagged_frames_cross_linux_interfaces() {
    let keep = |frame: Vec<u8>| frame;
    let without_service_tags = |mut frame: Vec<u8>| {
        if frame[12..14] == [0x88, 0xa8] {
            frame[12..14].copy_from_slice(&[0x81, 0x00]);
        }
        frame
    };
    assert_tagged_frames_cross(Lan::ports(), without_service_tags);
    assert_tagged_frames_cross(ENDS.map(str::to_owned), keep);
}

/// Checks that frames of all kinds arrive as `expected` says.
fn assert_tagged_frames_cross([a, b]: [String; 2], expected: fn(Vec<u8>) -> Vec<u8>) {
    const SEND: &str = "import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for frame in sys.stdin: out.send(bytes.fromhex(frame))";
    if !has_root_and(&TOOLS) || !has_root_and(&["ethtool", "dumpcap"]) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("tags");
    let capture = setup.path("capture");
    let talk = Talk::new(1, 150);
    let frames = &talk.frames[0];
    let lines: String = frames.iter().map(|frame| hex(frame) + "\n").collect();
    std::fs::write(setup.path("frames"), lines).unwrap();
    let lines = File::open(setup.path("frames")).unwrap();
    lan.set_up();
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    let count = frames.len().to_string();
    let mut command = lan.b.namespace.command("dumpcap");
    command.args(["-q", "-P", "-i", lan.b.interface, "-c", &count, "-w", &capture]);
    let mut dumpcap = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until("dumpcap listens", || std::fs::metadata(&capture).is_ok_and(|file| file.len() > 0));
    run(lan.a.namespace.command("python3").args(["-c", SEND, lan.a.interface]).stdin(lines));
    dumpcap.wait();
    let ended = bump.finish();
    ended.assert_balanced();
    let expected: Vec<_> = frames.iter().cloned().map(expected).collect();
    assert!(read_pcap(&capture) == expected);
    let mut sent = talk.conversations;
    sent.values_mut().for_each(|sides| sides[1] = Tally::default());
    assert_eq!(conversations(&ended.records(), is_a), sent);
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn hosts_on_taps_find_and_reach_one_another() {
    if !has_root_and(&TOOLS) {
        return;
    }
    if !Path::new("/dev/net/tun").exists() {
        return skip("the kernel has no tap interfaces");
    }
    let Some(lan) = Lan::new() else { return };
    let setup = Setup::new("tap");
    let file = file();
    std::fs::write(setup.path("file"), &file).unwrap();
    let copies = ["v4", "v6"].map(|name| setup.path(name));
    let folder = setup.path("");
    let [a, b] = [&lan.a, &lan.b].map(|host| format!("iface={}", host.interface));
    let (a, b) = (format!("net_tap0,{a}"), format!("net_tap1,{b}"));
    let mut bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    lan.hand_out_taps();
    lan.set_up();
    lan.assign_addresses();
    for host in [&lan.a, &lan.b] {
        keep_windows_small(host);
    }
    let server = web_server(&lan.b.namespace, &folder);
    fetch(&lan.a, lan.b.v4, &copies[0]);
    fetch(&lan.a, &format!("[{}]", lan.b.v6), &copies[1]);
    for address in [lan.b.v4, lan.b.v6] {
        lan.a.namespace.run(&format!("ping -c 3 -i 0.2 -W 20 {address}"));
    }
    // An interface that has moved to another namespace does not count as removed.
    bump.wait_for_line("another second", |_| true);
    let settled = lan.settle(|_| true);
    let ended = bump.finish();
    drop(server);
    ended.assert_balanced();
    let out_of_sight = [a, b].map(|port| format!("port {port}: its interface has left this "));
    assert!(out_of_sight.iter().all(|text| ended.stderr.contains(text)), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
    for copy in copies {
        assert!(std::fs::read(copy).unwrap() == file, "the file arrived changed");
    }
    let records = web_records(&ended);
    assert_eq!(records.len(), 2);
    records.iter().for_each(assert_is_fetch);
    let summary = ended.summary();
    for (port, host) in settled.into_iter().enumerate() {
        let port = &summary["ports"][port];
        assert!(count(&port["rx_packets"]) >= host.sent.0, "{port} {host:?}");
        assert!(count(&port["tx_packets"]) >= host.received.0, "{port} {host:?}");
    }
    // At least an ARP request for 10.9.0.2 and its reply.
    assert!(count(&summary["passed"]["non_ip"]) >= 2);
    for (proto, request) in [("1", 8 << 8), ("58", 128 << 8)] {
        let is_echo =
            |record: &Record| record.text("proto") == proto && record.number("dport") == request;
        let mut echoes = ended.records();
        echoes.retain(is_echo);
        assert_eq!(echoes.len(), 1, "{echoes:?}");
        assert_eq!(echoes[0].tallies().map(|tally| tally.packets), [3, 3]);
    }
}
