// SPDX-License-Identifier: BSD-3-Clause
//! Tests ways to watch a generator: metrics over HTTP, a real Prometheus, and the terminal view.

use crate::bump::turn;
use crate::new_scratch;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use testkit::host::has_tools;
use testkit::process::{Process, wait_until};

const PORT: &str = "net_null0,no-rx=1";

fn generator(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["gen", PORT, "--rate", "10kpps"]).args(args);
    command
}

/// Starts a generator with metrics; returns the address of its HTTP server too.
fn watched() -> (Process, SocketAddr) {
    let mut command = generator(&["--quiet", "--duration", "60", "--metrics", "0"]);
    command.args(["--stream", "name=a\"b"]);
    let mut process = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(process.child().stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("millrace: metrics at http://")?.strip_suffix("/metrics")?.parse().ok()
    });
    // Keeps reading, because the generator must not write to a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (process, address.expect("an address"))
}

/// Sends a GET request. Returns head and body of the response.
fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut client = TcpStream::connect(address).ok()?;
    write!(client, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    client.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_are_those_of_the_moment() {
    let _turn = turn();
    let (mut process, address) = watched();
    assert!(address.ip().is_loopback(), "{address}");
    let sent = "millrace_gen_sent_packets_total{port=\"net_null0,no-rx=1\"}";
    let mut seen = String::new();
    wait_until("packets are sent", || {
        seen = get(address, "/metrics").map_or(String::new(), |(_, body)| body);
        metric(&seen, sent).is_some_and(|packets| packets > 0.0)
    });
    assert!(seen.ends_with("# EOF\n"), "{seen}");
    let first = metric(&seen, sent).unwrap();
    wait_until("more are sent", || {
        let (head, body) = get(address, "/metrics").unwrap();
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        metric(&body, sent).unwrap() > first
    });
    // A second generator with the same address does not start.
    let output = generator(&["--metrics", &address.to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let told =
        format!("millrace: --metrics {address}: cannot listen there: Address already in use");
    assert!(output.status.code() == Some(1) && text.contains(&told), "{text}");
    process.signal("TERM");
    assert!(process.child().wait().unwrap().success());
    assert!(get(address, "/metrics").is_none(), "the end of a run is the end of its metrics");
}

#[test]
fn prometheus_reads_the_metrics() {
    if !has_tools(&["prometheus"]) {
        return;
    }
    let _turn = turn();
    let (_process, address) = watched();
    let scratch = new_scratch("prometheus");
    let config = scratch.path("prometheus.yml");
    let job = format!("[{{job_name: gen, static_configs: [{{targets: [\"{address}\"]}}]}}]");
    let text = format!("{{global: {{scrape_interval: 1s}}, scrape_configs: {job}}}\n");
    std::fs::write(&config, text).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("prometheus");
    command.args(["--config.file", &config, "--storage.tsdb.path", &scratch.path("data")]);
    command.args(["--web.listen-address", &free.to_string()]);
    let _prometheus = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let query = |query: &str| -> Option<f64> {
        let (_, body) = get(free, &format!("/api/v1/query?query={query}"))?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    wait_until("prometheus has scraped it", || {
        query("millrace_gen_sent_packets_total").is_some_and(|packets| packets > 0.0)
    });
    assert_eq!(query("up"), Some(1.0));
    let bursts = query("millrace_gen_late_seconds_count").unwrap();
    assert!(bursts > 0.0 && query("count(millrace_gen_late_seconds_bucket)") == Some(23.0));
}

fn read_until(child: &mut Child, text: &str) -> String {
    let (mut seen, mut part) = (Vec::new(), [0; 256]);
    let out = child.stdout.as_mut().unwrap();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let read = out.read(&mut part).unwrap();
        assert!(read > 0, "no {text} in {}", String::from_utf8_lossy(&seen));
        seen.extend(&part[..read]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn a_key_ends_the_view_on_a_terminal() {
    if !has_tools(&["script"]) {
        return;
    }
    let _turn = turn();
    // `script` runs it with a terminal.
    let program = env!("CARGO_BIN_EXE_millrace");
    let line = format!("{program} gen {PORT} --rate 10kpps --duration 60 --interval 0.2 --live");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut command);
    let seen = read_until(process.child(), "recv, most");
    assert!(seen.contains("(q ends)") && seen.contains(PORT), "{seen}");
    process.child().stdin.as_mut().unwrap().write_all(b"q").unwrap();
    let seen = read_until(process.child(), "sent: ");
    assert!(!seen.contains("sent    Gb/s         recv"), "no lines beside the view: {seen}");
    assert!(process.child().wait().unwrap().success());
    let output = generator(&["--live"]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("--live needs a terminal"), "{text}");
}
