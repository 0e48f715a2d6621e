// SPDX-License-Identifier: BSD-3-Clause
//! Millrace beside others that track connections: Open vSwitch with DPDK on the same ports, and the
//! kernel between veth cables. All of them, and the floor, take turns on one cpu.
//!
//! What cannot be measured on a machine is left out, and the report says why.

use crate::captures::Traffic;
use crate::cases::{Case, Load};
use crate::heat::{self, Dut};
use crate::hugepages::Hugepages;
use crate::kernel::{self, Router, Work};
use crate::machine::Machine;
use crate::measured::Spread;
use crate::millrace::{self, Millrace};
use crate::ovs::{self, ExactCache, Switch};
use crate::report::Verdict;
use crate::stopwatch::Figures;
use crate::testpmd::Testpmd;
use crate::{MBUF_DATA_BYTES as SMALL_MBUF_DATA_BYTES, Setup, table};
use anyhow::bail;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::scenario::{Protocol, SHORT_TCP_PACKETS};

/// Bytes of packet in a buffer: those of Open vSwitch, which cannot be told.
pub(crate) const MBUF_DATA_BYTES: usize = 2048;
/// Distinct tuples of the short connections.
const SHORT_TUPLES: u32 = 28_000;

/// Who has its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    Floor,
    Millrace,
    Ovs,
    OvsWithoutExactCache,
    KernelDrops,
    KernelRoutes,
    KernelTracks,
}

/// Both ways in which Open vSwitch is measured.
const SWITCHES: [(Side, ExactCache); 2] =
    [(Side::Ovs, ExactCache::Default), (Side::OvsWithoutExactCache, ExactCache::Off)];
/// What the kernel is measured at.
const ROUTERS: [(Side, Work); 3] = [
    (Side::KernelDrops, Work::Drop),
    (Side::KernelRoutes, Work::Route),
    (Side::KernelTracks, Work::Track),
];

impl Side {
    const ALL: [Self; 7] = [
        Side::Floor,
        Side::Millrace,
        Side::Ovs,
        Side::OvsWithoutExactCache,
        Side::KernelDrops,
        Side::KernelRoutes,
        Side::KernelTracks,
    ];

    fn makes_connections(self) -> bool {
        ![Side::Floor, Side::KernelDrops, Side::KernelRoutes].contains(&self)
    }

    fn name(self) -> &'static str {
        match self {
            Side::Floor => "testpmd io",
            Side::Millrace => "Millrace",
            Side::Ovs => "Open vSwitch",
            Side::OvsWithoutExactCache => "Open vSwitch, EMC off",
            Side::KernelDrops => "Linux, drops at the door",
            Side::KernelRoutes => "Linux, routes",
            Side::KernelTracks => "Linux, routes and tracks",
        }
    }
}

/// A case, its bars, and what came of it.
#[derive(Serialize)]
struct Peer {
    name: String,
    #[serde(skip)]
    case: Case,
    /// How many times the packets per second of Open vSwitch.
    must: f64,
    goal: f64,
    repetitions: Vec<BTreeMap<Side, Figures>>,
}

/// Everything that is known in the end.
#[derive(Serialize)]
pub(crate) struct Peers {
    pub(crate) machine: Machine,
    command: String,
    cases: Vec<Peer>,
    /// What is missing, and why; what did not do what its case is about.
    trouble: BTreeSet<String>,
}

/// The sides of a case that are running.
struct RunningPeers {
    floor: Testpmd,
    millrace: Millrace,
    switches: Vec<(Side, Switch)>,
    routers: Vec<(Side, Router)>,
}

fn cases() -> Vec<Peer> {
    let established = |protocol, flows| (Traffic::Established(protocol, flows), Load::Stays);
    let cases = [
        (established(Protocol::Udp, 10_000), 5.0, 8.0),
        (established(Protocol::Tcp, 10_000), 5.0, 8.0),
        (established(Protocol::Tcp, 100_000), 7.0, 10.0),
        ((Traffic::ShortTcp(SHORT_TUPLES), Load::Reused), 6.0, 9.0),
    ];
    let peer = |((traffic, load), must, goal)| {
        let mut case = Case::of_one_worker(traffic, load, Vec::new());
        case.name = format!("peers-{}", traffic.name());
        Peer { name: case.name.clone(), case, must, goal, repetitions: Vec::new() }
    };
    cases.map(peer).into()
}

