// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --stateful` over the software NIC: sessions of captures, connections that
//! are released one after the other, and the files and metrics of a run.

use crate::bump::{count, turn};
use crate::cycles::assert_work_of_all;
use crate::new_scratch;
use crate::twin::driver;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use testkit::capture::{Packet, Pcap};
use testkit::process::Process;
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, PSH, SYN};

fn generator(ports: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["gen", ports, "--workers", "1", "--capacity", "20k"]).args(args);
    command
}

/// A capture of a request with a response 20 ms later, and of a datagram with its answer.
fn capture() -> Vec<u8> {
    let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let client = |flags, seq, ack, data: &[u8]| {
        let builder = FrameBuilder::ipv4(a, b).tcp(4000, 80).flags(flags).seq(seq).ack(ack);
        builder.payload(data).build()
    };
    let server = |flags, seq, ack, data: &[u8]| {
        let builder = FrameBuilder::ipv4(b, a).tcp(80, 4000).flags(flags).seq(seq).ack(ack);
        builder.payload(data).build()
    };
    let frames = [
        (0, client(SYN, 99, 0, b"")),
        (1, server(SYN | ACK, 499, 100, b"")),
        (2, client(ACK, 100, 500, b"")),
        (2, client(ACK | PSH, 100, 500, b"GET /")),
        (22, server(ACK | PSH, 500, 105, b"HTTP/1.0 200 OK")),
        (22, server(ACK | FIN, 515, 105, b"")),
        (23, client(ACK | FIN, 105, 516, b"")),
        (30, FrameBuilder::ipv4(a, b).udp(5000, 53).payload("who").build()),
        (31, FrameBuilder::ipv4(b, a).udp(53, 5000).payload("me").build()),
    ];
    let packets = frames.map(|(ms, bytes)| Packet::new(ms * 1_000_000, bytes));
    Pcap::plain().file(&packets)
}

#[test]
fn sessions_of_a_capture_are_replayed() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let scratch = new_scratch("replays");
    let path = scratch.path("a.pcap");
    std::fs::write(&path, capture()).unwrap();
    let [csv, html] = ["a.csv", "a.html"].map(|name| scratch.path(name));
    let mut command = generator(
        "net_twin0,wire=replay,net_twin1,wire=replay",
        &["--stateful", &path, "--cps", "400", "--duration", "0.5", "--interval", "0.1"],
    );
    let output = command.args(["--csv", &csv, "--html", &html, "--json", "-"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    let clients = &results["clients"];
    let completed = count(&clients["completed"]);
    assert!(completed >= 100, "{clients}");
    // Each kind opens as many, but for the last one.
    let per_pair = count(&clients["payload_received"]) as f64 / completed as f64 * 2.0;
    assert!((16.8..17.2).contains(&per_pair), "{clients}");
    assert_eq!(clients["payload_sent"], results["servers"]["payload_received"]);
    assert!(count(&clients["response_us"]["max"]) >= 19_000, "{clients}");
    for port in 0..2 {
        let balance = &results["ports"][port]["balance"];
        assert_eq!(balance["sent_by_ends"], balance["sent_by_port"], "{balance}");
        assert_eq!(balance["received_by_ends"], balance["received_by_port"], "{balance}");
        assert_eq!(balance["is_kept"], true);
    }
    assert_work_of_all(&results["workers"], &["build", "tx", "rx", "verify"]);
    let rows = scratch.read("a.csv");
    let mut rows = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = rows.next().unwrap();
    let column = |name: &str| heading.iter().position(|it| *it == name).expect(name);
    let (attempted, first_byte) = (column("attempted"), column("first_byte_p50_us"));
    let rows: Vec<_> = rows.collect();
    let sum: u64 = rows.iter().map(|row| row[attempted].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, count(&clients["attempted"]), "{rows:?}");
    assert!(rows.iter().any(|row| row[first_byte].parse::<u64>().is_ok()), "{rows:?}");
    let page = scratch.read("a.html");
    assert_eq!(page.matches("<figure").count(), 4);
    assert!(page.contains("clients: completed"));
    // A capture with a gap is refused, with the number of the packet behind it.
    let mut bytes = capture();
    bytes.truncate(24 + 3 * (16 + 54));
    bytes.extend(
        Pcap::plain().record(&Packet::new(
            9_000_000,
            FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2])
                .tcp(4000, 80)
                .flags(ACK)
                .seq(110)
                .ack(500)
                .payload("late")
                .build(),
        )),
    );
    std::fs::write(&path, bytes).unwrap();
    let output = generator("net_twin0,net_twin1", &["--stateful", &path]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("10 bytes before packet 4 are not in the capture"), "{stderr}");
}

