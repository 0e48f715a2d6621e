// SPDX-License-Identifier: BSD-3-Clause
//! Rules that put packets into zones: what belongs to a connection goes where it goes, whatever it
//! is, and whatever the NIC says of it.

use engine::{
    BURST_MAX, BypassConfig, Config, ConnSnapshot, ConnView, CtState, Cursor, EndpointMatch,
    Engine, FiveTuple, MarkLayout, MarkVerification, NoRuleReason, OffloadConfig, OffloadPolicy,
    Query, RestoreOutcome, RuleRequest, RuleResult, Side, Verdict, ZoneRule, ZoneSource,
};
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;

/// What has this address, and this port at the same end, is in this zone.
fn rule(address: &str, port: Option<u16>, zone: u16) -> ZoneRule {
    let end = EndpointMatch { address: Some(address.parse().unwrap()), port };
    ZoneRule { from: None, proto: None, end, peer: EndpointMatch::default(), zone }
}

/// Queries of 10.1.0.0/16 are in zone 7, all else of it in 8.
fn config(zone: ZoneSource) -> Config {
    let queries = ZoneRule {
        end: EndpointMatch { port: Some(53), ..EndpointMatch::default() },
        peer: EndpointMatch { address: "10.1.0.0/16".parse().ok(), port: None },
        ..rule("::/0", None, 7)
    };
    let zone_rules = vec![queries, rule("10.1.0.0/16", None, 8), rule("2001::/16", None, 9)];
    Config { capacity_ipv4: 100, capacity_ipv6: 100, zone, zone_rules, ..Config::default() }
}

fn query() -> FrameBuilder {
    FrameBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1]).ip_id(5).udp(4000, 53).payload([1; 88])
}

fn process(engine: &mut Engine, packets: &[FrameBuilder]) -> Vec<CtState> {
    let frames: Vec<_> = packets.iter().map(FrameBuilder::build).collect();
    let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    let mut states = [CtState::UNTRACKED; BURST_MAX];
    let verdicts = &mut [Verdict::Forward; BURST_MAX];
    engine.process_with_states(SECOND, &packets, verdicts, &mut states);
    states[..packets.len()].to_vec()
}

fn list(engine: &Engine) -> Vec<ConnView> {
    let (mut cursor, mut flows) = (Cursor::default(), vec![]);
    while engine.list(
        &Query { with_rules: true, ..Query::default() },
        &mut cursor,
        64,
        &mut |flow| flows.push(flow),
    ) {}
    flows
}

/// Zone and packets of each connection.
fn zones(engine: &Engine) -> Vec<(u16, u64)> {
    let packets = |flow: &ConnView| flow.record.orig.packets + flow.record.reply.packets;
    list(engine).iter().map(|flow| (flow.record.zone, packets(flow))).collect()
}

#[test]
fn both_directions_errors_and_fragments_go_where_their_connection_is() {
    let mut engine = Engine::new(&config(ZoneSource::OuterVlan));
    let error =
        FrameBuilder::ipv4([10, 3, 0, 1], [10, 1, 0, 1]).icmp_error(3, 3, &query().build_packet());
    let pieces = query().fragments(32);
    let others = [
        FrameBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1]).udp(4000, 54),
        FrameBuilder::ipv4([10, 3, 0, 1], [10, 2, 0, 1]).udp(4000, 53).vlan(5),
        FrameBuilder::ipv6([0x2001; 8], [0x2002; 8]).udp(1, 2),
    ];
    let packets = [vec![query(), query().reversed(), error], pieces, others.to_vec()].concat();
    let states = process(&mut engine, &packets);
    assert_eq!(
        states[..3],
        [CtState::NEW, CtState::ESTABLISHED | CtState::REPLY, CtState::RELATED | CtState::REPLY,]
    );
    assert_eq!(zones(&engine), [(7, 5), (8, 1), (5, 1), (9, 1)]);
}

#[test]
fn the_zone_that_packets_were_in_is_asked_for() {
    let of_5 = ZoneRule { from: Some(5), ..rule("10.0.0.0/8", None, 7) };
    let config = Config { zone_rules: vec![of_5], ..config(ZoneSource::OuterVlan) };
    let mut engine = Engine::new(&config);
    process(&mut engine, &[query(), query().vlan(5), query().vlan(6), query().vlan(7)]);
    assert_eq!(zones(&engine), [(0, 1), (7, 2), (6, 1)]);
}

