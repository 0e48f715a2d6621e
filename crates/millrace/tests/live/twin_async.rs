// SPDX-License-Identifier: BSD-3-Clause
//! Tests templates and flow queues of the software NIC, driven by testpmd.

use crate::twin::{Bench, driver, tcp};
use testkit::process::wait_until;

/// Number of operations that a queue holds.
const ROOM: u32 = 4;

/// Commands that create templates, and a table for three rules. `@` is the port.
const SET_UP: [(&str, &str); 6] = [
    ("port stop @", "Done"),
    (
        "flow configure @ queues_number 2 queues_size 4 counters_number 0 aging_counters_number 0 \
         meters_number 0 flags 0",
        "number of queues 2 with 4 elements",
    ),
    ("port start @", "Done"),
    (
        "flow pattern_template @ create pattern_template_id 5 relaxed no ingress \
         template eth / ipv4 src mask 255.255.255.255 / tcp dst mask 0xffff / end",
        "Pattern template #5 created",
    ),
    (
        "flow actions_template @ create ingress actions_template_id 6 \
         template queue index 0 / mark id 7 / count / end mask queue index 1 / mark / count / end",
        "Actions template #6 created",
    ),
    (
        "flow template_table @ create table_id 8 group 0 priority 1 ingress rules_number 3 \
         pattern_template 5 actions_template 6",
        "Template table #8 created",
    ),
];

impl Bench {
    fn set_up(driver: &str, frames: &[Vec<u8>]) -> Self {
        let mut bench = Self::new(driver, frames, 1);
        for (command, answer) in SET_UP {
            bench.flow(command, answer);
        }
        bench
    }

    /// Creates a rule in table 8 that marks packets to port `dport` with `dport`. The queue is that
    /// of the template.
    fn create(&mut self, queue: u32, postpone: &str, dport: u32, answer: &str) {
        let rule = format!(
            "flow queue @ create {queue} template_table 8 pattern_template 0 actions_template 0 \
             postpone {postpone} pattern eth / ipv4 src is 10.0.0.1 / tcp dst is {dport} / end \
             actions queue index 9 / mark id {dport} / count / end"
        );
        self.flow(&rule, answer);
    }

    /// Pulls the results of a queue. Checks the numbers of failed and successful operations.
    fn pull(&mut self, queue: u32, failed: u32, succeeded: u32) {
        let answer = format!(
            "Queue #{queue} pulled {} operations ({failed} failed, {succeeded} succeeded)",
            failed + succeeded
        );
        self.flow(&format!("flow pull @ queue {queue}"), &answer);
    }
}

#[test]
fn rules_come_and_go_by_a_queue() {
    let Some(driver) = driver() else { return };
    let frames = [80, 81, 82].map(|dport| tcp(dport).build());
    let mut bench = Bench::set_up(&driver, &frames);
    bench.create(0, "yes", 80, "Flow rule #0 creation enqueued");
    bench.pull(0, 0, 0);
    // This operation also pushes the postponed one.
    bench.create(0, "no", 81, "Flow rule #1 creation enqueued");
    bench.pull(0, 0, 2);
    // The rule exists already, which only the result reports.
    bench.create(1, "no", 81, "Flow rule #2 creation enqueued");
    bench.pull(1, 1, 0);
    let received = bench.forward(3);
    assert!(received[0].contains("FDIR matched ID=0x50"), "{received:?}");
    assert!(received[1].contains("FDIR matched ID=0x51"), "{received:?}");
    assert!(!received[2].contains("FDIR matched"), "{received:?}");
    assert_eq!(bench.tally(1), (1, frames[1].len() as u64));
    bench.flow("flow queue @ destroy 0 postpone yes rule 0 rule 1", "#0 destruction enqueued");
    bench.flow("flow push @ queue 0", "Queue #0 operations pushed");
    bench.pull(0, 0, 2);
    bench.flow("flow template_table @ destroy table 8", "Template table #8 destroyed");
    bench.flow(
        "flow pattern_template @ destroy pattern_template 5",
        "Pattern template #5 destroyed",
    );
    bench.flow(
        "flow actions_template @ destroy actions_template 6",
        "Actions template #6 destroyed",
    );
    // The patterns are free for other rules.
    let rule = "pattern eth / ipv4 src is 10.0.0.1 / tcp dst is 80 / end actions drop / end";
    bench.flow(&format!("flow create @ priority 1 ingress {rule}"), "Flow rule #");
}

