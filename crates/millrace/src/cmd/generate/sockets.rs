// SPDX-License-Identifier: BSD-3-Clause
//! Runs the generator over UDP sockets of the kernel, without DPDK.

use super::GenArgs;
use super::crew::{Crew, Tasks, window};
use super::report::{Outputs, Reporter, Subject};
use super::run::START;
use super::run::{Control, payload_format};
use crate::backend::tell_refusals;
use crate::{signals, threads};
use anyhow::{Context, bail};
use generator::{Checks, Clock, Lanes, Ledger, Phase, PortQueue, Session};
use results::PortResult;
use sockets::{UdpOptions, UdpPort, UdpRx, UdpStream};
use std::process::ExitCode;
use std::time::Instant;
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, Side, Verifier};

/// Source addresses or ports that a stream may name.
const SOURCES_MAX: usize = 256;
/// Keys of headers that the kernel writes.
const KERNELS_KEYS: [&str; 7] =
    ["vlan", "outer_vlan", "src_mac", "dst_mac", "ttl", "tos", "tunnel"];

pub(super) fn run(args: &GenArgs) -> anyhow::Result<ExitCode> {
    args.refuse_what_sockets_cannot()?;
    let specs = args.specs()?;
    let streams = udp_streams(args, &specs)?;
    let outputs = Outputs::open(args)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let crew = Crew::new(args);
    if crew.senders > 1 && streams.iter().any(UdpStream::has_source) {
        bail!("streams with src or sport have one sender: --senders 1, or leave src and sport out");
    }
    let backend = &args.backend;
    let options = UdpOptions {
        sockets: backend.sockets.into(),
        batch: backend.batch.into(),
        gso: backend.gso,
        gro: backend.gro,
        ..UdpOptions::default()
    };
    let open = |_| UdpPort::open(&streams, options);
    let ports: Vec<UdpPort> = (0..crew.senders).map(open).collect::<Result<_, _>>()?;
    let setup = StreamSetup {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        link_mbps: [None; 2],
        seed: args.seed(),
        format: payload_format(args, crew.senders)?,
        is_stamped: args.is_verified(),
        part: Part::default(),
        ramp_ns: args.ramp_ns(),
    };
    let (clock, phase) = (Clock::measured().starting_in(START), Phase::new());
    let begun = Instant::now() + START;
    let plan = Plan { args, crew, specs: &specs, setup, clock };
    let (workers, ledger) = plan.tasks(&ports)?;
    let workers = threads::launch(workers, clock, &phase)?;
    let counters = || Ok(vec![count(&ports)?]);
    let subject = Subject {
        args,
        specs: &specs,
        ports: &counters,
        // The scheduler chooses cpus.
        cpus: &[],
        is_verified: args.is_verified(),
    };
    let mut control = Control::new((ledger, phase), Reporter::new(subject, outputs)?, begun);
    let sent_for = control.conduct(args.duration, args.late, &interrupted);
    control.end_workers();
    workers.into_iter().for_each(|worker| _ = worker.join());
    ports.iter().for_each(|port| tell_refusals(port.counts()));
    control.finish(sent_for)
}

/// Counters of all sockets together.
fn count(ports: &[UdpPort]) -> anyhow::Result<PortResult> {
    let mut result = PortResult { name: "sockets".to_owned(), ..PortResult::default() };
    for port in ports {
        result.imissed += port.drops().context("cannot read the drops of a socket")?;
        result.oerrors += port.counts().refused();
    }
    Ok(result)
}

/// What the sockets have to know of the streams.
fn udp_streams(args: &GenArgs, specs: &[StreamSpec]) -> anyhow::Result<Vec<UdpStream>> {
    let pairs = args.pairs()?;
    let stream = |(spec, pairs): (&StreamSpec, &Vec<(String, String)>)| {
        let name = &spec.name;
        let has = |wanted: &str| pairs.iter().any(|(key, _)| key == wanted);
        if !spec.is_udp() {
            bail!("stream {name}: --backend sockets sends UDP only: leave proto out");
        }
        if spec.side == Side::B {
            bail!("stream {name}: side=b: --backend sockets has one side, a");
        }
        if let Some(key) = KERNELS_KEYS.into_iter().find(|key| has(key)) {
            bail!("stream {name}: {key}: the kernel writes these headers: leave {key} out");
        }
        let few = |key, is_few: bool| match is_few {
            true => Ok(()),
            false => bail!(
                "stream {name}: {key}: each value needs a socket, and {SOURCES_MAX} are allowed"
            ),
        };
        let (addresses, ports) =
            (spec.source_addresses(SOURCES_MAX), spec.source_ports(SOURCES_MAX));
        few("src", addresses.is_some() || !has("src"))?;
        few("sport", ports.is_some() || !has("sport"))?;
        Ok(UdpStream {
            is_ipv6: spec.is_ipv6(),
            destination: spec.destination(),
            addresses: addresses.filter(|_| has("src")).unwrap_or_default(),
            ports: ports.filter(|_| has("sport")).unwrap_or_default(),
        })
    };
    specs.iter().zip(&pairs).map(stream).collect()
}

/// What a run sends, and how.
struct Plan<'a> {
    args: &'a GenArgs,
    crew: Crew,
    specs: &'a [StreamSpec],
    setup: StreamSetup,
    clock: Clock,
}

impl Plan<'_> {
    /// Makes the tasks of each worker, and the ledger of the run. Each port has a sender.
    fn tasks(&self, ports: &[UdpPort]) -> anyhow::Result<(Vec<Tasks>, Ledger)> {
        let stamped = if self.setup.is_stamped { self.specs.len() } else { 0 };
        let lanes = Lanes { streams: self.specs.len(), stamped, senders: ports.len() };
        let session = Session::new(self.clock, self.args.interval.as_nanos() as u64, lanes);
        let mut session = session.starting_at(1);
        let mut workers: Vec<Tasks> = (0..self.crew.workers).map(|_| Vec::new()).collect();
        for (share, port) in ports.iter().enumerate() {
            let part = Part { side: None, share: share as u16, shares: self.crew.senders };
            let streams = Streams::new(self.specs, &StreamSetup { part, ..self.setup.clone() })?;
            let sender = session.sender(streams, 0, port.transmit());
            workers[share % self.crew.workers].push(Box::new(sender));
        }
        let receivers = usize::from(self.crew.receivers);
        let mut queues: Vec<Vec<PortQueue<UdpRx>>> = (0..receivers).map(|_| Vec::new()).collect();
        for (queue, rx) in ports.iter().flat_map(UdpPort::receive).enumerate() {
            if receivers > 0 {
                let queue = PortQueue { port: 0, queue, rx, responder: None };
                queues[queue.queue % receivers].push(queue);
            }
        }
        for (number, queues) in queues.into_iter().enumerate() {
            let verifier = || Verifier::new(self.setup.seed, self.setup.format);
            let window = window(stamped * ports.len());
            let checks = self.setup.is_stamped.then(|| Checks { verifier: verifier(), window });
            let worker = (ports.len() + number) % self.crew.workers;
            workers[worker].push(Box::new(session.receiver(queues, checks)));
        }
        Ok((workers, session.into_ledger()))
    }
}