/// Names of all cases.
pub(crate) fn names() -> Vec<String> {
    cases().into_iter().map(|peer| peer.name).collect()
}

/// Measures all cases that are wanted, `reps` times.
pub(crate) fn measure(
    setup: &mut Setup,
    reps: u32,
    with_huge: bool,
    is_wanted: impl Fn(&str) -> bool,
    interrupted: &AtomicBool,
) -> anyhow::Result<Peers> {
    let mut cases = cases();
    cases.retain(|peer| is_wanted(&peer.name));
    if cases.is_empty() {
        bail!("no such case; --list --peers shows them");
    }
    let needed_mb = cases.iter().map(|peer| memory_mb(setup, &peer.case)).max().unwrap_or(0);
    let hugepages = with_huge.then(|| Hugepages::reserve(needed_mb)).flatten();
    setup.huge = hugepages.is_some();
    let mut machine = Machine::new(setup);
    let mut trouble = BTreeSet::new();
    match ovs::lacks(setup) {
        Some(reason) => _ = trouble.insert(format!("Open vSwitch is skipped: {reason}")),
        None => machine.add("Open vSwitch", ovs::version()),
    }
    trouble.extend(kernel::lacks().map(|reason| format!("Linux is skipped: {reason}")));
    for peer in &cases {
        peer.case.traffic.write(&setup.capture(peer.case.traffic))?;
        kernel::write_capture(setup, peer.case.traffic)?;
    }
    for rep in 1..=reps {
        for peer in &mut cases {
            let figures = run(setup, peer, &mut trouble, interrupted);
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            match figures {
                Ok(figures) => {
                    eprintln!("{rep}/{reps} {:<16} {}", peer.name, in_a_line(&figures));
                    peer.repetitions.push(figures);
                }
                Err(error) => _ = trouble.insert(format!("{}: {error:#}", peer.name)),
            }
        }
    }
    Ok(Peers { machine: machine.finish(), command: crate::command(), cases, trouble })
}

/// Megabytes of all sides of a case at once.
fn memory_mb(setup: &Setup, case: &Case) -> usize {
    let small = Setup { mbuf_data_bytes: SMALL_MBUF_DATA_BYTES, ..setup.clone() };
    2 * setup.memory_mb(case)
        + millrace::table_mb()
        + SWITCHES.len() * ovs::MEMORY_MB
        + ROUTERS.len() * small.memory_mb(case)
}

/// One repetition of a case.
fn run(
    setup: &Setup,
    peer: &Peer,
    trouble: &mut BTreeSet<String>,
    interrupted: &AtomicBool,
) -> anyhow::Result<BTreeMap<Side, Figures>> {
    let case = &peer.case;
    let mut heat = start(setup, case, trouble)?;
    let mut contenders: Vec<&mut dyn Dut> = vec![&mut heat.floor, &mut heat.millrace];
    contenders.extend(heat.switches.iter_mut().map(|(_, one)| one as &mut dyn Dut));
    contenders.extend(heat.routers.iter_mut().map(|(_, one)| one as &mut dyn Dut));
    heat::take_turns(setup, &mut contenders, interrupted)?;

    let mut figures = BTreeMap::from([(Side::Floor, heat.floor.finish(setup, case)?)]);
    let mut note = |side: Side, of_side: Figures, doubts: Vec<String>| {
        figures.insert(side, of_side);
        let doubt = |doubt| format!("{}, {}, doubtful: {doubt}", peer.name, side.name());
        trouble.extend(doubts.into_iter().map(doubt));
    };
    let millrace = heat.millrace.finish(setup, case)?;
    note(Side::Millrace, millrace.figures, millrace.doubts);
    for (side, switch) in heat.switches {
        let (figures, doubts) = switch.finish(setup, case)?;
        note(side, figures, doubts);
    }
    for (side, router) in heat.routers {
        let (figures, doubts) = router.finish(setup, case)?;
        note(side, figures, doubts);
    }
    Ok(figures)
}

