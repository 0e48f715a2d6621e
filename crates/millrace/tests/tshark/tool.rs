// SPDX-License-Identifier: BSD-3-Clause
//! Runs tshark and its companions: which captures can it read, what is in each of their packets,
//! which conversations do they have.
//!
//! Starting tshark costs more than a capture of a few packets does, so that captures are put
//! behind each other first: mergecap keeps their order, lengths and link types.

use crate::packet::{FIELDS, Packet};
use std::path::PathBuf;
use std::process::Command;
use testkit::host::skip;
use testkit::scratch::Scratch;

/// tshark, told to look at the outermost headers only.
pub(crate) struct Tshark {
    /// Its configuration, and room for merged captures.
    scratch: Scratch,
}

/// A capture that tshark can read.
pub(crate) struct Readable {
    pub(crate) path: PathBuf,
    pub(crate) packets: usize,
}

/// What tshark says of several captures.
pub(crate) struct Dissection {
    /// The packets of each capture.
    pub(crate) captures: Vec<Vec<Packet>>,
    /// The text of the tables of conversations.
    pub(crate) conversations: String,
}

/// Dissectors of headers that `millrace` reads; all others are switched off, so that what tunnels
/// carry is data.
const DISSECTORS: [&str; 26] = [
    "_ws.malformed",
    "_ws.short",
    "ah",
    "chdlc",
    "data",
    "eth",
    "ethertype",
    "frame",
    "icmp",
    "icmpv6",
    "ieee8021ad",
    "ip",
    "ipv6",
    "ipv6.dstopts",
    "ipv6.fraghdr",
    "ipv6.hopopts",
    "ipv6.routing",
    "llc",
    "null",
    "ppp",
    "raw",
    "sctp",
    "sll",
    "tcp",
    "udp",
    "vlan",
];

/// No reassembly, no guess about lengths that are 0.
const PREFERENCES: &str = "\
ip.defragment: FALSE
ip.tso_support: TRUE
ipv6.defragment: FALSE
ipv6.tso_support: FALSE
tcp.desegment_tcp_streams: FALSE
sctp.reassembly: FALSE
";

impl Tshark {
    /// `None`, with the reason on stderr, where tshark is not installed.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let protocols = match Command::new("tshark").args(["-G", "protocols"]).output() {
            Ok(output) if output.status.success() => text(output.stdout),
            _ => {
                skip("no tshark in PATH");
                return None;
            }
        };
        let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), &format!("tshark-{test}"));
        let names = protocols.lines().filter_map(|line| line.split('\t').nth(2));
        let disabled = names.filter(|name| !DISSECTORS.contains(name));
        let disabled: String = disabled.map(|name| format!("{name}\n")).collect();
        scratch.write("disabled_protos", disabled);
        scratch.write("preferences", PREFERENCES);
        Some(Self { scratch })
    }

    /// A path for a file that is gone when the test is over.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.folder().join(name)
    }

    /// Writes a capture that is gone when the test is over.
    pub(crate) fn write(&self, name: &str, capture: &[u8]) -> PathBuf {
        self.scratch.write(name, capture).into()
    }

    /// Those of the captures that tshark can read to their end, in their order.
    pub(crate) fn readable(&self, captures: &[PathBuf]) -> Vec<Readable> {
        // Its exit status says that it could not read one, which is known from the list.
        let output = self.command("capinfos").args(["-T", "-r", "-c"]).args(captures).output();
        let table = text(output.unwrap().stdout);
        let row = |line: &str| {
            let (path, packets) = line.split_once('\t').expect("a path and a number");
            Readable { path: PathBuf::from(path), packets: packets.parse().unwrap() }
        };
        table.lines().map(row).collect()
    }

    /// Dissects captures that are readable.
    pub(crate) fn dissect(&self, name: &str, captures: &[Readable]) -> Dissection {
        let merged = self.path(&format!("merged-{name}.pcapng"));
        let mut mergecap = self.command("mergecap");
        mergecap.args(["-a", "-I", "none", "-F", "pcapng", "-w"]).arg(&merged);
        succeed(mergecap.args(captures.iter().map(|capture| &capture.path)));

        let mut tshark = self.command("tshark");
        tshark.args(["-n", "-r"]).arg(&merged).args(["-T", "fields"]);
        tshark.args(["-E", "occurrence=a", "-E", "separator=/t", "-E", "aggregator=,"]);
        for tunnel in ["4", "41", "143"] {
            tshark.args(["-d", &format!("ip.proto=={tunnel},data")]);
        }
        tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        for table in ["tcp", "udp", "sctp", "ip", "ipv6"] {
            tshark.args(["-z", &format!("conv,{table}")]);
        }
        let output = succeed(&mut tshark);
        let (packets, conversations) = output.split_once("\n====").expect("packets, then tables");
        let mut packets = packets.lines().map(Packet::parse);
        let captures =
            captures.iter().map(|capture| packets.by_ref().take(capture.packets).collect());
        let captures = captures.collect();
        assert!(packets.next().is_none(), "more packets than capinfos counted");
        Dissection { captures, conversations: conversations.to_owned() }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("WIRESHARK_CONFIG_DIR", self.scratch.folder()).env("LC_ALL", "C.UTF-8");
        command
    }
}

/// Standard output of a command that must succeed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", command.get_program());
    text(output.stdout)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("output is UTF-8")
}
