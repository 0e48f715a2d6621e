// SPDX-License-Identifier: BSD-3-Clause
//! Turns counters of the generator into members of its results.

use dpdk::Port;
use generator::{QueueReport, QueueTotals, SenderTotals, Span, StreamTotals, Totals};
use hdrhistogram::Histogram;
use results::histogram::{self, LatencyStep};
use results::metrics::Delays;
use results::{
    Count, Counted, Latency, Link, Pacing, PortInterval, PortResult, QueueInterval, QueueResult,
    ReflectorResult, SenderResult, StreamInterval, StreamLatency, StreamResult, Verified,
};
use traffic::reflector_query::ReflectorCounters;
use traffic::stream::StreamSpec;

pub(super) fn delays(histogram: &Histogram<u64>) -> Delays {
    let mut delays = Delays::default();
    for step in histogram.iter_recorded() {
        delays.add(step.value_iterated_to(), step.count_since_last_iteration());
    }
    delays
}

pub(super) fn port_interval(counters: &generator::Interval, port: usize) -> PortInterval {
    let sent = Count { packets: counters.sent[port], bytes: counters.sent_bytes[port] };
    let (packets, bytes) = (counters.received[port], counters.received_bytes[port]);
    let latency = latency(&counters.latency[port]);
    PortInterval { sent, received: Count { packets, bytes }, latency }
}

/// Returns the counts of both ports together.
pub(super) fn counted(packets: [u64; 2], bytes: [u64; 2], span: Span) -> Counted {
    Counted::new(packets.iter().sum(), bytes.iter().sum(), span.length_ns())
}

/// Returns the counters of a DPDK port, and of the reflector at its far end.
pub(super) fn port_result(port: &Port, reflector: Option<ReflectorCounters>) -> PortResult {
    let stats = port.stats();
    PortResult {
        name: port.info().devargs.clone(),
        link_mbps: port.link().speed_mbps,
        imissed: stats.imissed,
        ierrors: stats.ierrors,
        rx_nombuf: stats.rx_nombuf,
        oerrors: stats.oerrors,
        reflector: reflector.map(reflector_result),
        ..PortResult::default()
    }
}

/// Converts the counters of a reflector in a run.
pub(super) fn reflector_result(counters: ReflectorCounters) -> ReflectorResult {
    let ReflectorCounters { received, reflected, dropped, missed } = counters;
    ReflectorResult { received, reflected, dropped, missed, ..ReflectorResult::default() }
}

/// Adds the frames that port `number` sent and received.
pub(super) fn with_frames(port: PortResult, number: usize, totals: &Totals) -> PortResult {
    let (packets, bytes) = (totals.sent[number], totals.sent_bytes[number]);
    let sent = Counted::new(packets, bytes, totals.sent_span.length_ns());
    let (packets, bytes) = (totals.received[number], totals.received_bytes[number]);
    let received = Counted::new(packets, bytes, totals.received_span.length_ns());
    let link = port.link_mbps.and_then(|mbps| Link::of(&sent, mbps));
    let back = totals.streams.iter().map(|stream| stream.received.good[number]).sum::<u64>();
    // Without verification, every frame received counts as returned.
    let back = if back > 0 { back } else { packets };
    let reflector = port.reflector.map(|it| ReflectorResult {
        lost_on_the_way_there: sent.packets.saturating_sub(it.received + it.missed),
        lost_on_the_way_back: it.reflected.saturating_sub(back),
        ..it
    });
    PortResult {
        sent: Some(sent),
        received: Some(received),
        link,
        latency: latency(&totals.latency[number]),
        latency_histogram: steps(&totals.latency[number]),
        reflector,
        ..port
    }
}

pub(super) fn verified(specs: &[StreamSpec], totals: &Totals, is_all: bool) -> Verified {
    // Frames of captures have no stamps.
    let streams = specs.iter().zip(&totals.streams).filter(|(it, _)| it.playback.is_none());
    let streams: Vec<_> = streams.map(|(spec, totals)| stream(&spec.name, totals)).collect();
    Verified {
        lost: streams.iter().map(|stream| stream.lost).sum(),
        // With a profile, only damaged packets that are known to be probes count.
        damaged: match is_all {
            true => totals.damaged,
            false => streams.iter().map(|stream| stream.damaged).sum(),
        },
        foreign: is_all.then_some(totals.foreign),
        latency: latency(&totals.latency_of_all()),
        streams,
    }
}

pub(super) fn latency(histogram: &Histogram<u64>) -> Option<Latency> {
    let of = |part| histogram.value_at_quantile(part);
    (!histogram.is_empty()).then(|| Latency {
        min_ns: histogram.min(),
        mean_ns: histogram.mean(),
        p50_ns: of(0.5),
        p90_ns: of(0.9),
        p99_ns: of(0.99),
        p999_ns: of(0.999),
        max_ns: histogram.max(),
        pdv_ns: of(0.999).saturating_sub(histogram.min()),
    })
}

fn stream(name: &str, totals: &StreamTotals) -> StreamResult {
    let received = totals.received;
    StreamResult {
        name: name.to_owned(),
        sent: totals.sent,
        received: received.received(),
        lost: totals.lost(),
        reordered: received.reordered,
        reordering_extent_max: received.extent_max,
        duplicates: received.duplicates,
        too_late: received.too_late,
        damaged: received.damaged,
        jitter_ns: received.jitter_16 / 16,
        latency: (received.received() > 0).then(|| StreamLatency {
            min_ns: received.latency_min,
            mean_ns: received.latency_sum as f64 / received.received() as f64,
            max_ns: received.latency_max,
        }),
    }
}

fn steps(histogram: &Histogram<u64>) -> Vec<LatencyStep> {
    let recorded = histogram.iter_recorded();
    histogram::steps(recorded.map(|it| (it.value_iterated_to(), it.count_since_last_iteration())))
}

fn waiting_max(counts: &QueueReport) -> Option<u64> {
    (!counts.is_lower_bound).then_some(counts.waiting_max)
}

pub(super) fn queue_interval(counts: &QueueReport) -> QueueInterval {
    QueueInterval { packets: counts.packets, waiting_max: waiting_max(counts) }
}

pub(super) fn queue(totals: &QueueTotals, ports: &[String]) -> QueueResult {
    QueueResult {
        port: ports.get(totals.port).cloned().unwrap_or_default(),
        queue: totals.queue,
        packets: totals.counts.packets,
        waiting_max: waiting_max(&totals.counts),
    }
}

pub(super) fn sender(totals: &SenderTotals, ports: &[String]) -> SenderResult {
    let port = ports.get(totals.port).cloned().unwrap_or_default();
    let SenderTotals { packets, unsent, port_full, .. } = *totals;
    SenderResult { port, packets, unsent, port_full }
}

pub(super) fn stream_interval(totals: &StreamTotals) -> StreamInterval {
    let received = totals.received;
    StreamInterval {
        sent: totals.sent,
        received: received.received(),
        reordered: received.reordered,
        duplicates: received.duplicates,
        damaged: received.damaged,
        jitter_ns: received.jitter_16 / 16,
    }
}

pub(super) fn pacing(totals: &Totals, send_on_time: bool) -> Pacing {
    let of = |histogram: &Histogram<u64>, part| {
        (!histogram.is_empty()).then(|| histogram.value_at_quantile(part))
    };
    Pacing {
        send_on_time,
        late_p50_ns: of(&totals.lateness, 0.5),
        late_p99_ns: of(&totals.lateness, 0.99),
        gap_error_p50_ns: of(&totals.gap_error, 0.5),
        gap_error_p99_ns: of(&totals.gap_error, 0.99),
    }
}
