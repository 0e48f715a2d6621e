// SPDX-License-Identifier: BSD-3-Clause
//! Simulates a device and a tester, with simulated time, so that tests know what a search must
//! find. Nothing is sent.

use super::{FailureCounts, Load, Side, Tester, TesterError, TesterStatistics, TrafficCounts};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Seconds that a connection stays open after its last message, as in TRex.
const LINGER_S: f64 = 0.5;
/// Bytes of a frame without payload: Ethernet, IPv4, FCS, and TCP or UDP.
const TCP_FRAME: f64 = 58.0;
const UDP_FRAME: f64 = 46.0;
const FRAME_MIN: f64 = 64.0;

/// A device that sustains a number of connections per second, and has room for a number of them. Of
/// more, it drops a share of all packets, or lets them wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SimulatedDevice {
    limit_cps: f64,
    /// By how much the limit of a sample is at most above or below.
    noise_percent: f64,
    seed: u64,
    /// Connections per second that the tester opens at most.
    tester_cps: f64,
    /// Connections in the device's table at most.
    capacity: f64,
    /// True if connections beyond the limit wait, and are not dropped.
    delays: bool,
    /// Rates from which and until which the device drops [`DROPPED_BETWEEN`], although it sustains
    /// more.
    drops_between: [f64; 2],
}

/// Share of the packets that are dropped at the rates of `drops_between`.
const DROPPED_BETWEEN: f64 = 0.05;

impl std::str::FromStr for SimulatedDevice {
    type Err = String;

    /// Parses `limit=CPS`, and after it `noise=PERCENT`, `seed=N`, `tester=CPS`, `capacity=N`,
    /// `delays=1`, `drops-from=CPS` and `drops-until=CPS`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut device = Self {
            limit_cps: f64::NAN,
            noise_percent: 0.0,
            seed: 1,
            tester_cps: f64::INFINITY,
            capacity: f64::INFINITY,
            delays: false,
            drops_between: [f64::INFINITY; 2],
        };
        for part in text.split(',') {
            let value = part.split_once('=').and_then(|(key, value)| {
                Some((key, value.parse::<f64>().ok().filter(|it| *it >= 0.0)?))
            });
            match value {
                Some(("limit", value)) => device.limit_cps = value,
                Some(("noise", value)) => device.noise_percent = value,
                Some(("seed", value)) => device.seed = value as u64,
                Some(("tester", value)) => device.tester_cps = value,
                Some(("capacity", value)) => device.capacity = value,
                Some(("delays", value)) => device.delays = value > 0.0,
                Some(("drops-from", value)) => device.drops_between[0] = value,
                Some(("drops-until", value)) => device.drops_between[1] = value,
                _ => {
                    return Err(format!(
                        "{part:?} is no limit=, noise=, seed=, tester=, capacity=, delays=, \
                         drops-from= or drops-until="
                    ));
                }
            }
        }
        if device.limit_cps.is_nan() {
            return Err("limit= is missing".to_owned());
        }
        Ok(device)
    }
}

impl SimulatedDevice {
    /// Returns a cable in place of the device, with the same tester.
    pub(crate) fn without_limits(self) -> Self {
        let unlimited = f64::INFINITY;
        Self {
            limit_cps: unlimited,
            noise_percent: 0.0,
            capacity: unlimited,
            delays: false,
            drops_between: [unlimited; 2],
            ..self
        }
    }
}

/// A tester in front of a [`SimulatedDevice`].
pub(crate) struct SimulatedTester {
    device: SimulatedDevice,
    load: Option<Load>,
    /// Seconds since the load started; past its ramp if the rate was changed.
    age_s: f64,
    /// Connections per second that the device sustains in this sample.
    limit_cps: f64,
    random: u64,
    counted: Counted,
    /// Established connections per second in the last step.
    established_cps: f64,
    /// Connections since the load started: opened, and established.
    opened: f64,
    established: f64,
    /// Connections that wait for the device.
    waiting: f64,
    /// Age of the load when its last connection was opened.
    opened_until_s: f64,
    /// Requests of each connection of the load.
    messages: u64,
    /// Connections that had ended after their hold when the load stopped.
    completed_at_stop: Option<u64>,
}

