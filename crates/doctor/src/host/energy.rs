// SPDX-License-Identifier: BSD-3-Clause
//! Measures the energy that the processor packages use, by counters of the kernel: those of RAPL
//! (`powercap`, of Intel and AMD), else those of the driver `amd_energy`.
//!
//! A counter that wraps twice between two readings looks like one that wrapped once. So readings
//! must come often, once a second. A figure that cannot be right is never returned.

mod counter;

use super::Root;
use counter::Counter;
use std::io;
use std::path::Path;
use std::time::Instant;

const POWERCAP: &str = "sys/class/powercap";
const HWMON: &str = "sys/class/hwmon";

/// Why the energy is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEnergy {
    /// The host has no counter.
    #[error("this host has no energy counter (virtual machines have none)")]
    NoCounter,
    /// The user may not read a counter.
    #[error("{path} must be readable for this user, and is not")]
    Forbidden {
        /// The file.
        path: String,
    },
    /// A counter cannot be read for another reason.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system, or what the file has.
        error: String,
    },
    /// A counter did not move in the time that was measured.
    #[error("{path} did not change")]
    Unchanged {
        /// Its file.
        path: String,
    },
    /// A counter moved as no processor can move it.
    #[error("{path} changed from {from} to {to} microjoules, which cannot be right")]
    Impossible {
        /// Its file.
        path: String,
        /// Value of the reading before.
        from: u64,
        /// Value of the last reading.
        to: u64,
    },
    /// A counter may have wrapped more than once between two readings.
    #[error("{path} may have wrapped more than once, since it was not read for {seconds} s")]
    ReadTooLate {
        /// Its file.
        path: String,
        /// Time between the two readings.
        seconds: u64,
    },
}

impl NoEnergy {
    fn of(path: &str, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Forbidden { path },
            _ => Self::Unreadable { path, error: error.to_string() },
        }
    }
}

/// Adds up the energy of all packages of a host from its start on.
#[derive(Debug)]
pub struct EnergyMeter(Result<Vec<Counter>, NoEnergy>);

impl EnergyMeter {
    /// Opens the counters of the host whose root directory is `root`. They stay open, so that the
    /// process may give up its privileges.
    pub fn start(root: &Path, now: Instant) -> Self {
        Self(open(Root(root), now))
    }

    /// Reads all counters. A fault of one counter is final, since energy is missing from then on.
    pub fn read(&mut self, now: Instant) {
        if let Ok(counters) = &mut self.0 {
            let result = counters.iter_mut().try_for_each(|counter| counter.read(now));
            if let Err(fault) = result {
                self.0 = Err(fault);
            }
        }
    }

    /// Returns the microjoules of all packages together from the start to the last reading.
    pub fn microjoules(&self) -> Result<u64, NoEnergy> {
        let counters = self.0.as_ref().map_err(NoEnergy::clone)?;
        Ok(counters.iter().map(Counter::used).sum())
    }

    /// Returns the microjoules as [`microjoules`](Self::microjoules) does. Fails if a counter has
    /// not changed: then the sum lacks a package.
    pub fn microjoules_of_each(&self) -> Result<u64, NoEnergy> {
        let counters = self.0.as_ref().map_err(NoEnergy::clone)?;
        match counters.iter().find(|counter| counter.used() == 0) {
            Some(counter) => Err(NoEnergy::Unchanged { path: counter.path().to_owned() }),
            None => self.microjoules(),
        }
    }
}

/// Opens the counters of all packages, of one interface only: both count the same energy.
fn open(root: Root, now: Instant) -> Result<Vec<Counter>, NoEnergy> {
    match open_rapl(root, now) {
        Ok(counters) => Ok(counters),
        Err(fault) => match (open_amd(root, now), fault) {
            (Ok(counters), _) => Ok(counters),
            (Err(fault), NoEnergy::NoCounter) => Err(fault),
            (Err(_), fault) => Err(fault),
        },
    }
}

/// Opens the counters of `intel-rapl:N`. Zones below a package (cores, memory) have a second
/// number, and `psys` is the whole machine. `intel-rapl-mmio` counts the same packages again.
fn open_rapl(root: Root, now: Instant) -> Result<Vec<Counter>, NoEnergy> {
    let is_zone = |zone: &String| {
        let number = zone.strip_prefix("intel-rapl:").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let zones = root.names(POWERCAP).into_iter().filter(is_zone);
    let zones = zones.map(|zone| format!("{POWERCAP}/{zone}"));
    let is_package = |zone: &String| {
        root.text(&format!("{zone}/name")).is_none_or(|name| name.starts_with("package"))
    };
    at_least_one(zones.filter(is_package).map(|zone| {
        let range = root.number(&format!("{zone}/max_energy_range_uj"));
        Counter::open(root, format!("{zone}/energy_uj"), range, now)
    }))
}

/// Opens the counters of sockets that the driver `amd_energy` has. They have 64 bits.
fn open_amd(root: Root, now: Instant) -> Result<Vec<Counter>, NoEnergy> {
    let devices = root.names(HWMON).into_iter().map(|device| format!("{HWMON}/{device}"));
    let is_amd = |device: &String| {
        root.text(&format!("{device}/name")).is_some_and(|name| name == "amd_energy")
    };
    let inputs = devices.filter(is_amd).flat_map(|device| {
        let labels = root.names(&device).into_iter().filter(|name| name.ends_with("_label"));
        let labels = labels
            .map(|name| format!("{device}/{name}"))
            .filter(|path| root.text(path).is_some_and(|label| label.starts_with("Esocket")));
        labels.map(|path| path.replace("_label", "_input")).collect::<Vec<_>>()
    });
    at_least_one(inputs.map(|path| Counter::open(root, path, None, now)))
}

/// Returns all counters if there is one, and each can be read: a part would be taken for the whole.
fn at_least_one(
    counters: impl Iterator<Item = Result<Counter, NoEnergy>>,
) -> Result<Vec<Counter>, NoEnergy> {
    let counters = counters.collect::<Result<Vec<_>, _>>()?;
    if counters.is_empty() { Err(NoEnergy::NoCounter) } else { Ok(counters) }
}

#[cfg(test)]
mod tests;
