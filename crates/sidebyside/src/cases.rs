// SPDX-License-Identifier: BSD-3-Clause
//! Lists the cases that compare Millrace with testpmd, and the thresholds of their figures.

use crate::captures::Traffic;
use crate::choice;
use crate::lists::{self, RuleList};
use engine::Tracking;
use std::fmt;
use std::ops::Range;
use traffic::flood::Target;
use traffic::scenario::Protocol;

/// One line of the report: traffic, the programs' set-up, and thresholds.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Name in the report and for `--only`.
    pub(crate) name: String,
    /// Name of the group. Cases of one group run at the same time, in turns, so their figures can
    /// be compared.
    pub(crate) group: String,
    pub(crate) traffic: Traffic,
    /// Number of workers. Each has a queue of its own, which replays the whole capture.
    pub(crate) workers: usize,
    /// Index in `Setup::worker_cpus` of the first worker's cpu.
    pub(crate) first_cpu: usize,
    /// True if each worker has a pair of ports of its own, false if all share one pair.
    pub(crate) own_ports: bool,
    pub(crate) load: Load,
    pub(crate) source: PacketSource,
    pub(crate) tracking: Tracking,
    /// Access list of port A.
    pub(crate) lists: Option<RuleList>,
    pub(crate) thresholds: Vec<Threshold>,
}

/// Port driver that supplies the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketSource {
    /// `net_pcap`, which loads the capture into packet buffers at start.
    Pcap,
    /// The software NIC, which replays the capture. It plays this NIC; `None`: an ideal one.
    Twin { rules: NicRules, personality: Option<&'static str> },
}

/// Rules that the NIC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NicRules {
    None,
    /// A rule for each flow marks its packets, and every mark is used.
    Marks,
    /// The default settings of offload: the worker measures whether rules and marks pay.
    Automatic,
}

/// Effect of the packets on the flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// All flows fit into the table and stay. All packets but the first of each flow find it.
    Stable,
    /// Connections end, and new ones reuse their ports at once.
    PortReuse,
    /// Each flow expires before its next packet, so every packet begins a flow.
    NewFlows,
    /// The table has room for a few of the flows only. Most packets find neither flow nor room.
    TableFull,
}

/// A threshold for a figure of a case: `must` is required, `goal` is desired.
#[derive(Clone, Debug)]
pub(crate) enum Threshold {
    /// Upper limits of the net cycles per packet: those beyond the floor.
    NetAtMost { must: f64, goal: f64 },
    /// Upper limit of the cycles per packet, divided by those of the case `than`.
    CyclesAtMost { than: String, must: f64 },
    /// Lower limits of the Mpps, divided by the mean of the cases `than`.
    MppsAtLeast { than: Vec<String>, must: f64, goal: Option<f64> },
    /// Lower limits of the net cycles of the case `than`, divided by those of this case.
    NetRatioAtLeast { than: String, must: f64, goal: f64 },
}

impl PacketSource {
    /// Returns an ideal NIC, with a rule for each flow that marks its packets or without rules.
    fn ideal_twin(is_marked: bool) -> Self {
        let rules = if is_marked { NicRules::Marks } else { NicRules::None };
        PacketSource::Twin { rules, personality: None }
    }
}

impl Case {
    /// Returns a case with one worker, packets from `net_pcap`, and a group of its own.
    pub(crate) fn with_one_worker(
        traffic: Traffic,
        load: Load,
        thresholds: Vec<Threshold>,
    ) -> Self {
        let name = traffic.name();
        let (group, source) = (name.clone(), PacketSource::Pcap);
        Case {
            name,
            group,
            traffic,
            workers: 1,
            first_cpu: 0,
            own_ports: false,
            load,
            source,
            tracking: Tracking::Connections,
            lists: None,
            thresholds,
        }
    }

    /// Returns the rules of the software NIC, if the case has one.
    pub(crate) fn rules(&self) -> NicRules {
        match self.source {
            PacketSource::Twin { rules, .. } => rules,
            PacketSource::Pcap => NicRules::None,
        }
    }

    /// True if the software NIC marks the packets of every connection.
    pub(crate) fn has_marks(&self) -> bool {
        self.rules() == NicRules::Marks
    }

    /// True if the case needs the software NIC.
    pub(crate) fn needs_twin(&self) -> bool {
        self.source != PacketSource::Pcap
    }

    /// Returns the indexes in `Setup::worker_cpus` of the cpus that the case needs.
    pub(crate) fn cpus(&self) -> Range<usize> {
        self.first_cpu..self.first_cpu + self.workers
    }

    /// Returns the number of port pairs.
    pub(crate) fn pairs(&self) -> usize {
        if self.own_ports { self.workers } else { 1 }
    }

    /// Returns the number of queues of each port.
    pub(crate) fn queues(&self) -> usize {
        self.workers / self.pairs()
    }

