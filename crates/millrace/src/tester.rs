// SPDX-License-Identifier: BSD-3-Clause
//! Defines the tester: whatever opens connections through a device and counts what becomes of them.
//! A search ([`bench cps`](crate::cmd::bench)) drives one, and so does `gen --daemon`.
//!
//! Testers are the generator of this process, [`RemoteTester`], which asks a daemon, and
//! [`SimulatedTester`] for tests.

mod call;
mod daemon;
mod generator;
mod load;
mod protocol;
mod remote;
mod simulated;
mod statistics;

pub(crate) use daemon::Daemon;
pub(crate) use generator::{CAPACITY, GeneratorTester, profile_of};
pub(crate) use load::{HELD_MAX, HOLD_MAX_MS, Load, LoadError, MAX_FLOWS};
pub(crate) use remote::RemoteTester;
pub(crate) use simulated::{SimulatedDevice, SimulatedTester};
#[cfg(test)]
pub(crate) use statistics::Rates;
pub(crate) use statistics::{
    FailureCounts, LatencyPercentiles, Side, TesterStatistics, TrafficCounts,
};

use stateful::Profile;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until a wait sees that it is interrupted.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// A profile that a daemon starts when its clients ask.
#[derive(Clone, Debug)]
pub(crate) struct OfferedProfile {
    pub(crate) profile: Arc<Profile>,
    /// Connections of each end that may be open at a time.
    pub(crate) capacity: u32,
}

/// Opens connections at a rate and counts them.
pub(crate) trait Tester {
    /// Starts a load. A load that runs already is replaced. Counters begin at 0.
    fn start(&mut self, load: &Load) -> Result<(), TesterError>;

    /// Changes the rate of the running load, in connections per second. Open connections go on.
    fn update(&mut self, cps: f64) -> Result<(), TesterError>;

    /// Starts a profile with its rates times `multiplier`, which grow for `ramp_up_s` seconds.
    /// A load that runs already is replaced. Counters begin at 0.
    fn start_profile(
        &mut self,
        _profile: &OfferedProfile,
        _multiplier: f64,
        _ramp_up_s: u32,
    ) -> Result<(), TesterError> {
        Err(TesterError::NoProfiles)
    }

    /// Changes the rates of the running profile to `multiplier` times those of its text.
    fn multiply(&mut self, _multiplier: f64) -> Result<(), TesterError> {
        Err(TesterError::NoProfiles)
    }

    /// Ends the load: opens no connection and sends nothing more. Returns once packets on their way
    /// have had time to arrive, so that the counters are final. Does nothing if no load runs.
    /// Connections that are still open then have not failed, unless they had no answer.
    fn stop(&mut self) -> Result<(), TesterError>;

    /// Sets all counters to 0 but that of open connections. The load goes on.
    fn clear(&mut self) -> Result<(), TesterError>;

    /// Returns the counters since the start or the last call of `clear`.
    fn statistics(&mut self) -> Result<TesterStatistics, TesterError>;

    /// Lets the load run for this time; returns earlier if `interrupted` is set.
    fn wait(&mut self, time: Duration, interrupted: &AtomicBool) -> Result<(), TesterError> {
        wait_in_real_time(time, interrupted);
        Ok(())
    }

    /// True if no packet is sent, and time is simulated too.
    fn is_simulated(&self) -> bool {
        false
    }
}

/// Sleeps for this time; returns earlier if `interrupted` is set.
fn wait_in_real_time(time: Duration, interrupted: &AtomicBool) {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || interrupted.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(left.min(WAIT_SLICE));
    }
}

/// Why a tester cannot do what it is asked to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TesterError {
    /// The rate of a load is to be changed, but none runs.
    #[error("no load runs: start one first")]
    Idle,
    /// The rates of a profile are to change, but what runs is none.
    #[error("the load that runs has no profile: update its cps")]
    NoProfileRuns,
    /// A simulated device is to run a profile.
    #[error("a simulated device runs no profiles: start a load with cps")]
    NoProfiles,
    /// A profile with its multiplier is faster than any generator.
    #[error("the profile has {cps} connections/s then: at most 100000000 are allowed")]
    TooFast {
        /// Connections per second.
        cps: f64,
    },
    /// The generator of this process failed.
    #[error(transparent)]
    Generator(#[from] anyhow::Error),
    /// A client asks for simulated time.
    #[error("advance: this generator runs in real time; only a simulated device advances")]
    RealTime,
    /// No daemon answers at any address of the host.
    #[error(
        "{host}: cannot connect: {error}; start the daemon there with `millrace gen PORTS --daemon \
         ADDRESS`"
    )]
    Unreachable {
        /// Host and port.
        host: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The connection with the daemon breaks.
    #[error("{daemon}: the daemon does not answer: {error}")]
    Connection {
        /// Address of the daemon.
        daemon: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// The daemon answers with an error.
    #[error("{daemon}: {text}")]
    Refused {
        /// Address of the daemon.
        daemon: SocketAddr,
        /// The daemon's error.
        text: String,
    },
    /// The answer is not one of this protocol, or not one to the request.
    #[error(
        "{daemon}: cannot read the answer; is a daemon of millrace gen --daemon there?: {error}"
    )]
    Unknown {
        /// Address of the daemon.
        daemon: SocketAddr,
        /// What is wrong with the answer.
        error: serde_json::Error,
    },
}
