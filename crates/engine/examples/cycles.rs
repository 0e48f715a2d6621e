// SPDX-License-Identifier: BSD-3-Clause
//! Cycles per packet of the engine alone, by stage, over frames in memory.
use engine::{BURST_MAX, Config, Engine, Stage, Verdict};
use wire::BytesPacket;

fn frame(i: u64, reply: bool, tcp: bool) -> [u8; 64] {
    let mut f = [0u8; 64];
    f[12] = 8;
    f[14] = 0x45;
    f[17] = 46;
    f[22] = 64;
    f[23] = if tcp { 6 } else { 17 };
    let r = i.wrapping_mul(0x9e3779b97f4a7c15);
    let a = (10u32 << 24 | (r >> 40) as u32 & 0xffffff).to_be_bytes();
    let b = (172u32 << 24 | (r >> 16) as u32 & 0xffff).to_be_bytes();
    let p = ((i as u16) | 1024).to_be_bytes();
    let q = 443u16.to_be_bytes();
    let ((s, sp), (d, dp)) = if reply { ((b, q), (a, p)) } else { ((a, p), (b, q)) };
    f[26..30].copy_from_slice(&s);
    f[30..34].copy_from_slice(&d);
    f[34..36].copy_from_slice(&sp);
    f[36..38].copy_from_slice(&dp);
    if tcp {
        f[46] = 0x50;
        f[47] = 0x10;
    } else {
        f[39] = 26;
    }
    f
}

fn tsc() -> u64 {
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn main() {
    let burst: usize = std::env::args().nth(1).map_or(32, |a| a.parse().unwrap());
    let only: Option<u64> = std::env::args().nth(2).map(|a| a.parse().unwrap());
    let rounds_arg: Option<usize> = std::env::args().nth(3).map(|a| a.parse().unwrap());
    for flows in [10_000u64, 100_000, 1_000_000] {
        if only.is_some_and(|o| o != flows) {
            continue;
        }
        for tcp in [true] {
            let mut frames: Vec<[u8; 64]> =
                (0..flows).flat_map(|i| [frame(i, false, tcp), frame(i, true, tcp)]).collect();
            let mut x = 88172645463325252u64;
            for i in (1..frames.len()).rev() {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                frames.swap(i, (x % (i as u64 + 1)) as usize);
            }
            let mut engine = Engine::new(&Config {
                capacity_ipv4: 1 << 20,
                capacity_ipv6: 1024,
                secret: [1, 2],
                cycle_counter: tsc,
                ..Config::default()
            });
            let mut verdicts = [Verdict::Forward; BURST_MAX];
            // mimic a PMD: copy each burst of frames to a small ring of buffers
            let mut ring = vec![[0u8; 64]; 1024];
            let mut at = 0;
            let mut best = f64::MAX;
            let mut before = engine.stats().clone();
            let rounds = rounds_arg.unwrap_or((8_000_000 / frames.len()).max(3));
            let mut samples = vec![];
            for round in 0..rounds {
                if round == 1 {
                    before = engine.stats().clone();
                }
                let mut cycles = 0;
                for chunk in frames.chunks(burst) {
                    if at + burst > ring.len() {
                        at = 0;
                    }
                    ring[at..at + chunk.len()].copy_from_slice(chunk);
                    let packets: Vec<BytesPacket> = ring[at..at + chunk.len()]
                        .iter()
                        .map(|f| BytesPacket::new(&f[..60]))
                        .collect();
                    let t = tsc();
                    engine.process(1, &packets, &mut verdicts);
                    cycles += tsc() - t;
                    at += burst;
                }
                let c = cycles as f64 / frames.len() as f64;
                samples.push(c);
                best = best.min(c);
            }
            samples.sort_by(|a, b| a.total_cmp(b));
            let s = engine.stats();
            let n = (s.sampled_packets - before.sampled_packets) as f64;
            let st: Vec<String> = Stage::ALL
                .iter()
                .map(|g| {
                    format!(
                        "{} {:.1}",
                        g.name(),
                        (s.stage_cycles[*g as usize] - before.stage_cycles[*g as usize]) as f64 / n
                    )
                })
                .collect();
            println!(
                "{flows} tcp={tcp} burst {burst}: median {:.1} best {best:.1} | {} | active {}",
                samples[samples.len() / 2],
                st.join(" "),
                s.active()
            );
        }
    }
}
