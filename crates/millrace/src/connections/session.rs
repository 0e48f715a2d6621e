// SPDX-License-Identifier: BSD-3-Clause
//! Opens ports, and runs the tasks of clients and servers on workers.

use super::impairment::{BadLinks, ImpairedCount};
use super::next_hop::NextHops;
use super::totals::{Ledger, Totals};
use crate::cpu_locks;
use crate::ports::{OpenOptions, OpenPorts, PortNames, Tuning};
use crate::worker_cycles::join_lcores;
use anyhow::{Context, bail};
use dpdk::{Job, Mempool, Port, PortStats, RxQueue, TxQueue};
use generator::{
    BadLink, BurstSizes, Clock, Connections, ConnectionsCommand, ConnectionsReport, Phase, PortRx,
    PortTx, RxQueues, Stage, Task, TxQueues, WorkerCycles, commands, hand_offs, mailbox, run_tasks,
};
use results::workers::WorkerResult;
use rtrb::{Producer, PushError};
use stateful::{CAPACITY_MAX, Profile, Role, Sharing, Stack, StackConfig};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};
use wire::rss::RssSpread;

/// Time from the start of the workers until their clock runs. All run by then.
const START: Duration = Duration::from_millis(20);
/// Reports of a task in an interval.
const REPORTS: u64 = 10;
/// Longest time until a task reports, in nanoseconds.
pub(crate) const REPORT_NS_MAX: u64 = 500_000_000;
/// Longest wait until a task takes a command.
const OBEYS: Duration = Duration::from_secs(1);

/// Which ends are at the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ends {
    /// Clients at port A, servers at port B.
    Both,
    /// Clients at the only port.
    Client,
    /// Servers at the only port.
    Server,
}

impl Ends {
    fn roles(self) -> &'static [Role] {
        match self {
            Self::Both => &[Role::Client, Role::Server],
            Self::Client => &[Role::Client],
            Self::Server => &[Role::Server],
        }
    }
}

/// How to run a session.
pub(crate) struct SessionOptions<'a> {
    pub(crate) profile: Arc<Profile>,
    pub(crate) ends: Ends,
    /// Most connections of each end at a time, over all its tasks.
    pub(crate) capacity: u32,
    /// MAC addresses that ports A and B send to instead of each other.
    pub(crate) next_hops: [Option<[u8; 6]>; 2],
    /// Gateways of ports A and B, whose MAC addresses are resolved.
    pub(crate) gateways: &'a [IpAddr],
    /// Tasks of each end, each with queues of its port.
    pub(crate) tasks: u16,
    pub(crate) queues: TaskQueues,
    /// Workers; by default one for each task while cpus are free.
    pub(crate) workers: Option<usize>,
    pub(crate) tuning: &'a Tuning,
    pub(crate) mtu: Option<u16>,
    pub(crate) bursts: BurstSizes,
    pub(crate) interval: Duration,
    pub(crate) seed: u64,
    /// How frames are impaired between the ends and their ports.
    pub(crate) bad_link: Option<BadLink>,
}

/// Queues of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskQueues {
    pub(crate) rx: u16,
    pub(crate) tx: u16,
}

impl TaskQueues {
    /// One queue in each direction.
    pub(crate) const ONE: Self = Self { rx: 1, tx: 1 };
}

/// MTU of ports that do not say theirs.
const MTU: u16 = 1500;
/// Largest MTU whose frames the stack writes.
const MTU_MAX: u16 = 9216;

impl SessionOptions<'_> {
    fn workers(&self, tasks: usize) -> usize {
        let (free, most) = match &self.tuning.cpus {
            Some(named) => (named.len(), named.len()),
            None => {
                let cpus = cpu_locks::cpus_of_this_host();
                (cpus.count_free(), cpus.usable().len())
            }
        };
        self.workers.map_or(free, |it| most.min(it)).clamp(1, tasks)
    }

    /// Returns the MTU of a port whose Linux interface, if it is one, has this MTU.
    fn mtu_of(&self, interface: Option<u32>) -> u16 {
        let of_interface = interface.map(|it| it.min(MTU_MAX.into()) as u16);
        self.mtu.map(|it| it.min(MTU_MAX)).or(of_interface).unwrap_or(MTU)
    }

    /// Returns the configuration of a task's ends at a port. `macs` are those of the port and of
    /// the next hop.
    fn config_of(
        &self,
        (port, role): (usize, Role),
        macs: [[u8; 6]; 2],
        mtu: u16,
        sharing: Sharing,
    ) -> StackConfig {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        StackConfig {
            profile: Arc::clone(&self.profile),
            role,
            capacity: capacity_of_task(self.capacity, self.tasks, role),
            macs,
            mtu,
            seed: self.seed.wrapping_add((port as u64) << 32 | u64::from(sharing.worker)),
            sharing,
            begun_us: now.as_micros() as u64,
        }
    }
}

