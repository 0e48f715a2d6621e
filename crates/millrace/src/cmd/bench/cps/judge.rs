// SPDX-License-Identifier: BSD-3-Clause
//! Judges whether the device sustained a load: by connections and packets, or as cps_ndr.py does.

use crate::tester::TesterStatistics;
use search::{Outcome, Sample};
use serde::Serialize;

/// Share of the load that a tester must open to be no limit.
const OPENED_MIN: f64 = 0.99;
/// Share of the load that is opened by a tester that is fast enough and was delayed once.
const OPENED_OF_FAST: f64 = 0.9;
/// Largest growth of open connections under a load that is sustained: a share of those attempted,
/// plus so many seconds of the rate, plus so many connections. If a program takes a cpu for a tenth
/// of a second, as many more are open for a moment.
const GROWTH_MAX: f64 = 0.01;
const GROWTH_S: f64 = 0.1;
const GROWTH_COUNT: f64 = 2.0;

/// How a sample is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Rule {
    /// Failed connections and lost packets are within the threshold, connections end as fast as
    /// they begin, and the tester is not the limit.
    Connections,
    /// As cps_ndr.py: counters of errors are 0, or fewer packets were lost than the threshold.
    CpsNdr,
}

/// A sample and how to judge it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) statistics: &'a TesterStatistics,
    /// Connections that were open when the sample began.
    pub(super) active_before: u64,
    /// Connections per second that were asked for.
    pub(super) cps: f64,
    pub(super) threshold_percent: f64,
    /// Seconds of the sample, as asked for.
    pub(super) seconds: u32,
    /// True if the load has stopped, so that no packet is on its way.
    pub(super) is_final: bool,
}

/// The outcome of a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// True if the device sustained the load.
    pub(super) is_good: bool,
    /// True if the load was not good, and that may be the tester's limit instead of the device's.
    pub(super) is_tester_limit: bool,
    /// True if the tester is fast enough for the load, and may have been disturbed in this sample.
    #[serde(skip)]
    pub(super) is_disturbed: bool,
    /// True if connections were attempted, and none was answered.
    #[serde(skip)]
    pub(super) is_unanswered: bool,
    /// Share of the connections attempted that failed; absent if none was attempted.
    pub(super) failed_percent: Option<f64>,
    /// Share of the packets sent that were lost; absent if none was sent, or if packets were still
    /// on their way.
    pub(super) lost_percent: Option<f64>,
    /// Growth of open connections in the sample, as a share of the connections attempted; absent if
    /// none was attempted, or if the sample was not the whole one.
    pub(super) growth_percent: Option<f64>,
    /// True if they grew so much that the device ends connections slower than they begin.
    pub(super) is_piling_up: bool,
    /// Why the tester was the limit; empty if it was not.
    pub(super) tester_limits: Vec<String>,
    /// Why the device or the link took no more packets; empty if they did.
    pub(super) link_limits: Vec<String>,
}

