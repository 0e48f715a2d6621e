// SPDX-License-Identifier: BSD-3-Clause
//! Lists what `millrace demo` measures: the loads that arrive at the two ports, and the modes in
//! which each is run. It holds the article's own figures for them, too.

use crate::demo::readings::Settling;
use config::Policy;
use engine::Tracking;
use serde::{Serialize, Serializer};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use traffic::{PcapWriter, Side, article};

/// Flows of [`Load::ManyFlows`]: far more than the caches hold, and no more than a table holds.
pub(crate) const MANY_FLOWS: u32 = 1_000_000;

/// Rate of the links for loads of IMIX, if the user names none: that of the article.
pub(crate) const USUAL_SPEED: &str = "10G";

/// Rate of a link that carries nothing but probes, whatever the rate of the other one: about 1450
/// of them a second.
pub(crate) const PROBES_ONLY: &str = "1M";

/// The packets that the ports receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Load {
    /// IMIX up; down nothing but probes.
    Stateful,
    /// IMIX both ways.
    Stateless,
    /// One SYN up and one SYN+ACK down, over and over.
    SmallTcp,
    /// Small segments of TCP connections that open.
    TcpConnections,
    /// IMIX as segments of TCP connections that last, and some SYN and SYN+ACK.
    LongTcp,
    /// Small packets of very many UDP flows up; down nothing but probes.
    ManyFlows,
}

/// Returns the word for a depth of tracking, as in the configuration.
pub(crate) fn depth_name(tracking: Tracking) -> &'static str {
    match tracking {
        Tracking::Off => "off",
        Tracking::Flows => "flows",
        Tracking::Connections => "connections",
    }
}

impl Load {
    pub(crate) const ALL: [Load; 6] = [
        Load::Stateful,
        Load::Stateless,
        Load::SmallTcp,
        Load::TcpConnections,
        Load::LongTcp,
        Load::ManyFlows,
    ];

    /// Returns the name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Load::Stateful => "stateful",
            Load::Stateless => "stateless",
            Load::SmallTcp => "small TCP",
            Load::TcpConnections => "TCP connections",
            Load::LongTcp => "long TCP",
            Load::ManyFlows => "many flows",
        }
    }

    /// Returns the depth of tracking that fits the load. The article's program has flows without
    /// states, and only connections that open have states worth tracking.
    pub(crate) fn tracking(self) -> Tracking {
        match self {
            Load::TcpConnections | Load::LongTcp => Tracking::Connections,
            _ => Tracking::Flows,
        }
    }

    /// True if the packets are answered. A NIC forwards only answered connections by itself.
    pub(crate) fn is_answered(self) -> bool {
        !matches!(self, Load::Stateful | Load::ManyFlows)
    }

    /// Returns the number of directions that may have a rule: those of TCP and UDP.
    pub(crate) fn directions(self) -> u32 {
        match self {
            Load::Stateful => article::CONNECTIONS,
            Load::Stateless | Load::TcpConnections | Load::LongTcp => 2 * article::CONNECTIONS,
            Load::SmallTcp => 2,
            Load::ManyFlows => MANY_FLOWS,
        }
    }

    /// Returns which directions get a rule, if the load makes sense with this policy only.
    pub(crate) fn policy(self) -> Option<Policy> {
        // A flow has so few packets a second that another policy would wait too long.
        (self == Load::ManyFlows).then_some(Policy::All)
    }

    /// Returns the rates of both links; `asked` is that of the user. On the article's machine,
    /// small packets came faster than the worker took them. Most machines of today take a link of
    /// 10 Gb/s full of them, so they come without a limit.
    pub(crate) fn speeds(self, asked: Option<&str>) -> [&str; 2] {
        let usual = match self {
            Load::Stateful | Load::Stateless | Load::LongTcp => USUAL_SPEED,
            Load::SmallTcp | Load::TcpConnections | Load::ManyFlows => "none",
        };
        let speed = asked.unwrap_or(usual);
        [speed, if self.is_answered() { speed } else { PROBES_ONLY }]
    }

    /// Writes two captures: the packets that arrive at each port.
    pub(crate) fn write(self, seed: u64, paths: &[PathBuf; 2]) -> io::Result<()> {
        write_captures(paths, |sink| self.frames(seed, sink))
    }

    fn frames(self, seed: u64, sink: &mut dyn FnMut(Side, &[u8])) {
        match self {
            Load::Stateful => article::imix_up(seed, sink),
            Load::Stateless => article::imix(seed, sink),
            Load::SmallTcp => article::small_tcp(seed, sink),
            Load::TcpConnections => article::tcp_connections(seed, sink),
            Load::LongTcp => article::long_tcp(seed, sink),
            Load::ManyFlows => article::many_flows(seed, MANY_FLOWS, sink),
        }
    }

    /// Returns what the article measured with an X710 and one core of 2.6 GHz.
    pub(crate) fn article(self) -> &'static [Published] {
        match self {
            Load::Stateful => &STATEFUL,
            Load::Stateless => &STATELESS,
            Load::SmallTcp => &SMALL_TCP,
            Load::TcpConnections | Load::LongTcp | Load::ManyFlows => &[],
        }
    }
}

