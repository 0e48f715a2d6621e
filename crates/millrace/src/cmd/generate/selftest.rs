// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace gen --selftest`. A sender, a wire that impairs packets and a receiver run
//! in this process. The receiver must find exactly the impairments of the wire.

use crate::start::start_eal;
use anyhow::Context;
use dpdk::{Eal, EalConfig, Mempool, Port, PortConfig, Queues, ring_cable};
use generator::{
    Checks, Clock, ForeignFrameHandler, Impaired, Impairer, Impairments, Lanes, Laps, Ledger,
    PortQueue, PortRx, PortTx, Session, Stage, StreamTotals, Task, Totals,
};
use results::{table, units};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, StampKey, Verifier};

/// The streams of the test: sizes, families and protocols in a mix.
const STREAMS: [&[(&str, &str)]; 3] = [
    &[("name", "udp"), ("count", "200000"), ("sport", "random:1024-65535")],
    &[("name", "tcp"), ("count", "100000"), ("proto", "tcp"), ("size", "80-1518+10")],
    &[("name", "ipv6"), ("count", "100000"), ("src", "2001:2::1"), ("size", "100,600")],
];
/// Impairments per million packets.
const IMPAIRMENTS: Impairments =
    Impairments { lost: 10_000, duplicated: 5000, reordered: 20_000, damaged: 1000 };
const REPORT_NS: u64 = 100_000_000;
const WINDOW: usize = 1 << 16;
const MBUFS: u32 = 8191;
const DATA_BYTES: u16 = 2048;
/// Turns without a packet after which no packet is on its way.
const QUIET_TURNS: u32 = 100;

pub(super) fn run(seed: u64, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let config = EalConfig { no_huge: true, memory_mb: 64, ..EalConfig::default() };
    let eal = start_eal(&config)?;
    let mempool = Mempool::new(&eal, "frames", MBUFS, DATA_BYTES, None)?;
    let mut cables = Cables { eal: &eal, mempool, ports: Vec::new() };
    let (mut near, mut far) = (cables.lay("near")?, cables.lay("far")?);
    let clock = Clock::new(&eal);
    let mut session = Session::new(clock, REPORT_NS, Lanes::stamped(STREAMS.len()));
    let source = Streams::new(&specs(), &setup(seed))?;
    let queue = near[0].1.pop().context("a cable has queues")?;
    let mut sender = session.sender(source, 0, PortTx::new(queue, mempool));
    let (from, to) = (near[1].0.remove(0), far[0].1.remove(0));
    let mut impairer = Impairer::new(from, to, mempool, IMPAIRMENTS, (seed, StampKey::new(seed)));
    let impaired = impairer.impaired();
    let rx = PortRx::new(far[1].0.pop().context("a cable has queues")?);
    let verifier = Verifier::new(seed, StampKey::new(seed));
    let checks = Some(Checks { verifier, window: WINDOW });
    let mut receiver = session.receiver(
        vec![PortQueue { port: 0, queue: 0, rx, foreign_handler: ForeignFrameHandler::Ignores }],
        checks,
    );
    let mut ledger = session.into_ledger();
    let tasks: [&mut dyn Task; 3] = [&mut sender, &mut impairer, &mut receiver];
    run_to_the_end(tasks, &mut ledger, clock, interrupted);
    let is_good = print(ledger.totals(), &impaired).context("cannot write the results")?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn specs() -> Vec<StreamSpec> {
    let spec = |(number, pairs): (usize, &&[(&str, &str)])| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        StreamSpec::from_pairs(number, pairs).expect("streams of our own")
    };
    STREAMS.iter().enumerate().map(spec).collect()
}

fn setup(seed: u64) -> StreamSetup {
    let macs = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];
    StreamSetup {
        macs,
        link_mbps: [None; 2],
        seed,
        format: StampKey::new(seed).into(),
        is_stamped: true,
        part: Part::default(),
        ramp_ns: 0,
    }
}

/// Makes pairs of ring ports that are connected to each other. They need no hardware.
struct Cables<'a> {
    eal: &'a Eal,
    mempool: Mempool,
    ports: Vec<Port>,
}

impl Cables<'_> {
    /// Makes a pair of ports; returns the queues of both.
    fn lay(&mut self, name: &str) -> anyhow::Result<[Queues; 2]> {
        let (near, far) = ring_cable(self.eal, name, 1, 1024)?;
        Ok([self.configure(near)?, self.configure(far)?])
    }

    fn configure(&mut self, mut port: Port) -> anyhow::Result<Queues> {
        let config = PortConfig {
            rx_queues: 1,
            tx_queues: 1,
            rxd: 512,
            txd: 512,
            mempools: vec![self.mempool],
            mtu: None,
            is_endpoint: true,
            sends_on_time: false,
        };
        let queues = port.configure(&config)?;
        self.ports.push(port);
        Ok(queues)
    }
}

/// Runs the tasks in turn on this thread until every packet has arrived or is lost.
fn run_to_the_end(
    mut tasks: [&mut dyn Task; 3],
    ledger: &mut Ledger,
    clock: Clock,
    interrupted: &AtomicBool,
) {
    let (mut stage, mut quiet) = (Stage::Send, 0);
    while quiet < QUIET_TURNS {
        let mut is_any = false;
        tasks.iter_mut().for_each(|task| is_any |= task.turn(clock.now(), stage, &mut Laps::off()));
        ledger.poll();
        if ledger.is_all_sent() || interrupted.load(Ordering::Relaxed) {
            stage = Stage::Drain;
            quiet = if is_any { 0 } else { quiet + 1 };
        }
    }
    tasks.iter_mut().for_each(|task| task.finish(clock.now()));
    ledger.poll();
}

/// Prints the impairments that were made and found; true if they are equal.
fn print(totals: &Totals, impaired: &Arc<Impaired>) -> io::Result<bool> {
    let [lost, duplicated, reordered, damaged] = impaired.counts();
    let sum = |of: fn(&StreamTotals) -> u64| totals.streams.iter().map(of).sum::<u64>();
    // A damaged packet also counts as lost.
    let rows = [
        ("lost", lost, sum(StreamTotals::lost).saturating_sub(totals.damaged)),
        ("duplicated", duplicated, sum(|stream| stream.received.duplicates)),
        ("reordered", reordered, sum(|stream| stream.received.reordered)),
        ("damaged", damaged, totals.damaged),
        ("foreign", 0, totals.foreign),
    ];
    let is_good = rows.iter().all(|(_, done, found)| done == found);
    let rows = rows.map(|(what, done, found)| {
        [what.to_owned(), units::thousands(done), units::thousands(found)]
    });
    let out = &mut io::stdout().lock();
    let sent = units::thousands(sum(|stream| stream.sent));
    writeln!(out, "{sent} packets through a wire that impairs some of them:\n")?;
    table::print(out, ["packets", "impaired", "found"], &(1..3), &rows)?;
    let verdict = if is_good { "good: every one was found" } else { "FAILED: the counts differ" };
    writeln!(out, "\n{verdict}")?;
    Ok(is_good)
}
