// SPDX-License-Identifier: BSD-3-Clause
//! Formats the view of a running generator: rates of ports, losses, latency, and the last minute as
//! bars.

use crate::schema::{Count, Interval, QueueInterval};
use crate::{names, units, wire_bits};
use std::collections::VecDeque;

/// Seconds that the bars show.
const MINUTE: f64 = 60.0;
/// Seconds over which the worst latency is shown, as in TRex.
const WORST: f64 = 10.0;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HEADING: &str = "port                         sent      Gb/s         recv      Gb/s";

/// State that the view shows.
#[derive(Debug)]
pub struct LiveView {
    title: String,
    ports: Vec<String>,
    /// Intervals of the last minute.
    intervals: VecDeque<Interval>,
    lost: u64,
    stamped: u64,
    damaged: u64,
    longest_gap_ns: u64,
}

impl LiveView {
    /// Returns a view of these ports.
    pub fn new(title: String, ports: Vec<String>) -> Self {
        let intervals = VecDeque::new();
        Self { title, ports, intervals, lost: 0, stamped: 0, damaged: 0, longest_gap_ns: 0 }
    }

    /// Adds an interval that has ended.
    pub fn add(&mut self, interval: &Interval) {
        self.lost += interval.lost.unwrap_or(0);
        self.stamped += interval.stamped.unwrap_or(0);
        self.damaged += interval.damaged.unwrap_or(0);
        self.longest_gap_ns = self.longest_gap_ns.max(interval.longest_gap_ns);
        self.intervals.push_back(interval.clone());
        let from = interval.start_s + interval.length_s - MINUTE;
        while self.intervals.front().is_some_and(|oldest| oldest.start_s < from - 1e-6) {
            self.intervals.pop_front();
        }
    }

    /// Returns the lines to show on a terminal of this width.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let Some(now) = self.intervals.back() else {
            return vec![self.title.clone(), "the first interval is not over yet".to_owned()];
        };
        let at = now.start_s + now.length_s;
        let mut lines = vec![format!("{}  {at:.1} s  (q ends)", self.title), HEADING.to_owned()];
        for (name, port) in self.ports.iter().zip(&now.ports) {
            lines.push(row(name, port.sent, port.received, now.length_s));
        }
        if self.ports.len() > 1 {
            lines.push(row("both", now.sent, now.received, now.length_s));
        }
        if let Some(lost) = now.lost {
            let percent = units::percent(100.0 * self.lost as f64 / self.stamped.max(1) as f64);
            let [all, now, damaged] = [self.lost, lost, self.damaged].map(units::thousands);
            lines.push(format!("lost {all} ({percent}), now {now}; damaged {damaged}"));
        }
        if let Some(latency) = &now.latency {
            lines.push(format!("latency now: {}", latency.line()));
            let worst = self.latest(WORST).filter_map(|it| Some(it.latency?.max_ns)).max();
            let worst = units::duration(worst.unwrap_or(latency.max_ns));
            lines.push(format!("worst latency of the last {WORST:.0} s: {worst}"));
        }
        if now.queues.len() > 1 {
            lines.push(queues(&now.queues));
        }
        let gaps = [self.longest_gap_ns, now.longest_gap_ns].map(units::duration);
        lines.push(format!("longest gap of the receiver {}, now {}", gaps[0], gaps[1]));
        lines.push(self.bars(width));
        lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
    }

    /// Returns the intervals of the last seconds.
    fn latest(&self, seconds: f64) -> impl Iterator<Item = &Interval> {
        let end = self.intervals.back().map_or(0.0, |it| it.start_s + it.length_s);
        self.intervals.iter().filter(move |it| it.start_s > end - seconds - 1e-6)
    }

    /// Returns the rate received in the last minute as a row of bars, the oldest interval first.
    fn bars(&self, width: usize) -> String {
        let rate = |it: &Interval| it.received.packets as f64 / it.length_s;
        let rates: Vec<f64> = self.intervals.iter().map(rate).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let label = format!("  recv, most {}", units::packet_rate(most));
        let room = width.saturating_sub(label.chars().count()).clamp(1, MINUTE as usize);
        let bars = rates.chunks(rates.len().div_ceil(room).max(1)).map(|rates| {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let share = if most > 0.0 { mean / most } else { 0.0 };
            BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
        });
        bars.collect::<String>() + &label
    }
}

