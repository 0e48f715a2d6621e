// SPDX-License-Identifier: BSD-3-Clause
//! Implements [`Tester`] by the stateful generator of this process.

use super::load::is_allowed;
use super::statistics::{FailureCounts, LatencyPercentiles, Side, TrafficCounts};
use super::{Load, OfferedProfile, Tester, TesterError, TesterStatistics};
use crate::connections::{EndTotals, PortCounts, Session, SessionOptions, Totals, overdue_max};
use crate::ports::PortNames;
use hdrhistogram::Histogram;
use stateful::{AddressRange, Counter, Counters, Profile, Timeouts};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Longest wait for open connections when a load stops.
const DRAIN: Duration = Duration::from_secs(1);
/// Longest wait for connections that are cut off.
const ABORTING: Duration = Duration::from_secs(2);
/// Time between two looks at the counters.
const TURN: Duration = Duration::from_millis(10);
/// Time for packets on their way to arrive.
const ON_THEIR_WAY: Duration = Duration::from_millis(100);
/// Share of the connections that are due and must be opened until a load stops.
const OPENED_MIN: f64 = 0.99;
/// Times that connections had to wait for room at the port, for each one opened, from which on the
/// port and not the generator is slow. Up to 32 connections are opened at a time.
const HELD_BACK_MIN: f64 = 0.001;
/// Connections of each end at a time, unless the load has more in total. A larger table is slower.
pub(crate) const CAPACITY: u32 = 4_000_000;
/// Bytes of the FCS, which drivers do not count.
const FCS: u64 = 4;

/// Clients and servers on ports of this process.
pub(crate) struct GeneratorTester {
    session: Session,
    profile: Arc<Profile>,
    /// The last load. For a profile of a client, only `cps` and `ramp_up_s` mean something.
    load: Load,
    /// True if the profile was made from the load, and the tasks have it.
    is_of_load: bool,
    /// Addresses of the clients and servers of loads.
    addresses: [AddressRange; 2],
    is_running: bool,
    /// The counts when they were cleared, and the time of that.
    base: Base,
    /// Seconds that were counted until the load stopped, and connections that were due then.
    stopped_after_s: Option<f64>,
    overdue_at_stop: u64,
    /// Failures of clients and servers until connections were cut off: the other end counts each
    /// of those as reset.
    failed_before_abort: Option<[FailureCounts; 2]>,
}

/// Counts from which others are counted.
#[derive(Default)]
struct Base {
    client: Counters,
    server: Counters,
    missed: Vec<u64>,
    at_s: f64,
}

impl GeneratorTester {
    /// Opens the ports. `options` has the profile of [`profile_of`] `load`.
    pub(crate) fn open(
        names: &PortNames,
        options: &SessionOptions<'_>,
        load: Load,
        interrupted: &AtomicBool,
    ) -> Result<Self, TesterError> {
        let session = Session::open(names, options, interrupted)?;
        Ok(Self {
            session,
            profile: Arc::clone(&options.profile),
            load,
            is_of_load: true,
            addresses: [options.profile.clients, options.profile.servers],
            is_running: false,
            base: Base::default(),
            stopped_after_s: None,
            overdue_at_stop: 0,
            failed_before_abort: None,
        })
    }

    fn multiplier(&self, cps: f64) -> f64 {
        cps / self.profile.cps()
    }

    /// Gives the tasks another profile. If one of them does not take it, the next load is started
    /// with a new profile, too.
    fn replace_profile(&mut self, profile: &Arc<Profile>, capacity: u32) -> anyhow::Result<()> {
        self.is_of_load = false;
        self.session.replace_profile(profile, capacity)?;
        self.profile = Arc::clone(profile);
        Ok(())
    }

    /// Starts the load whose profile the session has.
    fn begin(&mut self) -> Result<(), TesterError> {
        self.begin_counting();
        (self.stopped_after_s, self.overdue_at_stop) = (None, 0);
        let ramp = Duration::from_secs(self.load.ramp_up_s.into());
        self.session.start(self.multiplier(self.load.cps), ramp)?;
        self.is_running = true;
        Ok(())
    }

    /// Takes new counts as those from which others are counted.
    fn begin_counting(&mut self) {
        self.session.wait_for_reports();
        let totals = self.session.poll();
        let counters = |end: &Option<EndTotals>| end.as_ref().map(|it| it.counters);
        let (client, server) = (counters(&totals.client), counters(&totals.server));
        self.base = Base {
            client: client.unwrap_or_default(),
            server: server.unwrap_or_default(),
            missed: self.session.ports().iter().map(missed).collect(),
            at_s: self.session.reported_until(),
        };
        self.session.clear_latencies();
        self.failed_before_abort = None;
    }

