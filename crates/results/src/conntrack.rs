// SPDX-License-Identifier: BSD-3-Clause
//! Results of `millrace bench conntrack`: their JSON (docs/bench-conntrack.md), a table, a page,
//! and the comparison of two of them. Members of the JSON may be added, none is renamed.

mod article;
mod compare;
mod page;
#[cfg(test)]
mod tests;
mod text;

pub use compare::{Comparison, compare};
pub use page::page;

use crate::confidence::{interval, mean};
use crate::schema::Origin;
use serde::{Deserialize, Serialize};

/// Value of the member `command`.
pub const COMMAND: &str = "bench conntrack";
/// Version of the JSON.
const VERSION: u32 = 1;
/// Name of the generator alone, in the member `device`.
pub const CABLE: &str = "cable";

/// All rows, and how they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConntrackResults {
    version: u32,
    command: String,
    /// Length of each measurement.
    pub seconds: u32,
    /// Share of connections and packets that may be lost, in percent.
    pub error_threshold: f64,
    /// Searches of each row.
    #[serde(default = "one")]
    pub repeat: u32,
    /// True if a signal has ended the command early.
    #[serde(default)]
    pub is_interrupted: bool,
    /// Program, command and host.
    #[serde(default)]
    pub origin: Origin,
    /// How each device was set up.
    #[serde(default)]
    pub set_ups: Vec<SetUp>,
    /// The configurations, in the order of the table.
    pub rows: Vec<Row>,
}

const fn one() -> u32 {
    1
}

/// How a device was set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// Name of the configuration.
    pub name: String,
    /// Commands and settings.
    pub lines: Vec<String>,
}

/// How long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// One message each way, at once.
    Short,
    /// 500 messages each way, 50 ms apart.
    Long,
}

impl Lifetime {
    /// Both lifetimes, in the order of the table.
    pub const ALL: [Self; 2] = [Self::Short, Self::Long];

    /// Returns its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short-lived",
            Self::Long => "long-lived",
        }
    }
}

/// A device and how it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Lifetime of connections.
    pub profile: Lifetime,
    /// Kind of device: `cable`, `millrace`, `ovs`, `kernel` or `external`.
    pub device: String,
    /// Version of the device, if several can be measured.
    #[serde(default)]
    pub device_version: Option<String>,
    /// True if it tracks connections; null if nobody knows.
    pub tracking: Option<bool>,
    /// Cpus of the device; null if nobody knows.
    pub cpus: Option<u32>,
    /// Queues of each of its ports; null if nobody knows.
    #[serde(default)]
    pub queues: Option<u32>,
}

impl Point {
    /// Returns the name of the device with its version.
    pub fn device_name(&self) -> String {
        let version = self.device_version.iter().map(|version| format!(" {version}"));
        std::iter::once(self.device.clone()).chain(version).collect()
    }

    /// Returns the configuration, such as `1C/1Q`; nothing if nobody knows it.
    pub fn size(&self) -> Option<String> {
        // Older results have as many queues as cpus.
        self.cpus.map(|cpus| format!("{cpus}C/{}Q", self.queues.unwrap_or(cpus)))
    }

    /// Returns the name of the device and its configuration.
    pub fn name(&self) -> String {
        let size = self.size().map(|size| format!(", {size}"));
        let no_tracking = (self.tracking == Some(false)).then(|| ", no tracking".to_owned());
        let parts = [Some(self.device_name()), size, no_tracking];
        parts.into_iter().flatten().collect()
    }

    fn is_cable(&self) -> bool {
        self.device == CABLE
    }

    /// True if both are the same but for the device.
    fn differs_by_device(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.profile, it.tracking, it.size());
        of(self) == of(other) && self.device_name() != other.device_name()
    }
}

/// A configuration, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The configuration.
    #[serde(flatten)]
    pub point: Point,
    /// What this host lacks to run it.
    pub lacks: Option<String>,
    /// Connections per second: the mean of `rates`; null if nothing was measured or not sustained.
    pub cps: Option<f64>,
    /// The rate of each search.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// True if the device may sustain more: the generator, the search or an option was the limit.
    pub is_at_least: bool,
    /// Difference of the rate from that of the first device in the same configuration.
    pub difference_percent: Option<f64>,
    /// 95 % confidence interval of the difference; null unless both were searched repeatedly.
    #[serde(default)]
    pub difference_interval: Option<[f64; 2]>,
    /// Whether the difference is only a bound.
    #[serde(default)]
    pub difference_bound: Option<Bound>,
    /// The last measurement.
    pub figures: Option<Figures>,
    /// What the reader must know about the figures.
    pub notes: Vec<String>,
    /// Name of the host that measured it, if it was merged from other results.
    #[serde(default)]
    pub merged_from: Option<String>,
}

/// A difference that is only known to be at least, or at most, a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The second device may sustain more.
    AtLeast,
    /// The first device may sustain more.
    AtMost,
}

/// What was measured at a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Connections opened each second.
    pub cps: f64,
    /// Open connections of the generator.
    pub active_flows: Option<u64>,
    /// Connections in the device's table.
    pub device_flows: Option<u64>,
    /// Bits of frames with FCS that both ports received each second.
    pub bps: f64,
    /// Packets that both ports received each second.
    pub pps: f64,
    /// Why the load was not good; empty if it was.
    pub faults: Vec<String>,
}

