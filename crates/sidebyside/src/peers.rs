// SPDX-License-Identifier: BSD-3-Clause
//! Measures Millrace beside other programs that track connections: Open vSwitch with DPDK on the
//! same ports, and Linux between veth pairs. All of them, and testpmd, take turns on one cpu.
//!
//! A program that cannot run on the machine is skipped, and the report has the reason.

use crate::captures::Traffic;
use crate::cases::{Case, Load};
use crate::figures::Figures;
use crate::hugepages::Hugepages;
use crate::kernel::{self, Router, RouterMode};
use crate::machine::Machine;
use crate::millrace::{self, Millrace};
use crate::ovs::{self, ExactCache, Switch};
use crate::report::Outcome;
use crate::results::Spread;
use crate::testpmd::Testpmd;
use crate::turns::{self, Dut};
use crate::{MBUF_DATA_BYTES as SMALL_MBUF_DATA_BYTES, Setup, table};
use anyhow::bail;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::scenario::{Protocol, SHORT_TCP_PACKETS};

/// Bytes of packet data in a buffer: the size that Open vSwitch uses, which cannot be configured.
pub(crate) const MBUF_DATA_BYTES: usize = 2048;
/// Distinct five-tuples of the short connections.
const SHORT_TUPLES: u32 = 28_000;

/// A program that takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    Floor,
    Millrace,
    Ovs,
    OvsWithoutExactCache,
    KernelDrops,
    KernelRoutes,
    KernelTracks,
}

/// The two settings of Open vSwitch that are measured.
const SWITCHES: [(Program, ExactCache); 2] =
    [(Program::Ovs, ExactCache::Default), (Program::OvsWithoutExactCache, ExactCache::Off)];
/// The routers that are measured.
const ROUTERS: [(Program, RouterMode); 3] = [
    (Program::KernelDrops, RouterMode::Drop),
    (Program::KernelRoutes, RouterMode::Route),
    (Program::KernelTracks, RouterMode::Track),
];

impl Program {
    const ALL: [Self; 7] = [
        Program::Floor,
        Program::Millrace,
        Program::Ovs,
        Program::OvsWithoutExactCache,
        Program::KernelDrops,
        Program::KernelRoutes,
        Program::KernelTracks,
    ];

    fn tracks_connections(self) -> bool {
        ![Program::Floor, Program::KernelDrops, Program::KernelRoutes].contains(&self)
    }

    fn name(self) -> &'static str {
        match self {
            Program::Floor => "testpmd io",
            Program::Millrace => "Millrace",
            Program::Ovs => "Open vSwitch",
            Program::OvsWithoutExactCache => "Open vSwitch, EMC off",
            Program::KernelDrops => "Linux, drops at ingress",
            Program::KernelRoutes => "Linux, routes",
            Program::KernelTracks => "Linux, routes and tracks",
        }
    }
}

/// A case, its thresholds, and its repetitions.
#[derive(Serialize)]
struct PeerCase {
    name: String,
    #[serde(skip)]
    case: Case,
    /// Required ratio of Millrace's packets per second to those of Open vSwitch.
    must: f64,
    /// Desired value of the same ratio.
    goal: f64,
    repetitions: Vec<BTreeMap<Program, Figures>>,
}

/// Results of a run with `--peers`.
#[derive(Serialize)]
pub(crate) struct PeersReport {
    pub(crate) machine: Machine,
    command: String,
    cases: Vec<PeerCase>,
    /// Programs that are missing, with the reason, and deviations from the cases.
    #[serde(rename = "trouble")]
    problems: BTreeSet<String>,
}

/// The running programs of a case.
struct RunningPeers {
    floor: Testpmd,
    millrace: Millrace,
    switches: Vec<(Program, Switch)>,
    routers: Vec<(Program, Router)>,
}

