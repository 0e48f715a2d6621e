// SPDX-License-Identifier: BSD-3-Clause
//! Tallies of flows by both ends, and those that `millrace replay` gave.
//!
//! A flow record tells one life of a flow; its timeouts and the reuse of ports split what has the
//! same ends. tshark knows neither, so that records of the same ends are added up.

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::AddAssign;

/// Address and port, which is 0 where there is none.
pub(crate) type End = (IpAddr, u16);

/// What tells a flow from another, the same for both directions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuple {
    pub(crate) proto: u8,
    /// VLAN identifier of the outermost tag, 0 without one.
    pub(crate) zone: u16,
    /// In order.
    ends: [End; 2],
    /// Identifier, and type * 256 + code with a reply's type folded onto its request's.
    icmp: Option<(u16, u16)>,
}

/// ICMP of the IP version it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Icmp {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) identifier: u16,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    /// Of frames without FCS.
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
}

/// Tallies by flow and the end that sent.
pub(crate) type Tallies = BTreeMap<(Tuple, End), Tally>;

/// What `millrace replay` made of one capture.
pub(crate) struct Replayed {
    pub(crate) packets: u64,
    pub(crate) flows: Tallies,
    /// Packets that no flow counted, by reason.
    pub(crate) passed: BTreeMap<String, u64>,
}

impl Tuple {
    pub(crate) fn new(proto: u8, zone: u16, from: End, to: End) -> Self {
        Self { proto, zone, ends: [from.min(to), from.max(to)], icmp: None }
    }

    pub(crate) fn with_icmp(self, icmp: Icmp) -> Self {
        let request = request_of(self.proto, icmp.kind);
        let identifier = if request.is_some() { icmp.identifier } else { 0 };
        let kind = u16::from_be_bytes([request.unwrap_or(icmp.kind), icmp.code]);
        Self { icmp: Some((identifier, kind)), ..self }
    }

    /// With a GRE key or an SPI.
    pub(crate) fn with_number(self, number: u32) -> Self {
        Self { icmp: Some(((number >> 16) as u16, number as u16)), ..self }
    }

    pub(crate) fn ends(&self) -> [End; 2] {
        self.ends
    }
}

/// The type of the request that a message with an identifier is or answers (RFC 792, RFC 950,
/// RFC 4443).
pub(crate) fn request_of(proto: u8, kind: u8) -> Option<u8> {
    let requests: &[[u8; 2]] =
        if proto == 1 { &[[8, 0], [13, 14], [15, 16], [17, 18]] } else { &[[128, 129]] };
    requests.iter().find(|pair| pair.contains(&kind)).map(|pair| pair[0])
}

/// Whether this protocol is the ICMP of the address's IP version.
pub(crate) fn is_icmp(proto: u8, address: IpAddr) -> bool {
    proto == if address.is_ipv4() { 1 } else { 58 }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.ip_bytes += other.ip_bytes;
    }
}

impl Replayed {
    /// From the JSON of `--json` and the JSON Lines of `--flows`.
    pub(crate) fn read(summary: &str, records: &str) -> Self {
        let summary: Value = serde_json::from_str(summary).expect("the summary is JSON");
        assert_eq!(summary["ledger"]["balanced"], true);
        let passed = summary["passed"].as_object().unwrap().iter();
        let passed = passed.map(|(reason, n)| (reason.clone(), n.as_u64().unwrap()));
        let mut flows = Tallies::new();
        for line in records.lines() {
            let record: Value = serde_json::from_str(line).expect("a record is JSON");
            add_record(&mut flows, &record);
        }
        Self {
            packets: summary["ledger"]["rx"].as_u64().unwrap(),
            flows,
            passed: passed.filter(|(_, n)| *n > 0).collect(),
        }
    }
}

fn add_record(flows: &mut Tallies, record: &Value) {
    let number = |name: &str| record[name].as_u64().unwrap() as u16;
    let address = |name: &str| -> IpAddr { record[name].as_str().unwrap().parse().unwrap() };
    let (src, dst, proto) = (address("src"), address("dst"), number("proto") as u8);
    let (sport, dport) = (number("sport"), number("dport"));
    let icmp = is_icmp(proto, src);
    let is_numbered = matches!(proto, 47 | 50);
    let (from, to) =
        if icmp || is_numbered { ((src, 0), (dst, 0)) } else { ((src, sport), (dst, dport)) };
    let mut tuple = Tuple::new(proto, number("zone"), from, to);
    if icmp {
        let [kind, code] = dport.to_be_bytes();
        tuple = tuple.with_icmp(Icmp { kind, code, identifier: sport });
    }
    if is_numbered {
        tuple = tuple.with_number(u32::from(sport) << 16 | u32::from(dport));
    }
    for (direction, sender) in [("orig", from), ("reply", to)] {
        let number = |name: &str| record[direction][name].as_u64().unwrap();
        let tally = Tally {
            packets: number("packets"),
            bytes: number("bytes"),
            ip_bytes: number("ip_bytes"),
        };
        if tally.packets > 0 {
            *flows.entry((tuple.clone(), sender)).or_default() += tally;
        }
    }
}
