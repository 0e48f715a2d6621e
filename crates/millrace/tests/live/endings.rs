// SPDX-License-Identifier: BSD-3-Clause
//! Tests how a run ends: by time, by a signal, by a second signal during the end, and with closed
//! outputs. Also signals that do not end it.

use crate::bump::Setup;
use crate::captures::Talk;
use crate::{new_scratch, runs_all_cases};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use testkit::capture::write_pcap;
use testkit::host::has_tools;
use testkit::process::{Process, mortal, wait_until};

#[test]
fn time_ends_a_run() {
    let setup = Setup::new("duration").duration("1");
    let ended = setup.pair("net_null0,no-rx=1", "net_null1,no-rx=1").run();
    ended.assert_good();
    assert!(ended.summary()["duration_s"].as_f64().unwrap() >= 1.0);
}

#[test]
fn lines_come_as_often_as_wanted() {
    let setup = Setup::new("interval").pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    let mut bump = setup.start();
    bump.wait_until("two lines less than half a second apart", |bump| {
        bump.lines().windows(2).any(|lines| lines[1].time - lines[0].time < 0.5)
    });
    bump.finish().assert_good();
}

/// The shell that starts the tests may ignore some of these signals, and child processes inherit
/// that.
#[test]
fn a_signal_ends_a_run_with_its_summary() {
    // The signals behind TERM have no meaning of their own for Millrace. It ends in order, where
    // their default action would kill it.
    let others: &[_] =
        if runs_all_cases() { &["QUIT", "USR2", "ALRM", "XCPU", "PWR"] } else { &[] };
    for signal in ["INT", "TERM", "HUP", "RTMIN+1"].iter().chain(others) {
        let mut launcher = Command::new("env");
        launcher.arg(format!("--default-signal={signal}"));
        let setup = Setup::new("signal").launcher(launcher).without_config();
        let bump = setup.pair("net_null0", "net_null1").start();
        bump.signal(signal);
        // A terminal that closes sends SIGHUP twice or more.
        if *signal == "HUP" {
            bump.signal(signal);
        }
        let ended = bump.wait();
        ended.assert_balanced();
        assert!(ended.stdout.contains("received ="), "{}", ended.stdout);
    }
}