/// Returns the most connections of each task of an end. Which server gets a connection is up to the
/// device, so several have more room.
fn capacity_of_task(capacity: u32, tasks: u16, role: Role) -> u32 {
    let share = capacity.div_ceil(tasks.into());
    let more = if role == Role::Server && tasks > 1 { share / 4 + 64 } else { 0 };
    share.saturating_add(more).min(CAPACITY_MAX)
}

/// Running clients and servers.
pub(crate) struct Session {
    /// `None` once they are closed.
    open: Option<OpenPorts>,
    jobs: Vec<Job<WorkerCycles>>,
    /// Cycles of the workers that have ended.
    workers: Vec<WorkerResult>,
    phase: Phase,
    /// Commands for tasks, those of clients first.
    commands: Vec<(Role, Producer<ConnectionsCommand>)>,
    ledger: Ledger,
    bad_links: BadLinks,
    begun: Instant,
    /// Counters of the ports before the first connection, with the frames of address resolution.
    ports_before: Vec<PortStats>,
    /// Configuration of each task's ends.
    configs: Vec<StackConfig>,
    /// Bytes of memory for both ends of a connection, or for the only one.
    pub(crate) bytes_per_connection: f64,
}

impl Session {
    /// Opens the ports and starts the workers. Clients open no connection before
    /// [`start`](Self::start).
    pub(crate) fn open(
        names: &PortNames,
        options: &SessionOptions<'_>,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let roles = options.ends.roles();
        if names.count() != roles.len() {
            bail!(
                "{} needs {} port(s), and {} are named: clients are at port A, servers at port B",
                if roles.len() == 2 { "both ends" } else { "one end" },
                roles.len(),
                names.count()
            );
        }
        let workers = options.workers(roles.len() * usize::from(options.tasks));
        let mut open = names.open(&OpenOptions {
            workers,
            rx_queues: options.tasks * options.queues.rx,
            tx_queues: options.tasks * options.queues.tx,
            mtu: options.mtu,
            needed_mtu: 0,
            sends_on_time: false,
            tuning: options.tuning,
        })?;
        open.wait_for_links(interrupted);
        let next_hops = NextHops {
            named: options.next_hops,
            gateways: options.gateways,
            profile: &options.profile,
        };
        let next_hops = next_hops.find(&mut open, roles, interrupted)?;
        let clock = Clock::measured().starting_in(START);
        let begun = Instant::now() + START;
        let mut session = Self {
            jobs: Vec::new(),
            workers: Vec::new(),
            phase: Phase::new(),
            commands: Vec::new(),
            ledger: Ledger::default(),
            bad_links: BadLinks::default(),
            begun,
            ports_before: open.ports.iter().map(dpdk::Port::stats).collect(),
            configs: Vec::new(),
            bytes_per_connection: 0.0,
            open: None,
        };
        let mtus = (0..roles.len()).map(|port| options.mtu_of(open.interface_mtu(names, port)));
        let ends: Vec<_> = next_hops.into_iter().zip(mtus).collect();
        let tasks = session.make_tasks(options, &mut open, &ends, clock)?;
        session.launch(tasks, &mut open, clock);
        session.open = Some(open);
        Ok(session)
    }

