// SPDX-License-Identifier: BSD-3-Clause
//! Tests which command lines of Millrace those of dpdk-project become.

use super::*;

const MAC: &str = "02:00:00:00:00:0a";

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns the command line of Millrace, quoted, and the notes.
fn translated(line: &str) -> (String, Vec<String>) {
    let found = translation(&words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    let quoted: Vec<_> = found.words.iter().map(|word| quote(word)).collect();
    (quoted.join(" "), found.notes)
}

#[test]
fn the_command_of_the_article_is_translated() {
    let line = format!(
        "-l 0-1 -- sendrecv -p {MAC} -r 1 -t 1 -s stats.csv -i 100 --stats-evict-interval-secs 60 \
         --stats-evict-threshold-secs 10 --packet-size 1000 --src 10.0.0.1 \
         --src-port-range 10000-11000 --dest 10.0.0.2:4000 --dest-mac 02:00:00:00:00:0B \
         --seed 7 -R 12500 --burst-size 32"
    );
    let (command, notes) = translated(&line);
    let expected = format!(
        "gen mac={MAC} --verify --cpus 1,0 --late 10 --seed 7 --tx-burst 32 --csv stats.csv \
         --interval 0.1 --stream 'size=1046 rate=125000pps burst=32 src=10.0.0.1 \
         sport=10000-11000 dst=10.0.0.2 dport=4000 dst_mac=02:00:00:00:00:0b' --quiet"
    );
    assert_eq!(command, expected);
    assert_eq!(
        notes,
        ["--stats-evict-interval-secs has no effect: intervals are written as they end"]
    );
}

#[test]
fn defaults_are_those_of_dpdk_project() {
    let (command, notes) = translated(&format!("-- sendrecv -p {MAC}"));
    let expected = format!(
        "gen mac={MAC} --verify --late 10 --seed 4107683144946382073 --stream \
         'size=1046 rate=max sport=10000-11000'"
    );
    assert_eq!((command, notes), (expected, Vec::new()));
}

#[test]
fn queues_have_cpus_receivers_first() {
    let told = |eal: &str, queues: &str| {
        let (command, notes) = translated(&format!("{eal} -- sendrecv -p {MAC} {queues}"));
        let (_, rest) = command.split_once("--verify ").unwrap();
        (rest.split_once(" --late").unwrap_or(("", "")).0.to_owned(), notes)
    };
    let (command, notes) = told("-l 0-3", "-r 1 -t 3");
    assert_eq!(command, "--cpus 1-3,0 --senders 3 --receivers 1");
    assert_eq!(notes, [""; 0]);
    // Fewer cpus than queues: workers have several.
    let (command, _) = told("-l 2", "-r 2 -t 1");
    assert_eq!(command, "--cpus 2 --senders 1 --receivers 2");
    let (command, notes) = told("-c 0xd1", "");
    assert_eq!(command, "--cpus 4,0");
    assert_eq!(notes, ["-l: no worker is left for cpus 6-7"]);
}

#[test]
fn small_packets_and_odd_rates_are_reported() {
    let (command, notes) = translated("-- sendrecv -p eth1 --packet-size 16 -i 300 -R 100");
    let stream = "'size=64 rate=333.3333333333333pps sport=10000-11000'";
    assert!(command.starts_with("gen eth1 ") && command.ends_with(stream), "{command}");
    assert_eq!(notes, ["--packet-size 16: the payload has 18 bytes: the shortest frame has 64"]);
    let (command, _) = translated("-- sendrecv -p eth1 --payload dpdk-project --packet-size 18");
    assert!(
        command.contains("--payload dpdk-project") && command.contains("size=64 "),
        "{command}"
    );
    let (command, _) = translated("-- sendrecv -p eth1 -s f -i 2000");
    assert!(command.contains("--interval 2 ") && !command.contains("--quiet"), "{command}");
}

#[test]
fn a_burst_is_handed_over_at_once() {
    let (command, notes) = translated("-- sendrecv -p eth1 --burst-size 100");
    assert!(command.contains(" --tx-burst 64 ") && !command.contains(" burst="), "{command}");
    assert_eq!(notes, ["--burst-size 100: the port gets at most 64 packets at once"]);
    let (command, notes) = translated("-- reflect -p eth1 --burst-size 8");
    assert_eq!((command.as_str(), notes.len()), ("reflect eth1 --tx-burst 8", 0));
}

#[test]
fn the_reflector_is_translated() {
    let (command, notes) = translated(&format!("-l 0 -n 4 -- reflect -p {MAC} -r 2 -t 1 -s f"));
    assert_eq!(command, format!("reflect mac={MAC} --queues 2 --cpus 0"));
    assert_eq!(
        notes,
        [
            "-n has no effect: Millrace has no such setting",
            "-r 2 -t 1: the reflector has equally many receive and transmit queues",
            "-s has no effect: --json FILE has the counters of a reflector",
        ]
    );
}

#[test]
fn devices_of_eal_are_ports() {
    let vdev = "--vdev=net_twin0,wire=a";
    let (command, notes) = translated(&format!("{vdev} -- reflect -p {MAC}"));
    assert_eq!(command, "reflect net_twin0,wire=a");
    assert_eq!(notes, [format!("-p {MAC} is replaced by net_twin0,wire=a")]);
    let (command, _) = translated("-a 0000:18:00.0,a=b --no-huge -- reflect");
    assert_eq!(command, "reflect 0000:18:00.0,a=b");
    let (command, _) = translated(&format!("{vdev} -- reflect -p net_twin0,wire=a"));
    assert_eq!(command, "reflect net_twin0,wire=a");
    // Two MAC addresses of ports without devices.
    let (command, _) = translated(&format!("-- reflect -p {MAC} 02:00:00:00:00:0b"));
    assert_eq!(command, format!("reflect mac={MAC},mac=02:00:00:00:00:0b"));
}

#[test]
fn what_is_wrong_is_refused() {
    for (line, expected) in [
        ("-l 0", "write the options of EAL, then --, then sendrecv or reflect"),
        ("-- sendrecv", "name the port: -p MAC"),
        ("-- send -p eth1", "[possible values: sendrecv, reflect]"),
        ("-l a -- reflect -p eth1", "-l a: must be cpus from 0 to 1023"),
        ("-l 0@1 -- reflect -p eth1", "maps of lcores are not supported"),
        ("-c 0x -- reflect -p eth1", "-c 0x: write a mask of cpus"),
        ("--file-prefx=a -- reflect -p eth1", "--file-prefix"),
        ("--proc-type=secondary -- reflect -p eth1", "[possible values: primary, auto]"),
        ("-- sendrecv -p eth1 --packet-size 15", "15 is not in 16..="),
        ("-- sendrecv -p eth1 -i 10", "10 is not in 50.."),
        ("-- sendrecv -p eth1 --src-port-range 2-1", "must be A-B, ports from 0 to 65535"),
        ("-- sendrecv -p eth1 --dest 1.2.3.4", "must be IP:PORT, such as 10.0.0.2:4000"),
        ("-- sendrecv -p eth1 --dest-mac 1:2", "must be a MAC address"),
        ("-- sendrecv -p eth1 --packet-siz 20", "--packet-size"),
        ("--vdev=net_a0 --vdev=net_b0 -- reflect -p 02:00:00:00:00:0a", "name the devices with -p"),
        ("--vdev=net_a0 --vdev=net_b0 --vdev=net_c0 -- reflect", "name the ports: -p, of net_a0"),
    ] {
        let error = translation(&words(line)).expect_err(line).to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn other_command_lines_stay_as_they_are() {
    for line in ["millrace", "millrace gen eth1", "millrace run dpdk-project", "millrace gen"] {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert_eq!(translate(args.clone().into_iter()), args);
    }
}