    /// True if testpmd does exactly the same work for both cases. testpmd does not read packets, so
    /// floods of the same size count as equal.
    pub(crate) fn has_same_floor(&self, other: &Self) -> bool {
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

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threshold::NetAtMost { must, goal } => write!(f, "net <= {must} / {goal}"),
            Threshold::CyclesAtMost { than, must } => write!(f, "cycles <= {must:.2} x {than}"),
            Threshold::MppsAtLeast { than, must, goal } => {
                write!(f, "Mpps >= {must:.2}")?;
                goal.map_or(Ok(()), |goal| write!(f, " / {goal:.2}"))?;
                write!(f, " x mean of {}", than.join(", "))
            }
            Threshold::NetRatioAtLeast { than, must, goal } => {
                write!(f, "net of {than} >= {must:.2} / {goal:.2} x net")
            }
        }
    }
}

/// Largest number of workers of a case.
pub(crate) const WORKERS_MAX: usize = 2;
/// Part of a case name: two workers, each with a pair of ports of its own.
const OWN_PORTS: &str = "2p";
/// Distinct five-tuples of the short connections.
pub(crate) const SHORT_TUPLES: u32 = 28_000;
/// Flows of a flood: all of them fit into a table of the default size.
const FLOOD_FLOWS: u32 = 1_000_000;
/// Largest accepted ratio of cycles of a flood to those of random tuples. 10 % is more than the
/// noise of a measurement, and too little to be worth an attack.
const FLOOD_MUST: f64 = 1.1;

/// Returns all cases. Cases of one group are adjacent.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    // TCP costs more than UDP because of the window check.
    for (flows, udp, tcp) in [
        (10_000, [75.0, 50.0], [85.0, 60.0]),
        (100_000, [110.0, 80.0], [120.0, 90.0]),
        (1_000_000, [150.0, 110.0], [160.0, 120.0]),
    ] {
        for (protocol, [must, goal]) in [(Protocol::Udp, udp), (Protocol::Tcp, tcp)] {
            let traffic = Traffic::Established(protocol, flows);
            cases.push(Case::with_one_worker(
                traffic,
                Load::Stable,
                vec![Threshold::NetAtMost { must, goal }],
            ));
        }
    }
    let traffic = Traffic::ShortTcp(SHORT_TUPLES);
    let threshold = Threshold::NetAtMost { must: 230.0, goal: 160.0 };
    cases.push(Case::with_one_worker(traffic, Load::PortReuse, vec![threshold]));
    cases.extend(flows());
    cases.extend(marked());
    cases.extend(marked_tcp());
    cases.extend(small_tcp());
    cases.extend(choice::cases());
    cases.extend(lists::cases());
    cases.extend(workers());
    cases.extend(floods());
    let groups: Vec<String> = cases.iter().map(|case| case.group.clone()).collect();
    cases.sort_by_key(|case| groups.iter().position(|group| *group == case.group));
    cases
}

/// Returns the cases of packets with and without marks. Both replay the same packets.
fn marked() -> impl Iterator<Item = Case> {
    let thresholds = [(10_000, [40.0, 25.0], [1.25, 1.4]), (1_000_000, [75.0, 50.0], [1.6, 2.0])];
    thresholds.into_iter().flat_map(|(flows, [must, goal], [times, times_goal])| {
        let traffic = Traffic::OneWay(flows);
        let name = |way: &str| format!("{way}-{}", traffic.name());
        let case = |way, is_marked, thresholds| Case {
            name: name(way),
            source: PacketSource::ideal_twin(is_marked),
            ..Case::with_one_worker(traffic, Load::Stable, thresholds)
        };
        let than = name("software");
        let thresholds = vec![
            Threshold::NetAtMost { must, goal },
            Threshold::NetRatioAtLeast { than: than.clone(), must: 2.0, goal: 2.5 },
            Threshold::MppsAtLeast { than: vec![than], must: times, goal: Some(times_goal) },
        ];
        [case("software", false, vec![]), case("marked", true, thresholds)]
    })
}

/// Returns the cases of TCP segments with and without marks, whose windows are checked. Both replay
/// the same packets of both directions.
fn marked_tcp() -> impl Iterator<Item = Case> {
    [10_000, 1_000_000].into_iter().flat_map(|flows| {
        let traffic = Traffic::Established(Protocol::Tcp, flows);
        let case = |way: &str, is_marked, thresholds| Case {
            name: format!("{way}-{}", traffic.name()),
            group: format!("twin-{}", traffic.name()),
            source: PacketSource::ideal_twin(is_marked),
            ..Case::with_one_worker(traffic, Load::Stable, thresholds)
        };
        let software = case("software", false, vec![]);
        let than = software.name.clone();
        let thresholds = match flows {
            10_000 => vec![
                Threshold::NetAtMost { must: 35.0, goal: 25.0 },
                Threshold::MppsAtLeast { than: vec![than], must: 1.15, goal: Some(1.4) },
            ],
            _ => vec![Threshold::NetRatioAtLeast { than, must: 2.0, goal: 2.5 }],
        };
        [software, case("marked", true, thresholds)]
    })
}

