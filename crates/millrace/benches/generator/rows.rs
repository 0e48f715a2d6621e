// SPDX-License-Identifier: BSD-3-Clause
//! What is measured, and what it must come to.

/// One line of the report.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    pub(crate) figure: Figure,
    pub(crate) bars: Vec<Bar>,
}

/// What is run.
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

/// Which figure of the results counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Mpps sent.
    Sent,
    /// Mpps received and verified.
    Received,
    /// Packets lost, of a million.
    LostPerMillion,
    /// How far the rate is off, in percent of 1 Mpps.
    RateError,
    /// 99th percentile of the error of the gaps, in microseconds.
    GapError,
}

/// What a figure is held against.
pub(crate) enum Bar {
    /// At least.
    Least { must: f64, goal: f64 },
    /// At most.
    Most { must: f64, goal: f64 },
    /// At least so many times the figure of the row named.
    Times { than: &'static str, must: f64, goal: f64 },
}

/// Swallows what is sent.
const NULL: &str = "net_null0,no-rx=1";
/// Two ports with a wire between them.
const CABLE: &str = "net_twin0,wire=bench,net_twin1,wire=bench";
const VARYING: &str = "src=198.18.0.1-198.18.0.250 sport=1024-65000";

impl Row {
    /// What is needed for it.
    pub(crate) fn needs(&self) -> &'static str {
        match self.run {
            Run::Testpmd(_) => "dpdk-testpmd, of Debian's dpdk-dev",
            _ => "the software NIC (MILLRACE_TWIN) and two cpus",
        }
    }

    /// True if it needs the software NIC.
    pub(crate) fn needs_twin(&self) -> bool {
        matches!(&self.run, Run::Gen(args) if args[0] == CABLE)
    }
}

fn gen_row(name: &'static str, args: &[&'static str], figure: Figure, bars: Vec<Bar>) -> Row {
    Row { name, run: Run::Gen(args.to_vec()), figure, bars }
}

/// Every row.
pub(crate) fn all() -> Vec<Row> {
    let alone = ["--receivers", "0", "--rate", "max"];
    let null = |more: &[&'static str]| [&[NULL][..], &alone, more].concat();
    let (one, varying) = ("64 B, 1 stream", "64 B, 1 stream, varying");
    let least = |must, goal| vec![Bar::Least { must, goal }];
    let most = |must, goal| vec![Bar::Most { must, goal }];
    let times = |than, must, goal| vec![Bar::Times { than, must, goal }];
    let pace = [NULL, "--receivers", "0", "--rate", "1Mpps"];
    let verified = |rate| vec![CABLE, "--verify", "--rate", rate];
    let mut rows = vec![
        gen_row(one, &null(&[]), Figure::Sent, least(20.0, 30.0)),
        Row {
            name: "testpmd txonly",
            run: Run::Testpmd("txonly"),
            figure: Figure::Sent,
            bars: vec![],
        },
        Row {
            name: "testpmd flowgen",
            run: Run::Testpmd("flowgen"),
            figure: Figure::Sent,
            bars: vec![],
        },
        gen_row(varying, &null(&["--stream", VARYING]), Figure::Sent, vec![]),
        // Frames that are all alike need no work at all, so stamps are held against other work.
        gen_row(
            "64 B, 1 stream, all statistics: stamped",
            &null(&["--stats", "full"]),
            Figure::Sent,
            times(varying, 0.9, 1.0),
        ),
        Row {
            name: "64 B, 1000 streams, varying",
            run: Run::ManyStreams(null(&[])),
            figure: Figure::Sent,
            bars: least(15.0, 25.0),
        },
        gen_row("two senders", &null(&["--senders", "2"]), Figure::Sent, times(one, 1.85, 1.97)),
        gen_row(
            "64 B, 1 stream, without statistics",
            &null(&["--stats", "off"]),
            Figure::Sent,
            vec![],
        ),
        gen_row("pacing at 1 Mpps: rate error, %", &pace, Figure::RateError, most(0.1, 0.01)),
        gen_row("pacing at 1 Mpps: p99 of gaps, us", &pace, Figure::GapError, most(5.0, 2.0)),
        gen_row(
            "verified over a cable, as fast as it goes",
            &verified("max"),
            Figure::Received,
            least(5.0, 10.0),
        ),
        gen_row(
            "verified over a cable, 5 Mpps: lost, ppm",
            &verified("5Mpps"),
            Figure::LostPerMillion,
            vec![],
        ),
        Row {
            name: "memif to a reflector, 3.5 Mpps: lost, ppm",
            run: Run::Memif(vec!["--verify", "--rate", "3.5Mpps"]),
            figure: Figure::LostPerMillion,
            bars: vec![],
        },
        Row {
            name: "memif to a reflector, 5 Mpps: lost, ppm",
            run: Run::Memif(vec!["--verify", "--rate", "5Mpps"]),
            figure: Figure::LostPerMillion,
            bars: vec![],
        },
    ];
    rows[0].bars.extend([
        Bar::Times { than: "testpmd txonly", must: 0.9, goal: 1.0 },
        Bar::Times { than: "testpmd flowgen", must: 0.9, goal: 1.0 },
        Bar::Times { than: "64 B, 1 stream, without statistics", must: 0.9, goal: 1.0 },
    ]);
    rows
}