    /// Makes the tasks of all ends: of clients first. `ends` are the next hop of each end, and the
    /// MTU of its port.
    fn make_tasks(
        &mut self,
        options: &SessionOptions<'_>,
        open: &mut OpenPorts,
        ends: &[([u8; 6], u16)],
        clock: Clock,
    ) -> anyhow::Result<Vec<Box<dyn Task>>> {
        let mut tasks: Vec<Box<dyn Task>> = Vec::new();
        let macs: Vec<_> = open.ports.iter().map(|port| port.info().mac).collect();
        let interval_ns = options.interval.as_nanos() as u64;
        for (port, role) in options.ends.roles().iter().enumerate() {
            let (next_hop, mtu) = ends[port];
            let (rx, tx) = std::mem::take(&mut open.queues[port]);
            let mut queues = (rx.into_iter(), tx.into_iter());
            let spread = spread_of(&open.ports[port], options.tasks);
            let mut hand_offs = hand_offs(options.tasks).into_iter();
            for number in 0..options.tasks {
                let sharing =
                    Sharing { worker: number, workers: options.tasks, spread: spread.clone() };
                let macs = [macs[port], next_hop];
                let config = options.config_of((port, *role), macs, mtu, sharing);
                let seed = config.seed;
                let stack = Box::new(Stack::new(config.clone()));
                self.configs.push(config);
                if number == 0 {
                    self.bytes_per_connection += stack.bytes_per_record();
                }
                let hand_off = hand_offs.next().unwrap_or_default();
                let (mut tx, mut rx) =
                    links((&mut queues.0, &mut queues.1), open.mempool, options)?;
                let (outbox, inbox) = mailbox(report_ns(interval_ns), ConnectionsReport::default);
                self.ledger.add(*role, inbox);
                let (producer, consumer) = commands();
                self.commands.push((*role, producer));
                let mac = macs[0];
                let has_one = options.queues == TaskQueues::ONE;
                let one = has_one.then(|| tx.pop().zip(rx.pop())).flatten();
                tasks.push(match (one, options.bad_link) {
                    (None, _) => {
                        let ends = (TxQueues::new(tx), RxQueues::new(rx), mac);
                        Box::new(Connections::new(stack, ends, consumer, interval_ns, outbox))
                    }
                    (Some((tx, rx)), None) => {
                        let ends = (tx, rx, mac);
                        let task = Connections::new(stack, ends, consumer, interval_ns, outbox);
                        Box::new(task.sharing(hand_off))
                    }
                    (Some(queues), Some(link)) => {
                        let (tx, rx) = self.bad_links.add(port, queues, (link, seed), clock);
                        let ends = (tx, rx, mac);
                        let task = Connections::new(stack, ends, consumer, interval_ns, outbox);
                        Box::new(task.sharing(hand_off))
                    }
                });
            }
        }
        Ok(tasks)
    }

    /// Starts the workers, and distributes the tasks among them.
    fn launch(&mut self, tasks: Vec<Box<dyn Task>>, open: &mut OpenPorts, clock: Clock) {
        let workers = open.lcores.len();
        let mut of_workers: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for (number, task) in tasks.into_iter().enumerate() {
            of_workers[number % workers].push(task);
        }
        let lcores = std::mem::take(&mut open.lcores);
        let jobs = lcores.into_iter().zip(of_workers).map(|(lcore, tasks)| {
            let phase = self.phase.clone();
            lcore.launch(move || run_tasks(tasks, clock, &phase).1)
        });
        self.jobs = jobs.collect();
    }

    /// Returns the time since the clock runs.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Begins to open connections.
    pub(crate) fn start(&mut self, multiplier: f64, ramp: Duration) -> anyhow::Result<()> {
        let ramp_ns = ramp.as_nanos() as u64;
        self.command_clients(|| ConnectionsCommand::Start { multiplier, ramp_ns })
    }

    /// Changes the rate.
    pub(crate) fn set_multiplier(&mut self, multiplier: f64) -> anyhow::Result<()> {
        self.command_clients(|| ConnectionsCommand::SetMultiplier(multiplier))
    }

    /// Cuts off all connections.
    pub(crate) fn abort(&mut self) -> anyhow::Result<()> {
        self.commands.iter_mut().try_for_each(|(_, ring)| push(ring, ConnectionsCommand::Abort))
    }

    /// Goes on with another profile, and room for so many connections. Those that are open are
    /// forgotten.
    pub(crate) fn replace_profile(
        &mut self,
        profile: &Arc<Profile>,
        capacity: u32,
    ) -> anyhow::Result<()> {
        for (config, (_, ring)) in self.configs.iter_mut().zip(&mut self.commands) {
            config.profile = Arc::clone(profile);
            config.capacity = capacity_of_task(capacity, config.sharing.workers, config.role);
            let stack = Box::new(Stack::new(config.clone()));
            push(ring, ConnectionsCommand::Replace(stack))?;
        }
        Ok(())
    }

