// SPDX-License-Identifier: BSD-3-Clause
//! Tests the cycle counters of workers: an idle bump is idle, one without idle polls is busy, and
//! all of its time is counted.

use crate::bump::{Bump, Ended, Line, Setup, count, total};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::host::has_cpus;
use testkit::process;

/// Runs for a second between these ports. Checks that busy, idle and stalled cycles together are at
/// least the duration of the run, and at most the time from start to end.
fn run(test: &str, a: &str, b: &str) -> Ended {
    let setup = Setup::new(test).duration("1").pair(a, b);
    let (cycles, start) = (dpdk::tsc(), Instant::now());
    let ended = setup.run();
    let (cycles, seconds) = (dpdk::tsc() - cycles, start.elapsed().as_secs_f64());
    ended.assert_good();
    let summary = ended.summary();
    let of_run = cycles as f64 / seconds * summary["duration_s"].as_f64().unwrap();
    let worker = &summary["workers"][0];
    let accounts = ["busy_cycles", "idle_cycles", "stalled_cycles"];
    let accounted: u64 = accounts.iter().map(|account| count(&worker[account])).sum();
    assert!(accounted <= cycles, "more than {cycles}: {worker}");
    assert!(accounted as f64 > 0.9 * of_run, "not most of {of_run}: {worker}");
    assert_eq!(total(&worker["stage_cycles"]), count(&worker["busy_cycles"]), "{worker}");
    ended
}

#[test]
fn a_cpu_on_which_another_instance_polls_is_busy() {
    if !has_cpus(2) {
        return;
    }
    let setup = Setup::new("polling").pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    let bump = setup.start();
    let line = bump.placement();
    let (_, cpu) = line.split_once("worker 0 on cpu ").expect("a worker");
    let cpu = cpu.split([',', ';']).next().unwrap();
    let warning = |cpu: &str| format!("packets will wait while other programs use {cpu}: ");
    let said_on = |cpu: &str| {
        let mut second = Command::new(env!("CARGO_BIN_EXE_millrace"));
        second.args(["run", "--pair", "net_null2,no-rx=1,net_null3,no-rx=1", "--cpus", cpu]);
        let second = second.args(["--duration", "0.1"]).output().unwrap();
        String::from_utf8(second.stderr).unwrap()
    };
    let said = said_on(cpu);
    assert!(said.contains(&warning(cpu)), "{said}");

    let mut check = Command::new(env!("CARGO_BIN_EXE_millrace"));
    check.args(["check", "--json", "--pair", "net_null2,net_null3"]);
    let mut chooses_another = || {
        let plan: Value = serde_json::from_str(&process::run(&mut check)).unwrap();
        let chosen = plan["plan"]["pair"][0]["workers"]["value"][0].as_u64();
        chosen != cpu.parse().ok()
    };
    let other = if cpu == "0" { "1" } else { "0" };
    // Other programs may use all other cpus.
    let is_other_busy = || said_on(other).contains(&warning(other));
    let mut attempts = (0..5).map(|_| chooses_another() || is_other_busy());
    assert!(attempts.any(|is_good| is_good), "cpu {cpu} is chosen, and cpu {other} is idle");
    bump.finish().assert_good();
}

/// Checks workers of a generator or reflector: they did this kind of work, and the kinds add up.
#[track_caller]
pub(crate) fn assert_work_of_all(workers: &Value, kinds: &[&str]) {
    let workers = workers.as_array().expect("a list of workers");
    for worker in workers {
        assert_eq!(total(&worker["stage_cycles"]), count(&worker["busy_cycles"]), "{worker:#}");
    }
    for kind in kinds {
        let of_worker = |worker: &Value| count(&worker["stage_cycles"][kind]);
        assert!(workers.iter().map(of_worker).sum::<u64>() > 0, "{kind}: {workers:#?}");
    }
}

fn utilization(ended: &Ended) -> f64 {
    ended.summary()["cpu_util_percent"].as_f64().unwrap()
}

#[test]
fn a_bump_without_packets_is_idle() {
    let ended = run("idle", "net_null0,no-rx=1", "net_null1,no-rx=1");
    assert!(utilization(&ended) < 50.0, "{}", ended.summary());
    assert_eq!(ended.summary()["ledger"]["rx"], 0);
}

#[test]
fn a_bump_that_never_waits_for_packets_is_busy() {
    let ended = run("busy", "net_null0,copy=1", "net_null1,copy=1");
    assert!(utilization(&ended) > 50.0, "{}", ended.summary());
}

#[test]
fn who_takes_the_cpu_away_is_seen_in_the_line_of_that_second() {
    let setup = Setup::new("wait").pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    let mut bump = setup.start();
    bump.wait_for_line("its start", |_| true);
    bump.signal("STOP");
    std::thread::sleep(Duration::from_millis(500));
    bump.signal("CONT");
    let seen = |bump: &Bump, condition: fn(&Line) -> bool| bump.lines().iter().any(condition);
    bump.wait_until("what it waited", |bump| seen(bump, |line| line.wait_us >= 400_000.0));
    // The second may have become longer by the pause.
    bump.wait_until("the share", |bump| seen(bump, |line| line.stolen_percent >= 20.0));
    // The message is printed only once.
    bump.wait_until("another line", |bump| bump.lines().last().unwrap().wait_us < 400_000.0);
    bump.finish().assert_good();
}
