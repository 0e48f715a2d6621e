// SPDX-License-Identifier: BSD-3-Clause
//! Tests access lists with the kernel's TCP, UDP, ICMP and neighbour discovery, between two hosts:
//! connections begin at port A only.

use crate::bump::{Setup, count, total};
use crate::instance::text;
use crate::lan::{Host, Lan};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use testkit::host::has_root_and;
use testkit::process::{Process, wait_until};

pub(crate) const TOOLS: [&str; 7] =
    ["ip", "unshare", "nsenter", "setpriv", "python3", "ping", "ethtool"];

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
action = "permit"
proto = "icmpv6"
icmp_type = "133-137"
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
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.7)
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

/// Opens a connection to each of two ports, and sends a byte over both for each line of its input.
/// Prints which of them came back.
pub(crate) const TWO: &str = "import socket, sys
both = [socket.create_connection((sys.argv[1], port), 2) for port in (80, 81)]
print('open', flush=True)
for line in sys.stdin:
    came = []
    for s in both:
        s.settimeout(1.5)
        try:
            s.sendall(b'x')
            came.append(s.recv(1) == b'x')
        except OSError:
            came.append(False)
    print(came, flush=True)";

/// Sends back what it receives, on two ports.
pub(crate) const ECHO: &str = "import socket, threading
def echo(c):
    for data in iter(lambda: c.recv(9), b''):
        c.sendall(data)
def serve(s):
    while True:
        threading.Thread(target=echo, args=[s.accept()[0]], daemon=True).start()
both = [socket.create_server(('', port)) for port in (80, 81)]
print('ready', flush=True)
threading.Thread(target=serve, args=[both[0]], daemon=True).start()
serve(both[1])";

/// A rule marks the connections that it permits: `ct list` and events show the mark. After a
/// reload, the next packet writes the mark of the new rule.
#[test]
fn rules_mark_the_connections_that_they_permit() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let list = "[[list]]\nname = \"l\"\nport = \"a\"\ndefault = \"permit\"\n";
    let with = |mark: &str| {
        let rule = "[[list.rule]]\naction = \"permit+reflect\"\nproto = \"icmp\"";
        format!("{list}{rule}\nset_mark = \"{mark}\"\n")
    };
    let setup = Setup::new("set-mark").config(&with("0x10/0xf0"));
    let (bump, socket) = lan.start_bump(setup);
    let mut pings = lan.a.namespace.command("ping");
    let pings = Process::spawn(pings.args(["-i", "0.2", lan.b.v4]).stdout(Stdio::null()));
    let ask = |args: &[&str]| text(&socket, args);
    let marked = |mark: &str| ask(&["ct", "list", "--json", "--proto", "icmp", "--mark", mark]);
    wait_until("the rule has marked the connection", || !marked("0x10").is_empty());
    let config = std::fs::read_to_string(bump.path("bump.toml")).unwrap();
    let then = config.replace(&with("0x10/0xf0"), &with("0x1/0xf"));
    assert_ne!(config, then);
    std::fs::write(bump.path("then.toml"), then).unwrap();
    ask(&["ct", "reload", &bump.path("then.toml")]);
    wait_until("the new rule has marked it", || !marked("0x11").is_empty());
    drop(pings);
    bump.finish().assert_balanced();
}

/// A reload cuts the connections that the new lists deny, and no others. The counters of rules
/// survive it.
#[test]
fn a_reload_cuts_what_the_new_lists_deny() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let list = "[[list]]\nname = \"l\"\nport = \"a\"\ndefault = \"permit\"\n";
    let first = format!("{list}rules = \"permit+reflect proto tcp\"\n");
    let setup = Setup::new("cut").config(&first);
    let (bump, socket) = lan.start_bump(setup);
    let piped = |host: &Host, program: &str, args: &[&str]| {
        let mut command = host.namespace.command("python3");
        command.args(["-c", program]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        Process::spawn(&mut command)
    };
    let mut server = piped(&lan.b, ECHO, &[]);
    assert_eq!(server.first_line().trim(), "ready");
    wait_until("A reaches B", || lan.a.namespace.succeeds(&format!("ping -c 1 -W 1 {}", lan.b.v4)));
    let mut client = piped(&lan.a, TWO, &[lan.b.v4]);
    let mut lines = BufReader::new(client.child().stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    let mut exchange = || {
        writeln!(client.child().stdin.as_mut().unwrap(), "again").unwrap();
        lines.next().unwrap().unwrap()
    };
    assert_eq!(exchange(), "[True, True]");
    let ask = |args: &[&str]| text(&socket, args);
    let hits = |rule: usize| {
        let text = ask(&["acl", "show", "--json"]);
        let rules = serde_json::from_str::<serde_json::Value>(&text).unwrap()["rules"].clone();
        count(&rules[rule]["packets"])
    };
    let of_tcp = hits(0);
    assert!(of_tcp >= 8, "{of_tcp}");
    let then = format!("{list}rules = \"deny proto tcp dport 80\\npermit+reflect proto tcp\"\n");
    let config = std::fs::read_to_string(bump.path("bump.toml")).unwrap().replace(&first, &then);
    std::fs::write(bump.path("then.toml"), config).unwrap();
    ask(&["ct", "reload", &bump.path("then.toml")]);
    assert_eq!(exchange(), "[False, True]");
    assert!(hits(0) >= 1 && hits(1) > of_tcp, "{}", ask(&["acl", "show"]));
    drop((client, server));
    bump.finish().assert_balanced();
}

/// Returns the lists of the example that lets connections begin at port A only.
fn lists_of_the_example() -> &'static str {
    let example = include_str!("../../../../etc/new-from-a.toml");
    &example[example.find("[[list]]").unwrap()..]
}

