// SPDX-License-Identifier: BSD-3-Clause
//! Tests command lines and files of other generators: the commands of dpdk-project, TRex's
//! `trex_cfg.yaml`, ports by MAC address. Also that instances use different cpus.

use crate::bump::turn;
use crate::lan::{ENDS, Lan};
use crate::new_scratch;
use std::fs;
use std::process::{Command, Output, Stdio};
use testkit::host::{has_cpus, has_root_and};
use testkit::process::{Process, mortal, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the MAC address of an interface, from the kernel.
fn mac_in(ip_link: &str) -> String {
    let words: Vec<_> = ip_link.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "link/ether").expect("it is Ethernet");
    words[at + 1].to_owned()
}

/// The commands of the article: a reflector, and a sender whose CSV of intervals the article's
/// notebook reads.
#[test]
fn the_commands_of_dpdk_project_run_as_they_are_typed() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) || !has_cpus(2) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    let far = mac_in(&lan.bump.run(&format!("ip link show dev {}", ENDS[0])));
    let near = mac_in(&lan.a.namespace.run(&format!("ip link show dev {}", lan.a.interface)));
    let scratch = new_scratch("dpdk-project");
    let csv = scratch.path("stats.csv");
    let mut reflector = lan.bump.command(PROGRAM);
    reflector.args(["reflect", "dpdk-project", "-l", "0", "--", "reflect", "-p", &far]);
    reflector.args(["-r", "1", "-t", "1"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let reflector = Process::spawn(&mut reflector);
    wait_until("the reflector takes the interface", || {
        lan.bump.run(&format!("tc filter show dev {} ingress", ENDS[0])).contains("mirred")
    });
    let mut sender = lan.a.namespace.command(PROGRAM);
    sender.args(["gen", "dpdk-project", "-l", "0-1", "-n", "4", "--", "sendrecv", "-p", &near]);
    sender.args(["-r", "1", "-t", "1", "-s", &csv, "-i", "100", "--packet-size", "200"]);
    sender.args(["--src", "10.9.0.1", "--src-port-range", "10000-10010", "-R", "50"]);
    sender.args(["--dest", "10.9.0.2:4000", "--dest-mac", &far, "--stats-evict-threshold-secs"]);
    sender.args(["1", "--stats-evict-interval-secs", "60", "--seed", "7", "--burst-size", "32"]);
    let mut sender = Process::spawn(sender.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("ten intervals are written", || {
        fs::read_to_string(&csv).is_ok_and(|text| text.lines().count() > 10)
    });
    sender.signal("INT");
    sender.wait();
    let told = sender.rest_of_stderr();
    let expected =
        format!("millrace: translated into: millrace gen mac={near} --verify --cpus 1,0");
    assert!(told.contains(&expected), "{told}");
    assert!(told.contains("-n has no effect") && told.contains("cpus 1,0"), "{told}");
    drop(reflector);
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let heading: Vec<_> = reader.headers().unwrap().iter().take(5).map(str::to_owned).collect();
    assert_eq!(heading, ["time", "tx_packets", "rx_packets", "drop_rate", "avg_latency"]);
    let lines: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let number = |line: &csv::StringRecord, column: usize| line[column].parse::<f64>().unwrap();
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(number(line, 0), 100.0 * index as f64, "{line:?}");
    }
    let sum = |column: usize| -> f64 { lines.iter().map(|line| number(line, column)).sum() };
    assert!(sum(1) >= 50.0 && sum(2) > 0.0, "{lines:?}");
    assert!(sum(2) <= sum(1), "{lines:?}");
}

#[test]
fn a_mac_address_of_several_interfaces_names_none() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let Some(lan) = Lan::with_plain_cables() else { return };
    let mac = "02:00:00:00:ab:01";
    for end in ENDS {
        lan.bump.run(&format!("ip link set dev {end} address {mac}"));
    }
    let mut command = lan.bump.command(PROGRAM);
    let output = command.args(["reflect", &format!("mac={mac}")]).output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let both = ENDS.iter().all(|end| told.contains(end));
    assert!(both && told.contains("name one of them as the port"), "{told}");
}

