// SPDX-License-Identifier: BSD-3-Clause
//! Tests reloads of the configuration while packets flow. Settings apply at once, to existing
//! connections too, all or none of them. No connection is lost.

use crate::bump::{Bump, Setup, count};
use crate::captures::Talk;
use crate::instance;
use serde_json::Value;
use std::process::{Command, Output};
use testkit::process::wait_until;
use testkit::scratch::Scratch;

/// Number of connections.
const ALL: usize = 100;
/// Number of connections whose packets continue.
const BUSY: usize = 53;

/// A run in which one side has sent all its packets, and the other side repeats its own.
pub(crate) struct Changing {
    pub(crate) bump: Bump,
    socket: String,
}

impl Changing {
    pub(crate) fn start(setup: Setup) -> Self {
        let (socket, talk) = (setup.path("a.sock"), Talk::new(1, ALL as u16));
        let [a, b] = ["a", "b"].map(|name| setup.path(name));
        talk.write(&a, &b);
        let [a, b] = [format!("0,rx_pcap={a}"), format!("1,rx_pcap={b},infinite_rx=1")];
        let setup = setup.pair(&format!("net_pcap{a}"), &format!("net_pcap{b}"));
        let run = Self { bump: setup.args(&["--socket", &socket]).start(), socket };
        let said: u64 = talk.frames[0].len() as u64;
        let has_said = |run: &Self| {
            let lists = run.list().iter().map(|line| count(&line["orig"]["packets"])).sum::<u64>();
            lists >= said
        };
        wait_until("all connections", || run.list().len() == ALL && has_said(&run));
        run
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        instance::ask(&self.socket, args)
    }

    #[track_caller]
    pub(crate) fn text(&self, args: &[&str]) -> String {
        instance::text(&self.socket, args)
    }

