// SPDX-License-Identifier: BSD-3-Clause
//! Where results go: files, standard output, full disks, closed pipes, and signals.

use crate::{Run, START_NS, datagram, datagrams, new_scratch, replay, run};
use std::io::{Read, Write};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use testkit::capture::{Packet, Pcap};

#[test]
fn csv_has_the_members_of_a_record_as_columns() {
    let scratch = new_scratch("csv");
    let frame = datagram(1000, 20).qinq(100).vlan(7);
    let capture = Pcap::plain().file(&[
        Packet::new(START_NS, frame.build()),
        Packet::new(START_NS, frame.reversed().payload([0; 30]).build()),
    ]);
    let path = scratch.path("flows.csv");
    let run = run(&["--flows", &path, "-"], &capture);
    run.assert_good();
    assert!(run.stdout.contains("balanced"), "the report is on stdout");
    let csv = std::fs::read_to_string(path).unwrap();
    let expected = "ip_version,proto,src,sport,dst,dport,zone,vlan,start_ns,end_ns,\
        orig_packets,orig_bytes,orig_ip_bytes,orig_tcp_flags,\
        reply_packets,reply_bytes,reply_ip_bytes,reply_tcp_flags,state,end_reason,mark,label\n\
        4,17,10.0.0.1,1000,10.0.0.2,53,100,100/7,1700000000000000000,1700000000000000000,\
        1,70,48,0,1,80,58,0,open,exit,0,0x0\n";
    assert_eq!(csv, expected);
}

#[test]
fn csv_of_no_flow_is_a_heading_and_json_lines_of_none_are_empty() {
    let scratch = new_scratch("none");
    let empty = Pcap::plain().file(&[]);
    let (csv, jsonl) = (scratch.path("flows.csv"), scratch.path("flows.jsonl"));
    run(&["--flows", &csv, "-"], &empty).assert_good();
    run(&["--flows", &jsonl, "-"], &empty).assert_good();
    assert!(std::fs::read_to_string(csv).unwrap().starts_with("ip_version,proto"));
    assert_eq!(std::fs::read_to_string(jsonl).unwrap(), "");
}

#[test]
fn wrong_use_is_status_2_and_says_what_is_right() {
    for (args, message) in [
        (&["--flows", "flows.txt", "-"][..], ".jsonl (JSON Lines) or .csv"),
        (&["--flows", "flows", "-"], ".jsonl (JSON Lines) or .csv"),
        (&["--flows", "-", "--json", "-", "-"], "cannot both write to standard output"),
        (&["--capacity", "0", "-"], "0 is not in 1.."),
        (&[], "<CAPTURE>"),
    ] {
        let run = run(args, &[]);
        assert_eq!(run.status, Some(2), "{args:?}");
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}

#[test]
fn what_cannot_be_created_is_reported_before_anything_is_read() {
    for args in [["--flows", "/nowhere/flows.csv", "-"], ["--json", "/nowhere/run.json", "-"]] {
        let run = run(&args, &datagrams(&[0]));
        run.assert_failed("cannot create /nowhere/");
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let scratch = new_scratch("full");
    for name in ["flows.jsonl", "flows.csv"] {
        let path = scratch.path(name);
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let run = run(&["--flows", &path, "-"], &datagrams(&[0]));
        run.assert_failed("cannot write flow records to");
        run.assert_failed(&format!("{name}: No space left on device"));
    }
    let run = run(&["--json", "/dev/full", "-"], &datagrams(&[0]));
    run.assert_failed("cannot write /dev/full: No space left on device");
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let flow = |i: u16| Packet::new(START_NS, datagram(i, 0).build());
    let capture = Pcap::plain().file(&(0..250).map(flow).collect::<Vec<_>>());
    for args in [&["--flows", "-", "-"][..], &["--json", "-", "-"], &["-"]] {
        let mut child = replay(args).spawn().unwrap();
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(&capture).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]));
    }
}

#[test]
fn ctrl_c_ends_a_replay_with_its_report() {
    const SIGINT: u64 = 2;
    let capture = datagrams(&[0, 1, 2, 3]);
    let mut child = replay(&["-"]).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // Bit n - 1 of this mask says that signal n is caught.
    let caught = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() >> (SIGINT - 1) & 1 == 1
    };
    for _ in 0..1_000 {
        if caught() {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    assert!(caught(), "SIGINT is never caught");
    // The shell's own, as not every system has a program of that name.
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    // Wakes the read; the capture goes on for ever as far as the program knows.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&capture).unwrap();
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(report.contains("balanced"), "{report}");
}

#[test]
fn an_output_that_is_another_file_of_the_command_is_refused() {
    let scratch = new_scratch("overwrite");
    let capture = datagrams(&[0]);
    let path = scratch.write("a.csv", &capture);
    std::os::unix::fs::symlink(&path, scratch.path("b.csv")).unwrap();
    let (link, both) = (scratch.path("b.csv"), scratch.path("new.jsonl"));
    for args in [
        &["--json", &path, &path][..],
        &["--flows", &path, &path],
        &["--flows", &link, &path],
        &["--flows", &both, "--json", &both, &path],
    ] {
        let run = Run::from(replay(args).output().unwrap());
        assert_eq!(run.status, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("would overwrite"), "{}", run.stderr);
        assert_eq!(std::fs::read(&path).unwrap(), capture, "{args:?}");
    }
}
