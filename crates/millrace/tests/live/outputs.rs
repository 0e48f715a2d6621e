// SPDX-License-Identifier: BSD-3-Clause
//! Tests flow records over restarts and log rotation, with full disks, and with readers that do not
//! read.

use crate::bump::{Bump, Setup, count};
use crate::captures::Talk;
use crate::new_scratch;
use crate::records::read_records;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use testkit::capture::write_pcap;
use testkit::host::has_tools;
use testkit::process::wait_until;
use testkit::scratch::Scratch;

/// Returns a run with this many connections, which end with the run.
fn with_flows(setup: Setup, flows: u16) -> Setup {
    let capture = setup.path("in.pcap");
    let [there, back] = Talk::new(1, flows).frames;
    write_pcap(&capture, &there.into_iter().chain(back).collect::<Vec<_>>());
    setup.capacity(1 << 14).pair(&format!("net_pcap0,rx_pcap={capture}"), "net_null0,no-rx=1")
}

/// Starts such a run, and waits until all connections exist.
fn started(setup: Setup, flows: u16) -> Bump {
    // Socket paths must be short.
    let (setup, socket) = (setup, Scratch::new(std::env::temp_dir(), "asked"));
    let path = socket.path("s");
    let bump = with_flows(setup, flows).args(&["--socket", &path]).start();
    wait_until("all flows", || ct(&path, &["count"])["connections"] == flows);
    bump
}

fn ct(socket: &str, args: &[&str]) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let output = command.arg("ct").args(args).args(["--instance", socket, "--json"]).output();
    serde_json::from_slice(&output.unwrap().stdout).expect("the answer is JSON")
}

