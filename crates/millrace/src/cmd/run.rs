// SPDX-License-Identifier: BSD-3-Clause
//! `millrace run`: runs the bump in the wire on DPDK ports.

use crate::cmd::check;
use crate::cmd::problems::print_problems;
use crate::cpu_locks;
use crate::live::ListHitsTimer;
use crate::live::answers::Answers;
use crate::live::reload_plan::Reload;
use crate::live::reload_plan::Reloader;
use crate::live::{PortEvent, PortPair, RateLine, Runtime};
use crate::netdev::{self, Interfaces};
use crate::placement::describe_placement;
use crate::privileges::Capabilities;
use crate::signals::{self, RunSignals};
use crate::start::start_eal;
use crate::twin_driver;
use anyhow::Context;
use checkpoint::{Settings, Snapshots};
use config::nodes_of;
use config::plan::{Plan, PlanArgs};
use config::{Devargs, Huge, Socket};
use control::{OpenError, Server};
use doctor::host::Memory;
use dpdk::{EalConfig, EalError, Mempool, Port};
use report::output::{Command, OutputArgs, write_line, write_line_at_once};
use report::records::{RecordSink, WrittenRecords};
use results::units;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Forward packets between two ports, and track their connections
///
/// Forwards every packet between the two ports of a pair, and accounts it to its connection.
/// Prints a line per second. Ctrl-C ends the run, which then prints its summary.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Stop after S seconds (a positive decimal number)
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,
    /// Print a line every S seconds, at least 0.05
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print no lines while packets flow
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace run --pair 0000:18:00.0,0000:18:00.1 --workers 4
      Two ports of a NIC that are bound to vfio-pci; four workers.
  millrace run --pair eth1,eth2
      Two Linux interfaces; needs root, or CAP_NET_ADMIN and CAP_NET_RAW.
  millrace run --pair net_pcap0,rx_pcap=f.pcap,infinite_rx=1,net_null0,no-rx=1 --duration 10
      Replay a capture from memory, as fast as one worker takes it; needs no privilege.
  millrace run --pair 18:00.0,18:00.1 --cpus 2,4-6
      Four workers, on the cpus that you name.
  millrace run bump.toml --flows flows.jsonl --json summary.json
      A configuration file; `millrace check bump.toml` validates it.

Exit status: 0 good; 1 the run failed or its ledger is not balanced; 2 wrong use.";

/// Context of an error at the control socket.
const NO_SOCKET: &str = "cannot open the control socket";

/// Parses a duration in seconds: a decimal number above 0.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Err(_) if seconds > 0.0 => Err("too many seconds".to_owned()),
        _ => Err("must be more than 0 seconds".to_owned()),
    }
}

