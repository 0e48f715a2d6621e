// SPDX-License-Identifier: BSD-3-Clause
//! Tests access lists with the kernel's TCP, UDP, ICMP and neighbour discovery, between two hosts:
//! connections begin at port A only.

use crate::bump::{Setup, count, total};
use crate::lan::{Host, Lan};
use testkit::host::has_root_and;
use testkit::process::wait_until;

const TOOLS: [&str; 7] = ["ip", "unshare", "nsenter", "setpriv", "python3", "ping", "ethtool"];

/// The first policy that people want, in two lines.
const NEW_FROM: &str = "[acl]\nnew_from = \"a\"\n";

/// The same, rule by rule, as tables and as text.
const LISTS: &str = r#"
[[list]]
name = "requests"
port = "A"
direction = "in"
default = "deny"
[[list.rule]]
action = "permit+reflect"
ct = ["new"]

[[list]]
name = "answers"
port = "B"
default = "deny"
rules = """
# Neighbour discovery is no connection.
permit proto icmpv6 icmp-type 133-137
permit ct established,related,reply
"""
"#;

/// Connects to a port, and prints the answer or the error.
const CLIENT: &str = "import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.5)
    print(s.recv(9).decode())
except OSError as error:
    print(type(error).__name__)";

/// Accepts connections to all addresses, and answers with a word.
const SERVER: &str = "import socket, sys
s = socket.create_server(('::', int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print('ready', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b'hello')
    c.close()";

/// Sends a datagram to a port that nobody has, and prints the error that comes back.
const ASKS: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1.5)
s.connect((sys.argv[1], 9))
s.send(b'x')
try:
    s.recv(9)
except OSError as error:
    print(type(error).__name__)";

fn python(host: &Host, program: &str, args: &[&str]) -> String {
    let output = host.namespace.command("python3").args(["-c", program]).args(args).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

fn connections_begin_at_port_a_only(name: &str, config: &str) {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new(name).config(config);
    let [a, b] = Lan::ports();
    lan.set_up();
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    lan.assign_addresses();
    let serve = |host: &Host| {
        let mut command = host.namespace.command("python3");
        command.args(["-c", SERVER, "80"]).stdout(std::process::Stdio::piped());
        let mut server = testkit::process::Process::spawn(&mut command);
        assert_eq!(server.first_line().trim(), "ready");
        server
    };
    let servers = [serve(&lan.a), serve(&lan.b)];
    for (to_b, to_a) in [(lan.b.v4, lan.a.v4), (lan.b.v6, lan.a.v6)] {
        // ARP and neighbour discovery work in both directions, and duplicates are looked for first.
        wait_until("A reaches B", || python(&lan.a, CLIENT, &[to_b, "80"]) == "hello");
        assert_eq!(python(&lan.b, CLIENT, &[to_a, "80"]), "TimeoutError", "{to_a}");
    }
    let ping = |host: &Host, to: &str| host.namespace.succeeds(&format!("ping -c 1 -W 1 {to}"));
    assert!(ping(&lan.a, lan.b.v4) && ping(&lan.a, lan.b.v6));
    assert!(!ping(&lan.b, lan.a.v4) && !ping(&lan.b, lan.a.v6));
    assert_eq!(python(&lan.a, ASKS, &[lan.b.v4]), "ConnectionRefusedError");
    let ended = bump.finish();
    drop(servers);
    ended.assert_balanced();
    let summary = ended.summary();
    let denied = count(&summary["drops"]["denied"]);
    assert!(denied >= 4 && total(&summary["drops"]) == denied, "{}", summary["drops"]);
    assert!(count(&summary["passed"]["related"]) >= 1, "{}", summary["passed"]);
}

#[test]
fn connections_begin_at_port_a_only_by_one_setting() {
    connections_begin_at_port_a_only("new_from", NEW_FROM);
}

#[test]
fn connections_begin_at_port_a_only_by_lists() {
    connections_begin_at_port_a_only("lists", LISTS);
}
