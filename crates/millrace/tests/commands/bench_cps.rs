// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace bench cps` and the daemon of `millrace gen --daemon` on simulated devices, in
//! simulated time.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// Options of the article for short-lived connections, and its lines.
const SHORT: &str = "-T 30 -i 8 -e 0.02 -u 1 -n 1 -s 20 -w 0 -m 1k -M 100k";
const SHORT_LINES: &str = "\
... iteration #1: lower=1.0K current=50.5K upper=100K
... iteration #2: lower=1.0K current=25.8K upper=50.5K
... iteration #3: lower=25.8K current=38.1K upper=50.5K
... iteration #4: lower=38.1K current=44.3K upper=50.5K
... iteration #5: lower=38.1K current=41.2K upper=44.3K
... iteration #6: lower=41.2K current=42.8K upper=44.3K
... iteration #7: lower=41.2K current=42.0K upper=42.8K
... iteration #8: lower=41.2K current=41.6K upper=42.0K
";
/// Options of the article for long-lived connections, and its lines.
const LONG: &str = "--sample-time 120 --max-iterations 8 --error-threshold 0.02 --udp-percent 1 \
                    --num-messages 500 --message-size 20 --server-wait 50 -m 500 -M 2k";
const LONG_LINES: &str = "\
... iteration #1: lower=500 current=1.2K upper=2.0K
... iteration #2: lower=500 current=875 upper=1.2K
... iteration #3: lower=875 current=1.1K upper=1.2K
... iteration #4: lower=875 current=968 upper=1.1K
... iteration #5: lower=968 current=1.0K upper=1.1K
... iteration #6: lower=968 current=992 upper=1.0K
... iteration #7: lower=968 current=980 upper=992
... iteration #8: lower=968 current=974 upper=980
";

/// What standard error has of a search without ports.
const SIMULATED: &str = "millrace: the device is simulated: these are no measurements\n";

