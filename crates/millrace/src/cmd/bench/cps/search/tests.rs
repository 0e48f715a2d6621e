// SPDX-License-Identifier: BSD-3-Clause
//! Tests searches on simulated devices, and the lines of recorded samples.

use super::*;
use crate::tester::{Rates, Side, SimulatedTester, TesterError, TrafficCounts};

fn settings(rule: Rule, [min_cps, max_cps]: [f64; 2]) -> Settings {
    Settings {
        load: Load { udp_percent: 1.0, ..Load::of_rate(0.0) },
        min_cps,
        max_cps,
        adaptive_window_percent: 0.0,
        max_iterations: None,
        sample_time_s: 30,
        threshold_percent: 0.02,
        reset_command: None,
        rule,
    }
}

/// Runs a search; returns its lines, and what it found.
fn search(settings: &Settings, tester: &mut dyn Tester) -> (Vec<String>, Found) {
    let (mut out, never) = (Vec::new(), AtomicBool::new(false));
    let printer = Printer { out: &mut out, is_coloured: false, is_verbose: false };
    let mut search = Search::new(settings, tester, printer, &never);
    search.run().unwrap();
    let found = search.into_found();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(str::to_owned).collect(), found)
}

fn simulated(device: &str) -> SimulatedTester {
    SimulatedTester::new(device.parse().unwrap())
}

#[test]
fn the_limit_of_a_device_is_found_and_confirmed() {
    for limit in [1234.0, 41_700.0, 99_000.0] {
        let settings = settings(Rule::Connections, [1e3, 100e3]);
        let (lines, found) = search(&settings, &mut simulated(&format!("limit={limit}")));
        let cps = found.cps.unwrap();
        assert!(cps <= 1.0003 * limit && cps > 0.99 * limit, "{cps} of {limit}");
        assert!(found.is_confirmed && !found.is_largest);
        let last = lines.last().unwrap();
        assert!(last.starts_with("lowest rate that failed: "), "{last}");
        assert!(lines.iter().any(|line| line.starts_with("... final trial: current=")));
        let good = found.trials.iter().filter(|trial| trial.verdict.is_good);
        assert!(good.clone().all(|trial| trial.seconds == 30));
        // The first second shows that a rate is far too high.
        assert!(found.trials.iter().filter(|it| !it.verdict.is_good).all(|it| it.seconds == 1));
    }
}

/// It loses nothing, and its connections take longer and longer.
#[test]
fn the_limit_of_a_device_that_delays_is_found_too() {
    for (limit, messages) in [(41_700.0, 1), (1234.0, 500)] {
        let mut settings = settings(Rule::Connections, [1e3, 100e3]);
        (settings.load.messages, settings.load.server_wait_ms) = (messages, 50);
        let (lines, found) = search(&settings, &mut simulated(&format!("limit={limit},delays=1")));
        let cps = found.cps.unwrap();
        // 30 seconds: 1 % and a tenth of a second of the rate may pile up.
        assert!(cps <= 1.014 * limit && cps > 0.99 * limit, "{cps} of {limit}");
        let why = "the connections attempted piled up: the device ends connections slower than";
        assert!(lines.iter().any(|line| line.contains(why)), "{lines:?}");
        let bad = found.trials.iter().filter(|trial| !trial.verdict.is_good);
        assert!(bad.clone().all(|trial| trial.verdict.failed_percent == Some(0.0)));
        assert!(bad.clone().all(|trial| !trial.verdict.is_tester_limit));
    }
}

#[test]
fn both_bounds_are_verified() {
    let settings = settings(Rule::Connections, [1e3, 2e3]);
    let (lines, found) = search(&settings, &mut simulated("limit=5000"));
    assert_eq!((found.cps, found.is_largest), (Some(2000.0), true));
    let last = &lines[lines.len() - 2..];
    assert_eq!(last[0], "result: >= 2000 connections/s, confirmed by a final trial of 30 s");
    assert_eq!(last[1], "the device sustains the largest rate: raise --max-cps");
    let (lines, found) = search(&settings, &mut simulated("limit=900"));
    assert_eq!(found.cps, None);
    assert_eq!(
        lines.last().unwrap(),
        "result: none: the device did not sustain the smallest rate, 1000 connections/s; lower \
         --min-cps"
    );
    let (_, found) = search(&settings, &mut simulated("limit=1000"));
    assert_eq!(found.cps, Some(1000.0));
}

