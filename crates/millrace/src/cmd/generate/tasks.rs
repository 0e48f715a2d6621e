// SPDX-License-Identifier: BSD-3-Clause
//! Makes the senders and receivers of a run, and distributes them over workers.

use super::GenArgs;
use super::neighbours::{Senders, macs};
use super::on_time::OnTimeSending;
use super::pcapng::PcapngFile;
use super::profile::LoadedProfile;
use super::reflector_queries::ReflectorQueries;
use crate::cpu_locks;
use crate::ports::OpenPorts;
use anyhow::Context;
use doctor::host::CpuList;
use dpdk::{Job, Mempool, RxQueue, TxQueue};
use generator::{
    Answers, BurstSizes, Checks, Clock, ForeignFrameHandler, Lanes, Ledger, Phase, PortQueue,
    PortRx, PortTx, Replies, Session, Tapped, Task, Transmit, WorkerCycles, run_tasks,
};
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, ProbedReplay, Side, Verifier};

/// Maximum duplicate window of a lane, in packets, and the sum of the windows of all lanes: with
/// many lanes, each window is smaller.
const WINDOW_MAX: usize = 1 << 16;
const WINDOWS_TOTAL: usize = 1 << 24;

/// Numbers of senders, receivers and workers of a run. Each sender has a transmit queue of each
/// port, each receiver a receive queue of each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskCounts {
    pub(super) senders: u16,
    pub(super) receivers: u16,
    pub(super) workers: usize,
}

/// The tasks of one worker.
pub(super) type Tasks = Vec<Box<dyn Task>>;

/// Returns the duplicate window of each of `lanes` lanes, in packets.
pub(super) fn window(lanes: usize) -> usize {
    (WINDOWS_TOTAL / lanes.max(1)).clamp(64, WINDOW_MAX)
}

impl TaskCounts {
    /// Returns the numbers that `args` ask for. By default, each sender and receiver has a cpu of
    /// its own while free cpus remain.
    pub(super) fn new(args: &GenArgs) -> Self {
        let (cpus, most) = match &args.cpus {
            Some(CpuList(named)) => (named.len(), named.len()),
            None => {
                let cpus = cpu_locks::cpus_of_this_host();
                (cpus.count_free(), cpus.usable().len())
            }
        };
        let receivers = args.receivers;
        let spare = cpus.saturating_sub(receivers.into()).max(1);
        let shares = args.profile.shares().unwrap_or(1);
        let senders = args.senders.unwrap_or(shares.min(spare as u16));
        let tasks = usize::from(senders) + usize::from(receivers);
        let workers = args.workers.map_or(cpus, |it| most.min(it.into())).clamp(1, tasks.max(1));
        Self { senders, receivers, workers }
    }
}

/// Everything from which the tasks of a run are made.
pub(super) struct Plan<'a> {
    pub(super) counts: TaskCounts,
    pub(super) specs: &'a [StreamSpec],
    pub(super) profile: Option<&'a LoadedProfile>,
    pub(super) setup: StreamSetup,
    /// MAC addresses of the gateways of the ports.
    pub(super) gateways: [Option<[u8; 6]>; 2],
    pub(super) mempool: Mempool,
    pub(super) bursts: BurstSizes,
    /// True if senders measure how late bursts are.
    pub(super) is_timed: bool,
    /// Present if ports send packets on time.
    pub(super) on_time: Option<OnTimeSending>,
    pub(super) clock: Clock,
    pub(super) interval_ns: u64,
}

/// Queues of a port that no task has taken yet.
struct FreeQueues {
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    mac: [u8; 6],
    /// Replies for the first sender of the port.
    replies: Vec<Replies>,
    /// For each receiver, the ring for answers of a reflector.
    answers: Vec<Answers>,
}

