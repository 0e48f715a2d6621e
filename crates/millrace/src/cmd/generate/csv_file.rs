// SPDX-License-Identifier: BSD-3-Clause
//! A line of CSV for each interval. The first five columns are those of dpdk-project's
//! `sendrecv`, so that its notebooks read the file.

use anyhow::{Context, bail};
use results::Interval;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// What the file of another run begins with.
const BEGIN: &str = "time,tx_packets,rx_packets,drop_rate,avg_latency,";

/// A file of intervals, written as they end.
pub(super) struct CsvFile(Option<csv::Writer<File>>);

#[derive(Serialize)]
struct Line {
    /// Begin of the interval, in milliseconds from the start.
    time: f64,
    tx_packets: u64,
    /// Received in the interval.
    rx_packets: u64,
    /// Share of the packets sent in the interval that never came, from 0 to 1.
    drop_rate: Option<f64>,
    /// Mean of the packets received in the interval, in milliseconds.
    avg_latency: Option<f64>,
    /// Without FCS.
    tx_bytes: u64,
    rx_bytes: u64,
    lost: Option<u64>,
    damaged: Option<u64>,
    p50_latency_ns: Option<u64>,
    p99_latency_ns: Option<u64>,
    max_latency_ns: Option<u64>,
    /// Longest time in which the receiver did not look.
    longest_gap_ns: u64,
}

impl CsvFile {
    /// Opens or creates the file. One with anything but intervals is refused.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self(path.map(open).transpose()?.map(csv::Writer::from_writer)))
    }

    /// Writes the line of an interval. After an error it writes no more.
    pub(super) fn write(&mut self, interval: &Interval) -> io::Result<()> {
        let Some(writer) = &mut self.0 else { return Ok(()) };
        let written = writer.serialize(Line::new(interval)).map_err(io::Error::from);
        let written = written.and_then(|()| writer.flush());
        if written.is_err() {
            self.0 = None;
        }
        written
    }
}

impl Line {
    fn new(interval: &Interval) -> Self {
        let latency = interval.latency;
        Self {
            // Whole microseconds: a product of binary fractions has a tail.
            time: (interval.start_s * 1e6).round() / 1e3,
            tx_packets: interval.sent.packets,
            rx_packets: interval.received.packets,
            drop_rate: interval.loss(),
            avg_latency: latency.map(|latency| latency.mean_ns / 1e6),
            tx_bytes: interval.sent.bytes,
            rx_bytes: interval.received.bytes,
            lost: interval.lost,
            damaged: interval.damaged,
            p50_latency_ns: latency.map(|latency| latency.p50_ns),
            p99_latency_ns: latency.map(|latency| latency.p99_ns),
            max_latency_ns: latency.map(|latency| latency.max_ns),
            longest_gap_ns: interval.longest_gap_ns,
        }
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    let mut options = File::options();
    let opened = options.read(true).write(true).create(true).truncate(false).open(path);
    let mut file = opened.with_context(|| format!("cannot create {name}"))?;
    if file.metadata().is_ok_and(|found| found.is_file()) {
        let mut begin = String::new();
        let read = (&file).take(BEGIN.len() as u64).read_to_string(&mut begin);
        if read.is_err() || !(begin.is_empty() || begin == BEGIN) {
            bail!(
                "{name} is there and no file of intervals, so it is left as it is: name another \
                 file, or move this one away"
            );
        }
        file.rewind().and_then(|()| file.set_len(0))?;
    }
    Ok(file)
}
