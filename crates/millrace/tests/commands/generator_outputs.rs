// SPDX-License-Identifier: BSD-3-Clause
//! Tests the output files of `millrace gen` and `millrace report` if one of them, or standard
//! output, cannot be written. The runs send over sockets on loopback.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A run that sends 100 packets in a tenth of a second to a socket without a reader.
struct Gen {
    folder: tempfile::TempDir,
    /// Keeps the port open, so that the kernel does not answer with ICMP errors.
    sink: UdpSocket,
}

impl Gen {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, sink: UdpSocket::bind("127.0.0.1:0").unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// File names are relative to the directory.
    fn command(&self, args: &[&str]) -> Command {
        let port = self.sink.local_addr().unwrap().port();
        let stream = format!("dst=127.0.0.1 dport={port} rate=1kpps count=100");
        let mut command = millrace(self.folder.path());
        command.args(["gen", "--backend", "sockets", "--stream", &stream]).args(args);
        if !args.contains(&"--late") {
            command.args(["--late", "0.05"]);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn millrace(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a pipe whose reader is closed.
fn closed_pipe() -> Stdio {
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    OwnedFd::from(writer).into()
}

#[test]
fn files_are_written_though_nobody_reads_the_text() {
    let run = Gen::new();
    let mut command = run.command(&["--json", "x.json", "--html", "x.html", "--interval", "0.05"]);
    let output = command.stdout(closed_pipe()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json = fs::read_to_string(run.path("x.json")).unwrap();
    assert!(json.contains("\"packets\": 100"), "{json}");
    assert!(fs::read_to_string(run.path("x.html")).unwrap().contains("this run"));
    // The page of `millrace report` too.
    let mut report = millrace(run.folder.path());
    report.args(["report", "x.json", "--html", "report.html"]).stdout(closed_pipe());
    assert_eq!(report.status().unwrap().code(), Some(0));
    assert!(run.path("report.html").metadata().unwrap().len() > 0);
    let mut report = millrace(run.folder.path());
    let output = report.args(["report", "x.json", "--html", "/dev/full"]).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.code() == Some(1) && text.contains("cannot write /dev/full"), "{text}");
    assert!(!output.stdout.is_empty(), "the table comes nevertheless");
}

#[test]
fn every_output_is_tried_and_each_failure_is_reported() {
    let run = Gen::new();
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let told = "cannot write /dev/full: No space left";
    for args in [
        &["--html", "/dev/full", "--json", "x.json", "--csv", "x.csv"][..],
        &["--csv", "/dev/full", "--json", "x.json", "--html", "x.html"],
        &["--json", "/dev/full", "--csv", "x.csv", "--html", "x.html"],
    ] {
        let output = run.run(args);
        let text = stderr(&output);
        assert!(output.status.code() == Some(1) && text.contains(told), "{args:?}: {text}");
        assert!(!output.stdout.is_empty(), "the text comes nevertheless");
        for name in [args[3], args[5]] {
            assert!(run.path(name).metadata().unwrap().len() > 0, "{args:?}: {name}");
            fs::remove_file(run.path(name)).unwrap();
        }
    }
    let mut command = run.command(&["--quiet", "--json", "x.json"]);
    let output = command.stdout(full()).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.code() == Some(1), "{text}");
    assert!(text.contains("cannot write to standard output: No space left"), "{text}");
    assert!(run.path("x.json").exists());
}

#[test]
fn a_run_that_does_not_begin_leaves_files_as_they_were() {
    let run = Gen::new();
    assert_eq!(run.run(&["--csv", "x.csv"]).status.code(), Some(0));
    let before = fs::read(run.path("x.csv")).unwrap();
    assert!(!before.is_empty());
    // A port for metrics that is in use, and a page that is not a report.
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let args = ["--csv", "x.csv", "--json", "new.json", "--metrics", &address];
    assert_eq!(run.run(&args).status.code(), Some(1));
    assert_eq!(fs::read(run.path("x.csv")).unwrap(), before);
    assert_eq!(run.run(&["--csv", "new.csv", "--metrics", &address]).status.code(), Some(1));
    assert!(!run.path("new.json").exists() && !run.path("new.csv").exists());
}

#[test]
fn one_file_is_one_output() {
    let run = Gen::new();
    for path in ["x", "./x"] {
        let output = run.run(&["--csv", "x", "--json", path]);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains("x"), "{text}");
        assert!(
            text.contains("would overwrite a file") || text.contains("another program or output")
        );
    }
    for flag in ["--csv", "--html", "--pcapng"] {
        let output = run.run(&[flag, "-"]);
        let text = stderr(&output);
        let told = format!("{flag} -: only --json can write to standard output");
        assert!(output.status.code() == Some(1) || flag == "--pcapng", "{text}");
        assert!(text.contains(&told) || flag == "--pcapng", "{text}");
        assert!(!run.path("-").exists());
    }
}

#[test]
fn a_second_run_does_not_write_into_the_files_of_the_first() {
    let run = Gen::new();
    let mut first = run.command(&["--csv", "x.csv", "--late", "5"]).stdout(Stdio::null()).spawn();
    let first = first.as_mut().unwrap();
    let begun = std::time::Instant::now();
    while !run.path("x.csv").exists() && begun.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let text = stderr(&run.run(&["--csv", "x.csv"]));
    assert!(text.contains("x.csv: another program or output writes to it"), "{text}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(run.run(&["--csv", "x.csv"]).status.code(), Some(0));
}

/// A limit of the file size has the same effect as a full disk.
#[test]
fn a_disk_without_room_keeps_the_results_of_before() {
    let run = Gen::new();
    let args = ["--json", "x.json", "--html", "x.html", "--csv", "x.csv"];
    let good = run.run(&args);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let before = ["x.json", "x.html"].map(|name| fs::read(run.path(name)).unwrap());
    for name in ["x.json", "x.html", "x.csv"] {
        use std::os::unix::fs::MetadataExt;
        let mode = run.path(name).metadata().unwrap().mode() & 0o777;
        assert!(mode & !0o644 == 0 && mode & 0o600 == 0o600, "{name}: {mode:o}");
    }
    let limited = run.command(&args);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]);
    shell.arg(limited.get_program()).args(limited.get_args()).current_dir(run.folder.path());
    let output = shell.stdin(Stdio::null()).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for name in ["x.json", "x.html"] {
        assert!(text.contains(&format!("cannot write {name}: File too large")), "{text}");
    }
    assert_eq!(["x.json", "x.html"].map(|name| fs::read(run.path(name)).unwrap()), before);
    assert_eq!(fs::read_dir(run.folder.path()).unwrap().count(), 3);
}