/// Share by which the device's count of connections may differ from the generator's, besides those
/// that have ended and wait for their timeout.
const COUNT_TOLERANCE: f64 = 0.01;

impl Figures {
    /// Returns a note if the device's count differs from the generator's by more than connections
    /// that have ended and linger for `linger_s` seconds on average.
    pub fn count_difference(&self, linger_s: f64) -> Option<String> {
        let [active, counted] = [self.active_flows?, self.device_flows?].map(|it| it as f64);
        let lingering = linger_s * self.cps;
        let least = active * (1.0 - COUNT_TOLERANCE);
        let most = (active + lingering) * (1.0 + COUNT_TOLERANCE);
        (!(least..=most).contains(&counted)).then(|| {
            format!(
                "the device counts {counted:.0} connections, and should have from {least:.0} to \
                 {most:.0}"
            )
        })
    }
}

impl Row {
    /// Makes a row without figures.
    pub fn new(point: Point) -> Self {
        Self {
            point,
            lacks: None,
            cps: None,
            rates: Vec::new(),
            is_at_least: false,
            difference_percent: None,
            difference_interval: None,
            difference_bound: None,
            figures: None,
            notes: Vec::new(),
            merged_from: None,
        }
    }

    /// Returns the name of the row.
    pub fn name(&self) -> String {
        format!("{}, {}", self.point.profile.name(), self.point.name())
    }

    /// True if the row has a good figure, or this host cannot run it.
    pub fn is_done(&self) -> bool {
        self.lacks.is_some() || self.cps.is_some()
    }

    /// Adds a measurement. Its rate and its figures count unless the load was bad; the faults of a
    /// bad one become a note beside those of a good one.
    pub fn add(&mut self, figures: Figures) {
        let is_good = figures.faults.is_empty();
        if is_good {
            self.rates.push(figures.cps);
            self.cps = Some(mean(&self.rates));
        }
        let bad = match is_good {
            true => self.figures.replace(figures),
            false if self.rates.is_empty() => self.figures.replace(figures),
            false => Some(figures),
        };
        let faults = bad.map(|it| it.faults).filter(|faults| !faults.is_empty());
        self.notes
            .extend(faults.map(|faults| format!("a repetition failed: {}", faults.join(", "))));
    }

    /// Returns the rates of the searches; those of older results are not known.
    fn rates(&self) -> &[f64] {
        if self.rates.len() > 1 { &self.rates } else { &[] }
    }

    /// Computes the difference from the same configuration of another device.
    fn compare_with(&mut self, first: &Self) {
        let (Some(a), Some(b)) = (first.cps, self.cps) else { return };
        self.difference_bound = match (first.is_at_least, self.is_at_least) {
            (false, false) => None,
            (false, true) if b >= a => Some(Bound::AtLeast),
            (true, false) if b <= a => Some(Bound::AtMost),
            // It is not known which is higher.
            _ => return,
        };
        self.difference_percent = Some(100.0 * (b / a - 1.0));
        if self.difference_bound.is_none() {
            self.difference_interval = interval(first.rates(), self.rates());
        }
    }
}

impl ConntrackResults {
    /// Makes results without rows.
    pub fn new(origin: Origin, seconds: u32, error_threshold: f64, repeat: u32) -> Self {
        Self {
            version: VERSION,
            command: COMMAND.to_owned(),
            seconds,
            error_threshold,
            repeat,
            is_interrupted: false,
            origin,
            set_ups: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Reads the JSON of `millrace bench conntrack`.
    ///
    /// # Errors
    /// If the text is nothing like that; the error continues a sentence that begins with a name.
    pub fn read(text: &str) -> Result<Self, String> {
        let results: Self = serde_json::from_str(text)
            .map_err(|error| format!("is no result of millrace bench conntrack: {error}"))?;
        match (results.command.as_str(), results.version) {
            (COMMAND, VERSION) => Ok(results),
            (COMMAND, other) => Err(format!("has version {other}; this program reads {VERSION}")),
            (other, _) => Err(format!("is the result of {other:?}, not of {COMMAND:?}")),
        }
    }

    /// True if the text claims to be results of this command.
    pub fn is_in(text: &str) -> bool {
        let value = serde_json::from_str::<serde_json::Value>(text);
        value.is_ok_and(|value| value["command"] == COMMAND)
    }

    /// Computes all differences: from the first device in the same configuration on the same host.
    pub fn compare_devices(&mut self) {
        let before = self.rows.clone();
        for (number, row) in self.rows.iter_mut().enumerate() {
            (row.difference_percent, row.difference_interval, row.difference_bound) =
                (None, None, None);
            let is_comparable = |it: &&Row| {
                it.point.differs_by_device(&row.point) && it.merged_from == row.merged_from
            };
            let first = before[..number].iter().find(is_comparable);
            if let Some(first) = first.filter(|_| !row.point.is_cable()) {
                row.compare_with(first);
            }
        }
    }
}