/// Parses the time between two lines: at least 0.05 seconds, since packets of a generator need
/// time to return.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let shortest = Duration::from_millis(50);
    match seconds(text)? {
        interval if interval >= shortest => Ok(interval),
        _ => Err("must be at least 0.05 seconds".to_owned()),
    }
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let cpus = cpu_locks::cpus_of_this_host();
    let mut plan = match args.plan.plan(&cpus, netdev::mtu) {
        Ok(plan) => plan,
        Err(problems) => {
            print_problems(&problems);
            return Ok(problems.exit_code());
        }
    };
    Memory::refuse_more_than_there_is(plan.memory().total_bytes)
        .map_err(|too_little| too_little.with_way_out(check::less_memory(&plan)))?;
    if plan.eal.huge == Huge::Yes {
        Memory::refuse_too_few_hugepages(plan.eal.memory_mb.into())?;
    }
    let mut eal = plan.eal_config(Memory::free_hugepages_mb_of_this_host());
    eal.drivers.extend(twin_driver::require(&eal.ports)?);
    check_socket(&plan.socket)?;
    let (outputs, mut sink) = args.output.open(Command::Run, args.plan.files())?;
    let signals = RunSignals::catch(args.plan.has_file()).context("cannot catch signals")?;
    let interfaces = prepare(&plan)?;
    let wants_huge_pages = !eal.no_huge;
    let socket = plan.socket.clone();
    let kept = Capabilities::of(&plan, &files_of(args, &plan));
    let settings = std::mem::take(&mut plan.settings);
    cpus.measure_load();
    let nodes = nodes_of(plan.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]));
    let placement = describe_placement(&plan.worker_cpus(), &cpus, &nodes);
    cpu_locks::lock_until_exit(&plan.worker_cpus());
    let reload = Arc::new(Reload::new(&args.plan, cpus, settings));
    let snapshots = snapshots(&plan);
    plan.engine.records = sink.is_wanted();
    let start_up = signals::start_up();
    let (mut live, interfaces) = start(plan, (&eal, &placement), snapshots, interfaces)?;
    drop(start_up);
    let server = match serve(&socket, &live, Arc::clone(&reload)) {
        Ok(server) => server,
        Err(error) => {
            live.finish(&mut sink);
            let _ = sink.finish();
            return Err(error);
        }
    };
    kept.keep_only();
    signals.catch_real_time().context("cannot catch signals")?;
    warn_at_start(&live, wants_huge_pages);
    let lines = Lines { interval: args.interval, are_printed: outputs.report && !args.quiet };
    let mut reloader = Reloader::new(live.queries(), reload);
    let mut list_hits = ListHitsTimer::new(live.queries());
    let each_turn = &mut |sink: &mut RecordSink| {
        if signals.take_reopen() {
            sink.reopen();
        }
        if signals.take_reload() {
            reloader.request();
        }
        reloader.start_requested();
        list_hits.start_due();
    };
    let interrupted = &signals.interrupted;
    let until = StopCondition { duration: args.duration, interrupted, each_turn };
    watch(&mut live, &mut sink, until, lines);
    sink.hurry();
    close(server, &mut live, &mut sink);
    let has_lost_port = has_lost_port(&live);
    drop(interfaces);
    let mut finished = live.finish(&mut sink);
    let WrittenRecords { top, lost, result: written } = sink.finish();
    finished.summary.flows.records_lost += lost;
    outputs.finish("", &finished.summary, top)?;
    // Lost records were reported when they were lost.
    Ok(if has_lost_port || written.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Warns of connections that were not restored, and of ports and tables that lack hugepages,
/// symmetric RSS, flow rules or bypass.
fn warn_at_start(live: &Runtime, wants_huge_pages: bool) {
    for complaint in live.not_restored() {
        write_line(io::stderr(), format_args!("millrace: {complaint}"));
    }
    let tables = live.memory();
    if wants_huge_pages && tables.refused_bytes > 0 {
        write_line(io::stderr(), without_huge_pages(tables));
    }
    for port in live.not_symmetric() {
        let warning = format!(
            "millrace: port {port}: has no symmetric RSS: the two directions of a connection may \
             arrive at two workers, and each tracks a half connection"
        );
        write_line(io::stderr(), warning);
    }
    for (port, reason) in live.without_rules() {
        let warning =
            format!("millrace: port {port}: accepts no flow rules, nothing is offloaded: {reason}");
        write_line(io::stderr(), warning);
    }
    for (port, protocol, reason) in live.without_bypass() {
        let warning = format!(
            "millrace: port {port}: has no bypass for {protocol}, connections get marks instead: \
             {reason}"
        );
        write_line(io::stderr(), warning);
    }
}

/// Returns the files that the run opens by name while packets flow.
fn files_of(args: &RunArgs, plan: &Plan) -> Vec<PathBuf> {
    let snapshot = plan.snapshot.folder.iter().map(|folder| folder.join("0-0.snapshot"));
    let configuration = args.plan.files().iter().cloned();
    configuration.chain(snapshot).chain(args.output.reopened_files()).collect()
}

/// Locks and prepares the Linux interfaces of the plan.
fn prepare(plan: &Plan) -> anyhow::Result<Interfaces> {
    let ports = plan.pairs.iter().flat_map(|pair| [(&pair.a, pair.mtu), (&pair.b, pair.mtu)]);
    Ok(Interfaces::prepare(ports)?)
}

/// Opens the snapshots of an earlier run, if the plan has a folder for them. If that fails, prints
/// why and returns `None`: the run starts without them.
fn snapshots(plan: &Plan) -> Option<Snapshots> {
    let pairs =
        plan.pairs.iter().map(|pair| (pair.workers.len(), pair.zone_from(plan.engine.zone)));
    let settings = Settings { folder: plan.snapshot.folder.clone()?, every: plan.snapshot.every };
    match Snapshots::open(&settings, pairs) {
        Ok(snapshots) => {
            if let Some(secret) = &snapshots.rss {
                dpdk::use_rss_secret(secret);
            }
            for complaint in &snapshots.complaints {
                write_line(io::stderr(), format_args!("millrace: {complaint}"));
            }
            Some(snapshots)
        }
        Err(error) => {
            let folder = settings.folder.display();
            write_line(io::stderr(), format_args!("millrace: no snapshots: {folder}: {error}"));
            None
        }
    }
}

/// Fails if the user named a path where there can be no control socket.
fn check_socket(socket: &Socket) -> anyhow::Result<()> {
    let Socket::At(path) = socket else { return Ok(()) };
    control::check_path(path).context(NO_SOCKET)
}

/// Opens the control socket. Fails if the user named its path and it cannot be opened there. If the
/// default path cannot be used, prints a warning and returns `None`.
fn serve(socket: &Socket, live: &Runtime, reload: Arc<Reload>) -> anyhow::Result<Option<Server>> {
    let answerer = Arc::new(Answers::new(live.queries(), reload));
    let path = match socket {
        Socket::Off => return Ok(None),
        Socket::At(path) => {
            let open = Server::open(path, answerer);
            return open.map(Some).context(NO_SOCKET);
        }
        Socket::Auto => control::default_path(std::process::id()),
    };
    let open = |path: PathBuf| Server::open(&path, answerer).map_err(OpenError::into);
    match path.map_err(anyhow::Error::from).and_then(open) {
        Ok(server) => Ok(Some(server)),
        Err(error) => {
            let effect = "`ct`, `flows`, `offload` and `stats` cannot reach this run";
            write_line(
                io::stderr(),
                format_args!("millrace: no control socket, {effect}: {error}"),
            );
            Ok(None)
        }
    }
}

/// Closes the control socket. Takes records meanwhile: a client that flushes connections waits
/// until their records are taken.
fn close(server: Option<Server>, live: &mut Runtime, sink: &mut RecordSink) {
    live.queries().end();
    let Some(server) = server else { return };
    server.close();
    while !server.is_closed() {
        live.turn(sink);
    }
}

/// Returns the warning about flow tables that should be in hugepages and are not.
fn without_huge_pages(tables: engine::MemoryUse) -> String {
    let [refused, all] =
        [tables.refused_bytes, tables.bytes].map(|bytes| units::bytes(bytes as u64));
    format!(
        "millrace: flow tables: {refused} of {all} do not fit into the free hugepages of 2 MB: \
         slower without transparent hugepages; reserve more hugepages, or lower `capacity`"
    )
}

/// Starts DPDK, prints the line about the workers' cpus, and starts the bump.
fn start(
    mut plan: Plan,
    (eal, placement): (&EalConfig, &str),
    snapshots: Option<Snapshots>,
    mut interfaces: Interfaces,
) -> anyhow::Result<(Runtime, Interfaces)> {
    let mut eal = start_eal(eal).map_err(|error| match error.downcast_ref() {
        Some(EalError::Arguments { .. }) => anyhow::anyhow!("eal.extra: {error}"),
        // The user requires hugepages, so the program does not start again without them.
        Some(EalError::NoHugepages { .. }) if plan.eal.huge == Huge::Yes => {
            let too_few = Memory::refuse_too_few_hugepages(plan.eal.memory_mb.into());
            too_few.err().map_or_else(|| anyhow::anyhow!("{error}"), Into::into)
        }
        _ => error,
    })?;
    // Printed only now: if DPDK finds no hugepages, the program starts again and would repeat them.
    for note in interfaces.notes() {
        write_line(io::stderr(), format_args!("millrace: {note}"));
    }
    write_line(io::stderr(), placement);
    let mut lcores = eal.take_lcores().into_iter();
    let all_workers: usize = plan.pairs.iter().map(|pair| pair.workers.len()).sum();
    // All workers have equal shares of the packet buffers.
    let share =
        |workers: usize| (u64::from(plan.eal.mbufs) * workers as u64 / all_workers as u64) as u32;
    let data_bytes = plan.eal.mbuf_data_bytes;
    let mut wires = Vec::new();
    for (number, pair) in plan.pairs.into_iter().enumerate() {
        let queues = pair.workers.len() as u16;
        let mut open = |port: &Devargs| -> anyhow::Result<Port> {
            interfaces.queues(port, (queues, queues))?;
            let mut open = Port::probe(&eal, &interfaces.devargs(port))?;
            interfaces.adopt(port, &mut open)?;
            Ok(open)
        };
        let (a, b) = (open(&pair.a)?, open(&pair.b)?);
        let (pool, zone) = (format!("pair{number}"), pair.zone_from(plan.engine.zone));
        wires.push(PortPair {
            mempool: Mempool::new(
                &eal,
                &pool,
                share(pair.workers.len()),
                data_bytes,
                a.info().socket_id,
            )?,
            a,
            b,
            workers: lcores.by_ref().take(pair.workers.len()).collect(),
            rx_descriptors: pair.rx_descriptors,
            tx_descriptors: pair.tx_descriptors,
            zone,
            deepest: pair.deepest,
            access: pair.access,
            mtu: [&pair.a, &pair.b].map(|port| interfaces.mtu(port, pair.mtu)),
            read_beside: [&pair.a, &pair.b].map(|port| interfaces.read_beside(port)),
            interface_mtu: [&pair.a, &pair.b].map(|port| interfaces.interface_mtu(port)),
            cuts_from: [&pair.a, &pair.b].map(|port| interfaces.cuts_from(port)),
        });
    }
    plan.engine.secret = secret()?;
    let policy = (plan.zone_timeouts, plan.list_context);
    let live = Runtime::start(&eal, wires, (&plan.engine, plan.offload), policy, snapshots)?;
    interfaces.connect()?;
    Ok((live, interfaces))
}

/// Returns a random secret, from which those of all tables are derived.
pub(super) fn secret() -> anyhow::Result<[u64; 2]> {
    let random = || getrandom::u64().context("cannot get random numbers from the system");
    Ok([random()?, random()?])
}

/// When a run ends: after a time, or by a signal.
pub(super) struct StopCondition<'a> {
    /// Length of the run; `None` for no limit.
    pub(super) duration: Option<Duration>,
    pub(super) interrupted: &'a AtomicBool,
    /// Called in each turn of the control thread.
    pub(super) each_turn: &'a mut dyn FnMut(&mut RecordSink),
}