/// Rules change with a restart only, and connections outlive it.
#[test]
fn a_connection_is_restored_where_its_packets_go_now() {
    let save = |config: &Config| -> Vec<ConnSnapshot> {
        let mut engine = Engine::new(config);
        process(&mut engine, &[query().vlan(5), query().vlan(5).reversed()]);
        let mut saved = vec![];
        while engine.save(&mut Cursor::default(), 1000, &mut |flow| saved.push(flow)) {}
        saved
    };
    let with = config(ZoneSource::OuterVlan);
    let without = Config { zone_rules: vec![], ..with.clone() };
    for (before, after, zone) in [(&without, &with, 7), (&with, &without, 5), (&with, &with, 7)] {
        let mut engine = Engine::new(after);
        assert_eq!(engine.restore(&save(before)[0], SECOND), RestoreOutcome::Known);
        process(&mut engine, &[query().vlan(5)]);
        assert_eq!(zones(&engine), [(zone, 3)]);
    }
}

/// A rule for each direction with its first packet, whose marks are checked once.
fn offload() -> OffloadConfig {
    OffloadConfig {
        layout: MarkLayout::new(32, OffloadConfig::indices(8)).unwrap(),
        first_index: 0,
        slots: 8,
        check: MarkVerification::Sampled { first: 1, one_in: u32::MAX },
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 8,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
    }
}

/// A packet and its answer, and four more with the mark that they get; the tuples of their rules.
fn offloaded(zone: ZoneSource, packet: &FrameBuilder) -> (Engine, Vec<FiveTuple>) {
    let offload = offload();
    let mut engine = Engine::new(&Config { offload: Some(offload), ..config(zone) });
    process(&mut engine, &[packet.clone(), packet.clone().reversed()]);
    let (frame, mut mark, mut tuples) = (packet.build(), None, vec![]);
    for now in 1..=4 {
        let packets = [BytesPacket::new(&frame).marked(mark)];
        engine.process_from(Side::A, now * SECOND, &packets, &mut [Verdict::Forward]);
        [Side::A, Side::B].into_iter().for_each(|side| engine.queue_drained(side));
        while let Some(RuleRequest::Install { rule, tuple, .. }) = engine.next_request() {
            if tuple.dport == 53 {
                (mark, _) = (Some(offload.layout.encode(rule)), tuples.push(tuple));
            }
            engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
        }
    }
    (engine, tuples)
}

#[test]
fn where_no_tag_says_the_zone_marks_are_as_good_as_ever() {
    let packets = [query(), query().vlan(5)];
    let from = [ZoneSource::None, ZoneSource::Fixed(3)];
    for (zone, packet) in from.iter().flat_map(|zone| packets.iter().map(|p| (*zone, p))) {
        let (engine, tuples) = offloaded(zone, packet);
        assert_eq!(zones(&engine), [(7, 6)]);
        assert!(tuples.len() == 1 && tuples[0].zone == 0, "{tuples:?}");
        let marks = engine.mark_stats();
        assert_eq!((marks.counted, marks.checked, marks.mismatched), (2, 1, 0), "{zone:?}");
    }
}

/// Packets of several tags may be in it: no rule of the NIC is for all of them.
#[test]
fn where_a_tag_says_the_zone_those_that_a_rule_moves_stay_in_software() {
    let (engine, tuples) = offloaded(ZoneSource::OuterVlan, &query().vlan(5));
    assert_eq!((zones(&engine), tuples.len()), (vec![(7, 6)], 0));
    assert_eq!(list(&engine)[0].rules.unwrap()[0].reason, Some(NoRuleReason::ZoneByRule));
    let other = FrameBuilder::ipv4([10, 3, 0, 1], [10, 2, 0, 1]).udp(4000, 53).vlan(5).pad();
    let (engine, tuples) = offloaded(ZoneSource::OuterVlan, &other);
    assert_eq!((zones(&engine), tuples[0].zone), (vec![(5, 6)], 5));
    assert_eq!(engine.mark_stats().counted, 2, "{:?}", engine.mark_stats());
}