/// Reads the metrics at the address that the generator names on standard error.
fn metrics(stderr: impl Read + Send + 'static) -> String {
    let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("metrics at http://")).expect("an address");
    let (_, address) = line.split_once("http://").unwrap();
    let mut client = TcpStream::connect(address.trim_end_matches("/metrics")).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    // What follows is read, so that the generator can write it.
    std::thread::spawn(move || lines.for_each(drop));
    text
}

#[test]
fn a_number_of_connections_is_held_while_the_oldest_are_closed() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let scratch = new_scratch("churn");
    let path = scratch.path("short.toml");
    let template = "[[template]]\nport = 80\ncps = 5000\nclient = [{send = 20}, {receive = 20}]\n\
                    server = [{receive = 20}, {send = 20}]\n";
    std::fs::write(&path, template).unwrap();
    let json = scratch.path("results.json");
    let mut command = generator(
        "net_twin0,wire=churn,net_twin1,wire=churn",
        &["--stateful", &path, "--connections", "1000", "--churn", "500", "--metrics", "0"],
    );
    command.args(["--duration", "1.5", "--interval", "0.25", "--quiet", "--json", &json]);
    let mut generator = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let text = metrics(generator.child().stderr.take().expect("a pipe"));
    assert!(text.contains("millrace_gen_stateful_open{end=\"clients\"} "), "{text}");
    assert!(text.contains("# TYPE millrace_gen_stateful_setup_seconds histogram"), "{text}");
    assert_eq!(generator.wait().code(), Some(0), "{}", scratch.read("results.json"));
    let results: Value = serde_json::from_str(&scratch.read("results.json")).unwrap();
    let clients = &results["clients"];
    for counter in ["aborted", "timeout", "reset", "unopened"] {
        assert_eq!(clients[counter], 0, "{clients}");
    }
    for interval in &results["intervals"].as_array().unwrap()[2..5] {
        let open = count(&interval["open"]);
        assert!((990..=1010).contains(&open), "{interval}");
    }
    // A thousand at the end, and those that were released before.
    let completed = count(&clients["completed"]);
    assert!((1250..=1750).contains(&completed), "{clients}");
    assert_eq!(clients["completed"], clients["attempted"], "{clients}");
}

/// Open connections have a rate of transactions together.
#[test]
fn connections_that_stay_open_reach_a_rate_of_transactions() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = generator(
        "net_twin0,wire=tps,net_twin1,wire=tps",
        &["--stateful", &format!("{root}/profiles/article-tcp.toml"), "--connections", "500"],
    );
    command.args(["--cps", "20k", "--tps", "5k", "--duration", "1.5", "--quiet", "--json", "-"]);
    let output = command.output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let clients = &results["clients"];
    assert_eq!(output.status.code(), Some(0), "{clients}");
    // Of the 7500, those of the time in which the connections are opened are missing.
    let responses = count(&clients["responses"]);
    assert!((6000..=7600).contains(&responses), "{clients}");
    assert_eq!([&clients["attempted"], &clients["completed"]].map(count), [500, 500], "{clients}");
}

/// Two tasks at each end divide the connections, which are opened in a ramp, and their bits.
#[test]
fn two_senders_reach_a_rate_of_bits_together() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = generator(
        "net_twin0,wire=bits,net_twin1,wire=bits",
        &["--stateful", &format!("{root}/profiles/article-tcp.toml"), "--connections", "400"],
    );
    command.args(["--throughput", "800k", "--ramp", "0.5", "--senders", "2", "--interval", "0.5"]);
    command.args(["--duration", "2.5", "--quiet", "--json", "-"]);
    let output = command.output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let clients = &results["clients"];
    assert_eq!(output.status.code(), Some(0), "{clients}");
    assert_eq!([&clients["attempted"], &clients["completed"]].map(count), [400, 400], "{clients}");
    // A request and its response are 320 bits. All connections are open by then.
    let interval = &results["intervals"][3];
    let responses = count(&interval["clients"]["responses"]);
    assert!((950..=1550).contains(&responses), "{interval}");
    assert_eq!(count(&interval["open"]), 400, "{interval}");
}

#[test]
fn a_run_without_any_answer_fails() {
    let _turn = turn();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = generator(
        "net_null0,no-rx=1,net_null1,no-rx=1",
        &["--stateful", &format!("{root}/profiles/article-tcp.toml"), "--duration", "0.2"],
    );
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("no connection was established"), "{words}");
}
