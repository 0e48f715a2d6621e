// SPDX-License-Identifier: BSD-3-Clause
//! Tests changes of access lists while packets flow: what a change does and what a dry run says of
//! it, handles, refusals, and changes that take turns.

use crate::access::{ECHO, TOOLS, TWO};
use crate::bump::{Bump, Setup, count};
use crate::instance::{ask, text};
use crate::lan::{Host, Lan};
use crate::reload::{Changing, config, setup};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdout, Output, Stdio};
use testkit::host::has_root_and;
use testkit::process::{Process, wait_until};

/// A list whose set no rule names yet.
const LIST: &str = r#"
[[set]]
name = "hosts"
networks = ["10.9.0.0/24"]
[[list]]
name = "l"
port = "a"
default = "permit"
rules = """
count proto icmp
permit+reflect proto tcp
"""
"#;

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the rules of `acl show`: handle, text and packets of each.
fn rules(output: Output) -> Vec<(Value, Value, u64)> {
    let rules = serde_json::from_str::<Value>(&printed(output)).unwrap()["rules"].clone();
    let rule =
        |rule: &Value| (rule["handle"].clone(), rule["text"].clone(), count(&rule["packets"]));
    rules.as_array().unwrap().iter().map(rule).collect()
}

/// A run between two hosts of the kernel that have two connections, to ports 80 and 81.
pub(crate) struct Hosts {
    bump: Bump,
    pub(crate) socket: String,
    client: Process,
    lines: Lines<BufReader<ChildStdout>>,
    server: Process,
    /// The namespaces end with it.
    pub(crate) lan: Lan,
}

impl Hosts {
    pub(crate) fn start() -> Option<Self> {
        if !has_root_and(&TOOLS) {
            return None;
        }
        let lan = Lan::with_cables()?;
        let setup = Setup::new("acl-change").config(LIST);
        let (bump, socket) = lan.start_bump(setup);
        let piped = |host: &Host, program: &str, args: &[&str]| {
            let mut command = host.namespace.command("python3");
            command.args(["-c", program]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
            Process::spawn(&mut command)
        };
        let mut server = piped(&lan.b, ECHO, &[]);
        assert_eq!(server.first_line().trim(), "ready");
        let ping = format!("ping -c 1 -W 1 {}", lan.b.v4);
        wait_until("A reaches B", || lan.a.namespace.succeeds(&ping));
        let mut client = piped(&lan.a, TWO, &[lan.b.v4]);
        let mut lines = BufReader::new(client.child().stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "open");
        Some(Self { bump, socket, client, lines, server, lan })
    }

    /// Sends a byte over each connection; returns which came back.
    pub(crate) fn exchange(&mut self) -> String {
        writeln!(self.client.child().stdin.as_mut().unwrap(), "again").unwrap();
        self.lines.next().unwrap().unwrap()
    }

    /// Exchanges bytes until these come back. The kernel sends again what was lost, after a time.
    #[track_caller]
    fn becomes(&mut self, expected: &str) {
        let found = (0..10).map(|_| self.exchange()).find(|found| found == expected);
        assert!(found.is_some(), "{expected}: {:?}", self.show());
    }

    #[track_caller]
    pub(crate) fn ask(&self, args: &[&str]) -> String {
        text(&self.socket, args)
    }

    pub(crate) fn show(&self) -> Vec<(Value, Value, u64)> {
        rules(ask(&self.socket, &["acl", "show", "--json"]))
    }

    #[track_caller]
    fn assert_handles(&self, handles: &[&str]) {
        let found: Vec<_> = self.show().into_iter().map(|(handle, ..)| handle).collect();
        let (default, rules) = found.split_last().unwrap();
        assert!(default.is_null() && rules == handles, "{found:?}");
    }

    pub(crate) fn finish(self) {
        drop((self.client, self.server));
        self.bump.finish().assert_balanced();
        drop(self.lan);
    }
}

/// A dry run says what would happen to the connections, and it does not happen until the rule is
/// added. Handles from before are refused.
#[test]
fn a_rule_cuts_the_connection_that_the_dry_run_has_named() {
    let Some(mut hosts) = Hosts::start() else { return };
    assert_eq!(hosts.exchange(), "[True, True]");
    hosts.assert_handles(&["l:0:0", "l:0:1"]);
    let add = ["acl", "add", "l", "--at", "0", "deny src @hosts proto tcp dport 80"];
    let dry = hosts.ask(&[&add[..], &["--dry-run"]].concat());
    assert!(dry.starts_with("added l:1:0: deny src @hosts proto tcp dport 80\n"), "{dry}");
    assert!(dry.contains("warning: l:1:2 overlaps: permit+reflect proto tcp\n  l:1:0 takes some"));
    assert!(dry.contains("connections: 1 permitted now would be denied, such as\n  "), "{dry}");
    assert!(dry.contains("dport=80") && !dry.contains("dport=81"), "{dry}");
    assert_eq!(hosts.exchange(), "[True, True]");
    hosts.assert_handles(&["l:0:0", "l:0:1"]);

    let before = hosts.show()[1].2;
    let output = ask(&hosts.socket, &add);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("in force until the next reload") && note.contains("--text \"l\""));
    assert_eq!(printed(output), "l:1:0\n");
    assert_eq!(hosts.exchange(), "[False, True]");
    hosts.assert_handles(&["l:1:0", "l:1:1", "l:1:2"]);
    let rules = hosts.show();
    assert!(before > 0 && rules[2].2 > before && rules[0].2 > 0, "{before}: {rules:?}");
    let old = ask(&hosts.socket, &["acl", "delete", "l:0:1"]);
    let refused = "millrace: l:0:1: the lists have changed since; the rule is l:1:2 now: \
                   permit+reflect proto tcp\n";
    assert_eq!(old.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&old.stderr), refused);

    let dry = hosts.ask(&["acl", "delete", "l:1:0", "--dry-run", "--json"]);
    let dry: Value = serde_json::from_str(&dry).unwrap();
    assert_eq!(dry["changes"][0]["from"], "l:1:0");
    let decision = &dry["decisions"][0];
    assert_eq!((&decision["now"], &decision["then"]), (&"denied".into(), &"permitted".into()));
    assert_eq!(decision["connections"], 1);
    assert_eq!(decision["examples"][0]["dport"], 80);
    hosts.finish();
}

