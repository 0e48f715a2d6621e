// SPDX-License-Identifier: BSD-3-Clause
//! What is measured, and what it must come to.

use crate::captures::Traffic;
use std::fmt;
use std::ops::Range;
use traffic::flood::Target;
use traffic::scenario::Protocol;

/// One line of the report.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Name in the report and for `--only`.
    pub(crate) name: String,
    /// Cases of one heat run at the same time, in turns: their figures can be compared.
    pub(crate) heat: String,
    pub(crate) traffic: Traffic,
    /// Workers, each with a queue and the whole capture of its own.
    pub(crate) workers: usize,
    /// Which of the cpus for workers is the first one's.
    pub(crate) first_cpu: usize,
    /// Whether each worker has a pair of ports of its own, not a queue of one pair.
    pub(crate) own_ports: bool,
    pub(crate) load: Load,
    pub(crate) from: From,
    pub(crate) bars: Vec<Bar>,
}

/// Where the packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// `net_pcap`, which has them in packet buffers.
    Pcap,
    /// The software NIC, which replays them; whether it marks those of every flow.
    Twin { is_marked: bool },
}

/// What the packets do to the flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Every flow has room and stays: all packets but the first of each find it.
    Stays,
    /// Connections end and their ports are used again at once.
    Reused,
    /// A flow is over before its next packet: every packet makes a flow and one flow ends.
    Renewed,
    /// The table is full with a few of the flows: most packets find nothing and no room.
    Overflows,
}

/// What the figures of a case are held against.
#[derive(Clone, Debug)]
pub(crate) enum Bar {
    /// Cycles per packet above the floor: at most.
    Net { must: f64, goal: f64 },
    /// Cycles per packet over those of the case named: at most.
    TimesSlower { than: String, must: f64 },
    /// Mpps over those of the cases named, in their mean: at least.
    TimesFaster { than: Vec<String>, must: f64, goal: Option<f64> },
    /// Cycles above the floor of the case named, over those of this one: at least.
    TimesLess { than: String, must: f64, goal: f64 },
}

impl Case {
    /// With a heat of its own.
    pub(crate) fn of_one_worker(traffic: Traffic, load: Load, bars: Vec<Bar>) -> Self {
        let name = traffic.name();
        let (heat, from) = (name.clone(), From::Pcap);
        Case { name, heat, traffic, workers: 1, first_cpu: 0, own_ports: false, load, from, bars }
    }

    /// Whether it needs the software NIC.
    pub(crate) fn needs_twin(&self) -> bool {
        self.from != From::Pcap
    }

    /// Which of the cpus for workers it needs.
    pub(crate) fn cpus(&self) -> Range<usize> {
        self.first_cpu..self.first_cpu + self.workers
    }

    /// Pairs of ports.
    pub(crate) fn pairs(&self) -> usize {
        if self.own_ports { self.workers } else { 1 }
    }

    /// Queues of each port.
    pub(crate) fn queues(&self) -> usize {
        self.workers / self.pairs()
    }

    /// True if testpmd would do exactly the same for both: what is in a packet is nothing to it.
    pub(crate) fn same_floor(&self, other: &Self) -> bool {
        let same_capture = match (self.traffic, other.traffic) {
            (Traffic::Flood(_, a), Traffic::Flood(_, b)) => a == b,
            (a, b) => a == b,
        };
        let same_source = self.needs_twin() == other.needs_twin();
        same_capture
            && same_source
            && self.cpus() == other.cpus()
            && self.own_ports == other.own_ports
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::Net { must, goal } => write!(f, "net <= {must} / {goal}"),
            Bar::TimesSlower { than, must } => write!(f, "cycles <= {must:.2} x {than}"),
            Bar::TimesFaster { than, must, goal } => {
                write!(f, "Mpps >= {must:.2}")?;
                goal.map_or(Ok(()), |goal| write!(f, " / {goal:.2}"))?;
                write!(f, " x mean of {}", than.join(", "))
            }
            Bar::TimesLess { than, must, goal } => {
                write!(f, "net >= {must:.2} / {goal:.2} times less than {than}")
            }
        }
    }
}

/// Most workers of a case.
pub(crate) const WORKERS_MAX: usize = 2;
/// Name of the workers with a pair of ports each.
const OWN_PORTS: &str = "2p";
/// Distinct tuples of the short connections.
const SHORT_TUPLES: u32 = 28_000;
/// Flows of a flood: all of them fit into a table of the default size.
const FLOOD_FLOWS: u32 = 1_000_000;
/// Much more than chance, and little enough that nobody attacks for it.
const FLOOD_MUST: f64 = 1.1;