/// Frames of a stream file have the addresses of `trex_cfg.yaml`.
#[test]
fn trex_cfg_names_ports_and_addresses() {
    let _turn = turn();
    let scratch = new_scratch("trex-cfg");
    let (config, capture) = (scratch.path("trex_cfg.yaml"), scratch.path("out.pcap"));
    let text = format!(
        "- version: 2\n  interfaces: ['--vdev=net_pcap0,tx_pcap={capture}', dummy]\n  \
         rx_desc: 256\n  tx_desc: 256\n  prefix: millrace-test\n  port_info:\n    \
         - src_mac: [0x02,0,0,0,0xaa,0x01]\n      dest_mac: 02:00:00:00:bb:02\n  platform:\n    \
         master_thread_id: 0\n    latency_thread_id: 0\n    dual_if:\n      \
         - socket: 0\n        threads: [0]\n"
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["gen", "--trex-cfg", &config, "--stream", "count=10 rate=1kpps", "--json", "-"]);
    let output = command.output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("worker 0 on cpu 0"), "{told}");
    assert!(told.contains(&format!("{config}:1: version is ignored")), "{told}");
    let bytes = fs::read(&capture).unwrap();
    // A file header of 24 bytes, then records: a header of 16 and a frame of 60.
    assert_eq!(bytes.len(), 24 + 10 * (16 + 60));
    for record in bytes[24..].chunks_exact(76) {
        assert_eq!(record[16..28], [2, 0, 0, 0, 0xbb, 2, 2, 0, 0, 0, 0xaa, 1]);
    }
}

/// Returns the cpus that this test and its processes may use.
fn cpus() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

/// Runs an `sh` script with a `/run` of its own, so that it sees no other instance.
fn in_own_run(script: &str) -> Output {
    let mut command = mortal("unshare");
    let script = format!("set -e; mount -t tmpfs none /run; mkdir -m 755 /run/millrace; {script}");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", PROGRAM]);
    command.output().unwrap()
}

/// flock(1) of util-linux holds the locks that another instance would hold.
#[test]
fn a_worker_keeps_off_cpus_that_are_locked() {
    if !has_root_and(&["unshare", "flock", "mount"]) || !has_cpus(2) {
        return;
    }
    let _turn = turn();
    let cpus = cpus();
    let run = |locked: &[u32], options: &str| {
        let hold: String =
            locked.iter().map(|cpu| format!("flock /run/millrace/cpu-{cpu}.lock ")).collect();
        let generate = format!("\"$1\" gen net_null0 --quiet --duration 0.2 {options}");
        stderr(&in_own_run(&format!("{hold}{generate}")))
    };
    for free in &cpus {
        let locked: Vec<u32> = cpus.iter().copied().filter(|cpu| cpu != free).collect();
        let told = run(&locked, "");
        assert!(told.contains(&format!("worker 0 on cpu {free}")), "{told}");
        assert!(!told.contains("is shared"), "{told}");
    }
    // Workers and cpus that the user has set are used even if they are taken, with a warning.
    let told = run(&cpus[1..], &format!("--workers {}", cpus.len().min(2)));
    assert!(told.contains("workers 0-1 on cpus"), "{told}");
    assert!(told.contains("is shared with a worker of another instance"), "{told}");
    let told = run(&cpus[..1], &format!("--cpus {}", cpus[0]));
    assert!(told.contains(&format!("cpu {} is shared with a worker", cpus[0])), "{told}");
    // If no cpu is free, one worker shares a cpu.
    let told = run(&cpus, "");
    assert!(told.contains("worker 0 on cpu") && told.contains("is shared"), "{told}");
}

/// Two instances that start one after the other use different cpus. A killed instance leaves no
/// lock.
#[test]
fn a_second_instance_chooses_other_cpus() {
    if !has_root_and(&["unshare", "mount", "flock"]) || !has_cpus(2) {
        return;
    }
    let _turn = turn();
    let script = "set +e
        \"$1\" reflect net_null0 --quiet >/dev/null 2>/run/first & first=$!
        until ls /run/millrace/cpu-*.lock >/dev/null 2>&1; do sleep 0.05; done
        until ! flock -n /run/millrace/cpu-*.lock true; do sleep 0.05; done
        \"$1\" gen net_null0 --quiet --workers 1 --duration 0.2 >/dev/null 2>/run/second
        kill -KILL $first; wait $first 2>/dev/null
        for lock in /run/millrace/cpu-*.lock; do flock -n $lock true || echo held $lock; done
        cat /run/first /run/second; grep -h . /run/millrace/cpu-*.lock";
    let output = in_own_run(script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let cpu = |text: &str| {
        text.split("worker 0 on cpu ")
            .nth(1)?
            .split(|it: char| !it.is_ascii_digit())
            .next()?
            .parse::<u32>()
            .ok()
    };
    let (first, second) = text.split_once("worker 0 on cpu").expect("two instances");
    let second = format!("worker 0 on cpu{second}");
    let (_, last) = second.split_at(10);
    let (first_cpu, second_cpu) = (cpu(&second), cpu(last));
    assert!(first_cpu.is_some() && second_cpu.is_some(), "{first}{second}");
    assert_ne!(first_cpu, second_cpu, "{text}");
    assert!(!text.contains("held") && !text.contains("is shared"), "{text}");
}