/// How often a run prints a line, and whether it does. Flow records are flushed and events of ports
/// are printed once per interval, also without lines.
pub(super) struct Lines {
    pub(super) interval: Duration,
    pub(super) are_printed: bool,
}

/// Runs the control thread's loop until the run ends: takes records, prints lines and events.
pub(super) fn watch(
    live: &mut Runtime,
    sink: &mut RecordSink,
    until: StopCondition<'_>,
    lines: Lines,
) {
    let mut meter = RateLine::new(lines.interval);
    print_port_events(live);
    if lines.are_printed {
        write_line_at_once(RateLine::heading(live));
    }
    while !until.interrupted.load(Ordering::Relaxed)
        && until.duration.is_none_or(|duration| live.elapsed() < duration)
    {
        (until.each_turn)(sink);
        live.turn(sink);
        live.take_reset_events().iter().for_each(print_port_event);
        if live.has_given_up() {
            break;
        }
        let Some(line) = meter.line(live) else { continue };
        sink.flush();
        if lines.are_printed {
            write_line_at_once(line);
        }
        print_port_events(live);
        if live.all_removed() {
            write_line(io::stderr(), "millrace: every port is gone; the run ends");
            break;
        }
    }
}

/// True if a port was lost during the run. Says so if its device is gone: that is long past.
fn has_lost_port(live: &Runtime) -> bool {
    let removed = live.removed();
    if !removed.is_empty() {
        let ports = removed.join(" and ");
        let line = format_args!("millrace: exit status 1, because the device is gone: {ports}");
        write_line(io::stderr(), line);
    }
    !removed.is_empty() || live.has_given_up()
}

fn print_port_events(live: &mut Runtime) {
    live.port_events().iter().for_each(print_port_event);
}

fn print_port_event(event: &PortEvent) {
    write_line(io::stderr(), format_args!("millrace: {event}"));
}
