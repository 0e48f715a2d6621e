// SPDX-License-Identifier: BSD-3-Clause
//! Judges cpus: enough of them, of steady speed, and free from other work.

use super::{Finding, Status};
use crate::host::{BUSY_PERCENT, CpuLoad, Cpus, Host, Process, Processor, format_cpus};

const CPU_INFO: &str = "proc/cpuinfo";
const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let mut findings = vec![count(&host.cpus)];
    findings.extend(instructions(&host.processor));
    findings.push(clock(&host.processor));
    findings.push(governor(&host.processor));
    findings.push(threads(&host.processor));
    findings.push(nodes(&host.processor));
    findings.push(isolated(host));
    let load = host.load.as_ref().filter(|load| !load.0.is_empty());
    findings.extend(load.map(|load| busy(load, host.busiest.as_ref())));
    findings.push(interrupts(host));
    findings
}

fn count(cpus: &Cpus) -> Finding {
    let found = format!(
        "{} online, {} allowed to this process",
        format_cpus(&cpus.online),
        format_cpus(&cpus.allowed)
    );
    match cpus.allowed.len() {
        0 => Finding::unknown("cpus", "proc/self/status"),
        1 => Finding::new("cpus", Status::Warn, found)
            .advise("the worker and all other threads share this cpu: allow a second one"),
        _ => Finding::new("cpus", Status::Ok, found),
    }
}

/// Checks for SSE4.2: Debian builds DPDK for x86-64 with it, and EAL stops without it.
fn instructions(processor: &Processor) -> Option<Finding> {
    const TOPIC: &str = "instructions";
    let Some(flags) = &processor.flags else {
        return Some(Finding::unknown(TOPIC, CPU_INFO));
    };
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    if flags.is_empty() {
        return None;
    }
    if !has("sse4_2") {
        let finding = Finding::new(TOPIC, Status::Fail, "no SSE4.2");
        return Some(finding.advise("DPDK needs it: use a newer processor or cpu model of the VM"));
    }
    let wide = ["avx512f", "avx2", "sse4_2"].into_iter().find(|flag| has(flag));
    Some(Finding::new(TOPIC, Status::Ok, format!("widest: {}", wide.unwrap_or("sse4_2"))))
}

fn clock(processor: &Processor) -> Finding {
    const TOPIC: &str = "tsc";
    let Some(flags) = &processor.flags else { return Finding::unknown(TOPIC, CPU_INFO) };
    // The kernel chooses another clock if the TSC drifts.
    let Some(source) = &processor.clock_source else {
        return Finding::unknown(TOPIC, CLOCK_SOURCE);
    };
    if flags.is_empty() {
        return Finding::new(TOPIC, Status::Note, format!("not an x86 processor; clock {source}"));
    }
    let missing: Vec<_> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|wanted| !flags.iter().any(|flag| flag == wanted))
        .collect();
    if missing.is_empty() {
        return Finding::new(TOPIC, Status::Ok, format!("steady; the kernel's clock is {source}"));
    }
    Finding::new(TOPIC, Status::Warn, format!("lacks {}; clock {source}", missing.join(" and ")))
        .advise("cycles per packet and timeouts follow the TSC: expect both to drift")
}

fn governor(processor: &Processor) -> Finding {
    const TOPIC: &str = "governor";
    match processor.governors.as_deref() {
        None => Finding::unknown(TOPIC, "sys/devices/system/cpu"),
        Some([]) => Finding::new(TOPIC, Status::Note, "not visible, as in most virtual machines"),
        Some([only]) if only == "performance" => Finding::new(TOPIC, Status::Ok, "performance"),
        Some(others) => Finding::new(TOPIC, Status::Warn, others.join(", "))
            .advise("cpupower frequency-set -g performance"),
    }
}

fn threads(processor: &Processor) -> Finding {
    match processor.smt {
        Some(true) => Finding::new("smt", Status::Note, "cpus share cores").advise(
            "give each worker a core: leave its sibling idle (thread_siblings_list in sysfs)",
        ),
        Some(false) => Finding::new("smt", Status::Ok, "each cpu has a core of its own"),
        None => Finding::unknown("smt", "sys/devices/system/cpu/smt/active"),
    }
}

fn nodes(processor: &Processor) -> Finding {
    match processor.nodes {
        None => Finding::unknown("numa", "sys/devices/system/node/online"),
        Some(1) => Finding::new("numa", Status::Ok, "1 node"),
        Some(nodes) => Finding::new("numa", Status::Note, format!("{nodes} nodes"))
            .advise("choose workers on the node of their NIC ([[pair]] workers)"),
    }
}

