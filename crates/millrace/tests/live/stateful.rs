// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --stateful` against the TCP and UDP of Linux. Clients at port A talk to a
//! program on host A, and a program on host B to servers at port B. Both programs check every byte.
//! The hosts' own counters, their connection tracking and their lists of sockets are witnesses.

use crate::bump::turn;
use crate::lan::{ENDS, Host, Lan};
use crate::{new_scratch, runs_all_cases};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use testkit::host::has_root_and;
use testkit::process::{Process, wait_until};
use testkit::random::Random;
use testkit::scratch::Scratch;

const TOOLS: [&str; 8] = ["ip", "unshare", "nsenter", "setpriv", "python3", "nft", "nstat", "ss"];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/stateful.py");
/// Place in the data where responses begin, as in the script.
const SHIFT: usize = 7;
const DATA: usize = 1 << 18;

/// A kind of connection: a template of the profile, and what the programs of the hosts do.
#[derive(Clone)]
struct Kind {
    proto: &'static str,
    request: usize,
    response: usize,
    /// The end that closes first, as the script names it.
    close: &'static str,
    limit: u32,
    /// Milliseconds that the reader waits, at both kinds of ends.
    pause_ms: u32,
}

impl Kind {
    fn tcp(request: usize, response: usize, close: &'static str) -> Self {
        let limit = if request + response < 10_000 { 20 } else { 3 };
        Self { proto: "tcp", request, response, close, limit, pause_ms: 0 }
    }

    fn udp(request: usize, response: usize) -> Self {
        // A server that waited at its end would take the next datagram of the port for a late one.
        Self { proto: "udp", ..Self::tcp(request, response, "both") }
    }

    /// Returns the actions of the generator's ends.
    fn programs(&self) -> [String; 2] {
        let send = |name: &str, len: usize| format!("{{ send_file = \"{name}-{len}\" }}");
        let (request, response) = (send("request", self.request), send("response", self.response));
        let [late, pause] = [150, self.pause_ms].map(|ms| format!("{{ delay_ms = {ms} }}"));
        let client = match self.close {
            "half" => request,
            _ => format!("{request}, {pause}, {{ receive = {} }}", self.response),
        };
        let server = format!("{pause}, {{ receive = {} }}, {response}", self.request);
        match self.close {
            "client" => [client, format!("{server}, {late}")],
            "server" => [format!("{client}, {late}"), server],
            "reset" => [format!("{client}, \"reset\""), format!("{server}, {late}")],
            _ => [client, server],
        }
    }
}

/// Returns a port for each kind.
fn port(number: usize) -> usize {
    8000 + number
}

/// Writes the profile, and the files that it names; returns its path.
fn write_profile(scratch: &Scratch, net: &Net, kinds: &[Kind], data: &[u8]) -> String {
    let mut profile = format!(
        "clients = \"{}\"\nservers = \"{}\"\n[timeouts]\nretries = 12\nsyn_retries = 8\n",
        net.clients, net.server
    );
    for (number, kind) in kinds.iter().enumerate() {
        std::fs::write(scratch.path(&format!("request-{}", kind.request)), &data[..kind.request])
            .unwrap();
        let response = &data[SHIFT..SHIFT + kind.response];
        std::fs::write(scratch.path(&format!("response-{}", kind.response)), response).unwrap();
        let [client, server] = kind.programs();
        profile += &format!(
            "[[template]]\nproto = \"{}\"\nport = {}\ncps = 100\nlimit = {}\n\
             client = [{client}]\nserver = [{server}]\n",
            kind.proto,
            port(number),
            kind.limit
        );
    }
    let path = scratch.path("profile.toml");
    std::fs::write(&path, profile).unwrap();
    path
}

/// Addresses of a family. The server's is that of host A, and at port B that of the generator.
struct Net {
    clients: &'static str,
    server: &'static str,
    gateways: &'static str,
}

const V4: Net =
    Net { clients: "10.9.0.10-10.9.0.40", server: "10.9.0.1", gateways: "10.9.0.1,10.9.0.2" };
const V6: Net = Net {
    clients: "2001:db8:a::10-2001:db8:a::40",
    server: "2001:db8:a::1",
    gateways: "2001:db8:a::1,2001:db8:a::2",
};

