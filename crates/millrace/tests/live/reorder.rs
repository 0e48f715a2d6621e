// SPDX-License-Identifier: BSD-3-Clause
//! Tests the software NIC's fault that reorders packets, with testpmd.

use crate::captures::read_pcap;
use crate::new_scratch;
use crate::peer::Testpmd;
use crate::twin::{driver, tcp};
use testkit::capture::write_pcap;
use testkit::process::wait_until;
use testkit::scratch::Scratch;

/// Most packets that arrive later and leave before a held one: 8 that are not held, and 7 that are
/// held after it and released before it.
const PASSED_MAX: usize = 8 + 7;

fn frames() -> Vec<Vec<u8>> {
    (0..3000).map(|number| tcp(number).build()).collect()
}

/// Starts testpmd with these ports, in which `@` is a directory that has `frames` in `a.pcap`.
fn start(ports: &[&str], frames: &[Vec<u8>]) -> Option<(Testpmd, Scratch)> {
    let driver = driver()?;
    let scratch = new_scratch("reorder");
    write_pcap(scratch.path("a.pcap"), frames);
    let folder = scratch.folder().to_str().expect("a path of ours");
    let ports = ports.iter().map(|port| format!("--vdev={}", port.replace('@', folder)));
    let eal: Vec<_> = [format!("-d{driver}")].into_iter().chain(ports).collect();
    Some((Testpmd::with(&eal, &["--no-flush-rx"]), scratch))
}

/// Returns the received and the missed packets of a port.
fn counts(testpmd: &mut Testpmd, port: u16) -> [usize; 2] {
    let begin = testpmd.output().len();
    testpmd.enter(&format!("show port stats {port}"), "TX-bytes:");
    let printed = testpmd.output()[begin..].to_owned();
    ["RX-packets:", "RX-missed:"].map(|name| {
        let after = printed.split(name).nth(1).unwrap_or_else(|| panic!("no {name}: {printed}"));
        after.split_whitespace().next().unwrap().parse().expect("a number")
    })
}

/// Returns the packets of the capture as they pass a port with these devargs.
fn passed(devargs: &str) -> Option<Vec<Vec<u8>>> {
    let port = format!("net_twin0,lower=(net_pcap0,rx_pcap=@/a.pcap){devargs}");
    let out = "net_twin1,lower=(net_pcap1,tx_pcap=@/out.pcap)";
    let frames = frames();
    let (mut testpmd, scratch) = start(&[&port, out], &frames)?;
    testpmd.enter("start", "packet forwarding - ports=");
    wait_until("all arrive", || counts(&mut testpmd, 0) == [frames.len(), 0]);
    testpmd.enter("stop", "Done.");
    // The lower driver writes its buffered packets when it is closed.
    testpmd.enter("port stop all", "Done");
    testpmd.enter("port close all", "Done");
    Some(read_pcap(&scratch.path("out.pcap")))
}

/// Returns for each packet how many that arrived later left before it.
fn overtakers(left: &[Vec<u8>]) -> Vec<usize> {
    let all = frames();
    let number = |frame| all.iter().position(|other| other == frame).expect("a packet of ours");
    let order: Vec<usize> = left.iter().map(number).collect();
    let later = |at: usize| order[..at].iter().filter(|before| **before > order[at]).count();
    (0..order.len()).map(later).collect()
}

#[test]
fn some_packets_are_passed_by_a_few_and_none_is_lost() {
    let Some(plain) = passed("") else { return };
    assert_eq!(plain, frames());
    let Some(left) = passed(",faults=reorder:0.05,seed=3") else { return };
    let mut sorted = [left.clone(), frames()];
    sorted.iter_mut().for_each(|frames| frames.sort());
    assert_eq!(sorted[0], sorted[1], "each leaves once");
    let overtakers = overtakers(&left);
    let most = *overtakers.iter().max().unwrap();
    assert!((8..=PASSED_MAX).contains(&most), "{most}");
    // About 150 of 3000.
    let held = overtakers.iter().filter(|count| **count > 0).count();
    assert!((100..200).contains(&held), "{held}");
    assert_eq!(passed(",faults=reorder:0.05,seed=3"), Some(left.clone()), "by the seed");
    assert_ne!(passed(",faults=reorder:0.05,seed=4"), Some(left));
}

/// Nobody polls the port at the end of the wire before it is stopped.
#[test]
fn packets_that_are_held_at_the_stop_are_missed() {
    let ports = [
        "net_pcap0,rx_pcap=@/a.pcap",
        "net_twin0,wire=w",
        "net_twin1,wire=w,faults=reorder",
        "net_null0,no-rx=1",
    ];
    let Some((mut testpmd, _scratch)) = start(&ports, &frames()[..5]) else { return };
    testpmd.enter("set portlist 0,1", "previous number of forwarding ports");
    testpmd.enter("start", "packet forwarding - ports=");
    wait_until("all are sent", || counts(&mut testpmd, 0) == [5, 0]);
    assert_eq!(counts(&mut testpmd, 2), [0, 0]);
    testpmd.enter("stop", "Done.");
    testpmd.enter("port stop 2", "Done");
    assert_eq!(counts(&mut testpmd, 2), [0, 5]);
    // They are all delivered to a port that is polled.
    testpmd.enter("port start 2", "Done");
    testpmd.enter("set portlist 0,1,2,3", "previous number of forwarding ports");
    testpmd.enter("start tx_first", "packet forwarding - ports=");
    wait_until("all arrive", || counts(&mut testpmd, 2)[0] == 32);
}
