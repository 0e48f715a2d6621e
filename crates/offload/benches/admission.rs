// SPDX-License-Identifier: BSD-3-Clause
//! Simulates the share of packets with Zipf-distributed rates that a NIC marks.
//!
//! The NIC has the rule capacity and speed of an X710, with its driver as of 2017 and as of today.
//! The share is compared with that of a clairvoyant choice that knows the rate of every flow.

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use engine::OffloadPolicy;
use simulation::{Attack, Load, World};

/// NICs: name, packets per second, nanoseconds of a call to install or remove a rule, simulated
/// seconds, and the required and desired share of the clairvoyant's marked packets.
const NICS: [(&str, u64, u64, u64, [f64; 2]); 2] = [
    ("22 us a call, 10 Mpps", 10_000_000, 22_000, 4, [0.90, 0.95]),
    ("11 ms a call, 1 Mpps", 1_000_000, 11_000_000, 60, [0.80, 0.90]),
];

/// Attacks that try to occupy the rules: name, traffic, and the limit of rules per zone.
const ATTACKS: [(&str, Attack, Option<u32>); 3] = [
    ("flows of 2000 packets", Attack::Short(2000), None),
    ("20 k busy flows", Attack::Busy(20_000), None),
    ("the same, 1000 rules a zone", Attack::Busy(20_000), Some(1000)),
];

const MEASURED: OffloadPolicy = OffloadPolicy::Measured { least: 32 };

fn load(nic: usize, exponent: f64) -> Load {
    let (_, packets_per_second, call_ns, seconds, _) = NICS[nic];
    let (flows, room, attack, zone_rules_max) = (1_000_000, 7680, Attack::Never, None);
    Load { flows, exponent, packets_per_second, seconds, room, call_ns, attack, zone_rules_max }
}

/// Prints the share of packets marked. Returns that share divided by the clairvoyant's.
fn run(what: &str, load: Load, admission: OffloadPolicy) -> f64 {
    let shares = World::new(load, admission).run();
    let ratio = shares.marked / shares.clairvoyant;
    let [marked, clairvoyant] = [shares.marked, shares.clairvoyant].map(|share| 100.0 * share);
    print!("{what:<40} {marked:5.1} % of {clairvoyant:5.1} %: {ratio:.3}");
    ratio
}

fn main() {
    println!("1 M flows, 7680 rules: share of packets marked");
    let mut is_good = true;
    for (nic, (name, .., [must, goal])) in NICS.into_iter().enumerate() {
        for exponent in [1.0, 1.1, 1.2] {
            let load = load(nic, exponent);
            let ratio = run(&format!("{name}, Zipf {exponent:.1}, measured"), load, MEASURED);
            is_good &= ratio >= must;
            match ratio {
                ratio if ratio >= goal => println!("  goal {goal:.2}"),
                ratio if ratio >= must => println!("  must {must:.2}"),
                _ => println!("  MISSED {must:.2}"),
            }
            for packets in [64, 1] {
                let what = format!("{name}, Zipf {exponent:.1}, after {packets}");
                run(&what, load, OffloadPolicy::After { packets });
                println!();
            }
        }
    }
    println!("22 us, Zipf 1.0, measured, with an attack of as many packets");
    for (name, attack, zone_rules_max) in ATTACKS {
        run(name, Load { attack, zone_rules_max, ..load(0, 1.0) }, MEASURED);
        println!();
    }
    std::process::exit(i32::from(!is_good));
}