/// Starts all sides that can be. What cannot is trouble, and no reason to do without the others.
fn start(
    setup: &Setup,
    case: &Case,
    trouble: &mut BTreeSet<String>,
) -> anyhow::Result<RunningPeers> {
    let has_switch = ovs::lacks(setup).is_none();
    let has_router = kernel::lacks().is_none();
    let floor = Testpmd::start(setup, case)?;
    let mut routers = Vec::new();
    for (side, work) in ROUTERS.into_iter().filter(|_| has_router) {
        match Router::start(setup, case, work) {
            Ok(router) => routers.push((side, router)),
            Err(error) => _ = trouble.insert(missing(case, side, &error)),
        }
    }
    // Flows are forgotten while others start.
    let mut switches = Vec::new();
    for (side, cache) in SWITCHES.into_iter().filter(|_| has_switch) {
        match Switch::start(setup, case, cache) {
            Ok(switch) => switches.push((side, switch)),
            Err(error) => _ = trouble.insert(missing(case, side, &error)),
        }
    }
    let millrace =
        Millrace::start(setup, &setup.millrace, case, 2 + switches.len() + routers.len())?;
    Ok(RunningPeers { floor, millrace, switches, routers })
}

fn missing(case: &Case, side: Side, error: &anyhow::Error) -> String {
    format!("{}, {}, is missing: {error:#}", case.name, side.name())
}

fn in_a_line(figures: &BTreeMap<Side, Figures>) -> String {
    let side = |(side, figures): (&Side, &Figures)| {
        let on_cpu = 100.0 * figures.on_cpu;
        format!("{} {:.2} Mpps, on cpu {on_cpu:.0} %", side.name(), figures.mpps)
    };
    figures.iter().map(side).collect::<Vec<_>>().join("; ")
}

impl Peer {
    /// A figure that needs several sides, of all repetitions that have it.
    fn spread(&self, figure: impl Fn(&BTreeMap<Side, Figures>) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.repetitions.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    }

    /// What a side did.
    fn row(&self, side: Side) -> Option<Vec<String>> {
        let mpps = self.spread(|of| Some(of.get(&side)?.mpps))?;
        let cycles = self.spread(|of| Some(of.get(&side)?.cycles))?;
        let connections = match self.case.load {
            Load::Reused if side.makes_connections() => {
                format!("{:.0}", mpps.median * 1e3 / f64::from(SHORT_TCP_PACKETS))
            }
            _ => String::new(),
        };
        let name = vec![format!("{}: {}", self.name, side.name())];
        Some([name, mpps.cells(3).into(), cycles.cells(0).into(), vec![connections]].concat())
    }

    /// What is held against others, and what is only told.
    fn ratios(&self) -> Vec<Vec<String>> {
        let mpps = |of: &BTreeMap<Side, Figures>, side| Some(of.get(&side)?.mpps);
        let cycles = |of: &BTreeMap<Side, Figures>, side| Some(of.get(&side)?.cycles);
        let mut rows = Vec::new();
        let mut row = |name: &str, ratio: Option<Spread>, is_held: bool| {
            let Some(ratio) = ratio else { return };
            let held = match is_held {
                true => {
                    let holds = |bar| ratio.median >= bar;
                    let verdict = Verdict::new(holds(self.must), holds(self.goal)).to_string();
                    vec![format!("{} / {}", self.must, self.goal), verdict]
                }
                false => vec![String::new(); 2],
            };
            rows.push(
                [vec![format!("{}: {name}", self.name)], ratio.cells(2).into(), held].concat(),
            );
        };
        let to_switch = |of: &BTreeMap<Side, Figures>| {
            let theirs = SWITCHES.into_iter().filter_map(|(side, _)| mpps(of, side));
            Some(mpps(of, Side::Millrace)? / theirs.max_by(f64::total_cmp)?)
        };
        row("Mpps, over Open vSwitch at its better", self.spread(to_switch), true);
        let to_kernel = |of: &BTreeMap<Side, Figures>| {
            let theirs = cycles(of, Side::KernelTracks)? - cycles(of, Side::KernelDrops)?;
            Some(theirs / cycles(of, Side::Millrace)?)
        };
        row("cycles, of Linux without its sender, over all", self.spread(to_kernel), false);
        let net = |of: &BTreeMap<Side, Figures>| {
            let theirs = cycles(of, Side::KernelTracks)? - cycles(of, Side::KernelRoutes)?;
            Some(theirs / (cycles(of, Side::Millrace)? - cycles(of, Side::Floor)?))
        };
        row("cycles, of tracking in Linux, over net", self.spread(net), false);
        rows
    }
}