/// Counters since the last clear.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    elapsed_s: f64,
    attempted: f64,
    failed: f64,
    /// Packets, bytes, bytes of payload and packets of TCP that clients sent, and servers.
    sent: [[f64; 4]; 2],
    received: [[f64; 4]; 2],
    has_tester_limit: bool,
}

impl SimulatedTester {
    pub(crate) fn new(device: SimulatedDevice) -> Self {
        let mut tester = Self {
            device,
            load: None,
            age_s: 0.0,
            limit_cps: device.limit_cps,
            random: device.seed,
            counted: Counted::default(),
            established_cps: 0.0,
            opened: 0.0,
            established: 0.0,
            waiting: 0.0,
            opened_until_s: 0.0,
            messages: 0,
            completed_at_stop: None,
        };
        tester.begin_sample();
        tester
    }

    fn begin_sample(&mut self) {
        self.counted = Counted::default();
        // SplitMix64 of Steele, Lea and Flood.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        let noise = self.device.noise_percent / 100.0 * (2.0 * uniform - 1.0);
        self.limit_cps = self.device.limit_cps * (1.0 + noise);
    }

    /// Lets a second of the load pass, or less.
    fn step(&mut self, seconds: f64) {
        let Some(load) = self.load else { return };
        let due = |age: f64| {
            let ramp = f64::from(load.ramp_up_s);
            let lost_by_ramp = if age < ramp { age - age * age / (2.0 * ramp) } else { ramp / 2.0 };
            load.cps * (age - lost_by_ramp)
        };
        let due_cps = (due(self.age_s + seconds) - due(self.age_s)) / seconds;
        let life = load.connection_seconds() + LINGER_S;
        let cap = load.max_flows.map_or(f64::INFINITY, |flows| f64::from(flows) / life);
        let left = load.total_flows.map_or(f64::INFINITY, |it| f64::from(it) - self.opened);
        let cps = due_cps.min(self.device.tester_cps).min(cap);
        let attempted = (cps * seconds).min(left);
        // Connections whose packets are sent in this step, and the share of them that is lost.
        let (served, lost) = match self.device.delays {
            true => (self.serve(attempted, seconds), 0.0),
            false => (attempted, self.loss_ratio(&load, cps, attempted)),
        };
        if attempted > 0.0 {
            self.opened += attempted;
            self.established += attempted * (1.0 - lost);
            self.opened_until_s = self.age_s + attempted / cps;
        }
        let counted = &mut self.counted;
        counted.elapsed_s += seconds;
        counted.attempted += attempted;
        counted.failed += attempted * lost;
        counted.has_tester_limit |= due_cps > self.device.tester_cps && left > 0.0;
        for (side, each) in packets(&load).into_iter().enumerate() {
            for (kind, each) in each.into_iter().enumerate() {
                let sent = each * served;
                counted.sent[side][kind] += sent;
                counted.received[1 - side][kind] += sent * (1.0 - lost);
            }
        }
        self.established_cps = match self.device.delays {
            true => served / seconds,
            false => cps * (1.0 - lost),
        };
        self.age_s += seconds;
    }

    /// Returns how many connections a device that delays serves in a step in which as many are
    /// attempted. The others wait.
    fn serve(&mut self, attempted: f64, seconds: f64) -> f64 {
        let due = self.waiting + attempted;
        let served = due.min(self.limit_cps * seconds);
        self.waiting = due - served;
        served
    }

