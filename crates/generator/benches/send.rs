// SPDX-License-Identifier: BSD-3-Clause
//! Measures the cycles that one worker takes to make a frame and send it to a port that drops all.

use dpdk::{Eal, EalConfig, Mempool, Port, PortConfig, tsc, tsc_hz};
use generator::{Clock, Lanes, Laps, PortTx, Sender, Session, Stage, Task};
use testkit::port::port_config;
use testkit::stream;
use traffic::stream::{StreamSetup, Streams};

/// Report interval: no report is due during a measurement.
const INTERVAL_NS: u64 = u64::MAX;
const REPETITIONS: usize = 7;
const FRAMES: u64 = 4_000_000;

/// Reads a number from an environment variable. With it, callgrind can measure fewer frames, or
/// only one case.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn streams(count: usize, text: &str, is_stamped: bool) -> Streams {
    stream::streams(&vec![text; count], &StreamSetup { is_stamped, ..stream::setup(1) })
}

/// Returns the cycles per frame: the least of several repetitions. In the others, the cpu was taken
/// away for a while.
fn cycles(sender: &mut Sender<Streams, PortTx>, clock: Clock) -> f64 {
    let mut least = f64::MAX;
    let least_frames = number("MILLRACE_BENCH_FRAMES").unwrap_or(FRAMES);
    for _ in 0..REPETITIONS {
        let begin = (tsc(), sender.sent_since_report());
        let mut frames = 0;
        while frames < least_frames {
            for _ in 0..100 {
                sender.turn(clock.now(), Stage::Send, &mut Laps::off());
            }
            frames = sender.sent_since_report() - begin.1;
        }
        least = least.min((tsc() - begin.0) as f64 / frames as f64);
    }
    least
}

fn main() {
    let port = std::env::var("MILLRACE_BENCH_PORT").unwrap_or("net_null0,no-rx=1".to_owned());
    let no_huge = std::env::var_os("MILLRACE_BENCH_NO_HUGE").is_some();
    let config = EalConfig { no_huge, memory_mb: 128, ..EalConfig::default() };
    let eal = Eal::init(&config).expect("EAL");
    let pool = Mempool::new(&eal, "bench", 8191, 2048, None).expect("a pool");
    let mut port = Port::probe(&eal, &port).expect("a port");
    let queues = PortConfig { is_endpoint: true, ..port_config(1, 1024, pool) };
    let (_rx, mut tx) = port.configure(&queues).expect("queues");
    let mut queue = tx.pop().expect("a queue");
    let clock = Clock::new(&eal);
    let varying = "src=198.18.0.1-198.18.0.250 sport=1024-65000";
    let random = "src=random:198.18.0.0/16 sport=random:1024-65535";
    let cases = [
        ("64 B, 1 stream", 1, "", false),
        ("64 B, 1 stream, varying", 1, varying, false),
        ("64 B, 1000 streams, varying", 1000, varying, false),
        ("64 B, 1000 streams, random", 1000, random, false),
        ("64 B, 1 stream, stamped", 1, "", true),
        ("64 B, 1000 streams, varying, stamped", 1000, varying, true),
        ("1518 B, 1 stream", 1, "size=1518", false),
        ("1518 B, 1 stream, stamped", 1, "size=1518", true),
        ("IMIX, 1 stream, varying, stamped", 1, &format!("size=imix {varying}"), true),
    ];
    let mhz = tsc_hz(&eal) as f64 / 1e6;
    let only = number("MILLRACE_BENCH_CASE");
    for (number, (name, count, text, is_stamped)) in cases.into_iter().enumerate() {
        if only.is_some_and(|only| only != number as u64) {
            continue;
        }
        let mut session = Session::new(clock, INTERVAL_NS, Lanes::stamped(count));
        let source = streams(count, text, is_stamped);
        let mut sender = session.sender(source, 0, PortTx::new(queue, pool));
        let cycles = cycles(&mut sender, clock);
        println!("{name:40} {cycles:7.1} cycles/frame, {:6.2} Mpps", mhz / cycles);
        queue = sender.into_port().into_queue();
    }
}
