// SPDX-License-Identifier: BSD-3-Clause
//! Measures one row: runs `millrace gen` or testpmd, and reads its figure.

use crate::rows::{Figure, Row, Run};
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
/// Number of testpmd's rates that do not count. It prints one per second; the first ones include
/// its start.
const WARM_UP: usize = 2;
/// Longest accepted time of a program's start.
const START: Duration = Duration::from_secs(20);

/// Settings and files that all rows share.
pub(crate) struct Bench {
    seconds: u32,
    dir: TempDir,
    has_twin: bool,
}

impl Bench {
    pub(crate) fn new(seconds: u32) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a directory for temporary files")?;
        let twin = std::env::var_os("MILLRACE_TWIN");
        let has_twin = twin.is_some_and(|file| Path::new(&file).is_file());
        let bench = Self { seconds, dir, has_twin };
        let stream = "[[stream]]\nsrc = \"198.18.0.1-198.18.0.250\"\nsport = \"1024-65000\"\n";
        std::fs::write(bench.streams(), stream.repeat(1000))?;
        Ok(bench)
    }

    /// Returns the path of a stream file with 1000 streams.
    fn streams(&self) -> String {
        self.dir.path().join("streams.toml").display().to_string()
    }

    /// Measures the row's figure; `None` if the machine lacks a program or driver for it.
    pub(crate) fn measure(&self, row: &Row) -> anyhow::Result<Option<f64>> {
        if row.needs_twin() && !self.has_twin {
            return Ok(None);
        }
        match &row.run {
            Run::Gen(args) => Ok(Some(self.figure(row, &self.generate(args)?)?)),
            Run::ManyStreams(args) => {
                let file = self.streams();
                let args = [&args[..], &["-f", &file]].concat();
                Ok(Some(self.figure(row, &self.generate(&args)?)?))
            }
            Run::Memif(args) => {
                let socket = self.dir.path().join("memif.sock").display().to_string();
                let [server, client] = ["server", "client"].map(|role| {
                    let rings = "rsize=14,zero-copy=no";
                    format!("net_memif0,role={role},socket={socket},socket-abstract=no,{rings}")
                });
                let mut reflector = Reflector::start(&server)?;
                let results = self.generate(&[&[client.as_str()][..], args].concat());
                reflector.stop()?;
                Ok(Some(self.figure(row, &results?)?))
            }
            Run::Testpmd(mode) => self.testpmd(mode),
        }
    }

    /// Runs `millrace gen` and returns its results.
    fn generate(&self, args: &[&str]) -> anyhow::Result<Value> {
        let seconds = self.seconds.to_string();
        let mut command = Command::new(MILLRACE);
        command.arg("gen").args(args).args(["-q", "-d", &seconds, "--json", "-"]);
        let output = command.output().context("cannot run millrace")?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{command:?} fails: {}", String::from_utf8_lossy(&output.stderr))
        })
    }

    fn figure(&self, row: &Row, results: &Value) -> anyhow::Result<f64> {
        let number = |pointer: &str| {
            let found = results.pointer(pointer).and_then(Value::as_f64);
            found.with_context(|| format!("the results have no {pointer}"))
        };
        Ok(match row.figure {
            Figure::Sent => number("/sent/pps")? / 1e6,
            Figure::Received => number("/received/pps")? / 1e6,
            Figure::LostPerMillion => {
                (number("/verified/lost")? + number("/unsent")?) / number("/sent/packets")? * 1e6
            }
            Figure::RateError => (number("/sent/pps")? / 1e6 - 1.0).abs() * 100.0,
            Figure::Connections => number("/clients/established")? / number("/opened_for_s")? / 1e3,
            Figure::BytesPerConnection => number("/bytes_per_connection")?,
            Figure::GapError => number("/pacing/gap_error_p99_ns")? / 1e3,
        })
    }

    /// Returns the Mpps that testpmd sends in this forwarding mode; `None` if it cannot be started.
    fn testpmd(&self, mode: &str) -> anyhow::Result<Option<f64>> {
        let cpus = thread::available_parallelism()?.get();
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--no-pci", "--no-telemetry", "--in-memory", "-m", "128"]);
        command.arg(format!("--lcores=0@0,1@{}", cpus - 1)).arg("--vdev=net_null0,no-rx=1");
        command.args(["--file-prefix", &format!("bench-{}", std::process::id()), "--"]);
        command.arg(format!("--forward-mode={mode}"));
        command.args(["--stats-period=1", "--nb-cores=1", "--burst=64", "--port-topology=loop"]);
        // The default number of buffers does not fit into 128 MB.
        command.arg("--total-num-mbufs=16383");
        command.env("RUNTIME_DIRECTORY", self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return Ok(None) };
        let lines = BufReader::new(child.stdout.take().context("testpmd has no output")?).lines();
        let rates = lines.map_while(Result::ok).filter_map(|line| {
            line.split_once("Tx-pps:")?.1.split_whitespace().next()?.parse::<f64>().ok()
        });
        let rates: Vec<f64> = rates.skip(WARM_UP).take(self.seconds as usize).collect();
        child.kill().and_then(|()| child.wait())?;
        if rates.is_empty() {
            bail!("testpmd prints no rates");
        }
        Ok(Some(rates.iter().sum::<f64>() / rates.len() as f64 / 1e6))
    }
}

/// A running `millrace reflect`, which ends on drop.
struct Reflector(Child);

impl Reflector {
    fn start(port: &str) -> anyhow::Result<Self> {
        let socket = port.split(',').find_map(|part| part.strip_prefix("socket="));
        let socket = Path::new(socket.context("memif has a socket")?);
        let mut command = Command::new(MILLRACE);
        command.args(["reflect", port, "-q"]).stdout(Stdio::null()).stderr(Stdio::null());
        let reflector = Self(command.spawn().context("cannot run millrace reflect")?);
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > START {
                bail!("the reflector does not start");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(reflector)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        // SIGTERM: the reflector removes its socket when it ends in order.
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::TERM)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        // Does nothing if the reflector has already ended.
        if let Ok(None) = self.0.try_wait() {
            let _ = self.stop();
        }
    }
}