    fn has_active(&mut self) -> bool {
        let Totals { client, server } = self.session.poll();
        [client, server].into_iter().flatten().any(|end| end.counters.active() > 0)
    }

    /// Returns why the generator itself limited the load, and why the device or the link did.
    fn limits(&self, [client, server]: &[Counters; 2], overdue: u64) -> [Vec<String>; 2] {
        let (mut limits, mut of_link) = (Vec::new(), Vec::new());
        let attempted = client[Counter::Attempted].max(1);
        let tolerated = overdue_max(attempted, self.load.cps);
        // A load that has stopped was limited if it lacks connections. Some that were late at its
        // end were late at its beginning, too.
        let lacks = |seconds: f64| (attempted as f64) < OPENED_MIN * self.load.cps * seconds - 1.0;
        let overdue = match self.stopped_after_s {
            Some(seconds) if lacks(seconds) => self.overdue_at_stop,
            Some(_) => 0,
            None => overdue,
        };
        if overdue as f64 > tolerated {
            let is_held_back = client[Counter::HeldBack] as f64 > attempted as f64 * HELD_BACK_MIN;
            let (reasons, why) = match is_held_back {
                true => (&mut of_link, "the port took no more packets"),
                false => (&mut limits, "the generator was too slow"),
            };
            reasons.push(format!("{overdue} connections were due and not opened yet: {why}"));
        }
        // Those without a record of memory are counted as an error.
        let without_tuple = client[Counter::Unopened].saturating_sub(client[Counter::TableFull]);
        if without_tuple as f64 > tolerated {
            let why = "were not opened: all their addresses and ports were in use";
            limits.push(format!("{without_tuple} connections {why}"));
        }
        let lost = client[Counter::HandOffsLost] + server[Counter::HandOffsLost];
        if lost > 0 {
            limits.push(format!("{lost} packets were lost between tasks of the generator"));
        }
        for (port, before) in self.session.ports().iter().zip(&self.base.missed) {
            let missed = missed(port).saturating_sub(*before);
            if missed > 0 {
                let name = &port.name;
                limits.push(format!("port {name} missed {missed} packets: it had no room"));
            }
        }
        [limits, of_link]
    }
}

/// Returns the rate of a profile, unless it is too high.
fn allowed(cps: f64) -> Result<f64, TesterError> {
    if is_allowed(cps) { Ok(cps) } else { Err(TesterError::TooFast { cps }) }
}

/// Returns the frames that a port dropped because this host was too slow.
fn missed(port: &PortCounts) -> u64 {
    port.stats.imissed + port.stats.rx_nombuf
}

/// Returns the profile of a load, with the ports and messages of cps_ndr.py.
///
/// # Errors
/// If clients and servers cannot have these addresses.
pub(crate) fn profile_of(
    load: &Load,
    [clients, servers]: [AddressRange; 2],
) -> anyhow::Result<Profile> {
    let Load { messages, message_size, server_wait_ms, hold_ms, .. } = *load;
    let mut text = format!("clients = \"{clients}\"\nservers = \"{servers}\"\n");
    let delay = |ms: u32| match ms {
        0 => String::new(),
        ms => format!("{{ delay_ms = {ms} }}, "),
    };
    let (send, receive) =
        (format!("{{ send = {message_size} }}"), format!("{{ receive = {message_size} }}"));
    let [mut client_first, mut server_first] = [String::new(), String::new()];
    if hold_ms > 0 {
        // The server breaks the silence: a device that has forgotten the connection would learn it
        // again from a packet of its client (RFC 9693, validation). The delay ends the response, so
        // that the silence is no part of its time.
        client_first = format!("{send}, {receive}, {{ delay_us = 1 }}, {receive}, ");
        server_first = format!("{receive}, {send}, {}{send}, ", delay(hold_ms));
        // A server that waits so long has not lost its client.
        let idle_ms = u64::from(hold_ms) + u64::from(Timeouts::default().idle_ms);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[timeouts]\nidle_ms = {idle_ms}");
    }
    let wait = delay(server_wait_ms);
    for (proto, port, cps, limit) in kinds_of(load) {
        let _ = writeln!(
            text,
            "[[template]]\nname = \"{proto}\"\nproto = \"{proto}\"\nport = {port}\n\
             cps = {cps:?}\ncontinuous = {}\n\
             client = [{client_first}{{ repeat = {messages}, do = [{send}, {receive}] }}]\n\
             server = [{server_first}{{ repeat = {messages}, do = [{receive}, {wait}{send}] }}]",
            load.total_flows.is_none()
        );
        if let Some(limit) = limit {
            let _ = writeln!(text, "limit = {limit}");
        }
    }
    Ok(Profile::from_toml(&text, &|_| Err(String::new()))?)
}

