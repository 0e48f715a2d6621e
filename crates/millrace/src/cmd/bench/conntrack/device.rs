// SPDX-License-Identifier: BSD-3-Clause
//! Starts a device and a generator at its ports, and counts the connections of the device. Both are
//! other processes of this program, which end with this one.

use super::super::testbed::{Running, end_with_us, this_program};
use crate::tester::RemoteTester;
use anyhow::{Context, bail};
use control::{Instance, Request, RequestKind};
use std::io::BufReader;
use std::net::SocketAddr;
use std::process::ChildStderr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Connections that the table of a device has room for, as in the article.
const CAPACITY: u32 = 5_000_000;
/// Seconds that the device keeps a connection without packets, in states without another value.
pub(super) const SHORT_TIMEOUT_S: u32 = 1;
/// Seconds that it keeps an established TCP connection, and UDP with an answer.
pub(super) const LONG_TIMEOUT_S: u32 = 30;
/// Timeouts of the article's zone, and whether they are the long one.
const TIMEOUTS: [(&str, bool); 9] = [
    ("tcp_syn_sent", false),
    ("tcp_syn_recv", false),
    ("tcp_established", true),
    ("tcp_fin_wait", false),
    ("tcp_time_wait", false),
    ("tcp_close", false),
    ("udp_first", false),
    ("udp_single", false),
    ("udp_multiple", true),
];
/// Longest time until a device or a generator answers: it takes all of its memory before.
const READY: Duration = Duration::from_secs(60);
/// Time between two looks whether a device answers.
const TURN: Duration = Duration::from_millis(20);
/// What the daemon prints before its address.
const LISTENS: &str = "millrace: the generator listens at ";

/// A device to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Dut {
    /// None: the generator's ports are joined
    Cable,
    /// `millrace run` over memif, with and without tracking
    Millrace,
}

/// A device and how it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) dut: Dut,
    pub(super) has_tracking: bool,
    /// Cpus of the device, each with a queue of both ports.
    pub(super) cpus: u32,
}

impl Configuration {
    pub(super) fn name(self) -> String {
        match (self.dut, self.has_tracking) {
            (Dut::Cable, _) => "cable".to_owned(),
            (Dut::Millrace, true) => format!("millrace, {0}C/{0}Q", self.cpus),
            (Dut::Millrace, false) => format!("millrace, {0}C/{0}Q, no tracking", self.cpus),
        }
    }

    /// Returns what this host lacks to run the configuration, of `here` cpus.
    pub(super) fn lacks(self, here: usize) -> Option<String> {
        let needed = match self.dut {
            Dut::Cable => 1,
            Dut::Millrace => self.cpus as usize + 1,
        };
        if needed > here {
            return Some(format!("needs {needed} cpus, {here} here"));
        }
        let has_queues = self.cpus == 1;
        (!has_queues).then(|| format!("needs a generator with {} queues at each port", self.cpus))
    }

    /// Returns the configuration file of the device, without its ports and its socket.
    pub(super) fn settings(self) -> Option<String> {
        let timeout = |(name, is_long): &(&str, bool)| {
            format!("{name} = {}\n", if *is_long { LONG_TIMEOUT_S } else { SHORT_TIMEOUT_S })
        };
        match (self.dut, self.has_tracking) {
            (Dut::Cable, _) => None,
            (Dut::Millrace, false) => Some("[policy]\ntracking = \"off\"\n".to_owned()),
            (Dut::Millrace, true) => Some(format!(
                "[table]\ncapacity = {CAPACITY}\ncapacity_ipv6 = 1\n\n\
                 [acl]\nnew_from = \"a\"\n\n[timeouts]\n{}",
                TIMEOUTS.iter().map(timeout).collect::<String>()
            )),
        }
    }
}

/// A device with a generator at its ports. Dropping the value ends both, the generator first.
pub(super) struct Bench {
    generator: Generator,
    device: Option<Device>,
}

/// The daemon that generates.
struct Generator {
    /// The daemon writes to it.
    _stderr: BufReader<ChildStderr>,
    _process: Running,
    address: SocketAddr,
}

