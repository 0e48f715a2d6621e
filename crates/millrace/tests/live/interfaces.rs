// SPDX-License-Identifier: BSD-3-Clause
//! Tests Linux interfaces as ports, by name and by devargs. Packets that a host's kernel sends
//! arrive unchanged, the host of the bump does not take part in the traffic, and its interfaces are
//! restored at the end.

use crate::bump::{Bump, Setup, count};
use crate::lan::{ENDS, Host, Lan};
use std::fs;
use std::process::{Command, Stdio};
use testkit::host::{has_root_and, skip};
use testkit::process::{Process, run, wait_until};

const TOOLS: [&str; 8] = ["ip", "tc", "unshare", "nsenter", "setpriv", "python3", "curl", "ping"];
const PAIR: &str = "end-a,end-b";

/// Returns two hosts whose veth pairs have this MTU, with all offloads of the kernel enabled.
fn lan(mtu: u32) -> Option<Lan> {
    if !has_root_and(&TOOLS) {
        return None;
    }
    let lan = Lan::with_plain_cables()?;
    for Host { namespace, interface, .. } in [&lan.a, &lan.b] {
        namespace.run(&format!("ip link set dev {interface} mtu {mtu}"));
    }
    for end in ENDS {
        lan.bump.run(&format!("ip link set dev {end} mtu {mtu}"));
    }
    Some(lan)
}

/// Starts a bump on both interfaces by their names.
fn start(lan: &Lan, setup: Setup) -> Bump {
    let setup = setup.launcher(lan.bump.command("env")).args(&["--pair", PAIR]);
    let bump = setup.start();
    lan.set_up();
    lan.assign_addresses();
    bump
}

/// Returns a text of the settings of the bump's interfaces, to compare before and after a run.
fn state_of_ends(lan: &Lan) -> String {
    let of_end = |end: &str| {
        let link = lan.bump.run(&format!("ip -d -o link show dev {end}"));
        // The kernel adds the root queueing discipline when the interface is first set up.
        let link: Vec<_> =
            link.split_whitespace().filter(|word| !["noop", "noqueue"].contains(word)).collect();
        let offloads = lan.bump.run(&format!("ethtool -k {end}"));
        let sysctl = |key: &str| lan.bump.run(&format!("sysctl -n net.{key}"));
        let arp = sysctl(&format!("ipv4.conf.{end}.arp_ignore"));
        let ipv6 = sysctl(&format!("ipv6.conf.{end}.disable_ipv6"));
        let forwarding = sysctl(&format!("ipv4.conf.{end}.forwarding"));
        format!("{link:?} {offloads} {arp} {ipv6} {forwarding}")
    };
    let all = lan.bump.run("ip -br link").lines().count();
    let tc = lan.bump.run("tc qdisc show").matches("clsact").count();
    format!("{all} devices, {tc} filtered, {}", ENDS.map(of_end).join("\n"))
}

#[track_caller]
fn assert_ping(host: &Host, args: &str) {
    let mut ping = host.namespace.command("ping");
    ping.args(["-c", "2", "-i", "0.02", "-W", "5"]).args(args.split(' '));
    let output = ping.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 0% packet loss"), "{args}: {text}");
}

/// Sends `bytes` of TCP from host B to host A, and checks that they are equal at both ends.
fn assert_tcp(lan: &Lan, setup_path: &str, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|i| (i * 2_654_435_761 >> 11) as u8).collect();
    fs::write(format!("{setup_path}/data"), &data).unwrap();
    let mut server = lan.b.namespace.command("python3");
    server.args(["-m", "http.server", "8080", "--bind", "::", "--directory", setup_path]);
    let _server = Process::spawn(server.stdout(Stdio::null()).stderr(Stdio::null()));
    let probe = "curl --silent --output /dev/null http://[::1]:8080/";
    wait_until("the web server answers", || lan.b.namespace.succeeds(probe));
    for address in [lan.b.v4.to_owned(), format!("[{}]", lan.b.v6)] {
        let copy = format!("{setup_path}/copy");
        let fetch = format!(
            "curl --silent --fail --max-time 60 http://{address}:8080/data --output {copy}"
        );
        lan.a.namespace.run(&fetch);
        assert!(fs::read(&copy).unwrap() == data, "{address}: it arrived otherwise");
    }
}

