// SPDX-License-Identifier: BSD-3-Clause
//! The flows of `millrace replay` and those of tshark, an independent tool.
//!
//! Twice: packet by packet from the fields tshark prints (packets, bytes and IP bytes of every
//! direction of every flow, and what is passed untracked, by reason), and by the tables of
//! `tshark -z conv`. Both must agree but for the differences listed in `rules.rs` and `counted.rs`.

mod account;
mod chain;
mod conversations;
mod counted;
mod datagrams;
#[path = "../replay/folder.rs"]
mod folder;
mod packet;
mod rules;
mod synthetic;
mod tally;
mod tool;

use account::Account;
use conversations::Conversations;
use counted::CAUSES;
use folder::real_captures;
use rules::{OTHERS, RULES};
use std::path::{Path, PathBuf};
use std::process::Command;
use tally::Replayed;
use tool::{Readable, Tshark};

/// Captures that tshark reads in one go.
const BATCH: usize = 100;

/// Room for all fragments of a capture, for as long as possible.
const FRAGMENTS: &str = "[fragments]
datagrams = 65_536
per_source = 65_536
timeout_ms = 600_000
hold = 16_384
hold_ms = 600_000
";

#[test]
fn synthesised_captures_have_the_flows_that_tshark_sees() {
    let Some(tshark) = Tshark::new("synthesised") else { return };
    let captures = synthetic::captures().into_iter();
    let captures: Vec<PathBuf> =
        captures.map(|(name, bytes)| tshark.write(&format!("{name}.pcap"), &bytes)).collect();
    let account = compare(&tshark, &captures);
    account.print();
    account.assert_good();
    assert_eq!(account.refused, 0);
    let whys = RULES.iter().map(|rule| rule.why).chain(CAUSES.iter().map(|cause| cause.why));
    let whys = whys.chain(OTHERS);
    let unused: Vec<&str> = whys.filter(|why| !account.differences.contains_key(why)).collect();
    assert!(unused.is_empty(), "no synthesised packet shows these: {unused:#?}");
}

#[test]
fn real_captures_have_the_flows_that_tshark_sees() {
    let Some(captures) = real_captures() else { return };
    let Some(tshark) = Tshark::new("real") else { return };
    let account = compare(&tshark, &captures);
    account.print();
    account.assert_good();
}

/// Compares captures, in two threads.
fn compare(tshark: &Tshark, captures: &[PathBuf]) -> Account {
    let batches: Vec<(usize, &[PathBuf])> = captures.chunks(BATCH).enumerate().collect();
    let mut account = Account::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = batches
            .chunks(batches.len().div_ceil(2).max(1))
            .map(|batches| {
                scope.spawn(move || {
                    let mut account = Account::default();
                    for (number, captures) in batches {
                        compare_batch(tshark, &number.to_string(), captures, &mut account);
                    }
                    account
                })
            })
            .collect();
        for thread in threads {
            account.add(thread.join().expect("the comparison ends"));
        }
    });
    account
}

/// Compares captures that tshark reads in one go, under this name.
fn compare_batch(tshark: &Tshark, name: &str, captures: &[PathBuf], account: &mut Account) {
    let scratch = tshark.path(name);
    let readable = tshark.readable(captures);
    for capture in captures {
        if !readable.iter().any(|readable| readable.path == *capture) {
            account.compare_refused(capture, &replay(capture, &scratch));
        }
    }
    if readable.is_empty() {
        return;
    }
    let dissection = tshark.dissect(name, &readable);
    let mut must = Conversations::default();
    for (Readable { path, .. }, packets) in readable.iter().zip(&dissection.captures) {
        account.compare_capture(path, packets, &replay(path, &scratch), &mut must);
    }
    account.compare_conversations(&Conversations::parse(&dissection.conversations), &must);
}

/// Runs `millrace replay`, which writes to files of this name.
fn replay(capture: &Path, scratch: &Path) -> Replayed {
    let (summary, flows) = (scratch.with_extension("json"), scratch.with_extension("jsonl"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    // Whatever the times in a capture are, fragments wait for each other.
    let config = scratch.with_extension("toml");
    let table = "[table]\ncapacity = 4096\n";
    // tshark counts neighbour discovery, too.
    let policy = "[policy]\nneighbour_discovery = \"tracked\"\n";
    std::fs::write(&config, format!("{table}{FRAGMENTS}{policy}")).unwrap();
    command.args(["replay", "--config"]).arg(&config).arg("--json").arg(&summary);
    let output = command.arg("--flows").arg(&flows).arg(capture).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", capture.display());
    let read = |path| std::fs::read_to_string(path).unwrap();
    Replayed::read(&read(summary), &read(flows))
}