/// Writes two captures: the frames that `make` passes on, by the port at which they arrive.
pub(crate) fn write_captures(
    paths: &[PathBuf; 2],
    make: impl FnOnce(&mut dyn FnMut(Side, &[u8])),
) -> io::Result<()> {
    let create = |path: &PathBuf| PcapWriter::new(BufWriter::new(File::create(path)?));
    let mut captures = [create(&paths[0])?, create(&paths[1])?];
    let mut result = Ok(());
    make(&mut |side, frame| {
        // The software NIC replays without the captures' times.
        let written = captures[side as usize].write(0, frame);
        result = std::mem::replace(&mut result, Ok(())).and(written);
    });
    result?;
    captures.into_iter().try_for_each(|capture| capture.finish().map(|_| ()))
}

const STATEFUL: [Published; 2] = [
    Published { mode: Mode::Off, mbps: [None; 2], cpu_percent: Some(75.0) },
    Published { mode: Mode::Marks, mbps: [None; 2], cpu_percent: Some(57.0) },
];
const STATELESS: [Published; 2] = [
    Published { mode: Mode::Off, mbps: [Some(8707.0), Some(8415.0)], cpu_percent: Some(100.0) },
    Published { mode: Mode::Marks, mbps: [Some(10000.0), Some(9884.0)], cpu_percent: Some(96.0) },
];
const SMALL_TCP: [Published; 2] = [
    Published { mode: Mode::Off, mbps: [Some(3390.2), Some(3390.6)], cpu_percent: None },
    Published { mode: Mode::Marks, mbps: [Some(5491.7), Some(5512.5)], cpu_percent: None },
];

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What the article says of a load in one mode; `None` is what it does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) mode: Mode,
    /// Up and down.
    pub(crate) mbps: [Option<f64>; 2],
    pub(crate) cpu_percent: Option<f64>,
}

/// How much of the work the NIC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Nothing: the worker tracks every packet.
    Off,
    /// It marks the packets of connections that have rules.
    Marks,
    /// It forwards the packets of connections that have rules, as far as it can.
    Bypass,
    /// It forwards what it can; the worker finds out itself whether marks are worth it.
    Automatic,
}

impl Mode {
    pub(crate) const ALL: [Mode; 4] = [Mode::Off, Mode::Marks, Mode::Bypass, Mode::Automatic];

    /// Returns the name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Marks => "marks",
            Mode::Bypass => "bypass",
            Mode::Automatic => "automatic",
        }
    }

    /// Returns what has to settle before a run is measured.
    pub(crate) fn settling(self) -> Settling {
        match self {
            Mode::Off => Settling::Nothing,
            Mode::Marks | Mode::Bypass => Settling::Rules,
            Mode::Automatic => Settling::Choice,
        }
    }

    /// True if the NIC has rules.
    pub(crate) fn has_rules(self) -> bool {
        self != Mode::Off
    }
}