    /// Returns the share of the connections of a step that the device does not sustain.
    fn loss_ratio(&self, load: &Load, cps: f64, attempted: f64) -> f64 {
        if attempted <= 0.0 {
            return 0.0;
        }
        let life = load.connection_seconds() + LINGER_S;
        let (rate, room) = match load.hold_ms {
            // The number of open connections follows from the rate.
            0 => (self.limit_cps.min(self.device.capacity / life), f64::INFINITY),
            _ => (self.limit_cps, (self.device.capacity - self.established).max(0.0)),
        };
        let [from, until] = self.device.drops_between;
        let dropped = if (from..until).contains(&cps) { DROPPED_BETWEEN } else { 0.0 };
        (1.0 - (rate / cps).min(room / attempted)).max(dropped)
    }

    /// Returns the connections of a load that have ended after their hold, since it started.
    fn completed(&self, load: &Load) -> f64 {
        let since = self.age_s - load.connection_seconds();
        let share = since / self.opened_until_s.max(f64::MIN_POSITIVE);
        self.established * share.clamp(0.0, 1.0)
    }

    fn active(&self) -> u64 {
        let Some(load) = &self.load else { return 0 };
        if load.hold_ms > 0 {
            return (self.established - self.completed(load)).round() as u64;
        }
        let life = load.connection_seconds() + LINGER_S;
        (self.established_cps * life.min(self.age_s) + self.waiting).round() as u64
    }
}

/// Returns what the client and the server of a mean connection send: packets, bytes, bytes of
/// payload and packets of TCP.
fn packets(load: &Load) -> [[f64; 4]; 2] {
    let (messages, size) = (f64::from(load.messages), f64::from(load.message_size));
    let udp = load.udp_percent / 100.0;
    // The client sends SYN, ACK and FIN; the server SYN+ACK and FIN.
    [3.0, 2.0].map(|others| {
        let tcp_packets = (1.0 - udp) * (others + messages);
        let tcp_bytes = others * FRAME_MIN + messages * (TCP_FRAME + size).max(FRAME_MIN);
        let udp_bytes = messages * (UDP_FRAME + size).max(FRAME_MIN);
        let bytes = (1.0 - udp) * tcp_bytes + udp * udp_bytes;
        [tcp_packets + udp * messages, bytes, messages * size, tcp_packets]
    })
}

fn whole(counts: [f64; 4]) -> TrafficCounts {
    let [packets, bytes, payload_bytes, tcp_packets] = counts.map(|count| count.round() as u64);
    TrafficCounts { packets, bytes, payload_bytes, tcp_packets }
}

impl Tester for SimulatedTester {
    fn start(&mut self, load: &Load) -> Result<(), TesterError> {
        (self.load, self.age_s) = (Some(*load), 0.0);
        (self.opened, self.established, self.waiting, self.opened_until_s) = (0.0, 0.0, 0.0, 0.0);
        (self.messages, self.completed_at_stop) = (load.messages.into(), None);
        self.begin_sample();
        Ok(())
    }

    fn update(&mut self, cps: f64) -> Result<(), TesterError> {
        let load = self.load.as_mut().ok_or(TesterError::Idle)?;
        load.cps = cps;
        self.age_s = self.age_s.max(f64::from(load.ramp_up_s));
        Ok(())
    }

    fn stop(&mut self) -> Result<(), TesterError> {
        if let Some(load) = self.load.take().filter(|load| load.hold_ms > 0) {
            self.completed_at_stop = Some(self.completed(&load).round() as u64);
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), TesterError> {
        self.begin_sample();
        Ok(())
    }

    fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
        let (counted, active) = (&self.counted, self.active());
        let attempted = counted.attempted.round() as u64;
        let failed = counted.failed.round() as u64;
        let established = attempted - failed.min(attempted);
        let completed = match &self.load {
            Some(load) if load.hold_ms > 0 => self.completed(load).round() as u64,
            _ => self.completed_at_stop.unwrap_or(established),
        };
        let responses = established * self.messages;
        let side = |side: usize, attempted, no_answer| Side {
            attempted,
            established,
            completed,
            responses: if side == 0 { responses } else { 0 },
            failed: FailureCounts { no_answer, ..FailureCounts::default() },
            active,
            sent: whole(counted.sent[side]),
            received: whole(counted.received[side]),
            ..Side::default()
        };
        let limit = || format!("it opens at most {} connections/s", self.device.tester_cps);
        Ok(TesterStatistics {
            elapsed_s: counted.elapsed_s,
            client: side(0, attempted, failed),
            server: side(1, established, 0),
            setup: None,
            first_byte: None,
            response: None,
            longest_gap_ns: 0,
            rates: None,
            limits: counted.has_tester_limit.then(limit).into_iter().collect(),
            link_limits: Vec::new(),
        })
    }

