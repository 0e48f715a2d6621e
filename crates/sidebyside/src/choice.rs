// SPDX-License-Identifier: BSD-3-Clause
//! Lists the cases that compare the automatic choice of offload with software, on each NIC that the
//! software NIC plays.

use crate::captures::Traffic;
use crate::cases::{Case, Load, NicRules, PacketSource, SHORT_TUPLES, Threshold};
use engine::Tracking;
use traffic::scenario::Protocol;

/// NICs that the software NIC plays.
const PERSONALITIES: [&str; 4] = ["x710-17.02", "x710", "ntacc", "cx6dx"];

const FLOWS: [u32; 3] = [10_000, 100_000, 1_000_000];

/// Returns the cases: each load without offload, and with marks where the worker finds that they
/// pay. Both replay the same packets, and may not differ but for the better.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    PERSONALITIES.into_iter().flat_map(|personality| {
        loads().flat_map(move |(name, traffic, load, tracking)| {
            let name = |way: &str| format!("{way}-{personality}-{name}");
            let case = |way: &str, rules, thresholds| Case {
                name: name(way),
                group: name("choice"),
                source: PacketSource::Twin { rules, personality: Some(personality) },
                tracking,
                ..Case::with_one_worker(traffic, load, thresholds)
            };
            let than = vec![name("choice-none")];
            let threshold = Threshold::MppsAtLeast { than, must: 0.99, goal: Some(1.0) };
            [
                case("choice-none", NicRules::None, vec![]),
                case("choice-auto", NicRules::Automatic, vec![threshold]),
            ]
        })
    })
}

/// Returns the loads, each with its name, its effect on the table and the depth of tracking.
fn loads() -> impl Iterator<Item = (String, Traffic, Load, Tracking)> {
    let of_size = |flows| {
        let connections = [
            Traffic::Established(Protocol::Udp, flows),
            Traffic::Established(Protocol::Tcp, flows),
            Traffic::OneWay(flows),
        ];
        let connections = connections.map(|traffic| (traffic.name(), traffic));
        let flows = ("flows-".to_owned() + &Traffic::OneWay(flows).name(), Traffic::OneWay(flows));
        let depth = |name: &str| match name.starts_with("flows") {
            true => Tracking::Flows,
            false => Tracking::Connections,
        };
        let all = connections.into_iter().chain([flows]);
        all.map(move |(name, traffic)| {
            let depth = depth(&name);
            (name, traffic, Load::Stable, depth)
        })
    };
    let short = Traffic::ShortTcp(SHORT_TUPLES);
    let others = [
        (short.name(), short, Load::PortReuse, Tracking::Connections),
        (Traffic::SynSynAck.name(), Traffic::SynSynAck, Load::Stable, Tracking::Flows),
    ];
    FLOWS.into_iter().flat_map(of_size).chain(others)
}
