// SPDX-License-Identifier: BSD-3-Clause
//! Tells the program which commit it is built from, for `--version`. Without git, or outside of a
//! repository, it does not know.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns what git prints; `None` if it fails or prints nothing.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A development build would be linked anew after every commit.
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // The sources may lie in a repository of something else.
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    if top.is_none() || top != std::fs::canonicalize("../..").ok() {
        return;
    }
    // These change with each commit and checkout, and the sources before a commit.
    for name in ["HEAD", "index", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=../../crates");
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=MILLRACE_COMMIT={commit}");
    }
}
