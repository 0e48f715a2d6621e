// SPDX-License-Identifier: BSD-3-Clause
//! Writes flow records as JSON Lines or CSV. Other tools rely on the members, their names and their
//! order (docs/flow-records.md): later versions add at the end of a group, and rename none.

mod existing;
mod file;
mod sink;
mod writer;

pub use file::{Existing, OpenError};
pub use sink::{RecordSink, WrittenRecords};
pub use writer::Writer;

use crate::output::names_stdout;
use engine::{CtMark, DirectionCounters, FlowRecord};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The destination of flow records, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output, as JSON Lines.
    Stdout,
    /// A file in the format of its extension.
    File(PathBuf, Format),
}

/// How flow records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object per line.
    JsonLines,
    /// Comma-separated values after a line of names.
    Csv,
}

impl Target {
    /// Returns the format of the records.
    pub(crate) fn format(&self) -> Format {
        match self {
            Target::Stdout => Format::JsonLines,
            Target::File(_, format) => *format,
        }
    }

    /// Returns the path of the file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Target::Stdout => None,
            Target::File(path, _) => Some(path),
        }
    }
}

impl FromStr for Target {
    type Err = UnknownExtension;

    fn from_str(text: &str) -> Result<Self, UnknownExtension> {
        if names_stdout(Path::new(text)) {
            return Ok(Target::Stdout);
        }
        let path = PathBuf::from(text);
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => Format::JsonLines,
            Some("csv") => Format::Csv,
            _ => return Err(UnknownExtension),
        };
        Ok(Target::File(path, format))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Stdout => f.write_str("standard output"),
            Target::File(path, _) => path.display().fmt(f),
        }
    }
}

/// A file name whose ending is that of no format.
#[derive(Debug, thiserror::Error)]
#[error("the file's name must end in .jsonl (JSON Lines) or .csv, or be `-` for standard output")]
pub struct UnknownExtension;

/// Lines of flow records in memory, in one format.
pub(crate) enum Lines {
    JsonLines(Vec<u8>),
    Csv(Box<csv::Writer<Vec<u8>>>),
}

impl Lines {
    pub(crate) fn new(format: Format) -> Self {
        match format {
            Format::JsonLines => Self::JsonLines(Vec::new()),
            Format::Csv => {
                let mut builder = csv::WriterBuilder::new();
                Self::Csv(Box::new(builder.has_headers(false).from_writer(Vec::new())))
            }
        }
    }

    /// Appends the line of a record.
    pub(crate) fn append(&mut self, record: &FlowRecord) {
        const WRITTEN: &str = "a record can be written to memory";
        match self {
            Self::JsonLines(out) => {
                serde_json::to_writer(&mut *out, &JsonRecord::from(record)).expect(WRITTEN);
                out.push(b'\n');
            }
            Self::Csv(out) => out.serialize(CsvRecord::from(record)).expect(WRITTEN),
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::JsonLines(out) => out,
            Self::Csv(out) => out.into_inner().expect("memory can be flushed"),
        }
    }
}

impl Format {
    /// Returns the first line of a file; it is written even if there are no records.
    pub(crate) fn heading(self) -> String {
        match self {
            Format::JsonLines => String::new(),
            Format::Csv => CSV_COLUMNS.join(",") + "\n",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::JsonLines => "JSON Lines",
            Format::Csv => "CSV",
        })
    }
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    ip_version: u8,
    proto: u8,
    src: IpAddr,
    sport: u16,
    dst: IpAddr,
    dport: u16,
    zone: u16,
    vlan: &'a [u16],
    start_ns: u64,
    start_us: u64,
    end_ns: u64,
    end_us: u64,
    orig: JsonTally,
    reply: JsonTally,
    state: &'static str,
    end_reason: &'static str,
    mark: u32,
    label: String,
    ct_state: &'static str,
    assured: bool,
}

