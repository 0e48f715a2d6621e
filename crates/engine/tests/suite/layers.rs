// SPDX-License-Identifier: BSD-3-Clause
//! The rooms of the engine in layers: which room may import which, and that no files import each
//! other in a circle.
//!
//! A room is a top-level module: `name.rs` and `name/`. `packet/parse` is a room of its own. A name
//! counts where it is defined: re-exports in the face of a room are followed.

use std::fs;
use std::path::{Path, PathBuf};
use testkit::layers::{SourceFile, SourceTree, product_code};

/// A room may import only what stands before it.
const ORDER: [&str; 14] = [
    "base",
    "api",
    "packet",
    "packet/parse",
    "conn",
    "fragments",
    "policy",
    "account",
    "table",
    "offload",
    "tracker",
    "pipeline",
    "engine",
    "control",
];

const FACE_LINES_MAX: usize = 120;

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read() -> SourceTree {
    SourceTree::read(&src())
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn rooms_import_only_downwards() {
    assert_none(read().upward_imports(&ORDER));
}

#[test]
fn no_files_import_each_other() {
    assert_none(read().circles(""));
}

#[test]
fn the_engine_is_implemented_at_the_top() {
    let is_below =
        |file: &&SourceFile| !file.path.starts_with("engine") && !file.path.starts_with("control");
    let has_it = |file: &&SourceFile| file.code.contains("impl Engine");
    let tree = read();
    let files = tree.files();
    let found = files.iter().filter(is_below).filter(has_it);
    assert_none(found.map(|file| format!("{}: impl Engine", file.path)).collect());
}

#[test]
fn verdicts_are_made_by_the_pipeline() {
    let allowed = ["pipeline", "engine", "fragments/hold.rs", "api/verdict.rs"];
    let tree = read();
    let files = tree.files();
    let others = files.iter().filter(|file| !allowed.iter().any(|it| file.path.starts_with(it)));
    let found = others.filter(|file| file.code.contains("Verdict::"));
    assert_none(found.map(|file| format!("{}: makes a verdict", file.path)).collect());
}

#[test]
fn the_face_of_the_crate_only_re_exports() {
    let text = fs::read_to_string(src().join("lib.rs")).unwrap();
    assert!(text.lines().count() <= FACE_LINES_MAX);
    let code = product_code(&text);
    let statements = code.split(';').map(str::trim).filter(|text| !text.is_empty());
    for statement in statements {
        let statement = statement.trim_start_matches("#![deny(unsafe_code)]").trim_start();
        let is_plain = statement.starts_with("mod ") || statement.starts_with("pub use ");
        assert!(is_plain, "lib.rs has more than modules and re-exports: {statement}");
    }
}

#[test]
fn paths_are_resolved_to_where_names_are_defined() {
    let tree = read();
    assert_eq!(tree.defined_in("base::TimerWheel"), "base/timer_wheel.rs");
    assert_eq!(tree.defined_in("tracker::Tracker"), "tracker.rs");
    assert_eq!(tree.defined_in("Verdict"), "api/verdict.rs");
}
