// SPDX-License-Identifier: BSD-3-Clause
//! Tests `scripts/profile` with a stand-in for perf, whose samples are known.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;
use testkit::scratch::Scratch;

/// Samples of one worker: in a function, and in the kernel because of an interrupt.
const GOOD: &str = "
rte-worker-1 15/16 1.5: 1001001 cpu-clock:
\tffffffff81 update_load ([kernel.kallsyms])
\tffffffff82 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])
\t4f6744 parse+0x1c (/x/millrace)

rte-worker-1 15/16 1.6: 1001001 cpu-clock:
\t4f6744 parse+0x2c (/x/millrace)
\t77 [unknown] (/x/y)

rte-worker-1 15/16 1.7: 1001001 cpu-clock:
\t42f5 [unknown] (/lib/librte_net_pcap.so.23)
";
/// A sample in a mutex, and one in a system call.
const BAD: &str = "
rte-worker-1 15/16 1.8: 1001001 cpu-clock:
\t99 pthread_mutex_lock@@GLIBC_2.2.5+0x4 (/libc.so.6)

rte-worker-1 15/16 1.9: 1001001 cpu-clock:
\tffffffff83 vfs_write+0x8 ([kernel.kallsyms])
\tffffffff84 do_syscall_64+0x8 ([kernel.kallsyms])
\t98 write+0x10 (/libc.so.6)
";

/// Runs the script on this process, with a perf that prints `samples`; `record` is its command for
/// recording.
fn profile(name: &str, record: &str, samples: &str) -> Output {
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"), &format!("profile-{name}"));
    let text =
        format!("#!/bin/sh\nif [ $1 = record ]; then {record}; fi\ncat '{}'\n", folder.path("s"));
    fs::write(folder.path("s"), samples).unwrap();
    fs::write(folder.path("perf"), text).unwrap();
    fs::set_permissions(folder.path("perf"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.folder().display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/profile");
    // The script looks for threads with the names of workers.
    let (end, wait) = mpsc::channel::<()>();
    let worker = std::thread::Builder::new().name("rte-worker-1".to_owned());
    let worker = worker.spawn(move || wait.recv()).unwrap();
    let mut command = Command::new(script);
    command.args(["-n", "3", "-o", &folder.path("all"), "-p", &std::process::id().to_string()]);
    let output = command.env("PATH", path).output().unwrap();
    drop(end);
    let _ended = worker.join().unwrap();
    output
}

#[test]
fn samples_in_locks_and_system_calls_are_counted() {
    let output = profile("good", "exit 0", GOOD);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("0 of 3 samples are in a lock or system call\n"), "{text}");
    assert!(text.contains(" 33.33%  librte_net_pcap.so.23 (no symbols)\n"), "{text}");
    let output = profile("bad", "exit 0", &format!("{GOOD}{BAD}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("2 of 5 samples are in a lock or system call\n"), "{text}");
    for line in [" 20.00% *pthread_mutex_lock", " 20.00% *vfs_write\n", " 20.00%  parse\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let worker = text.lines().find(|line| line.starts_with("rte-worker-1")).unwrap();
    assert_eq!(words(worker), ["rte-worker-1", "5", "1", "1", "1"]);
}

#[test]
fn a_perf_that_may_not_sample_ends_with_3() {
    let output = profile("refused", "echo perf_event_paranoid >&2; exit 255", "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("perf may not sample here") && errors.contains("run as root"));
}

#[test]
fn the_load_has_as_many_connections_as_the_script_says() {
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "profile-load");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/profile");
    let script = fs::read_to_string(script).unwrap();
    let stream = script.lines().find_map(|line| line.trim().strip_prefix("stream=\""));
    let stream = stream.unwrap().trim_end_matches('"');
    let millrace = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace")).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let load = folder.path("load.pcap");
    let port = format!("net_pcap0,tx_pcap={load}");
    millrace(&["gen", &port, "--receivers", "0", "--stream", stream]);
    let replayed = millrace(&["replay", "--top", "0", &load]);
    assert!(replayed.contains("\nflows: 10_000 created, "), "{replayed}");
    assert!(script.contains("10 000 connections"));
}
