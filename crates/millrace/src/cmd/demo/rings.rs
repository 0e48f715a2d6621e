// SPDX-License-Identifier: BSD-3-Clause
//! Runs the demo between two rings in memory, with a generator at their far ends. It needs no
//! software NIC, and has no offload.

use super::{DemoArgs, choose_cpu};
use crate::cmd::run::{Lines, StopCondition, secret, watch};
use crate::demo::feed::FeedTotals;
use crate::demo::feed::Feeder;
use crate::demo::feed::Frames;
use crate::demo::feed::Source;
use crate::live::{PortPair, Runtime};
use crate::signals;
use crate::start::start_eal;
use anyhow::Context;
use capture::Capture;
use config::plan::{OffloadPlan, engine_bytes};
use doctor::host::Memory;
use dpdk::{EalConfig, Mempool, Port, PortConfig, ring_cable};
use engine::ChecksumCheck;
use report::output::{Command, write_line};
use report::records::WrittenRecords;
use results::units;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use traffic::{Profile, Workload};

/// Number of packets that each direction of a cable holds.
const CABLE: u32 = 4096;
/// Most packets on their way, in both directions together, so that no ring overflows and the pool
/// never runs out. Small, because the bump polls the ports in turn: a reply must not overtake its
/// request.
const WINDOW: u64 = 512;
/// Mbufs for packets on their way and for the caches of the pool. One less than a power of two.
const MBUFS: u32 = 2 * CABLE - 1;
const DESCRIPTORS: u16 = 1024;
/// Memory that DPDK needs beside the mbufs, in MB.
const EAL_MB: u32 = 64;

pub(super) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    Memory::refuse_more_than_there_is(engine_bytes(&engine::Config::default()))?;
    let (outputs, mut sink) = args.output.open(Command::Demo, args.capture.as_slice())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let (source, title) = source(args)?;
    if outputs.report {
        write_line(io::stdout(), title);
    }
    let (mut live, generator) = start(source)?;
    let until = StopCondition {
        duration: Some(args.duration),
        interrupted: &interrupted,
        each_turn: &mut |_| (),
    };
    let lines = Lines { interval: Duration::from_secs(1), are_printed: outputs.report };
    watch(&mut live, &mut sink, until, lines);
    let fed = generator.finish();
    let mut finished = live.finish(&mut sink);
    let WrittenRecords { top, lost, result: written } = sink.finish();
    finished.summary.flows.records_lost += lost;
    let title = generator_line(fed);
    outputs.finish(&title, &finished.summary, top)?;
    let is_lossless = fed.received == fed.sent && finished.summary.ledger.rx == fed.sent;
    Ok(if is_lossless && written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn generator_line(fed: FeedTotals) -> String {
    let [sent, received] = [fed.sent, fed.received].map(units::thousands);
    let lost = units::thousands(fed.sent - fed.received);
    format!("\ngenerator: {sent} packets sent, {received} received back, {lost} lost")
}

/// Returns the source of the frames, and a line that describes it.
fn source(args: &DemoArgs) -> anyhow::Result<(Source, String)> {
    let Some(path) = &args.capture else {
        let profile = Profile::default();
        let title = format!(
            "bump between two virtual ports; generator: mixed traffic, {} connections at a time",
            units::thousands(profile.concurrent.into())
        );
        return Ok((Source::Workload(Box::new(Workload::new(args.seed, profile))), title));
    };
    let frames = read_capture(path)?;
    if let Some(fault) = &frames.fault {
        write_line(io::stderr(), format_args!("millrace: {fault}; the packets before it are sent"));
    }
    let mut title = format!(
        "bump between two virtual ports; generator: {} packets of {}, over and over",
        units::thousands(frames.len() as u64),
        path.display()
    );
    if frames.left_out > 0 {
        let left_out = units::thousands(frames.left_out);
        let why = "too short, too long, or of an unsupported link type";
        title += &format!("\n{left_out} packets left out: {why}");
    }
    Ok((Source::Frames(frames), title))
}

fn read_capture(path: &Path) -> anyhow::Result<Frames> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    Ok(Frames::read(&name, &mut Capture::new(&name, file)?)?)
}

