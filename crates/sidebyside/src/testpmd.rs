// SPDX-License-Identifier: BSD-3-Clause
//! Runs the floor: `dpdk-testpmd` in io mode, which moves packets from one port to the other
//! without reading them.

use crate::cases::Case;
use crate::figures::{Figures, WARM_UP};
use crate::process::Process;
use crate::turns::{CountingDut, Readings};
use crate::{Setup, replay};
use anyhow::Context;
use std::process::Command;

/// Bytes before the packet data in a buffer (`RTE_PKTMBUF_HEADROOM`). testpmd counts them as part
/// of the buffer's size.
const HEADROOM: usize = 128;

/// A running testpmd.
pub(crate) struct Testpmd {
    process: Process,
    /// Number of port pairs.
    pairs: usize,
    readings: Readings,
}

impl Testpmd {
    /// Starts testpmd on the ports of `case`, lets it warm up, and stops it (SIGSTOP).
    pub(crate) fn start(setup: &Setup, case: &Case) -> anyhow::Result<Self> {
        let process = Process::start(
            // stdbuf: testpmd would write to a pipe only when its buffer is full.
            Command::new("stdbuf")
                .args(["-oL", "dpdk-testpmd"])
                .args(arguments(setup, case))
                // The files that testpmd leaves are removed with the directory.
                .env("RUNTIME_DIRECTORY", &setup.dir),
        )?;
        let mut testpmd = Self { process, pairs: case.pairs(), readings: Readings::default() };
        // testpmd answers once it has loaded the captures.
        testpmd.sent().context("testpmd does not start; it comes with Debian's dpdk-dev")?;
        testpmd.process.write_line("start")?;
        std::thread::sleep(WARM_UP);
        testpmd.process.pause()?;
        Ok(testpmd)
    }

    /// Returns the packets sent so far by the second port of each pair.
    fn read_sent(&mut self) -> anyhow::Result<f64> {
        let mut sent = 0.0;
        for pair in 0..self.pairs {
            sent += sent_by(&mut self.process, 2 * pair + 1)?;
        }
        Ok(sent)
    }

    /// Ends testpmd and returns its figures.
    pub(crate) fn finish(mut self, setup: &Setup, case: &Case) -> anyhow::Result<Figures> {
        self.process.resume()?;
        self.process.write_line("quit")?;
        self.process.finish()?;
        self.readings.figures(setup, case.workers)
    }
}

/// Returns the packets that a port of a testpmd has sent so far.
pub(crate) fn sent_by(process: &mut Process, port: usize) -> anyhow::Result<f64> {
    process.write_line(&format!("show port stats {port}"))?;
    process.wait_for("its statistics", |line| {
        line.split_once("TX-packets:")?.1.split_whitespace().next()?.parse::<f64>().ok()
    })
}

impl CountingDut for Testpmd {
    fn process(&self) -> &Process {
        &self.process
    }

    fn sent(&mut self) -> anyhow::Result<f64> {
        self.read_sent()
    }

    fn readings(&mut self) -> &mut Readings {
        &mut self.readings
    }
}

/// Returns the arguments of testpmd on the ports of `case`.
pub(crate) fn arguments(setup: &Setup, case: &Case) -> Vec<String> {
    arguments_on(setup, case, setup.pairs(case), "")
}

/// Returns the arguments of testpmd on these ports. `suffix` ends its file prefix, to distinguish
/// it from other testpmds of the case.
pub(crate) fn arguments_on(
    setup: &Setup,
    case: &Case,
    pairs: Vec<[String; 2]>,
    suffix: &str,
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
        "--no-pci --no-telemetry \
         --file-prefix=millrace-bench-{pid}-{first}-{count}-{queues}{suffix} \
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

/// Returns the EAL argument `--lcores`: lcore 0, the main lcore, which does not forward, and one
/// lcore for each cpu of `workers`.
pub(crate) fn lcores(setup: &Setup, workers: &[usize]) -> String {
    // The main lcore uses other cpus than the workers, if there are any.
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