/// The second rate is the smallest one, and the search ends. One that is answered there goes on.
#[test]
fn a_device_that_answers_nothing_is_given_up() {
    /// Answers connections up to a rate.
    struct Answering(SimulatedTester, f64, f64);
    impl Tester for Answering {
        fn start(&mut self, load: &Load) -> Result<(), TesterError> {
            self.2 = load.cps;
            self.0.start(load)
        }
        fn update(&mut self, cps: f64) -> Result<(), TesterError> {
            self.0.update(cps)
        }
        fn stop(&mut self) -> Result<(), TesterError> {
            self.0.stop()
        }
        fn clear(&mut self) -> Result<(), TesterError> {
            self.0.clear()
        }
        fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
            let mut statistics = self.0.statistics()?;
            if self.2 > self.1 {
                statistics.client.established = 0;
            }
            Ok(statistics)
        }
        fn wait(&mut self, time: Duration, flag: &AtomicBool) -> Result<(), TesterError> {
            self.0.wait(time, flag)
        }
    }
    let settings = settings(Rule::Connections, [1e3, 100e3]);
    let answering = |to| Answering(simulated("limit=1e9"), to, 0.0);
    let (lines, found) = search(&settings, &mut answering(10.0));
    assert_eq!(found.trials.iter().map(|it| it.cps).collect::<Vec<_>>(), [50_500.0, 1000.0]);
    let last = lines.last().unwrap();
    assert!(
        last.starts_with("result: none: no connection was answered, not even of 1000 a second")
    );
    let (_, found) = search(&settings, &mut answering(20e3));
    assert!((19_800.0..=20e3).contains(&found.cps.unwrap()), "{:?}", found.cps);
}

/// A rate that was good once by luck is not the result.
#[test]
fn a_noisy_device_is_not_overrated() {
    for seed in 1..40 {
        let device = format!("limit=41700,noise=5,seed={seed}");
        let settings = settings(Rule::Connections, [1e3, 100e3]);
        let (_, found) = search(&settings, &mut simulated(&device));
        let cps = found.cps.unwrap();
        assert!(cps <= 1.05 * 41_700.0 && cps > 0.94 * 41_700.0, "{cps}, seed {seed}");
        let good = found.trials.iter().filter(|it| it.cps == cps && it.verdict.is_good).count();
        assert!(good >= 2 || cps == 1e3, "{cps}, seed {seed}");
    }
}

/// Also below a rate that was refuted: each bisection has so many rates.
#[test]
fn a_number_of_iterations_bounds_each_bisection() {
    let mut refuted = 0;
    for seed in 1..20 {
        let device = format!("limit=41700,noise=5,seed={seed}");
        let mut settings = settings(Rule::Connections, [30e3, 50e3]);
        settings.max_iterations = Some(4);
        let (lines, _) = search(&settings, &mut simulated(&device));
        let searches = lines.split(|line| line.starts_with("... final") || line.contains("smalle"));
        for (number, lines) in searches.enumerate() {
            let rates = lines.iter().filter(|line| line.starts_with("... ")).count();
            assert!(rates <= 4, "{lines:?}");
            refuted += usize::from(number > 0 && rates == 4);
        }
    }
    assert!(refuted > 0);
}

#[test]
fn a_tester_slower_than_the_device_is_named() {
    let settings = settings(Rule::Connections, [1e3, 100e3]);
    let (lines, found) = search(&settings, &mut simulated("limit=80000,tester=30000"));
    let cps = found.cps.unwrap();
    assert!(cps <= 30_000.0 && cps > 29_700.0, "{cps}");
    let result = &lines[lines.len() - 2];
    assert!(result.starts_with(&format!("result: >= {cps:.0} connections/s, ")), "{result}");
    assert_eq!(
        lines.last().unwrap(),
        "the generator may be the limit above it: it opens at most 30000 connections/s"
    );
    let (lines, found) = search(&settings, &mut simulated("limit=80000,tester=900"));
    assert_eq!(found.cps, None);
    let result = lines.last().unwrap();
    assert!(
        result.starts_with("result: none: the generator may be the limit at 1000 "),
        "{result}"
    );
}

