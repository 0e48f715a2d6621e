// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the few flow records with the most bytes, in bounded memory, and prints them. A connection
//! with several records (after idle time, or port reuse) may be listed several times.

use crate::top_n::TopN;
use engine::FlowRecord;
use results::{table, units};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use wire::proto::{SCTP, TCP, UDP};
use wire::proto_names;

/// The busiest of all flow records offered so far.
pub struct TopFlows(TopN<FlowRecord>);

impl TopFlows {
    /// Creates a list of the `size` busiest.
    pub fn new(size: usize) -> Self {
        Self(TopN::new(size))
    }

    /// True if it keeps any.
    pub(crate) fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// Keeps `record` if it is one of the busiest. Of equals, it keeps the first offered.
    pub(crate) fn offer(&mut self, record: &FlowRecord) {
        self.0.offer(record.orig.bytes + record.reply.bytes, || record.clone());
    }

    /// Prints the records, busiest first; prints nothing if there are none.
    pub fn print(self, out: &mut impl Write) -> io::Result<()> {
        let offered = self.0.offered();
        let rows: Vec<Row> = self.0.into_sorted().map(|record| row(&record)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "busiest flows ({} of {offered}, by bytes)", rows.len())?;
        table::print(out, HEADINGS, &NUMBERS, &rows)
    }
}

const HEADINGS: [&str; 10] = [
    "proto",
    "originator",
    "responder",
    "orig packets",
    "reply packets",
    "orig bytes",
    "reply bytes",
    "duration",
    "state",
    "end",
];

/// Columns with numbers, which are right-aligned.
const NUMBERS: std::ops::Range<usize> = 3..8;

type Row = [String; HEADINGS.len()];

fn row(record: &FlowRecord) -> Row {
    [
        proto_names::name(record.proto),
        endpoint(record.src, record.sport, record.proto),
        endpoint(record.dst, record.dport, record.proto),
        units::thousands(record.orig.packets),
        units::thousands(record.reply.packets),
        units::bytes(record.orig.bytes),
        units::bytes(record.reply.bytes),
        units::duration(record.end.saturating_sub(record.start)),
        record.proto_state.name().to_owned(),
        record.end_reason.name().to_owned(),
    ]
}

/// Formats address and port as `[2001:db8::1]:443`; for protocols without ports, the address.
pub fn endpoint(address: IpAddr, port: u16, proto: u8) -> String {
    match proto {
        TCP | UDP | SCTP => SocketAddr::new(address, port).to_string(),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{CtMark, DirectionCounters, EndReason, FlowState, ProtoState, VlanTags};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn record(sport: u16, bytes: u64) -> FlowRecord {
        let orig = DirectionCounters { packets: 1, bytes, ip_bytes: bytes, tcp_flags: 0 };
        FlowRecord {
            src: Ipv4Addr::new(10, 0, 0, 1).into(),
            dst: Ipv4Addr::new(10, 0, 0, 2).into(),
            proto: UDP,
            sport,
            dport: 53,
            zone: 0,
            vlan: VlanTags::NONE,
            start: 0,
            end: 1_500_000,
            orig,
            reply: DirectionCounters { bytes: 1, ..DirectionCounters::default() },
            state: FlowState::Open,
            proto_state: ProtoState::UdpMultiple,
            is_assured: true,
            end_reason: EndReason::Idle,
            ct_mark: CtMark::default(),
        }
    }

    fn printed(top: TopFlows) -> Vec<String> {
        let mut out = Vec::new();
        top.print(&mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn keeps_the_busiest_and_of_equals_the_first() {
        let mut top = TopFlows::new(3);
        for (sport, bytes) in [(1, 10), (2, 30), (3, 20), (4, 30), (5, 5), (6, 20), (7, 20)] {
            top.offer(&record(sport, bytes));
            assert!(top.0.len() <= 3);
        }
        let lines = printed(top);
        assert_eq!(lines[0], "busiest flows (3 of 7, by bytes)");
        let sources: Vec<&str> =
            lines[2..].iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        assert_eq!(sources, ["10.0.0.1:2", "10.0.0.1:4", "10.0.0.1:3"]);
    }

    #[test]
    fn keeps_none_where_none_is_wanted_and_prints_nothing() {
        let mut top = TopFlows::new(0);
        top.offer(&record(1, 10));
        assert!(printed(top).is_empty());
        assert!(printed(TopFlows::new(10)).is_empty());
    }

    #[test]
    fn columns_are_aligned_with_the_longest_ipv6_address() {
        let mut top = TopFlows::new(2);
        top.offer(&record(1, 10));
        let address = Ipv6Addr::from([0xfd00_u16 | 0xff; 8]);
        top.offer(&FlowRecord { src: address.into(), dst: address.into(), ..record(65_535, 20) });
        let lines = printed(top);
        let destination = lines[1].find("responder").unwrap();
        assert!(lines[2][destination..].starts_with("[fdff:"));
        assert!(lines[3][destination..].starts_with("10.0.0.2:53"));
        let duration = |line: &str| line.find("1.50 ms").unwrap();
        assert_eq!(duration(&lines[2]), duration(&lines[3]));
    }
}