/// Starts a program of a host.
fn start_script(host: &Host, mode: &str, spec: &Value, data: &str) -> Process {
    let mut command = host.namespace.command("python3");
    command.args([SCRIPT, mode, &spec.to_string(), data]);
    Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// Returns the kinds as the script reads them.
fn spec(net: &Net, kinds: &[Kind], is_used: impl Fn(&Kind) -> bool) -> Value {
    let used = kinds.iter().enumerate().filter(|(_, kind)| is_used(kind));
    let kinds = used.map(|(number, kind)| {
        let mut spec = json!({
            "proto": kind.proto, "port": port(number), "request": kind.request,
            "response": kind.response, "close": kind.close, "limit": kind.limit,
        });
        if kind.pause_ms > 0 {
            spec["pause"] = json!(f64::from(kind.pause_ms) / 1000.0);
            spec["buffer"] = json!(4096);
        }
        spec
    });
    json!({ "address": net.server, "kinds": kinds.collect::<Vec<_>>() })
}

/// Counts packets that the connection tracking of a host takes for invalid.
fn watch_conntrack(host: &Host) {
    for rule in [
        "add table inet witness",
        "add counter inet witness invalid",
        "add chain inet witness in { type filter hook input priority 0; }",
        "add chain inet witness out { type filter hook output priority 0; }",
        "add rule inet witness in ct state invalid counter name invalid",
        "add rule inet witness out ct state invalid counter name invalid",
    ] {
        testkit::process::run(host.namespace.command("nft").arg(rule));
    }
}

/// Returns a counter of the host's kernel, by its name in `nstat`.
fn kernel_counter(host: &Host, name: &str) -> u64 {
    let text = host.namespace.run("nstat -asz --json");
    let value: Value = serde_json::from_str(&text).expect("nstat prints JSON");
    value["kernel"][name].as_u64().unwrap_or_else(|| panic!("{name}: {text}"))
}

/// Checks that the host's kernel saw nothing wrong; `resets` connections were reset by the peer.
fn assert_kernel_is_content(host: &Host, resets: u64) {
    for counter in ["TcpInErrs", "TcpInCsumErrors", "TcpAttemptFails", "UdpInErrors"] {
        assert_eq!(kernel_counter(host, counter), 0, "{counter} of {}", host.interface);
    }
    assert_eq!(kernel_counter(host, "TcpEstabResets"), resets, "of {}", host.interface);
    let invalid = host.namespace.run("nft list counter inet witness invalid");
    assert!(invalid.contains("packets 0 "), "{}: {invalid}", host.interface);
}

fn assert_no_sockets_are_left(host: &Host) {
    let open = "ss -Htan exclude time-wait exclude listening exclude closed";
    wait_until("all sockets are closed", || host.namespace.run(open).trim().is_empty());
}

/// Results of the generator, as its text has them.
struct Results(String);

impl Results {
    /// Returns a counter of `clients` or `servers`; 0 if it is not there.
    fn count(&self, end: &str, counter: &str) -> u64 {
        let (_, of_end) = self.0.split_once(&format!("\n{end}:\n")).expect("both ends");
        let lines = of_end.lines().take_while(|line| !line.is_empty());
        let ours = lines.filter_map(|line| line.trim().split_once(' '));
        let mut found = ours.filter(|(_, name)| *name == counter);
        found.next().map_or(0, |(count, _)| count.replace('_', "").parse().expect("a number"))
    }
}

/// Runs all kinds both ways; returns the results, and those of the hosts' programs.
fn run_both_ways(lan: &Lan, net: &Net, kinds: &[Kind], more: &[&str]) -> (Results, [Value; 2]) {
    let scratch = new_scratch("stateful");
    let mut random = Random::new(5);
    let data: Vec<u8> = (0..DATA).map(|_| random.bits() as u8).collect();
    std::fs::write(scratch.path("data"), &data).unwrap();
    let profile = write_profile(&scratch, net, kinds, &data);
    let data = scratch.path("data");
    let mut server = start_script(&lan.a, "server", &spec(net, kinds, |_| true), &data);
    let mut command = lan.bump.command(env!("CARGO_BIN_EXE_millrace"));
    command.args(["gen", &ENDS.join(","), "--stateful", &profile, "--gateway", net.gateways]);
    command.args(["--workers", "1", "--capacity", "5k", "--interval", "0.1"]).args(more);
    let out = File::create(scratch.path("out")).unwrap();
    command.stdout(out.try_clone().unwrap()).stderr(out);
    let mut generator = Process::spawn(&mut command);
    wait_until("the generator runs", || {
        assert!(generator.ended().is_none(), "{}", scratch.read("out"));
        scratch.read("out").contains("conn/s")
    });
    // A connection that its client resets has failed at the generator's server.
    let of_client = spec(net, kinds, |kind| kind.close != "reset");
    let mut client = start_script(&lan.b, "client", &of_client, &data);
    let of_client = client.rest_of_stdout();
    let mut lines = BufReader::new(server.child().stdout.take().expect("a pipe")).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "done"), "{}", scratch.read("out"));
    generator.signal("INT");
    generator.wait();
    drop(server.child().stdin.take());
    let of_server = lines.next().expect("a line").unwrap();
    let results = Results(scratch.read("out"));
    let read = |text: &str| {
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}\n{}", results.0))
    };
    let values = [read(&of_server), read(&of_client)];
    (results, values)
}

