// SPDX-License-Identifier: BSD-3-Clause
//! Runs the generator over sockets of the kernel, without DPDK.

use super::GenArgs;
use super::figures::reflector_result;
use super::neighbours::Senders;
use super::reflector_queries::ReflectorQueries;
use super::report::{Reporter, Subject, open_outputs};
use super::run::{Control, START, payload_format};
use super::tasks::{TaskCounts, Tasks, window};
use crate::backend::{Backend, NO_IO_URING, print_refusals};
use crate::netdev::interface_mac;
use crate::worker_cycles::join_threads;
use crate::{signals, threads};
use anyhow::{Context, bail};
use generator::{
    Checks, Clock, ForeignFrameHandler, Lanes, Ledger, Phase, PortQueue, Receive, Session, Transmit,
};
use results::PortResult;
use sockets::{PacketOptions, PacketPort, UdpOptions, UdpPort, UdpStream};
use std::cell::Cell;
use std::io;
use std::process::ExitCode;
use std::time::Instant;
use traffic::reflector_query::ReflectorCounters;
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, Side, Verifier};

/// Maximum number of source addresses or ports of a stream.
const SOURCES_MAX: usize = 256;
/// Keys of a stream for headers that the kernel writes.
const KERNELS_KEYS: [&str; 8] =
    ["vlan", "outer_vlan", "src_mac", "dst_mac", "ttl", "tos", "tunnel", "pcap"];

pub(super) fn run(args: &GenArgs) -> anyhow::Result<ExitCode> {
    args.refuse_unsupported_by_sockets()?;
    let specs = args.specs()?;
    match args.backend.backend {
        Backend::Packet => run_packet(args, &specs),
        Backend::Dpdk | Backend::Sockets | Backend::IoUring => run_udp(args, &specs),
    }
}

fn run_udp(args: &GenArgs, specs: &[StreamSpec]) -> anyhow::Result<ExitCode> {
    let streams = udp_streams(args, specs)?;
    let counts = TaskCounts::new(args);
    if counts.senders > 1 && streams.iter().any(UdpStream::has_source) {
        bail!("streams with src or sport have one sender: --senders 1, or leave src and sport out");
    }
    let backend = &args.backend;
    let options = UdpOptions {
        sockets: backend.sockets.into(),
        batch: backend.batch.into(),
        gso: backend.gso,
        gro: backend.gro,
        io_uring: backend.backend == Backend::IoUring,
        zero_copy: backend.zero_copy,
        ..UdpOptions::default()
    };
    let open = |_| UdpPort::open(&streams, options);
    let ports: Vec<UdpPort> = (0..counts.senders).map(open).collect::<Result<_, _>>()?;
    let link = |(share, port): (usize, &UdpPort)| {
        let part = Part { side: None, share: share as u16, shares: counts.senders };
        let (tx, rx) = (Some(port.transmit()?), port.receive()?);
        Ok(Link { port: 0, part, tx, rx })
    };
    let links = ports.iter().enumerate().map(link).collect::<io::Result<_>>();
    let links = links.context(NO_IO_URING)?;
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let status = conduct(args, (specs, counts, macs), links, &|| {
        let name = backend.backend.name().to_owned();
        let mut result = PortResult { name, ..PortResult::default() };
        for port in &ports {
            result.imissed += port.drops().context("cannot read the drops of a socket")?;
            result.oerrors += port.counts().refused();
        }
        Ok(vec![result])
    });
    ports.iter().for_each(|port| print_refusals(port.counts()));
    status
}