impl Judge<'_> {
    /// Judges by connections and packets. While packets are on their way, only by those that
    /// failed.
    pub(super) fn by_connections(&self) -> Verdict {
        let attempted = self.statistics.client.attempted;
        // While the load goes on, connections wait for their first answer.
        let failed = match self.is_final {
            true => self.statistics.unsuccessful(),
            false => self.statistics.failed(),
        };
        // Connections that began before the sample may fail in it: at most all have failed.
        let failed_percent = percent(failed.min(attempted), attempted);
        let (sent, lost) = self.packets();
        let lost_percent = percent(lost, sent).filter(|_| self.is_final);
        let within = |share: Option<f64>| share.is_none_or(|it| it <= self.threshold_percent);
        let growth = self.is_final.then(|| self.growth());
        let is_piling_up = growth.is_some_and(|growth| growth as f64 > self.growth_max());
        let is_sustained =
            attempted > 0 && within(failed_percent) && within(lost_percent) && !is_piling_up;
        let tester_limits = self.tester_limits();
        let link_limits = self.statistics.link_limits.clone();
        // What a tester loses may look like losses of the device. Connections that it did not open
        // do not.
        let has_fault = !self.statistics.limits.is_empty();
        let is_tester_limit = has_fault || is_sustained && !tester_limits.is_empty();
        let is_fast = attempted as f64 >= OPENED_OF_FAST * self.due();
        Verdict {
            is_good: is_sustained && tester_limits.is_empty() && link_limits.is_empty(),
            is_tester_limit,
            is_disturbed: is_tester_limit && is_fast,
            is_unanswered: attempted > 0 && self.statistics.client.established == 0,
            failed_percent,
            lost_percent,
            growth_percent: growth.and_then(|growth| percent(growth, attempted)),
            is_piling_up,
            tester_limits,
            link_limits,
        }
    }

    /// Judges as cps_ndr.py does.
    pub(super) fn as_cps_ndr(&self) -> (Verdict, Outcome) {
        let sample = Sample {
            seconds: self.seconds,
            has_errors: self.statistics.has_errors(),
            sent: self.statistics.sent().packets,
            received: self.statistics.received().packets,
        };
        let outcome = sample.judge(self.threshold_percent);
        let is_good = outcome == Outcome::Good;
        let by_connections = self.by_connections();
        let verdict =
            Verdict { is_good, is_tester_limit: false, is_disturbed: false, ..by_connections };
        (verdict, outcome)
    }

    /// Returns the packets that were sent, and those of them that did not arrive.
    fn packets(&self) -> (u64, u64) {
        let sent = self.statistics.sent().packets;
        (sent, sent.saturating_sub(self.statistics.received().packets))
    }

    /// Returns by how many connections more were open at the end of the sample than before it.
    fn growth(&self) -> u64 {
        self.statistics.client.active.saturating_sub(self.active_before)
    }

    /// Returns the largest growth of a load that the device sustains.
    fn growth_max(&self) -> f64 {
        // TCP connections that are never answered are open, too.
        let share = GROWTH_MAX.max(self.threshold_percent / 100.0);
        share * self.statistics.client.attempted as f64 + GROWTH_S * self.cps + GROWTH_COUNT
    }

    /// Returns how many connections were to be opened.
    fn due(&self) -> f64 {
        self.cps * self.statistics.elapsed_s
    }

    /// Returns the limits that the tester reports; one more if it opened too few connections.
    fn tester_limits(&self) -> Vec<String> {
        let mut limits = self.statistics.limits.clone();
        let (due, attempted) = (self.due(), self.statistics.client.attempted);
        // At low rates a connection more or less says nothing.
        let is_known = !limits.is_empty() || !self.statistics.link_limits.is_empty();
        if !is_known && (attempted as f64) < OPENED_MIN * due - 1.0 {
            limits.push(format!("it opened {attempted} of {due:.0} connections"));
        }
        limits
    }
}

impl Verdict {
    /// Returns by how much open connections grew, if that shows that the device is too slow.
    pub(super) fn growth(&self) -> Option<String> {
        // Connections without any answer are no matter of speed.
        let share = self.growth_percent.filter(|_| self.is_piling_up && !self.is_unanswered)?;
        let why = "the device ends connections slower than they begin";
        Some(format!("{share:.2} % of the connections attempted piled up: {why}"))
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::{FailureCounts, Side, TrafficCounts};

    /// Returns the statistics of 1000 connections and 7000 packets in a second.
    fn sample(failed: u64, lost: u64) -> TesterStatistics {
        let packets = |packets| TrafficCounts { packets, ..TrafficCounts::default() };
        TesterStatistics {
            elapsed_s: 1.0,
            client: Side {
                attempted: 1000,
                established: 1000_u64.saturating_sub(failed),
                failed: FailureCounts { reset: failed, ..FailureCounts::default() },
                sent: packets(7000),
                received: packets(7000 - lost),
                ..Side::default()
            },
            ..TesterStatistics::default()
        }
    }

    fn judge(statistics: &TesterStatistics) -> Judge<'_> {
        let (cps, threshold_percent) = (1000.0, 0.1);
        Judge { statistics, active_before: 0, cps, threshold_percent, seconds: 1, is_final: true }
    }

    #[test]
    fn both_connections_and_packets_must_be_within_the_threshold() {
        let cases =
            [(0, 0, true), (1, 7, true), (2, 0, false), (0, 8, false), (0, 7, true), (1, 8, false)];
        for (failed, lost, is_good) in cases {
            let verdict = judge(&sample(failed, lost)).by_connections();
            assert_eq!(verdict.is_good, is_good, "{failed} {lost}");
            assert!(!verdict.is_tester_limit);
        }
        let verdict = judge(&sample(3600, 0)).by_connections();
        assert_eq!(verdict.failed_percent, Some(100.0), "older connections have failed, too");
        let verdict = judge(&sample(2, 14)).by_connections();
        assert_eq!((verdict.failed_percent, verdict.lost_percent), (Some(0.2), Some(0.2)));
    }