    fn wait(&mut self, time: Duration, _: &AtomicBool) -> Result<(), TesterError> {
        let mut left = time.as_secs_f64();
        while left > 0.0 {
            self.step(left.min(1.0));
            left -= 1.0;
        }
        Ok(())
    }

    fn is_simulated(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(device: &str, load: &Load, seconds: u64) -> TesterStatistics {
        let mut tester = SimulatedTester::new(device.parse().unwrap());
        let never = AtomicBool::new(false);
        tester.start(load).unwrap();
        tester.wait(Duration::from_secs(10), &never).unwrap();
        tester.clear().unwrap();
        tester.wait(Duration::from_secs(seconds), &never).unwrap();
        tester.statistics().unwrap()
    }

    /// The article's device had 20,900 connections open at 41,400 short ones each second, and
    /// 25,100 at 971 connections that live 25 seconds.
    #[test]
    fn connections_are_open_as_long_as_those_of_the_article() {
        let short = sample("limit=41700", &Load::of_rate(41_400.0), 10);
        assert_eq!((short.client.active, short.client.attempted), (20_700, 414_000));
        assert_eq!(short.sent().packets, 7 * 414_000);
        assert_eq!(short.sent(), short.received());
        assert!(!short.has_errors());
        let load = Load { messages: 500, server_wait_ms: 50, ..Load::of_rate(971.0) };
        assert_eq!(sample("limit=977", &load, 20).client.active, 24_761);
    }

    #[test]
    fn more_than_the_limit_is_lost_in_proportion() {
        let over = sample("limit=1000", &Load::of_rate(1250.0), 8);
        assert_eq!((over.client.attempted, over.failed()), (10_000, 2000));
        assert_eq!((over.sent().packets, over.received().packets), (70_000, 56_000));
        let limited = sample("limit=1000,tester=500", &Load::of_rate(1250.0), 8);
        assert_eq!((limited.client.attempted, limited.failed()), (4000, 0));
        assert_eq!(limited.limits, ["it opens at most 500 connections/s"]);
    }

    #[test]
    fn a_table_that_is_full_refuses_the_rest() {
        let never = AtomicBool::new(false);
        let mut tester = SimulatedTester::new("limit=5000,capacity=1500".parse().unwrap());
        let load =
            Load { total_flows: Some(2000), hold_ms: 3000, ramp_up_s: 0, ..Load::of_rate(1000.0) };
        tester.start(&load).unwrap();
        tester.wait(Duration::from_secs(2), &never).unwrap();
        let open = tester.statistics().unwrap();
        assert_eq!((open.client.attempted, open.client.active, open.failed()), (2000, 1500, 500));
        tester.wait(Duration::from_secs(2), &never).unwrap();
        assert_eq!(tester.statistics().unwrap().client.completed, 750);
        tester.wait(Duration::from_secs(2), &never).unwrap();
        tester.stop().unwrap();
        let end = tester.statistics().unwrap();
        assert_eq!(
            (end.client.attempted, end.client.completed, end.client.active),
            (2000, 1500, 0)
        );
    }

    #[test]
    fn faulty_devices_are_refused() {
        for text in ["", "noise=1", "limit", "limit=x", "limit=-1", "limit=1,more=2"] {
            assert!(text.parse::<SimulatedDevice>().is_err(), "{text}");
        }
    }
}
