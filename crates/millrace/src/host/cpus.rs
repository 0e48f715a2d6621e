// SPDX-License-Identifier: BSD-3-Clause
//! Cpus: which there are, which are set apart, and how steady they run.

use super::Root;
use std::collections::BTreeSet;
use std::fmt::Write;

const CPU: &str = "sys/devices/system/cpu";

/// Sets of cpus, each ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Cpus that run.
    pub(crate) online: Vec<u32>,
    /// Those of them that this process may use.
    pub(crate) allowed: Vec<u32>,
    /// Those that the scheduler leaves alone (`isolcpus`).
    pub(crate) isolated: Vec<u32>,
    /// Whether the kernel told which they are.
    pub(crate) isolated_known: bool,
    /// Those without a tick while one thread runs (`nohz_full`).
    pub(crate) nohz_full: Vec<u32>,
    /// Those whose RCU work is done elsewhere (`rcu_nocbs`).
    pub(crate) rcu_nocbs: Vec<u32>,
}

impl Cpus {
    /// Reads the cpus of this host.
    pub(crate) fn of_this_host() -> Self {
        Self::read(Root(std::path::Path::new("/")))
    }

    /// Cpus a worker can have. Isolated ones are not among those a process is given by itself, yet
    /// it may go there.
    pub(crate) fn usable(&self) -> Vec<u32> {
        let usable = |cpu: &u32| self.allowed.contains(cpu) || self.isolated.contains(cpu);
        self.online.iter().copied().filter(usable).collect()
    }

    pub(super) fn read(root: Root) -> Self {
        let set = |name: &str| root.text(&format!("{CPU}/{name}")).map(|list| parse_cpus(&list));
        let allowed = root.field("proc/self/status", "Cpus_allowed_list");
        let allowed = allowed.map(|list| parse_cpus(&list)).unwrap_or_default();
        let online = set("online").unwrap_or_else(|| allowed.clone());
        let isolated = set("isolated");
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        let rcu_nocbs = command_line.split(' ').find_map(|word| word.strip_prefix("rcu_nocbs="));
        Self {
            allowed: allowed.into_iter().filter(|cpu| online.contains(cpu)).collect(),
            isolated_known: isolated.is_some(),
            isolated: isolated.unwrap_or_default(),
            nohz_full: set("nohz_full").unwrap_or_default(),
            rcu_nocbs: rcu_nocbs.map(parse_cpus).unwrap_or_default(),
            online,
        }
    }
}

/// How the processor runs.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Feature flags of the first cpu; none on architectures that name them otherwise.
    pub(crate) flags: Option<Vec<String>>,
    /// Frequency governors in use, each once; none where the host has no say.
    pub(crate) governors: Option<Vec<String>>,
    /// Whether cpus share cores.
    pub(crate) smt: Option<bool>,
    /// The kernel's own choice of clock.
    pub(crate) clock_source: Option<String>,
    /// NUMA nodes.
    pub(crate) nodes: Option<usize>,
}

impl Processor {
    /// What it calls itself, on architectures where it does.
    pub(crate) fn name_of_this_host() -> Option<String> {
        Root(std::path::Path::new("/")).field("proc/cpuinfo", "model name")
    }

    pub(super) fn read(root: Root) -> Self {
        let cpu_info = root.text("proc/cpuinfo");
        let flags = cpu_info.map(|_| root.field("proc/cpuinfo", "flags").unwrap_or_default());
        let words = |flags: String| flags.split_whitespace().map(str::to_owned).collect();
        let governor = |name: &String| root.text(&format!("{CPU}/{name}/cpufreq/scaling_governor"));
        let governors = || root.names(CPU).iter().filter_map(governor).collect::<BTreeSet<_>>();
        let nodes = root.text("sys/devices/system/node/online");
        let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            flags: flags.map(words),
            governors: root.has(CPU).then(|| governors().into_iter().collect()),
            smt: root.number(&format!("{CPU}/smt/active")).map(|active| active == 1),
            clock_source: root.text(clock),
            nodes: nodes.map(|list| parse_cpus(&list).len()).filter(|nodes| *nodes > 0),
        }
    }
}

/// Reads a list as the kernel writes it: `0-3,8`. What is no number is left out.
fn parse_cpus(list: &str) -> Vec<u32> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Writes a list as the kernel does.
pub(crate) fn format_cpus(cpus: &[u32]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|before, after| before + 1 == *after) {
        let gap = if text.is_empty() { "" } else { "," };
        match run {
            [first, .., last] => write!(text, "{gap}{first}-{last}"),
            _ => write!(text, "{gap}{}", run[0]),
        }
        .expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_reading_and_writing() {
        for list in ["", "0", "0-1", "0-3,8", "1,3,5-7,127"] {
            assert_eq!(format_cpus(&parse_cpus(list)), list);
        }
        assert_eq!(parse_cpus("managed_irq,domain,2-3"), [2, 3]);
    }
}
