// SPDX-License-Identifier: BSD-3-Clause
//! The rooms of the program in layers: which room may import which, and that no files of a running
//! bump import each other in a circle.

use std::path::Path;
use testkit::layers::SourceTree;

/// A room may import only what stands before it. The rooms of a run are those of `live`.
const ORDER: [&str; 35] = [
    "signals",
    "privileges",
    "twin_driver",
    "cpu_locks",
    "placement",
    "threads",
    "worker_cycles",
    "netdev",
    "start",
    "backend",
    "ports",
    "connections/totals",
    "connections/impairment",
    "connections/next_hop",
    "connections/session",
    "connections",
    "tester",
    "live/clock",
    "live/rates",
    "live/counters",
    "live/ports",
    "live/checkpointing",
    "live/offload",
    "live/commands",
    "live/worker",
    "live/summary",
    "live/query",
    "live/totals",
    "live/runtime",
    "live/startup",
    "live/rate_line",
    "live/reload_plan",
    "live/answers",
    "live",
    "demo",
];

/// Commands may import all rooms, and the root of the crate. No room may import a command.
const COMMANDS: [&str; 3] = ["cmd", "fuzzing", "main"];

fn read() -> SourceTree {
    SourceTree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn rooms_import_only_downwards() {
    let order: Vec<&str> = ORDER.into_iter().chain(COMMANDS).collect();
    let mut upward = read().upward_imports(&order);
    upward.retain(|complaint| !complaint.starts_with("cmd/"));
    assert_none(upward);
}

#[test]
fn no_files_of_a_running_bump_import_each_other() {
    assert_none(read().circles("live"));
}
