// SPDX-License-Identifier: BSD-3-Clause
//! What it costs to receive from a capture that the software NIC replays, and to send to nowhere:
//! testpmd in io mode between two of its ports. Beside it, between two ports that make up packets.

use crate::Setup;
use crate::heat::{Dut, Readings, take_turns};
use crate::process::Process;
use crate::stopwatch::{Figures, Reading, WARM_UP};
use crate::testpmd::{lcores, sent_by};
use anyhow::Context;
use serde::Serialize;
use std::env;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use traffic::PcapWriter;
use wire::FrameBuilder;

/// Name for `--only`.
pub(crate) const NAME: &str = "twin-replay";
/// Cycles per packet, received and sent.
pub(crate) const MUST: f64 = 70.0;

/// Packet buffers; fewer than a core's own cache holds.
const MBUFS: u32 = 4096;
/// The first pass under a new rule is the model's: at 1 M packets it takes more than a second.
const PASSES: u32 = 4;

/// One program, and what it came to in each repetition.
#[derive(Debug, Serialize)]
pub(crate) struct Replay {
    pub(crate) name: String,
    /// Whether it is the software NIC, which is held against [`MUST`].
    pub(crate) is_twin: bool,
    pub(crate) figures: Vec<Figures>,
}

/// The packets of a program, and whether a rule marks them.
#[derive(Clone, Copy)]
enum Source {
    /// Made up by `net_null`, all alike.
    Null,
    /// Of so many flows.
    Capture { flows: u32, is_marked: bool },
}

const SOURCES: [Source; 5] = [
    Source::Null,
    Source::Capture { flows: 1_000, is_marked: false },
    Source::Capture { flows: 1_000, is_marked: true },
    Source::Capture { flows: 1_000_000, is_marked: false },
    Source::Capture { flows: 1_000_000, is_marked: true },
];

impl Source {
    fn name(self) -> String {
        match self {
            Source::Null => "net_null".to_owned(),
            Source::Capture { flows, is_marked } => {
                format!("{flows} flows{}", if is_marked { ", marked" } else { "" })
            }
        }
    }

    /// EAL's arguments for its two ports.
    fn ports(self, setup: &Setup, driver: &Path) -> Vec<String> {
        match self {
            Source::Null => ["--vdev=net_null0", "--vdev=net_null1"].map(str::to_owned).into(),
            Source::Capture { flows, .. } => {
                let capture = capture(setup, flows);
                let port =
                    |i| format!("--vdev=net_twin{i},replay={},loops=forever", capture.display());
                vec![format!("-d{}", driver.display()), port(0), port(1)]
            }
        }
    }
}

/// The driver, where `make twin` puts it or the environment says.
pub(crate) fn driver() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let usual = || home.join(".local/lib/millrace/librte_net_twin.so");
    let driver = env::var_os("MILLRACE_TWIN").map_or_else(usual, PathBuf::from);
    driver.is_file().then_some(driver)
}