/// Two connections of the kernel are cut and go on as rules come and go, until a reload brings back
/// the list of the file.
#[test]
fn rules_change_while_connections_go_on() {
    let Some(mut hosts) = Hosts::start() else { return };
    assert_eq!(hosts.ask(&["acl", "add", "l", "--at", "1", "deny proto tcp dport 80"]), "l:1:1\n");
    hosts.becomes("[False, True]");
    assert_eq!(hosts.ask(&["acl", "replace", "l:1:1", "deny proto tcp dport 81"]), "l:2:1\n");
    hosts.becomes("[True, False]");
    assert_eq!(hosts.ask(&["acl", "move", "l:2:1", "--to", "2"]), "l:3:2\n");
    hosts.becomes("[True, True]");
    let deleted = "deleted l:3:2: deny proto tcp dport 81\n";
    assert_eq!(hosts.ask(&["acl", "delete", "l:3:2"]), deleted);
    hosts.assert_handles(&["l:4:0", "l:4:1"]);
    assert_eq!(hosts.ask(&["acl", "replace", "l:4:1", "deny proto tcp"]), "l:5:1\n");
    let list = "count proto icmp\ndeny proto tcp\n# default permit\n";
    assert_eq!(hosts.ask(&["acl", "show", "--text", "l"]), list);
    hosts.becomes("[False, False]");

    // The file has the list as it was.
    let dry = hosts.ask(&["ct", "reload", "--dry-run"]);
    let changes = "removed l:5:1: deny proto tcp\nadded l:6:1: permit+reflect proto tcp\n";
    assert!(dry.starts_with(changes), "{dry}");
    assert!(dry.contains("connections: 2 denied now would be permitted"), "{dry}");
    hosts.becomes("[False, False]");
    hosts.ask(&["ct", "reload"]);
    hosts.becomes("[True, True]");
    hosts.assert_handles(&["l:6:0", "l:6:1"]);
    let dry = hosts.ask(&["ct", "reload", "--dry-run"]);
    assert!(dry.starts_with("no rule of an access list would change\n"), "{dry}");
    hosts.finish();
}

/// A run with a list, and with a set.
pub(crate) fn with_list() -> Changing {
    Changing::start(setup().config(LIST))
}

