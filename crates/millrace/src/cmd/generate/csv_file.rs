// SPDX-License-Identifier: BSD-3-Clause
//! Writes a line of CSV for each interval. The first five columns are those of dpdk-project's
//! `sendrecv`, so that its notebooks can read the file.

use anyhow::Context;
use report::output::{Kind, LockedFile, refuse_dash};
use results::Interval;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::Path;

/// The first columns of a file of intervals. They are the same in every version.
const BEGIN: &str = "time,tx_packets,rx_packets,drop_rate,avg_latency,";

/// The file of `--csv`, to which each interval is written when it ends. Without a file, it does
/// nothing.
pub(super) struct CsvFile {
    name: String,
    file: Option<LockedFile>,
    /// `None` before the run starts and after an error.
    writer: Option<csv::Writer<File>>,
}

#[derive(Serialize)]
struct Line {
    /// Start of the interval, in milliseconds from the start.
    time: f64,
    tx_packets: u64,
    /// Packets received in the interval.
    rx_packets: u64,
    /// Share of the packets stamped in the interval that were lost, from 0 to 1.
    drop_rate: Option<f64>,
    /// Mean latency of the packets received in the interval, in milliseconds.
    avg_latency: Option<f64>,
    /// Bytes without FCS.
    tx_bytes: u64,
    rx_bytes: u64,
    lost: Option<u64>,
    damaged: Option<u64>,
    p50_latency_ns: Option<u64>,
    p99_latency_ns: Option<u64>,
    max_latency_ns: Option<u64>,
    /// Longest time between two polls of the receiver.
    longest_gap_ns: u64,
}

impl CsvFile {
    /// Opens or creates the file. Refuses a file that has other contents than intervals. The file
    /// keeps its contents until the run starts.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        Self::open_with(path, BEGIN)
    }

    /// Opens or creates a file whose first columns are `heading`.
    pub(super) fn open_with(path: Option<&Path>, heading: &'static str) -> anyhow::Result<Self> {
        refuse_dash("--csv", path)?;
        let name = path.map(|path| path.display().to_string()).unwrap_or_default();
        let is_ours = |head: &[u8]| head.starts_with(heading.as_bytes());
        let open = |path| LockedFile::open(path, Kind::public("file of intervals"), is_ours);
        Ok(Self { name, file: path.map(open).transpose()?, writer: None })
    }

    /// Empties the file; intervals are written from now on.
    ///
    /// # Errors
    /// If the file cannot be emptied; intervals are not written then.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let file = file.begin().with_context(|| format!("cannot write {}", self.name))?;
        self.writer = Some(csv::Writer::from_writer(file));
        Ok(())
    }

    /// Writes the line of an interval. After an error, it writes no more lines.
    ///
    /// # Errors
    /// If writing fails. Later calls do nothing.
    pub(super) fn write(&mut self, interval: &Interval) -> anyhow::Result<()> {
        self.write_with(|writer| writer.serialize(Line::new(interval)))
    }

    /// Writes the values of a line, as [`Self::write`] does.
    pub(super) fn write_values(&mut self, values: &[String]) -> anyhow::Result<()> {
        self.write_with(|writer| writer.write_record(values))
    }

    fn write_with(
        &mut self,
        write: impl FnOnce(&mut csv::Writer<File>) -> csv::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = write(writer).map_err(io::Error::from);
        let written = written.and_then(|()| writer.flush());
        if written.is_err() {
            self.writer = None;
        }
        written.with_context(|| format!("cannot write {}", self.name))
    }
}

impl Line {
    fn new(interval: &Interval) -> Self {
        let latency = interval.latency;
        Self {
            // Round to microseconds: without, binary fractions have many digits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_intervals_stay_until_the_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("intervals.csv");
        let open = || CsvFile::open(Some(&path));
        let mut file = open().unwrap();
        file.begin().unwrap();
        file.write(&Interval::default()).unwrap();
        drop(file);
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(BEGIN) && written.lines().count() == 2, "{written}");
        let mut file = open().unwrap();
        file.write(&Interval::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
        file.begin().unwrap();
        assert_eq!(path.metadata().unwrap().len(), 0);
        drop(file);
        std::fs::write(&path, "time,mine\n").unwrap();
        let refusal = format!("{:#}", open().err().unwrap());
        assert!(refusal.contains("not a file of intervals of this program"), "{refusal}");
        let refusal = CsvFile::open(Some(Path::new("-"))).err().unwrap().to_string();
        assert!(
            refusal.starts_with("--csv -: only --json can write to standard output"),
            "{refusal}"
        );
    }

    #[test]
    fn an_error_is_reported_once_with_the_name_of_the_file() {
        let mut file = CsvFile::open(Some(Path::new("/dev/full"))).unwrap();
        file.begin().unwrap();
        let error = format!("{:#}", file.write(&Interval::default()).unwrap_err());
        assert!(error.starts_with("cannot write /dev/full: No space left"), "{error}");
        file.write(&Interval::default()).unwrap();
    }
}
