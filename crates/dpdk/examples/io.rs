// SPDX-License-Identifier: BSD-3-Clause
//! The floor: packets from each of two ports to the other with nothing done to them, in cycles per
//! packet. The same work as `dpdk-testpmd --forward-mode=io --burst=64` on the same devices.
//!
//! `io SECONDS CPU DEVARGS DEVARGS`, for instance
//! `io 5 1 net_pcap0,rx_pcap=a.pcap,infinite_rx=1 net_null0,no-rx=1`

use dpdk::{Burst, Eal, EalConfig, Mempool, Port, PortConfig, RxQueue, TxQueue, tsc, tsc_hz};
use std::error::Error;

/// A capture for `infinite_rx` is loaded into mbufs and must leave some free.
const MBUFS: u32 = (1 << 17) - 1;

/// Short enough that some windows are free of whatever else the machine does.
const WINDOWS_PER_SECOND: u64 = 4;

/// Packets moved, and those that a port did not take.
#[derive(Default)]
struct Count {
    packets: u64,
    unsent: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, cpu, a, b] = args.as_slice() else {
        return Err("usage: io SECONDS CPU DEVARGS DEVARGS".into());
    };
    let mut eal = Eal::init(&EalConfig {
        lcores: vec![cpu.parse()?],
        no_huge: true,
        memory_mb: 2048,
        ports: vec![a.clone(), b.clone()],
        ..Default::default()
    })?;
    let pool = Mempool::new(&eal, "io", MBUFS, 2048, None)?;
    let (mut a, mut b) = (Port::probe(&eal, a)?, Port::probe(&eal, b)?);
    let queues = PortConfig {
        rx_queues: 1,
        tx_queues: 1,
        rxd: 1024,
        txd: 1024,
        mempools: vec![pool],
        mtu: None,
        is_endpoint: false,
        sends_on_time: false,
    };
    let (mut a_rx, mut a_tx) = a.configure(&queues)?;
    let (mut b_rx, mut b_tx) = b.configure(&queues)?;

    let hz = tsc_hz(&eal);
    let windows = seconds.parse::<u64>()? * WINDOWS_PER_SECOND;
    let job = eal.take_lcores().remove(0).launch(move || {
        let mut count = Count::default();
        let mut cycles_per_packet = Vec::new();
        for _ in 0..windows {
            let (start, before) = (tsc(), count.packets);
            while tsc() - start < hz / WINDOWS_PER_SECOND {
                forward(&mut a_rx[0], &mut b_tx[0], &mut count);
                forward(&mut b_rx[0], &mut a_tx[0], &mut count);
            }
            cycles_per_packet.push((tsc() - start) as f64 / (count.packets - before) as f64);
        }
        (count, cycles_per_packet)
    });
    let ((Count { packets, unsent }, mut windows), _) = job.join();
    windows.sort_by(f64::total_cmp);
    println!(
        "{}: {:.1} TSC cycles/packet (best window {:.1}), {packets} packets, {unsent} unsent",
        dpdk::version(),
        windows[windows.len() / 2],
        windows[0],
    );
    Ok(())
}

fn forward(rx: &mut RxQueue, tx: &mut TxQueue, count: &mut Count) {
    let mut burst = Burst::new();
    if rx.burst(&mut burst) > 0 {
        count.packets += tx.burst(&mut burst) as u64;
        count.unsent += burst.free_all() as u64;
    }
}