#[test]
fn a_hang_up_reloads_the_file_as_it_is_then() {
    let mut launcher = Command::new("env");
    launcher.arg("--default-signal=HUP");
    let setup = Setup::new("reload").launcher(launcher);
    let mut bump = setup.pair("net_null0,no-rx=1", "net_null1,no-rx=1").start();
    let file = bump.path("bump.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    bump.signal("HUP");
    bump.wait_for_message("reloaded: timers of 0 connections now fire earlier");
    std::fs::write(&file, "[table]\ncapacity = 1\n").unwrap();
    bump.signal("HUP");
    bump.wait_for_message("needs a restart; the instance runs with 4096");
    std::fs::write(&file, before).unwrap();
    bump.signal("HUP");
    bump.signal("HUP");
    bump.wait_until("one more reload", |bump| bump.stderr().matches("reloaded").count() >= 2);
    let ended = bump.finish();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    ended.assert_balanced();
}

/// The kernel sends SIGHUP once more when the shell ends.
#[test]
fn a_run_with_a_file_ends_when_its_terminal_closes() {
    if !has_tools(&["script"]) {
        return;
    }
    let _turn = crate::bump::turn();
    let scratch = new_scratch("terminal");
    let [file, out, socket] = ["bump.toml", "t.json", "t.sock"].map(|name| scratch.path(name));
    std::fs::write(&file, "[table]\ncapacity = 4096\n").unwrap();
    let program = env!("CARGO_BIN_EXE_millrace");
    let run = format!(
        "exec env --default-signal=HUP {program} run {file} -q --json {out} --socket {socket} \
         --duration 300 --pair net_null0,no-rx=1,net_null1,no-rx=1"
    );
    let mut terminal = mortal("script");
    terminal.args(["-q", "-c", &run, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
    let terminal = Process::spawn(&mut terminal);
    wait_until("packets can flow", || std::path::Path::new(&socket).exists());
    drop(terminal);
    wait_until("its summary", || {
        let summary: Option<Value> = serde_json::from_str(&scratch.read("t.json")).ok();
        summary.is_some_and(|summary| summary["ledger"]["balanced"] == true)
    });
}

#[test]
fn a_run_under_nohup_goes_on_when_its_terminal_hangs_up() {
    let setup = Setup::new("nohup").launcher(Command::new("nohup"));
    let mut bump = setup.pair("net_null0", "net_null1,no-rx=1").start();
    let lines = bump.lines().len();
    bump.signal("HUP");
    // One line may have been written before the signal.
    bump.wait_until("two more lines", |bump| bump.lines().len() >= lines + 2);
    // SIGHUP does not count as the first of two signals either.
    bump.finish().assert_good();
}

/// After a terminal has closed, writes to standard output and error fail.
#[test]
fn a_run_whose_terminal_is_gone_loses_its_report_and_nothing_else() {
    let setup = Setup::new("gone").duration("1.5");
    let mut launcher = Command::new("sh");
    launcher.args(["-c", "exec \"$@\" >/dev/full 2>&1", "sh"]);
    let capture = setup.path("a");
    write_pcap(&capture, &Talk::new(1, 20).frames[0]);
    let port = format!("net_pcap0,rx_pcap={capture}");
    let ended = setup.launcher(launcher).pair(&port, "net_null0,no-rx=1").run();
    assert_eq!(ended.status, Some(1), "the report could not be written");
    let summary = ended.summary();
    assert_eq!(summary["ledger"]["balanced"], true);
    assert_eq!((&summary["flows"]["created"], ended.records().len()), (&Value::from(20), 20));
}

/// The flow records are read slowly, so the end takes long after the first signal.
#[test]
fn a_second_signal_ends_a_run_at_once() {
    // No packet is answered, so all flows are embryonic and must fit into their share of the table.
    let setup = Setup::new("second").flows("pipe.jsonl").capacity(1 << 14);
    let pipe = setup.path("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let capture = setup.path("a");
    write_pcap(&capture, &Talk::new(1, 2000).frames[0]);
    let port = format!("net_pcap0,rx_pcap={capture}");
    let mut bump = setup.pair(&port, "net_null0,no-rx=1").start();
    let mut records = File::open(pipe).unwrap();
    bump.wait_for_line("all flows", |line| line.flows == 2000.0);
    bump.signal("INT");
    // Once records arrive, the end has begun. The remaining ones do not fit into the pipe.
    records.read_exact(&mut [0]).unwrap();
    let reader = std::thread::spawn(move || {
        let mut page = [0; 4096];
        while records.read(&mut page).unwrap() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    assert!(!bump.stdout().contains("ledger"));
    bump.signal("INT");
    let ended = bump.wait();
    assert_eq!(ended.status, Some(1));
    assert!(!ended.stdout.contains("ledger"), "{}", ended.stdout);
    reader.join().unwrap();
}

/// A bump continues to forward when its standard output is closed.
#[test]
fn a_run_goes_on_when_nobody_reads_its_lines() {
    let setup = Setup::new("unread").duration("2.5");
    let mut launcher = Command::new("sh");
    launcher.args(["-c", "{ \"$@\"; echo status $? >&2; } | head -n 1", "sh"]);
    let ended = setup.launcher(launcher).pair("net_null0", "net_null1,no-rx=1").run();
    assert_eq!(ended.stderr, "status 0\n");
    let summary = ended.summary();
    assert!(summary["duration_s"].as_f64().unwrap() >= 2.5);
    assert_eq!(summary["ledger"]["balanced"], true);
}

/// EAL would leave its directory, sockets and files here.
#[test]
fn a_run_leaves_nothing_behind() {
    let scratch = new_scratch("traces");
    let runtime = scratch.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let mut launcher = Command::new("env");
    launcher.arg(format!("XDG_RUNTIME_DIR={runtime}"));
    let setup = Setup::in_scratch(scratch).launcher(launcher);
    let bump = setup.pair("net_null0", "net_null1").start();
    let folders = [&runtime, "/var/run/dpdk", "/tmp/dpdk"]
        .map(|folder| format!("{folder}/millrace-{}", bump.id()));
    bump.finish().assert_good();
    wait_until("its folders are gone", || {
        folders.iter().all(|folder| !std::path::Path::new(folder).exists())
    });
}

#[test]
fn records_that_cannot_be_written_end_the_records_and_not_the_bump() {
    let setup = Setup::new("full").duration("2.5").flows("full.jsonl");
    let capture = setup.path("in.pcap");
    let gre = wire::FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).protocol(wire::proto::GRE);
    write_pcap(&capture, &[gre.payload([0; 30]).build()]);
    std::os::unix::fs::symlink("/dev/full", setup.path("full.jsonl")).unwrap();
    let port = format!("net_pcap0,rx_pcap={capture}");
    let setup = setup.pair(&port, "net_null0,no-rx=1").config("other_first = 0.05\n");
    let ended = setup.run();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    let warnings = ended.stderr.matches("forwarding continues").count();
    assert_eq!(warnings, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("full.jsonl") && ended.stderr.contains("records lost: 1"));
    assert!(ended.stdout.contains("ledger: 1 received = 1 sent"), "{}", ended.stdout);
}
