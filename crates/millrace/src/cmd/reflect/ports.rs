// SPDX-License-Identifier: BSD-3-Clause
//! Runs the reflector on DPDK ports.

use super::{Counters, PortLosses, REPORT_NS, ReflectArgs};
use crate::ports::{LinkWatch, OpenOptions, OpenPorts, PortNames, Tuning};
use crate::signals;
use crate::worker_cycles::join_lcores;
use anyhow::Context;
use dpdk::{Job, Port};
use generator::{
    Addresses, Clock, Inbox, Phase, PublishedCounters, Reflection, Reflector, ReflectorQueue,
    ReflectorReport, Stage, Task, WorkerCycles, mailbox, run_tasks,
};
use report::output::JsonFile;
use std::process::ExitCode;
use std::sync::Arc;
use traffic::reflector_query::ReflectorCounters;
use traffic::{KeptPorts, NotSwapped};

pub(super) fn run(args: &ReflectArgs, names: &PortNames) -> anyhow::Result<ExitCode> {
    let json = JsonFile::open(args.json.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let cpus = args.cpus.clone().map(|it| it.0);
    let tuning = Tuning { cpus, descriptors: args.descriptors, ..Tuning::default() };
    let mut open = names.open(&OpenOptions {
        workers: args.queues.into(),
        rx_queues: args.queues,
        tx_queues: args.queues,
        mtu: args.mtu,
        needed_mtu: 0,
        sends_on_time: false,
        tuning: &tuning,
    })?;
    open.wait_for_links(&interrupted);
    let (clock, phase) = (Clock::new(&open.eal), Phase::new());
    let mut ledger = Ledger::default();
    let tasks = tasks(args, &mut open, &mut ledger)?;
    let jobs = launch(tasks, &mut open, clock, &phase);
    let is_printed = !args.quiet && !json.is_stdout();
    let mut counters = Counters::new(NotSwapped::ALL.map(NotSwapped::name));
    let ports = &open.ports;
    let mut links = LinkWatch::new(ports);
    counters.watch((args.duration, is_printed), &interrupted, |counters| {
        links.print_changes();
        ledger.take(counters);
        ledger.publish(ports);
    });
    phase.set(Stage::End);
    counters.workers = join_lcores(jobs, &open.cpus);
    ledger.take(&mut counters);
    counters.ports = open.ports.iter().map(losses).collect();
    open.close();
    counters.write_results(json)
}

/// Counters of each port, added up from the reports of its queues.
#[derive(Default)]
struct Ledger(Vec<PortEntry>);

#[derive(Default)]
struct PortEntry {
    inboxes: Vec<Inbox<ReflectorReport>>,
    counted: ReflectorCounters,
    /// Queries and requests of neighbours, which do not belong to a sender's run.
    answered: u64,
    published: Arc<PublishedCounters>,
}

impl Ledger {
    /// Adds the reports that have arrived.
    fn take(&mut self, counters: &mut Counters) {
        for PortEntry { inboxes, counted, answered, .. } in &mut self.0 {
            let mut add = |report: &ReflectorReport| {
                *answered += report.answered;
                counted.received += report.received;
                counted.reflected += report.reflected;
                counted.dropped += report.not_swapped.iter().sum::<u64>() + report.port_full;
                counters.add(report);
            };
            inboxes.iter_mut().for_each(|inbox| inbox.take_all(&mut add));
        }
    }

    /// Publishes the counters, for senders that query them.
    fn publish(&self, ports: &[Port]) {
        for (entry, port) in self.0.iter().zip(ports) {
            let stats = port.stats();
            entry.published.set(ReflectorCounters {
                received: entry.counted.received.saturating_sub(entry.answered),
                reflected: entry.counted.reflected.saturating_sub(entry.answered),
                dropped: entry.counted.dropped + stats.oerrors,
                missed: stats.imissed + stats.rx_nombuf,
            });
        }
    }
}

/// Makes a task for each queue of each port, with a mailbox to the ledger.
fn tasks(
    args: &ReflectArgs,
    open: &mut OpenPorts,
    ledger: &mut Ledger,
) -> anyhow::Result<Vec<Box<dyn Task>>> {
    let mut tasks: Vec<Box<dyn Task>> = Vec::new();
    let reflection =
        Reflection { swap: args.swap.into(), tries: args.tries, bursts: args.bursts.sizes() };
    for (port, (mut rx, mut tx)) in open.ports.iter().zip(open.queues.drain(..)) {
        let mut entry = PortEntry::default();
        for _ in 0..args.queues {
            let (rx, tx) = rx.pop().zip(tx.pop()).context("a queue for each task")?;
            let has_addresses = !args.addresses.is_empty();
            let (addresses, mac) = (args.addresses.clone(), port.info().mac);
            let addresses = has_addresses.then_some(Addresses { addresses, mac });
            let counters = Arc::clone(&entry.published);
            let queue = ReflectorQueue { rx, tx, counters, addresses };
            let (outbox, inbox) = mailbox(REPORT_NS, ReflectorReport::default);
            entry.inboxes.push(inbox);
            tasks.push(Box::new(Reflector::new(vec![queue], reflection, outbox)));
        }
        ledger.0.push(entry);
    }
    Ok(tasks)
}

/// Starts the workers, each with some of the tasks.
fn launch(
    tasks: Vec<Box<dyn Task>>,
    open: &mut OpenPorts,
    clock: Clock,
    phase: &Phase,
) -> Vec<Job<WorkerCycles>> {
    let lcores = std::mem::take(&mut open.lcores);
    let mut shares: Vec<Vec<Box<dyn Task>>> = lcores.iter().map(|_| Vec::new()).collect();
    let workers = shares.len();
    for (number, task) in tasks.into_iter().enumerate() {
        shares[number % workers].push(task);
    }
    let jobs = lcores.into_iter().zip(shares).map(|(lcore, tasks)| {
        let phase = phase.clone();
        lcore.launch(move || run_tasks(tasks, clock, &phase).1)
    });
    jobs.collect()
}

fn losses(port: &Port) -> PortLosses {
    let stats = port.stats();
    PortLosses {
        name: port.info().devargs.clone(),
        imissed: stats.imissed,
        ierrors: stats.ierrors,
        rx_nombuf: stats.rx_nombuf,
        oerrors: stats.oerrors,
    }
}

impl Counters {
    fn add(&mut self, report: &ReflectorReport) {
        self.received += report.received;
        self.received_bytes += report.bytes;
        self.reflected += report.reflected;
        for reason in NotSwapped::ALL {
            *self.dropped.entry(reason.name()).or_default() += report.not_swapped[reason as usize];
        }
        for reason in KeptPorts::ALL {
            *self.without_ports.entry(reason.name()).or_default() +=
                report.without_ports[reason as usize];
        }
        self.answered += report.answered;
        *self.dropped.entry("port_full").or_default() += report.port_full;
        self.longest_gap_ns = self.longest_gap_ns.max(report.longest_gap_ns);
    }
}