/// Returns the share of each receive queue, and the maximum number of waiting packets.
fn queues(queues: &[QueueInterval]) -> String {
    let total: u64 = queues.iter().map(|queue| queue.packets).sum();
    let share =
        |queue: &QueueInterval| units::percent(100.0 * queue.packets as f64 / total.max(1) as f64);
    let shares: Vec<_> = queues.iter().map(share).collect();
    let waiting = queues.iter().filter_map(|queue| queue.waiting_max).max();
    let waiting = waiting.map_or("-".to_owned(), units::thousands);
    format!("receive queues: {}; most packets waiting {waiting}", shares.join(", "))
}

fn row(name: &str, sent: Count, received: Count, seconds: f64) -> String {
    let of = |count: Count| {
        let rate = units::packet_rate(count.packets as f64 / seconds);
        format!("{rate:>11} {:9.3}", wire_bits(count.packets, count.bytes) / seconds / 1e9)
    };
    let name: String = names::printable(name).chars().take(20).collect();
    format!("{name:<20}  {}  {}", of(sent), of(received))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::results;

    #[test]
    fn the_view_has_rates_losses_latency_and_the_last_minute() {
        let mut view = LiveView::new("gen eth1".to_owned(), vec!["eth1".to_owned()]);
        assert_eq!(view.lines(80)[1], "the first interval is not over yet");
        let intervals = results().intervals;
        view.add(&intervals[0]);
        let mut second = intervals[1].clone();
        second.received.packets = 500_000;
        view.add(&second);
        let lines = view.lines(80);
        assert_eq!(lines[0], "gen eth1  2.0 s  (q ends)");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["eth1", "1.000", "Mpps", "0.672", "1.000", "Mpps", "0.672"]
        );
        assert_eq!(lines[3], "lost 100 (0.0050 %), now 100; damaged 0");
        assert!(lines[4].starts_with("latency now: min 900 ns, p50 4.00 µs"), "{}", lines[4]);
        assert_eq!(lines[5], "worst latency of the last 10 s: 3.00 ms");
        assert_eq!(lines[6], "receive queues: 75.0 %, 25.0 %; most packets waiting 64");
        assert_eq!(lines[7], "longest gap of the receiver 3.04 ms, now 3.04 ms");
        assert_eq!(lines[8], "█▅  recv, most 1.000 Mpps");
        assert!(view.lines(10).iter().all(|line| line.chars().count() <= 10));
        assert_eq!(lines[2].chars().count(), HEADING.len(), "below its heading");
    }

    #[test]
    fn low_rates_and_strange_names_are_shown() {
        let mut view = LiveView::new(String::new(), vec!["\x1b[2J".to_owned()]);
        let mut interval = results().intervals.remove(0);
        interval.ports[0].sent.packets = 7;
        view.add(&interval);
        let line = &view.lines(80)[2];
        assert!(line.starts_with("\\u{1b}[2J ") && line.contains(" 7.00 pps"), "{line}");
    }

    #[test]
    fn a_minute_is_kept_and_fits_the_width() {
        let mut view = LiveView::new(String::new(), Vec::new());
        let first = results().intervals.remove(0);
        for number in 0..4000 {
            let start_s = f64::from(number) * 0.05;
            view.add(&Interval { start_s, length_s: 0.05, ..first.clone() });
        }
        assert_eq!(view.intervals.len(), 1200);
        let bars = view.bars(80);
        assert_eq!(bars.chars().filter(|letter| *letter == '█').count(), 55, "{bars}");
        assert_eq!(view.bars(0).chars().filter(|letter| *letter == '█').count(), 1);
    }
}