    /// cps_ndr.py ignores failed connections while packets balance, and sees no loss of UDP.
    #[test]
    fn cps_ndr_accepts_what_connections_do_not() {
        let failed = sample(500, 0);
        assert!(judge(&failed).as_cps_ndr().0.is_good);
        assert!(!judge(&failed).by_connections().is_good);
        let lost = sample(0, 700);
        assert!(judge(&lost).as_cps_ndr().0.is_good);
        assert!(!judge(&lost).by_connections().is_good);
        let both = sample(500, 700);
        let (verdict, outcome) = judge(&both).as_cps_ndr();
        assert!(!verdict.is_good);
        assert_eq!(outcome, Outcome::Bad { dropped: 700, sent: 7000, seconds: 1 });
    }

    #[test]
    fn packets_on_their_way_are_not_lost() {
        let on_their_way = sample(0, 70);
        let verdict = Judge { is_final: false, ..judge(&on_their_way) }.by_connections();
        assert!(verdict.is_good && verdict.lost_percent.is_none());
    }

    /// 1000 connections a second begin, and 112 of them may be open more than before.
    #[test]
    fn connections_must_end_as_fast_as_they_begin() {
        let mut statistics = sample(0, 0);
        for (before, after, percent) in
            [(500, 500, 0.0), (500, 612, 11.2), (500, 613, 11.3), (500, 0, 0.0), (0, 1000, 100.0)]
        {
            statistics.client.active = after;
            let judge = Judge { active_before: before, ..judge(&statistics) };
            let verdict = judge.by_connections();
            assert_eq!(verdict.is_good, percent <= 11.2, "{before} {after}");
            assert_eq!(verdict.is_piling_up, percent > 11.2, "{before} {after}");
            assert_eq!(verdict.growth_percent, Some(percent));
            let verdict = Judge { is_final: false, ..judge }.by_connections();
            assert!(verdict.is_good && verdict.growth_percent.is_none());
        }
    }

    /// A share of failures that is accepted, and one connection more at a low rate, are no growth.
    #[test]
    fn accepted_failures_and_single_connections_do_not_pile_up() {
        let mut statistics = sample(0, 0);
        statistics.client.active = 150;
        let verdict = Judge { threshold_percent: 5.0, ..judge(&statistics) }.by_connections();
        assert!(verdict.is_good, "5 % and 100");
        (statistics.client.attempted, statistics.client.active) = (1, 26);
        let judge = Judge { cps: 1.0, active_before: 25, ..judge(&statistics) };
        assert!(judge.by_connections().is_good);
    }

    #[test]
    fn connections_without_an_answer_at_the_end_have_failed() {
        let mut statistics = sample(0, 0);
        statistics.client.established = 998;
        let verdict = judge(&statistics).by_connections();
        assert_eq!((verdict.is_good, verdict.failed_percent), (false, Some(0.2)));
        let verdict = Judge { is_final: false, ..judge(&statistics) }.by_connections();
        assert!(verdict.is_good, "they may be answered yet");
    }

    #[test]
    fn a_slow_tester_is_the_limit() {
        let slow = sample(0, 0);
        let verdict = Judge { cps: 1020.0, ..judge(&slow) }.by_connections();
        assert!(!verdict.is_good && verdict.is_tester_limit);
        assert_eq!(verdict.tester_limits, ["it opened 1000 of 1020 connections"]);
        assert!(Judge { cps: 1010.0, ..judge(&slow) }.by_connections().is_good);
        let limits = vec!["its cpu was taken away".to_owned()];
        let told = TesterStatistics { limits, ..sample(0, 0) };
        assert!(judge(&told).by_connections().is_tester_limit);
        // A device that takes no more packets holds the tester up.
        let link_limits = vec!["the port took no more packets".to_owned()];
        let held = TesterStatistics { link_limits, ..sample(0, 0) };
        let verdict = Judge { cps: 1020.0, ..judge(&held) }.by_connections();
        assert!(!verdict.is_good && !verdict.is_tester_limit && verdict.tester_limits.is_empty());
        // If connections fail as well, the tester may have lost their packets.
        let both = TesterStatistics { client: sample(2, 0).client, ..told };
        assert!(judge(&both).by_connections().is_tester_limit);
        let failed = sample(20, 0);
        let verdict = Judge { cps: 1020.0, ..judge(&failed) }.by_connections();
        assert!(!verdict.is_tester_limit, "fewer connections than due, and yet some failed");
    }

    #[test]
    fn nothing_attempted_is_nothing_sustained() {
        let nothing = TesterStatistics { elapsed_s: 1.0, ..TesterStatistics::default() };
        let verdict = judge(&nothing).by_connections();
        assert!(!verdict.is_good && verdict.failed_percent.is_none());
    }
}
