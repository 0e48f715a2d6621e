// SPDX-License-Identifier: BSD-3-Clause
//! Runs `millrace gen` and `millrace reflect` over the kernel and over DPDK, in all combinations,
//! between two network namespaces.

use crate::bump::{count, turn};
use crate::cycles::assert_work_of_all;
use crate::lan::{ENDS, Lan};
use crate::runs_all_cases;
use serde_json::Value;
use std::process::{Command, Stdio};
use testkit::host::has_root_and;
use testkit::process::{Process, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
const HERE: &str = "10.9.0.1";
const THERE: &str = "10.9.0.3";

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("JSON")
}

/// Starts a reflector, and returns it once it reflects packets.
fn reflector(lan: &Lan, args: &[&str]) -> Process {
    let mut command = lan.bump.command(PROGRAM);
    command.arg("reflect").args(args).args(["--quiet", "--json", "-"]);
    let reflector = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    match args.contains(&"--backend") {
        true => wait_until("the port is open", || lan.bump.run("ss -lnu").contains(":7 ")),
        false => wait_until("the redirect is there", || {
            lan.bump.run(&format!("tc filter show dev {} ingress", ENDS[0])).contains("mirred")
        }),
    }
    reflector
}

/// What the JSON of a reflector says it is.
const KIND: &str = "millrace-reflect";

/// Ends a reflector; returns its counters.
fn end(mut reflector: Process) -> Value {
    reflector.signal("TERM");
    let counters = json(reflector.rest_of_stdout().as_bytes());
    assert_eq!((&counters["kind"], &counters["command"][1]), (&KIND.into(), &"reflect".into()));
    assert!(counters["duration_s"].as_f64().unwrap() > 0.0, "{counters}");
    counters
}

#[test]
fn every_pair_of_backends_accounts_for_every_packet() {
    if !has_root_and(&["ip", "unshare", "nsenter", "ss"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_plain_cables() else { return };
    lan.set_up();
    let a = &lan.a;
    a.assign(a.interface, HERE);
    lan.bump.run(&format!("ip address add dev {} {THERE}/24", ENDS[0]));
    let mac = lan.bump.run(&format!("ip -br link show dev {}", ENDS[0]));
    let mac =
        mac.split_whitespace().find(|word| word.matches(':').count() == 5).unwrap().to_owned();
    // A DPDK port does not answer ARP requests for the kernel's address.
    let neighbour = format!("{THERE} lladdr {mac} dev {} nud permanent", a.interface);
    a.namespace.run(&format!("ip neigh replace {neighbour}"));
    let own = a.mac();
    let neighbour = format!("{HERE} lladdr {own} dev {} nud permanent", ENDS[0]);
    lan.bump.run(&format!("ip neigh replace {neighbour}"));
    let sockets = ["--backend", "sockets", "--sockets", "2"];
    let joined = ["--backend", "sockets", "--gso", "--gro"];
    let packet = ["--backend", "packet", a.interface];
    let port = [a.interface];
    let io_uring = ["--backend", "io-uring"];
    let generators: [(&[&str], bool); 5] =
        [(&sockets, false), (&joined, false), (&io_uring, false), (&packet, true), (&port, true)];
    for (answers, is_port) in [(&["7", "--backend", "sockets"][..], false), (&[ENDS[0]], true)] {
        for (case, (args, makes_headers)) in generators.iter().enumerate() {
            if !runs_all_cases() && (case % 2 == 0) != is_port {
                continue;
            }
            let reflector = reflector(&lan, answers);
            let mut stream = format!("count=1000 rate=10kpps size=imix dst={THERE} dport=7");
            if *makes_headers {
                stream += &format!(" src={HERE} sport=1024-1087 dst_mac={mac}");
            }
            let mut command: Command = a.namespace.command(PROGRAM);
            command.arg("gen").args(*args).args(["--verify", "--json", "-", "--stream", &stream]);
            let output = command.output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(!output.stdout.is_empty(), "{args:?} to {answers:?}: {told}");
            let (results, counters) = (json(&output.stdout), end(reflector));
            let verified = &results["verified"];
            let [sent, unsent] = [&results["sent"]["packets"], &results["unsent"]].map(count);
            let [lost, damaged] = [&verified["lost"], &verified["damaged"]].map(count);
            let context = format!("{args:?} to {answers:?}: {results:#} {counters:#} {told}");
            assert_eq!((sent, unsent, lost, damaged), (1000, 0, 0, 0), "{context}");
            let dropped = counters["dropped"].as_object().unwrap();
            let dropped: u64 = dropped.values().map(count).sum();
            // The kernel also gets the packets of a packet socket, and answers that no socket has
            // the port.
            let foreign = count(&verified["foreign"]);
            assert_eq!(count(&counters["reflected"]), 1000 + foreign, "{context}");
            assert!(is_port || dropped == 0, "{context}");
            assert_work_of_all(&results["workers"], &["build", "tx", "rx"]);
            assert_work_of_all(&counters["workers"], &["rx", "tx"]);
        }
    }
}
