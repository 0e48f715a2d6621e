// SPDX-License-Identifier: BSD-3-Clause
//! Runs a worker between two ports of the software NIC, over and over in one process. Each run has
//! new ports, tables and rules, but the same lcore and packet buffers.

use super::choose_cpu;
use crate::cmd::run::secret;
use crate::demo::readings::{Measurement, Phases, Readings};
use crate::live::{PortPair, Runtime};
use crate::start::start_eal;
use anyhow::Context;
use config::plan::OffloadPlan;
use doctor::host::Memory;
use dpdk::{Eal, EalConfig, EalError, Lcore, Mempool, Port};
use engine::{AccessLists, Evict, Tracking};
use indicatif::{ProgressBar, ProgressStyle};
use report::output::write_line;
use report::records::RecordSink;
use report::summary::Summary;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// The state that all runs share.
pub(super) struct Stage {
    eal: Eal,
    mempool: Mempool,
    /// The worker's lcore; empty during a run.
    lcores: Vec<Lcore>,
    bar: ProgressBar,
}

/// Two ports to open, and what happens between them.
pub(super) struct StagePair<'a> {
    pub(super) personality: &'a str,
    pub(super) seed: u64,
    /// Rate of each link, in the form that the software NIC reads.
    pub(super) speeds: [&'a str; 2],
    pub(super) tracking: Tracking,
    pub(super) access: Option<Arc<AccessLists>>,
}

impl Stage {
    /// Starts DPDK for some number of runs. Fails if the driver of the software NIC does not work.
    pub(super) fn new(driver: PathBuf, runs: usize) -> anyhow::Result<Self> {
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
        let bar = ProgressBar::new(u64::from(STEPS) * runs as u64);
        let bar = bar.with_style(style.expect("the template is right"));
        Ok(Self { eal, mempool, lcores, bar })
    }

    /// Names the next run.
    pub(super) fn begin(&self, name: String) {
        self.bar.set_prefix(name);
    }

    /// Removes the progress bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Opens two ports that receive the packets which `write` writes into two captures.
    pub(super) fn open(
        &mut self,
        pair: StagePair<'_>,
        write: impl FnOnce(&[PathBuf; 2]) -> io::Result<()>,
    ) -> anyhow::Result<PortPair> {
        let StagePair { personality, seed, speeds, tracking, access } = pair;
        let folder = tempfile::tempdir().context("cannot make a folder for captures")?;
        let paths = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
        write(&paths).context("cannot write a capture")?;
        // The driver reads the captures in probe, so they may be removed after it.
        let port = |number: usize| {
            let (capture, speed) = (paths[number].display(), speeds[number]);
            let devargs = format!(
                "net_twin{number},replay={capture},loops=forever,speed={speed},switch=demo,\
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
            deepest: tracking,
            access,
            mtu: [None; 2],
            read_beside: [None, None],
            interface_mtu: [None; 2],
            cuts_from: [None; 2],
        })
    }

    /// Runs a worker between two ports until `phases` are over or `interrupted` is set. Returns
    /// what was measured, if all was, or the reason that `refuse` has against the run.
    pub(super) fn measure(
        &mut self,
        wire: PortPair,
        (plan, phases): (OffloadPlan, Phases),
        refuse: impl FnOnce(&Runtime) -> Option<String>,
        (sink, interrupted): (&mut RecordSink, &AtomicBool),
    ) -> anyhow::Result<Result<Option<(Measurement, Summary)>, String>> {
        let config = engine::Config {
            secret: secret()?,
            // Flows that are never answered may fill the table.
            embryonic_percent: 100,
            evict: Evict::Nothing,
            ..engine::Config::default()
        };
        let mut live =
            Runtime::start(&self.eal, vec![wire], (&config, plan), Default::default(), None)?;
        let refusal = refuse(&live);
        let mut readings = Readings::new(phases);
        let step = (phases.measured() / STEPS).max(STEP_MIN);
        let mut next = Duration::ZERO;
        while refusal.is_none() {
            let now = live.elapsed();
            let is_over =
                readings.end().is_some_and(|end| now >= end) || interrupted.load(Ordering::Relaxed);
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
        let measured = readings.finish(&finished.summary.energy);
        Ok(match refusal {
            Some(reason) => Err(reason),
            None => Ok(measured.map(|measured| (measured, finished.summary))),
        })
    }

    fn show(&self, readings: &Readings) {
        let Some(rates) = readings.latest() else { return };
        self.bar.inc(1);
        self.bar.set_message(format!(
            "{:.1} Gb/s, cpu {:.0} %, {:.0} % marked, {:.0} % bypassed",
            (rates.up_mbps + rates.down_mbps) / 1e3,
            rates.cpu_percent,
            rates.marked_percent + rates.list_marked_percent,
            rates.bypassed_percent
        ));
    }
}

/// True if DPDK could not start for want of hugepages.
pub(super) fn is_hugepage_shortage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EalError::NoHugepages { .. }))
}