fn millrace(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

fn bench(words: &str) -> Output {
    millrace(&format!("bench cps {words}")).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn iterations(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let text = stdout(output);
    let lines = text.lines().filter(|line| line.starts_with("... iteration #"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Interrupts a process as Ctrl-C does.
fn interrupt(process: &Child) {
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// A daemon with a simulated device. Dropping it kills it.
struct Daemon {
    process: Child,
    port: String,
}

impl Daemon {
    fn start(device: &str) -> Self {
        let mut command = millrace(&format!("gen --daemon 0 --simulate {device}"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("millrace: the generator listens at 127.0.0.1:");
        let port = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, port }
    }

    /// Ends the daemon as Ctrl-C does; true if it succeeded.
    fn end(mut self) -> bool {
        interrupt(&self.process);
        self.process.wait().unwrap().success()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The sixteen iterations of the article about connection tracking in Open vSwitch.
#[test]
fn the_iterations_are_those_of_the_article() {
    let cases = [("limit=41700", SHORT, SHORT_LINES), ("limit=977", LONG, LONG_LINES)];
    for (device, options, lines) in cases {
        let output = bench(&format!("--simulate {device} --compat cps_ndr {options}"));
        assert_eq!(iterations(&output), lines);
        let text = stdout(&output);
        let good = text.lines().filter(|line| line.starts_with("▲▲▲ Flows: active ")).count();
        let bad = text.lines().filter(|line| line.starts_with("▼▼▼ Flows: active ")).count();
        let dropped = text.lines().filter(|line| line.starts_with("err dropped: ")).count();
        assert_eq!((good + bad, dropped), (8, bad), "{text}");
        assert_eq!(text.lines().count(), 16 + dropped, "no other lines: {text}");
        assert_eq!(stderr(&output), SIMULATED);
        // The better rule makes the same steps on a device with a hard limit.
        assert_eq!(iterations(&bench(&format!("--simulate {device} {options}"))), lines);
    }
}

/// Search and generator are two processes.
#[test]
fn a_daemon_gives_the_lines_of_one_process() {
    let device = "limit=41700,noise=1,seed=7";
    for rule in ["", "--compat cps_ndr"] {
        let daemon = Daemon::start(device);
        let there = bench(&format!("-S 127.0.0.1 -p {} -P 4500 -t 60 {SHORT} {rule}", daemon.port));
        let here = bench(&format!("--simulate {device} {SHORT} {rule}"));
        assert!(there.status.success(), "{}", stderr(&there));
        assert_eq!(stdout(&there), stdout(&here));
        assert!(daemon.end());
    }
}

#[test]
fn the_json_has_the_last_good_sample_and_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.json");
    let path = path.to_str().unwrap();
    for _ in 0..2 {
        let output = bench(&format!("--simulate limit=41700 {SHORT} -r 20 -f 1M -o {path}"));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).ends_with(
            "result: 41605 connections/s, confirmed by a final trial of 30 s\n\
             lowest rate that failed: 41992 connections/s\n"
        ));
    }
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(json["found_cps"], 41605.46875);
    assert_eq!(json["is_confirmed"], true);
    assert_eq!(json["statistics"]["elapsed_s"], 30.0);
    assert_eq!(json["statistics"]["client"]["attempted"], 1_248_164);
    let profile = &json["conntrack_ndr_profile"];
    assert_eq!((&profile["ramp_up"], &profile["max_flows"]), (&20.into(), &1_000_000.into()));
    assert_eq!(json["trials"].as_array().unwrap().len(), 9);
    assert_eq!(json["trials"][0]["is_good"], false);
    // With `-`, standard output has the JSON only.
    let output = bench(&format!("--simulate limit=900 {SHORT} -o -"));
    assert_eq!(output.status.code(), Some(1), "no rate was found");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["found_cps"], &json["statistics"]), (&Value::Null, &Value::Null));
    assert!(stderr(&output).contains("did not sustain the smallest rate, 1000 connections/s"));
}

/// Without a number of iterations, only Ctrl-C ends a search in the way of cps_ndr.py.
#[test]
fn ctrl_c_prints_the_best_so_far() {
    let words = "bench cps --simulate limit=41700 --compat cps_ndr -e 0.02 -m 1k -M 100k";
    let mut process = millrace(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("... iteration #40: lower=41.7K")));
    interrupt(&process);
    let last = lines.last().unwrap();
    assert_eq!(last, "best so far: 41708 connections/s, not confirmed");
    assert!(process.wait().unwrap().success());
}

/// The command runs between loads, and its output is none of the search.
#[test]
fn the_reset_command_runs_between_loads() {
    let output = millrace("bench cps --simulate limit=41700 --compat cps_ndr -i 3")
        .args(["-m", "1k", "-M", "100k", "-c", "echo emptied; false"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(stderr(&output), format!("emptied\nemptied\n{SIMULATED}"));
    assert!(!stdout(&output).contains("emptied"));
}

#[test]
fn wrong_use_is_refused() {
    let cases = [
        ("", "<PORTS>"),
        ("--simulate limit=1 -T 601", "must be from 1 to 600"),
        ("--simulate limit=1 -e 101", "must be from 0 to 100"),
        ("--simulate limit=1 -n 1.5", "must be a whole number"),
        ("--simulate limit=1 -M 3M", "must be from 100 to 2.0M"),
        ("--simulate limit=1 -m 2k -M 2k", "--min-cps 2.0K must be below --max-cps 2.0K"),
        ("net_null0,net_null1 -S localhost", "cannot be used with"),
        ("--simulate limit=1 --compat trex", "cps_ndr"),
    ];
    for (words, text) in cases {
        let output = bench(words);
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
        assert!(stderr(&output).contains(text), "{words}: {}", stderr(&output));
    }
    let output = millrace("gen net_null0,net_null1 --daemon 0 --verify").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    let output = bench("-S 127.0.0.1 -p 1 -t 1");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("start the daemon there with"), "{}", stderr(&output));
}