fn isolated(host: &Host) -> Finding {
    const TOPIC: &str = "isolation";
    const ADVICE: &str = "to keep other work off the workers' cpus, boot with isolcpus=N \
        nohz_full=N rcu_nocbs=N (doctor --fix-script)";
    let cpus = &host.cpus;
    if let Some(finding) = set_apart_by_tuned(host) {
        return finding;
    }
    if !cpus.isolated_known {
        return Finding::unknown(TOPIC, "sys/devices/system/cpu/isolated");
    }
    if cpus.isolated.is_empty() {
        return Finding::new(TOPIC, Status::Note, "no cpu is isolated").advise(ADVICE);
    }
    let mut found = format!("cpus {} are isolated", format_cpus(&cpus.isolated));
    for (parameter, set) in [("nohz_full", &cpus.nohz_full), ("rcu_nocbs", &cpus.rcu_nocbs)] {
        if cpus.isolated.iter().any(|cpu| !set.contains(cpu)) {
            found = format!("{found}, not all of them with {parameter}");
        }
    }
    let complete = !found.contains("not all");
    let finding = Finding::new(TOPIC, if complete { Status::Ok } else { Status::Note }, found);
    if complete { finding } else { finding.advise(ADVICE) }
}

/// Judges cpus that the profile `cpu-partitioning` of tuned sets apart: it takes them from process
/// 1, and so from all services and logins. `None` without that profile.
fn set_apart_by_tuned(host: &Host) -> Option<Finding> {
    const TOPIC: &str = "isolation";
    let tuned = host.boot.tuned.as_ref().filter(|it| it.partitions() && !it.isolated.is_empty())?;
    let cpus = &host.cpus;
    let list = format_cpus(&tuned.isolated);
    let has_all = |set: &[u32]| tuned.isolated.iter().all(|cpu| set.contains(cpu));
    if !cpus.of_init.is_empty() && tuned.isolated.iter().any(|cpu| cpus.of_init.contains(cpu)) {
        let found =
            format!("cpus {list} are to be set apart by tuned, but process 1 has them still");
        return Some(Finding::new(TOPIC, Status::Note, found).advise("reboot"));
    }
    let found = format!("cpus {list} are set apart by tuned (cpu-partitioning)");
    let finding = Finding::new(TOPIC, Status::Ok, found);
    if has_all(&cpus.allowed) || has_all(&cpus.isolated) {
        return Some(finding);
    }
    let advice = format!("this login may not use them: taskset -c {list} millrace run ...");
    Some(Finding { status: Status::Note, ..finding }.advise(advice))
}

/// Judges how busy the cpus were, so that a worker does not share one.
fn busy(load: &CpuLoad, process: Option<&Process>) -> Finding {
    const TOPIC: &str = "load";
    let busy: Vec<u32> =
        load.0.iter().filter(|(_, load)| **load > BUSY_PERCENT).map(|(cpu, _)| *cpu).collect();
    let Some((cpu, percent)) = load.busiest().filter(|_| !busy.is_empty()) else {
        return Finding::new(TOPIC, Status::Ok, "no cpu is busy");
    };
    let mut found = format!("busy: cpus {}; most: cpu {cpu}, {percent:.0} %", format_cpus(&busy));
    if let Some(process) = process {
        found = format!("{found}, by {} (pid {})", process.name, process.id);
    }
    let all = busy.len() == load.0.len();
    let status = if all { Status::Warn } else { Status::Note };
    Finding::new(TOPIC, status, found).advise(match all {
        true => "no cpu is idle: a worker shares its cpu and loses packets",
        false => "Millrace chooses the least busy cpus, unless you name some (--cpus)",
    })
}

fn interrupts(host: &Host) -> Finding {
    const TOPIC: &str = "irqbalance";
    const RUNNING: &str = "running: it may move interrupts to the cpu of a worker";
    match host.software.irqbalance {
        None => Finding::unknown(TOPIC, "proc/1/comm"),
        Some(false) => Finding::new(TOPIC, Status::Ok, "not running"),
        Some(true) => Finding::new(TOPIC, Status::Note, RUNNING)
            .advise("ban the workers' cpus (IRQBALANCE_BANNED_CPULIST) or stop it while measuring"),
    }
}
