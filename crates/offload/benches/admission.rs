// SPDX-License-Identifier: BSD-3-Clause
//! How much of Zipf's traffic is marked by a NIC with the room and the speed of an X710, with its
//! driver as it was in 2017 and as it is, beside what somebody could do who knows every rate.

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use engine::Admission;
use simulation::{Attack, Load, World};

/// Packets per second, time of a call, seconds, and the shares that must and should be reached.
const NICS: [(&str, u64, u64, u64, [f64; 2]); 2] = [
    ("22 us a call, 10 Mpps", 10_000_000, 22_000, 4, [0.90, 0.95]),
    ("11 ms a call, 1 Mpps", 1_000_000, 11_000_000, 60, [0.80, 0.90]),
];

fn main() {
    let policies = [
        ("measured", Admission::Measured { least: 8 }),
        ("after 64", Admission::After { packets: 64 }),
        ("all", Admission::After { packets: 1 }),
    ];
    println!("1 M flows, 7680 rules: share of packets marked");
    let mut is_good = true;
    for (name, packets_per_second, call_ns, seconds, [must, goal]) in NICS {
        for exponent in [1.0, 1.1, 1.2] {
            let (flows, room) = (1_000_000, 7680);
            let (attack, zone_rules_max) = (Attack::Never, None);
            let load = Load {
                flows,
                exponent,
                packets_per_second,
                seconds,
                room,
                call_ns,
                attack,
                zone_rules_max,
            };
            for (policy, admission) in policies {
                let shares = World::new(load, admission).run();
                let of = shares.marked / shares.clairvoyant;
                let is_judged = policy == "measured";
                is_good &= !is_judged || of >= must;
                let judged = match of {
                    _ if !is_judged => String::new(),
                    of if of >= goal => format!("  goal {goal:.2}"),
                    of if of >= must => format!("  must {must:.2}"),
                    _ => format!("  MISSED {must:.2}"),
                };
                println!(
                    "{name}, Zipf {exponent:.1}, {policy:<9} {:5.1} % of {:5.1} %: {of:.3}{judged}",
                    100.0 * shares.marked,
                    100.0 * shares.clairvoyant,
                );
            }
        }
    }
    std::process::exit(i32::from(!is_good));
}
