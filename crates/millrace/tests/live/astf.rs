// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --stateful` with a TRex ASTF profile, over the software NIC.

use crate::bump::{count, turn};
use crate::twin::driver;
use serde_json::Value;
use std::process::Command;
use testkit::host::has_tools;

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
