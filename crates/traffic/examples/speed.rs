// SPDX-License-Identifier: BSD-3-Clause
//! How fast the workload comes, and what is in it:
//! `cargo run --release -p traffic --example speed`.

use std::time::Instant;
use traffic::{MAX_FRAME, Profile, Workload};

fn main() {
    const FRAMES: u64 = 20_000_000;
    let mut workload = Workload::new(1, Profile::default());
    let mut buf = [0; MAX_FRAME];
    let mut sizes = [0u64; 3];
    let start = Instant::now();
    for _ in 0..FRAMES {
        let (_, len) = workload.fill(&mut buf);
        let class = match len {
            0..100 => 0,
            100..1000 => 1,
            _ => 2,
        };
        sizes[class] += 1;
    }
    let mpps = FRAMES as f64 / start.elapsed().as_secs_f64() / 1e6;
    let ledger = workload.ledger();
    let mean = (ledger.bytes[0] + ledger.bytes[1]) / FRAMES;
    println!("{mpps:.1} Mpps on one core, {mean} bytes per frame");
    println!("{}", sizes.map(|n| format!("{:.1} %", n as f64 * 100.0 / FRAMES as f64)).join(", "));
    println!("frames of fewer than 100, fewer than 1000, and more bytes");
    println!("{ledger:#?}, {} flows active", ledger.active());
}
