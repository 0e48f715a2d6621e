// SPDX-License-Identifier: BSD-3-Clause
//! Runs the article's loads between two ports of the software NIC, each without and with offload.
//!
//! All runs are in one process. Each has new ports, tables and rules, but the same lcore and packet
//! buffers.

use super::report::ReportFile;
use super::{DemoArgs, choose_cpu, run_with_rings};
use crate::cmd::run::secret;
use crate::demo::comparison::Comparison;
use crate::demo::comparison::Readings;
use crate::demo::comparison::Run;
use crate::live::{PortPair, Runtime};
use crate::signals;
use crate::start::start_eal;
use ::twin::Personality;
use anyhow::Context;
use config::Policy;
use config::plan::{OffloadPlan, engine_bytes};
use doctor::host::{Memory, Processor};
use dpdk::{Eal, EalConfig, EalError, Lcore, Mempool, Port};
use indicatif::{ProgressBar, ProgressStyle};
use report::output::{Command, write_line};
use report::records::RecordSink;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::{PcapWriter, Side, article};

/// Mbufs for the bursts of a worker and for the caches of the pool. One less than a power of two.
const MBUFS: u32 = 8191;
const DATA_BYTES: u16 = 2048;
const DESCRIPTORS: u16 = 1024;
/// Memory that DPDK needs beside the mbufs, in MB.
const EAL_MB: u32 = 64;
/// Number of readings of a run.
const STEPS: u32 = 100;
/// Least time between two readings.
const STEP_MIN: Duration = Duration::from_millis(20);

/// The packets that the ports receive.
#[derive(Clone, Copy)]
enum Load {
    Imix,
    SmallTcp,
}

impl Load {
    const ALL: [Load; 2] = [Load::Imix, Load::SmallTcp];

    fn name(self) -> &'static str {
        match self {
            Load::Imix => "IMIX",
            Load::SmallTcp => "small TCP",
        }
    }

    /// Writes two captures: the packets that arrive at each port.
    fn write(self, seed: u64, paths: &[PathBuf; 2]) -> io::Result<()> {
        let create = |path: &PathBuf| PcapWriter::new(BufWriter::new(File::create(path)?));
        let mut captures = [create(&paths[0])?, create(&paths[1])?];
        let mut result = Ok(());
        let sink = |side: Side, frame: &[u8]| {
            // The software NIC replays without the captures' times.
            let written = captures[side as usize].write(0, frame);
            result = std::mem::replace(&mut result, Ok(())).and(written);
        };
        match self {
            Load::Imix => article::imix(seed, sink),
            Load::SmallTcp => article::small_tcp(seed, sink),
        }
        result?;
        captures.into_iter().try_for_each(|capture| capture.finish().map(|_| ()))
    }
}

pub(super) fn run(args: &DemoArgs, driver: PathBuf) -> anyhow::Result<ExitCode> {
    let personality = Personality::named(&args.personality)?;
    Memory::refuse_more_than_there_is(engine_bytes(&engine::Config::default()))?;
    let report = ReportFile::open(args.report.as_deref())?;
    let inputs: Vec<_> = report.iter().map(|report| report.path().to_owned()).collect();
    let (outputs, mut sink) = args.output.open(Command::Demo, &inputs)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut stage = match Stage::new(args, driver) {
        Err(error) if !is_hugepage_shortage(&error) => {
            drop(report);
            return Err(run_with_rings(&error).into());
        }
        stage => stage?,
    };
    let mut comparison = describe(args, &personality);
    if outputs.report {
        // An error here is reported when the tables are printed. Files are written all the same.
        let _ = comparison.print_heading(&mut io::stdout().lock());
    }
    stage.run_all(&mut comparison, &mut sink, &interrupted)?;
    let written = sink.finish().result;
    let is_printed = outputs.report;
    // Each output is tried, also after another one has failed.
    let json = outputs.finish_with(&comparison);
    let page = report.map(|report| report.write(&comparison)).transpose();
    let printed = if is_printed { comparison.print(&mut io::stdout().lock()) } else { Ok(()) };
    json?;
    if let (Some(path), true) = (page?, is_printed) {
        write_line(io::stdout(), format_args!("Report: {}", path.display()));
    }
    printed.context("cannot write the tables")?;
    let is_good = comparison.is_balanced() && written.is_ok();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_hugepage_shortage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EalError::NoHugepages { .. }))
}

fn describe(args: &DemoArgs, personality: &Personality) -> Comparison {
    Comparison {
        version: env!("CARGO_PKG_VERSION"),
        dpdk: dpdk::version(),
        processor: Processor::name_of_this_host(),
        personality: personality.name.clone(),
        title: personality.title.clone(),
        speed: args.speed.clone(),
        policy: args.offload.to_string(),
        seconds: args.duration.as_secs_f64(),
        seed: args.seed,
        interrupted: false,
        runs: Vec::new(),
    }
}