/// Returns the kinds of connections of a load: protocol, port, share in percent, and limit.
fn kinds_of(load: &Load) -> Vec<(&'static str, u16, f64, Option<u64>)> {
    let udp = load.udp_percent / 100.0;
    let udp_in_total = load.total_flows.map(|total| (f64::from(total) * udp).round() as u64);
    let most = |share: f64| load.max_flows.map(|most| (f64::from(most) * share).max(1.0) as u64);
    let tcp_in_total =
        load.total_flows.zip(udp_in_total).map(|(total, udp)| u64::from(total) - udp);
    let kinds = [
        ("tcp", 8080, 100.0 - load.udp_percent, tcp_in_total.or(most(1.0 - udp))),
        ("udp", 5353, load.udp_percent, udp_in_total.or(most(udp))),
    ];
    kinds.into_iter().filter(|(.., share, limit)| *share > 0.0 && *limit != Some(0)).collect()
}

impl Tester for GeneratorTester {
    fn start(&mut self, load: &Load) -> Result<(), TesterError> {
        self.stop()?;
        let same = Load { cps: self.load.cps, ramp_up_s: self.load.ramp_up_s, ..*load };
        if same != self.load || !self.is_of_load {
            let profile = Arc::new(profile_of(load, self.addresses)?);
            let held = load.total_flows.filter(|_| load.hold_ms > 0);
            self.replace_profile(&profile, held.unwrap_or(0).max(CAPACITY))?;
        }
        (self.load, self.is_of_load) = (*load, true);
        self.begin()
    }

    fn start_profile(
        &mut self,
        OfferedProfile { profile, capacity }: &OfferedProfile,
        multiplier: f64,
        ramp_up_s: u32,
    ) -> Result<(), TesterError> {
        let cps = allowed(profile.cps() * multiplier)?;
        self.stop()?;
        self.replace_profile(profile, *capacity)?;
        self.load = Load { ramp_up_s, ..Load::of_rate(cps) };
        self.begin()
    }

    fn multiply(&mut self, multiplier: f64) -> Result<(), TesterError> {
        match (self.is_running, self.is_of_load) {
            (false, _) => Err(TesterError::Idle),
            (true, true) => Err(TesterError::NoProfileRuns),
            (true, false) => self.update(allowed(self.profile.cps() * multiplier)?),
        }
    }

    fn update(&mut self, cps: f64) -> Result<(), TesterError> {
        if !self.is_running {
            return Err(TesterError::Idle);
        }
        self.load.cps = cps;
        Ok(self.session.set_multiplier(self.multiplier(cps))?)
    }

    fn stop(&mut self) -> Result<(), TesterError> {
        if !self.is_running {
            return Ok(());
        }
        self.is_running = false;
        self.stopped_after_s = Some(self.session.elapsed().as_secs_f64() - self.base.at_s);
        // A load that has stopped has no connections due.
        self.overdue_at_stop = self.session.poll().client.as_ref().map_or(0, |it| it.overdue);
        self.session.stop()?;
        self.session.wait_for_reports();
        let begun = Instant::now();
        while self.has_active() && begun.elapsed() < DRAIN {
            std::thread::sleep(TURN);
        }
        if self.has_active() {
            let TesterStatistics { client, server, .. } = self.statistics()?;
            self.failed_before_abort = Some([client.failed, server.failed]);
            self.session.abort()?;
            // Another load must not begin before.
            let begun = Instant::now();
            while self.has_active() && begun.elapsed() < ABORTING {
                std::thread::sleep(TURN);
            }
        }
        std::thread::sleep(ON_THEIR_WAY);
        self.session.wait_for_reports();
        Ok(())
    }

    fn clear(&mut self) -> Result<(), TesterError> {
        self.begin_counting();
        Ok(())
    }

    fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
        self.session.wait_for_reports();
        let elapsed_s = self.session.reported_until() - self.base.at_s;
        // Nobody asks for intervals: a daemon would keep them for ever.
        while self.session.take_interval(u64::MAX).is_some() {}
        let none = EndTotals::default();
        let totals = self.session.poll().clone();
        let client = totals.client.as_ref().unwrap_or(&none);
        let server = totals.server.as_ref().unwrap_or(&none);
        let counted =
            [client.counters.since(&self.base.client), server.counters.since(&self.base.server)];
        let mut sides = [(client, &self.base.client), (server, &self.base.server)]
            .map(|(end, base)| side(&end.counters, base));
        for (side, failed) in sides.iter_mut().zip(self.failed_before_abort.iter().flatten()) {
            side.failed = *failed;
        }
        let [client_side, server_side] = sides;
        let [limits, link_limits] = self.limits(&counted, client.overdue);
        Ok(TesterStatistics {
            elapsed_s: self.stopped_after_s.unwrap_or(elapsed_s),
            client: client_side,
            server: server_side,
            setup: percentiles(&client.latencies.setup),
            first_byte: percentiles(&client.latencies.first_byte),
            response: percentiles(&client.latencies.response),
            longest_gap_ns: client.longest_gap_ns.max(server.longest_gap_ns),
            rates: None,
            limits,
            link_limits,
        })
    }
}