fn cases() -> Vec<PeerCase> {
    let established = |protocol, flows| (Traffic::Established(protocol, flows), Load::Stable);
    let cases = [
        (established(Protocol::Udp, 10_000), 5.0, 8.0),
        (established(Protocol::Tcp, 10_000), 5.0, 8.0),
        (established(Protocol::Tcp, 100_000), 7.0, 10.0),
        ((Traffic::ShortTcp(SHORT_TUPLES), Load::PortReuse), 6.0, 9.0),
    ];
    let peer = |((traffic, load), must, goal)| {
        let mut case = Case::with_one_worker(traffic, load, Vec::new());
        case.name = format!("peers-{}", traffic.name());
        PeerCase { name: case.name.clone(), case, must, goal, repetitions: Vec::new() }
    };
    cases.map(peer).into()
}

/// Returns the names of all cases.
pub(crate) fn names() -> Vec<String> {
    cases().into_iter().map(|peer| peer.name).collect()
}

/// Measures the selected cases `reps` times.
pub(crate) fn measure(
    setup: &mut Setup,
    reps: u32,
    with_huge: bool,
    is_selected: impl Fn(&str) -> bool,
    interrupted: &AtomicBool,
) -> anyhow::Result<PeersReport> {
    let mut cases = cases();
    cases.retain(|peer| is_selected(&peer.name));
    if cases.is_empty() {
        bail!("no such case; --list --peers prints all names");
    }
    let needed_mb = cases.iter().map(|peer| memory_mb(setup, &peer.case)).max().unwrap_or(0);
    let hugepages = with_huge.then(|| Hugepages::reserve(needed_mb)).flatten();
    setup.huge = hugepages.is_some();
    let mut machine = Machine::new(setup);
    let mut problems = BTreeSet::new();
    match ovs::missing_requirement(setup) {
        Some(reason) => _ = problems.insert(format!("Open vSwitch is skipped: {reason}")),
        None => machine.add("Open vSwitch", ovs::version()),
    }
    problems
        .extend(kernel::missing_requirement().map(|reason| format!("Linux is skipped: {reason}")));
    for peer in &cases {
        peer.case.traffic.write(&setup.capture(peer.case.traffic))?;
        kernel::write_capture(setup, peer.case.traffic)?;
    }
    for rep in 1..=reps {
        for peer in &mut cases {
            let figures = run(setup, peer, &mut problems, interrupted);
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            match figures {
                Ok(figures) => {
                    eprintln!("{rep}/{reps} {:<16} {}", peer.name, summary_line(&figures));
                    peer.repetitions.push(figures);
                }
                Err(error) => _ = problems.insert(format!("{}: {error:#}", peer.name)),
            }
        }
    }
    Ok(PeersReport { machine: machine.finish(), command: crate::command(), cases, problems })
}

/// Returns the megabytes that all programs of a case need together.
fn memory_mb(setup: &Setup, case: &Case) -> usize {
    let small = Setup { mbuf_data_bytes: SMALL_MBUF_DATA_BYTES, ..setup.clone() };
    2 * setup.memory_mb(case)
        + millrace::table_mb()
        + SWITCHES.len() * ovs::MEMORY_MB
        + ROUTERS.len() * small.memory_mb(case)
}

/// Runs one repetition of a case.
fn run(
    setup: &Setup,
    peer: &PeerCase,
    problems: &mut BTreeSet<String>,
    interrupted: &AtomicBool,
) -> anyhow::Result<BTreeMap<Program, Figures>> {
    let case = &peer.case;
    let mut running = start(setup, case, problems)?;
    let mut duts: Vec<&mut dyn Dut> = vec![&mut running.floor, &mut running.millrace];
    duts.extend(running.switches.iter_mut().map(|(_, one)| one as &mut dyn Dut));
    duts.extend(running.routers.iter_mut().map(|(_, one)| one as &mut dyn Dut));
    turns::take_turns(setup, &mut duts, interrupted)?;

    let mut figures = BTreeMap::from([(Program::Floor, running.floor.finish(setup, case)?)]);
    let mut add = |program: Program, of_program: Figures, deviations: Vec<String>| {
        figures.insert(program, of_program);
        let deviation =
            |deviation| format!("{}, {}, deviation: {deviation}", peer.name, program.name());
        problems.extend(deviations.into_iter().map(deviation));
    };
    let millrace = running.millrace.finish(setup, case)?;
    add(Program::Millrace, millrace.figures, millrace.deviations);
    for (program, switch) in running.switches {
        let (figures, deviations) = switch.finish(setup, case)?;
        add(program, figures, deviations);
    }
    for (program, router) in running.routers {
        let (figures, deviations) = router.finish(setup, case)?;
        add(program, figures, deviations);
    }
    Ok(figures)
}

