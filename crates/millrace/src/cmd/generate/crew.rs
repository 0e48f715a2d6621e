// SPDX-License-Identifier: BSD-3-Clause
//! Who does what in a run: senders and receivers, and the workers that run them.

use super::GenArgs;
use super::profile::LoadedProfile;
use crate::ports::OpenPorts;
use anyhow::Context;
use dpdk::Job;
use generator::{
    Checks, Clock, Lanes, Ledger, Phase, PortQueue, PortRx, PortTx, Session, Task, run_tasks,
};
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, Side, Source, Verifier};

/// Latest packets of a stream among which duplicates are found: 64 Ki for one, less for many.
const WINDOW_MAX: usize = 1 << 16;
const WINDOWS_TOTAL: usize = 1 << 24;
/// From when workers are started to when senders begin: all of them run by then.
const START_NS: u64 = 20_000_000;

/// How many senders, receivers and workers a run has. Every sender has a transmit queue of each
/// port, every receiver a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crew {
    pub(super) senders: u16,
    pub(super) receivers: u16,
    pub(super) workers: usize,
}

/// What one worker runs.
type Tasks = Vec<Box<dyn Task>>;

impl Crew {
    /// The crew that is asked for, on so many cpus: by default a cpu for each, as far as there are.
    pub(super) fn new(args: &GenArgs, cpus: usize) -> Self {
        let receivers = args.receivers;
        let spare = cpus.saturating_sub(receivers.into()).max(1);
        let shares = args.profile.shares().unwrap_or(1);
        let senders = args.senders.unwrap_or(shares.min(spare as u16));
        let tasks = usize::from(senders) + usize::from(receivers);
        let workers = args.workers.map_or(cpus, usize::from).clamp(1, tasks.max(1));
        Self { senders, receivers, workers }
    }
}

/// Makes the tasks of each worker, and the ledger of the run.
pub(super) fn tasks(
    (crew, specs, profile): (Crew, &[StreamSpec], Option<&LoadedProfile>),
    setup: &StreamSetup,
    open: &mut OpenPorts,
    (clock, interval_ns): (Clock, u64),
) -> anyhow::Result<(Vec<Tasks>, Ledger)> {
    // Beside the probes, the frames of a profile are a stream of their own.
    let streams = specs.len() + usize::from(profile.is_some());
    let stamped = if setup.is_stamped { specs.len() } else { 0 };
    let lanes = Lanes { streams, stamped, senders: crew.senders.into() };
    let session = Session::new(clock, interval_ns, lanes);
    let mut session = session.starting_at(clock.now() + START_NS);
    let (mut rx, mut tx): (Vec<_>, Vec<_>) = open.queues.drain(..).unzip();
    let mut shares = Vec::new();
    for share in 0..crew.senders {
        let mut tasks: Tasks = Vec::new();
        for (port, side) in [Side::A, Side::B].into_iter().take(tx.len()).enumerate() {
            if profile.is_none() && !specs.iter().any(|spec| spec.side == side) {
                continue;
            }
            let part = Part { side: Some(side), share, shares: crew.senders };
            let streams = Streams::new(specs, &StreamSetup { part, ..setup.clone() })?;
            let queue = tx[port].pop().context("a transmit queue for each sender")?;
            let tx = PortTx::new(queue, open.mempool);
            tasks.push(match profile {
                Some(profile) => {
                    let source = profile.source(streams, setup.macs, part)?;
                    sender(&mut session, source, port, tx)
                }
                None => sender(&mut session, streams, port, tx),
            });
        }
        shares.push(tasks);
    }
    for queue in (0..usize::from(crew.receivers)).rev() {
        let queues = rx.iter_mut().enumerate().filter_map(|(port, queues)| {
            Some(PortQueue { port, queue, rx: PortRx::new(queues.pop()?) })
        });
        let window = (WINDOWS_TOTAL / (stamped * lanes.senders).max(1)).clamp(64, WINDOW_MAX);
        let verifier = || Verifier::new(setup.seed, setup.key);
        let checks = setup.is_stamped.then(|| Checks { verifier: verifier(), window });
        shares.push(vec![Box::new(session.receiver(queues.collect(), checks))]);
    }
    let mut workers: Vec<Tasks> = (0..crew.workers).map(|_| Vec::new()).collect();
    for (number, tasks) in shares.into_iter().enumerate() {
        workers[number % crew.workers].extend(tasks);
    }
    Ok((workers, session.into_ledger()))
}

fn sender<S: Source + Send + 'static>(
    session: &mut Session,
    source: S,
    port: usize,
    tx: PortTx,
) -> Box<dyn Task> {
    Box::new(session.sender(source, port, tx))
}

/// Starts the workers.
pub(super) fn launch(
    workers: Vec<Tasks>,
    open: &mut OpenPorts,
    clock: Clock,
    phase: &Phase,
) -> Vec<Job<()>> {
    let lcores = std::mem::take(&mut open.lcores);
    let jobs = lcores.into_iter().zip(workers).map(|(lcore, tasks)| {
        let phase = phase.clone();
        lcore.launch(move || drop(run_tasks(tasks, clock, &phase)))
    });
    jobs.collect()
}