/// The state that all runs share.
struct Stage<'a> {
    args: &'a DemoArgs,
    eal: Eal,
    mempool: Mempool,
    /// The worker's lcore; empty during a run.
    lcores: Vec<Lcore>,
    bar: ProgressBar,
}

impl<'a> Stage<'a> {
    /// Starts DPDK. Fails if the driver of the software NIC does not work.
    fn new(args: &'a DemoArgs, driver: PathBuf) -> anyhow::Result<Self> {
        let (worker, placement) = choose_cpu();
        // Without hugepages a page holds one mbuf only.
        let memory_mb = EAL_MB + MBUFS.div_ceil((1 << 20) / 4096);
        let no_huge = Memory::free_hugepages_mb_of_this_host() < u64::from(memory_mb);
        let drivers = vec![driver];
        let config =
            EalConfig { lcores: vec![worker], no_huge, memory_mb, drivers, ..EalConfig::default() };
        let mut eal = start_eal(&config)?;
        drop(Port::probe(&eal, "net_twin0")?);
        write_line(io::stderr(), placement);
        let mempool = Mempool::new(&eal, "demo", MBUFS, DATA_BYTES, None)?;
        let lcores = eal.take_lcores();
        let style = ProgressStyle::with_template("{prefix:16} {bar:30} {msg}");
        let bar = ProgressBar::new(u64::from(STEPS) * 2 * Load::ALL.len() as u64);
        let bar = bar.with_style(style.expect("the template is right"));
        Ok(Self { args, eal, mempool, lcores, bar })
    }

    /// Runs each load without and with offload, until `interrupted` is set.
    fn run_all(
        &mut self,
        comparison: &mut Comparison,
        sink: &mut RecordSink,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        for load in Load::ALL {
            for offload in [false, true] {
                if interrupted.load(Ordering::Relaxed) {
                    continue;
                }
                comparison.runs.push(self.run(load, offload, sink, interrupted)?);
            }
        }
        comparison.interrupted = interrupted.load(Ordering::Relaxed);
        self.bar.finish_and_clear();
        Ok(())
    }

    fn run(
        &mut self,
        load: Load,
        offload: bool,
        sink: &mut RecordSink,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Run> {
        let word = if offload { "on" } else { "off" };
        self.bar.set_prefix(format!("{}, {word}", load.name()));
        let wire = self.wire(load)?;
        let config = engine::Config { secret: secret()?, ..engine::Config::default() };
        let policy = if offload { self.args.offload } else { Policy::Off };
        let plan = OffloadPlan { policy, ..OffloadPlan::off() };
        let mut live = Runtime::start(&self.eal, vec![wire], (&config, plan, vec![]), None)?;
        let mut readings = Readings::default();
        let step = (self.args.duration / STEPS).max(STEP_MIN);
        let mut next = Duration::ZERO;
        loop {
            let now = live.elapsed();
            let is_over = now >= self.args.duration || interrupted.load(Ordering::Relaxed);
            if now >= next || is_over {
                readings.push(live.totals());
                self.show(&readings);
                next = now + step;
            }
            if is_over {
                break;
            }
            live.turn(sink);
        }
        let finished = live.finish(sink);
        self.lcores = finished.lcores;
        sink.take_time();
        Ok(readings.finish(load.name(), offload, finished.summary))
    }

    /// Opens two ports that receive a load, with the worker between them.
    fn wire(&mut self, load: Load) -> anyhow::Result<PortPair> {
        let DemoArgs { personality, speed, seed, .. } = self.args;
        let folder = tempfile::tempdir().context("cannot make a folder for captures")?;
        let paths = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
        load.write(*seed, &paths).context("cannot write a capture")?;
        // The driver reads the captures in probe, so they may be removed after it.
        let port = |number: usize| {
            let capture = paths[number].display();
            let devargs = format!(
                "net_twin{number},replay={capture},loops=forever,speed={speed},\
                 personality={personality},seed={seed}"
            );
            Port::probe(&self.eal, &devargs)
        };
        Ok(PortPair {
            a: port(0)?,
            b: port(1)?,
            workers: std::mem::take(&mut self.lcores),
            mempool: self.mempool,
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            zone: engine::ZoneSource::OuterVlan,
            deepest: engine::Tracking::Connections,
            mtu: [None; 2],
            read_beside: [None, None],
            interface_mtu: [None; 2],
            cuts_from: [None; 2],
        })
    }

    fn show(&self, readings: &Readings) {
        let Some(rates) = readings.latest() else { return };
        self.bar.inc(1);
        self.bar.set_message(format!(
            "{:.1} Gb/s, cpu {:.0} %, {:.0} % marked",
            (rates.up_mbps + rates.down_mbps) / 1e3,
            rates.cpu_percent,
            rates.marked_percent
        ));
    }
}
