// SPDX-License-Identifier: BSD-3-Clause
//! Options of searches whose load is connections, and the testers that they name.

use super::calibration::calibrate;
use super::conduct::{Plan, Progress};
use super::connections::{ConnectionTrials, LoadKind};
use crate::cmd::bench::cps::{ProfileArgs, number, whole};
use crate::cmd::bench::generator_options::{CONNECTION_OPTIONS, kept_by_cable};
use crate::cmd::bench::serving_generator::{ServingGenerator, Wiring};
use crate::tester::{HELD_MAX, HOLD_MAX_MS, Load, SimulatedDevice, SimulatedTester, Tester};
use anyhow::{Context, bail};
use results::search::Calibration;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest time in which connections are opened that are held together. Half of the longest hold is
/// for the time after that.
pub(in super::super) const OPENING_MAX_S: f64 = HOLD_MAX_MS as f64 / 2e3;

/// What connections carry, and how they are opened.
#[derive(clap::Args)]
pub(in super::super) struct ConnectionArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Run COMMAND with sh before each trial, for example to empty the device's table
    #[arg(long, value_name = "COMMAND", help_heading = "Connections")]
    pub(in super::super) reset_command: Option<String>,
    /// Search on a simulated device, in simulated time
    #[arg(long, hide = true, value_name = "DEVICE")]
    pub(in super::super) simulate: Option<SimulatedDevice>,
}

/// Ports of a calibration.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum CableOrPorts<'a> {
    /// A cable in memory.
    Cable,
    Ports(&'a str),
}

/// A tester, and the process that it drives.
pub(in super::super) struct OpenTester {
    tester: Box<dyn Tester>,
    /// Ends with this value.
    _generator: Option<ServingGenerator>,
}

/// A search with connections.
pub(in super::super) struct ConnectionSearch<'a> {
    pub(in super::super) args: &'a ConnectionArgs,
    /// Options of `millrace gen`.
    pub(in super::super) options: &'a [String],
    pub(in super::super) interrupted: &'a AtomicBool,
}

impl ConnectionArgs {
    /// Returns what connections carry.
    pub(in super::super) fn profile(&self) -> Load {
        self.profile.load(1.0)
    }

    /// True if no connection is of TCP.
    pub(in super::super) fn is_udp_only(&self) -> bool {
        self.profile().udp_percent >= 100.0
    }

    /// Describes what connections carry.
    pub(in super::super) fn describe(&self) -> String {
        let Load { udp_percent, messages, message_size, server_wait_ms, .. } = self.profile();
        format!(
            "connections udp={udp_percent}% messages={messages} size={message_size} \
             server-wait={server_wait_ms}ms"
        )
    }
}

/// Fails if a trial has more connections than a tester holds, or takes too long.
pub(in super::super) fn refuse_too_many(
    connections: f64,
    opening_cps: f64,
    option: &str,
) -> Result<(), String> {
    let most = f64::from(HELD_MAX);
    if connections > most {
        return Err(format!("{option}: the tester holds at most {most} connections at a time"));
    }
    if connections / opening_cps > OPENING_MAX_S {
        return Err(format!(
            "{option}: to open {connections} connections at {opening_cps} a second takes more \
             than {OPENING_MAX_S} s: raise the rate"
        ));
    }
    Ok(())
}

/// Parses a rate at which connections are opened.
pub(in super::super) fn opening_rate(text: &str) -> Result<f64, String> {
    number::<1, 10_000_000>(text.strip_suffix("cps").unwrap_or(text))
}

/// Parses a number of connections.
pub(in super::super) fn count(text: &str) -> Result<u32, String> {
    whole::<1, HELD_MAX>(text.strip_suffix("conn").unwrap_or(text))
}

impl OpenTester {
    /// True if no packet is sent.
    pub(in super::super) fn is_simulated(&self) -> bool {
        self.tester.is_simulated()
    }
}

impl ConnectionSearch<'_> {
    /// Opens the tester of these ports, or the simulated one.
    pub(in super::super) fn open(&self, ports: &str) -> anyhow::Result<OpenTester> {
        if let Some(device) = self.args.simulate {
            let tester = Box::new(SimulatedTester::new(device));
            return Ok(OpenTester { tester, _generator: None });
        }
        self.serve(&Wiring::ports(ports), self.options)
    }

    fn serve(&self, wiring: &Wiring, options: &[String]) -> anyhow::Result<OpenTester> {
        let generator = ServingGenerator::start(wiring, options);
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let generator = generator?;
        let tester = Box::new(generator.tester()?);
        Ok(OpenTester { tester, _generator: Some(generator) })
    }

    /// Makes trials of this kind.
    pub(in super::super) fn trials<'a>(
        &'a self,
        tester: &'a mut OpenTester,
        kind: LoadKind,
    ) -> ConnectionTrials<'a> {
        ConnectionTrials {
            tester: &mut *tester.tester,
            kind,
            profile: self.args.profile(),
            reset_command: self.args.reset_command.as_deref(),
            interrupted: self.interrupted,
        }
    }

    /// Measures what the tester sustains without the device.
    pub(in super::super) fn calibrate(
        &self,
        (plan, kind): (Plan<'_>, LoadKind),
        ports: CableOrPorts<'_>,
        progress: Progress<'_>,
    ) -> anyhow::Result<Calibration> {
        let kept = kept_by_cable(self.options, CONNECTION_OPTIONS);
        let (wiring, shown) = match ports {
            CableOrPorts::Cable => (Wiring::cable(), "cable"),
            CableOrPorts::Ports(ports) => (Wiring::ports(ports), ports),
        };
        let mut tester = match self.args.simulate {
            Some(device) => {
                let tester = Box::new(SimulatedTester::new(device.without_limits()));
                OpenTester { tester, _generator: None }
            }
            None => self.serve(&wiring, &kept).context("--calibrate")?,
        };
        let mut trials = self.trials(&mut tester, kind);
        // There is no device to reset.
        trials.reset_command = None;
        calibrate(plan, shown, &mut trials, progress).context("--calibrate")
    }
}
