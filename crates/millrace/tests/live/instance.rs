// SPDX-License-Identifier: BSD-3-Clause
//! Runs commands for a running instance, which is named by its control socket.

use serde_json::Value;
use std::process::{Command, Output};

pub(crate) fn ask(socket: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(args).args(["--instance", socket]).output().unwrap()
}

/// Returns what the command prints, which must succeed.
#[track_caller]
pub(crate) fn text(socket: &str, args: &[&str]) -> String {
    let output = ask(socket, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what the command prints with `--json`, which must succeed.
#[track_caller]
pub(crate) fn json(socket: &str, args: &[&str]) -> Value {
    let text = text(socket, &[args, &["--json"]].concat());
    serde_json::from_str(&text).expect("it is JSON")
}
