// SPDX-License-Identifier: BSD-3-Clause
//! Arguments that EAL does not take are an error with its reason, and nothing is printed.

use dpdk::{Eal, EalConfig, EalError};
use std::process::Command;
use testkit::port::eal_config;

/// Says to this program which arguments to start EAL with.
const EXTRA: &str = "MILLRACE_TEST_EXTRA";

/// EAL starts once in a process, so each start is a run of this test program.
#[test]
fn what_eal_does_not_take_is_named() {
    if let Ok(extra) = std::env::var(EXTRA) {
        start(&extra);
        return;
    }
    for (extra, reason) in [
        ("--bogus", "EAL: unrecognized option '--bogus'"),
        ("--vdev", "EAL: option '--vdev' requires an argument"),
        ("-Z", "EAL: invalid option -- 'Z'"),
        ("--socket-mem=x", "EAL: invalid parameters for --socket-mem"),
        ("bogus", ""),
        ("--help", ""),
        ("--log-level=help", ""),
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(EXTRA, extra).args(["--exact", "what_eal_does_not_take_is_named"]);
        let output = command.arg("--nocapture").output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|o| String::from_utf8(o).unwrap());
        let expected = format!("refused: EAL does not take these arguments: {extra}\n");
        assert!(stdout.contains(&expected), "{extra}: {stdout}{stderr}");
        assert!(stdout.contains(reason), "{reason} not in {stdout}");
        assert!(!stdout.contains("Usage") && !stdout.contains("FATAL"), "{stdout}");
        assert_eq!(stderr, "", "{extra}");
    }
}

fn start(extra: &str) {
    let extra = vec![extra.to_owned()];
    let config = EalConfig { extra, ..eal_config(64) };
    let error = Eal::init(&config).expect_err("an argument that EAL does not take");
    assert!(matches!(error, EalError::Arguments { .. }), "{error:?}");
    println!("refused: {error}");
    println!("that was all");
}