/// Returns the small TCP of the FlowTable article, with its depth of tracking, without and with
/// marks. The article has 1.62 times the packets with marks.
fn small_tcp() -> [Case; 2] {
    let traffic = Traffic::SynSynAck;
    let name = |way: &str| format!("{way}-{}", traffic.name());
    let case = |way, is_marked, thresholds| Case {
        name: name(way),
        source: PacketSource::ideal_twin(is_marked),
        tracking: Tracking::Flows,
        ..Case::with_one_worker(traffic, Load::Stable, thresholds)
    };
    let times = Threshold::MppsAtLeast { than: vec![name("software")], must: 1.4, goal: None };
    [case("software", false, vec![]), case("marked", true, vec![times])]
}

/// Returns the cases without states of connections: `tracking = "flows"` and `"off"`. Those of one
/// way run in turns with the cases of [`marked`].
fn flows() -> impl Iterator<Item = Case> {
    let net = |must, goal| vec![Threshold::NetAtMost { must, goal }];
    let case = |name: &str, tracking, traffic: Traffic, thresholds| Case {
        name: format!("{name}-{}", traffic.name()),
        tracking,
        ..Case::with_one_worker(traffic, Load::Stable, thresholds)
    };
    let both_ways = [Protocol::Udp, Protocol::Tcp].into_iter().flat_map(move |protocol| {
        let traffic = Traffic::Established(protocol, 10_000);
        let flows = case("flows", Tracking::Flows, traffic, net(30.0, 24.0));
        [flows, case("off", Tracking::Off, traffic, vec![])]
    });
    let one_way = Traffic::OneWay(10_000);
    let twin = move |name: &str, is_marked, thresholds| Case {
        source: PacketSource::ideal_twin(is_marked),
        ..case(name, Tracking::Flows, one_way, thresholds)
    };
    let of_twin = [
        twin("flows-software", false, net(30.0, 24.0)),
        twin("flows-marked", true, net(15.0, 10.0)),
    ];
    both_ways.chain(of_twin)
}

/// Returns the cases that compare two workers with one.
///
/// One worker runs on each cpu alone, so that a slower cpu does not look like contention between
/// workers. Two workers run with ports of their own, and with queues of the same ports, where
/// drivers may share data. With 1 k flows, capture and flows fit into the caches of a core.
fn workers() -> impl Iterator<Item = Case> {
    let of_udp = [1_000, 10_000, 100_000].map(|flows| Traffic::Established(Protocol::Udp, flows));
    let flows = of_udp.into_iter().chain([Traffic::Established(Protocol::Tcp, 100_000)]);
    // New connections: with queues of the same ports, both workers would have the same ones.
    let short = workers_with(Traffic::ShortTcp(SHORT_TUPLES), Load::PortReuse, &[OWN_PORTS]);
    flows.flat_map(|traffic| workers_with(traffic, Load::Stable, &[OWN_PORTS, "2q"])).chain(short)
}

/// Returns the cases of one worker on each cpu, and of two workers in these ways.
fn workers_with(traffic: Traffic, load: Load, ways: &[&str]) -> Vec<Case> {
    let of = |workers, first_cpu, name: &str, thresholds| Case {
        name: format!("workers-{name}-{}", traffic.name()),
        group: format!("workers-{}", traffic.name()),
        workers,
        first_cpu,
        own_ports: name == OWN_PORTS,
        ..Case::with_one_worker(traffic, load, thresholds)
    };
    let mut cases = vec![of(1, 0, "1a", vec![]), of(1, 1, "1b", vec![])];
    let than: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let (must, goal) = match load {
        Load::PortReuse => (1.8, Some(1.95)),
        _ => (1.9, None),
    };
    let both = ways.iter().map(|name| {
        of(WORKERS_MAX, 0, name, vec![Threshold::MppsAtLeast { than: than.clone(), must, goal }])
    });
    cases.extend(both);
    cases
}

/// Returns every flood for each effect on the table. For each effect, random tuples come first, for
/// comparison.
fn floods() -> impl Iterator<Item = Case> {
    let others = Target::ALL.into_iter().filter(|target| *target != Target::Random);
    let targets: Vec<Target> = std::iter::once(Target::Random).chain(others).collect();
    let ways = [(Load::Stable, "stay"), (Load::NewFlows, "new"), (Load::TableFull, "full")];
    ways.into_iter().flat_map(move |(load, way)| {
        let name = move |target: Target| format!("flood-{way}-{}", target.name());
        let case = move |target: Target| {
            let thresholds = match target {
                Target::Random => vec![],
                _ => vec![Threshold::CyclesAtMost { than: name(Target::Random), must: FLOOD_MUST }],
            };
            let traffic = Traffic::Flood(target, FLOOD_FLOWS);
            let group = format!("flood-{way}");
            let case = Case::with_one_worker(traffic, load, thresholds);
            Case { name: name(target), group, ..case }
        };
        targets.clone().into_iter().map(case)
    })
}
