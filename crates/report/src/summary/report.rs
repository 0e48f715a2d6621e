// SPDX-License-Identifier: BSD-3-Clause
//! Writes the summary: JSON for other tools, and a report that omits what did not happen and
//! explains each reason.

use super::{Counts, Rejects, Snapshot, Summary, Worker};
use results::units;
use std::io::{self, Write};

impl Summary {
    /// Prints the report.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        print_counts(out, "packets passed without a flow", &self.passed)?;
        print_counts(out, "packets dropped", &self.drops)?;
        self.print_rejects(out)?;
        print_counts(out, "invalid packets", &self.invalid)?;
        print_counts(out, "packets that changed nothing", &self.ignored)?;
        let [created, active, restored] =
            [self.flows.created, self.flows.active, self.snapshot.restored].map(units::thousands);
        // Restored flows end too, so without them there may be more that ended than were created.
        let restored = match self.snapshot.restored {
            0 => String::new(),
            _ => format!(", {restored} restored from the last run"),
        };
        writeln!(out, "flows: {created} created{restored}, {active} active")?;
        print_counts(out, "flows ended", &self.flows.ended)?;
        if self.flows.records_lost > 0 {
            let lost = units::thousands(self.flows.records_lost);
            writeln!(out, "flow records lost: {lost}")?;
        }
        self.print_snapshot(out)?;
        self.offload.print(out)?;
        self.energy.print(out)?;
        self.print_stalls(out)?;
        self.print_ledger(out)
    }

    /// Prints a line about rejected packets, if there were any.
    fn print_rejects(&self, out: &mut impl Write) -> io::Result<()> {
        let Rejects { sent, suppressed, not_possible } = self.rejects;
        if self.rejects == Rejects::default() {
            return Ok(());
        }
        let [sent, suppressed, not_possible] =
            [sent, suppressed, not_possible].map(units::thousands);
        writeln!(
            out,
            "packets rejected: {sent} answered, {suppressed} not answered by the rate limit, \
             {not_possible} that may get no answer"
        )
    }

    /// Prints a line about restored connections, and one about snapshots written, if there were
    /// any.
    fn print_snapshot(&self, out: &mut impl Write) -> io::Result<()> {
        let Snapshot { restored, expired, refused, restore_ms, written, last_ms, bytes } =
            self.snapshot;
        if restored + expired + refused > 0 {
            let [restored, expired, refused] = [restored, expired, refused].map(units::thousands);
            writeln!(
                out,
                "connections of the last run: {restored} restored in {restore_ms} ms, {expired} \
                 expired, {refused} refused"
            )?;
        }
        if written > 0 {
            let (written, bytes) = (units::thousands(written), units::bytes(bytes));
            writeln!(out, "snapshots: {written} written, the last {bytes} in {last_ms} ms")?;
        }
        Ok(())
    }

    /// Prints a line if the workers lost their cpus for so long that all figures are doubtful.
    fn print_stalls(&self, out: &mut impl Write) -> io::Result<()> {
        let sum = |cycles: fn(&Worker) -> u64| self.workers.iter().map(cycles).sum::<u64>();
        let stalled = sum(|worker| worker.stalled_cycles);
        let all = stalled + sum(|worker| worker.busy_cycles) + sum(|worker| worker.idle_cycles);
        if stalled * STALLS_SHOWN < all || stalled == 0 {
            return Ok(());
        }
        let percent = 100.0 * stalled as f64 / all as f64;
        writeln!(out, "workers did not get their cpus for {percent:.0} % of the time")
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

/// Stalls are reported from one part in this many of the time.
const STALLS_SHOWN: u64 = 20;

/// Prints a heading with the total, and a line for each counter that is not 0.
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
