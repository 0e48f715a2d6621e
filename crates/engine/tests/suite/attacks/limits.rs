// SPDX-License-Identifier: BSD-3-Clause
//! A flood from one zone, or from one source, leaves the others what is theirs. Those of its zone
//! have what its limit leaves.

use super::{SECOND, Tried, config, sized};
use engine::{Config, FlowRecord, UntrackedReason, ZonePolicy};
use fastrand::Rng;
use wire::FrameBuilder;
use wire::tcp::{ACK, SYN};

const FLOODED: u16 = 5;
const SERVER: [u8; 4] = [192, 0, 2, 1];

/// Three steps of the handshake of an honest connection, of which there are as many as bursts.
fn honest(n: u32, zone: u16, step: u32) -> Vec<u8> {
    let [_, a, b, c] = n.to_be_bytes();
    let ends = FrameBuilder::ipv4([1, b, c, a], SERVER).vlan(zone).tcp(40_000, 443).window(1000);
    match step {
        0 => ends.flags(SYN).build(),
        1 => ends.reversed().flags(SYN | ACK).ack(1).build(),
        _ => ends.flags(ACK).seq(1).ack(1).build(),
    }
}

fn is_honest(record: &FlowRecord) -> bool {
    record.src.to_string().starts_with("1.")
}

/// How many in a thousand honest connections of other zones are made beside a flood that evicts
/// nobody, as it is held by a limit first.
fn per_mille_made(
    config: &Config,
    flood: impl Fn(&mut Rng) -> Vec<u8>,
    met: UntrackedReason,
) -> u32 {
    let (made, refused) = made_and_refused(config, &[6, 7, 8, 9], flood, met);
    assert!(refused > 40, "{refused} refused");
    made
}

/// How many in a thousand honest connections of these zones are made beside a flood, and how often
/// a burst met a limit.
fn made_and_refused(
    config: &Config,
    zones: &[u16],
    flood: impl Fn(&mut Rng) -> Vec<u8>,
    met: UntrackedReason,
) -> (u32, u64) {
    let mut tried = Tried::new(config);
    let mut rng = Rng::with_seed(11);
    let bursts = sized(10_000, 200_000);
    for burst in 0..bursts {
        let zone = zones[burst as usize % zones.len()];
        let mut frames: Vec<_> = (0..3).map(|step| honest(burst, zone, step)).collect();
        frames.extend((0..60).map(|_| flood(&mut rng)));
        tried.give(u64::from(burst) * SECOND / 100_000, &frames, is_honest);
    }
    tried.close(is_honest);
    let refused = tried.engine.stats().passed[met as usize];
    let is_made = |r: &&FlowRecord| (r.orig.packets, r.reply.packets) == (2, 1);
    let made = tried.records.iter().filter(is_made).count() as u32;
    println!("{met:?}: {made} of {bursts} connect");
    (1000 * made / bursts, refused / u64::from(bursts))
}

/// A SYN from anywhere, in one zone.
fn syn(rng: &mut Rng) -> Vec<u8> {
    let ends = FrameBuilder::ipv4(rng.u32(..) | 1 << 31, SERVER).vlan(FLOODED);
    ends.tcp(rng.u16(..), 443).flags(SYN).build()
}

/// That zone has room for so many.
fn limited(config: Config, connections: u32) -> Config {
    let policy = ZonePolicy { connections_max: Some(connections), ..config.policy() };
    Config { zones: vec![(vec![FLOODED], policy)], ..config }
}

#[test]
fn a_flood_in_one_zone_takes_nothing_from_the_others() {
    let capacity = sized(1 << 14, 1 << 20);
    let config = limited(config(capacity), capacity / 8);
    assert!(per_mille_made(&config, syn, UntrackedReason::ZoneFull) >= 990);
}

/// A limit keeps out whoever comes when it is met, and evicts nobody. One that is more than the
/// share of embryonic connections and all others of the zone is never met by a flood.
#[test]
fn a_flood_fills_its_zone_unless_that_has_room_for_all_embryonic_ones() {
    let capacity = sized(1 << 15, 1 << 20);
    let made = |connections| {
        let config = limited(config(capacity), connections);
        made_and_refused(&config, &[FLOODED], syn, UntrackedReason::ZoneFull)
    };
    let (few, refused) = made(capacity / 8);
    assert!(few < 50 && refused > 40, "{few} {refused}");
    let (most, refused) = made(capacity / 8 * 7);
    assert!(most >= 990 && refused == 0, "{most} {refused}");
}

#[test]
fn a_flood_from_one_source_takes_nothing_from_the_others() {
    let config = Config { source_max: Some(1000), ..config(sized(1 << 14, 1 << 20)) };
    let flood = |rng: &mut Rng| {
        let ends = FrameBuilder::ipv4([203, 0, 113, rng.u8(..)], SERVER).vlan(6);
        ends.tcp(rng.u16(..), rng.u16(..)).flags(SYN).build()
    };
    assert!(per_mille_made(&config, flood, UntrackedReason::SourceFull) >= 990);
}
