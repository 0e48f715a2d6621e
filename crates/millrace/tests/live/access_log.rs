// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace acl log` with packets of the kernel.

use crate::bump::{Setup, count};
use crate::lan::Lan;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use testkit::host::has_root_and;
use testkit::process::{Process, wait_until};

const TOOLS: [&str; 7] = ["ip", "unshare", "nsenter", "setpriv", "python3", "ping", "ethtool"];

const LISTS: &str = r#"
[acl]
logs_per_second = 20

[[list]]
name = "requests"
port = "a"
default = "permit"

[[list.rule]]
action = "deny"
log = true
proto = "udp"
dport = "81-82"
"#;

/// Sends datagrams from port 4000 to a port of a host.
const SENDER: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 4000))
for _ in range(int(sys.argv[3])):
    s.sendto(b'hello', (sys.argv[1], int(sys.argv[2])))";

/// Each denied packet is a line, up to the limit; the number of the others comes before the next.
#[test]
fn denied_packets_are_printed_as_they_arrive() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("access-log").config(LISTS);
    let (bump, socket) = lan.start_bump(setup);
    wait_until("A reaches B", || lan.a.namespace.succeeds(&format!("ping -c 1 -W 1 {}", lan.b.v4)));
    let send = |port: &str, times: &str| {
        let mut command = lan.a.namespace.command("python3");
        assert!(command.args(["-c", SENDER, lan.b.v4, port, times]).status().unwrap().success());
    };
    let follow = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["acl", "log", "--instance", &socket]).args(args).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let lines = BufReader::new(process.child().stdout.take().unwrap()).lines();
        (process, lines.map(Result::unwrap))
    };
    let (json, mut json_lines) = follow(&["--json"]);
    let (text, mut text_lines) = follow(&[]);
    // Both have subscribed once each has got a packet.
    let (mut first, mut second) = (None, None);
    std::thread::scope(|scope| {
        let of_json = scope.spawn(|| first = json_lines.next());
        let of_text = scope.spawn(|| second = text_lines.next());
        wait_until("both print a packet", || {
            send("81", "1");
            std::thread::sleep(std::time::Duration::from_millis(200));
            of_json.is_finished() && of_text.is_finished()
        });
    });
    let log: Value = serde_json::from_str(&first.unwrap()).unwrap();
    let packet = format!("udp {}:4000 > {}:81", lan.a.v4, lan.b.v4);
    assert_eq!((&log["packet"], &log["action"]), (&packet.clone().into(), &"deny".into()));
    assert_eq!(
        (&log["list"], &log["rule"], &log["port"]),
        (&"requests".into(), &0.into(), &"a".into())
    );
    assert_eq!(
        (&log["text"], &log["bytes"]),
        (&"deny log proto udp dport 81-82".into(), &47.into())
    );
    let line = second.unwrap();
    let end = format!(" deny {packet} bytes=47 pair=0 port=a list=\"requests\" rule=0");
    assert!(line.ends_with(&end), "{line}");
    // Of a flood, most are only counted.
    send("82", "100");
    std::thread::sleep(std::time::Duration::from_millis(400));
    send("81", "1");
    let lost = text_lines.find_map(|line| {
        line.strip_suffix(" packets were not logged").map(|number| number.parse::<u64>().unwrap())
    });
    assert!((80..100).contains(&lost.unwrap()), "{lost:?}");
    drop((json, text));
    let ended = bump.finish();
    ended.assert_balanced();
    let logs = &ended.summary()["access_log"];
    assert!(count(&logs["logged"]) >= 3 && count(&logs["suppressed"]) >= 80, "{logs}");
}