/// What the figures hold, and what they do not.
const WORK: &str = "\
What each does with a packet differs. All are as they are after installation, but for what is said.

- testpmd io takes it from one port and gives it to the other. Millrace and Open vSwitch have the
  same ports and packet buffers of 2 kB.
- Millrace: one record for both directions with packets and bytes each way; windows of TCP; no flow
  records, as nobody asks for them here. No rules: everything is forwarded. Its idle timeouts are
  the length of the measurement, and it does not limit who begins a flow.
- Open vSwitch: rules for new, established and invalid packets, so two lookups for each packet;
  windows of TCP; no counters of a connection, but of its rules; zones, labels and a lock. EMC off:
  `emc-insert-inv-prob=0`, the cache of exact matches, which costs more than it gives with many
  flows and few rules. A SYN+ACK in the burst of its SYN is invalid to it, as the connection is made
  when the burst has been looked up; a capture that is replayed without its pauses has a few percent
  of them. It is forwarded like the others.
- Linux: a packet buffer for each packet, a route, two veth cables, rules for new, established and
  invalid packets; windows of TCP; no counters of a connection (`nf_conntrack_acct` is off). The
  sender, a system call for a burst and a copy, is on the same cpu and in every figure: `drops at
  the door` is the sender and the first cable alone.
";

impl Peers {
    /// Whether every repetition of every case is there.
    pub(crate) fn is_whole(&self, reps: u32) -> bool {
        self.cases.iter().all(|peer| peer.repetitions.len() == reps as usize)
    }

    /// The report for people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = "# Millrace and others that track connections\n\n".to_owned();
        for (name, fact) in self.machine.facts() {
            text += &format!("- {name}: {fact}\n");
        }
        let reps = self.cases.iter().map(|peer| peer.repetitions.len()).max().unwrap_or(0);
        let ratios: Vec<_> = self.cases.iter().flat_map(Peer::ratios).collect();
        text += &format!(
            "\n## Ratios within one repetition\n\nOne worker against one core, in turns on the \
             same cpu; {reps} repetitions.\n\n"
        );
        text +=
            &table::render(&["case", "min", "median", "max", "must / goal", "verdict"], &ratios);
        let rows = self.cases.iter().flat_map(|peer| Side::ALL.map(|side| peer.row(side)));
        let rows: Vec<_> = rows.flatten().collect();
        let mpps = ["Mpps min", "median", "max"];
        let cycles = ["cycles min", "median", "max", "k conn/s"];
        let head = [&["case"][..], &mpps, &cycles].concat();
        text += "\n## What each did\n\nPackets per second of time, cycles of processor time per \
                 packet, connections that were made.\n\n";
        text += &table::render(&head, &rows);
        text += &format!("\n## What is in it\n\n{WORK}");
        if !self.trouble.is_empty() {
            text += "\n## Trouble\n\n";
            self.trouble.iter().for_each(|line| text += &format!("- {line}\n"));
        }
        text + &format!("\n## Command\n\n```text\n{}\n```\n", self.command)
    }
}
