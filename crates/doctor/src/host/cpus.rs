// SPDX-License-Identifier: BSD-3-Clause
//! Reads cpus: which exist, which are isolated, how busy they are, and how steady they run.

use super::{Root, nodes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

const CPU: &str = "sys/devices/system/cpu";
/// Time over which the load of cpus is measured. The kernel counts in hundredths of a second.
pub(super) const LOAD_WINDOW: Duration = Duration::from_millis(100);
/// A cpu is busy if it was not idle for more than this percentage of the time. That is two of ten
/// ticks, since a single one may be chance.
pub(crate) const BUSY_PERCENT: f64 = 20.0;

/// Sets of cpus, each ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Cpus that are online.
    pub online: Vec<u32>,
    /// Cpus that this process may use.
    pub allowed: Vec<u32>,
    /// Cpus that the scheduler leaves alone (`isolcpus`).
    pub isolated: Vec<u32>,
    /// True if the kernel says which cpus are isolated.
    pub isolated_known: bool,
    /// Cpus without a tick while they run one thread (`nohz_full`).
    pub nohz_full: Vec<u32>,
    /// Cpus whose RCU work is done elsewhere (`rcu_nocbs`).
    pub rcu_nocbs: Vec<u32>,
    /// Cpus that process 1 may use; services and logins inherit its set.
    pub of_init: Vec<u32>,
    /// Cpus of each core that has several, in order of their first cpu.
    pub siblings: Vec<Vec<u32>>,
    /// Cpus of workers of other instances of Millrace.
    pub others: Vec<u32>,
    /// Cpus of each NUMA node; empty if the kernel does not tell.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// Load of the cpus, once it was measured.
    pub load: OnceLock<CpuLoad>,
}

impl Cpus {
    /// Reads the cpus of this host; `others` are those of the workers of other instances.
    pub fn of_this_host(others: Vec<u32>) -> Self {
        Self { others, ..Self::read(Root(Path::new("/"))) }
    }

    /// Returns the number of cpus that workers can have and no other instance uses; at least 1.
    pub fn count_free(&self) -> usize {
        self.usable().iter().filter(|cpu| !self.others.contains(cpu)).count().max(1)
    }

    /// Measures the load of the cpus of this host, for a tenth of a second. Only the first call
    /// measures, since later the workers of this process are part of the load.
    pub fn measure_load(&self) {
        self.load.get_or_init(CpuLoad::measure);
    }

    /// Returns the percentage of time that a cpu was not idle; `None` if unknown.
    pub fn busy_percent(&self, cpu: u32) -> Option<f64> {
        self.load.get()?.0.get(&cpu).copied()
    }

    /// True if a cpu is so busy that a worker would have to share it.
    pub fn is_busy(&self, cpu: u32) -> bool {
        self.busy_percent(cpu).is_some_and(|percent| percent > BUSY_PERCENT)
    }

    /// Returns the usable cpus, best for a worker first. Cpus of other instances come last. Idle
    /// cpus come before busy ones, which are in order of load. Among equals, isolated cpus come
    /// first, since they are meant for this. The first cpu comes last, since other work prefers it.
    pub fn by_preference(&self) -> Vec<u32> {
        self.by_preference_near(&[])
    }

    /// Returns the usable cpus, best first, for ports on these NUMA nodes. The order is that of
    /// [`by_preference`](Self::by_preference), but among free cpus of equal load those of the nodes
    /// come first. Without nodes, or if the nodes have no cpus, nodes do not matter.
    pub fn by_preference_near(&self, nodes: &[u32]) -> Vec<u32> {
        let first = self.allowed.first();
        let mut cpus = self.usable();
        let rank = |cpu: &u32| {
            let load = self.busy_percent(*cpu).filter(|_| self.is_busy(*cpu));
            let is_isolated = self.isolated.contains(cpu);
            let load = load.map_or(0, |percent| percent as u32);
            let is_far = self.is_far(*cpu, nodes);
            (self.others.contains(cpu), load, is_far, !is_isolated, first == Some(cpu))
        };
        cpus.sort_by_key(rank);
        cpus
    }

    /// Returns the cpus that a worker can have. Isolated cpus are not in the default set of a
    /// process, but it may use them.
    pub fn usable(&self) -> Vec<u32> {
        let usable = |cpu: &u32| self.allowed.contains(cpu) || self.isolated.contains(cpu);
        self.online.iter().copied().filter(usable).collect()
    }

