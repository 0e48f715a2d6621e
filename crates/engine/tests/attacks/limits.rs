// SPDX-License-Identifier: BSD-3-Clause
//! A flood from one zone, or from one source, leaves the others what is theirs.

use crate::{SECOND, Tried, config, sized};
use engine::{Config, FlowRecord, Reason, ZonePolicy};
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

/// How many in a thousand honest connections are made beside a flood that evicts nobody, as it is
/// held by a limit first; and how often that was.
fn per_mille_made(config: &Config, flood: impl Fn(&mut Rng) -> Vec<u8>, met: Reason) -> u32 {
    let mut tried = Tried::new(config);
    let mut rng = Rng::with_seed(11);
    let bursts = sized(10_000, 200_000);
    for burst in 0..bursts {
        let zone = 6 + (burst % 4) as u16;
        let mut frames: Vec<_> = (0..3).map(|step| honest(burst, zone, step)).collect();
        frames.extend((0..60).map(|_| flood(&mut rng)));
        tried.give(u64::from(burst) * SECOND / 100_000, &frames, is_honest);
    }
    tried.close(is_honest);
    let refused = tried.engine.stats().passed[met as usize];
    assert!(refused > u64::from(bursts) * 40, "{refused} refused");
    let is_made = |r: &&FlowRecord| (r.orig.packets, r.reply.packets) == (2, 1);
    let made = tried.records.iter().filter(is_made).count() as u32;
    println!("{met:?}: {made} of {bursts} connect");
    1000 * made / bursts
}

#[test]
fn a_flood_in_one_zone_takes_nothing_from_the_others() {
    let capacity = sized(1 << 14, 1 << 20);
    let config = config(capacity);
    let policy = ZonePolicy { connections_max: Some(capacity / 8), ..config.policy() };
    let config = Config { zones: vec![(vec![FLOODED], policy)], ..config };
    let flood = |rng: &mut Rng| {
        let ends = FrameBuilder::ipv4(rng.u32(..) | 1 << 31, SERVER).vlan(FLOODED);
        ends.tcp(rng.u16(..), 443).flags(SYN).build()
    };
    assert!(per_mille_made(&config, flood, Reason::ZoneFull) >= 990);
}

#[test]
fn a_flood_from_one_source_takes_nothing_from_the_others() {
    let config = Config { source_max: Some(1000), ..config(sized(1 << 14, 1 << 20)) };
    let flood = |rng: &mut Rng| {
        let ends = FrameBuilder::ipv4([203, 0, 113, rng.u8(..)], SERVER).vlan(6);
        ends.tcp(rng.u16(..), rng.u16(..)).flags(SYN).build()
    };
    assert!(per_mille_made(&config, flood, Reason::SourceFull) >= 990);
}
