// SPDX-License-Identifier: BSD-3-Clause
//! Starts `millrace run`, reads its lines, ends it, and checks its outputs.

use crate::new_scratch;
use crate::records::{Record, read_records};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::process::{Process, run, wait_until};
use testkit::scratch::Scratch;

/// Held by the test that runs.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of this test, which lasts until the returned guard is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    // A test that has failed has already ended all its processes.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Configuration with small tables, and timeouts longer than a test on a slow machine.
const CONFIG: &str = "\
[table]
capacity = 4096
[timeouts]
tcp_syn_sent = 600
tcp_established = 600
udp_first = 600
udp_multiple = 600
icmp_first = 600
icmp_reply = 600
";

/// Settings of a run that has not started.
pub(crate) struct Setup {
    scratch: Scratch,
    launcher: Command,
    args: Vec<String>,
    config: String,
    has_file: bool,
    duration: String,
    /// Path of the summary, if it is not the default one.
    json: Option<String>,
    flows: &'static str,
    _turn: MutexGuard<'static, ()>,
}

/// A run that has started.
pub(crate) struct Bump {
    process: Process,
    scratch: Scratch,
    flows: &'static str,
    _turn: MutexGuard<'static, ()>,
}

/// Outputs of a run that has ended.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    scratch: Scratch,
    flows: &'static str,
}

/// A line of the running program; it prints one each quarter of a second.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// Seconds since the start.
    pub(crate) time: f64,
    pub(crate) up_kpps: f64,
    pub(crate) down_kpps: f64,
    pub(crate) dropped: f64,
    pub(crate) flows: f64,
    pub(crate) stolen_percent: f64,
    pub(crate) wait_us: f64,
}

impl Line {
    /// A line of an interval without packets.
    pub(crate) fn is_silent(&self) -> bool {
        self.up_kpps == 0.0 && self.down_kpps == 0.0
    }
}

impl Setup {
    /// Returns the default settings, once it is this test's turn.
    pub(crate) fn new(test: &str) -> Self {
        Self::in_scratch(new_scratch(test))
    }

    pub(crate) fn in_scratch(scratch: Scratch) -> Self {
        let launcher = Command::new(env!("CARGO_BIN_EXE_millrace"));
        // Each run ends by itself, in case that the test cannot end it.
        let duration = "300".to_owned();
        let (args, config, flows) = (Vec::new(), CONFIG.to_owned(), "flows.jsonl");
        let (has_file, json, _turn) = (true, None, turn());
        Self { scratch, launcher, args, config, has_file, duration, json, flows, _turn }
    }