    /// Returns the time that a hypervisor took from these cpus since boot, in milliseconds. `None`
    /// if the kernel does not say.
    pub fn stolen_ms(cpus: &[u32]) -> Option<u64> {
        CpuTimes::read(Root(Path::new("/"))).stolen_ms(cpus)
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
            of_init: root
                .field("proc/1/status", "Cpus_allowed_list")
                .map(|list| parse_cpus(&list))
                .unwrap_or_default(),
            siblings: read_siblings(root, &online),
            nohz_full: set("nohz_full").unwrap_or_default(),
            rcu_nocbs: rcu_nocbs.map(parse_cpus).unwrap_or_default(),
            online,
            others: Vec::new(),
            nodes: nodes::read(root),
            load: OnceLock::new(),
        }
    }
}

/// Returns the cpus of each core that has several.
fn read_siblings(root: Root, online: &[u32]) -> Vec<Vec<u32>> {
    let of_core = |cpu: &u32| {
        let list = root.text(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"))?;
        Some(parse_cpus(&list)).filter(|cpus| cpus.len() > 1 && cpus.first() == Some(cpu))
    };
    online.iter().filter_map(of_core).collect()
}

/// Percentage of time that each cpu was not idle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuLoad(pub BTreeMap<u32, f64>);

// `Eq` is valid: a share of time that has passed is never NaN.
impl Eq for CpuLoad {}

impl CpuLoad {
    /// Measures the load of this host's cpus, for a tenth of a second.
    pub(crate) fn measure() -> Self {
        let root = Root(Path::new("/"));
        let before = CpuTimes::read(root);
        std::thread::sleep(LOAD_WINDOW);
        Self::between(&before, &CpuTimes::read(root))
    }

    /// Returns the busiest cpu and its percentage; `None` if no cpu is known.
    pub(crate) fn busiest(&self) -> Option<(u32, f64)> {
        let all = self.0.iter().map(|(cpu, percent)| (*cpu, *percent));
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the load between two readings. A cpu whose time stands still is left out.
    fn between(before: &CpuTimes, after: &CpuTimes) -> Self {
        let share = |(cpu, now): (&u32, &CpuTime)| {
            let then = before.0.get(cpu)?;
            let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
            // The kernel may reduce idle time.
            let idle = now.idle.saturating_sub(then.idle).min(all);
            Some((*cpu, 100.0 * (all - idle) as f64 / all as f64))
        };
        Self(after.0.iter().filter_map(share).collect())
    }
}

/// Time that each cpu has spent since boot (proc_stat(5)).
struct CpuTimes(BTreeMap<u32, CpuTime>);

/// Time of a cpu in ticks of the kernel, usually hundredths of a second.
struct CpuTime {
    /// Time without work, or only waiting for a disk.
    idle: u64,
    /// Time taken by a hypervisor.
    stolen: u64,
    all: u64,
}

/// Milliseconds of a tick: USER_HZ is 100 on every architecture of DPDK.
const TICK_MS: u64 = 10;

impl CpuTimes {
    fn read(root: Root) -> Self {
        let text = root.text("proc/stat").unwrap_or_default();
        let cpu = |line: &str| {
            let (number, times) = line.strip_prefix("cpu")?.split_once(' ')?;
            // Times of guests, after the first eight, are already part of `user` and `nice`.
            let times = times.split_whitespace().take(8).map(|time| time.parse::<u64>().ok());
            let times: Vec<_> = times.collect::<Option<_>>()?;
            let idle = times.get(3)? + times.get(4).unwrap_or(&0);
            let stolen = *times.get(7).unwrap_or(&0);
            Some((number.parse().ok()?, CpuTime { idle, stolen, all: times.iter().sum() }))
        };
        Self(text.lines().filter_map(cpu).collect())
    }

    fn stolen_ms(&self, cpus: &[u32]) -> Option<u64> {
        cpus.iter().map(|cpu| Some(self.0.get(cpu)?.stolen * TICK_MS)).sum()
    }
}

/// Properties of the processor.
#[derive(Debug)]
pub struct Processor {
    /// Feature flags of the first cpu; `None` on architectures that name them otherwise.
    pub(crate) flags: Option<Vec<String>>,
    /// Frequency governors in use, without repetition; `None` if the host has no control.
    pub(crate) governors: Option<Vec<String>>,
    /// True if cpus share cores.
    pub(crate) smt: Option<bool>,
    /// Clock that the kernel has chosen.
    pub(crate) clock_source: Option<String>,
    /// Number of NUMA nodes.
    pub(crate) nodes: Option<usize>,
}

impl Processor {
    /// Returns the processor's name; `None` on architectures without one.
    pub fn name_of_this_host() -> Option<String> {
        Root(Path::new("/")).field("proc/cpuinfo", "model name")
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

/// Parses a list as the kernel writes it, such as `0-3,8`. Skips words that are no numbers of cpus
/// of Linux.
pub(super) fn parse_cpus(list: &str) -> Vec<u32> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let cpu = |text: &str| text.trim().parse::<u16>().ok().map(u32::from);
        Some(cpu(first)?..=cpu(last)?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Highest number of a cpu that can have a worker.
pub const CPU_MAX: u32 = 1023;

/// Cpus in the order of the command line, such as `2,4-6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

/// The text is not a list of cpus.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be cpus from 0 to {CPU_MAX} and ranges of them, such as 2,4-6")]
pub struct NoCpuList;

impl FromStr for CpuList {
    type Err = NoCpuList;

    fn from_str(list: &str) -> Result<Self, NoCpuList> {
        let mut cpus = Vec::new();
        for item in list.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let [first, last] = [first, last].map(|cpu| cpu.trim().parse().map_err(|_| NoCpuList));
            let (first, last): (u32, u32) = (first?, last?);
            if first > last || last > CPU_MAX {
                return Err(NoCpuList);
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

/// Formats a list as the kernel does.
pub fn format_cpus(cpus: &[u32]) -> String {
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
        assert_eq!(parse_cpus("0-4294967295,7"), [7]);
    }

    #[test]
    fn a_list_of_a_person_keeps_its_order() {
        let read = |list: &str| list.parse().map(|CpuList(cpus)| cpus);
        assert_eq!(read("2"), Ok(vec![2]));
        assert_eq!(read("8, 2,4-6"), Ok(vec![8, 2, 4, 5, 6]));
        for bad in ["", ",", "2,", "a", "-1", "1-", "6-4", "1024", "0-4294967295", "1-2-3", "1.5"] {
            assert_eq!(read(bad), Err(NoCpuList), "{bad}");
        }
    }

    /// Reads the times of a host with this `/proc/stat`.
    fn times(stat: &str) -> CpuTimes {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/stat"), stat).unwrap();
        CpuTimes::read(Root(folder.path()))
    }

    #[test]
    fn the_load_of_a_cpu_is_the_time_it_was_not_idle() {
        let before = times(
            "cpu  1 1 1 1 1 1 1 1 1 1\n\
             cpu0 100 0 50 1000 7 0 3 0 0 0\n\
             cpu1 5 5 5 5 5 5 5 5 5 5\n\
             cpu2 9 0 0 90 0 0 0 0 0 0\n\
             cpu3 9 0 0 90 9 0 0 0 0 0\n\
             intr 12345 1 2 3\n",
        );
        let after = times(
            "cpu0 100 0 50 1006 11 0 3 0 0 0\n\
             cpu1 6 6 6 5 5 6 6 15 900 900\n\
             cpu2 9 0 0 90 0 0 0 0 0 0\n\
             cpu3 11 0 0 98 8 0 0 0 0 0\n\
             cpu9 1 0 0 9 0 0 0 0 0 0\n",
        );
        // Waiting for a disk counts as idle, stolen time does not, and guests count once. Cpu 2 has
        // no elapsed time, and cpu 9 no earlier reading.
        let load = CpuLoad::between(&before, &after);
        assert_eq!(
            load.0.into_iter().collect::<Vec<_>>(),
            [(0, 0.0), (1, 100.0), (3, 200.0 / 9.0)]
        );
        assert!(CpuTimes::read(Root(Path::new("/nowhere"))).0.is_empty());
    }

    #[test]
    fn the_least_busy_cpu_comes_first() {
        let cpus = |isolated: &[u32], load: &[f64]| {
            let load = CpuLoad((0..).zip(load.iter().copied()).collect());
            let online = vec![0, 1, 2, 3];
            let isolated = isolated.to_vec();
            Cpus { allowed: online.clone(), online, isolated, load: load.into(), ..Cpus::default() }
        };
        assert_eq!(cpus(&[], &[]).by_preference(), [1, 2, 3, 0]);
        // A little load does not change the order from one run to the next.
        assert_eq!(cpus(&[], &[0.0, 20.0, 10.0, 0.0]).by_preference(), [1, 2, 3, 0]);
        assert_eq!(cpus(&[], &[0.0, 97.0, 50.0, 0.0]).by_preference(), [3, 0, 2, 1]);
        assert_eq!(cpus(&[3], &[]).by_preference(), [3, 1, 2, 0]);
        // Another instance may poll on an isolated cpu.
        assert_eq!(cpus(&[2, 3], &[0.0, 0.0, 0.0, 99.0]).by_preference(), [2, 1, 0, 3]);
        assert_eq!(cpus(&[3], &[99.0, 99.0, 99.0, 99.0]).by_preference(), [3, 1, 2, 0]);
        // An idle cpu may still belong to another instance.
        let shared = Cpus { others: vec![3, 1], ..cpus(&[3], &[99.0, 0.0, 98.0, 0.0]) };
        assert_eq!(shared.by_preference(), [2, 0, 3, 1]);
        assert_eq!(shared.count_free(), 2);
        assert_eq!(Cpus { others: vec![0, 1, 2, 3], ..shared }.count_free(), 1);
    }
}
