// SPDX-License-Identifier: BSD-3-Clause
//! What a host means for a run: one finding per question, each with what to do about it.
//!
//! [`host`] reads the host from `/sys` and `/proc`: cpus, NUMA nodes, memory, hugepages, NICs and
//! software. [`diagnose`] is a pure function of what was read. Only what stops every run is a
//! failure; what merely costs speed is a warning or a note, since Millrace runs without any
//! preparation.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod cpus;
pub mod host;
mod memory;
mod nics;
mod software;
#[cfg(test)]
mod tests;

use crate::host::Host;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing; costs nothing, or only in some uses.
    Note,
    /// What would tell cannot be read.
    Unknown,
    /// Costs speed, or puts something at risk.
    Warn,
    /// Nothing runs.
    Fail,
}

/// The answer to one question.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub topic: String,
    /// How bad it is.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do; nothing where all is well.
    pub advice: Option<String>,
}

impl Finding {
    fn new(topic: &str, status: Status, found: impl Into<String>) -> Self {
        Self { topic: topic.to_owned(), status, found: found.into(), advice: None }
    }

    /// What `source` below the root would tell.
    fn unknown(topic: &str, source: &str) -> Self {
        Self::new(topic, Status::Unknown, format!("unknown: /{source} cannot be read"))
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Everything there is to say about `host`, most basic first.
pub fn diagnose(host: &Host) -> Vec<Finding> {
    let mut findings = software::diagnose(&host.software);
    findings.extend(cpus::diagnose(host));
    findings.extend(memory::diagnose(&host.memory));
    findings.extend(nics::diagnose(host));
    findings
}
