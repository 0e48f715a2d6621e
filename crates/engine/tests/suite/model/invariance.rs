// SPDX-License-Identifier: BSD-3-Clause
//! The result does not depend on how packets are cut into bursts or frames into segments.

use super::drive::{Case, sorted, taken, without_cycles};
use super::reference::Record;
use super::traffic::{Packet, Rng, Shape};
use engine::{BURST_MAX, Engine, Stats, Verdict};
use proptest::prelude::*;
use wire::{BytesPacket, Packet as _};

/// Everything that comes out of an engine.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) records: Vec<Record>,
    pub(crate) stats: Stats,
}

/// Runs the packets in bursts of `burst`; time moves on, and flows are expired, between chunks of
/// 64 packets, whatever the burst.
pub(crate) fn outcome(case: &Case, packets: &[BytesPacket], burst: usize) -> Outcome {
    let mut engine = Engine::new(&case.config);
    outcome_of(&mut engine, case.start, packets, |engine, now, chunk, verdicts| {
        chunk.chunks(burst).for_each(|packets| process(engine, now, packets, verdicts));
    })
}

/// Gives an engine one burst; its verdicts go behind those before.
pub(crate) fn process(
    engine: &mut Engine,
    now: u64,
    packets: &[BytesPacket],
    verdicts: &mut Vec<Verdict>,
) {
    let mut judged = [Verdict::Drop; BURST_MAX];
    engine.process(now, packets, &mut judged);
    verdicts.extend(&judged[..packets.len()]);
}

/// As [`outcome`], where `give` gives the engine each 64 packets.
pub(crate) fn outcome_of<P>(
    engine: &mut Engine,
    mut now: u64,
    packets: &[P],
    mut give: impl FnMut(&mut Engine, u64, &[P], &mut Vec<Verdict>),
) -> Outcome {
    let (mut verdicts, mut records) = (vec![], vec![]);
    for chunk in packets.chunks(BURST_MAX) {
        give(engine, now, chunk, &mut verdicts);
        records.extend(taken(engine));
        now += 300_000_000;
        while engine.expire(now, usize::MAX) > 0 {
            records.extend(taken(engine));
        }
    }
    while engine.flush(BURST_MAX) {
        records.extend(taken(engine));
    }
    records.extend(taken(engine));
    Outcome { verdicts, records: sorted(records), stats: without_cycles(engine.stats()) }
}

pub(crate) fn packets(case: &Case, bits: &[u64]) -> Vec<Packet> {
    bits.iter().map(|&bits| Packet::new(&mut Rng(bits), case.pools)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bursts_do_not_matter(
        seed: [u64; 3],
        bits in prop::collection::vec(any::<u64>(), 1..1500),
    ) {
        let case = Case::off_ticks(seed);
        let packets = packets(&case, &bits);
        let packets: Vec<_> = packets.iter().map(Packet::bytes).collect();
        let one_by_one = outcome(&case, &packets, 1);
        for burst in [7, 32, 64] {
            prop_assert_eq!(&outcome(&case, &packets, burst), &one_by_one, "bursts of {}", burst);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Cut at every byte up to beyond the longest chain of headers.
    #[test]
    fn segments_do_not_matter(
        seed: [u64; 3],
        bits in prop::collection::vec(any::<u64>(), 1..100),
    ) {
        let case = Case::off_ticks(seed);
        let packets = packets(&case, &bits);
        let whole: Vec<_> = packets
            .iter()
            .filter(|packet| !matches!(packet.shape, Shape::Captured { .. }))
            .map(|packet| BytesPacket::new(&packet.frame))
            .collect();
        let in_one = outcome(&case, &whole, BURST_MAX);
        for at in 0..=400 {
            let cut: Vec<_> = packets
                .iter()
                .filter(|packet| !matches!(packet.shape, Shape::Captured { .. }))
                .map(|packet| BytesPacket::cut(&packet.frame, at))
                .collect();
            prop_assert!(cut.iter().all(|packet| packet.head().len() <= at));
            prop_assert_eq!(&outcome(&case, &cut, BURST_MAX), &in_one, "cut at {}", at);
        }
    }
}