/// All programs in turns, `reps` times.
pub(crate) fn measure(
    setup: &Setup,
    driver: &Path,
    reps: u32,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Replay>> {
    for flows in [1_000, 1_000_000] {
        let path = capture(setup, flows);
        write(&path, flows).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let new = |source: &Source| {
        let is_twin = matches!(source, Source::Capture { .. });
        Replay { name: source.name(), is_twin, figures: Vec::new() }
    };
    let mut replays: Vec<Replay> = SOURCES.iter().map(new).collect();
    for rep in 1..=reps {
        let start = |source| Forwarder::start(setup, source, driver);
        let mut all: Vec<_> = SOURCES.into_iter().map(start).collect::<anyhow::Result<_>>()?;
        let mut contenders: Vec<_> = all.iter_mut().map(|it| it as &mut dyn Dut).collect();
        take_turns(setup, &mut contenders, interrupted)?;
        for (forwarder, replay) in all.into_iter().zip(&mut replays) {
            let figures = forwarder.finish(setup)?;
            let (name, cycles) = (format!("{NAME}: {}", replay.name), figures.cycles);
            eprintln!("{rep}/{reps} {name:<40} {cycles:6.1} cycles/packet");
            replay.figures.push(figures);
        }
    }
    Ok(replays)
}

fn capture(setup: &Setup, flows: u32) -> PathBuf {
    setup.dir.join(format!("replay-{flows}.pcap"))
}

/// One UDP packet of each flow, 64 bytes with their check sequence.
fn write(path: &Path, flows: u32) -> io::Result<()> {
    let mut capture = PcapWriter::new(BufWriter::new(File::create(path)?))?;
    for flow in 0..flows {
        let [_, high, middle, low] = flow.to_be_bytes();
        let frame = FrameBuilder::ipv4([10, high, middle, low], [192, 168, 0, 1]);
        capture.write(u64::from(flow), &frame.udp(1024, 53).pad().build())?;
    }
    capture.finish()?;
    Ok(())
}

/// testpmd, from either port to the other.
struct Forwarder {
    process: Process,
    readings: Readings,
}

impl Forwarder {
    fn start(setup: &Setup, source: Source, driver: &Path) -> anyhow::Result<Self> {
        let worker = &setup.worker_cpus[..1];
        let prefix = format!("millrace-replay-{}-{}", std::process::id(), source.name());
        let process = Process::start(
            Command::new("stdbuf")
                .args(["-oL", "dpdk-testpmd", "--no-pci", "--no-telemetry", "--no-huge"])
                .args(["--no-shconf", "-m128", "--main-lcore=0"])
                .arg(format!("--file-prefix={}", prefix.replace([' ', ','], "-")))
                .arg(format!("--lcores={}", lcores(setup, worker)))
                .args(source.ports(setup, driver))
                .args(["--", "-i", "--forward-mode=io", "--nb-cores=1", "--no-mlockall"])
                .arg(format!("--burst={}", engine::BURST_MAX))
                .arg(format!("--total-num-mbufs={MBUFS}"))
                // What it leaves behind goes with the directory.
                .env("RUNTIME_DIRECTORY", &setup.dir),
        )?;
        let mut forwarder = Self { process, readings: Readings::default() };
        // Answered when the captures are loaded.
        forwarder.sent().context("testpmd does not start; it comes with Debian's dpdk-dev")?;
        if matches!(source, Source::Capture { is_marked: true, .. }) {
            forwarder.mark()?;
        }
        forwarder.process.say("start")?;
        std::thread::sleep(WARM_UP * PASSES);
        forwarder.process.stand_still()?;
        Ok(forwarder)
    }

    /// Which rule it is that marks a packet makes no difference when the packet is received.
    fn mark(&mut self) -> anyhow::Result<()> {
        for port in 0..2 {
            let rule = "ingress pattern eth / ipv4 / end actions mark id 7 / end";
            self.process.say(&format!("flow create {port} {rule}"))?;
            self.process.wait_for("a rule", |line| line.contains("created").then_some(()))?;
        }
        Ok(())
    }

    fn sent(&mut self) -> anyhow::Result<f64> {
        Ok(sent_by(&mut self.process, 0)? + sent_by(&mut self.process, 1)?)
    }

    fn finish(mut self, setup: &Setup) -> anyhow::Result<Figures> {
        self.process.go_on()?;
        self.process.say("quit")?;
        self.process.finish()?;
        self.readings.figures(setup, 1)
    }
}

impl Dut for Forwarder {
    fn process(&self) -> &Process {
        &self.process
    }

    fn turn(&mut self, end: Instant, ran: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        std::thread::sleep(end.saturating_duration_since(begin));
        let sent = self.sent()?;
        self.readings.add(Reading::take(self.process.id(), sent, ran + begin.elapsed()));
        Ok(())
    }
}
