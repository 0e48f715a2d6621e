// SPDX-License-Identifier: BSD-3-Clause
//! Tests runs that cannot start. The message names the port, option or file, and the remedy. The
//! exit status distinguishes a wrong command line from a failed run.

use crate::bump::Setup;
use testkit::capture::write_pcap;

/// Checks that a run with `pair` fails, with a message that contains `texts`.
#[track_caller]
fn assert_fails(pair: [&str; 2], texts: &[&str]) {
    Setup::new("fails").pair(pair[0], pair[1]).assert_refused(1, texts);
}

/// Checks that `pair` and `args` are a usage error, with a message that contains `texts`.
#[track_caller]
fn assert_wrong_use(pair: [&str; 2], args: &[&str], texts: &[&str]) {
    Setup::new("usage").pair(pair[0], pair[1]).args(args).assert_refused(2, texts);
}

#[test]
fn a_port_that_no_driver_takes_is_named() {
    let texts = ["port `net_nonsense0`", "no driver takes it", "net_af_packet0,iface=eth1"];
    assert_fails(["net_nonsense0", "net_null0"], &texts);
    let texts = ["port `0000:fe:1f.7`", "there is no PCI device with this address"];
    assert_fails(["net_null0", "0000:fe:1f.7"], &texts);
}

#[test]
fn a_port_whose_driver_refuses_is_named_with_the_reason() {
    let texts = ["port `net_pcap0,rx_pcap=/nowhere.pcap`", "No such file or directory"];
    assert_fails(["net_pcap0,rx_pcap=/nowhere.pcap", "net_null0"], &texts);
    let texts = ["port `net_af_packet0,iface=nowhere`: there is no Linux interface nowhere"];
    assert_fails(["net_af_packet0,iface=nowhere", "net_null0"], &texts);
    assert_fails(["lo", "net_null0"], &["port `lo`: it is the loopback interface"]);
}

#[test]
fn a_port_whose_driver_is_silent_is_named_with_what_it_takes() {
    let why = "its driver does not say why: a parameter may be wrong, unknown to it or missing";
    let texts = ["port `net_null0,nonsense=1`", why, "its driver takes size=<int> copy=<int>"];
    assert_fails(["net_null0,nonsense=1", "net_null1"], &texts);
    let why = "it needs the argument iface=..., as in net_af_packet0,iface=...";
    let texts = ["port `net_af_packet0`", why, "its driver takes iface=<string> qpairs=<int>"];
    assert_fails(["net_af_packet0", "net_null0"], &texts);
}

#[test]
fn arguments_that_dpdk_does_not_take_are_named_and_nothing_else_is_printed() {
    for (extra, reason) in [("--bogus", "\n  EAL: unrecognized option '--bogus'"), ("stray", "")] {
        let setup = Setup::new("extra").config(&format!("[eal]\nextra = [\"{extra}\"]\n"));
        let ended = setup.pair("net_null0", "net_null1").run();
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(1), ""));
        let told = format!("eal.extra: EAL does not take these arguments: {extra}{reason}");
        assert_eq!(ended.stderr, format!("millrace: {told}\n"));
    }
    let setup = Setup::new("help").config("[eal]\nextra = [\"-v\", \"--help\"]\n");
    let texts = ["bump.toml:", "eal.extra[1]: \"--help\" makes DPDK print its options and exit"];
    setup.pair("net_null0", "net_null1").assert_refused(1, &texts);
}

#[test]
fn a_port_has_one_place() {
    let texts = ["--pair", "net_null0", "already a port"];
    assert_wrong_use(["net_null0", "net_null0"], &[], &texts);
    let texts = ["--pair", "pair[1].a", "net_null1", "already a port"];
    let second = ["--pair", "net_null1,size=60,net_null2"];
    assert_wrong_use(["net_null0", "net_null1"], &second, &texts);
    let texts = ["Linux interface lo already belongs to a port"];
    assert_wrong_use(["net_af_packet0,iface=lo", "net_af_packet1,iface=lo"], &[], &texts);
}

#[test]
fn workers_without_a_queue_or_a_cpu_are_refused() {
    let texts = ["--workers", "128 cpus"];
    assert_wrong_use(["net_null0", "net_null1"], &["--workers", "128"], &texts);
    if testkit::host::has_cpus(2) {
        let setup = Setup::new("queues");
        let capture = setup.path("a");
        write_pcap(&capture, &[]);
        let port = format!("net_pcap0,rx_pcap={capture}");
        let texts = [&format!("port `{port}` (net_pcap)"), "has 1 receive queue", "2 are needed"];
        setup.pair(&port, "net_null0").args(&["--workers", "2"]).assert_refused(1, &texts);
    }
}

/// Opening DPDK and the interfaces takes seconds, and interrupts their traffic.
#[test]
fn a_place_for_no_socket_is_refused_before_dpdk_starts() {
    let long = format!("/tmp/{}", "x".repeat(94));
    let cases = [
        ("/nowhere/x.sock", "/nowhere/x.sock: the folder /nowhere: No such file or directory"),
        (&long, "may have at most 98 bytes, but this one has 99; choose a shorter one (--socket)"),
    ];
    for (socket, text) in cases {
        let setup = Setup::new("socket").pair("net_null0", "net_null1");
        let ended = setup.duration("0.1").args(&["--socket", socket]).run();
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
        // The line about the cpus of workers is printed when DPDK has started.
        let all = std::fs::read_to_string(ended.path("err")).unwrap();
        assert_eq!(all, ended.stderr);
    }
}

#[test]
fn what_is_no_device_gets_a_way_to_name_one() {
    let texts = ["--pair", "\"18:00\" is not a port", "write a Linux interface (eth1)"];
    assert_wrong_use(["18:00", "net_null0"], &[], &texts);
}

#[test]
fn what_a_file_says_is_refused_with_status_1() {
    let texts = ["bump.toml: pair: no pair of ports", "--pair A,B"];
    Setup::new("no-pair").assert_refused(1, &texts);
    let setup = Setup::new("little").config("[eal]\nmbufs = 16384\nmemory_mb = 64\n");
    let texts = ["bump.toml:", "eal.memory_mb", "64 MB are too little"];
    setup.pair("net_null0", "net_null1").assert_refused(1, &texts);
}

#[test]
fn a_wrong_command_line_is_status_2_whatever_the_file_says() {
    let setup = Setup::new("both").config("[eal]\nmbuffs = 16384\n");
    let texts = ["bump.toml:", "eal.mbuffs", "--pair: pair[0]: \"18:00\" is not a port"];
    setup.pair("18:00", "net_null1").assert_refused(2, &texts);
}

#[test]
fn wrong_flags_are_wrong_use() {
    for (args, text) in [
        (&["--workers", "0"][..], "--workers"),
        (&["--nonsense"], "--nonsense"),
        (&["--pair"], "--pair"),
    ] {
        assert_wrong_use(["net_null0", "net_null1"], args, &[text]);
    }
    let setup = Setup::new("usage").pair("net_null0", "net_null1").duration("0");
    setup.assert_refused(2, &["--duration", "more than 0 seconds"]);
}