/// A running instance of Millrace.
struct Device {
    process: Running,
    instance: Instance,
    /// Its configuration file and its socket.
    _dir: TempDir,
}

impl Bench {
    /// Starts both.
    pub(super) fn start(of: Configuration, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let device = of.settings().map(|settings| Device::start(of, &settings, interrupted));
        let device = device.transpose().context("cannot start the device")?;
        let ports = match of.dut {
            Dut::Cable => [memif(0, "server", "cable"), memif(1, "client", "cable")],
            Dut::Millrace => [memif(0, "client", "a"), memif(1, "client", "b")],
        };
        let generator = Generator::start(&ports).context("cannot start the generator")?;
        Ok(Self { generator, device })
    }

    /// Returns a tester that drives the generator.
    pub(super) fn tester(&self) -> anyhow::Result<RemoteTester> {
        let address = self.generator.address;
        Ok(RemoteTester::connect(&address.ip().to_string(), address.port(), READY)?)
    }

    /// Returns the number of connections in the device's table; `None` if it has none. Fails if the
    /// device has ended.
    pub(super) fn count(&mut self) -> anyhow::Result<Option<u64>> {
        let Some(device) = &mut self.device else { return Ok(None) };
        device.process.check().context("the device failed")?;
        device.count().map(Some)
    }
}

/// Returns the devargs of an end of a memif. The name of its socket is abstract (unix(7)), so there
/// is no file to remove.
fn memif(number: u32, role: &str, wire: &str) -> String {
    let pid = std::process::id();
    format!(
        "net_memif{number},role={role},socket=millrace-conntrack-{pid}-{wire},\
         socket-abstract=yes,rsize=14"
    )
}

impl Generator {
    fn start(ports: &[String; 2]) -> anyhow::Result<Self> {
        let mut command = end_with_us(this_program()?)?;
        command.arg("gen").arg(ports.join(",")).args(["--workers", "1", "--serve", "0"]);
        let mut process = Running::start(&mut command)?;
        let (address, stderr) = process.wait_for_line(LISTENS)?;
        let address = address.parse().context("the generator names no address")?;
        Ok(Self { _stderr: stderr, _process: process, address })
    }
}

impl Device {
    fn start(of: Configuration, settings: &str, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("millrace-conntrack-").tempdir()?;
        let (file, socket) = (dir.path().join("device.toml"), dir.path().join("device.sock"));
        let [a, b] = [memif(0, "server", "a"), memif(1, "server", "b")];
        let ports = format!("[[pair]]\na = {a:?}\nb = {b:?}\n");
        let text = format!("{ports}\n{settings}\n[control]\nsocket = {socket:?}\n");
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = end_with_us(this_program()?)?;
        command.arg("run").arg(&file).args(["--quiet", "--workers", &of.cpus.to_string()]);
        let process = Running::start(&mut command)?;
        let mut device = Self { process, instance: Instance::at(socket), _dir: dir };
        device.wait_until_ready(interrupted)?;
        Ok(device)
    }

    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Err(error) = self.count() {
            self.process.check()?;
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if begun.elapsed() > READY {
                return Err(error);
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    }

    fn count(&mut self) -> anyhow::Result<u64> {
        let request = Request::new(RequestKind::Count);
        Ok(self.instance.query(&request)?.matched)
    }
}

/// Returns the number of cpus that this process may use.
pub(super) fn cpus_here() -> usize {
    crate::cpu_locks::cpus_of_this_host().usable().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_needs_a_cpu_beside_the_generator() {
        let of = |dut, cpus| Configuration { dut, has_tracking: true, cpus };
        assert_eq!(of(Dut::Cable, 1).lacks(1), None);
        assert_eq!(of(Dut::Millrace, 1).lacks(2), None);
        assert_eq!(of(Dut::Millrace, 2).lacks(2).unwrap(), "needs 3 cpus, 2 here");
        let queues = of(Dut::Millrace, 2).lacks(3).unwrap();
        assert_eq!(queues, "needs a generator with 2 queues at each port");
    }
}