/// Every case; those of one heat stand together.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    // TCP has windows to be judged by.
    for (flows, udp, tcp) in [
        (10_000, [75.0, 50.0], [85.0, 60.0]),
        (100_000, [110.0, 80.0], [120.0, 90.0]),
        (1_000_000, [150.0, 110.0], [160.0, 120.0]),
    ] {
        for (protocol, [must, goal]) in [(Protocol::Udp, udp), (Protocol::Tcp, tcp)] {
            let traffic = Traffic::Established(protocol, flows);
            cases.push(Case::of_one_worker(traffic, Load::Stays, vec![Bar::Net { must, goal }]));
        }
    }
    let traffic = Traffic::ShortTcp(SHORT_TUPLES);
    let bar = Bar::Net { must: 230.0, goal: 160.0 };
    cases.push(Case::of_one_worker(traffic, Load::Reused, vec![bar]));
    cases.extend(marked());
    cases.extend(workers());
    cases.extend(floods());
    cases
}

/// Returns the cases of packets with and without marks: the same packets in both.
fn marked() -> impl Iterator<Item = Case> {
    let bars = [(10_000, [40.0, 25.0], [1.25, 1.4]), (1_000_000, [75.0, 50.0], [1.6, 2.0])];
    bars.into_iter().flat_map(|(flows, [must, goal], [times, times_goal])| {
        let traffic = Traffic::OneWay(flows);
        let name = |way: &str| format!("{way}-{}", traffic.name());
        let case = |way, is_marked, bars| Case {
            name: name(way),
            from: From::Twin { is_marked },
            ..Case::of_one_worker(traffic, Load::Stays, bars)
        };
        let than = name("software");
        let bars = vec![
            Bar::Net { must, goal },
            Bar::TimesLess { than: than.clone(), must: 2.0, goal: 2.5 },
            Bar::TimesFaster { than: vec![than], must: times, goal: Some(times_goal) },
        ];
        [case("software", false, vec![]), case("marked", true, bars)]
    })
}

/// One worker on each cpu and one on all, so that a cpu slower than the others does not look like
/// something shared: with captures and flows that fit into the caches of a core, and with more.
/// On all cpus both with ports of their own and with queues of the same ports, where drivers may
/// share what workers do not.
fn workers() -> impl Iterator<Item = Case> {
    [1_000, 10_000, 100_000].into_iter().flat_map(|flows| {
        let traffic = Traffic::Established(Protocol::Udp, flows);
        let of = |workers, first_cpu, name, bars| Case {
            name: format!("workers-{name}-{}", traffic.name()),
            heat: format!("workers-{flows}"),
            workers,
            first_cpu,
            own_ports: name == OWN_PORTS,
            ..Case::of_one_worker(traffic, Load::Stays, bars)
        };
        let alone = [of(1, 0, "1a", vec![]), of(1, 1, "1b", vec![])];
        let than: Vec<String> = alone.iter().map(|case| case.name.clone()).collect();
        let bar = || Bar::TimesFaster { than: than.clone(), must: 1.9, goal: None };
        let both = [OWN_PORTS, "2q"].map(|name| of(WORKERS_MAX, 0, name, vec![bar()]));
        alone.into_iter().chain(both)
    })
}

/// Every flood in every way; right before them, random tuples in that way.
fn floods() -> impl Iterator<Item = Case> {
    let others = Target::ALL.into_iter().filter(|target| *target != Target::Random);
    let targets: Vec<Target> = std::iter::once(Target::Random).chain(others).collect();
    let ways = [(Load::Stays, "stay"), (Load::Renewed, "new"), (Load::Overflows, "full")];
    ways.into_iter().flat_map(move |(load, way)| {
        let name = move |target: Target| format!("flood-{way}-{}", target.name());
        let case = move |target: Target| {
            let bars = match target {
                Target::Random => vec![],
                _ => vec![Bar::TimesSlower { than: name(Target::Random), must: FLOOD_MUST }],
            };
            let traffic = Traffic::Flood(target, FLOOD_FLOWS);
            let heat = format!("flood-{way}");
            let case = Case::of_one_worker(traffic, load, bars);
            Case { name: name(target), heat, ..case }
        };
        targets.clone().into_iter().map(case)
    })
}