impl Plan<'_> {
    /// Makes the tasks of each worker, and the ledger of the run.
    pub(super) fn tasks(
        &self,
        open: &mut OpenPorts,
        queries: &mut ReflectorQueries,
        mut pcapng: Option<&mut PcapngFile>,
    ) -> anyhow::Result<(Vec<Tasks>, Ledger)> {
        // The frames of a profile count as one more stream, in addition to the probes.
        let streams = self.specs.len() + usize::from(self.profile.is_some());
        let made = self.specs.iter().take_while(|spec| spec.playback.is_none()).count();
        let stamped = if self.setup.is_stamped { made } else { 0 };
        let lanes = Lanes { streams, stamped, senders: self.counts.senders.into() };
        let session = Session::new(self.clock, self.interval_ns, lanes);
        // Before its start the clock is at 0, so senders wait until it runs.
        let mut session = session.starting_at(1);
        let macs: Vec<_> = open.ports.iter().map(|port| port.info().mac).collect();
        let queues = open.queues.drain(..).zip(macs);
        let free = queues.enumerate().map(|(port, ((rx, tx), mac))| {
            let replies = queries.queries(port).into_iter().collect();
            let answers = rx.iter().filter_map(|_| queries.answers(port)).collect();
            FreeQueues { rx, tx, mac, replies, answers }
        });
        let mut ports: Vec<FreeQueues> = free.collect();
        let mut receivers = Vec::new();
        for left in (1..=self.counts.receivers).rev() {
            let pcapng = pcapng.as_deref_mut();
            let queues = self.rx_queues(&mut ports, left);
            receivers.push(self.receiver(&mut session, queues, stamped, pcapng));
        }
        let mut teams = Vec::new();
        for share in 0..self.counts.senders {
            let pcapng = pcapng.as_deref_mut();
            teams.push(self.senders(&mut session, share, &mut ports, pcapng)?);
        }
        teams.extend(receivers.into_iter().map(|receiver| vec![receiver]));
        let mut workers: Vec<Tasks> = (0..self.counts.workers).map(|_| Vec::new()).collect();
        for (number, tasks) in teams.into_iter().enumerate() {
            workers[number % self.counts.workers].extend(tasks);
        }
        Ok((workers, session.into_ledger()))
    }

    /// Takes queues of each port for one receiver; `receivers` receivers have none yet, this one
    /// included. Some drivers have more queues than requested.
    fn rx_queues(&self, ports: &mut [FreeQueues], receivers: u16) -> Vec<PortQueue<PortRx>> {
        let senders = Senders { specs: self.specs, profile: self.profile };
        let mut queues = Vec::new();
        for (port, free) in ports.iter_mut().enumerate() {
            let share = free.rx.len().div_ceil(receivers.into());
            for queue in free.rx.drain(free.rx.len() - share..) {
                let (responder, replies) = senders.responder(port, free.mac);
                let responder = responder.with_answers(free.answers.pop());
                free.replies.push(replies);
                let number = queue.number().into();
                let rx = PortRx::new(queue).with_burst(self.bursts.rx);
                let foreign_handler = ForeignFrameHandler::Neighbours(responder);
                queues.push(PortQueue { port, queue: number, rx, foreign_handler });
            }
        }
        queues
    }

    /// Makes a receiver for these queues.
    fn receiver(
        &self,
        session: &mut Session,
        queues: Vec<PortQueue<PortRx>>,
        stamped: usize,
        pcapng: Option<&mut PcapngFile>,
    ) -> Box<dyn Task> {
        let lanes = stamped * usize::from(self.counts.senders);
        let window = window(lanes);
        let verifier = || Verifier::new(self.setup.seed, self.setup.format);
        let checks = self.setup.is_stamped.then(|| Checks { verifier: verifier(), window });
        match pcapng {
            None => Box::new(session.receiver(queues, checks)),
            Some(pcapng) => {
                let tapped =
                    queues.into_iter().map(|PortQueue { port, queue, rx, foreign_handler }| {
                        let rx = Tapped::new(rx, pcapng.tap(port, false));
                        PortQueue { port, queue, rx, foreign_handler }
                    });
                Box::new(session.receiver(tapped.collect(), checks))
            }
        }
    }

    /// Makes the senders of share number `share`: one for each port that sends.
    fn senders(
        &self,
        session: &mut Session,
        share: u16,
        ports: &mut [FreeQueues],
        mut pcapng: Option<&mut PcapngFile>,
    ) -> anyhow::Result<Tasks> {
        let mut tasks: Tasks = Vec::new();
        let sides = [Side::A, Side::B].into_iter().enumerate();
        for ((port, side), free) in sides.zip(ports) {
            if self.profile.is_none() && !self.specs.iter().any(|spec| spec.side == side) {
                continue;
            }
            let part = Part { side: Some(side), share, shares: self.counts.senders };
            let macs = macs(self.setup.macs, self.gateways, side);
            let setup = StreamSetup { part, macs, ..self.setup.clone() };
            // Probes have their whole rate from the start.
            let ramp_ns = if self.profile.is_some() { 0 } else { setup.ramp_ns };
            let streams = Streams::new(self.specs, &StreamSetup { ramp_ns, ..setup.clone() })?;
            let queue = free.tx.pop().context("a transmit queue for each sender")?;
            let mut tx = PortTx::new(queue, self.mempool).with_burst(self.bursts.tx);
            if let Some(on_time) = &self.on_time {
                tx = on_time.set_up(tx, port, self.clock)?;
            }
            let extras = (std::mem::take(&mut free.replies), self.is_timed);
            let source = match self.profile {
                Some(profile) => Traffic::Profile(profile.source(streams, &setup)?),
                None => Traffic::Streams(streams),
            };
            tasks.push(match pcapng.as_deref_mut() {
                None => source.sender(session, port, tx, extras),
                Some(pcapng) => {
                    source.sender(session, port, Tapped::new(tx, pcapng.tap(port, true)), extras)
                }
            });
        }
        Ok(tasks)
    }
}

/// The source of a sender's frames.
enum Traffic {
    Streams(Streams),
    Profile(ProbedReplay),
}

impl Traffic {
    fn sender(
        self,
        session: &mut Session,
        port: usize,
        tx: impl Transmit + 'static,
        (replies, is_timed): (Vec<Replies>, bool),
    ) -> Box<dyn Task> {
        match self {
            Self::Streams(streams) => {
                Box::new(session.sender(streams, port, tx).replying(replies).timed(is_timed))
            }
            Self::Profile(replay) => {
                Box::new(session.sender(replay, port, tx).replying(replies).timed(is_timed))
            }
        }
    }
}

/// Starts each worker on its lcore.
pub(super) fn launch(
    workers: Vec<Tasks>,
    open: &mut OpenPorts,
    clock: Clock,
    phase: &Phase,
) -> Vec<Job<WorkerCycles>> {
    let lcores = std::mem::take(&mut open.lcores);
    let jobs = lcores.into_iter().zip(workers).map(|(lcore, tasks)| {
        let phase = phase.clone();
        lcore.launch(move || run_tasks(tasks, clock, &phase).1)
    });
    jobs.collect()
}