/// The generator on a thread of its own.
struct Generator {
    thread: JoinHandle<FeedTotals>,
    stop: Arc<AtomicBool>,
}

impl Generator {
    /// Stops the generator, after all packets on their way have come back. Returns its counters.
    fn finish(self) -> FeedTotals {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a panic ends the process")
    }
}

/// Starts DPDK, both cables, the bump and the generator.
fn start(source: Source) -> anyhow::Result<(Runtime, Generator)> {
    let data_bytes = u16::try_from(source.max_frame().max(2048)).context("frames too long")?;
    let (worker, placement) = choose_cpu();
    let mut eal = start_eal(&eal_config(worker, data_bytes))?;
    write_line(io::stderr(), placement);
    let mempool = Mempool::new(&eal, "demo", MBUFS, data_bytes, None)?;
    let (a, mut far_a) = ring_cable(&eal, "demo_a", 1, CABLE)?;
    let (b, mut far_b) = ring_cable(&eal, "demo_b", 1, CABLE)?;
    let ends = [far_end(&mut far_a, mempool)?, far_end(&mut far_b, mempool)?];
    let wire = PortPair {
        a,
        b,
        workers: eal.take_lcores(),
        mempool,
        rx_descriptors: DESCRIPTORS,
        tx_descriptors: DESCRIPTORS,
        zone: engine::ZoneSource::OuterVlan,
        deepest: engine::Tracking::Connections,
        access: None,
        mtu: [None; 2],
        read_beside: [None, None],
        interface_mtu: [None; 2],
        cuts_from: [None; 2],
    };
    // A capture on the sending host has checksums that its NIC had not filled in yet.
    let checksums = match &source {
        Source::Frames(_) => ChecksumCheck::Trusted,
        Source::Workload(_) => ChecksumCheck::Verified,
    };
    let config = engine::Config { secret: secret()?, checksums, ..engine::Config::default() };
    let live =
        Runtime::start(&eal, vec![wire], (&config, OffloadPlan::off()), Default::default(), None)?;
    let stop = Arc::new(AtomicBool::new(false));
    let feeder = Feeder { source, ends, mempool, window: WINDOW, stop: Arc::clone(&stop) };
    let thread = std::thread::Builder::new().name("generator".to_owned());
    let thread = thread.spawn(|| feeder.run()).context("cannot start the generator's thread")?;
    Ok((live, Generator { thread, stop }))
}

/// Returns the configuration of DPDK, with one worker. The generator and this thread use the other
/// cpus.
fn eal_config(worker: usize, data_bytes: u16) -> EalConfig {
    // Without hugepages a page holds one mbuf only.
    let mbuf_bytes = (u32::from(data_bytes) + 1024).next_multiple_of(4096);
    let memory_mb = EAL_MB + MBUFS.div_ceil((1 << 20) / mbuf_bytes);
    let no_huge = Memory::free_hugepages_mb_of_this_host() < u64::from(memory_mb);
    EalConfig { lcores: vec![worker], no_huge, memory_mb, ..EalConfig::default() }
}

fn far_end(port: &mut Port, mempool: Mempool) -> anyhow::Result<(dpdk::RxQueue, dpdk::TxQueue)> {
    let config = PortConfig {
        rx_queues: 1,
        tx_queues: 1,
        rxd: DESCRIPTORS,
        txd: DESCRIPTORS,
        mempools: vec![mempool],
        mtu: None,
        is_endpoint: false,
        sends_on_time: false,
    };
    let (rx, tx) = port.configure(&config)?;
    let queues = rx.into_iter().zip(tx).next();
    Ok(queues.expect("one queue of each kind was asked for"))
}