    #[track_caller]
    pub(crate) fn list(&self) -> Vec<Value> {
        let text = self.text(&["ct", "list", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the shortest and the longest remaining time of all connections, in seconds.
    #[track_caller]
    fn left(&self) -> (f64, f64) {
        let left = self.list().into_iter().map(|line| line["timeout_s"].as_f64().unwrap());
        left.fold((f64::MAX, 0.0), |(least, most), left| (left.min(least), left.max(most)))
    }

    /// Returns `connections_max` and the name of the timeout policy of zone 5.
    fn zone(&self) -> (Value, Value) {
        let text = self.text(&["ct", "zones", "--json"]);
        let zones = serde_json::from_str::<Value>(&text).unwrap()["zones"].clone();
        let mut zones = zones.as_array().unwrap().clone().into_iter();
        let zone = zones.find(|zone| zone["zone"] == 5).expect("it has connections");
        (zone["connections_max"].clone(), zone["timeouts"].clone())
    }

    /// Writes a configuration; returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.bump.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs a reload that must be refused; returns its message.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = self.ask(&[&["ct", "reload"], args].concat());
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Ends the run. Checks that no packet is missing, that each connection began once, and that
    /// `lost` of them expired.
    fn finish(self, lost: usize) {
        let ended = self.bump.finish();
        ended.assert_balanced();
        let summary = ended.summary();
        assert_eq!(count(&summary["flows"]["created"]), ALL as u64, "{}", summary["flows"]);
        let records = ended.records();
        let idle = records.iter().filter(|record| record.text("end_reason") == "idle");
        assert_eq!((idle.count(), records.len()), (lost, ALL));
    }
}

/// Socket paths must be short, so the directory is one with a short path.
pub(crate) fn setup() -> Setup {
    Setup::in_scratch(Scratch::new(std::env::temp_dir(), "reload"))
}

/// Returns the configuration of the test with these timeouts and `more` lines.
pub(crate) fn config(seconds: u32, more: &str) -> String {
    let keys = ["tcp_syn_sent", "tcp_established", "udp_first", "udp_single", "udp_multiple"];
    let keys = keys.iter().chain(&["icmp_first", "icmp_reply"]);
    let lines: String = keys.map(|key| format!("{key} = {seconds}\n")).collect();
    format!("[table]\ncapacity = 4096\n[timeouts]\n{lines}{more}")
}

#[test]
fn timeouts_hold_at_once_for_connections_that_are_there() {
    let run = Changing::start(setup());
    assert!(run.left().1 <= 600.0);
    run.write("bump.toml", &config(86_400, ""));
    assert_eq!(run.text(&["ct", "reload"]), "reloaded: timers of 0 connections now fire earlier\n");
    assert!(run.left().0 > 80_000.0);
    // Connections without packets expire.
    run.write("bump.toml", &config(5, ""));
    let text = run.text(&["ct", "reload", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["retimed"], ALL);
    wait_until("the silent ones end", || run.list().len() == BUSY);
    assert!(run.left().1 <= 5.0);
    run.write("bump.toml", &config(600, ""));
    run.text(&["ct", "reload"]);
    let (least, most) = run.left();
    assert!(least > 500.0 && most <= 600.0, "{least} {most}");
    run.finish(ALL - BUSY);
}

#[test]
fn what_is_wrong_or_takes_a_restart_is_said_and_nothing_changes() {
    let run = Changing::start(setup());
    let path = run.bump.path("bump.toml");
    let more = "[limits]\nsource_max = 7\n[policy]\ninvalid = \"drop\"\npick_up = \"strict\"\n";
    run.write("bump.toml", &config(5, more).replace("4096", "8192\nlabels = true"));
    let fault = |key, wanted, running| {
        format!("{path}: {key}: {wanted} needs a restart; the instance runs with {running}\n")
    };
    let expected = [
        fault("table.capacity", "8192", "4096"),
        fault("table.capacity_ipv6", "2048", "1024"),
        fault("table.labels", "true", "false"),
        fault("policy.invalid", "\"drop\"", "\"pass\""),
        fault("limits.source_max", "7", "0"),
    ];
    assert_eq!(run.refused(&[]), expected.concat());

    // The message is that of `millrace check`.
    run.write("bump.toml", &config(5, "udp_firts = 1\n[[zone]]\nids = 5\n"));
    let mut check = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let check = check.args(["check", &path, "--pair", "net_null0,net_null1"]).output().unwrap();
    assert_eq!(run.refused(&[]), String::from_utf8(check.stderr).unwrap());
    assert!(run.refused(&[]).starts_with(&format!("{path}:11:1: ")), "{}", run.refused(&[]));

    std::fs::remove_file(&path).unwrap();
    assert!(run.refused(&[]).starts_with(&format!("{path}: ")));
    assert_eq!(run.refused(&["/dev/zero"]), "/dev/zero: is not a regular file\n");
    assert_eq!(run.zone(), (Value::Null, "default".into()));
    assert!(run.left().1 > 500.0);
    run.finish(0);
}

/// A reload says how long workers followed different lists, if lists have changed.
#[test]
fn a_change_of_lists_says_how_long_both_were_in_force() {
    let run = Changing::start(setup().config("[acl]\n"));
    let list = "[[list]]\nname = \"l\"\nport = \"a\"\nrules = \"permit\"\n";
    let reload = |more: &str| {
        let path = run.write("lists.toml", &config(600, &format!("[acl]\n{more}")));
        let text = run.text(&["ct", "reload", &path, "--json"]);
        serde_json::from_str::<Value>(&text).unwrap()["both_lists_s"].clone()
    };
    assert_eq!(reload(""), Value::Null);
    assert_eq!(reload(list).as_f64(), Some(0.0), "there is one worker");
    assert_eq!(reload(list), Value::Null, "the same lists");
    let path = run.write("lists.toml", &config(600, "[acl]\n"));
    let text = run.text(&["ct", "reload", &path]);
    assert!(text.contains("; old and new access lists were in force together for 0 s at most; "));
    assert!(text.contains(", the new ones decided about all "), "{text}");
    run.bump.finish().assert_balanced();
}

#[test]
fn a_run_without_a_configuration_takes_one_that_is_named() {
    let mut launcher = Command::new("sh");
    launcher.args(["-c", "bin=$1; shift 3; exec \"$bin\" run \"$@\"", "sh"]);
    let run = Changing::start(setup().launcher(launcher));
    let nothing = run.refused(&[]);
    assert!(nothing.contains("millrace ct reload bump.toml"), "{nothing}");
    // Settings that the file does not have keep their values.
    let path = run.write("other.toml", "[timeouts]\nudp_first = 1000\n");
    run.text(&["ct", "reload", &path]);
    let longest = run.left();
    assert!(longest.1 > 900.0, "{longest:?}");
    run.bump.finish().assert_balanced();
}

#[test]
fn zones_change_while_others_change_them_and_look() {
    let run = Changing::start(setup());
    let zone = "[[timeout_policy]]\nname = \"long\"\n[[zone]]\nids = [5]\ntimeouts = \"long\"\n\
        connections_max = 1\ntcp = \"liberal\"\n";
    let paths = [
        run.write("plain.toml", &config(600, "[policy]\ntcp = \"liberal\"\n")),
        run.write("zone.toml", &config(600, zone)),
    ];
    assert_eq!(run.zone(), (Value::Null, "default".into()));
    std::thread::scope(|scope| {
        for path in &paths {
            let run = &run;
            scope.spawn(move || (0..10).for_each(|_| drop(run.text(&["ct", "reload", path]))));
        }
        (0..10).for_each(|_| assert_eq!(run.list().len(), ALL));
    });
    // Twenty connections exist already. They stay, although the limit is lower.
    run.text(&["ct", "reload", &paths[1]]);
    assert_eq!(run.zone(), (1.into(), "long".into()));
    run.text(&["ct", "reload"]);
    assert_eq!(run.zone(), (Value::Null, "default".into()));
    assert_eq!(run.list().len(), ALL);
    run.finish(0);
}