/// Counters of errors: all are 0 in a run without faults.
const ERRORS: [Counter; 11] = [
    Counter::SynRetransmits,
    Counter::TimeoutRetransmits,
    Counter::FastRetransmits,
    Counter::DuplicateAcks,
    Counter::DuplicateSegments,
    Counter::EarlySegments,
    Counter::UnexpectedDatagrams,
    Counter::BadChecksums,
    Counter::Malformed,
    Counter::Stray,
    Counter::TableFull,
];

/// Returns the counts of an end since `before`.
fn side(now: &Counters, before: &Counters) -> Side {
    let counted = now.since(before);
    let traffic = |[frames, bytes, payload, segments]: [Counter; 4]| TrafficCounts {
        packets: counted[frames],
        bytes: counted[bytes] + FCS * counted[frames],
        payload_bytes: counted[payload],
        tcp_packets: counted[segments],
    };
    let error = |counter: Counter| (counter.name().to_owned(), counted[counter]);
    Side {
        attempted: counted[Counter::Attempted],
        established: counted[Counter::Established],
        completed: counted[Counter::Completed],
        responses: counted[Counter::Responses],
        failed: FailureCounts {
            no_answer: counted[Counter::NoSynAck] + counted[Counter::NoAnswer],
            reset: counted[Counter::Reset],
            timeout: counted[Counter::Timeout] + counted[Counter::ClosedEarly],
            checksum: counted[Counter::Checksum],
            wrong_data: counted[Counter::WrongData],
            unreachable: counted[Counter::Unreachable] + counted[Counter::Refused],
        },
        active: now.active(),
        sent: traffic([
            Counter::FramesSent,
            Counter::BytesSent,
            Counter::PayloadSent,
            Counter::SegmentsSent,
        ]),
        received: traffic([
            Counter::FramesReceived,
            Counter::BytesReceived,
            Counter::PayloadReceived,
            Counter::SegmentsReceived,
        ]),
        errors: ERRORS.map(error).into(),
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Option<LatencyPercentiles> {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64;
    (!histogram.is_empty()).then(|| LatencyPercentiles {
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: histogram.max() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_of_failure_counts() {
        let mut counters = Counters::default();
        Counter::FAILURES.into_iter().for_each(|cause| counters[cause] = 1);
        counters[Counter::Attempted] = counters.failures();
        let failed = side(&counters, &Counters::default()).failed;
        assert_eq!(failed.total(), counters.failures());
    }

    fn compiled(load: &Load) -> Profile {
        let range = |text| AddressRange::parse(text).unwrap();
        profile_of(load, ["16.0.0.0-16.0.255.255", "48.0.0.0-48.0.0.255"].map(range)).unwrap()
    }

    #[test]
    fn the_profile_of_a_load_is_that_of_the_script() {
        let load = Load {
            udp_percent: 1.0,
            messages: 500,
            server_wait_ms: 50,
            max_flows: Some(1000),
            ..Load::of_rate(9.0)
        };
        let profile = compiled(&load);
        let kinds: Vec<_> =
            profile.templates.iter().map(|it| (it.port, it.cps, it.limit)).collect();
        assert_eq!(kinds, [(8080, 99.0, Some(990)), (5353, 1.0, Some(10))]);
        assert_eq!((profile.clients.count(), profile.servers.count()), (65_536, 256));
        assert_eq!(compiled(&Load::of_rate(1.0)).templates.len(), 1);
        let total = Load { max_flows: None, total_flows: Some(150), hold_ms: 40_000, ..load };
        let profile = compiled(&total);
        let limits: Vec<_> =
            profile.templates.iter().map(|it| (it.limit, it.is_continuous)).collect();
        assert_eq!(limits, [(Some(148), false), (Some(2), false)]);
        assert_eq!(profile.timeouts.idle_ms, 70_000);
        // The client waits for the server's message.
        assert_eq!(profile.timeouts.answer_ms, 41_000);
        let udp = compiled(&Load { udp_percent: 100.0, ..Load::of_rate(1.0) });
        assert_eq!(udp.templates[0].port, 5353);
    }
}
