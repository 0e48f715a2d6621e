// SPDX-License-Identifier: BSD-3-Clause
//! The flows of `millrace replay` and those of tshark, an independent tool.
//!
//! Twice: packet by packet from the fields tshark prints (packets, bytes and IP bytes of every
//! direction of every flow, and of what is passed untracked, by reason), and by the tables of
//! `tshark -z conv`. Both must agree but for the differences in `rules.rs` and `conversations.rs`.

mod conversations;
mod packet;
mod rules;
mod synthetic;
mod tally;
mod tool;

use conversations::Conversations;
use packet::{Flow, Packet};
use rules::{EXCEPTIONS, Exception, Ours, RULES};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use tally::{Replayed, Tallies, Tally};
use tool::{Readable, Tshark};

/// Captures that tshark reads in one go.
const BATCH: usize = 100;

/// The most bytes of a frame outside its IP packet that a flow record tells from IP bytes.
const OVERHEAD_MAX: u64 = 0x7fff;

/// What was compared.
#[derive(Clone, Debug, Default)]
struct Account {
    captures: u64,
    /// Captures that tshark refuses, because it does not know their link type.
    refused: u64,
    packets: u64,
    /// Directions of flows, all of them equal.
    directions: u64,
    tracked: u64,
    /// Packets for which each rule held.
    rules: [u64; RULES.len()],
    exceptions: [u64; EXCEPTIONS.len()],
    /// Packets whose bytes outside IP are more than a record counts.
    overhead: u64,
    /// Directions of conversations, and packets that tshark counts to others than `millrace`.
    conversations: u64,
    corrections: u64,
    faults: Vec<String>,
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.captures += other.captures;
        self.refused += other.refused;
        self.packets += other.packets;
        self.directions += other.directions;
        self.tracked += other.tracked;
        self.overhead += other.overhead;
        self.conversations += other.conversations;
        self.corrections += other.corrections;
        let counters = self.rules.iter_mut().chain(&mut self.exceptions);
        for (sum, n) in counters.zip(other.rules.iter().chain(&other.exceptions)) {
            *sum += n;
        }
        self.faults.extend(other.faults);
    }
}

#[test]
fn synthesised_captures_have_the_flows_that_tshark_sees() {
    let Some(tshark) = Tshark::new("synthesised") else { return };
    let captures = synthetic::captures().into_iter();
    let captures: Vec<PathBuf> =
        captures.map(|(name, bytes)| tshark.write(&format!("{name}.pcap"), &bytes)).collect();
    let account = compare(&tshark, &captures);
    account.print();
    account.assert_good();
    assert_eq!(account.refused, 0);
    let unused = RULES.iter().zip(account.rules).filter(|(_, n)| *n == 0);
    let unused: Vec<&str> = unused.map(|(rule, _)| rule.why).collect();
    assert!(unused.is_empty(), "no synthesised packet needs these rules: {unused:?}");
}

#[test]
fn real_captures_have_the_flows_that_tshark_sees() {
    let folder = folder();
    if !folder.is_dir() {
        eprintln!("skipped: no captures in {} (set MILLRACE_CAPTURES)", folder.display());
        return;
    }
    let Some(tshark) = Tshark::new("real") else { return };
    let mut captures = Vec::new();
    captures_in(&folder, &mut captures);
    captures.sort();
    let account = compare(&tshark, &captures);
    account.print();
    account.assert_good();
}

/// `MILLRACE_CAPTURES`, or a folder beside the checkout.
fn folder() -> PathBuf {
    match std::env::var_os("MILLRACE_CAPTURES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures"),
    }
}

fn captures_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            captures_in(&path, found);
        } else if matches!(extension, Some("pcap" | "pcapng" | "cap" | "gz")) {
            found.push(path);
        }
    }
}

