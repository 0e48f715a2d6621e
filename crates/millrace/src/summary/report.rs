// SPDX-License-Identifier: BSD-3-Clause
//! The summary as it is written: JSON for other tools, and a report for people with only what
//! happened and the meaning of every reason.

use super::{Counts, Summary};
use crate::units;
use std::io::{self, Write};

impl Summary {
    /// Writes the summary as one JSON object.
    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)?;
        out.flush()
    }

    /// Prints the report.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        print_counts(out, "packets passed without a flow", &self.passed)?;
        print_counts(out, "packets dropped", &self.drops)?;
        let created = units::thousands(self.flows.created);
        writeln!(out, "flows: {created} created, {} active", units::thousands(self.flows.active))?;
        print_counts(out, "flows ended", &self.flows.ended)?;
        if self.flows.records_lost > 0 {
            let lost = units::thousands(self.flows.records_lost);
            writeln!(out, "flow records lost, not written fast enough: {lost}")?;
        }
        self.print_ledger(out)
    }

    fn print_ledger(&self, out: &mut impl Write) -> io::Result<()> {
        let ledger = &self.ledger;
        let [rx, tx, dropped, held] =
            [ledger.rx, ledger.tx, ledger.dropped, ledger.held].map(units::thousands);
        let verdict = if ledger.balanced {
            "balanced".to_owned()
        } else {
            let out = i128::from(ledger.tx) + i128::from(ledger.dropped) + i128::from(ledger.held);
            format!("NOT BALANCED: off by {}", i128::from(ledger.rx) - out)
        };
        writeln!(
            out,
            "ledger: {rx} received = {tx} sent + {dropped} dropped + {held} held: {verdict}"
        )
    }
}

/// A heading with the total, and one line for each counter that is not 0.
fn print_counts(out: &mut impl Write, heading: &str, counts: &Counts) -> io::Result<()> {
    if counts.total() == 0 {
        return Ok(());
    }
    writeln!(out, "{heading}: {}", units::thousands(counts.total()))?;
    for count in counts.0.iter().filter(|count| count.n > 0) {
        let n = units::thousands(count.n);
        writeln!(out, "  {n:>12}  {:<20}  {}", count.name, count.doc)?;
    }
    Ok(())
}