#[test]
fn a_signal_prints_the_best_so_far() {
    /// Sets the flag of the signal at the given call of `clear`.
    struct Interrupting<'a>(SimulatedTester, u32, &'a AtomicBool);
    impl Tester for Interrupting<'_> {
        fn start(&mut self, load: &Load) -> Result<(), TesterError> {
            self.0.start(load)
        }
        fn update(&mut self, cps: f64) -> Result<(), TesterError> {
            self.0.update(cps)
        }
        fn stop(&mut self) -> Result<(), TesterError> {
            self.0.stop()
        }
        fn clear(&mut self) -> Result<(), TesterError> {
            self.1 -= 1;
            self.2.store(self.1 == 0, Ordering::Relaxed);
            self.0.clear()
        }
        fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
            self.0.statistics()
        }
        fn wait(&mut self, time: Duration, flag: &AtomicBool) -> Result<(), TesterError> {
            self.0.wait(time, flag)
        }
    }
    // A good rate takes samples of 1, 10 and 30 seconds, a bad one a single sample.
    for (clears, best) in [(1, None), (3, None), (5, Some(25_750.0))] {
        for rule in [Rule::CpsNdr, Rule::Connections] {
            let (settings, flag) = (settings(rule, [1e3, 100e3]), AtomicBool::new(false));
            let mut tester = Interrupting(simulated("limit=41700"), clears, &flag);
            let mut out = Vec::new();
            let printer = Printer { out: &mut out, is_coloured: false, is_verbose: false };
            let mut search = Search::new(&settings, &mut tester, printer, &flag);
            search.run().unwrap();
            let found = search.into_found();
            assert!(found.is_interrupted && !found.is_confirmed && found.best() == best);
            let text = String::from_utf8(out).unwrap();
            let expected = match best {
                Some(cps) => format!("best so far: {cps:.0} connections/s, not confirmed\n"),
                None => "best so far: none\n".to_owned(),
            };
            assert!(text.ends_with(&expected), "{text}");
        }
    }
}

/// Plays recorded samples, and notes the calls.
struct Recorded {
    samples: Vec<TesterStatistics>,
    calls: Vec<String>,
}

impl Tester for Recorded {
    fn start(&mut self, load: &Load) -> Result<(), TesterError> {
        self.calls.push(format!("start {}", load.cps));
        Ok(())
    }
    fn update(&mut self, cps: f64) -> Result<(), TesterError> {
        self.calls.push(format!("update {cps}"));
        Ok(())
    }
    fn stop(&mut self) -> Result<(), TesterError> {
        self.calls.push("stop".to_owned());
        Ok(())
    }
    fn clear(&mut self) -> Result<(), TesterError> {
        self.samples.remove(0);
        self.calls.push("clear".to_owned());
        Ok(())
    }
    fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
        Ok(self.samples[0].clone())
    }
    fn wait(&mut self, time: Duration, _: &AtomicBool) -> Result<(), TesterError> {
        self.calls.push(format!("wait {}", time.as_secs()));
        Ok(())
    }
}

/// Returns a sample with these packets, and the rates that TRex had then.
fn recorded(sent: u64, dropped: u64) -> TesterStatistics {
    let traffic = |packets| TrafficCounts { packets, ..TrafficCounts::default() };
    let payload = |payload_bytes, tcp_packets| TrafficCounts {
        payload_bytes,
        tcp_packets,
        ..TrafficCounts::default()
    };
    let client = Side { attempted: 50_100, established: 50_100, active: 26_800, ..Side::default() };
    TesterStatistics {
        elapsed_s: 1.0,
        client: Side {
            sent: TrafficCounts { packets: sent, ..payload(1_002_000, 200_400) },
            received: payload(1_002_000, 245_000),
            errors: [("tcps_rexmttimeo".to_owned(), dropped)].into(),
            ..client
        },
        server: Side { received: traffic(sent - dropped), ..Side::default() },
        rates: Some(Rates {
            opened_cps: 50_100.0,
            sent_bps: 215e6,
            sent_pps: 345e3,
            received_bps: 215e6,
            received_pps: 345e3,
        }),
        ..TesterStatistics::default()
    }
}

