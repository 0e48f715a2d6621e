// SPDX-License-Identifier: BSD-3-Clause
//! Summarizes the energy that the processor packages used.

use serde::Serialize;
use std::io::{self, Write};

/// Energy of all processor packages, with everything else that ran on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// Joules of the whole run; `None` if unknown.
    pub package_j: Option<f64>,
    /// Nanojoules per packet sent; `None` if unknown, or if none was sent.
    pub nj_per_packet: Option<f64>,
    /// Why one of them is `None`; `None` if both are known.
    pub reason: Option<String>,
}

impl Energy {
    /// Returns the figures of a run that sent `packets` and used `microjoules`, or the reason why
    /// these are unknown.
    pub fn of(microjoules: Result<u64, impl ToString>, packets: u64) -> Self {
        let microjoules = match microjoules {
            Ok(0) => return Self::unknown("the energy counter did not change"),
            Ok(microjoules) => microjoules as f64,
            Err(reason) => return Self::unknown(reason),
        };
        let nj_per_packet = (packets > 0).then(|| microjoules * 1e3 / packets as f64);
        let reason = nj_per_packet.is_none().then(|| "no packet was sent".to_owned());
        Self { package_j: Some(microjoules / 1e6), nj_per_packet, reason }
    }

    /// Returns no figures, for this reason.
    pub fn unknown(reason: impl ToString) -> Self {
        Self { reason: Some(reason.to_string()), ..Self::default() }
    }

    /// Prints a line if there is a figure.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(joules) = self.package_j else { return Ok(()) };
        let each = self.nj_per_packet.map(|nj| format!(", {nj:.1} nJ per packet sent"));
        let each = each.unwrap_or_default();
        writeln!(out, "energy of the processor packages: {joules:.1} J{each}")
    }
}