/// Starts the programs of a case. If Open vSwitch or a router does not start, adds a problem and
/// continues with the others.
fn start(
    setup: &Setup,
    case: &Case,
    problems: &mut BTreeSet<String>,
) -> anyhow::Result<RunningPeers> {
    let has_switch = ovs::missing_requirement(setup).is_none();
    let has_router = kernel::missing_requirement().is_none();
    let floor = Testpmd::start(setup, case)?;
    let mut routers = Vec::new();
    for (program, work) in ROUTERS.into_iter().filter(|_| has_router) {
        match Router::start(setup, case, work) {
            Ok(router) => routers.push((program, router)),
            Err(error) => _ = problems.insert(missing_message(case, program, &error)),
        }
    }
    // The routers start first: connections of Open vSwitch would expire while they start.
    let mut switches = Vec::new();
    for (program, cache) in SWITCHES.into_iter().filter(|_| has_switch) {
        match Switch::start(setup, case, cache) {
            Ok(switch) => switches.push((program, switch)),
            Err(error) => _ = problems.insert(missing_message(case, program, &error)),
        }
    }
    let millrace =
        Millrace::start(setup, &setup.millrace, case, 2 + switches.len() + routers.len())?;
    Ok(RunningPeers { floor, millrace, switches, routers })
}

fn missing_message(case: &Case, program: Program, error: &anyhow::Error) -> String {
    format!("{}, {}, is missing: {error:#}", case.name, program.name())
}

fn summary_line(figures: &BTreeMap<Program, Figures>) -> String {
    let program = |(program, figures): (&Program, &Figures)| {
        let on_cpu = 100.0 * figures.on_cpu;
        format!("{} {:.2} Mpps, on cpu {on_cpu:.0} %", program.name(), figures.mpps)
    };
    figures.iter().map(program).collect::<Vec<_>>().join("; ")
}

impl PeerCase {
    /// Returns the spread of a figure over the repetitions that have it; `None` if none has.
    fn spread(
        &self,
        figure: impl Fn(&BTreeMap<Program, Figures>) -> Option<f64>,
    ) -> Option<Spread> {
        let values: Vec<f64> = self.repetitions.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    }

    /// Formats the row of a program; `None` if it was not measured.
    fn row(&self, program: Program) -> Option<Vec<String>> {
        let mpps = self.spread(|figures| Some(figures.get(&program)?.mpps))?;
        let cycles = self.spread(|figures| Some(figures.get(&program)?.cycles))?;
        let connections = match self.case.load {
            Load::PortReuse if program.tracks_connections() => {
                format!("{:.0}", mpps.median * 1e3 / f64::from(SHORT_TCP_PACKETS))
            }
            _ => String::new(),
        };
        let name = vec![format!("{}: {}", self.name, program.name())];
        Some([name, mpps.cells(3).into(), cycles.cells(0).into(), vec![connections]].concat())
    }

    /// Formats the rows of ratios: Millrace to Open vSwitch, with thresholds, and Linux to
    /// Millrace.
    fn ratios(&self) -> Vec<Vec<String>> {
        let mpps = |of: &BTreeMap<Program, Figures>, program| Some(of.get(&program)?.mpps);
        let cycles = |of: &BTreeMap<Program, Figures>, program| Some(of.get(&program)?.cycles);
        let mut rows = Vec::new();
        let mut row = |name: &str, ratio: Option<Spread>, has_threshold: bool| {
            let Some(ratio) = ratio else { return };
            let threshold = match has_threshold {
                true => {
                    let holds = |limit| ratio.median >= limit;
                    let outcome = Outcome::new(holds(self.must), holds(self.goal)).to_string();
                    vec![format!("{} / {}", self.must, self.goal), outcome]
                }
                false => vec![String::new(); 2],
            };
            rows.push(
                [vec![format!("{}: {name}", self.name)], ratio.cells(2).into(), threshold].concat(),
            );
        };
        let to_switch = |of: &BTreeMap<Program, Figures>| {
            let theirs = SWITCHES.into_iter().filter_map(|(program, _)| mpps(of, program));
            Some(mpps(of, Program::Millrace)? / theirs.max_by(f64::total_cmp)?)
        };
        row("Mpps, divided by Open vSwitch's faster setting", self.spread(to_switch), true);
        let to_kernel = |of: &BTreeMap<Program, Figures>| {
            let theirs = cycles(of, Program::KernelTracks)? - cycles(of, Program::KernelDrops)?;
            Some(theirs / cycles(of, Program::Millrace)?)
        };
        row("cycles of Linux without sender, divided by all", self.spread(to_kernel), false);
        let net = |of: &BTreeMap<Program, Figures>| {
            let theirs = cycles(of, Program::KernelTracks)? - cycles(of, Program::KernelRoutes)?;
            Some(theirs / (cycles(of, Program::Millrace)? - cycles(of, Program::Floor)?))
        };
        row("cycles of tracking in Linux, divided by net", self.spread(net), false);
        rows
    }
}