/// Checks that all connections completed with their data intact. Datagrams may be lost.
#[track_caller]
fn assert_all_completed(kinds: &[Kind], results: &Results, hosts: &[Value; 2]) {
    let is_lossy = results.0.contains("frames impaired on purpose");
    for (end, value) in [("clients", &hosts[0]), ("servers", &hosts[1])] {
        let is_used = |kind: &&Kind| end == "clients" || kind.close != "reset";
        let of = |proto: &str| {
            let kinds = kinds.iter().filter(is_used).filter(|kind| kind.proto == proto);
            kinds.map(|kind| u64::from(kind.limit)).sum::<u64>()
        };
        let (completed, all) = (results.count(end, "completed"), of("tcp") + of("udp"));
        let context = format!("{end}: {value:#}\n{}", results.0);
        if is_lossy {
            assert!((of("tcp")..=all + 8).contains(&completed), "{context}");
            let again = ["timeout retransmits", "fast retransmits", "syn retransmits"];
            let count = |end| again.map(|name| results.count(end, name)).iter().sum::<u64>();
            assert!(count("clients") + count("servers") > 0, "{context}");
        } else {
            assert_eq!((completed, results.count(end, "attempted")), (all, all), "{context}");
            assert_eq!(value["faults"], 0, "{context}");
        }
        for (number, kind) in kinds.iter().enumerate().filter(|(_, kind)| is_used(kind)) {
            let counted = value["completed"][&port(number).to_string()].as_u64().unwrap_or(0);
            let least = u64::from(if kind.proto == "udp" { kind.limit / 2 } else { kind.limit });
            assert!(counted >= least, "{number} {context}");
        }
        for failure in ["no syn ack", "reset", "timeout", "wrong data", "closed early"] {
            assert!(results.count(end, failure) == 0, "{failure}: {context}");
        }
    }
}

/// Sizes around those of segments and windows, closed by each end first, by both at the same time,
/// and with half-closed connections. There are `factor` times as many if all cases run.
fn kinds(factor: u32) -> Vec<Kind> {
    let mut kinds = vec![
        Kind::tcp(1, 1, "client"),
        Kind::tcp(1, 1, "server"),
        Kind::tcp(20, 20, "both"),
        Kind::tcp(20, 20, "reset"),
        Kind::tcp(1460, 1461, "half"),
        Kind::tcp(2920, 1440, "client"),
        Kind::tcp(65_535, 1, "server"),
        Kind::tcp(1, 65_536, "both"),
        Kind::tcp(200_000, 200_000, "client"),
        Kind::tcp(200_000, 200_000, "server"),
        Kind::tcp(200_000, 20, "half"),
        Kind::tcp(1, 200_000, "reset"),
        Kind { pause_ms: 300, limit: 2, ..Kind::tcp(150_000, 150_000, "client") },
        Kind::udp(1, 1),
        Kind::udp(1000, 1452),
    ];
    if runs_all_cases() {
        kinds.iter_mut().for_each(|kind| kind.limit *= factor);
    }
    kinds
}

fn prepare() -> Option<Lan> {
    let lan = Lan::with_plain_cables()?;
    lan.set_up();
    lan.assign_addresses();
    Some(lan)
}

#[test]
fn linux_completes_every_connection_both_ways() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let _turn = turn();
    let kinds = kinds(25);
    // The other version takes the bad link.
    let nets = if runs_all_cases() { &[V4, V6][..] } else { &[V4] };
    for net in nets {
        let Some(lan) = prepare() else { return };
        [&lan.a, &lan.b].into_iter().for_each(watch_conntrack);
        let (results, hosts) = run_both_ways(&lan, net, &kinds, &[]);
        assert_all_completed(&kinds, &results, &hosts);
        let resets = kinds.iter().filter(|kind| kind.close == "reset");
        assert_kernel_is_content(&lan.a, resets.map(|kind| u64::from(kind.limit)).sum());
        assert_kernel_is_content(&lan.b, 0);
        [&lan.a, &lan.b].into_iter().for_each(assert_no_sockets_are_left);
    }
}