    pub(crate) fn pair(self, a: &str, b: &str) -> Self {
        self.args(&["--pair", &format!("{a},{b}")])
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| arg.to_string()));
        self
    }

    /// Adds lines to the configuration.
    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config += text;
        self
    }

    /// Replaces the configuration.
    pub(crate) fn only_config(mut self, text: &str) -> Self {
        self.config = text.to_owned();
        self
    }

    /// Runs without a configuration file.
    pub(crate) fn without_config(mut self) -> Self {
        self.has_file = false;
        self
    }

    /// Sets the capacity of the flow table.
    pub(crate) fn capacity(mut self, flows: u32) -> Self {
        self.config = self.config.replace("capacity = 4096", &format!("capacity = {flows}"));
        self
    }

    /// Sets the timeout of open UDP connections, in seconds.
    pub(crate) fn udp_multiple(mut self, seconds: f64) -> Self {
        let line = format!("udp_multiple = {seconds:?}");
        self.config = self.config.replace("udp_multiple = 600", &line);
        self
    }

    pub(crate) fn duration(mut self, seconds: &str) -> Self {
        self.duration = seconds.to_owned();
        self
    }

    /// Sets the name of the file of flow records; empty for none.
    pub(crate) fn flows(mut self, name: &'static str) -> Self {
        self.flows = name;
        self
    }

    /// Sets the path of the summary.
    pub(crate) fn json(mut self, path: &str) -> Self {
        self.json = Some(path.to_owned());
        self
    }

    /// Writes no flow records; they are counted only.
    pub(crate) fn without_flows(self) -> Self {
        self.flows("")
    }

    /// Sets a command that starts the program; the program's path is its last argument.
    pub(crate) fn launcher(mut self, mut launcher: Command) -> Self {
        launcher.arg(env!("CARGO_BIN_EXE_millrace"));
        self.launcher = launcher;
        self
    }

    /// Returns the command that runs the program.
    pub(crate) fn launcher_of(mut self, command: impl Fn(&str) -> Command) -> Self {
        self.launcher = command(env!("CARGO_BIN_EXE_millrace"));
        self
    }

    /// Returns the path of a file in the directory of the test.
    pub(crate) fn path(&self, name: &str) -> String {
        self.scratch.path(name)
    }

    /// Returns the output of `millrace check` for this run.
    pub(crate) fn check(&self) -> Value {
        std::fs::write(self.path("bump.toml"), &self.config).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = run(check.args(["check", "--json", &self.path("bump.toml")]).args(&self.args));
        serde_json::from_str(&output).expect("the plan is JSON")
    }

    /// Starts the run and waits until it forwards packets.
    pub(crate) fn start(self) -> Bump {
        let mut bump = self.spawn();
        bump.wait_until("its heading", |bump| bump.stdout().contains("kpps"));
        bump
    }

    /// Starts the run and waits until it ends.
    pub(crate) fn run(self) -> Ended {
        self.spawn().wait()
    }

    /// Starts a run that must fail at its start, with an error message that contains `texts`.
    pub(crate) fn assert_refused(self, status: i32, texts: &[&str]) {
        let ended = self.run();
        assert_eq!(ended.status, Some(status), "{}", ended.stderr);
        assert!(!ended.stdout.contains("ledger"), "{}", ended.stdout);
        for text in texts {
            assert!(ended.stderr.contains(text), "{text:?} not in {:?}", ended.stderr);
        }
    }

    /// Starts the run without waiting.
    pub(crate) fn spawn(self) -> Bump {
        let Self { scratch, mut launcher, args, config, has_file, duration, json, flows, _turn } =
            self;
        std::fs::write(scratch.path("bump.toml"), config).unwrap();
        let file = |name: &str| File::create(scratch.path(name)).unwrap();
        launcher.arg("run");
        if has_file {
            launcher.arg(scratch.path("bump.toml"));
        }
        // Tests wait for lines, so the interval is shorter than the default.
        launcher.args(["--duration", &duration, "--interval", "0.25"]);
        launcher.args(["--json", &json.unwrap_or_else(|| scratch.path("run.json"))]);
        if !flows.is_empty() {
            launcher.args(["--flows", &scratch.path(flows)]);
        }
        launcher.args(args).stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        Bump { process: Process::spawn(&mut launcher), scratch, flows, _turn }
    }
}

