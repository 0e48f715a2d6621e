// SPDX-License-Identifier: BSD-3-Clause
//! Asks the workers and ports of a running bump how things stand, and waits for their answers: for
//! threads that serve somebody who wants to know, never for one that a packet depends on.
//!
//! One question at a time; each is answered in full and kept in bounded memory before the next, so
//! that it does not matter how fast anybody reads.

use super::desk::{Ask, Caller};
use super::offload::RulesLine;
use super::saving::Gauge;
use super::worker::Report;
use super::{SharedPort, report};
use crate::summary::{Offload, OffloadPort, Summary};
use engine::{LiveFlow, OffloadState, Query};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks whether there is an answer.
const NAP: Duration = Duration::from_micros(200);

/// A bump that may be asked.
pub(crate) struct Inquiry {
    pub(super) workers: Mutex<Vec<Asked>>,
    /// Upstream end and downstream end of each wire, in turn, and what takes their rules.
    pub(super) ports: Vec<SharedPort>,
    pub(super) rules: Vec<RulesLine>,
    pub(super) policy: String,
    pub(super) bypass: String,
    pub(super) gauge: Gauge,
    pub(super) started: Instant,
}

/// A worker that may be asked.
pub(super) struct Asked {
    pub(super) lcore: u32,
    /// Number of its wire.
    pub(super) wire: usize,
    pub(super) caller: Caller,
}

/// The run is over, or about to be: there is nobody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run has come to its end")]
pub(crate) struct Ending;

/// A flow, and the worker that has it.
pub(crate) struct Found {
    pub(crate) flow: LiveFlow,
    pub(crate) lcore: u32,
    pub(crate) wire: usize,
}

/// One port, and how things stand with its rules.
pub(crate) struct PortNow {
    pub(crate) rules: OffloadPort,
    /// Over all workers: the highest threshold, the longest horizon, and sums.
    pub(crate) state: OffloadState,
}

impl Inquiry {
    /// Gives all flows that are asked for to `found`, of one worker after the other.
    pub(crate) fn flows(&self, query: Query, found: &mut impl FnMut(Found)) -> Result<(), Ending> {
        for Asked { lcore, wire, caller } in self.lock().iter_mut() {
            caller.asks.push(Ask::Flows(query)).map_err(|_| Ending)?;
            loop {
                match caller.told.pop() {
                    Ok(Some(flow)) => found(Found { flow, lcore: *lcore, wire: *wire }),
                    Ok(None) => break,
                    Err(_) if caller.told.is_abandoned() => return Err(Ending),
                    Err(_) => std::thread::sleep(NAP),
                }
            }
        }
        Ok(())
    }

    /// What the summary would say if the run ended now.
    pub(crate) fn summary(&self) -> Result<Summary, Ending> {
        let reports: Vec<_> =
            self.now()?.into_iter().map(|(lcore, _, report)| (lcore, report)).collect();
        let ports = self.rules.iter().map(RulesLine::ask).collect::<Option<_>>().ok_or(Ending)?;
        let (policy, bypass) = (self.policy.clone(), self.bypass.clone());
        let offload = Offload { policy, bypass, ports, ..Offload::default() };
        let duration = self.started.elapsed();
        let summary = report::summary(&self.ports, &reports, (duration, offload));
        Ok(Summary { snapshot: self.gauge.read(), ..summary })
    }

    /// All ports, in their order.
    pub(crate) fn ports(&self) -> Result<Vec<PortNow>, Ending> {
        let workers = self.now()?;
        let port = |(number, line): (usize, &RulesLine)| {
            let (wire, side) = (number / 2, number % 2);
            let of_wire = workers.iter().filter(|(_, at, _)| *at == wire);
            let states = of_wire.map(|(_, _, report)| report.admission[side]);
            Some(PortNow { rules: line.ask()?, state: states.reduce(plus).unwrap_or_default() })
        };
        self.rules.iter().enumerate().map(port).collect::<Option<_>>().ok_or(Ending)
    }

    /// Names of all ports, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(RulesLine::name)
    }

    /// Who gets rules, as `policy` says it.
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// How long the bump has run.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lcore, wire, and how it stands, of each worker.
    fn now(&self) -> Result<Vec<(u32, usize, Report)>, Ending> {
        let mut workers = self.lock();
        for worker in workers.iter_mut() {
            worker.caller.asks.push(Ask::Now).map_err(|_| Ending)?;
        }
        let answer = |worker: &mut Asked| loop {
            match worker.caller.nows.pop() {
                Ok(now) => return Ok((worker.lcore, worker.wire, now)),
                Err(_) if worker.caller.nows.is_abandoned() => return Err(Ending),
                Err(_) => std::thread::sleep(NAP),
            }
        };
        workers.iter_mut().map(answer).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked>> {
        // A panic ends the process.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn plus(sum: OffloadState, next: OffloadState) -> OffloadState {
    OffloadState {
        live: sum.live + next.live,
        room: sum.room + next.room,
        threshold: sum.threshold.max(next.threshold),
        horizon_ns: sum.horizon_ns.max(next.horizon_ns),
        kinds_aside: sum.kinds_aside.max(next.kinds_aside),
    }
}