#[test]
fn what_is_full_or_in_use_is_refused() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::set_up(&driver, &[]);
    for dport in [80, 81, 82] {
        bench.create(0, "yes", dport, "creation enqueued");
    }
    bench.create(1, "yes", 83, "the table is full: No space left on device");
    bench.flow("flow queue @ destroy 1 postpone yes rule 0", "made by another queue: Inv");
    bench.flow("flow queue @ destroy 0 postpone yes rule 0", "destruction enqueued");
    bench.flow("flow queue @ destroy 0 postpone yes rule 1", "is full: pull its results: No space");
    bench.flow("flow template_table @ destroy table 8", "the table has rules: Device or res");
    bench.flow("flow pattern_template @ destroy pattern_template 5", "a table uses the template");
    bench.flow("flow actions_template @ destroy actions_template 6", "a table uses the template");
    bench.flow("flow push @ queue 0", "Queue #0 operations pushed");
    bench.pull(0, 0, ROOM);
    // A rule that cannot be created, and whose removal is enqueued before its result is known.
    bench.create(0, "yes", 82, "creation enqueued");
    bench.flow("flow queue @ destroy 0 postpone no rule 3", "#3 destruction enqueued");
    bench.pull(0, 2, 0);
    // Flushed rules do not occupy the table.
    bench.flow("flow flush @", "testpmd> ");
    bench.flow("flow template_table @ destroy table 8", "Template table #8 destroyed");
}

#[test]
fn rules_are_those_of_the_template() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::set_up(&driver, &[]);
    for (rule, answer) in [
        ("eth / ipv6 / tcp / end actions queue / mark / count / end", "another item here: Inv"),
        ("eth / ipv4 / end actions queue / mark / count / end", "another item here: Inv"),
        ("eth / ipv4 / tcp / end actions queue / count / end", "another action here: Inv"),
    ] {
        bench.flow(
            &format!(
                "flow queue @ create 0 template_table 8 pattern_template 0 actions_template 0 \
                 postpone no pattern {rule}"
            ),
            answer,
        );
    }
    bench.flow(
        "flow template_table @ create table_id 9 group 0 priority 1 egress rules_number 3 \
         pattern_template 5 actions_template 6",
        "templates of the same direction are needed: Inv",
    );
    bench.flow(
        "flow queue 2 indirect_action 0 create postpone no ingress action count / end",
        "Caught PMD error",
    );
}

/// Newer versions of DPDK have tables and operations that the twin does not support. Older versions
/// of testpmd do not have the commands.
#[test]
fn what_came_later_is_refused() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::set_up(&driver, &[]);
    for (table, later) in [(9, "insertion_type index"), (10, "resizable")] {
        let begin = bench.testpmd.output().len();
        bench.flow(
            &format!(
                "flow template_table @ create table_id {table} group 0 priority 1 ingress {later} \
                 rules_number 3 pattern_template 5 actions_template 6"
            ),
            "",
        );
        wait_until("a refusal", || {
            let printed = &bench.testpmd.output()[begin..];
            printed.contains("rules by index and tables that grow are not supported")
                || printed.contains("Bad arguments")
        });
    }
}

#[test]
fn not_every_nic_has_flow_queues() {
    let Some(driver) = driver() else { return };
    let mut bench = Bench::playing("cx5", &driver, &[], 1);
    bench.flow("flow info @", "Operation not supported");
    let mut bench = Bench::playing("cx6dx", &driver, &[], 1);
    bench.flow("flow info @", "Size of queues: 4096");
}
