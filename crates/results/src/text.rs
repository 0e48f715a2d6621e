// SPDX-License-Identifier: BSD-3-Clause
//! Prints the results of a run for users: a line per interval, and tables at the end.

use crate::schema::{
    Interval, Latency, Link, Pacing, PortResult, QueueResult, Results, SenderResult, StreamLatency,
    StreamResult, Verified,
};
use crate::{histogram, names, table, units, wire_bits, workers};
use std::io::{self, Write};

const HEADING: &str =
    "     s         sent    Gb/s         recv        lost  damaged       p50       p99       max";

/// Formats intervals as lines of a table.
#[derive(Clone, Copy, Debug)]
pub struct IntervalLines {
    /// Digits behind the point of the time.
    decimals: usize,
}

impl IntervalLines {
    /// Heading of the lines.
    pub const HEADING: &str = HEADING;

    /// Makes the format for intervals of this many seconds.
    pub fn new(seconds: f64) -> Self {
        Self { decimals: if seconds.fract() == 0.0 { 0 } else { 2 } }
    }

    /// Returns the line of an interval.
    pub fn line(&self, interval: &Interval) -> String {
        let seconds = interval.length_s;
        let mut line = format!(
            "{:6.*}{} {:>11}  {:6.2}  {:>11}",
            self.decimals,
            interval.start_s + seconds,
            if interval.was_away() { '*' } else { ' ' },
            units::packet_rate(interval.sent.packets as f64 / seconds),
            wire_bits(interval.sent.packets, interval.sent.bytes) / 1e9 / seconds,
            units::packet_rate(interval.received.packets as f64 / seconds)
        );
        if let (Some(lost), Some(damaged)) = (interval.lost, interval.damaged) {
            line += &format!("  {lost:10}  {damaged:7}");
            if let Some(Latency { p50_ns, p99_ns, max_ns, .. }) = interval.latency {
                let [p50, p99, max] = [p50_ns, p99_ns, max_ns].map(units::duration);
                line += &format!("  {p50:>8}  {p99:>8}  {max:>8}");
            }
        }
        line
    }
}

impl Results {
    /// Prints the results for users.
    ///
    /// # Errors
    /// If writing fails.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        for (what, count) in [("sent", &self.sent), ("received", &self.received)] {
            writeln!(
                out,
                "{what}: {} packets, {}, {:.3} Gb/s on the wire",
                units::thousands(count.packets),
                units::packet_rate(count.pps),
                count.wire_mbps / 1e3
            )?;
        }
        for line in self.ports.iter().filter_map(PortResult::share_of_link) {
            writeln!(out, "{line}")?;
        }
        if let Some(line) = self.put_off() {
            writeln!(out, "{line}")?;
        }
        if self.unsent > 0 {
            writeln!(
                out,
                "not sent, because the port did not take them: {}",
                units::thousands(self.unsent)
            )?;
        }
        for PortResult { name, oerrors, .. } in self.ports.iter().filter(|it| it.oerrors > 0) {
            let (name, oerrors) = (names::short(name), units::thousands(*oerrors));
            writeln!(out, "{name}: {oerrors} packets were dropped before the wire (oerrors)")?;
        }
        if self.verified.is_some() && self.sent.packets > 0 && self.received.packets == 0 {
            writeln!(
                out,
                "no packet came back: are the ports wired to each other or to `millrace reflect`, \
                 and does what is between them forward to these addresses (dst_mac=, dst=)?"
            )?;
        }
        for PortResult { name, imissed, .. } in self.ports.iter().filter(|it| it.imissed > 0) {
            let (name, imissed) = (names::short(name), units::thousands(*imissed));
            writeln!(
                out,
                "{name}: {imissed} packets arrived while the receive queue was full (imissed)"
            )?;
        }
        if let Some(verified) = &self.verified {
            verified.print(out)?;
            // Only the probes of a profile's packets are verified: print their latency by port.
            if verified.foreign.is_none() {
                self.ports.iter().try_for_each(|port| port.print_latency(out))?;
            }
        }
        self.print_queues(out)?;
        for line in self.ports.iter().filter_map(PortResult::lost_where) {
            writeln!(out, "{line}")?;
        }
        self.pacing.print(out)?;
        workers::print(&self.workers, out)?;
        self.print_noise(out)
    }

    /// Returns how far the slowest sender put its schedule off. Packets that it would have sent in
    /// this time do not count as `unsent`.
    fn put_off(&self) -> Option<String> {
        let (put_off, duration) = (self.put_off_s, self.duration_s);
        let is_known = put_off > 0.0 && duration > 0.0;
        let share = is_known.then(|| 100.0 * put_off / duration)?;
        let by = match self.senders.len() {
            0 | 1 => "this host or its port".to_owned(),
            senders => format!("the slowest of {senders} senders, or its port,"),
        };
        let [put_off, duration] = [put_off, duration].map(|s| units::duration((s * 1e9) as u64));
        Some(format!(
            "the schedule was put off by {put_off} of {duration} ({share:.1} %): {by} was too slow"
        ))
    }

    /// Prints how traffic was spread over senders and receive queues, if there are several.
    fn print_queues(&self, out: &mut impl Write) -> io::Result<()> {
        let share =
            |packets: u64, total: u64| units::percent(100.0 * packets as f64 / total.max(1) as f64);
        if self.senders.len() > 1 {
            writeln!(out)?;
            let row = |(number, sender): (usize, &SenderResult)| {
                let [sent, unsent] = [sender.packets, sender.unsent].map(units::thousands);
                let share = share(sender.packets, self.sent.packets);
                [format!("{number} at {}", names::short(&sender.port)), sent, share, unsent]
            };
            let rows: Vec<_> = self.senders.iter().enumerate().map(row).collect();
            table::print(out, ["sender", "sent", "share", "not sent"], &(1..4), &rows)?;
        }
        if self.queues.len() > 1 {
            writeln!(out)?;
            let row = |queue: &QueueResult| {
                let waiting = queue.waiting_max.map_or("-".to_owned(), units::thousands);
                let share = share(queue.packets, self.received.packets);
                let name = format!("{} of {}", queue.queue, names::short(&queue.port));
                [name, units::thousands(queue.packets), share, waiting]
            };
            let rows: Vec<_> = self.queues.iter().map(row).collect();
            let headings = ["receive queue", "received", "share", "most waiting"];
            table::print(out, headings, &(1..4), &rows)?;
        }
        Ok(())
    }

    /// Prints disturbances of the measurement on this host.
    fn print_noise(&self, out: &mut impl Write) -> io::Result<()> {
        let away = self.intervals.iter().filter(|interval| interval.was_away()).count();
        if away > 0 {
            writeln!(
                out,
                "* in {away} of {} intervals the receiver paused for more than 2 ms between two \
                 polls of its ports: packets may be lost or late because of it",
                self.intervals.len()
            )?;
        }
        match self.intervals.iter().filter_map(|interval| interval.steal_ms).sum::<u64>() {
            0 => Ok(()),
            ms => writeln!(out, "the hypervisor took {ms} ms from the cpus of the workers"),
        }
    }
}

