// SPDX-License-Identifier: BSD-3-Clause
//! The floor: `dpdk-testpmd` in io mode, which takes packets from one port and gives them to the
//! other without looking at them.

use crate::cases::Case;
use crate::heat::{Dut, Readings};
use crate::process::Process;
use crate::stopwatch::{Figures, Reading, WARM_UP};
use crate::{Setup, replay};
use anyhow::Context;
use std::process::Command;
use std::time::{Duration, Instant};

/// Space before the data of a packet, which testpmd counts as part of a buffer.
const HEADROOM: usize = 128;

/// testpmd, forwarding.
pub(crate) struct Testpmd {
    process: Process,
    /// Of ports.
    pairs: usize,
    readings: Readings,
}

impl Testpmd {
    /// Starts the floor of `case`, lets it warm up and stops it.
    pub(crate) fn start(setup: &Setup, case: &Case) -> anyhow::Result<Self> {
        let process = Process::start(
            // Its lines must come when they are printed, not when a buffer is full.
            Command::new("stdbuf")
                .args(["-oL", "dpdk-testpmd"])
                .args(arguments(setup, case))
                // What it leaves behind goes with the directory.
                .env("RUNTIME_DIRECTORY", &setup.dir),
        )?;
        let mut testpmd = Self { process, pairs: case.pairs(), readings: Readings::default() };
        // Answered when the captures are loaded.
        testpmd.sent().context("testpmd does not start; it comes with Debian's dpdk-dev")?;
        testpmd.process.say("start")?;
        std::thread::sleep(WARM_UP);
        testpmd.process.stand_still()?;
        Ok(testpmd)
    }

    /// Packets sent so far by the ports that packets leave by: the second of each pair.
    fn sent(&mut self) -> anyhow::Result<f64> {
        let mut sent = 0.0;
        for pair in 0..self.pairs {
            sent += sent_by(&mut self.process, 2 * pair + 1)?;
        }
        Ok(sent)
    }

    /// Ends it.
    pub(crate) fn finish(mut self, setup: &Setup, case: &Case) -> anyhow::Result<Figures> {
        self.process.go_on()?;
        self.process.say("quit")?;
        self.process.finish()?;
        self.readings.figures(setup, case.workers)
    }
}

/// Packets that a port of a testpmd has sent so far.
pub(crate) fn sent_by(process: &mut Process, port: usize) -> anyhow::Result<f64> {
    process.say(&format!("show port stats {port}"))?;
    process.wait_for("its statistics", |line| {
        line.split_once("TX-packets:")?.1.split_whitespace().next()?.parse::<f64>().ok()
    })
}

impl Dut for Testpmd {
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

/// Its command line.
pub(crate) fn arguments(setup: &Setup, case: &Case) -> Vec<String> {
    arguments_on(setup, case, setup.pairs(case), "")
}

/// Starts testpmd on these ports; `who` distinguishes it from others of the case.
pub(crate) fn arguments_on(
    setup: &Setup,
    case: &Case,
    pairs: Vec<[String; 2]>,
    who: &str,
) -> Vec<String> {
    let lcores = lcores(setup, &setup.worker_cpus[case.cpus()]);
    let (count, queues) = (case.workers, case.queues());
    let memory = if setup.huge { "--in-memory" } else { "--no-huge --no-shconf" };
    let vdev = |[a, b]: [String; 2]| format!("--vdev={a} --vdev={b} ");
    let vdevs: String = pairs.into_iter().map(vdev).collect();
    let driver = replay::driver().filter(|_| case.needs_twin());
    let driver = driver.map_or(String::new(), |driver| format!("-d{} ", driver.display()));
    let burst = engine::BURST_MAX;
    format!(
        "--no-pci --no-telemetry --file-prefix=millrace-bench-{pid}-{first}-{count}-{queues}{who} \
         --lcores={lcores} --main-lcore=0 {memory} -m{mb} {driver}{vdevs}-- \
         -i --forward-mode=io --nb-cores={count} --rxq={queues} --txq={queues} --burst={burst} \
         --total-num-mbufs={mbufs} --mbuf-size={mbuf_bytes}",
        pid = std::process::id(),
        first = case.first_cpu,
        mb = setup.memory_mb(case),
        mbufs = setup.mbufs(case),
        mbuf_bytes = setup.mbuf_data_bytes + HEADROOM,
    )
    .split(' ')
    .map(str::to_owned)
    .collect()
}

/// Lcore 0, which only waits, and one for each of `workers`.
pub(crate) fn lcores(setup: &Setup, workers: &[usize]) -> String {
    // It keeps off the workers, unless they have all cpus.
    let others: Vec<usize> =
        setup.cpus.iter().copied().filter(|cpu| !workers.contains(cpu)).collect();
    let main = if others.is_empty() { &setup.cpus } else { &others };
    let main: Vec<String> = main.iter().map(usize::to_string).collect();
    let mut lcores = format!("0@({})", main.join(","));
    for (cpu, lcore) in workers.iter().zip(1..) {
        lcores += &format!(",{lcore}@{cpu}");
    }
    lcores
}
