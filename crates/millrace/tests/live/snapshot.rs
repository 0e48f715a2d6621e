// SPDX-License-Identifier: BSD-3-Clause
//! Tests connections that outlive the bump. Kernels communicate through a bump that is stopped or
//! killed, and started again. It picks up no TCP connection and drops packets that do not fit, so a
//! connection that it has lost makes no progress.
//!
//! `make prove-restart` restarts it a thousand times.

use crate::bump::{Bump, Setup, count, total};
use crate::captures::{Talk, is_a};
use crate::instance;
use crate::lan::Lan;
use crate::peer::remove_runtime_dir;
use crate::records::{Record, Tally, conversations};
use crate::twin::driver;
use crate::{new_scratch, scaled};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use testkit::capture::write_pcap;
use testkit::host::{has_cpus, has_root_and};
use testkit::process::{Process, wait_until};
use testkit::scratch::Scratch;
use wire::FrameBuilder;

const PORT: u16 = 7007;
/// Connections whose restoring takes a worker longer than a short run.
const MANY: u32 = 400_000;

/// A server that echoes all data.
const SERVER: &str = "import selectors, socket, sys
s = socket.create_server(('10.9.0.2', int(sys.argv[1])), backlog=4096)
sel = selectors.DefaultSelector()
sel.register(s, selectors.EVENT_READ)
print('ready', flush=True)
while True:
    for key, _ in sel.select():
        if key.fileobj is s:
            c, _ = s.accept()
            sel.register(c, selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(65536)
        if data: key.fileobj.sendall(data)
        else: sel.unregister(key.fileobj); key.fileobj.close()";

/// A client with many connections; each line of standard input is a command for all of them.
const CLIENT: &str = "import socket, sys
def read(c, n):
    got = 0
    while got < n: got += len(c.recv(n - got)) or sys.exit('closed')
every = []
for line in sys.stdin:
    what, n = line.split()
    if what == 'open':
        every += [socket.create_connection(('10.9.0.2', int(sys.argv[1]))) for _ in range(int(n))]
    if what in ('send', 'round'):
        for c in every: c.sendall(b'x' * int(n))
    if what in ('read', 'round'):
        for c in every: read(c, int(n))
    if what == 'close':
        for c in every: c.close()
    print(what, flush=True)";

/// Two hosts with connections between them.
struct Talkers {
    lan: Lan,
    client: Process,
    answers: BufReader<ChildStdout>,
    _server: Process,
}

impl Talkers {
    fn new() -> Option<Self> {
        if !has_root_and(&["ip", "unshare", "nsenter", "setpriv", "ethtool", "python3"]) {
            return None;
        }
        let lan = Lan::with_cables()?;
        lan.set_up();
        lan.introduce();
        lan.assign_addresses();
        let python = |host: &crate::lan::Host, program: &str| {
            let mut command = host.namespace.command("python3");
            command.args(["-c", program, &PORT.to_string()]);
            Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
        };
        let mut server = python(&lan.b, SERVER);
        assert_eq!(server.first_line(), "ready\n");
        let mut client = python(&lan.a, CLIENT);
        let answers = BufReader::new(client.child().stdout.take()?);
        Some(Self { lan, client, answers, _server: server })
    }

    /// Sends a command for all connections to the client, and waits until it is done.
    #[track_caller]
    fn all(&mut self, what: &str, n: usize) {
        let stdin = self.client.child().stdin.as_mut().unwrap();
        writeln!(stdin, "{what} {n}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), what, "a connection came to a standstill");
    }

    /// Starts a bump between the hosts that saves its connections in this directory.
    fn bump(&self, folder: &Path, every_s: u32) -> Bump {
        let [a, b] = Lan::ports();
        let scratch = Scratch::new(std::env::temp_dir(), "kept");
        let socket = scratch.path("s");
        let setup = Setup::in_scratch(scratch).args(&["--socket", &socket]);
        let setup = setup.config(&snapshot(folder, every_s));
        let setup = setup.config("[policy]\npick_up = \"strict\"\ninvalid = \"drop\"\n");
        let setup = setup.duration("100000").launcher(self.lan.bump.command("env"));
        setup.pair(&a, &b).start()
    }
}

fn snapshot(folder: &Path, every_s: u32) -> String {
    format!("[snapshot]\npath = \"{}\"\nevery_s = {every_s}\n", folder.display())
}

/// Queries the instance; returns the JSON.
fn ask(bump: &Bump, args: &[&str]) -> Value {
    instance::json(&bump.path("s"), args)
}

/// Waits for a complete snapshot that began after this call.
fn wait_for_snapshot(bump: &Bump) {
    let written = || count(&ask(bump, &["stats"])["snapshot"]["written"]);
    let before = written();
    wait_until("two more snapshots", || written() >= before + 2);
}

fn kill(bump: Bump) {
    let id = bump.id();
    bump.signal("KILL");
    assert_eq!(bump.wait().status, None);
    remove_runtime_dir(&format!("millrace-{id}"));
}

/// Returns the number of connections that have a SYN in both directions: those that the bump has
/// restored or seen from the start.
fn known(bump: &Bump, connections: usize) -> usize {
    let only = format!(":{PORT}");
    let flows = ask(bump, &["flows", "--only", &only, "--limit", "100000"]);
    assert_eq!(count(&flows["matched"]), connections as u64);
    let has_syn = |flow: &&Value| {
        let flags = |side: &str| count(&flow[side]["tcp_flags"]);
        flags("orig") & flags("reply") & 2 != 0
    };
    flows["flows"].as_array().unwrap().iter().filter(has_syn).count()
}

/// Runs kernel TCP through `restarts` kills of the bump, every second one while no data is sent,
/// and through an orderly end.
fn outlives(restarts: usize, connections: usize) {
    let Some(mut talkers) = Talkers::new() else { return };
    let kept = new_scratch("kept");
    let mut bump = talkers.bump(kept.folder(), 1);
    talkers.all("open", connections);
    talkers.all("round", 100);
    let (mut kept_count, mut all) = (0, 0);
    for restart in 0..restarts {
        wait_for_snapshot(&bump);
        kill(bump);
        let sends_meanwhile = restart % 8 == 1;
        if sends_meanwhile {
            talkers.all("send", 1000);
        }
        bump = talkers.bump(kept.folder(), 1);
        if sends_meanwhile {
            talkers.all("read", 1000);
        }
        talkers.all("round", 2000);
        kept_count += known(&bump, connections);
        all += connections;
        let stats = ask(&bump, &["stats"]);
        assert_eq!(total(&stats["invalid"]) + total(&stats["ignored"]), 0, "{stats}");
        assert_eq!(count(&stats["snapshot"]["refused"]), 0, "{stats}");
        if restart % 100 == 99 {
            println!("{} restarts: {kept_count} of {all} connections were kept", restart + 1);
        }
    }
    println!("{restarts} restarts: {kept_count} of {all} connections were kept");
    assert!(kept_count * 1000 >= all * 999, "{kept_count} of {all}");
    bump.signal("TERM");
    let ended = bump.wait();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let bump = talkers.bump(kept.folder(), 0);
    talkers.all("round", 100);
    assert_eq!(known(&bump, connections), connections);
    talkers.all("close", 0);
    let last = bump.finish();
    assert_eq!((last.status, last.stderr.as_str()), (Some(0), ""));
    assert!(last.stdout.contains("connections of the last run: "), "{}", last.stdout);
    assert!(last.stdout.contains("snapshots: 1 written"), "{}", last.stdout);
    let sent = 100 + restarts as u64 * 2000 + 100;
    let records = last.records();
    let is_ours = |record: &&Record| record.text("dport") == PORT.to_string();
    let ours: Vec<_> = records.iter().filter(is_ours).collect();
    assert_eq!(ours.len(), connections);
    for record in ours {
        // Counters include packets before and after the kill. Those between a snapshot and the kill
        // are missing.
        assert!(record.number("orig_ip_bytes") > sent, "{record:?}");
        assert_eq!(record.number("orig_tcp_flags") & 3, 3, "{record:?}");
    }
}

#[test]
fn kernel_tcp_outlives_a_bump_that_is_killed_and_one_that_is_stopped() {
    let [restarts, connections] = [("MILLRACE_RESTARTS", 2), ("MILLRACE_CONNECTIONS", 40)]
        .map(|(name, usual)| scaled(name, usual) as usize);
    outlives(restarts, connections);
}

/// Runs a bump until it has received all packets of a capture, then ends it.
fn replayed(setup: Setup, frames: &[Vec<u8>]) -> crate::bump::Ended {
    let path = setup.path("in.pcap");
    write_pcap(&path, frames);
    let packets = frames.len() as u64;
    let port = format!("net_pcap0,rx_pcap={path}");
    let socket = setup.path("s");
    let setup = setup.args(&["--socket", &socket]).pair(&port, "net_null0,no-rx=1");
    let bump = setup.start();
    wait_until("all packets", || count(&ask(&bump, &["stats"])["ledger"]["rx"]) == packets);
    bump.finish()
}

fn in_tmp() -> Setup {
    Setup::in_scratch(Scratch::new(std::env::temp_dir(), "kept"))
}

/// Returns frames of both directions of some connections, for one port.
fn frames() -> Vec<Vec<u8>> {
    let [there, back] = Talk::new(1, 100).frames;
    there.into_iter().chain(back).collect()
}

#[test]
fn a_folder_that_cannot_be_used_is_reported_and_nothing_else() {
    let scratch = new_scratch("kept");
    std::fs::write(scratch.path("file"), "").unwrap();
    let folder = scratch.path("file/below");
    let ended = replayed(in_tmp().config(&snapshot(Path::new(&folder), 1)), &frames());
    ended.assert_balanced();
    assert!(ended.stderr.contains("no snapshots: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&folder), "{}", ended.stderr);
    assert_eq!(count(&ended.summary()["snapshot"]["written"]), 0);

    // A directory that all users may write to.
    let folder = scratch.path("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ended = replayed(in_tmp().config(&snapshot(Path::new(&folder), 1)), &frames());
    ended.assert_balanced();
    assert!(ended.stderr.contains("no snapshots: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("chmod go-w {folder}")), "{}", ended.stderr);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);

    // A directory in which no files can be created.
    std::fs::create_dir_all(scratch.path("full/0-0.tmp")).unwrap();
    let folder = scratch.path("full");
    let ended = replayed(in_tmp().config(&snapshot(Path::new(&folder), 0)), &frames());
    ended.assert_balanced();
    assert!(ended.stderr.contains("cannot write snapshot "), "{}", ended.stderr);
    assert!(ended.stderr.contains("forwarding continues"), "{}", ended.stderr);
}

/// If Millrace opened pipes like files, neither its start nor its end would continue.
#[test]
fn pipes_in_the_place_of_files_are_not_waited_for() {
    let scratch = new_scratch("kept");
    let names = ["0-0.snapshot", "0-0.tmp"].map(|name| scratch.path(name));
    assert!(Command::new("mkfifo").args(&names).status().unwrap().success());
    let ended = replayed(in_tmp().config(&snapshot(scratch.folder(), 0)), &frames());
    ended.assert_balanced();
    let told = format!("millrace: snapshot {}: it is a link, pipe, device or folder", names[0]);
    assert!(ended.stderr.starts_with(&told), "{}", ended.stderr);
    assert_eq!(count(&ended.summary()["snapshot"]["written"]), 1);
    let [file, temporary] = names.map(|name| std::fs::metadata(name).map(|found| found.is_file()));
    assert!(file.unwrap() && temporary.is_err());
}

#[test]
fn files_that_are_not_whole_are_reported_and_read_as_far_as_they_go() {
    let scratch = new_scratch("kept");
    let config = snapshot(scratch.folder(), 0);
    let file = scratch.folder().join("0-0.snapshot");
    std::fs::write(&file, "something else").unwrap();
    let ended = replayed(in_tmp().config(&config), &frames());
    ended.assert_balanced();
    assert!(ended.stderr.contains("it is not a snapshot of Millrace"), "{}", ended.stderr);
    let whole = std::fs::read(&file).unwrap();
    let snapshot = &ended.summary()["snapshot"];
    assert_eq!(count(&snapshot["bytes"]), whole.len() as u64);

    let none = |setup: Setup| replayed(setup.config(&config), &[]);
    let ended = none(in_tmp());
    assert_eq!(ended.stderr, "");
    let restored = count(&ended.summary()["snapshot"]["restored"]);
    assert!(restored > 50, "{restored}");
    assert_eq!(ended.records().len() as u64, restored);

    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let ended = none(in_tmp());
    assert!(ended.stderr.contains("it ends before its last page"), "{}", ended.stderr);
    assert_eq!(count(&ended.summary()["snapshot"]["restored"]), restored);

    // Damages one of several pages.
    let mut damaged = whole.clone();
    damaged[4096 + 100] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let ended = none(in_tmp());
    let few = count(&ended.summary()["snapshot"]["restored"]);
    let told = format!("damaged pages: 1, {} connections are lost; {few} con", restored - few);
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    assert!(few > 0 && restored - few <= 44, "{few} of {restored}");

    let mut newer = whole.clone();
    newer[8] = 0xff;
    std::fs::write(&file, &newer).unwrap();
    let ended = none(in_tmp());
    assert!(ended.stderr.contains("its header is damaged"), "{}", ended.stderr);

    // The `zone` setting decides the zones of connections, which are a part of their keys.
    std::fs::write(&file, &whole).unwrap();
    let other =
        config.replace("[snapshot]", "[table]\ncapacity = 4096\nzone = \"none\"\n[snapshot]");
    let setup = in_tmp().only_config(&other);
    let ended = replayed(setup, &[]);
    assert!(
        ended.stderr.contains("it was written with another `zone` setting"),
        "{}",
        ended.stderr
    );
    assert_eq!(count(&ended.summary()["snapshot"]["restored"]), 0);
}

/// Both directions of connections arrive at two ports of a software NIC, which choose the worker
/// for each.
#[test]
fn connections_come_to_workers_that_know_them() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let kept = new_scratch("kept");
    let talk = Talk::new(1, 300);
    let run = |workers: &str| {
        let setup = Setup::new("spread").config(&snapshot(kept.folder(), 0));
        let [a, b] = ["a", "b"].map(|name| setup.path(name));
        talk.write(&a, &b);
        let [a, b] = [a, b].map(|capture| format!("replay={capture}"));
        let setup = setup.pair(&format!("net_twin0,{a}"), &format!("net_twin1,{b}"));
        let mut bump = setup.args(&["--workers", workers]).start();
        bump.wait_for_line("silence", |line| line.flows >= 300.0 && line.is_silent());
        let ended = bump.finish();
        assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
        ended
    };
    // If the number of workers changes, any worker may get any connection, so each worker restores
    // all of them. From then on, the records of two workers count each connection twice.
    for (workers, times) in [("2", 1), ("2", 2), ("1", 3), ("2", 7)] {
        let sums = conversations(&run(workers).records(), is_a);
        // Connections without a reply begin anew.
        let had_answer = |sides: &[Tally; 2]| sides.iter().all(|side| side.packets > 0);
        let both = talk
            .conversations
            .iter()
            .filter(|(name, sides)| had_answer(sides) && !name.starts_with("6 "));
        for (name, sides) in both {
            let mut expected = [Tally::default(); 2];
            for (sum, side) in expected.iter_mut().zip(sides) {
                (0..times).for_each(|_| sum.add(*side));
            }
            assert_eq!(sums[name], expected, "{name}, {times} times");
        }
    }
}

/// One worker restores many connections, and the other has none. If that one forwarded meanwhile,
/// the run would count its packets, but its duration begins when both workers are ready.
#[test]
fn workers_begin_to_poll_together() {
    if !has_cpus(2) {
        return;
    }
    let kept = new_scratch("kept");
    let setup = || {
        let setup = Setup::new("together").without_flows().capacity(1 << 20);
        setup.config(&snapshot(kept.folder(), 0)).pair("net_null0", "net_null1")
    };
    let first = setup();
    let capture = first.path("many");
    // Connections without a reply are not saved.
    let frames = |i: u32| {
        let [_, high, mid, low] = i.to_be_bytes();
        let there = FrameBuilder::ipv4([10, high, mid, low], [192, 0, 2, 1]).udp(4096, 53);
        [there.clone().build(), there.reversed().build()]
    };
    write_pcap(&capture, &(0..MANY).flat_map(frames).collect::<Vec<_>>());
    let port = format!("net_pcap0,rx_pcap={capture}");
    let mut bump = first.pair(&port, "net_null3,no-rx=1").start();
    bump.wait_for_line("all connections", |line| line.flows == f64::from(MANY));
    assert_eq!(bump.finish().status, Some(0));

    let second = setup().pair("net_null2,no-rx=1", "net_null3,no-rx=1").duration("0.1");
    let ended = second.run();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let summary = ended.summary();
    let restored = count(&summary["snapshot"]["restored"]);
    assert_eq!(restored, u64::from(MANY), "{}", ended.stderr);
    let cycles = [0, 1].map(|worker| {
        let worker = &summary["workers"][worker];
        let of = ["busy_cycles", "idle_cycles", "stalled_cycles"].map(|kind| count(&worker[kind]));
        of.iter().sum::<u64>()
    });
    // Both also forward while the last snapshot is written, which takes longer than the restoring.
    assert!(10 * cycles[0] < 13 * cycles[1], "{cycles:?}");
}