#[derive(Serialize)]
struct JsonTally {
    packets: u64,
    bytes: u64,
    ip_bytes: u64,
    tcp_flags: u8,
}

impl<'a> From<&'a FlowRecord> for JsonRecord<'a> {
    fn from(record: &'a FlowRecord) -> Self {
        Self {
            ip_version: ip_version(record.src),
            proto: record.proto,
            src: record.src,
            sport: record.sport,
            dst: record.dst,
            dport: record.dport,
            zone: record.zone,
            vlan: record.vlan.ids(),
            start_ns: record.start,
            start_us: record.start / 1000,
            end_ns: record.end,
            end_us: record.end / 1000,
            orig: record.orig.into(),
            reply: record.reply.into(),
            state: record.state.name(),
            end_reason: record.end_reason.name(),
            mark: record.ct_mark.mark,
            label: label(record.ct_mark),
            ct_state: record.proto_state.name(),
            assured: record.is_assured,
        }
    }
}

impl From<DirectionCounters> for JsonTally {
    fn from(tally: DirectionCounters) -> Self {
        let DirectionCounters { packets, bytes, ip_bytes, tcp_flags } = tally;
        Self { packets, bytes, ip_bytes, tcp_flags }
    }
}

const CSV_COLUMNS: [&str; 22] = [
    "ip_version",
    "proto",
    "src",
    "sport",
    "dst",
    "dport",
    "zone",
    "vlan",
    "start_ns",
    "end_ns",
    "orig_packets",
    "orig_bytes",
    "orig_ip_bytes",
    "orig_tcp_flags",
    "reply_packets",
    "reply_bytes",
    "reply_ip_bytes",
    "reply_tcp_flags",
    "state",
    "end_reason",
    "mark",
    "label",
];

/// A flow record as a row of [`CSV_COLUMNS`]: without the members that JSON got later, so that
/// files of earlier versions can be continued.
#[derive(Serialize)]
struct CsvRecord {
    ip_version: u8,
    proto: u8,
    src: IpAddr,
    sport: u16,
    dst: IpAddr,
    dport: u16,
    zone: u16,
    /// VLAN identifiers joined with a slash, outermost first: `100/7`.
    vlan: String,
    start_ns: u64,
    end_ns: u64,
    orig_packets: u64,
    orig_bytes: u64,
    orig_ip_bytes: u64,
    orig_tcp_flags: u8,
    reply_packets: u64,
    reply_bytes: u64,
    reply_ip_bytes: u64,
    reply_tcp_flags: u8,
    state: &'static str,
    end_reason: &'static str,
    mark: u32,
    label: String,
}

impl From<&FlowRecord> for CsvRecord {
    fn from(record: &FlowRecord) -> Self {
        let vlan: Vec<String> = record.vlan.ids().iter().map(u16::to_string).collect();
        Self {
            ip_version: ip_version(record.src),
            proto: record.proto,
            src: record.src,
            sport: record.sport,
            dst: record.dst,
            dport: record.dport,
            zone: record.zone,
            vlan: vlan.join("/"),
            start_ns: record.start,
            end_ns: record.end,
            orig_packets: record.orig.packets,
            orig_bytes: record.orig.bytes,
            orig_ip_bytes: record.orig.ip_bytes,
            orig_tcp_flags: record.orig.tcp_flags,
            reply_packets: record.reply.packets,
            reply_bytes: record.reply.bytes,
            reply_ip_bytes: record.reply.ip_bytes,
            reply_tcp_flags: record.reply.tcp_flags,
            state: record.state.name(),
            end_reason: record.end_reason.name(),
            mark: record.ct_mark.mark,
            label: label(record.ct_mark),
        }
    }
}

/// Formats a label in hexadecimal: JSON readers may not support numbers of 128 bits.
pub fn label(CtMark { label, .. }: CtMark) -> String {
    format!("{label:#x}")
}

fn ip_version(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}
