// SPDX-License-Identifier: BSD-3-Clause
//! Judges whether a host can run Millrace: one finding per question, each with advice.
//!
//! [`host`] reads the host from `/sys` and `/proc`: cpus, NUMA nodes, memory, hugepages, NICs and
//! software. [`diagnose`] is a pure function of what was read. Only what prevents every run is a
//! failure. What costs speed is a warning or a note, since Millrace runs without any preparation.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod boot;
mod cpus;
pub mod host;
mod interfaces;
mod memory;
mod nics;
mod script;
mod software;
#[cfg(test)]
mod tests;
mod vmbus;

pub use crate::script::fix_script;
pub use crate::software::software_nic;

use crate::host::Host;
use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Good.
    Ok,
    /// Worth knowing; costs nothing, or only in some uses.
    Note,
    /// The source cannot be read.
    Unknown,
    /// Costs speed, or puts something at risk.
    Warn,
    /// No run is possible.
    Fail,
}

/// The answer to one question.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The subject.
    pub topic: String,
    /// The severity.
    pub status: Status,
    /// The finding as text.
    pub found: String,
    /// What to do; `None` if nothing.
    pub advice: Option<String>,
}

impl Finding {
    fn new(topic: &str, status: Status, found: impl Into<String>) -> Self {
        Self { topic: topic.to_owned(), status, found: found.into(), advice: None }
    }

    /// Returns the finding that `source`, below the root, cannot be read.
    fn unknown(topic: &str, source: &str) -> Self {
        Self::new(topic, Status::Unknown, format!("unknown: /{source} cannot be read"))
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Returns all findings on `host`, the most basic first.
pub fn diagnose(host: &Host) -> Vec<Finding> {
    let mut findings = software::diagnose(&host.software);
    findings.extend(cpus::diagnose(host));
    findings.extend(memory::diagnose(host));
    findings.extend(boot::diagnose(host));
    findings.extend(nics::diagnose(host));
    findings.extend(vmbus::diagnose(host));
    findings.extend(interfaces::diagnose(host));
    findings
}