/// Returns the lines of a search that sees these samples, in the way of cps_ndr.py. The first
/// sample is there before the counters are cleared.
fn compat_lines(samples: &[TesterStatistics], iterations: u32, sample_time_s: u32) -> Vec<String> {
    let settings = Settings {
        max_iterations: Some(iterations),
        sample_time_s,
        ..settings(Rule::CpsNdr, [1e3, 100e3])
    };
    let samples = [&[samples[0].clone()], samples].concat();
    search(&settings, &mut Recorded { samples, calls: Vec::new() }).0
}

/// The first iteration of the article, with its short-lived connections.
#[test]
fn recorded_samples_give_the_lines_of_the_article() {
    assert_eq!(
        compat_lines(&[recorded(337_126, 1600)], 1, 30),
        [
            "... iteration #1: lower=1.0K current=50.5K upper=100K",
            "▼▼▼ Flows: active 26.8K (50.1K/s) TX: 215Mb/s (345Kp/s) RX: 215Mb/s (345Kp/s) \
             Size: ~4.5B",
            "err dropped: 1.6K pkts (1.6K/s) ~ 0.4746%",
        ]
    );
    // A good load passes samples of 1, 10 and 30 seconds.
    let lines = compat_lines(&[0, 0, 0].map(|dropped| recorded(337_126, dropped)), 1, 30);
    assert_eq!(
        lines[1..],
        ["▲▲▲ Flows: active 26.8K (50.1K/s) TX: 215Mb/s (345Kp/s) RX: 215Mb/s (345Kp/s) \
          Size: ~4.5B"]
    );
}

/// Later iterations failed in the sample of 10 seconds.
#[test]
fn recorded_drops_are_divided_by_the_step_that_failed() {
    for (dropped, text) in
        [(1250, "1.2K pkts (125/s)"), (994, "994 pkts (99/s)"), (877, "877 pkts (87/s)")]
    {
        let lines = compat_lines(&[recorded(337_126, 0), recorded(3_000_000, dropped)], 1, 30);
        let share = 100.0 * dropped as f64 / 3e6;
        assert_eq!(lines[2], format!("err dropped: {text} ~ {share:.4}%"));
    }
}

/// After a good load the rate is changed while traffic goes on; after a bad one, or with a reset
/// command, the load stops and the device rests.
#[test]
fn loads_follow_each_other_as_in_cps_ndr() {
    let calls = |reset_command: Option<&str>| {
        let samples = [0, 0, 90_000, 0].map(|dropped| recorded(337_126, dropped));
        let mut tester = Recorded { samples: samples.to_vec(), calls: Vec::new() };
        let settings = Settings {
            max_iterations: Some(3),
            sample_time_s: 1,
            reset_command: reset_command.map(str::to_owned),
            ..settings(Rule::CpsNdr, [1e3, 100e3])
        };
        search(&settings, &mut tester);
        tester.calls.retain(|call| call != "clear" && call != "wait 1");
        tester.calls
    };
    let usual = calls(None);
    assert_eq!(usual, ["start 50500", "update 75250", "stop", "wait 3", "start 62875", "stop"]);
    let with_reset = calls(Some("true"));
    assert_eq!(with_reset, ["start 50500", "stop", "start 75250", "stop", "start 62875", "stop"]);
}

/// Packets on their way do not count as lost: the load stops before the last counters are read.
#[test]
fn the_load_stops_before_its_packets_are_counted() {
    let samples = [0, 0].map(|dropped| recorded(337_126, dropped));
    let mut tester = Recorded { samples: samples.to_vec(), calls: Vec::new() };
    let settings = Settings {
        max_iterations: Some(1),
        sample_time_s: 1,
        ..settings(Rule::Connections, [49e3, 51e3])
    };
    let never = AtomicBool::new(false);
    let mut out = Vec::new();
    let printer = Printer { out: &mut out, is_coloured: true, is_verbose: false };
    let mut search = Search::new(&settings, &mut tester, printer, &never);
    assert_eq!(search.trial(50_000.0).unwrap(), Some(true));
    // The ramp takes 3 seconds.
    let waits = ["start 50000", "wait 1", "wait 1", "wait 1", "clear", "wait 1", "stop"];
    assert_eq!(tester.calls[..7], waits);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("\x1b[32m▲▲▲\x1b[0m Flows: active 26.8K"), "{text}");
    assert!(
        text.contains("\n    success: 100.0000% of 50.1K connections; lost: 0 of 337K "),
        "{text}"
    );
}
