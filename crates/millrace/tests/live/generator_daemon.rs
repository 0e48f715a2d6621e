// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --daemon` on a cable of software NICs, by JSON-RPC.

use crate::bump::turn;
use crate::twin::driver;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testkit::process::Process;

/// A client of a daemon that listens at a free port.
struct Client {
    stream: BufReader<TcpStream>,
    _daemon: Process,
}

impl Client {
    fn new(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.arg("gen").args(args).stdin(Stdio::null());
        let mut daemon = Process::spawn(command.stderr(Stdio::piped()));
        let stderr = BufReader::new(daemon.child().stderr.take().expect("a pipe"));
        let mut lines = stderr.lines().map_while(Result::ok);
        let says = "the generator listens at ";
        let line = lines.find(|line| line.contains(says)).expect("an address");
        let address = line.split(says).nth(1).unwrap().to_owned();
        // What follows is read, so that the daemon can write it.
        std::thread::spawn(move || lines.for_each(drop));
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream: BufReader::new(stream), _daemon: daemon }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        writeln!(self.stream.get_mut(), "{call}").unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let response: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(response["id"], method, "{response}");
        response
    }

    /// Waits until the counters are those of a load that runs, and returns its connections per
    /// second: of a second that begins then.
    fn cps(&mut self) -> f64 {
        sleep(Duration::from_millis(200));
        self.call("clear", &json!({}));
        sleep(Duration::from_secs(1));
        let stats = &self.call("stats", &json!({}))["result"];
        stats["client"]["established"].as_f64().unwrap() / stats["elapsed_s"].as_f64().unwrap()
    }
}

#[test]
fn profiles_and_loads_follow_each_other() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let profile = format!("{root}/profiles/article-tcp.toml");
    let ports = "net_twin0,wire=daemon,net_twin1,wire=daemon";
    let mut client = Client::new(&[
        ports,
        "--daemon",
        "0",
        "--stateful",
        &profile,
        "--cps",
        "1k",
        "--workers",
        "1",
    ]);
    let is_about = |cps: f64, expected: f64| (0.75 * expected..=1.25 * expected).contains(&cps);
    let refused = client.call("update", &json!({"multiplier": 2}));
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    client.call("start", &json!({"multiplier": 2, "ramp_up_s": 0}));
    let cps = client.cps();
    assert!(is_about(cps, 2000.0), "{cps}");
    client.call("update", &json!({"multiplier": 0.5}));
    let cps = client.cps();
    assert!(is_about(cps, 500.0), "{cps}");
    // A load of cps_ndr, in place of the profile.
    client.call("start", &json!({"cps": 3000, "ramp_up_s": 0}));
    let cps = client.cps();
    assert!(is_about(cps, 3000.0), "{cps}");
    let refused = client.call("update", &json!({"multiplier": 2}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("no profile"), "{refused}");
    // A profile of the client, which ends by itself.
    let text = "[[template]]\nproto = \"udp\"\nport = 53\ncps = 1000\nlimit = 50\n\
                client = [{send = 3}, {receive = 3}]\nserver = [{receive = 3}, {send = 3}]\n";
    client.call("start", &json!({"profile": text, "ramp_up_s": 0}));
    let begun = Instant::now();
    loop {
        let stats = client.call("stats", &json!({}));
        if stats["result"]["client"]["completed"] == 50 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{stats}");
        sleep(Duration::from_millis(50));
    }
    client.call("stop", &json!({}));
    let stats = client.call("stats", &json!({}));
    assert_eq!(stats["result"]["client"]["attempted"], 50, "{stats}");
}