    /// Opens no more connections. Those that are open go on.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.command_clients(|| ConnectionsCommand::Stop)
    }

    fn command_clients(&mut self, command: impl Fn() -> ConnectionsCommand) -> anyhow::Result<()> {
        let clients = self.commands.iter_mut().filter(|(role, _)| *role == Role::Client);
        clients.map(|(_, ring)| ring).try_for_each(|ring| push(ring, command()))
    }

    /// Returns the time up to which all tasks have reported, in seconds of the run.
    pub(crate) fn reported_until(&self) -> f64 {
        self.ledger.reported_until() as f64 / 1e9
    }

    /// Waits until all tasks have reported what they have done by now.
    pub(crate) fn wait_for_reports(&mut self) {
        let (until, begun) = (self.elapsed().as_secs_f64(), Instant::now());
        while self.reported_until() < until && begun.elapsed() < OBEYS {
            std::thread::sleep(Duration::from_millis(1));
            self.ledger.poll();
        }
    }

    /// Forgets the latencies so far.
    pub(crate) fn clear_latencies(&mut self) {
        self.ledger.clear_latencies();
    }

    /// Returns the counters of the ports.
    pub(crate) fn ports(&self) -> Vec<PortCounts> {
        let counts = |port: &dpdk::Port| PortCounts {
            name: port.info().devargs.clone(),
            stats: port.stats(),
            before: PortStats::default(),
        };
        let ports = self.open.iter().flat_map(|open| &open.ports).map(counts);
        let all = ports.zip(&self.ports_before);
        all.map(|(port, before)| PortCounts { before: *before, ..port }).collect()
    }

    /// Takes reports; returns the totals.
    pub(crate) fn poll(&mut self) -> &Totals {
        self.ledger.poll();
        &self.ledger.totals
    }

    /// Takes the oldest interval below `number`, with its number.
    pub(crate) fn take_interval(&mut self, number: u64) -> Option<(u64, Totals)> {
        self.ledger.take_interval(number)
    }

    /// Cuts off the connections that are open, ends the workers and closes the ports. Returns the
    /// totals, and the intervals that were not taken.
    pub(crate) fn finish(mut self) -> Finished {
        self.end_workers();
        self.ledger.poll();
        let mut intervals = Vec::new();
        while let Some(interval) = self.ledger.take_interval(u64::MAX) {
            intervals.push(interval);
        }
        let totals = std::mem::take(&mut self.ledger.totals);
        let impaired = self.bad_links.counts();
        let workers = std::mem::take(&mut self.workers);
        Finished { totals, intervals, ports: self.ports(), impaired, workers }
    }

    fn end_workers(&mut self) {
        self.phase.set(Stage::End);
        let cpus = self.open.as_ref().map_or(&[][..], |open| &open.cpus);
        self.workers.extend(join_lcores(std::mem::take(&mut self.jobs), cpus));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_workers();
        if let Some(open) = self.open.take() {
            open.close();
        }
    }
}

/// Counts of a session that has ended.
pub(crate) struct Finished {
    pub(crate) totals: Totals,
    /// The intervals that were not taken, with their numbers.
    pub(crate) intervals: Vec<(u64, Totals)>,
    pub(crate) ports: Vec<PortCounts>,
    /// Frames that a bad link has impaired.
    pub(crate) impaired: Vec<ImpairedCount>,
    /// Cycles of each worker.
    pub(crate) workers: Vec<WorkerResult>,
}

/// Counters of a port.
pub(crate) struct PortCounts {
    pub(crate) name: String,
    pub(crate) stats: PortStats,
    /// Its counters before the first connection.
    pub(crate) before: PortStats,
}

/// Returns how RSS of a port spreads packets over the queues of its tasks; `None` if it is unknown.
fn spread_of(port: &Port, tasks: u16) -> Option<Arc<RssSpread>> {
    let spread = port.spread().filter(|_| tasks > 1)?.to_queues();
    spread.queues().iter().all(|queue| *queue < tasks).then(|| Arc::new(spread))
}

/// Takes the links of a task from the queues of its port.
fn links(
    (rx, tx): (&mut impl Iterator<Item = RxQueue>, &mut impl Iterator<Item = TxQueue>),
    mempool: Mempool,
    options: &SessionOptions<'_>,
) -> anyhow::Result<(Vec<PortTx>, Vec<PortRx>)> {
    let TaskQueues { rx: rx_count, tx: tx_count } = options.queues;
    let BurstSizes { rx: rx_burst, tx: tx_burst } = options.bursts;
    let rx = rx.take(rx_count.into()).map(|queue| PortRx::new(queue).with_burst(rx_burst));
    let tx = tx.take(tx_count.into()).map(|queue| PortTx::new(queue, mempool).with_burst(tx_burst));
    let (tx, rx): (Vec<_>, Vec<_>) = (tx.collect(), rx.collect());
    let has_all = tx.len() == usize::from(tx_count) && rx.len() == usize::from(rx_count);
    has_all.then_some((tx, rx)).context("queues for each task")
}

/// Returns the time between two reports of a task: several fit into an interval.
fn report_ns(interval_ns: u64) -> u64 {
    let reports = REPORTS.max(interval_ns.div_ceil(REPORT_NS_MAX));
    interval_ns.div_ceil(reports)
}

/// Gives a command to a task.
fn push(
    ring: &mut Producer<ConnectionsCommand>,
    mut command: ConnectionsCommand,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Err(PushError::Full(refused)) = ring.push(command) {
        command = refused;
        if begun.elapsed() > OBEYS {
            bail!("a worker does not take commands");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
