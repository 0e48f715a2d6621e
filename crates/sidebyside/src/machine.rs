// SPDX-License-Identifier: BSD-3-Clause
//! Describes the machine of a run: hardware, software, and load by others.

use crate::{Setup, root};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names and values that describe the machine, in the order of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    facts: Vec<(&'static str, String)>,
    #[serde(skip)]
    start: Times,
}

/// Times of all cpus since boot, from `/proc/stat`, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    all: f64,
    /// Time that the hypervisor gave to other guests.
    stolen: f64,
}

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";

impl Machine {
    /// Reads the facts that are known before the first run, and the load.
    pub(crate) fn new(setup: &Setup) -> Self {
        let topology = |cpu: &usize| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            match text(&path) {
                siblings if siblings == cpu.to_string() => format!("cpu {cpu}, a core of its own"),
                siblings => format!("cpu {cpu} of the hyperthreads {siblings}"),
            }
        };
        let workers: Vec<String> = setup.worker_cpus.iter().map(topology).collect();
        let memory = if setup.huge { "hugepages of 2 MB" } else { "pages of 4 kB" };
        let facts = vec![
            ("date", output("date", &["-u", "+%F"])),
            ("processor", processor()),
            ("cpus allowed", format!("{:?}", setup.cpus)),
            ("workers", workers.join("; ")),
            ("time-stamp counter", format!("{:.1} MHz", setup.tsc_hz / 1e6)),
            ("kernel", text("proc/sys/kernel/osrelease")),
            ("DPDK", dpdk::version()),
            ("memory of DPDK", memory.to_owned()),
            ("transparent hugepages", text(THP)),
            ("commit", commit()),
            ("load before", load()),
        ];
        Self { facts, start: Times::read() }
    }

    /// Adds a fact.
    pub(crate) fn add(&mut self, name: &'static str, fact: String) {
        self.facts.push((name, fact));
    }

    /// Adds the load at the end, and the time stolen by the hypervisor since [`Machine::new`].
    pub(crate) fn finish(mut self) -> Self {
        let end = Times::read();
        let (all, stolen) = (end.all - self.start.all, end.stolen - self.start.stolen);
        let percent = 100.0 * stolen / all.max(1.0);
        self.facts.push(("load after", load()));
        self.facts.push(("stolen by the hypervisor", format!("{percent:.2} % of time")));
        self
    }

    /// Returns all facts as pairs of name and value.
    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }

    /// Returns the date of the run, in UTC.
    pub(crate) fn date(&self) -> &str {
        self.fact("date")
    }

    /// Returns the name of the processor in lower case, joined by hyphens, for a file name.
    pub(crate) fn slug(&self) -> String {
        let words = self.fact("processor").to_lowercase();
        let words = words.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.join("-")
    }

    fn fact(&self, name: &str) -> &str {
        let fact = self.facts.iter().find(|(of, _)| *of == name);
        fact.map_or("unknown", |(_, fact)| fact)
    }
}

/// Returns the cpus that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let status = text("proc/self/status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap_or("0").trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
fn load() -> String {
    text("proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn processor() -> String {
    let info = text("proc/cpuinfo");
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    match (field("cpu family"), field("model\t")) {
        (Some(family), Some(number)) => format!("{model} family {family} model {number}"),
        _ => model,
    }
}

fn commit() -> String {
    let root = root().to_string_lossy();
    let git = |args: &[&str]| output("git", &[&["-C", &root], args].concat());
    let changed = if git(&["status", "--porcelain"]).is_empty() { "" } else { ", with changes" };
    format!("{}{changed}", git(&["rev-parse", "--short=12", "HEAD"]))
}

/// Returns the standard output of a command; empty if it cannot be started.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    printed.unwrap_or_default()
}

/// Returns the text of a file, whose path is relative to `/`; empty if it cannot be read.
fn text(path: &str) -> String {
    let text = fs::read_to_string(Path::new("/").join(path)).unwrap_or_default();
    text.trim_end().to_owned()
}

impl Times {
    fn read() -> Self {
        let stat = text("proc/stat");
        let line = stat.lines().next().unwrap_or_default();
        let times: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; user and nice include those behind.
        Self { all: times.iter().take(8).sum(), stolen: times.get(7).copied().unwrap_or(0.0) }
    }
}