#[test]
fn records_of_the_runs_before_stay_and_what_a_kill_has_cut_goes() {
    for name in ["flows.jsonl", "flows.csv"] {
        let scratch = new_scratch("append");
        let kept = scratch.path(name);
        let run = || {
            let setup = Setup::new("append").without_flows().duration("0.3");
            let ended = with_flows(setup.args(&["--flows", &kept]), 20).run();
            assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
        };
        run();
        assert_eq!(read_records(&kept).len(), 20);
        assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
        let whole = fs::read(&kept).unwrap();
        fs::write(&kept, &whole[..whole.len() - 9]).unwrap();
        run();
        assert_eq!(read_records(&kept).len(), 19 + 20, "{name}");
    }
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let scratch = new_scratch("keep");
    for (flag, name, text) in [
        ("--flows", "keep.jsonl", "{}"),
        ("--flows", "keep.csv", "a,b\n1,2\n"),
        ("--json", "keep.json", "{\"mine\": 1}\n"),
    ] {
        let path = scratch.path(name);
        fs::write(&path, text).unwrap();
        let setup = Setup::new("keep").without_flows().pair("net_null0", "net_null1");
        // A run has only one summary.
        let setup = if flag == "--json" { setup.json(&path) } else { setup.args(&[flag, &path]) };
        setup.assert_refused(1, &[&path, "not changed", "name another file"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_file_that_another_run_writes_is_refused() {
    let setup = Setup::new("shared").duration("300");
    let kept = setup.path("flows.jsonl");
    let bump = started(setup, 20);
    let mut other = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let other = other.args(["replay", "--flows", &kept, &bump.path("in.pcap")]).output().unwrap();
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(1), "{told}");
    assert!(told.contains(&kept) && told.contains("another program writes"), "{told}");
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!(ended.records().len(), 20);
}

#[test]
fn a_signal_lets_log_rotation_take_the_file_away() {
    let setup = Setup::new("rotate");
    let (kept, old) = (setup.path("flows.jsonl"), setup.path("flows.jsonl.1"));
    let mut bump = started(setup, 20);
    // A file that has not moved stays open.
    bump.signal("USR1");
    fs::rename(&kept, &old).unwrap();
    bump.signal("USR1");
    bump.wait_until("a new file", |_| fs::metadata(&kept).is_ok());
    assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!((read_records(&kept).len(), fs::metadata(&old).unwrap().len()), (20, 0));
}

/// A limit of the file size has the same effect as a full disk, and can be lifted.
#[test]
fn records_go_on_when_there_is_room_again() {
    if !has_tools(&["prlimit"]) {
        return;
    }
    for name in ["flows.jsonl", "flows.csv"] {
        let mut launcher = Command::new("prlimit");
        launcher.arg("--fsize=2000:unlimited");
        let setup = Setup::new("room").launcher(launcher).flows(name);
        let sockets = Scratch::new(std::env::temp_dir(), "room");
        let socket = sockets.path("s");
        let kept = setup.path(name);
        // The limit also applies to standard output and error, which are files.
        let setup = with_flows(setup, 100).args(&["--socket", &socket, "-q"]);
        let mut bump = setup.json("/dev/null").spawn();
        bump.wait_until("all flows", |_| {
            fs::metadata(&socket).is_ok() && ct(&socket, &["count"])["connections"] == 100
        });
        assert_eq!(count(&ct(&socket, &["flush", "--proto", "udp"])["flushed"]), 40);
        bump.wait_for_message("cannot write flow records to ");
        let written = read_records(&kept).len();
        assert!((1..40).contains(&written), "{written}");
        let limit = format!("--pid={}", bump.id());
        assert!(
            Command::new("prlimit").args([&limit, "--fsize=unlimited"]).status().unwrap().success()
        );
        assert_eq!(count(&ct(&socket, &["flush", "--proto", "icmp"])["flushed"]), 20);
        let lost = 40 - written;
        bump.wait_for_message(&format!("again; records lost meanwhile: {lost}\n"));
        let ended = bump.finish();
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
        assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
        assert_eq!(ended.records().len(), 100 - lost);
        let told = format!("flow records lost: {lost}\n");
        assert!(ended.stdout.contains(&told), "{}", ended.stdout);
    }
}

/// There are more records than pipe and queue can hold.
#[test]
fn a_reader_that_does_not_read_does_not_hold_up_the_end() {
    let setup = Setup::new("unread").flows("pipe.jsonl");
    let pipe = setup.path("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let bump = started(setup, 5000);
    // The bump runs although no reader has opened the pipe.
    let mut reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let ended = bump.finish();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    let told = format!("cannot write flow records to {pipe}: no progress for 1 s; records lost: ");
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    let lost = ended.stderr.trim().rsplit(' ').next().unwrap().replace('_', "");
    assert_eq!(ended.summary()["flows"]["records_lost"].to_string(), lost);
    assert!(ended.stdout.contains("balanced"), "{}", ended.stdout);
    // The pipe may end in the middle of a record.
    let mut held = vec![0; 1 << 17];
    let len = reader.read(&mut held).unwrap();
    let whole = held[..len].iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(whole + lost.parse::<u64>().unwrap(), 5000);
}

/// No reader opens the pipe that has replaced the file.
#[test]
fn a_pipe_in_place_of_the_file_does_not_hold_up_the_end() {
    let setup = Setup::new("swapped");
    let kept = setup.path("flows.jsonl");
    let mut bump = started(setup, 20);
    fs::remove_file(&kept).unwrap();
    assert!(Command::new("mkfifo").arg(&kept).status().unwrap().success());
    bump.signal("USR1");
    let process = bump.id();
    bump.wait_until("it opens the pipe", |_| is_opening_something(process));
    let ended = bump.finish();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("no progress for 1 s; records lost: 20"), "{}", ended.stderr);
    assert_eq!(ended.summary()["flows"]["records_lost"], 20);
}

/// True while a thread of the process is in openat(2), on x86-64 or arm64.
fn is_opening_something(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let calls =
        threads.filter_map(|it| fs::read_to_string(it.unwrap().path().join("syscall")).ok());
    calls.into_iter().any(|call| ["257 ", "56 "].iter().any(|openat| call.starts_with(openat)))
}