fn run_packet(args: &GenArgs, specs: &[StreamSpec]) -> anyhow::Result<ExitCode> {
    let names = args.ports.as_ref().context("--backend packet needs PORTS: interfaces")?;
    let names = names.interfaces()?;
    if names.len() == 1 && specs.iter().any(|spec| spec.side == Side::B) {
        bail!("side=b needs a port B: name two ports, A,B");
    }
    if args.senders.is_some_and(|senders| senders > 1) {
        bail!("--backend packet has one sender for each port: leave --senders out");
    }
    let options = PacketOptions { batch: args.backend.batch.into(), ..PacketOptions::default() };
    let open = |name: &&str| {
        let port = PacketPort::open(name, options);
        port.with_context(|| format!("cannot open a packet socket of interface {name}"))
    };
    let ports: Vec<PacketPort> = names.iter().map(open).collect::<Result<_, _>>()?;
    let counts = TaskCounts { senders: 1, ..TaskCounts::new(args) };
    let sides = [Side::A, Side::B].into_iter().enumerate().zip(&ports);
    let link = |((number, side), port): ((usize, Side), &PacketPort)| Link {
        port: number,
        part: Part { side: Some(side), share: 0, shares: 1 },
        tx: specs.iter().any(|spec| spec.side == side).then(|| port.transmit()),
        rx: vec![port.receive()],
    };
    let links = sides.map(link).collect();
    // Packets go to the MAC address of the other interface; with a single one, to an address that
    // no device has.
    let mut macs = [[2, 0, 0, 0, 0, 1]; 2];
    for (mac, name) in macs.iter_mut().zip(&names) {
        *mac = interface_mac(name)?;
    }
    let status = conduct(args, (specs, counts, macs), links, &|| {
        let result = |(port, name): (&PacketPort, &&str)| {
            let imissed = port.drops().context("cannot read the drops of a socket")?;
            let (name, oerrors) = ((*name).to_owned(), port.counts().refused());
            Ok(PortResult { name, imissed, oerrors, ..PortResult::default() })
        };
        ports.iter().zip(&names).map(result).collect()
    });
    ports.iter().for_each(|port| print_refusals(port.counts()));
    status
}

/// Sends and receives through `links`, and prints the results. `count` reads the counters of the
/// ports.
fn conduct<T: Transmit + 'static, R: Receive + 'static>(
    args: &GenArgs,
    (specs, counts, macs): (&[StreamSpec], TaskCounts, [[u8; 6]; 2]),
    links: Vec<Link<T, R>>,
    count: &dyn Fn() -> anyhow::Result<Vec<PortResult>>,
) -> anyhow::Result<ExitCode> {
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let outputs = open_outputs(args)?;
    let setup = StreamSetup {
        macs,
        link_mbps: [None; 2],
        seed: args.seed(),
        format: payload_format(args, counts.senders)?,
        is_stamped: args.is_verified(),
        part: Part::default(),
        ramp_ns: args.ramp_ns(),
    };
    let named = args.cpus.as_ref().map(|list| &list.0[..]);
    let cpus = threads::choose_cpus(counts.workers, named);
    let mut queries = match args.reflector {
        true => ReflectorQueries::new(&Senders { specs, profile: None }, 1, macs, [None; 2]),
        false => ReflectorQueries::default(),
    };
    let delay = START + queries.delay();
    let (clock, phase) = (Clock::measured().starting_in(delay), Phase::new());
    let begun = Instant::now() + delay;
    let interval_ns = args.interval.as_nanos() as u64;
    let plan = Plan { counts, specs, setup, clock, interval_ns };
    let (workers, ledger) = plan.tasks(links, &mut queries)?;
    let workers = threads::launch(workers, &cpus, clock, &phase)?;
    queries.begin();
    let reflectors = Cell::new([None; 2]);
    let ports = || {
        let with_reflector = |(port, reflector): (PortResult, Option<ReflectorCounters>)| {
            PortResult { reflector: reflector.map(reflector_result), ..port }
        };
        Ok(count()?.into_iter().zip(reflectors.get()).map(with_reflector).collect())
    };
    let is_verified = args.is_verified();
    let subject = Subject { args, specs, ports: &ports, cpus: &cpus, is_verified };
    let mut control = Control::new((ledger, phase), Reporter::new(subject, outputs)?, begun);
    let sent_for = control.conduct(args.duration, args.late, &interrupted);
    reflectors.set(queries.end());
    control.end_workers();
    Ok(control.finish(sent_for, join_threads(workers, &cpus)))
}

