// SPDX-License-Identifier: BSD-3-Clause
//! Reads flow records of both formats, and adds them up per conversation.

use serde_json::Value;
use std::collections::BTreeMap;

/// A flow record: values by the column names of CSV.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record(BTreeMap<String, String>);

/// Counters of one direction of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
}

/// Conversations by protocol, addresses, ports and tags, with the counters of side A and side B.
/// For ICMP, the key has the identifier only: type and code are those of the first packet.
pub(crate) type Conversations = BTreeMap<String, [Tally; 2]>;

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.ip_bytes += other.ip_bytes;
    }
}

impl Record {
    pub(crate) fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no {column} in {self:?}"))
    }

    pub(crate) fn number(&self, column: &str) -> u64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} of {self:?} is no number"))
    }

    /// Returns the counters of the originator and of the responder.
    pub(crate) fn tallies(&self) -> [Tally; 2] {
        ["orig", "reply"].map(|side| Tally {
            packets: self.number(&format!("{side}_packets")),
            bytes: self.number(&format!("{side}_bytes")),
            ip_bytes: self.number(&format!("{side}_ip_bytes")),
        })
    }

    /// Removes the times, in which two equal runs differ.
    pub(crate) fn forget_times(&mut self) {
        self.0.retain(|column, _| !column.ends_with("_ns") && !column.ends_with("_us"));
    }

    /// Removes what only records in JSON have. The protocol state is finer than `state`.
    pub(crate) fn forget_details(&mut self) {
        for column in ["ct_state", "assured"] {
            self.0.remove(column);
        }
    }

    /// Returns the packets of both directions.
    pub(crate) fn packets(&self) -> u64 {
        self.tallies().iter().map(|tally| tally.packets).sum()
    }

    /// Returns the counters of side A and side B. `is_a` is true for addresses of side A.
    pub(crate) fn by_side(&self, is_a: impl Fn(&str) -> bool) -> [Tally; 2] {
        let [orig, reply] = self.tallies();
        if is_a(self.text("src")) { [orig, reply] } else { [reply, orig] }
    }
}

/// Adds records up per conversation.
pub(crate) fn conversations(records: &[Record], is_a: impl Fn(&str) -> bool) -> Conversations {
    let mut conversations = Conversations::new();
    for record in records {
        let [src, dst] = [("src", "sport"), ("dst", "dport")].map(|(address, port)| {
            let port = if record.text("proto") == "1" { "sport" } else { port };
            format!("{} {}", record.text(address), record.text(port))
        });
        let (a, b) = if is_a(&src) { (src, dst) } else { (dst, src) };
        let key = format!("{} {a} {b} [{}]", record.text("proto"), record.text("vlan"));
        let sums = conversations.entry(key).or_default();
        for (sum, tally) in sums.iter_mut().zip(record.by_side(&is_a)) {
            sum.add(tally);
        }
    }
    conversations
}

pub(crate) fn read_records(path: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    if path.ends_with(".csv") {
        let columns: Vec<&str> = lines.next().expect("a row of headings").split(',').collect();
        return lines.map(|line| from_csv(&columns, line)).collect();
    }
    lines.map(from_json).collect()
}

fn from_csv(columns: &[&str], line: &str) -> Record {
    let values: Vec<&str> = line.split(',').collect();
    assert_eq!(values.len(), columns.len(), "{line}");
    let named = columns.iter().zip(values);
    Record(named.map(|(name, value)| (name.to_string(), value.to_owned())).collect())
}

fn from_json(line: &str) -> Record {
    let value: Value = serde_json::from_str(line).expect("a line is a JSON object");
    let mut columns = BTreeMap::new();
    for (name, value) in value.as_object().expect("a line is a JSON object") {
        match value {
            Value::Object(members) => {
                for (member, value) in members {
                    columns.insert(format!("{name}_{member}"), plain(value));
                }
            }
            value => {
                columns.insert(name.clone(), plain(value));
            }
        }
    }
    Record(columns)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("/"),
        other => other.to_string(),
    }
}
