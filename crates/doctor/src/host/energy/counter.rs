// SPDX-License-Identifier: BSD-3-Clause
//! Reads one energy counter again and again, and adds up what it has counted.

use super::{NoEnergy, Root};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// No package takes more power than this, in watts. So a counter that has moved further was set
/// anew, and one that was not read for longer than its range lasts may have wrapped twice.
const WATTS_MAX: u64 = 2_000;

/// The energy counter of one package.
#[derive(Debug)]
pub(super) struct Counter {
    /// Path on the host.
    path: String,
    file: File,
    /// Value after which the counter begins again at 0; `None` if it never does.
    range: Option<u64>,
    /// Value and time of the last reading.
    last: u64,
    at: Instant,
    /// Microjoules since it was opened.
    used: u64,
}

impl Counter {
    /// Opens the counter at `path` below the root, and reads it for the first time.
    pub(super) fn open(
        root: Root,
        path: String,
        range: Option<u64>,
        now: Instant,
    ) -> Result<Self, NoEnergy> {
        let opened = File::open(root.0.join(&path));
        let path = format!("/{path}");
        let value = opened.and_then(|file| read(&file).map(|value| (file, value)));
        let (file, last) = value.map_err(|error| NoEnergy::of(&path, &error))?;
        Ok(Self { path, file, range, last, at: now, used: 0 })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the microjoules from the first to the last reading.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Reads the counter, and adds what it has counted since the last reading.
    pub(super) fn read(&mut self, now: Instant) -> Result<(), NoEnergy> {
        let value = read(&self.file).map_err(|error| NoEnergy::of(&self.path, &error))?;
        let time = now.saturating_duration_since(self.at);
        let path = || self.path.clone();
        if self.range.is_some_and(|range| range < most(time)) {
            return Err(NoEnergy::ReadTooLate { path: path(), seconds: time.as_secs() });
        }
        let more = match (value.checked_sub(self.last), self.range) {
            (Some(more), _) => Some(more),
            (None, Some(range)) => range.checked_sub(self.last).map(|rest| rest + value),
            (None, None) => None,
        };
        // A counter moves in steps, so little time may show the energy of a whole step.
        let more = more.filter(|more| *more <= most(time + Duration::from_secs(1)));
        let impossible = || NoEnergy::Impossible { path: path(), from: self.last, to: value };
        self.used += more.ok_or_else(impossible)?;
        (self.last, self.at) = (value, now);
        Ok(())
    }
}

/// Returns the most microjoules that a package can use in this time.
fn most(time: Duration) -> u64 {
    WATTS_MAX.saturating_mul(time.as_micros() as u64)
}

/// Reads the value of a counter, which the kernel writes anew at each reading from the beginning.
fn read(file: &File) -> io::Result<u64> {
    let mut text = [0; 32];
    let len = file.read_at(&mut text, 0)?;
    let text = std::str::from_utf8(&text[..len]).unwrap_or_default().trim();
    text.parse().map_err(|_| io::Error::other(format!("`{text}` is no number of microjoules")))
}
