// SPDX-License-Identifier: BSD-3-Clause
//! A simulated network: two hosts with a TCP that others wrote (smoltcp), two bad links, and the
//! engine between them, which judges by numbers and drops what is invalid.
//!
//! Every random number follows from a seed, which a failure names. `MILLRACE_SEEDS` says how many.

mod host;
mod link;
mod middle;
mod talk;
mod world;

use engine::Anomaly;
use world::World;

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("MILLRACE_SEEDS").map_or(150, |text| text.parse().expect("a number"))
}

/// Runs a world with an engine to its end, records and all.
fn judged(mut world: World, seed: u64) -> World {
    let micros = world.run().micros;
    println!("seed {seed}: {} packets in {micros} us", world.middle.packets);
    world.middle.close(micros + 4_000_000_000);
    world
}

/// Sums over worlds, for those who look.
#[derive(Default)]
struct Sums {
    packets: u64,
    foreign: u64,
    stuck: usize,
    unseen: u64,
    talks: usize,
    complete: usize,
    irregular: [u64; Anomaly::ALL.len()],
}

impl Sums {
    fn add(&mut self, world: &mut World) {
        self.packets += world.middle.packets;
        self.foreign += world.middle.foreign;
        self.unseen += world.middle.unseen;
        self.stuck += world.middle.stuck.len();
        self.talks += world.run().talks.len();
        let talks = world.run().talks.values();
        self.complete += talks.filter(|(_, is_complete)| *is_complete).count();
        for (sum, more) in self.irregular.iter_mut().zip(world.middle.irregular) {
            *sum += more;
        }
    }
}

impl Drop for Sums {
    fn drop(&mut self) {
        let Sums { packets, talks, complete, foreign, stuck, unseen, .. } = self;
        println!("{packets} packets of {talks} connections, {complete} of which went all the way");
        println!(
            "invalid, of connections that had the ports before, and RSTs that come late: {foreign}"
        );
        println!("connections that found the end of one before them not seen: {stuck}");
        println!("acknowledgments of what passed before it was judged, too late: {unseen}");
        for reason in Anomaly::ALL.into_iter().filter(|reason| !reason.is_invalid()) {
            println!("{}: {}", reason.name(), self.irregular[reason as usize]);
        }
    }
}

#[test]
fn the_engine_changes_nothing_for_hosts_that_keep_to_the_rules() {
    let (mut sums, mut same, mut worlds) = (Sums::default(), 0, 0);
    for seed in seeds() {
        let mut world = judged(World::new(seed, true), seed);
        // A host answers what is of no connection of its own, if it comes: from there on other
        // packets are lost than with an engine that drops it.
        if world.middle.foreign == 0 && world.middle.stuck.is_empty() {
            assert_eq!(world.run(), World::new(seed, false).run(), "seed {seed}");
            same += 1;
        }
        worlds += 1;
        sums.add(&mut world);
    }
    println!("{same} of {worlds} worlds are the same without an engine, to the microsecond");
    assert!(3 * same > worlds && 2 * sums.complete > sums.talks);
    assert!(200 * sums.stuck <= sums.talks);
}

/// What passed before its numbers were followed may be acknowledged later; nothing else of a
/// connection is wrong to the engine, which drops what is.
#[test]
fn connections_go_on_where_numbers_are_judged_from_some_time_on() {
    let mut sums = Sums::default();
    for seed in seeds() {
        let mut without = World::new(seed, false);
        let middle = fastrand::Rng::with_seed(seed).u64(1..without.run().micros.min(3_000_000));
        let mut world = World::new(seed, true).judge_at(middle);
        world.run();
        sums.add(&mut world);
    }
    assert!(2 * sums.complete > sums.talks && 20_000 * sums.unseen < sums.packets);
}

#[test]
fn connections_go_on_where_an_engine_begins_that_knows_nothing() {
    let mut sums = Sums::default();
    for seed in seeds() {
        let mut without = World::new(seed, false);
        let middle = fastrand::Rng::with_seed(seed).u64(1..without.run().micros.min(3_000_000));
        let mut world = judged(World::new(seed, true).restart_at(middle), seed);
        sums.add(&mut world);
    }
    assert!(2 * sums.complete > sums.talks && 200 * sums.unseen < sums.packets);
}