/// Clients at the only port reach the first server by themselves. Its MTU is small, it still has
/// each tuple in TIME-WAIT when it is used again, and nobody listens on two ports.
#[test]
fn refusals_of_linux_are_counted_and_tuples_are_used_again() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.a.namespace.run(&format!("ip link set dev {} mtu 600", lan.a.interface));
    lan.bump.run(&format!("ip link set dev {} mtu 600", ENDS[0]));
    lan.set_up();
    lan.a.assign(lan.a.interface, V4.server);
    let scratch = new_scratch("stateful-refusals");
    let data: Vec<u8> = (0..DATA).map(|place| (place % 251) as u8).collect();
    std::fs::write(scratch.path("data"), &data).unwrap();
    let net = Net { clients: "10.9.0.10-10.9.0.12", ..V4 };
    let kinds = [Kind { limit: 30, ..Kind::tcp(5000, 5000, "server") }];
    let path = write_profile(&scratch, &net, &kinds, &data);
    let mut profile = "client_ports = \"2000-2004\"\n".to_owned();
    profile +=
        &scratch.read("profile.toml").replace("retries = 12", "reuse_ms = 50\nanswer_ms = 300");
    profile = profile.replace("cps = 100", "cps = 50");
    for proto in ["tcp", "udp"] {
        profile += &format!(
            "[[template]]\nproto = \"{proto}\"\nport = 9999\ncps = 50\nlimit = 10\n\
             client = [{{ send = 1 }}, {{ receive = 1 }}]\n\
             server = [{{ receive = 1 }}, {{ send = 1 }}]\n"
        );
    }
    std::fs::write(&path, profile).unwrap();
    let mut server =
        start_script(&lan.a, "server", &spec(&net, &kinds, |_| true), &scratch.path("data"));
    let mut lines = BufReader::new(server.child().stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let mut command = lan.bump.command(env!("CARGO_BIN_EXE_millrace"));
    command.args(["gen", ENDS[0], "--stateful", &path, "--ends", "client", "--duration", "1"]);
    let output = command.args(["--workers", "1", "--interval", "0.1"]).output().unwrap();
    drop(server.child().stdin.take());
    let of_server: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
    let results = Results(String::from_utf8(output.stdout).unwrap());
    let context = format!("{of_server}\n{}", results.0);
    assert_eq!(output.status.code(), Some(1), "{context}");
    // The host says by ICMP that nobody has the UDP port.
    let counters = ["attempted", "completed", "reset", "refused", "no answer", "syn retransmits"];
    let counted = counters.map(|counter| results.count("clients", counter));
    assert_eq!(counted, [50, 30, 10, 10, 0, 0], "{context}");
    assert_eq!(of_server["completed"][port(0).to_string()], 30, "{context}");
    let counted = ["TcpOutRsts", "UdpNoPorts", "TcpInErrs"].map(|it| kernel_counter(&lan.a, it));
    assert_eq!(counted, [10, 10, 0], "{context}");
}

/// Frames that the stage impairs are counted, in both directions of both ports.
fn assert_impairments_are_counted(results: &Results) {
    let (_, text) = results.0.split_once("frames impaired on purpose:\n").expect("counters");
    let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).collect();
    for impairment in ["lost", "duplicated", "reordered", "damaged"] {
        for direction in ["sent", "received"] {
            let of = format!("{impairment}, {direction} at port");
            let count = lines.iter().filter(|line| line.contains(&of)).count();
            assert_eq!(count, 2, "{of}: {lines:?}");
        }
    }
}

#[test]
fn linux_completes_every_connection_over_a_bad_link() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let _turn = turn();
    // Timeouts make them slow.
    let mut kinds = kinds(4);
    // A RST that is lost is not sent again. Large transfers wait for many timeouts.
    let is_short = |kind: &Kind| kind.request + kind.response <= 200_020 && kind.pause_ms == 0;
    kinds.retain(|kind| kind.close != "reset" && (runs_all_cases() || is_short(kind)));
    let nets = if runs_all_cases() { &[V4, V6][..] } else { &[V6] };
    for net in nets {
        let Some(lan) = prepare() else { return };
        let impair = "loss=1%,dup=1%,reorder=1%,corrupt=1%,delay=0.2ms";
        let (results, hosts) =
            run_both_ways(&lan, net, &kinds, &["--impair", impair, "--seed", "3"]);
        assert_all_completed(&kinds, &results, &hosts);
        assert_impairments_are_counted(&results);
    }
}