/// Returns the settings of the sockets for the streams. Fails if a stream needs more than sockets
/// can do.
fn udp_streams(args: &GenArgs, specs: &[StreamSpec]) -> anyhow::Result<Vec<UdpStream>> {
    let pairs = args.pairs()?;
    let stream = |(spec, pairs): (&StreamSpec, &Vec<(String, String)>)| {
        let name = &spec.name;
        let has = |requested: &str| pairs.iter().any(|(key, _)| key == requested);
        if !spec.is_udp() {
            bail!("stream {name}: UDP sockets send UDP only: leave proto out");
        }
        if spec.side == Side::B {
            bail!("stream {name}: side=b: UDP sockets have one side, a");
        }
        if let Some(key) = KERNELS_KEYS.into_iter().find(|key| has(key)) {
            bail!("stream {name}: {key}: the kernel makes the headers: leave {key} out");
        }
        if !has("dst") {
            bail!("stream {name}: dst: name the address that packets go to: dst=192.0.2.7");
        }
        super::refuse_no_receiver(spec)?;
        let few = |key, is_few: bool| match is_few {
            true => Ok(()),
            false => {
                bail!("stream {name}: {key}: each value needs a socket, at most {SOURCES_MAX}")
            }
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

/// The sockets for a part of the traffic.
struct Link<T, R> {
    /// Number of its port: 0 or 1.
    port: usize,
    part: Part,
    /// Sends the part, if it has streams.
    tx: Option<T>,
    rx: Vec<R>,
}

/// Everything from which the tasks of a run are made.
struct Plan<'a> {
    counts: TaskCounts,
    specs: &'a [StreamSpec],
    setup: StreamSetup,
    clock: Clock,
    interval_ns: u64,
}

impl Plan<'_> {
    /// Makes the tasks of each worker, and the ledger of the run.
    fn tasks<T: Transmit + 'static, R: Receive + 'static>(
        &self,
        links: Vec<Link<T, R>>,
        queries: &mut ReflectorQueries,
    ) -> anyhow::Result<(Vec<Tasks>, Ledger)> {
        let stamped = if self.setup.is_stamped { self.specs.len() } else { 0 };
        let senders = usize::from(self.counts.senders);
        let lanes = Lanes { streams: self.specs.len(), stamped, senders };
        let session = Session::new(self.clock, self.interval_ns, lanes);
        let mut session = session.starting_at(1);
        let mut workers: Vec<Tasks> = (0..self.counts.workers).map(|_| Vec::new()).collect();
        let receivers = usize::from(self.counts.receivers);
        let mut queues: Vec<Vec<PortQueue<R>>> = (0..receivers).map(|_| Vec::new()).collect();
        let mut next = 0;
        for Link { port, part, tx, rx } in links {
            if let Some(tx) = tx {
                let setup = StreamSetup { part, ..self.setup.clone() };
                let sender = session.sender(Streams::new(self.specs, &setup)?, port, tx);
                let sender = sender.replying(queries.queries(port).into_iter().collect());
                workers[usize::from(part.share) % self.counts.workers].push(Box::new(sender));
            }
            for rx in rx {
                if receivers > 0 {
                    let answers = queries.answers(port);
                    let foreign_handler =
                        answers.map_or(ForeignFrameHandler::Ignores, ForeignFrameHandler::Payloads);
                    let queue = PortQueue { port, queue: next, rx, foreign_handler };
                    queues[next % receivers].push(queue);
                }
                next += 1;
            }
        }
        for (number, queues) in queues.into_iter().enumerate() {
            let verifier = || Verifier::new(self.setup.seed, self.setup.format);
            let window = window(stamped * senders);
            let checks = self.setup.is_stamped.then(|| Checks { verifier: verifier(), window });
            let worker = (senders + number) % self.counts.workers;
            workers[worker].push(Box::new(session.receiver(queues, checks)));
        }
        Ok((workers, session.into_ledger()))
    }
}