impl PortResult {
    fn print_latency(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(latency) = &self.latency else { return Ok(()) };
        let name = names::printable(&self.name);
        writeln!(out, "\nprobes received by {name}: {}", latency.line())?;
        histogram::print(out, &self.latency_histogram)
    }

    fn lost_where(&self) -> Option<String> {
        let reflector = self.reflector?;
        let [there, at, back] = [
            reflector.lost_on_the_way_there,
            reflector.dropped + reflector.missed,
            reflector.lost_on_the_way_back,
        ]
        .map(units::thousands);
        let name = names::printable(&self.name);
        Some(format!(
            "{name}: lost on the way there {there}, by the reflector {at}, on the way back {back}"
        ))
    }

    fn share_of_link(&self) -> Option<String> {
        let (link, mbps) = (self.link.filter(Link::is_credible)?, self.link_mbps?);
        Some(format!(
            "{}: {:.1} % of the link's maximum, {} of {:.0} bytes at {} Gb/s",
            names::printable(&self.name),
            link.share_percent,
            units::packet_rate(link.pps),
            link.frame_bytes,
            f64::from(mbps) / 1e3
        ))
    }
}

impl Verified {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let [lost, damaged] = [self.lost, self.damaged].map(units::thousands);
        match self.foreign.map(units::thousands) {
            Some(foreign) => writeln!(out, "lost {lost}, damaged {damaged}, foreign {foreign}")?,
            None => writeln!(out, "probes: lost {lost}, damaged {damaged}")?,
        }
        if let Some(latency) = &self.latency {
            writeln!(out, "latency: {}", latency.line())?;
        }
        writeln!(out)?;
        let rows: Vec<_> = self.streams.iter().map(StreamResult::row).collect();
        table::print(out, StreamResult::HEADINGS, &(1..11), &rows)
    }
}

impl Latency {
    /// Returns the quantiles with their names as text.
    pub(crate) fn line(&self) -> String {
        let of = self.named().map(|(name, ns)| format!("{name} {}", units::duration(ns)));
        of.join(", ")
    }

    /// Returns the quantiles in nanoseconds, with their names.
    pub(crate) fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("min", self.min_ns),
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p99.9", self.p999_ns),
            ("max", self.max_ns),
        ]
    }
}

impl StreamResult {
    const HEADINGS: [&str; 11] = [
        "stream",
        "sent",
        "lost",
        "reordered",
        "duplicates",
        "too late",
        "damaged",
        "min",
        "mean",
        "max",
        "jitter",
    ];

    fn row(&self) -> [String; 11] {
        let counts = [self.sent, self.lost, self.reordered, self.duplicates, self.too_late];
        let [sent, lost, reordered, duplicates, too_late] = counts.map(units::thousands);
        let damaged = units::thousands(self.damaged);
        let [min, mean, max, jitter] = match self.latency {
            Some(StreamLatency { min_ns, mean_ns, max_ns }) => {
                [min_ns, mean_ns.round() as u64, max_ns, self.jitter_ns].map(units::duration)
            }
            None => ["-"; 4].map(str::to_owned),
        };
        let name = names::short(&self.name);
        [name, sent, lost, reordered, duplicates, too_late, damaged, min, mean, max, jitter]
    }
}

impl Pacing {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if let (true, Some(p50), Some(p99)) =
            (self.send_on_time, self.late_p50_ns, self.late_p99_ns)
        {
            let [p50, p99] = [p50, p99].map(units::duration);
            return writeln!(
                out,
                "pacing: ports sent on time; they got packets too late by {p50} (p50), {p99} (p99)"
            );
        }
        let (Some(p50), Some(p99)) = (self.gap_error_p50_ns, self.gap_error_p99_ns) else {
            return Ok(());
        };
        let [p50, p99] = [p50, p99].map(units::duration);
        writeln!(out, "pacing: gaps between bursts are off by {p50} (p50), {p99} (p99)")
    }
}