impl Bump {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.scratch.path(name)
    }

    pub(crate) fn stdout(&self) -> String {
        self.scratch.read("out")
    }

    /// Returns standard error, without the line about the cpus of workers.
    pub(crate) fn stderr(&self) -> String {
        without_placement(&self.scratch.read("err"))
    }

    /// Returns the line about the cpus of workers.
    pub(crate) fn placement(&self) -> String {
        let text = self.scratch.read("err");
        text.lines().find(|line| is_placement(line)).expect("the cpus of workers").to_owned()
    }

    /// Returns the lines printed so far, one per interval.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = self.stdout();
        let complete = &text[..text.rfind('\n').unwrap_or(0)];
        let numbers = |line: &str| {
            let words = line.split_whitespace();
            words.map(|word| word.replace('_', "").parse().ok()).collect::<Option<Vec<f64>>>()
        };
        let line = |line| match numbers(line).as_deref() {
            Some(
                &[time, up_kpps, _, down_kpps, _, dropped, _, flows, .., stolen_percent, wait_us],
            ) => Some(Line { time, up_kpps, down_kpps, dropped, flows, stolen_percent, wait_us }),
            _ => None,
        };
        complete.lines().filter_map(line).collect()
    }

    /// Waits until `condition` holds. Fails if the run ends before.
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        wait_until(what, || {
            let ended = self.process.ended();
            let holds = condition(self);
            assert!(holds || ended.is_none(), "{what}: {ended:?}\n{}", self.stderr());
            holds
        });
    }

    /// Waits until a line printed after this call satisfies `condition`.
    pub(crate) fn wait_for_line(&mut self, what: &str, condition: impl Fn(&Line) -> bool) {
        let seen = self.lines().len();
        self.wait_until(what, |bump| bump.lines()[seen..].iter().any(&condition));
    }

    /// Waits until a message appears on standard error.
    pub(crate) fn wait_for_message(&mut self, text: &str) {
        self.wait_until(text, |bump| bump.stderr().contains(text));
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn finish(self) -> Ended {
        self.signal("INT");
        self.wait()
    }

    /// Waits for the end, which may be by a signal.
    pub(crate) fn wait_for_status(mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Waits for the end of the run.
    pub(crate) fn wait(mut self) -> Ended {
        let status = self.process.wait().code();
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let Self { scratch, flows, .. } = self;
        Ended { status, stdout, stderr, scratch, flows }
    }
}

impl Ended {
    /// Fails unless the run succeeded: the ledger is balanced, and there are no warnings.
    #[track_caller]
    pub(crate) fn assert_good(&self) {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""));
        self.assert_balanced();
    }

    /// Fails unless all packets and all flows are accounted for.
    #[track_caller]
    pub(crate) fn assert_balanced(&self) {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        self.assert_accounted();
    }

    /// Fails unless all packets and all flows are accounted for, whatever the exit status.
    #[track_caller]
    pub(crate) fn assert_accounted(&self) {
        assert!(self.stdout.contains("balanced"), "{}", self.stdout);
        let summary = self.summary();
        let ledger = &summary["ledger"];
        let out = ["tx", "dropped", "held"].map(|member| count(&ledger[member]));
        assert_eq!(ledger["balanced"], true);
        assert_eq!(count(&ledger["rx"]), out.iter().sum::<u64>());
        let flows = &summary["flows"];
        assert_eq!(flows["active"], 0);
        assert_eq!(count(&flows["created"]), total(&flows["ended"]));
        assert_eq!(count(&flows["created"]), self.records().len() as u64);
        let tracked: u64 = self.records().iter().map(Record::packets).sum();
        let drops = &summary["drops"];
        let after_tracking = ["tx_full", "port_reset"].map(|reason| count(&drops[reason]));
        let untracked =
            total(&summary["passed"]) + total(drops) - after_tracking.iter().sum::<u64>();
        // Packets that a NIC forwarded by a bypass rule are in the records, and no worker received
        // them.
        let bypassed = count(&summary["offload"]["bypassed"]["packets"]);
        assert_eq!(count(&ledger["rx"]) + bypassed, tracked + untracked);
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.scratch.read("run.json")).expect("the summary is JSON")
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        read_records(&self.scratch.path(self.flows))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.scratch.path(name)
    }
}

/// True for the line about the cpus of workers, which depends on the host.
fn is_placement(line: &str) -> bool {
    line.starts_with("millrace: worker ") || line.starts_with("millrace: workers ")
}

/// Returns the lines that do not depend on the host.
pub(crate) fn without_placement(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !is_placement(line)).collect()
}

/// Returns a counter of the summary.
#[track_caller]
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no counter"))
}

/// Returns the sum of the counters in an object.
#[track_caller]
pub(crate) fn total(counters: &Value) -> u64 {
    counters.as_object().expect("an object of counters").values().map(count).sum()
}
