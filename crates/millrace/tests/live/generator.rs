// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen` and `millrace reflect` over the software NIC and between network
//! namespaces, and arguments that are refused.

use crate::bump::{count, turn};
use crate::cycles::assert_work_of_all;
use crate::lan::{ENDS, Lan};
use crate::new_scratch;
use crate::peer::{Testpmd, at};
use crate::twin::driver;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use testkit::host::{has_root_and, has_tools};
use testkit::process::{Process, wait_until};
use testkit::scratch::Scratch;

const TWINS: &str = "net_twin0,wire=gen,net_twin1,wire=gen";

fn millrace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {stderr}"))
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Returns the sum of packets that ports missed: losses of the receiver when other programs use its
/// cpu.
fn missed(results: &Value) -> u64 {
    let ports = results["ports"].as_array().unwrap();
    ports.iter().map(|port| count(&port["imissed"])).sum()
}

#[test]
fn a_selftest_finds_all_that_its_wire_does() {
    let _turn = turn();
    let output = millrace(&["gen", "--selftest", "--seed", "7"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("good: every one was found"), "{}", text(&output));
}

#[test]
fn what_a_receiver_missed_is_what_is_lost() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let streams = ["count=20000 rate=200kpps sport=1024-2047", "side=b count=5000 rate=50kpps"];
    let scratch = new_scratch("intervals");
    let csv = scratch.path("intervals.csv");
    let mut args = vec!["gen", TWINS, "--verify", "--json", "-", "--csv", &csv];
    let page = scratch.path("page.html");
    args.extend(["--interval", "0.05", "--html", &page]);
    args.extend(streams.iter().flat_map(|stream| ["--stream", stream]));
    let output = millrace(&args);
    let results = json(&output);
    let of_streams = results["verified"]["streams"].as_array().unwrap();
    let sent: Vec<_> = of_streams.iter().map(|stream| count(&stream["sent"])).collect();
    assert_eq!(sent, [20_000, 5000]);
    let lost = count(&results["verified"]["lost"]);
    assert_eq!(lost, missed(&results), "{results:#}");
    assert_eq!(count(&results["received"]["packets"]), 25_000 - lost);
    assert_eq!((count(&results["verified"]["damaged"]), count(&results["unsent"])), (0, 0));
    assert_eq!(count(&results["verified"]["foreign"]), 0);
    assert_eq!(output.status.code(), Some(i32::from(lost > 0)));
    assert_intervals(&results, lost);
    // The notebook of dpdk-project reads these columns.
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let heading: Vec<_> = reader.headers().unwrap().iter().take(5).map(str::to_owned).collect();
    assert_eq!(heading, ["time", "tx_packets", "rx_packets", "drop_rate", "avg_latency"]);
    let lines: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let sum = |column: usize| -> f64 {
        lines.iter().map(|line| line[column].parse::<f64>().unwrap()).sum()
    };
    assert_eq!(sum(1), 25_000.0);
    assert_eq!(sum(2), 25_000.0 - lost as f64);
    let times: Vec<f64> = lines.iter().map(|line| line[0].parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert_report(&output.stdout, &csv, &page, &scratch);
}

/// A report reads JSON and CSV of one run, and finds equal figures in both.
fn assert_report(results: &[u8], csv: &str, page: &str, scratch: &Scratch) {
    let of_run = std::fs::read_to_string(page).unwrap();
    assert!(of_run.contains("<polyline") && of_run.contains("this run"), "{of_run}");
    let json = scratch.path("results.json");
    std::fs::write(&json, results).unwrap();
    // Replaces the page that the run has written.
    let output = millrace(&["report", &json, csv, "--html", page, "--title", "Both <1>"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let table = text(&output);
    for figure in ["sent", "received", "longest gap of the receiver"] {
        let mut lines = table.lines().map(str::trim);
        let line = lines.find(|line| line.starts_with(&format!("{figure}  "))).expect(&table);
        assert!(line.ends_with("="), "the same in both: {line}");
    }
    let both = std::fs::read_to_string(page).unwrap();
    assert!(both.contains("<h1>Both &lt;1&gt;</h1>") && both.contains(csv), "{both}");
    let refused = |args: &[&str], status: i32, told: &str| {
        let output = millrace(&[&["report"], args].concat());
        let text = text(&output);
        assert!(output.status.code() == Some(status) && text.contains(told), "{args:?}: {text}");
    };
    refused(&[page], 1, "page.html is neither JSON results of `millrace gen` nor CSV");
    refused(&["no-such.json"], 1, "cannot read no-such.json");
    refused(&[&json, "--html", csv], 1, "intervals.csv exists and is not a report of this program");
    refused(&[json.as_str(); 9], 2, "a report compares at most 8 files");
}

/// The intervals add up to the whole run, and the results have what is needed to repeat it.
fn assert_intervals(results: &Value, lost: u64) {
    let intervals = results["intervals"].as_array().unwrap();
    let sum = |member: fn(&Value) -> &Value| -> u64 {
        intervals.iter().map(|interval| count(member(interval))).sum()
    };
    assert_eq!(sum(|it| &it["sent"]["packets"]), count(&results["sent"]["packets"]));
    assert_eq!(sum(|it| &it["received"]["bytes"]), count(&results["received"]["bytes"]));
    assert_eq!(sum(|it| &it["stamped"]), 25_000);
    assert_eq!(sum(|it| &it["lost"]), lost);
    let gaps = intervals.iter().map(|interval| count(&interval["longest_gap_ns"]));
    assert_eq!(gaps.max().unwrap(), count(&results["longest_gap_ns"]));
    let ports = results["ports"].as_array().unwrap();
    let sent = ports.iter().map(|port| count(&port["sent"]["packets"]));
    assert_eq!(sent.collect::<Vec<_>>(), [20_000, 5000]);
    for port in ports.iter().filter(|port| !port["link_mbps"].is_null()) {
        // Bytes on the wire: a frame of 64, preamble and gap.
        let carried = port["link_mbps"].as_f64().unwrap() * 1e6 / (84.0 * 8.0);
        assert!((port["link"]["pps"].as_f64().unwrap() / carried - 1.0).abs() < 1e-9, "{port}");
    }
    let command = results["command"].as_array().unwrap();
    assert!(command[1] == "gen" && command[2] == TWINS, "{command:?}");
    assert_eq!((&results["kind"], &results["seed"]), (&"millrace-gen".into(), &1.into()));
    assert!(results["host"]["kernel"].is_string(), "{}", results["host"]);
}

/// A command line as for TRex. The rate is lower, because other programs may use the cpus.
#[test]
fn the_command_of_the_article_works_as_it_is_typed() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let mut args = vec!["gen", TWINS, "-f", "cap2/imix_fast_1g.yaml", "-m", "0.05", "-p"];
    args.extend(["-c", "3", "-d", "2", "-l", "100", "--json", "-"]);
    let output = millrace(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let told = "cap2/imix_fast_1g.yaml: 1194 tuples, 0.017 Mpps, 0.05 Gb/s on the wire (0.03 from \
                port A, 0.03 from port B)\nmillrace: 3 shares on 1 sender\n";
    assert!(stderr.contains(told), "{stderr}");
    let results = json(&output);
    let probes = results["verified"]["streams"].as_array().unwrap();
    let names: Vec<_> = probes.iter().map(|probe| probe["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["probe A", "probe B"]);
    let sent: u64 = probes.iter().map(|probe| count(&probe["sent"])).sum();
    assert!((1..=2 * 201).contains(&sent), "{sent} probes in 2 s, from two ports");
    let all = count(&results["sent"]["packets"]);
    let expected = (336_570.0 * 0.05 * 2.0) as u64 + sent;
    assert!((sent + 1..expected + expected / 10).contains(&all), "{all} of {expected}");
    assert_eq!(results["verified"]["foreign"], Value::Null);
}

/// tshark reads every frame without a warning.
#[test]
fn a_capture_has_what_was_sent_and_what_was_received() {
    if driver().is_none() || !has_tools(&["tshark"]) {
        return;
    }
    let _turn = turn();
    let scratch = new_scratch("pcapng");
    let file = scratch.path("sample.pcapng");
    let mut args = vec!["gen", TWINS, "--verify", "--json", "-", "--pcapng", &file];
    args.extend([
        "--pcapng-every",
        "10",
        "--stream",
        "count=1000 rate=50kpps size=66,594,1518 vlan=5",
    ]);
    let results = json(&millrace(&args));
    let received = count(&results["received"]["packets"]);
    let tshark = |args: &[&str]| {
        let output = Command::new("tshark").args(["-r", &file]).args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let warnings: Vec<_> = stderr.lines().filter(|line| !line.contains("root")).collect();
        assert!(output.status.success() && warnings.is_empty(), "{warnings:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let directions =
        tshark(&["-T", "fields", "-e", "frame.interface_id", "-e", "frame.packet_flags_direction"]);
    let of = |what: &str| directions.iter().filter(|line| *line == what).count() as u64;
    assert_eq!(of("0\t0x00000002"), 100, "{directions:?}");
    assert_eq!(of("1\t0x00000001"), received.div_ceil(10));
    assert_eq!(tshark(&["-Y", "_ws.expert.severity >= \"Warning\""]).len(), 0);
    let checksums = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    let wrong = ["-Y", "ip.checksum.status != 1 or udp.checksum.status != 1"];
    assert_eq!(tshark(&[&checksums[..], &wrong].concat()), Vec::<String>::new());
    // Time stamps are those of the host's clock.
    let since = tshark(&["-T", "fields", "-e", "frame.time_epoch"])[0].parse::<f64>().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((0.0..600.0).contains(&(now.as_secs_f64() - since)));
}

#[test]
fn a_capture_overwrites_only_those_of_millrace() {
    let _turn = turn();
    let scratch = new_scratch("overwrite");
    let [file, results] = ["sample.pcapng", "results.json"].map(|name| scratch.path(name));
    let send = |port: &str, more: &[&str]| {
        let args = ["gen", port, "--late", "0.05", "--stream", "count=10 rate=1kpps"];
        let output = millrace(&[&args, more].concat());
        (output.status.code(), text(&output))
    };
    // A section header without options, as other programs may write it.
    let header = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28].map(u32::to_ne_bytes);
    std::fs::write(&file, header.concat()).unwrap();
    let (status, told) = send("net_null0", &["--pcapng", &file]);
    assert!(status == Some(1) && told.contains("not a capture of this program"), "{told}");
    assert_eq!(std::fs::read(&file).unwrap(), header.concat());
    std::fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        let (status, told) = send("net_null0", &["--pcapng", &file]);
        assert_eq!(status, Some(0), "{told}");
    }
    let before = std::fs::read(&file).unwrap();
    assert_eq!(send("net_no_such", &["--pcapng", &file]).0, Some(1));
    let of_itself = format!("pcap={file}");
    let (status, told) = send("net_null0", &["--pcapng", &file, "--stream", &of_itself]);
    assert!(status == Some(2) && told.contains("would overwrite a file"), "{told}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // If one output fails, the others are still written.
    let (status, told) = send("net_null0", &["--pcapng", "/dev/full", "--json", &results]);
    assert!(status == Some(1) && told.contains("cannot write /dev/full: No space"), "{told}");
    assert!(std::fs::read_to_string(&results).unwrap().contains("millrace-gen"));
}

/// The generator resolves the address of a reflector by ARP, and queries its counters.
#[test]
fn a_reflector_answers_for_its_address_and_reports_its_counters() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    let program = env!("CARGO_BIN_EXE_millrace");
    let mut reflector = lan.bump.command(program);
    reflector.args(["reflect", ENDS[0], "--quiet", "--json", "-", "--address", "198.18.0.7"]);
    let mut reflector = Process::spawn(reflector.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("its redirect is there", || {
        lan.bump.run("ip -br link").contains("mr-end-a")
            && lan.bump.run(&format!("tc filter show dev {} ingress", ENDS[0])).contains("mirred")
    });
    let mut generator = lan.a.namespace.command(program);
    generator.args(["gen", lan.a.interface, "--verify", "--reflector", "--json", "-"]);
    generator.args(["--gateway", "198.18.0.7"]);
    generator.args(["--stream", "count=2000 rate=5kpps src=198.18.0.1 dst=198.18.0.7"]);
    let results = json(&generator.output().unwrap());
    assert_eq!(count(&results["verified"]["lost"]), 0, "{results:#}");
    let found = &results["ports"][0]["reflector"];
    let counts = ["lost_on_the_way_there", "missed", "lost_on_the_way_back"];
    assert_eq!(counts.map(|member| count(&found[member])), [0; 3], "{found:#}");
    // The counters are those of the run. They include neither earlier packets nor queries.
    assert_eq!(count(&found["reflected"]), 2000, "{found:#}");
    assert_work_of_all(&results["workers"], &["build", "tx", "rx", "verify"]);
    reflector.signal("TERM");
    let printed = reflector.rest_of_stdout();
    let counters: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(counters["ports"][0]["imissed"], 0, "{counters:#}");
    assert_work_of_all(&counters["workers"], &["rx", "build", "tx"]);
}

#[test]
fn the_ways_of_the_baseline_are_compared() {
    let _turn = turn();
    let scratch = new_scratch("baseline");
    let page = scratch.path("baseline.html");
    let args =
        ["bench", "baseline", "-d", "2", "--rate", "10000", "--html", &page, "--trials", "1"];
    let output = millrace(&[&args[..], &["--only", "memif"]].concat());
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("DPDK to DPDK, memif") && printed.contains("0.010 Mpps"), "{printed}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("DPDK to DPDK, memif") && page.contains("<svg"), "a page with plots");
}

/// Returns the state of a process, such as `S` or `Z` (proc_pid_stat(5)); `None` if there is no
/// such process.
fn state_of(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1[..1].to_owned())
}

#[test]
fn a_killed_benchmark_leaves_no_reflector_and_no_folder() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_millrace"));
    bench.args(["bench", "baseline", "--only", "memif"]).stderr(Stdio::null());
    bench.env("TMPDIR", folder.path());
    let bench = Process::spawn(&mut bench);
    let children = format!("/proc/{0}/task/{0}/children", bench.id());
    let reflector = || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        let mut children = children.split_whitespace().map(|id| id.parse::<u32>().unwrap());
        let command = |id: u32| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        children.find(|id| command(*id).windows(9).any(|word| word == b"\0reflect\0"))
    };
    wait_until("the reflector runs", || reflector().is_some());
    let reflector = reflector().unwrap();
    bench.signal("KILL");
    // If no process reaps orphans, the reflector stays as a zombie.
    wait_until("the reflector has ended", || state_of(reflector).is_none_or(|state| state == "Z"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn two_senders_and_two_receivers_share_a_stream() {
    let _turn = turn();
    let mut args = vec!["gen", "net_null0", "--senders", "2", "--receivers", "2", "--json", "-"];
    args.extend(["--stream", "count=10001 rate=50kpps sport=1024-2047"]);
    let results = json(&millrace(&args));
    assert_eq!(count(&results["sent"]["packets"]), 10_001);
    assert_eq!(count(&results["unsent"]), 0);
}

#[test]
fn packets_come_back_from_a_reflector_on_another_host() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    let program = env!("CARGO_BIN_EXE_millrace");
    let mut reflector = lan.bump.command(program);
    reflector.args(["reflect", ENDS[0], "--quiet", "--json", "-"]);
    let mut reflector = Process::spawn(reflector.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("the reflector is there", || lan.bump.run("ip -br link").contains("mr-end-a"));
    wait_until("its redirect is, too", || {
        lan.bump.run(&format!("tc filter show dev {} ingress", ENDS[0])).contains("mirred")
    });
    let mut generator = lan.a.namespace.command(program);
    generator.args(["gen", lan.a.interface, "--verify", "--json", "-"]);
    for stream in [
        "count=3000 rate=5kpps size=imix sport=random:1024-65535",
        "count=1000 rate=2kpps size=100 src=2001:2::1 proto=tcp",
        "count=500 rate=1kpps size=200 proto=sctp",
        "count=500 rate=1kpps size=128 proto=icmp",
    ] {
        generator.args(["--stream", stream]);
    }
    let results = json(&generator.output().unwrap());
    assert_eq!(count(&results["sent"]["packets"]), 5000);
    let verified = &results["verified"];
    let found = ["lost", "damaged"].map(|member| count(&verified[member]));
    assert_eq!(found, [0, 0], "{results:#}");
    let latency = &verified["latency"];
    assert!(count(&latency["min_ns"]) > 1 && count(&latency["max_ns"]) < 10_000_000_000);
    reflector.signal("TERM");
    let printed = reflector.rest_of_stdout();
    let counters: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(count(&counters["reflected"]), 5000, "{counters:#}");
    // Hosts also send multicast packets by themselves.
    let group = count(&counters["dropped"]["group"]);
    assert_eq!(count(&counters["received"]), 5000 + group, "{counters:#}");
}

/// The kernel resolves the source addresses of the requests, and the generator answers.
#[test]
fn the_kernel_of_a_gateway_answers_every_packet() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    for address in ["10.77.0.2/24 dev", "2001:db8:77::2/64 nodad dev"] {
        lan.bump.run(&format!("ip addr add {address} {}", ENDS[0]));
    }
    let program = env!("CARGO_BIN_EXE_millrace");
    let ping = |gateway: &str, stream: &str| {
        let mut command = lan.a.namespace.command(program);
        command.args(["gen", lan.a.interface, "--verify", "--json", "-", "--gateway", gateway]);
        command.args(["--stream", &format!("proto=icmp count=300 rate=1kpps {stream}")]);
        command.output().unwrap()
    };
    let pings = [
        ("10.77.0.2", "src=10.77.0.10-10.77.0.20 dst=10.77.0.2"),
        ("2001:db8:77::2", "size=100 src=2001:db8:77::10-2001:db8:77::19 dst=2001:db8:77::2"),
    ];
    for (gateway, stream) in pings {
        let results = json(&ping(gateway, stream));
        let stream = &results["verified"]["streams"][0];
        let counts = ["sent", "received"].map(|member| count(&stream[member]));
        assert_eq!(counts, [300, 300], "{results:#}");
        // ARP requests and replies are not packets of the stream.
        assert_eq!(count(&results["sent"]["packets"]), 300);
    }
    let neighbours = lan.bump.run("ip neigh");
    assert!(neighbours.contains("10.77.0.20") && neighbours.contains("2001:db8:77::19"));
    let nobody = ping("10.77.0.3", pings[0].1);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody).contains("gateway 10.77.0.3 does not answer"), "{}", text(&nobody));
}

/// The kernel would accept such frames from the socket, and then drop them.
#[test]
fn frames_that_an_interface_cannot_send_are_refused() {
    if !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    let program = env!("CARGO_BIN_EXE_millrace");
    let generate = |args: &[&str]| {
        let mut command = lan.a.namespace.command(program);
        let stream = ["--stream", "size=2018 count=10 rate=1kpps"];
        command.args(["gen", lan.a.interface]).args(stream).args(args).output().unwrap()
    };
    let output = generate(&[]);
    let told = "port host-a: frames need an MTU of 2000, and it has 1500: --mtu 2000";
    assert!(output.status.code() == Some(1) && text(&output).contains(told), "{}", text(&output));
    let output = generate(&["--mtu", "2000", "--json", "-"]);
    assert_eq!(count(&json(&output)["sent"]["packets"]), 10);
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_way_out() {
    let refused = |args: &[&str], status: i32, told: &str| {
        let output = millrace(&[&["gen"], args].concat());
        let text = text(&output);
        assert!(output.status.code() == Some(status) && text.contains(told), "{args:?}: {text}");
    };
    let null = "net_null0,no-rx=1";
    refused(&[], 2, "the following required arguments were not provided");
    refused(&[null, "--rate", "10"], 2, "is no rate: write 1Mpps, 10Gbps (on the wire)");
    refused(&[null, "--stream", "size=60"], 2, "frames have 64 to 9216 bytes with FCS");
    refused(&[null, "--stream", "speed=1"], 2, "speed: it needs pcap=FILE");
    refused(&[null, "--stream", "pace=1"], 2, "a stream has no key \"pace\"; its keys are name");
    refused(&[null, "--stream", "tcp"], 2, "\"tcp\" is not KEY=VALUE");
    refused(&[null, "--stream", "side=b"], 1, "side=b needs a port B: name two ports, A,B");
    refused(&[null, "-f", "imix"], 1, "there is no profile imix: no such file, and built in are");
    refused(&[null, "-f", "."], 1, "there is no profile .: it is a directory, and built in are");
    refused(&[null, "-f", "imix_article", "--rate", "1kpps"], 2, "multiply them with -m M");
    let on_time = [null, "--send-on-time"];
    refused(&on_time, 1, &format!("port {null} cannot send packets at given times"));
    refused(&[&on_time[..], &["--rate", "max"]].concat(), 1, "at rate max have no times");
    refused(&[null, "--cpus", "0-1000"], 2, "--cpus: there is no cpu ");
    refused(&["--selftest", "--backend", "sockets"], 2, "cannot be used with");
    refused(
        &["--backend", "sockets", "--stream", "dst=192.0.2.7 dport=0"],
        1,
        "port 0 has no receiver",
    );
    refused(&[null, "-f", "imix_article"], 1, "sends from two ports: name both, A,B");
    refused(&[null, "-f", "imix_fast_1g", "--verify"], 1, "use probes instead, -l HZ");
    refused(&[null, "-f", "no-such.toml"], 1, "no-such.toml:1: cannot be read: ");
    refused(&[null, "-f", "no-such.toml", "-p"], 1, "are for profiles of TRex, not for streams");
    refused(&[null, "-m", "2"], 2, "--profile <PROFILE>");
    let long = ["--verify", "--stream", "src=2001:2::1"];
    refused(&[&[null], &long[..]].concat(), 1, "these headers need at least 82 with FCS");
}

/// testpmd reflects packets, with MAC addresses exchanged or with the whole five-tuple exchanged.
#[test]
fn testpmd_is_a_reflector_too() {
    if !has_tools(&["dpdk-testpmd", "setpriv"]) {
        return;
    }
    let _turn = turn();
    for (mode, answer) in [("macswap", "Set macswap"), ("5tswap", "Set 5tswap")] {
        let scratch = new_scratch("testpmd-reflects");
        let socket = scratch.path("memif");
        let server = format!("--vdev=net_memif0,role=server,{}", at(&socket));
        let mut testpmd = Testpmd::with(&[server], &["--port-topology=loop"]);
        testpmd.enter(&format!("set fwd {mode}"), answer);
        testpmd.enter("start", "packet forwarding");
        let client = format!("net_memif0,role=client,{}", at(&socket));
        let mut args = vec!["gen", &client, "--verify", "--workers", "1", "--json", "-"];
        args.extend(["--stream", "count=3000 rate=10kpps sport=1024-2047"]);
        args.extend(["--stream", "count=2000 rate=10kpps proto=tcp src=2001:2::1 size=128 vlan=7"]);
        let results = json(&millrace(&args));
        let verified = &results["verified"];
        let (sent, lost) = (count(&results["sent"]["packets"]), count(&verified["lost"]));
        assert_eq!(
            (sent, lost, count(&verified["damaged"])),
            (5000, missed(&results), 0),
            "{mode}"
        );
    }
}
