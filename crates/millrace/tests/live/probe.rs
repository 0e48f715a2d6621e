// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace nic probe` on the software NIC with the real EAL. The software NIC replays the
//! personality that the prober writes, and probing it again gives the same personality.

use crate::new_scratch;
use crate::twin::driver;
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use testkit::process::{Process, mortal, wait_until};
use twin::Personality;
use twin::personality::Latency;

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

fn millrace(args: &[&str]) -> Output {
    Command::new(MILLRACE).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Probes a personality. Returns the JSON output and the personality that was written.
fn probed(personality: &str, file: &str) -> (Value, Personality) {
    let port = format!("net_twin0,personality={personality}");
    let output = millrace(&["nic", "probe", &port, "-o", file, "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{personality}: {stderr}");
    let told = serde_json::from_slice(&output.stdout).unwrap();
    (told, Personality::named(file).unwrap())
}

/// Checks that the probe left no rule: by its calls, by the driver's list of rules, and by packets.
fn assert_is_clean(told: &Value) {
    assert_eq!(told["rules"]["made"], told["rules"]["destroyed"]);
    let nothing =
        json!({ "lines_before": 0, "marked_before": 0, "lines_left": 0, "packets_left": 0 });
    assert_eq!((&told["rules_seen"], &told["findings"]), (&nothing, &json!([])));
}

/// Returns the personality without its name and latencies, which differ in each measurement.
fn lasting(personality: &Personality) -> Personality {
    let (name, latency) = (String::new(), Latency::default());
    Personality { name, latency, ..personality.clone() }
}

#[test]
fn a_nic_is_recorded_and_replayed() {
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("probe");
    let [file, again] = ["old.toml", "again.toml"].map(|name| scratch.path(name));
    let (told, personality) = probed("x710-17.02", &file);
    assert_eq!((&told["complete"], &told["unlike"]), (&json!(true), &json!([])));
    assert_eq!(told["not_found"], json!([]));
    assert_eq!(told["nic"]["driver"], "net_twin");
    // No rule remains, and the probe does not fill the table by default.
    assert_is_clean(&told);
    assert!(told["rules"]["made"].as_u64().is_some_and(|made| (50..500).contains(&made)));
    assert_eq!(told["personality"]["table"]["guaranteed"], Value::Null);
    assert_eq!(personality.name, "old");
    assert!(personality.latency.create_us >= 11_000, "{:?}", personality.latency);
    assert_eq!(lasting(&probed(&file, &again).1), lasting(&personality));
    // The first command of the article, on the probed personality.
    let port = format!("net_twin0,wire=w,personality={file}");
    let script = scratch.path("script");
    let rule = "pattern eth / ipv4 / udp / end actions queue index 1 / end";
    std::fs::write(&script, format!("flow create 0 ingress {rule}\n")).unwrap();
    let output = millrace(&["nic", "flow", &port, "-f", &script]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("NULL IPv4 spec/mask"), "{stderr}");
}

/// ethdev does not hide the differences: messages and numbers are those of the model.
#[test]
fn two_drivers_are_distinguished_through_dpdk() {
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("probes");
    let (_, e810) = probed("e810", &scratch.path("e810.toml"));
    assert_eq!(e810.mark.means_none, Some(u32::MAX));
    assert!(e810.count.hits_only && e810.pattern.empty.is_some());
    assert_eq!(e810.conflicts.len(), 2);
    let (told, cx6dx) = probed("cx6dx", &scratch.path("cx6dx.toml"));
    assert_is_clean(&told);
    // All results of rules by templates have arrived.
    assert!(cx6dx.operations.r#async && !cx6dx.age.never_told);
    for batch in ["create", "destroy"] {
        let batch = &told["by_queue"][batch];
        let all = [&batch["asked"], &batch["results"], &batch["failed"]];
        assert_eq!(all, [&json!(256), &json!(256), &json!(0)]);
        assert!(batch["per_second"].as_u64() > Some(0) && batch["result"]["p99_us"].is_u64());
    }
    assert_eq!(cx6dx.mark.max, Some(0xff_ffef));
    // About 500, if no other program uses the cpu.
    let refresh_ms = cx6dx.count.refresh_ms;
    assert!((400..1000).contains(&refresh_ms), "{refresh_ms}");
    assert_eq!(cx6dx.table.duplicate, twin::personality::Duplicate::LastWins);
    assert!(cx6dx.port.stopped.is_some());
    let (told, _) = probed("n6010", &scratch.path("n6010.toml"));
    assert_eq!(told["personality"]["operations"]["none"], true);
}

#[test]
fn a_table_is_for_people() {
    if driver().is_none() {
        return;
    }
    let output = millrace(&["nic", "probe", "net_twin0,personality=x710", "--capacity", "600"]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for line in [
        "headers      eth / ipv4, not for packets with TCP, UDP or SCTP",
        "IGNORED",
        "conflicts    one set of fields at a time for each kind of packet",
        "DO NOT HIT",
        "not found    more than 600 rules fit",
        "no templates and flow queues",
        "filling      up to 1: ",
        "             up to 512: ",
        "             up to 600: 1",
    ] {
        assert!(table.contains(line), "{line}: {table}");
    }
}

#[test]
fn an_interrupt_ends_it_with_what_is_known() {
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("interrupt");
    let file = scratch.path("part.toml");
    let mut command = mortal(MILLRACE);
    command.args(["nic", "probe", "net_twin0,personality=x710-17.02", "-o", &file, "--json"]);
    let mut probe = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // When the driver is loaded, the probe has begun.
    let maps = format!("/proc/{}/maps", probe.id());
    wait_until("the driver is loaded", || {
        std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("librte_net_twin"))
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    probe.signal("INT");
    let status = probe.wait();
    let stderr = probe.rest_of_stderr();
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert_eq!(status.code(), Some(1));
    let stdout = probe.rest_of_stdout();
    let told: Value = serde_json::from_str(&stdout).unwrap();
    // On a busy machine the interrupt comes before the first look at the driver's list: no number
    // is known then.
    assert_eq!(told["rules"]["made"], told["rules"]["destroyed"]);
    let seen = told["rules_seen"].as_object().unwrap();
    assert!(seen.values().all(|count| count.as_u64().unwrap_or(0) == 0), "{seen:?}");
    assert_eq!(told["findings"], json!([]));
    assert_eq!((&told["complete"], &told["stopped"]), (&json!(false), &json!("interrupted")));
    let personality = Personality::named(&file).unwrap();
    assert!(personality.placeholder.is_some_and(|words| words.contains("interrupted")));
}

/// A call of 30 seconds counts as hanging with `--patience 1`.
#[test]
fn a_call_that_hangs_is_reported_with_what_is_known() {
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("hang");
    let (nic, file) = (scratch.path("nic.toml"), scratch.path("part.toml"));
    for (latency, call) in [("create_us", "rte_flow_create"), ("destroy_us", "rte_flow_destroy")] {
        std::fs::write(&nic, format!("latency = {{ {latency} = 30000000 }}\n")).unwrap();
        let port = format!("net_twin0,personality={nic}");
        let output = millrace(&["nic", "probe", &port, "-o", &file, "--json", "--patience", "1"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for words in [call, "for 1s, in the stage \"operations\"", "reset the port"] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["complete"], false);
        let personality = Personality::named(&file).unwrap();
        assert!(personality.placeholder.is_some_and(|words| words.contains(call)));
    }
}

#[test]
fn rules_that_the_nic_keeps_are_reported() {
    if driver().is_none() {
        return;
    }
    for (faults, status, words) in [
        ("destroy-leaves-rule:0.02", 0, "a flush removed them"),
        ("undeletable:0.01", 1, "a rule that was taken is not destroyed"),
    ] {
        let output = millrace(&["nic", "probe", &format!("net_twin0,faults={faults}")]);
        let (table, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{faults}: {stderr}");
        assert!(table.contains("FAULT ") && table.contains(words), "{faults}: {table}");
        assert_eq!(stderr.contains("still installed: reset the port"), status == 1, "{stderr}");
    }
}

#[test]
fn what_cannot_be_probed_is_said() {
    if driver().is_none() {
        return;
    }
    for (args, words) in [
        (&["net_twin0", "--peer", "net_null0"][..], "--peer is not for the software NIC"),
        (&["net_null0"], "--force"),
        (&["net_twin0,personality=x701"], "x710-17.02"),
    ] {
        let output = millrace(&[&["nic", "probe"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(words), "{args:?}: {output:?}");
    }
}