/// Sends LLDP frames, without and with a VLAN tag, over an interface.
const LLDP: &str = "import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
ends = bytes.fromhex('0180c200000e' + '020000000001')
s.send(ends + bytes.fromhex('88cc') + bytes(46))
s.send(ends + bytes.fromhex('8100000788cc') + bytes(46))";

/// Waits for the first LLDP frame, and prints whether one came.
const HEARS: &str = "import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88cc))
s.bind((sys.argv[1], 0x88cc))
s.settimeout(float(sys.argv[2]))
print('ready', flush=True)
try:
    s.recv(2000)
    print('came')
except TimeoutError:
    print('nothing')";

/// ARP is permitted, so connections from A work; LLDP is dropped and counted. After a reload that
/// permits LLDP, it passes.
#[test]
fn of_frames_that_are_not_ip_only_arp_passes() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("frames").config(lists_of_the_example());
    let (bump, socket) = lan.start_bump(setup);
    let piped = |host: &Host, program: &str, args: &[&str]| {
        let mut command = host.namespace.command("python3");
        Process::spawn(command.args(["-c", program]).args(args).stdout(Stdio::piped()))
    };
    let mut servers = [&lan.a, &lan.b].map(|host| piped(host, SERVER, &["80"]));
    servers.iter_mut().for_each(|server| assert_eq!(server.first_line().trim(), "ready"));
    wait_until("A reaches B", || python(&lan.a, CLIENT, &[lan.b.v4, "80"]) == "hello");
    assert_eq!(python(&lan.b, CLIENT, &[lan.a.v4, "80"]), "TimeoutError");
    let ask = |args: &[&str]| text(&socket, args);
    let hits = || {
        let shown = ask(&["acl", "show", "--json"]);
        let rules = serde_json::from_str::<serde_json::Value>(&shown).unwrap()["rules"].clone();
        let of_a = rules.as_array().unwrap().iter().filter(|it| it["list"] == "frames-from-a");
        of_a.map(|rule| count(&rule["packets"])).collect::<Vec<_>>()
    };
    let hears = |seconds: &str| {
        let mut listener = piped(&lan.b, HEARS, &[lan.b.interface, seconds]);
        let output = BufReader::new(listener.child().stdout.take().unwrap());
        let mut lines = output.lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        python(&lan.a, LLDP, &[lan.a.interface]);
        lines.next().unwrap()
    };
    assert_eq!(hears("1"), "nothing");
    wait_until("both frames are counted", || hits()[1] >= 2);
    assert!(hits()[0] >= 1, "ARP");
    let offload = ask(&["acl", "offload"]);
    assert!(offload.contains("list \"frames-from-a\" judges frames that are not IP"), "{offload}");
    let config = std::fs::read_to_string(bump.path("bump.toml")).unwrap();
    let then = config.replace("ether_type = \"arp\"", "ether_type = [\"arp\", \"lldp\"]");
    std::fs::write(bump.path("then.toml"), then).unwrap();
    ask(&["ct", "reload", &bump.path("then.toml")]);
    assert_eq!(hears("10"), "came");
    let ended = bump.finish();
    drop(servers);
    ended.assert_balanced();
    let summary = ended.summary();
    assert!(count(&summary["drops"]["denied"]) >= 3, "{}", summary["drops"]);
}

fn connections_begin_at_port_a_only(name: &str, config: &str) {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new(name).config(config);
    let (bump, _) = lan.start_bump(setup);
    let serve = |host: &Host| {
        let mut command = host.namespace.command("python3");
        command.args(["-c", SERVER, "80"]).stdout(Stdio::piped());
        let mut server = Process::spawn(&mut command);
        assert_eq!(server.first_line().trim(), "ready");
        server
    };
    let servers = [serve(&lan.a), serve(&lan.b)];
    for (to_b, to_a) in [(lan.b.v4, lan.a.v4), (lan.b.v6, lan.a.v6)] {
        // ARP and neighbour discovery work in both directions, and duplicates are looked for first.
        wait_until("A reaches B", || python(&lan.a, CLIENT, &[to_b, "80"]) == "hello");
        assert_eq!(python(&lan.b, CLIENT, &[to_a, "80"]), "TimeoutError", "{to_a}");
    }
    let ping = |host: &Host, to: &str, wait_s: &str| {
        host.namespace.succeeds(&format!("ping -c 1 -W {wait_s} {to}"))
    };
    assert!(ping(&lan.a, lan.b.v4, "2") && ping(&lan.a, lan.b.v6, "2"));
    assert!(!ping(&lan.b, lan.a.v4, "0.5") && !ping(&lan.b, lan.a.v6, "0.5"));
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
