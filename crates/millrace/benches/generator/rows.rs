// SPDX-License-Identifier: BSD-3-Clause
//! Lists the rows of the report, and the thresholds of their figures.

/// One row of the report.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    pub(crate) figure: Figure,
    pub(crate) bars: Vec<Bar>,
}

/// Program and arguments of a row.
pub(crate) enum Run {
    /// `millrace gen` with these arguments.
    Gen(Vec<&'static str>),
    /// `millrace gen` with 1000 streams and these arguments.
    ManyStreams(Vec<&'static str>),
    /// `millrace gen` over memif to `millrace reflect`, with these arguments of `gen`.
    Memif(Vec<&'static str>),
    /// testpmd in this forwarding mode.
    Testpmd(&'static str),
}

/// The figure of the results that the row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Mpps sent.
    Sent,
    /// Mpps received and verified.
    Received,
    /// Packets lost, per million.
    LostPerMillion,
    /// Difference of the rate from 1 Mpps, in percent of 1 Mpps.
    RateError,
    /// Thousands of connections established each second.
    Connections,
    /// Bytes of memory for both ends of a connection.
    BytesPerConnection,
    /// 99th percentile of the error of gaps between packets, in microseconds.
    GapError,
}

/// A threshold of a figure: `must` is required, `goal` is desired.
pub(crate) enum Bar {
    /// Lower limits.
    Least { must: f64, goal: f64 },
    /// Upper limits.
    Most { must: f64, goal: f64 },
    /// Lower limits of the figure, divided by that of the row `than`.
    Times { than: &'static str, must: f64, goal: f64 },
}

/// A port that discards packets.
const NULL: &str = "net_null0,no-rx=1";
/// Two ports of the software NIC, connected by a wire.
const CABLE: &str = "net_twin0,wire=bench,net_twin1,wire=bench";
const VARYING: &str = "src=198.18.0.1-198.18.0.250 sport=1024-65000";

impl Row {
    /// Returns a text that names the requirements of the row.
    pub(crate) fn needs(&self) -> &'static str {
        match self.run {
            Run::Testpmd(_) => "needs dpdk-testpmd (Debian's dpdk-dev)",
            _ => "needs the software NIC (MILLRACE_TWIN) and two cpus",
        }
    }

    /// True if the row needs the software NIC.
    pub(crate) fn needs_twin(&self) -> bool {
        matches!(&self.run, Run::Gen(args) if args[0] == CABLE)
    }
}

fn gen_row(name: &'static str, args: &[&'static str], figure: Figure, bars: Vec<Bar>) -> Row {
    Row { name, run: Run::Gen(args.to_vec()), figure, bars }
}

fn least(must: f64, goal: f64) -> Vec<Bar> {
    vec![Bar::Least { must, goal }]
}

fn most(must: f64, goal: f64) -> Vec<Bar> {
    vec![Bar::Most { must, goal }]
}

fn times(than: &'static str, must: f64, goal: f64) -> Vec<Bar> {
    vec![Bar::Times { than, must, goal }]
}

/// Returns all rows.
pub(crate) fn all() -> Vec<Row> {
    [into_null(), through_ports(), stateful()].into_iter().flatten().collect()
}

const ONE: &str = "64 B, 1 stream";
const ONE_VARYING: &str = "64 B, 1 stream, varying";
const WITHOUT_STATISTICS: &str = "64 B, 1 stream, without statistics";
const TXONLY: &str = "testpmd txonly";
const FLOWGEN: &str = "testpmd flowgen";

/// Returns the rows that send to a port that discards packets.
fn into_null() -> Vec<Row> {
    let alone = ["--receivers", "0", "--rate", "max"];
    let null = |more: &[&'static str]| [&[NULL][..], &alone, more].concat();
    let sent = |name, more: &[&'static str], bars| gen_row(name, &null(more), Figure::Sent, bars);
    let testpmd =
        |name, mode| Row { name, run: Run::Testpmd(mode), figure: Figure::Sent, bars: vec![] };
    let of_one = [
        least(20.0, 30.0),
        times(TXONLY, 0.9, 1.0),
        times(FLOWGEN, 0.9, 1.0),
        times(WITHOUT_STATISTICS, 0.9, 1.0),
    ];
    // Equal frames are sent without any change. So stamping is compared with varying streams, which
    // also write to each frame.
    let stamped = "64 B, 1 stream, all statistics: stamped";
    vec![
        sent(ONE, &[], of_one.into_iter().flatten().collect()),
        testpmd(TXONLY, "txonly"),
        testpmd(FLOWGEN, "flowgen"),
        sent(ONE_VARYING, &["--stream", VARYING], vec![]),
        sent(stamped, &["--stats", "full"], times(ONE_VARYING, 0.9, 1.0)),
        Row {
            name: "64 B, 1000 streams, varying",
            run: Run::ManyStreams(null(&[])),
            figure: Figure::Sent,
            bars: least(15.0, 25.0),
        },
        sent("two senders", &["--senders", "2"], times(ONE, 1.85, 1.97)),
        sent(WITHOUT_STATISTICS, &["--stats", "off"], vec![]),
    ]
}

/// Returns the rows of paced sending, and of packets that are received and verified.
fn through_ports() -> Vec<Row> {
    let pace = [NULL, "--receivers", "0", "--rate", "1Mpps"];
    let verified = |rate| [CABLE, "--verify", "--rate", rate];
    let memif = |name, rate| Row {
        name,
        run: Run::Memif(vec!["--verify", "--rate", rate]),
        figure: Figure::LostPerMillion,
        bars: vec![],
    };
    let (top, at_5) =
        ("verified over a wire, maximum rate", "verified over a wire, 5 Mpps: lost, ppm");
    vec![
        gen_row("pacing at 1 Mpps: rate error, %", &pace, Figure::RateError, most(0.1, 0.01)),
        gen_row("pacing at 1 Mpps: p99 of gaps, us", &pace, Figure::GapError, most(5.0, 2.0)),
        gen_row(top, &verified("max"), Figure::Received, least(5.0, 10.0)),
        gen_row(at_5, &verified("5Mpps"), Figure::LostPerMillion, vec![]),
        memif("memif to a reflector, 3.5 Mpps: lost, ppm", "3.5Mpps"),
        memif("memif to a reflector, 5 Mpps: lost, ppm", "5Mpps"),
    ]
}

/// Returns the rows of connections. Each cpu has both ends of its connections.
fn stateful() -> Vec<Row> {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/article-tcp.toml");
    let run = [CABLE, "--stateful", profile, "--cps", "5M", "--workers", "1"];
    let run_2 = [CABLE, "--stateful", profile, "--cps", "5M", "--workers", "2", "--senders", "2"];
    let (fast, small) = ("short TCP connections, one cpu, thousands/s", "both ends, bytes");
    let server = ["net_null0,no-rx=1", "--stateful", profile, "--ends", "server"];
    let fast_2 = "short TCP connections, two cpus, thousands/s";
    vec![
        gen_row(fast, &run, Figure::Connections, least(800.0, 1500.0)),
        gen_row(fast_2, &run_2, Figure::Connections, times(fast, 1.8, 1.95)),
        gen_row(small, &run, Figure::BytesPerConnection, most(256.0, 192.0)),
        gen_row("one end alone, bytes", &server, Figure::BytesPerConnection, most(160.0, 112.0)),
    ]
}