/// Packets with unfinished checksums or segmentation, and fragments, pass without `ethtool` and
/// `sysctl`.
#[test]
fn named_interfaces_pass_what_hosts_send_by_default() {
    for (mtu, driver) in [(1500, "net_tap"), (9000, "net_af_packet")] {
        let Some(lan) = lan(mtu) else { return };
        let before = state_of_ends(&lan);
        let setup = Setup::new("named").without_flows();
        let folder = setup.path("");
        let bump = start(&lan, setup);
        let told = bump.stderr();
        for end in ENDS {
            let line = format!("port {end}: {driver}, by a tc redirect to mr-{end}; MTU {mtu}");
            assert!(told.contains(&line), "{told}");
        }
        assert_ping(&lan.a, lan.b.v4);
        assert_ping(&lan.a, &format!("-M do -s {} {}", mtu - 28, lan.b.v4));
        assert_ping(&lan.a, &format!("-s {} {}", mtu * 3, lan.b.v4));
        assert_ping(&lan.b, &format!("-s {} {}", mtu * 3, lan.a.v6));
        assert_tcp(&lan, &folder, 2 << 20);
        let ended = bump.finish();
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        let summary = ended.summary();
        let (ledger, drops) = (&summary["ledger"], &summary["drops"]);
        assert_eq!((&ledger["balanced"], count(&ledger["dropped"])), (&true.into(), 0), "{drops}");
        assert_eq!(summary["ports"][0]["name"], ENDS[0], "{}", summary["ports"]);
        // The driver fills in checksums, so connections are tracked.
        assert_eq!(summary["invalid"]["checksum"], 0, "{}", summary["invalid"]);
        assert_eq!(state_of_ends(&lan), before);
    }
}

#[test]
fn a_bump_that_is_killed_leaves_its_interfaces_as_they_were() {
    let Some(lan) = lan(1500) else { return };
    lan.bump.run("sysctl -q -w net.ipv4.ip_forward=1");
    let before = state_of_ends(&lan);
    for pair in [PAIR, "net_af_packet0,iface=end-a,net_af_packet1,iface=end-b"] {
        let setup = Setup::new("killed").launcher(lan.bump.command("env"));
        // With this MTU, Millrace raises the MTU of the interfaces.
        let bump = setup.args(&["--pair", pair, "--mtu", "4000"]).start();
        assert_ne!(state_of_ends(&lan), before);
        bump.signal("KILL");
        bump.wait_for_status();
        wait_until("all is put back", || state_of_ends(&lan) == before);
    }
}

/// If the keeper was killed or stopped, the run itself restores the interfaces.
#[test]
fn a_keeper_that_is_gone_is_done_without() {
    let Some(lan) = lan(1500) else { return };
    let before = state_of_ends(&lan);
    for signal in ["KILL", "STOP"] {
        let setup = Setup::new("keeper").launcher(lan.bump.command("env"));
        let bump = setup.args(&["--pair", PAIR, "--mtu", "4000"]).start();
        run(Command::new("pkill").args(["-P", &bump.id().to_string(), &format!("-{signal}")]));
        assert_eq!(bump.finish().status, Some(0));
        assert_eq!(state_of_ends(&lan), before, "{signal}");
    }
}

#[test]
fn an_interface_whose_address_changes_is_put_back() {
    let Some(lan) = lan(1500) else { return };
    let before = state_of_ends(&lan);
    let link = lan.bump.run("ip -br link show dev end-a");
    let address = link.split_whitespace().nth(2).unwrap();
    let setup = Setup::new("address").launcher(lan.bump.command("env"));
    let bump = setup.args(&["--pair", PAIR]).start();
    lan.bump.run("ip link set dev end-a address 02:00:00:00:aa:01");
    assert_eq!(bump.finish().status, Some(0));
    lan.bump.run(&format!("ip link set dev end-a address {address}"));
    assert_eq!(state_of_ends(&lan), before);
}

