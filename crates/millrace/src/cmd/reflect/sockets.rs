// SPDX-License-Identifier: BSD-3-Clause
//! Runs the reflector over UDP sockets of the kernel, without DPDK.

use super::{Counters, REPORT_NS, ReflectArgs, SwapArg};
use crate::backend::{Backend, NO_IO_URING, SocketArgs, print_refusals};
use crate::cpu_locks;
use crate::worker_cycles::join_threads;
use crate::{signals, threads};
use anyhow::{Context, bail};
use generator::{Clock, Inbox, Phase, Stage, Task, mailbox};
use report::output::{JsonFile, write_line};
use sockets::{EchoOptions, EchoPort, EchoReport};
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use traffic::reflector_query::ReflectorCounters;

/// Reasons to drop a packet. `missed`: the socket was full when it arrived.
const REASONS: [&str; 3] = ["missed", "refused", "too_long"];
/// Bytes of IPv4 and UDP headers, which the MTU includes and the payload of a datagram does not.
const HEADERS_V4: u16 = 20 + 8;

pub(super) fn run(args: &ReflectArgs, address: SocketAddr) -> anyhow::Result<ExitCode> {
    let options = options(args)?;
    let json = JsonFile::open(args.json.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let open = EchoPort::open(address, options);
    let port = open.with_context(|| format!("cannot open UDP port {address}"))?;
    if address.port() == 0 {
        let chosen = port.address().port();
        write_line(io::stderr(), format_args!("millrace: reflecting at UDP port {chosen}"));
    }
    let named = args.cpus.as_ref().map(|list| &list.0[..]);
    let usable = named.map_or_else(|| cpu_locks::cpus_of_this_host().usable().len(), <[u32]>::len);
    let count = usable.clamp(1, options.sockets);
    let cpus = threads::choose_cpus(count, named);
    let (clock, phase) = (Clock::measured(), Phase::new());
    let mut workers: Vec<Vec<Box<dyn Task>>> = (0..count).map(|_| Vec::new()).collect();
    let mut inboxes = Vec::new();
    for number in 0..options.sockets {
        let (outbox, inbox) = mailbox(REPORT_NS, EchoReport::default);
        inboxes.push(inbox);
        workers[number % count].push(Box::new(port.task(number, outbox).context(NO_IO_URING)?));
    }
    let workers = threads::launch(workers, &cpus, clock, &phase)?;
    let is_printed = !args.quiet && !json.is_stdout();
    let mut counters = Counters::new(REASONS);
    let take = |counters: &mut Counters| {
        take_all(counters, &mut inboxes);
        publish(counters, &port);
    };
    counters.watch((args.duration, is_printed), &interrupted, take);
    phase.set(Stage::End);
    counters.workers = join_threads(workers, &cpus);
    take_all(&mut counters, &mut inboxes);
    let drops = port.drops().context("cannot read the drops of a socket")?;
    counters.dropped.insert("missed", drops);
    print_refusals(port.counts());
    counters.write_results(json)
}

/// Returns the settings of the sockets. Fails if options contradict each other.
fn options(args: &ReflectArgs) -> anyhow::Result<EchoOptions> {
    let SocketArgs { backend, sockets, batch, gso, gro, zero_copy } = args.backend;
    let (name, io_uring) = (backend.name(), backend == Backend::IoUring);
    if io_uring && gso {
        bail!("--backend io-uring does not support --gso: leave it out, or use --backend sockets");
    }
    if gso != gro {
        bail!("a reflector needs --gso and --gro together, or neither");
    }
    let is_given = [
        ("--swap", !matches!(args.swap, SwapArg::Ports)),
        ("--queues", args.queues > 1),
        ("--address", !args.addresses.is_empty()),
        ("--rx-descriptors", args.descriptors.rx_descriptors.is_some()),
        ("--tx-descriptors", args.descriptors.tx_descriptors.is_some()),
        ("--rx-burst", args.bursts.rx_burst.is_some()),
        ("--tx-burst", args.bursts.tx_burst.is_some()),
    ];
    if let Some((option, _)) = is_given.iter().find(|(_, is_given)| *is_given) {
        bail!("--backend {name} does not support {option}: leave it out, or use --backend dpdk");
    }
    let room = args.mtu.map(|mtu| mtu.saturating_sub(HEADERS_V4).into());
    let default = EchoOptions::default();
    Ok(EchoOptions {
        sockets: sockets.into(),
        batch: batch.into(),
        joined: gro,
        io_uring,
        zero_copy,
        tries: args.tries,
        room: room.unwrap_or(default.room),
        ..default
    })
}

fn take_all(counters: &mut Counters, inboxes: &mut [Inbox<EchoReport>]) {
    for inbox in inboxes {
        inbox.take_all(|report| {
            counters.received += report.received;
            counters.received_bytes += report.bytes;
            counters.reflected += report.reflected;
            counters.answered += report.answered;
            let reasons = [
                ("port_full", report.port_full),
                ("refused", report.refused),
                ("too_long", report.too_long),
            ];
            for (reason, count) in reasons {
                *counters.dropped.entry(reason).or_default() += count;
            }
            counters.longest_gap_ns = counters.longest_gap_ns.max(report.longest_gap_ns);
        });
    }
}

/// Publishes the counters, for senders that query them. Queries do not belong to a sender's run.
fn publish(counters: &Counters, port: &EchoPort) {
    port.published().set(ReflectorCounters {
        received: counters.received.saturating_sub(counters.answered),
        reflected: counters.reflected.saturating_sub(counters.answered),
        dropped: counters.dropped.values().sum(),
        missed: port.drops().unwrap_or(0),
    });
}
