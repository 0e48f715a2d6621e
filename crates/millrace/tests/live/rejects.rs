// SPDX-License-Identifier: BSD-3-Clause
//! Tests rejected packets with the kernel's TCP and UDP: the sender learns at once what it would
//! otherwise wait for.

use crate::bump::{Ended, Setup, count, total};
use crate::lan::Lan;
use serde_json::Value;
use testkit::host::has_root_and;
use testkit::process::wait_until;

const TOOLS: [&str; 7] = ["ip", "unshare", "nsenter", "setpriv", "python3", "ping", "ethtool"];

const LISTS: &str = r#"
[[list]]
name = "requests"
port = "a"
default = "permit"
rules = """
reject proto tcp dport 80
reject proto udp dport 81
deny proto tcp dport 82
deny proto udp dport 83
"""
"#;

/// Connects by TCP or sends a datagram to each port of a host, and prints each error.
const ERRORS: &str = "import errno, socket, sys
for number in (80, 82):
    try:
        socket.create_connection((sys.argv[1], number), 1.5)
    except OSError as error:
        print(errno.errorcode.get(error.errno, type(error).__name__))
for number in (81, 83):
    s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1.5)
    s.connect((sys.argv[1], number))
    try:
        s.send(b'x')
        s.recv(9)
    except OSError as error:
        print(errno.errorcode.get(error.errno, type(error).__name__))";

/// Sends 30 datagrams at once.
const FLOOD: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(30):
    s.sendto(b'x', (sys.argv[1], 81))";

/// Runs a program on host A with the address of host B, and other things before the end of a run.
fn run(
    name: &str,
    config: &str,
    test: impl FnOnce(&Lan, &dyn Fn(&str, &str) -> String),
) -> Option<Ended> {
    if !has_root_and(&TOOLS) {
        return None;
    }
    let lan = Lan::with_cables()?;
    let setup = Setup::new(name).config(config);
    let [a, b] = Lan::ports();
    lan.set_up();
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    lan.assign_addresses();
    for to in [lan.b.v4, lan.b.v6] {
        let ping = format!("ping -c 1 -W 1 {to}");
        wait_until("A reaches B", || lan.a.namespace.succeeds(&ping));
    }
    test(&lan, &|program, to| {
        let mut command = lan.a.namespace.command("python3");
        let output = command.args(["-c", program, to]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    let ended = bump.finish();
    ended.assert_balanced();
    Some(ended)
}

fn rejects(summary: &Value) -> [u64; 3] {
    ["sent", "suppressed", "not_possible"].map(|name| count(&summary["rejects"][name]))
}

#[test]
fn a_rejected_connection_fails_at_once_and_a_denied_one_does_not() {
    let ended = run("rejects", LISTS, |lan, python| {
        let of_v4 = python(ERRORS, lan.b.v4);
        assert_eq!(of_v4, "ECONNREFUSED\nTimeoutError\nEHOSTUNREACH\nTimeoutError\n");
        // Linux has another error for the ICMPv6 message.
        let of_v6 = python(ERRORS, lan.b.v6);
        assert_eq!(of_v6, "ECONNREFUSED\nTimeoutError\nEACCES\nTimeoutError\n");
    });
    let Some(summary) = ended.map(|ended| ended.summary()) else { return };
    let [sent, suppressed, not_possible] = rejects(&summary);
    assert_eq!((sent, suppressed, not_possible), (4, 0, 0));
    let denied = count(&summary["drops"]["denied"]);
    assert!(denied >= sent + 4 && total(&summary["drops"]) == denied, "{}", summary["drops"]);
}

#[test]
fn answers_are_limited_per_second() {
    let config = format!("[acl]\nrejects_per_second = 1\n{LISTS}");
    let ended = run("reject-rate", &config, |lan, python| {
        python(FLOOD, lan.b.v4);
    });
    let Some(summary) = ended.map(|ended| ended.summary()) else { return };
    let [sent, suppressed, not_possible] = rejects(&summary);
    assert_eq!((sent + suppressed, not_possible), (30, 0));
    assert!((1..=3).contains(&sent), "{}", summary["rejects"]);
}