/// Compares captures, in two threads.
fn compare(tshark: &Tshark, captures: &[PathBuf]) -> Account {
    let batches: Vec<&[PathBuf]> = captures.chunks(BATCH).collect();
    let half = batches.len().div_ceil(2);
    let mut account = Account::default();
    std::thread::scope(|scope| {
        let threads = batches.chunks(half).enumerate().map(|(thread, batches)| {
            scope.spawn(move || {
                let mut account = Account::default();
                for (i, batch) in batches.iter().enumerate() {
                    account += compare_batch(tshark, &format!("{thread}-{i}"), batch);
                }
                account
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            account += thread.join().expect("a thread ends well");
        }
    });
    account
}

fn compare_batch(tshark: &Tshark, name: &str, captures: &[PathBuf]) -> Account {
    let mut account = Account::default();
    let readable = tshark.readable(captures);
    for capture in captures {
        if !readable.iter().any(|readable| readable.path == *capture) {
            account.compare_refused(capture, &replay(capture, &tshark.scratch(name)));
        }
    }
    if readable.is_empty() {
        return account;
    }
    let dissection = tshark.dissect(name, &readable);
    let mut must = Conversations::default();
    for (Readable { path, .. }, packets) in readable.iter().zip(&dissection.captures) {
        let ours = replay(path, &tshark.scratch(name));
        must.add_flows(&ours.flows);
        account.compare_capture(path, packets, &ours, &mut must);
    }
    let conversations = Conversations::parse(&dissection.conversations);
    account.conversations += conversations.len() as u64;
    account.faults.extend(
        conversations
            .differences(&must)
            .into_iter()
            .map(|d| format!("{} {d}", captures[0].display())),
    );
    account
}

/// Runs `millrace replay`, which writes to files of this name.
fn replay(capture: &Path, scratch: &Path) -> Replayed {
    let (summary, flows) = (scratch.with_extension("json"), scratch.with_extension("jsonl"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["replay", "--capacity", "4096", "--json"]).arg(&summary);
    let output = command.arg("--flows").arg(&flows).arg(capture).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", capture.display());
    let read = |path| std::fs::read_to_string(path).unwrap();
    Replayed::read(&read(summary), &read(flows))
}

impl Account {
    /// A capture of a link type that tshark does not know: `millrace` must not know it either.
    fn compare_refused(&mut self, capture: &Path, ours: &Replayed) {
        self.captures += 1;
        self.refused += 1;
        self.packets += ours.packets;
        let passed = BTreeMap::from([("link_type".to_owned(), ours.packets)]);
        if ours.passed != passed {
            let capture = capture.display();
            self.faults.push(format!("{capture}: refused by tshark, but not by millrace"));
        }
    }

    /// Compares packet by packet, and corrects the conversations that tshark must have.
    fn compare_capture(
        &mut self,
        capture: &Path,
        packets: &[Packet],
        ours: &Replayed,
        must: &mut Conversations,
    ) {
        let mut flows = Tallies::new();
        let mut passed = BTreeMap::new();
        for (number, packet) in (1..).zip(packets) {
            let flow = match self.judge(capture, number, packet) {
                Ok(flow) => {
                    *flows.entry((flow.tuple.clone(), flow.from)).or_default() +=
                        self.tally(packet);
                    Some(flow)
                }
                Err(reason) => {
                    *passed.entry(reason.to_owned()).or_default() += 1;
                    None
                }
            };
            self.corrections += u64::from(must.correct(packet, flow.as_ref()));
        }
        self.captures += 1;
        self.packets += packets.len() as u64;
        self.directions += flows.len() as u64;
        let capture = capture.display();
        if ours.passed != passed {
            let (ours, must) = (&ours.passed, passed);
            self.faults.push(format!("{capture}: passed {ours:?}, must be {must:?}"));
        }
        for (key, tally) in &ours.flows {
            let must = flows.remove(key).unwrap_or_default();
            if *tally != must {
                self.faults.push(format!("{capture}: {key:?} has {tally:?}, must have {must:?}"));
            }
        }
        for (key, must) in flows {
            self.faults.push(format!("{capture}: {key:?} is missing, must have {must:?}"));
        }
    }

    /// The flow that must have counted the packet, or the reason why none did.
    fn judge(
        &mut self,
        capture: &Path,
        number: u64,
        packet: &Packet,
    ) -> Result<Flow, &'static str> {
        let is_it = |exception: &Exception| {
            capture.ends_with(exception.capture) && exception.number.is_none_or(|n| n == number)
        };
        if let Some(i) = EXCEPTIONS.iter().position(is_it) {
            self.exceptions[i] += 1;
            return match EXCEPTIONS[i].ours {
                Ours::Passed(reason) => Err(reason),
                Ours::Counted { proto, ports } => Ok(packet.flow_with(proto, ports)),
            };
        }
        match RULES.iter().position(|rule| (rule.holds)(packet)) {
            Some(i) => {
                self.rules[i] += 1;
                Err(RULES[i].reason)
            }
            None => {
                self.tracked += 1;
                packet.flow().ok_or_else(|| {
                    let capture = capture.display();
                    self.faults.push(format!("{capture}: neither rule nor flow: {packet:?}"));
                    "unexplained"
                })
            }
        }
    }

    fn tally(&mut self, packet: &Packet) -> Tally {
        let bytes = packet.frame_len();
        let overhead = bytes - packet.ip_len().expect("an IP packet has a length");
        self.overhead += u64::from(overhead > OVERHEAD_MAX);
        Tally { packets: 1, bytes, ip_bytes: bytes - overhead.min(OVERHEAD_MAX) }
    }

    fn print(&self) {
        println!(
            "{} captures ({} of link types that tshark does not know), {} packets: {} in flows; \
             {} directions of flows, {} of conversations",
            self.captures,
            self.refused,
            self.packets,
            self.tracked,
            self.directions,
            self.conversations
        );
        for (rule, n) in RULES.iter().zip(self.rules) {
            println!("{n:7} {}: {}", rule.reason, rule.why);
        }
        for (exception, n) in EXCEPTIONS.iter().zip(self.exceptions) {
            println!("{n:7} in {}: {}", exception.capture, exception.why);
        }
        println!("{:7} with more bytes outside IP than a record counts", self.overhead);
        println!("{:7} that tshark counts to other conversations or none", self.corrections);
    }

    fn assert_good(&self) {
        assert!(self.faults.is_empty(), "\n{}\n", self.faults.join("\n"));
    }
}
