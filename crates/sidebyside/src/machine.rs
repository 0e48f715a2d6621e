// SPDX-License-Identifier: BSD-3-Clause
//! What the figures were measured on, and how quiet it was.

use crate::{Setup, root};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Machine and software, in the order they are shown.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    facts: Vec<(&'static str, String)>,
    #[serde(skip)]
    start: Times,
}

/// Time of all cpus so far, in the kernel's units.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    all: f64,
    /// Taken by other guests of the host.
    stolen: f64,
}

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";

impl Machine {
    /// Facts that do not change, and the load before the first run.
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

    /// Adds one.
    pub(crate) fn add(&mut self, name: &'static str, fact: String) {
        self.facts.push((name, fact));
    }

    /// Adds what can be said only at the end.
    pub(crate) fn finish(mut self) -> Self {
        let end = Times::read();
        let (all, stolen) = (end.all - self.start.all, end.stolen - self.start.stolen);
        let percent = 100.0 * stolen / all.max(1.0);
        self.facts.push(("load after", load()));
        self.facts.push(("stolen by the hypervisor", format!("{percent:.2} % of time")));
        self
    }

    /// Every fact with its name.
    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }

    /// Day of the run.
    pub(crate) fn date(&self) -> &str {
        self.fact("date")
    }

    /// The processor in words that suit the name of a file.
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

/// The cpus this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let status = text("proc/self/status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap_or("0").trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Load of the last 1, 5 and 15 minutes.
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

/// What a command prints; nothing if it fails.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    printed.unwrap_or_default()
}

/// A file below `/`; nothing if it cannot be read.
fn text(path: &str) -> String {
    let text = fs::read_to_string(Path::new("/").join(path)).unwrap_or_default();
    text.trim_end().to_owned()
}

impl Times {
    fn read() -> Self {
        let stat = text("proc/stat");
        let line = stat.lines().next().unwrap_or_default();
        let times: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; those after it are in these.
        Self { all: times.iter().take(8).sum(), stolen: times.get(7).copied().unwrap_or(0.0) }
    }
}
