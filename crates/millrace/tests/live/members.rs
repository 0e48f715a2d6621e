// SPDX-License-Identifier: BSD-3-Clause
//! Tests that the members of JSON output keep their names: of the summary, of flow records, of
//! events, and of the answers of a running instance.
//!
//! `members.txt` was written with the program as it was before its types got other names. A new
//! member is added there by hand.

use crate::bump::Setup;
use crate::captures::Talk;
use crate::new_scratch;
use crate::twin::driver;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;
use testkit::host::has_cpus;
use testkit::process::run;
use testkit::scratch::Scratch;

const GOLDEN: &str = include_str!("members.txt");

fn millrace(words: &[&str], socket: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words).args(["--json", "--instance", socket]);
    command
}

/// Adds the paths of all members of `value`, each after the name of the output. Elements of an
/// array count as one.
fn add_members(path: &str, value: &Value, members: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = format!("{path}.{name}");
                add_members(&path, value, members);
                members.insert(path);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| add_members(&format!("{path}[]"), item, members));
        }
        _ => {}
    }
}

/// Adds the members of one JSON value, or of one in each line.
fn add_text(name: &str, text: &str, members: &mut BTreeSet<String>) {
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        add_members(name, &value.expect("it is JSON"), members);
    }
}

/// Returns lines of events: of the end of all connections, and of new ones.
fn events(socket: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"{\"millrace\":1,\"ask\":\"events\"}\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    // The header comes once the subscription has begun.
    let mut text = lines.next().unwrap().unwrap();
    run(&mut millrace(&["ct", "flush", "--all"], socket));
    while !(text.contains("\"destroy\"") && text.contains("\"new\"")) {
        text += &lines.next().unwrap().unwrap();
    }
    text
}

#[test]
fn members_of_json_keep_their_names() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let scratch = Scratch::new(std::env::temp_dir(), "members");
    let socket = scratch.path("a.sock");
    let (setup, talk) = (Setup::in_scratch(new_scratch("members")), Talk::new(1, 300));
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let twin = |number, path| format!("net_twin{number},replay={path},loops=forever");
    let setup = setup.pair(&twin(0, a), &twin(1, b)).args(&["--offload", "after 8"]);
    let mut bump = setup.args(&["--socket", &socket]).start();
    bump.wait_for_line("connections", |line| line.flows >= 300.0);
    let mut members = BTreeSet::new();
    add_text("events", &events(&socket), &mut members);
    for words in [
        &["stats"][..],
        &["ct", "list"],
        &["ct", "count"],
        &["ct", "zones"],
        &["flows"],
        &["offload"],
    ] {
        let text = run(&mut millrace(words, &socket));
        add_text(&words.join(" "), &text, &mut members);
    }
    let ended = bump.finish();
    add_members("summary", &ended.summary(), &mut members);
    add_text("records", &std::fs::read_to_string(ended.path("flows.jsonl")).unwrap(), &mut members);
    if let Some(path) = std::env::var_os("MILLRACE_MEMBERS") {
        let text: String = members.iter().map(|member| format!("{member}\n")).collect();
        std::fs::write(path, text).unwrap();
    }
    let golden: BTreeSet<String> = GOLDEN.lines().map(str::to_owned).collect();
    let lost: Vec<_> = golden.difference(&members).collect();
    let new: Vec<_> = members.difference(&golden).collect();
    assert!(lost.is_empty() && new.is_empty(), "lost: {lost:#?}\nnew: {new:#?}");
}
