// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --stateful` with a TRex ASTF profile, over the software NIC.

use crate::bump::{count, turn};
use crate::twin::driver;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use testkit::host::has_tools;
use testkit::process::wait_until;

/// The profile of the article, with three messages: each connection receives three answers.
#[test]
fn a_profile_in_python_opens_connections() {
    if driver().is_none() || !has_tools(&["python3"]) {
        return;
    }
    let _turn = turn();
    let mut args = vec!["gen", "net_twin0,wire=astf,net_twin1,wire=astf", "--workers", "1"];
    args.extend(["--stateful", "profiles/article.py", "--tunable", "num-messages=3"]);
    args.extend(["--tunable", "udp-percent=20", "--cps", "500", "--duration", "0.5"]);
    args.extend(["--quiet", "--json", "-"]);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let output = command.current_dir(root).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    let clients = &results["clients"];
    let completed = count(&clients["completed"]);
    assert!(completed > 0, "{clients}");
    assert_eq!(count(&clients["payload_received"]), completed * 3 * 20, "{clients}");
}

/// Python runs no longer than the command that waits for it, however that ends.
#[test]
fn a_profile_that_does_not_end_ends_with_its_command() {
    if !has_tools(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [profile, pid_file] = ["profile.py", "pid"].map(|name| folder.path().join(name));
    let text = format!(
        "import os, time\n\
         with open({pid_file:?}, \"w\") as file: print(os.getpid(), file=file)\n\
         time.sleep(600)\n"
    );
    fs::write(&profile, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["gen", "net_null0", "--stateful"]).arg(&profile).stderr(Stdio::null());
    let mut command = command.spawn().unwrap();
    let read_pid = || fs::read_to_string(&pid_file).ok().filter(|it| it.ends_with('\n'));
    wait_until("the profile runs", || read_pid().is_some());
    let process = format!("/proc/{}/cmdline", read_pid().unwrap().trim());
    // That of a process that has ended is empty.
    let is_running = || fs::read(&process).is_ok_and(|words| !words.is_empty());
    assert!(is_running());
    command.kill().unwrap();
    command.wait().unwrap();
    wait_until("Python has ended", || !is_running());
}
