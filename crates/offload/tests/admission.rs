// SPDX-License-Identifier: BSD-3-Clause
//! Measured admission gives a NIC's few rules to the busiest flows, nearly as well as if their
//! rates were known, and an attacker does not get them for a few packets.

mod simulation;

use engine::OffloadPolicy;
use simulation::{Attack, Load, Shares, World};

/// A tenth of what the benchmark simulates.
const LOAD: Load = Load {
    flows: 100_000,
    exponent: 1.0,
    packets_per_second: 1_000_000,
    seconds: 6,
    room: 768,
    call_ns: 22_000,
    attack: Attack::Never,
    zone_rules_max: None,
};
const MEASURED: OffloadPolicy = OffloadPolicy::Measured { least: 32 };

fn run(load: Load, admission: OffloadPolicy) -> Shares {
    World::new(load, admission).run()
}

#[test]
fn the_busiest_flows_get_the_rules() {
    for (call_ns, seconds, least) in [(22_000, 6, 0.95), (11_000_000, 12, 0.90)] {
        let Shares { marked, clairvoyant } = run(Load { call_ns, seconds, ..LOAD }, MEASURED);
        assert!(marked >= least * clairvoyant, "{call_ns} ns: {marked} of {clairvoyant}");
        assert!(marked < 1.02 * clairvoyant, "nobody does better than who knows");
    }
}

#[test]
fn the_first_to_come_are_not_the_busiest() {
    let load = Load { seconds: 2, ..LOAD };
    let first = run(load, OffloadPolicy::After { packets: 1 });
    let measured = run(load, MEASURED);
    assert!(first.marked < 0.9 * measured.marked, "{} {}", first.marked, measured.marked);
}

#[test]
fn short_heavy_flows_do_not_take_the_rules_of_long_ones() {
    let load = Load { seconds: 4, ..LOAD };
    let calm = run(load, MEASURED);
    let attacked = run(Load { attack: Attack::Short(2000), ..load }, MEASURED);
    assert!(attacked.marked >= 0.9 * calm.marked, "{} {}", attacked.marked, calm.marked);
}

#[test]
fn a_busy_zone_has_no_more_than_its_share() {
    let load = Load { seconds: 4, attack: Attack::Busy(2000), ..LOAD };
    let attacked = run(load, MEASURED);
    let shared = run(Load { zone_rules_max: Some(100), ..load }, MEASURED);
    let calm = run(Load { room: 668, attack: Attack::Never, ..load }, MEASURED);
    assert!(attacked.marked < 0.9 * shared.marked, "{} {}", attacked.marked, shared.marked);
    assert!(shared.marked >= 0.97 * calm.marked, "{} {}", shared.marked, calm.marked);
}