/// Section of the report: work that each program does for a packet.
const WORK: &str = "\
The programs do different work for a packet. All settings are defaults, except those listed here.

- testpmd io moves packets from one port to the other. Millrace and Open vSwitch have the same
  ports, with packet buffers of 2 kB.
- Millrace has one record for both directions, with packets and bytes of each, and checks TCP
  windows. It writes no flow records and has no rules: it forwards everything. Its idle timeouts are
  the length of the measurement, and embryonic connections are not limited.
- Open vSwitch has rules for new, established and invalid packets, so it looks each packet up twice.
  It checks TCP windows, and has zones, labels and a lock. Its rules have counters, its connections
  have none. EMC off: `emc-insert-inv-prob=0`. With many flows and few rules, the exact match cache
  costs more than it saves. A SYN+ACK in the same burst as its SYN is invalid, because Open vSwitch
  creates connections after the lookups of a burst. A capture that is replayed without pauses has a
  few percent of them. They are forwarded like other packets.
- Linux allocates a buffer for each packet, routes it, and passes it through two veth pairs. It has
  rules for new, established and invalid packets, and checks TCP windows. Its connections have no
  counters (`nf_conntrack_acct` is off). The sender runs on the same cpu and is in all figures: one
  system call per burst, and a copy. `Linux, drops at ingress` is the sender and the first veth pair
  alone.
";

impl PeersReport {
    /// True if all repetitions of all cases succeeded.
    pub(crate) fn is_whole(&self, reps: u32) -> bool {
        self.cases.iter().all(|peer| peer.repetitions.len() == reps as usize)
    }

    /// Formats the report as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = "# Millrace beside other connection trackers\n\n".to_owned();
        for (name, fact) in self.machine.facts() {
            text += &format!("- {name}: {fact}\n");
        }
        let reps = self.cases.iter().map(|peer| peer.repetitions.len()).max().unwrap_or(0);
        let ratios: Vec<_> = self.cases.iter().flat_map(PeerCase::ratios).collect();
        text += &format!(
            "\n## Ratios within one repetition\n\nOne worker against one core, in turns on the \
             same cpu; {reps} repetitions.\n\n"
        );
        text +=
            &table::render(&["case", "min", "median", "max", "must / goal", "outcome"], &ratios);
        let rows = self.cases.iter().flat_map(|peer| Program::ALL.map(|program| peer.row(program)));
        let rows: Vec<_> = rows.flatten().collect();
        let mpps = ["Mpps min", "median", "max"];
        let cycles = ["cycles min", "median", "max", "k conn/s"];
        let head = [&["case"][..], &mpps, &cycles].concat();
        text += "\n## Figures of each program\n\nMpps, cycles of processor time per packet, and \
                 thousands of new connections per second.\n\n";
        text += &table::render(&head, &rows);
        text += &format!("\n## Work per packet\n\n{WORK}");
        if !self.problems.is_empty() {
            text += "\n## Problems\n\n";
            self.problems.iter().for_each(|line| text += &format!("- {line}\n"));
        }
        text + &format!("\n## Command\n\n```text\n{}\n```\n", self.command)
    }
}