/// Interfaces may be renamed during the run, and others may get their names.
#[test]
fn what_is_put_back_is_what_was_changed() {
    let Some(lan) = lan(1500) else { return };
    let arp = |device: &str| lan.bump.run(&format!("sysctl -n net.ipv4.conf.{device}.arp_ignore"));
    let setup = Setup::new("renamed").launcher(lan.bump.command("env"));
    let bump = setup.pair("net_af_packet0,iface=end-a", "net_null0,no-rx=1").start();
    assert_eq!(arp("end-a"), "8\n");
    lan.bump.run("ip link set dev end-a name was-a");
    lan.bump.run("ip link set dev end-b name end-a");
    lan.bump.run("sysctl -q -w net.ipv4.conf.end-a.arp_ignore=3");
    assert_eq!(bump.finish().status, Some(0));
    assert_eq!((arp("was-a"), arp("end-a")), ("0\n".to_owned(), "3\n".to_owned()));
}

#[test]
fn a_second_bump_on_an_interface_is_refused_and_named_the_first() {
    let Some(lan) = lan(1500) else { return };
    let bump = start(&lan, Setup::new("first"));
    let told = format!("process {} uses this interface: only one instance can", bump.id());
    for pair in ["end-a,net_null0", "net_null0,net_af_packet0,iface=end-a"] {
        let mut second = lan.bump.command(env!("CARGO_BIN_EXE_millrace"));
        let output = second.args(["run", "--pair", pair, "--duration", "1"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(&told), "{text}");
    }
    assert_ping(&lan.a, lan.b.v4);
    assert_eq!(bump.finish().status, Some(0));
}

/// The host of the bump has host B's address on another interface. It answers neither host A's ARP
/// requests nor its packets.
#[test]
fn the_host_of_the_bump_keeps_out_of_the_wire() {
    let pairs = [PAIR, "net_af_packet0,iface=end-a,net_af_packet1,iface=end-b"];
    for pair in pairs {
        let Some(lan) = lan(1500) else { return };
        lan.bump.run(&format!("ip address add {}/32 dev lo", lan.b.v4));
        lan.bump.run(&format!("ip address add {}/128 dev lo", lan.b.v6));
        let setup = Setup::new("own").launcher(lan.bump.command("env")).args(&["--pair", pair]);
        let bump = setup.start();
        lan.set_up();
        lan.assign_addresses();
        assert_ping(&lan.a, lan.b.v4);
        assert_ping(&lan.a, lan.b.v6);
        let neighbours = lan.a.namespace.run("ip neigh show");
        let mac = lan.b.mac();
        for address in [lan.b.v4, lan.b.v6] {
            let entry = neighbours.lines().find(|line| line.starts_with(address));
            assert!(entry.is_some_and(|entry| entry.contains(&mac)), "{mac}: {neighbours}");
        }
        assert_eq!(bump.finish().status, Some(0));
    }
}

/// `net_af_packet` truncates packets that are longer than its frames, and the kernel refuses those
/// longer than the MTU. Millrace drops and counts both.
#[test]
fn frames_that_do_not_fit_are_dropped_with_a_reason() {
    let small = "net_af_packet0,iface=end-a,framesz=2048,net_af_packet1,iface=end-b,framesz=2048";
    for (pair, mtu_b, reason) in [(small, 9000, "cut"), (PAIR, 1500, "over_mtu")] {
        let Some(lan) = lan(9000) else { return };
        lan.bump.run(&format!("ip link set dev {} mtu {mtu_b}", ENDS[1]));
        let setup = Setup::new("long").without_flows().launcher(lan.bump.command("env"));
        let bump = setup.args(&["--pair", pair]).start();
        lan.set_up();
        lan.assign_addresses();
        lan.introduce();
        assert_ping(&lan.a, lan.b.v4);
        let received = lan.b.traffic().received.1;
        let long = format!("ping -c 3 -i 0.02 -W 1 -M do -s 8000 {}", lan.b.v4);
        assert!(!lan.a.namespace.succeeds(&long));
        // Hosts send other packets too, but no long ones.
        assert!(lan.b.traffic().received.1 < received + 3 * 1000, "something arrived");
        let ended = bump.finish();
        let summary = ended.summary();
        assert_eq!(count(&summary["drops"][reason]), 3, "{}", summary["drops"]);
        assert_eq!(summary["ledger"]["balanced"], true);
    }
}

/// A packet socket sends frames of any length, from the 14 bytes of an Ethernet header.
#[test]
fn the_shortest_frames_pass_between_named_interfaces() {
    let Some(lan) = lan(1500) else { return };
    let setup = Setup::new("short").launcher(lan.bump.command("env")).args(&["--pair", PAIR]);
    let bump = setup.start();
    // Without addresses, hosts send no other packets.
    lan.set_up();
    let send = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); \
                s.bind((\"host-a\", 0)); \
                s.send(bytes(6) + bytes([2, 0, 0, 0, 0, 1, 8, 0]) + b\".\")";
    assert!(lan.a.namespace.command("python3").args(["-c", send]).status().unwrap().success());
    let ended = bump.finish();
    assert_eq!(ended.summary()["ports"][0]["rx_packets"], 1);
}

/// Frames that the kernel accepts from a port and cannot send are counted.
#[test]
fn frames_for_an_interface_that_went_down_are_counted() {
    for down in ["the interface", "its other end"] {
        let Some(lan) = lan(1500) else { return };
        let bump = start(&lan, Setup::new("down").without_flows());
        lan.introduce();
        assert_ping(&lan.a, lan.b.v4);
        match down {
            "the interface" => lan.bump.run(&format!("ip link set dev {} down", ENDS[1])),
            _ => lan.b.namespace.run(&format!("ip link set dev {} down", lan.b.interface)),
        };
        assert!(!lan.a.namespace.succeeds(&format!("ping -c 5 -i 0.02 -W 1 {}", lan.b.v4)));
        let ended = bump.finish();
        let summary = ended.summary();
        let unsent = count(&summary["ports"][1]["oerrors"]);
        assert!((5..20).contains(&unsent), "{down}: {}", summary["ports"]);
    }
}

/// By default, the kernel leaves the checksums of packets on a veth to hardware.
#[test]
fn checksums_that_nobody_fills_in_are_reported_with_what_to_do() {
    let Some(lan) = lan(1500) else { return };
    let [a, b] = Lan::ports();
    let setup = Setup::new("sums").without_flows().launcher(lan.bump.command("env"));
    let mut bump = setup.pair(&a, &b).start();
    lan.set_up();
    lan.assign_addresses();
    let fetch = format!("curl --silent --max-time 2 http://{}/", lan.b.v4);
    assert!(!lan.a.namespace.succeeds(&fetch));
    bump.wait_for_message("run ethtool -K INTERFACE tx off on the sending host");
    let ended = bump.finish();
    assert_eq!(ended.stderr.matches("checksums are wrong").count(), 2, "{}", ended.stderr);
}

/// `net_af_packet` makes the kernel reassemble IPv4 fragments; Millrace turns that off.
#[test]
fn fragments_pass_net_af_packet_and_its_interface_joins_no_segments() {
    if !has_root_and(&["ethtool"]) {
        return;
    }
    let Some(lan) = lan(1500) else { return };
    for end in ENDS {
        lan.bump.run(&format!("ethtool -K {end} gro on"));
    }
    let is_on = || lan.bump.run(&format!("ethtool -k {}", ENDS[0])).contains("receive-offload: on");
    assert!(is_on());
    let [a, b] = Lan::ports();
    let setup = Setup::new("fragments").without_flows().launcher(lan.bump.command("env"));
    let bump = setup.pair(&a, &b).start();
    assert!(!is_on());
    lan.set_up();
    lan.assign_addresses();
    assert_ping(&lan.a, &format!("-s 5000 {}", lan.b.v4));
    let ended = bump.finish();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    // Two requests and two replies with 4 fragments each.
    let ledger = &ended.summary()["ledger"];
    assert!(count(&ledger["rx"]) >= 16 && ledger["rx"] == ledger["tx"], "{ledger}");
    assert!(is_on());
}

#[test]
fn an_interface_that_cannot_be_a_port_is_refused_with_the_reason() {
    let Some(lan) = lan(1500) else { return };
    let assert_refused = |pair: &str, text: &str| {
        let setup = Setup::new("refused").launcher(lan.bump.command("env"));
        setup.args(&["--pair", pair]).assert_refused(1, &[text]);
    };
    assert_refused(
        "end-a,end-x",
        "port `end-x`: there is no Linux interface end-x; there are lo, end-a, end-b",
    );
    lan.bump.run("ip link set dev end-a up");
    lan.bump.run("ip address add 10.9.0.9/24 dev end-a");
    lan.bump.run("ip route add default via 10.9.0.1 dev end-a");
    assert_refused(PAIR, "port `end-a`: it carries the default route");
    lan.bump.run("ip route del default");
    lan.bump.run("ip link add dev mr-end-b type veth peer name other");
    assert_refused("end-b,net_null0", "a device mr-end-b exists already: ip link delete mr-end-b");
    lan.bump.run("ip link del dev mr-end-b");
    // The second next hop of a multipath default route in another table.
    lan.bump.run("ip link set dev end-b up");
    lan.bump.run("ip address add 10.8.0.9/24 dev end-b");
    let ways = "nexthop via 10.9.0.1 dev end-a nexthop via 10.8.0.1 dev end-b";
    lan.bump.run(&format!("ip route add default table 100 {ways}"));
    assert_refused("end-b,net_null0", "port `end-b`: it carries the default route");
    lan.bump.run("ip route del default table 100");
    if !lan.bump.succeeds("ip link add dev bridge type bridge") {
        skip("no bridge can be made here");
        return;
    }
    lan.bump.run("ip link set dev end-b master bridge");
    assert_refused("end-b,net_null0", "it belongs to a bridge or bond: ip link set end-b nomaster");
}

/// Linux gives a USB NIC a name like this one: 15 characters, the maximum.
#[test]
fn an_interface_with_a_long_name_is_a_port() {
    let Some(lan) = lan(1500) else { return };
    lan.bump.run("ip link set dev end-a name enx001122334455");
    let setup = Setup::new("long-name").launcher(lan.bump.command("env"));
    let bump = setup.pair("enx001122334455", "net_null0,no-rx=1").start();
    assert!(bump.stderr().contains("port enx001122334455: net_tap, by a tc redirect to mr."));
    assert_eq!(bump.finish().status, Some(0));
}

/// In many containers, /proc/sys is read-only. Then Millrace cannot turn off the host's IPv6, which
/// would send packets to the wire.
#[test]
fn a_host_that_cannot_be_kept_out_is_refused() {
    let Some(lan) = lan(1500) else { return };
    let before = state_of_ends(&lan);
    let mut launcher = lan.bump.command("unshare");
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && \
                  exec \"$@\"";
    launcher.args(["--mount", "sh", "-c", script, "sh"]);
    let setup = Setup::new("read-only").launcher(launcher).args(&["--pair", PAIR]);
    setup
        .assert_refused(1, &["port `end-a`: cannot keep the host out: /proc/sys must be writable"]);
    assert_eq!(state_of_ends(&lan), before);
}

/// Runs the commands of the README as they are written there.
#[test]
fn the_quick_start_works_as_it_is_written() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let _turn = crate::bump::turn();
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let readme = readme.unwrap();
    let (_, rest) = readme.split_once("With the Linux network stack").expect("a quick start");
    let (_, block) = rest.split_once("```sh\n").expect("its commands");
    let (block, _) = block.split_once("```").expect("its end");
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_millrace")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    // No other process sees its namespaces, and they end with it.
    let script = format!(
        "mount -t tmpfs none /run && mkdir /run/netns || exit 7\nsudo() {{ \"$@\"; }}\n{block}"
    );
    let mut shell = Command::new("timeout");
    shell.args(["60", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]);
    shell.args(["bash", "-ec", &script]).env("PATH", path).stdin(Stdio::null());
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches(" 0% packet loss").count(), 3, "{text}");
}