#[test]
fn a_change_is_refused_as_a_whole() {
    let run = with_list();
    let refused = |args: &[&str]| {
        for dry_run in [&[][..], &["--dry-run"]] {
            let output = run.ask(&[&["acl"], args, dry_run].concat());
            assert_eq!(
                (output.status.code(), &output.stdout[..]),
                (Some(1), &b""[..]),
                "{output:?}"
            );
            if !dry_run.is_empty() {
                return String::from_utf8(output.stderr).unwrap();
            }
        }
        unreachable!()
    };
    for (args, text) in [
        (&["add", "m", "permit"][..], "there is no list \"m\"; the lists are \"l\"\n"),
        (&["add", "l", "permit", "deny\npermit dport x"], "line 3, column 14: "),
        (
            &["add", "l", "deny", "permit src @x"],
            "line 2, column 12: there is no set \"x\"; define it as [[set]]; the sets are @hosts\n",
        ),
        (&["add", "l", "# nothing"], "there is no rule in it"),
        (
            &["add", "l", "permit", "--at", "3"],
            "--at 3: list \"l\" has 2 rules; write a number from 0 to 2\n",
        ),
        (
            &["move", "l:0:0", "--to", "2"],
            "--to 2: list \"l\" has 2 rules; write a number from 0 to 1\n",
        ),
        (&["replace", "l:0:0", "permit\ndeny"], "2 rules in the place of one; write one"),
        (&["delete", "l:0:0", "l:0:2"], "l:0:2: list \"l\" has 2 rules"),
        (&["delete", "l:1:0"], "l:1:0: the lists have changed 0 times only"),
        (&["delete", "l:1"], "\"l:1\" is no handle of a rule: write LIST:EPOCH:NUMBER"),
    ] {
        let error = refused(args);
        assert!(error.starts_with("millrace: ") && error.contains(text), "{args:?}: {error}");
    }
    let output = run.ask(&["acl", "show", "--text", "m"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the lists are \"l\""), "{output:?}");
    run.bump.finish().assert_balanced();
}

/// The output of `acl show --text` is a list that the configuration takes, unchanged.
#[test]
fn the_text_of_a_list_can_be_put_into_the_configuration() {
    let run = with_list();
    run.text(&["acl", "add", "l", "deny log src @hosts proto udp dport 53", "ipv6 permit ct new"]);
    let list = run.text(&["acl", "show", "--text", "l"]);
    let file = run.write("l.rules", &list);
    let start = LIST.find("rules").unwrap();
    let path =
        run.write("kept.toml", &config(600, &format!("{}file = {file:?}\n", &LIST[..start])));
    let dry = run.text(&["ct", "reload", &path, "--dry-run"]);
    assert!(dry.starts_with("no rule of an access list would change\n"), "{dry}");
    run.bump.finish().assert_balanced();
}

/// Each of many changes at once is made, and sees the lists that the one before it has left.
#[test]
fn changes_at_once_take_turns() {
    let run = with_list();
    let add = |port: u16| {
        let rule = format!("permit proto udp dport {port}");
        let handle = run.text(&["acl", "add", "l", "--at", "0", &rule]);
        let epoch = handle.trim().strip_prefix("l:").and_then(|rest| rest.strip_suffix(":0"));
        epoch.unwrap_or_else(|| panic!("{handle}")).parse::<u32>().unwrap()
    };
    let add = &add;
    let mut epochs = std::thread::scope(|scope| {
        let threads = [100, 200, 300]
            .map(|port| scope.spawn(move || (0..5).map(|i| add(port + i)).collect::<Vec<_>>()));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=15).collect::<Vec<_>>());
    let rules = rules(run.ask(&["acl", "show", "--json"]));
    let ports = rules.iter().filter(|(_, text, _)| text.as_str().unwrap().contains("dport"));
    assert_eq!((rules.len(), ports.count()), (18, 15));
    // Of two changes with one handle, the second is refused.
    let outputs = std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| scope.spawn(|| run.ask(&["acl", "delete", "l:15:0"])));
        threads.map(|thread| thread.join().unwrap())
    });
    let refused: Vec<_> = outputs.iter().filter(|output| !output.status.success()).collect();
    let [refused] = refused[..] else { panic!("{outputs:?}") };
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the rule is gone"), "{refused:?}");
    run.bump.finish().assert_balanced();
}
