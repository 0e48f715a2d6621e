// SPDX-License-Identifier: BSD-3-Clause
//! Floods of fragments: what is remembered of them is bounded, and datagrams of others in between
//! are counted as if there were none.

use super::{SECOND, Tried, config, sized};
use engine::{Config, FlowRecord, FragmentLimits};
use fastrand::Rng;
use wire::FrameBuilder;

const SERVER: [u8; 4] = [192, 0, 2, 1];

/// What the flood is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flood {
    /// First fragments, of whose datagrams nothing else comes.
    First,
    /// Others, whose first ones never come.
    Later,
    /// Parts of few datagrams, one across the other.
    Overlaps,
    /// All of these, of both IP versions.
    Any,
}

/// The datagram of one honest sender, in three parts, those before the first one in `order`.
fn honest(n: u32, order: &[usize]) -> Vec<Vec<u8>> {
    let [_, a, b, c] = n.to_be_bytes();
    let datagram = FrameBuilder::ipv4([1, b, c, a], SERVER).ip_id(n).udp(40_000, 53);
    let parts = datagram.payload([7; 64]).fragments(24);
    order.iter().map(|which| parts[*which].build()).collect()
}

fn is_honest(record: &FlowRecord) -> bool {
    record.src.to_string().starts_with("1.")
}

fn part(flood: Flood, rng: &mut Rng, of_one: bool) -> Vec<u8> {
    let kind = match flood {
        Flood::Any => [Flood::First, Flood::Later, Flood::Overlaps][rng.usize(..3)],
        kind => kind,
    };
    let is_v6 = flood == Flood::Any && rng.bool();
    let host = if of_one { 0xcb00_7105 } else { rng.u32(..) | 1 << 31 };
    let ends = match is_v6 {
        true => FrameBuilder::ipv6((0x2001_0db8_u128 << 96) | u128::from(host), 1_u128),
        false => FrameBuilder::ipv4(host, SERVER),
    };
    let ends = ends.ip_id(rng.u32(..0x1_0000));
    let udp = |len: usize| ends.clone().udp(port_of(host), 53).payload(vec![1; len]);
    match kind {
        Flood::First => udp(40).fragments(24)[0].build(),
        Flood::Later => udp(40).fragments(24)[1].build(),
        _ => {
            let ends = ends.ip_id(rng.u32(..4));
            let at = 8 * rng.usize(..16);
            ends.protocol(17).payload(vec![1; 24]).fragment(at, rng.bool()).build()
        }
    }
}

fn port_of(host: u32) -> u16 {
    (host >> 8) as u16 | 1
}

/// How many in a thousand datagrams of honest senders are counted as a whole, in every order of
/// their parts, beside 60 packets of the flood for each.
fn per_mille_whole(flood: Flood, of_one: bool) -> u32 {
    let limits = match of_one {
        true => FragmentLimits { datagrams: 128, per_source: 64, hold: 64, ..Default::default() },
        false => FragmentLimits { datagrams: 1024, hold: 64, ..Default::default() },
    };
    let config = Config { fragments: limits, ..config(sized(1 << 14, 1 << 20)) };
    let mut tried = Tried::new(&config);
    let mut rng = Rng::with_seed(13);
    let bursts = sized(4_000, 100_000);
    let orders = [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 0, 2]];
    for burst in 0..bursts {
        let mut frames: Vec<_> = (0..60).map(|_| part(flood, &mut rng, of_one)).collect();
        // Parts of one datagram come close together; where the flood cannot take the places of
        // others, with more of it in between than there are places.
        for which in 0..3 {
            let of = burst.checked_sub(if of_one { 2 * which as u32 } else { 0 });
            let parts = of.map(|of| honest(of, &orders[of as usize % 4]));
            frames.extend(parts.map(|mut parts| parts.swap_remove(which)));
        }
        tried.give(u64::from(burst) * SECOND / 100_000, &frames, is_honest);
        let waiting = tried.engine.stats().held;
        assert!(waiting <= u64::from(limits.hold), "{waiting} wait");
        while tried.engine.next_release().is_some() {}
    }
    tried.engine.release_all();
    while tried.engine.next_release().is_some() {}
    assert_eq!(tried.engine.stats().held, 0);
    tried.close(is_honest);
    let whole = tried.records.iter().filter(|record| record.orig.packets == 3).count() as u32;
    println!("{flood:?}, of one sender: {of_one}: {whole} of {bursts} whole");
    // Those at the end have no time for all of it.
    1000 * whole / (bursts - if of_one { 4 } else { 0 })
}

#[test]
fn a_flood_of_one_sender_takes_nothing_from_the_others() {
    for flood in [Flood::First, Flood::Later, Flood::Overlaps, Flood::Any] {
        assert_eq!(per_mille_whole(flood, true), 1000, "{flood:?}");
    }
}

#[test]
fn a_flood_of_many_senders_leaves_datagrams_whose_parts_come_together() {
    for flood in [Flood::First, Flood::Later, Flood::Overlaps, Flood::Any] {
        assert_eq!(per_mille_whole(flood, false), 1000, "{flood:?}");
    }
}
