// SPDX-License-Identifier: BSD-3-Clause
//! Tests words that all commands have in common: versions, aliases, and errors that name the cause.

use std::process::{Command, Output};
use testkit::scratch::Scratch;

fn millrace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_version_names_dpdk() {
    assert_eq!(stdout(&millrace(&["-V"])), concat!("millrace ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = stdout(&millrace(&["--version"]));
    assert!(long.contains("DPDK 2"), "{long}");
}

#[test]
fn help_is_a_command_and_names_the_aliases_of_others() {
    let help = stdout(&millrace(&["help"]));
    assert!(help.contains("conntrack"), "{help}");
    let ct = stdout(&millrace(&["help", "ct"]));
    for word in ["show", "delete", "-L", "-D", "-E", "-C"] {
        assert!(ct.contains(word), "{word}: {ct}");
    }
}

/// Without an instance, each form fails for want of one, and for nothing else.
#[test]
fn the_forms_of_conntrack_are_taken() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "words-forms");
    let socket = scratch.path("none.sock");
    for form in [
        &["ct", "-L", "-p", "tcp", "-s", "10.0.0.1", "-d", "10.0.0.0/8"][..],
        &["conntrack", "-L", "-w", "7", "-m", "1/3"],
        &["ct", "show"],
        &["ct", "-C"],
        &["ct", "-D", "-p", "udp"],
        &["ct", "delete", "--dport", "53"],
        &["ct", "-E", "-p", "sctp"],
    ] {
        let output = millrace(&[form, &["--instance", &socket]].concat());
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{form:?} {error}");
        assert!(error.contains("no running instance has this socket"), "{form:?} {error}");
    }
}

#[test]
fn a_number_is_taken_for_a_process_and_the_error_says_so() {
    let error = stderr(&millrace(&["stats", "--instance", "1"]));
    assert!(error.contains("no running instance has the process ID 1"), "{error}");
}

#[test]
fn a_file_that_is_no_capture_has_no_result() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "words-text");
    let path = scratch.path("notes.txt");
    std::fs::write(&path, "root:x:0:0\n").unwrap();
    let output = millrace(&["replay", &path]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    let error = stderr(&output);
    assert!(error.contains("it is text, and begins with \"root\""), "{error}");
}

#[test]
fn messages_begin_with_the_program_and_never_command_the_terminal() {
    let error = stderr(&millrace(&["run", "--pair", "18:00,lo"]));
    assert!(error.starts_with("millrace: --pair: pair[0]: "), "{error}");
    for (args, name) in [("check", "x\x1b[31m.toml"), ("replay", "c\u{202e}d.pcap")] {
        let error = stderr(&millrace(&[args, name]));
        assert!(!error.contains(['\x1b', '\u{202e}']), "{error:?}");
        assert!(error.contains("\\u{1b}") || error.contains("\\u{202e}"), "{error:?}");
    }
}

#[test]
fn a_personality_is_a_short_regular_file() {
    let error = stderr(&millrace(&["nic", "personalities", "/dev/zero"]));
    assert!(error.contains("it is no regular file"), "{error}");
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "words-personality");
    let pipe = scratch.path("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = stderr(&millrace(&["nic", "personalities", &pipe]));
    assert!(error.contains("it is no regular file"), "{error}");
    let path = scratch.path("long.toml");
    std::fs::write(&path, vec![b'a'; 2 << 20]).unwrap();
    let error = stderr(&millrace(&["nic", "personalities", &path]));
    assert!(error.contains("more than 1 MiB"), "{error}");
    std::fs::write(&path, vec![b'a'; 5000]).unwrap();
    let output = millrace(&["nic", "personalities", &path]);
    assert!(output.stderr.len() < 1000, "{}", stderr(&output));
}
