// SPDX-License-Identifier: BSD-3-Clause
//! Tells the program which commit it is built from, for `--version`. Without git, or outside of a
//! repository, it does not know.

use std::path::Path;
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
    // The log of HEAD grows with each commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        if Path::new(&log).exists() {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=MILLRACE_COMMIT={commit}");
    }
}
