// SPDX-License-Identifier: BSD-3-Clause
//! Tests each NIC with many rules, over time, and when its port stops.

use super::notation::{INGRESS, actions, create, create_with, items, nic, told};
use twin::personality::NAMES;
use twin::{Attributes, Handle, Nic, Personality, Rule, Verdict};
use wire::FrameBuilder;

pub(super) fn frame(dport: u16) -> Vec<u8> {
    // All bytes of addresses and ports have the value of the notation.
    FrameBuilder::ipv4([64, 64, 64, 64], [64, 64, 64, 64]).tcp(0x4040, dport).build()
}

pub(super) fn receive(nic: &Nic, frame: &[u8], now_us: u64) -> Verdict {
    nic.classify(frame, frame.len() as u32, now_us)
}

const TUPLE: &str = "eth / ipv4 src dst / tcp src dst";

/// Creates rules until one is refused. Returns their number, the refusal, and the number of the
/// first slow one.
fn fill(nic: &mut Nic, list: &str, limit: u32) -> (u32, String, Option<u32>) {
    let (mut pattern, actions) = (items(TUPLE), actions(list));
    let mut slow_from = None;
    for count in 0..limit {
        pattern[1].spec[16..20].copy_from_slice(&count.to_be_bytes());
        let rule = Rule { attributes: INGRESS, items: &pattern, actions: &actions };
        match nic.create(rule, 0) {
            Ok(answer) if answer.wait_us >= 10_000 => slow_from = slow_from.or(Some(count)),
            Ok(_) => {}
            Err(refusal) => return (count, told(refusal), slow_from),
        }
    }
    (limit, "taken".to_owned(), slow_from)
}

#[test]
fn tables_are_full_where_they_should_be() {
    for (personality, list, expected) in [
        ("x710-17.02", "queue 1", (7680, "ENOSYS Handle Failed to create flow.", Some(0))),
        ("x710", "mark 1", (7680, "ENOBUFS Handle Fdir space full", Some(512))),
        ("e810", "mark 1", (16_384, "EINVAL Handle Add filter rule failed.", None)),
        ("e810", "mark 1 / count", (256, "EINVAL Action Failed to alloc FDIR counter.", None)),
        ("cx5", "queue 1", (65_536, "ENOMEM Unspecified hardware refuses to create flow", None)),
        ("ntacc", "queue 1", (20_000, "ENOSPC Unspecified the table is full", None)),
        ("ideal", "mark 1", (100_000, "taken", None)),
    ] {
        let (count, told, slow_from) = fill(&mut nic(personality), list, 100_000);
        assert_eq!((count, told.as_str(), slow_from), expected, "{personality} {list}");
    }
}

#[test]
fn room_comes_back_with_destroyed_rules() {
    let mut nic = nic("x710");
    fill(&mut nic, "mark 1", 7679);
    let last = create(&mut nic, TUPLE, "mark 2").unwrap().value;
    assert!(create(&mut nic, "eth / ipv4 src dst / udp src dst", "mark 3").is_err());
    nic.destroy(last, 0).unwrap();
    create(&mut nic, "eth / ipv4 src dst / udp src dst", "mark 3").unwrap();
}

#[test]
fn connectx_has_room_in_other_groups_when_the_root_is_full() {
    let mut nic = nic("cx5");
    fill(&mut nic, "queue 1", 65_536);
    assert!(create(&mut nic, TUPLE, "queue 1").is_err());
    create_with(&mut nic, Attributes { group: 1, ..INGRESS }, TUPLE, "queue 1").unwrap();
}

#[test]
fn a_rule_twice_is_refused_or_one_of_them_wins() {
    for (personality, expected) in [
        ("x710-17.02", Err("EINVAL Handle Failed to create flow.")),
        ("x710", Err("EINVAL Handle Failed to create flow.")),
        ("e810", Err("EEXIST Handle Rule already exists!")),
        ("ideal", Err("EEXIST Unspecified a rule with this pattern exists")),
        ("cx5", Ok(1)),
        ("cx6dx", Ok(2)),
        ("ntacc", Ok(2)),
    ] {
        let mut nic = nic(personality);
        let first = create(&mut nic, TUPLE, "queue 1 / mark 1").unwrap().value;
        let second = create(&mut nic, TUPLE, "queue 1 / mark 2").map_err(told);
        let second = match (second, expected) {
            (Ok(second), Ok(_)) => second.value,
            (second, Err(expected)) => {
                assert_eq!(second.map(|_| ()), Err(expected.to_owned()), "{personality}");
                continue;
            }
            (Err(told), Ok(_)) => panic!("{personality}: {told}"),
        };
        let mark = |nic: &Nic| receive(nic, &frame(0x4040), 0).mark;
        assert_eq!(mark(&nic).map(Ok), Some(expected), "{personality}");
        // When the rule in effect is destroyed, the other one takes effect.
        let (winner, other) = if mark(&nic) == Some(1) { (first, 2) } else { (second, 1) };
        nic.destroy(winner, 0).unwrap();
        assert_eq!(mark(&nic), Some(other), "{personality}");
        nic.flush().unwrap();
        assert_eq!(mark(&nic), None);
    }
}

#[test]
fn intel_has_one_set_of_fields_for_each_kind_of_packet() {
    for personality in ["x710", "e810"] {
        let mut nic = nic(personality);
        let first = create(&mut nic, "eth / ipv4 src / tcp dst", "mark 1").unwrap().value;
        let other = "eth / ipv4 dst / tcp dst";
        let validated = nic.validate(Rule {
            attributes: INGRESS,
            items: &items(other),
            actions: &actions("mark 2"),
        });
        assert!(validated.is_ok(), "only create knows");
        let refused = create(&mut nic, other, "mark 2").map(drop).map_err(|refusal| refusal.kind);
        assert_eq!(refused, Err(twin::Kind::Handle), "{personality}");
        create(&mut nic, "eth / ipv4 dst / udp dst", "mark 3").expect("another kind of packet");
        nic.destroy(first, 0).unwrap();
        create(&mut nic, other, "mark 2").expect("forgotten with the last rule");
    }
}

#[test]
fn e810_has_rules_for_addresses_or_for_ports() {
    let mut nic = nic("e810");
    let first = create(&mut nic, "eth / ipv4 src", "mark 1").unwrap().value;
    let refused = create(&mut nic, "eth / ipv4 src / tcp dst", "mark 2").map(drop).map_err(told);
    assert_eq!(refused, Err("EINVAL Handle Profile configure failed.".to_owned()));
    create(&mut nic, "eth / ipv6 src / tcp dst", "mark 2").expect("another protocol");
    nic.destroy(first, 0).unwrap();
    create(&mut nic, "eth / ipv4 src / tcp dst", "mark 2").unwrap();
}

#[test]
fn e810_asks_its_switch_first_and_fdir_says_where_to() {
    let mut nic = nic("e810");
    create(&mut nic, "eth / ipv4 src / tcp dst", "queue 2 / mark 7").unwrap();
    // FDIR refuses addresses alone while it has rules with ports; the switch does not.
    create(&mut nic, "eth / ipv4 src:part", "queue 1").unwrap();
    let arrives = |nic: &Nic, frame: &[u8]| {
        let verdict = receive(nic, frame, 0);
        (verdict.queue, verdict.mark, verdict.drop)
    };
    assert_eq!(arrives(&nic, &frame(0x4040)), (2, Some(7), false), "the later engine counts");
    assert_eq!(arrives(&nic, &frame(80)), (1, None, false));
    create_with(&mut nic, Attributes { priority: 1, ..INGRESS }, "eth / ipv4 dst", "drop").unwrap();
    assert_eq!(arrives(&nic, &frame(80)), (1, None, false), "of the switch, by its priority");
    nic.flush().unwrap();
    create(&mut nic, "eth / ipv4 src / tcp dst", "queue 2 / mark 7").unwrap();
    let drop = create(&mut nic, "eth / ipv4 dst:part", "drop").unwrap().value;
    assert!(arrives(&nic, &frame(0x4040)).2, "who is dropped does not come to FDIR");
    nic.destroy(drop, 0).unwrap();
    assert_eq!(arrives(&nic, &frame(0x4040)), (2, Some(7), false));
}

#[test]
fn e810_gives_fdir_what_its_switch_has_already() {
    let mut nic = nic("e810");
    let mut twice = |pattern| {
        create(&mut nic, pattern, "queue 1").unwrap();
        [2, 3].map(|_| create(&mut nic, pattern, "drop").map(drop).map_err(told))
    };
    let exists = Err("EEXIST Handle Rule already exists!".to_owned());
    assert_eq!(twice("eth / ipv4 src"), [Ok(()), exists]);
    let fails = Err("EINVAL Handle switch filter create flow fail".to_owned());
    assert_eq!(twice("eth / ipv4 src:part"), [fails.clone(), fails]);
}

#[test]
fn rules_for_addresses_miss_packets_with_ports() {
    for (personality, expected) in
        [("x710", None), ("x710-17.02", None), ("e810", None), ("cx5", Some(1)), ("ideal", Some(1))]
    {
        let mut nic = nic(personality);
        create(&mut nic, "eth / ipv4 src dst", "queue 1 / mark 1").unwrap();
        assert_eq!(receive(&nic, &frame(80), 0).mark, expected, "{personality}");
        let echo = FrameBuilder::ipv4([64; 4], [64; 4]).icmp_echo(1, 1).build();
        assert_eq!(receive(&nic, &echo, 0).mark, Some(1), "{personality}");
    }
}

#[test]
fn masks_that_are_ignored_make_a_rule_wider() {
    let mut wide = nic("x710");
    create(&mut wide, "eth / ipv4 src:part / tcp dst", "mark 1").unwrap();
    let other = FrameBuilder::ipv4([1, 2, 3, 4], [64; 4]).tcp(1, 0x4040).build();
    assert_eq!(receive(&wide, &other, 0).mark, Some(1), "the address does not count");
    let mut exact = nic("cx5");
    create(&mut exact, "eth / ipv4 src:part / tcp dst", "queue 1 / mark 1").unwrap();
    assert_eq!(receive(&exact, &other, 0).mark, None);
    assert_eq!(receive(&exact, &frame(0x4040), 0).mark, Some(1));
    // An X710 ignores a spec without a mask; other NICs use the default mask.
    let mut wide = nic("x710");
    create(&mut wide, "eth / ipv4 / tcp ?dst", "mark 1").unwrap();
    assert_eq!(receive(&wide, &frame(80), 0).mark, Some(1));
}

#[test]
fn ntnic_takes_marks_and_never_delivers_them() {
    let mut ntnic = nic("ntnic");
    create(&mut ntnic, TUPLE, "queue 1 / mark 1").unwrap();
    let verdict = receive(&ntnic, &frame(0x4040), 0);
    assert_eq!((verdict.mark, verdict.queue), (None, 1));
    let mut e810 = nic("e810");
    create(&mut e810, TUPLE, "mark 4294967295").unwrap();
    assert_eq!(receive(&e810, &frame(0x4040), 0).mark, None, "all ones mean no mark");
}

#[test]
fn counters_are_what_the_nic_lets_see() {
    let count = |personality, seconds: u64| {
        let mut nic = nic(personality);
        let handle: Handle = create(&mut nic, TUPLE, "queue 1 / count").unwrap().value;
        receive(&nic, &frame(0x4040), 0);
        nic.query(handle, false, 1_000_000 * seconds).unwrap()
    };
    let bytes = frame(0x4040).len() as u64;
    assert_eq!((count("e810", 0).hits, count("e810", 0).bytes), (1, None));
    assert_eq!((count("ideal", 0).hits, count("ideal", 0).bytes), (1, Some(bytes)));
    assert_eq!((count("cx5", 0).hits, count("cx5", 1).hits), (0, 1));
    let mut x710 = nic("x710");
    let handle = create(&mut x710, TUPLE, "mark 1").unwrap().value;
    let refused = x710.query(handle, false, 0).map_err(told);
    assert_eq!(refused, Err("ENOTSUP Action action not supported".to_owned()));
}

#[test]
fn a_stopped_port_keeps_forgets_or_refuses_rules() {
    for (personality, is_void, mark) in [
        ("ideal", false, Some(1)),
        ("x710", false, None),
        ("cx5", true, None),
        ("ntacc", true, None),
        ("e810", false, Some(1)),
    ] {
        let mut nic = nic(personality);
        let list = if personality == "e810" { "mark 1" } else { "queue 1 / mark 1" };
        let handle = create(&mut nic, TUPLE, list).unwrap().value;
        nic.set_started(false);
        nic.set_started(true);
        assert_eq!(receive(&nic, &frame(0x4040), 0).mark, mark, "{personality}");
        assert_eq!(nic.destroy(handle, 0).is_err(), is_void, "{personality}");
    }
    let mut cx5 = nic("cx5");
    cx5.set_started(false);
    let refused = create(&mut cx5, TUPLE, "queue 1").map(drop).map_err(told);
    assert_eq!(refused, Err("ENODEV Unspecified port not started".to_owned()));
}

#[test]
fn ntnic_has_no_validate() {
    let rule = Rule { attributes: INGRESS, items: &items(TUPLE), actions: &actions("queue 1") };
    let refused = nic("ntnic").validate(rule).map_err(told);
    assert_eq!(refused, Err("ENOSYS Unspecified Function not implemented".to_owned()));
}

#[test]
fn packets_jump_from_group_to_group() {
    let mut nic = nic("cx5");
    create(&mut nic, "eth", "jump 1").unwrap();
    let one = Attributes { group: 1, ..INGRESS };
    create_with(&mut nic, one, "eth / ipv4 / tcp", "queue 2 / mark 5").unwrap();
    let verdict = receive(&nic, &frame(80), 0);
    assert_eq!((verdict.mark, verdict.queue), (Some(5), 2));
    // A loop of jumps ends.
    create_with(&mut nic, one, "eth / ipv4 / udp", "jump 0").unwrap();
    let udp = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2).build();
    assert_eq!(receive(&nic, &udp, 0).mark, None);
}

#[test]
fn tunnels_are_matched_inside() {
    let inner = FrameBuilder::ipv4([10, 0, 0, 1], [64; 4]).tcp(1, 0x4040).build();
    let mut vxlan = vec![8, 0, 0, 0, 0x40, 0x40, 0x40, 0];
    vxlan.extend(&inner);
    let outer = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 4789).payload(vxlan).build();
    let mut nic = nic("cx5");
    let pattern = "eth / ipv4 / udp / vxlan vni / eth / ipv4 dst / tcp dst";
    create(&mut nic, pattern, "queue 1 / mark 9").unwrap();
    assert_eq!(receive(&nic, &outer, 0).mark, Some(9));
    assert_eq!(receive(&nic, &inner, 0).mark, None);
}

#[test]
fn late_rules_are_late() {
    let text = "name = \"late\"\n[latency]\neffective_after_us = 50\neffective_until_us = 70";
    let mut nic = Nic::new(Personality::parse(text, "late.toml").unwrap(), 1);
    nic.set_queues(4);
    let handle = create(&mut nic, TUPLE, "mark 1").unwrap().value;
    let mark = |nic: &Nic, now_us| receive(nic, &frame(0x4040), now_us).mark;
    assert_eq!((mark(&nic, 49), mark(&nic, 50)), (None, Some(1)));
    nic.destroy(handle, 100).unwrap();
    assert_eq!((mark(&nic, 169), mark(&nic, 170)), (Some(1), None));
    assert!(nic.destroy(handle, 100).is_err());
    assert_eq!(nic.len(), 0);
    // A new rule replaces a destroyed one that is still in effect.
    create(&mut nic, TUPLE, "mark 2").unwrap();
    assert_eq!(mark(&nic, 120), Some(2));
}

#[test]
fn a_late_rule_leaves_its_row_to_others_until_then_and_behind_it() {
    let text = "name = \"late\"\n[table]\nduplicate = \"last-wins\"\n\
                [latency]\ncreate_us = 10\ncreate_max_us = 10\n\
                effective_after_us = 50\neffective_until_us = 70";
    let mut nic = Nic::new(Personality::parse(text, "late.toml").unwrap(), 1);
    nic.set_queues(4);
    let mark = |nic: &Nic, now_us| receive(nic, &frame(0x4040), now_us).mark;
    let rule = |nic: &mut Nic, list, now_us| {
        let (items, actions) = (items(TUPLE), actions(list));
        let rule = Rule { attributes: INGRESS, items: &items, actions: &actions };
        nic.create(rule, now_us).unwrap().value
    };
    rule(&mut nic, "mark 1", 0);
    // In effect 50 us after the call, which takes 10 us.
    assert_eq!((mark(&nic, 59), mark(&nic, 60)), (None, Some(1)));
    let last = rule(&mut nic, "mark 2", 1000);
    assert_eq!((mark(&nic, 1059), mark(&nic, 1060)), (Some(1), Some(2)));
    nic.destroy(last, 2000).unwrap();
    assert_eq!((mark(&nic, 2069), mark(&nic, 2070)), (Some(2), Some(1)));
}

#[test]
fn every_personality_survives_being_written() {
    for name in NAMES {
        let personality = Personality::named(name).unwrap();
        assert_eq!(personality.name, name);
        assert!(!personality.sources.is_empty() && !personality.title.is_empty(), "{name}");
        let text = personality.to_toml();
        let again = Personality::parse(&text, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again, personality, "{text}");
    }
}

/// Returns a file with `count` conflicts.
fn conflicts(count: usize) -> String {
    "[[conflict]]\none = \"tcp\"\nother = \"udp\"\ntold = \"no\"\n".repeat(count)
}

#[test]
fn files_that_are_wrong_name_the_place() {
    Personality::parse(&conflicts(16), "a.toml").unwrap();
    for (text, words) in [
        ("name = \"a\"\nnames = 1", &["a.toml", "names", "line 2"][..]),
        ("[[chain]]\nitems = \"eth / vlna\"", &["a.toml", "vlna"]),
        ("[item.ipv4.fields]\nsrcc = \"any\"", &["ipv4", "srcc"]),
        ("[item.ipv4.fields]\nsrc = \"most\"", &["a.toml", "line 2"]),
        ("[actions]\naccepted = [\"quue\"]", &["quue"]),
        ("[[chain]]\nitems = \"eth\"\nexactly = [\"eth.lid\"]", &["lid"]),
        (&conflicts(17), &["a.toml", "16", "conflict"]),
    ] {
        let error = Personality::parse(text, "a.toml").unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let error = Personality::named("x701").unwrap_err().to_string();
    assert!(error.contains("x710-17.02") && error.contains(".toml"), "{error}");
    let error = Personality::named("/nowhere/nic.toml").unwrap_err().to_string();
    assert!(error.contains("/nowhere/nic.toml"), "{error}");
}

/// Files may have these facts; no built-in personality has them.
#[test]
fn flags_and_ages_may_come_to_nothing() {
    let text = "age = { never_told = true, no_query = \"no\" }\nmark = { flag_never_delivered = \
                true }";
    let mut nic = Nic::new(Personality::parse(text, "mute").unwrap(), 1);
    nic.set_queues(4);
    nic.set_started(true);
    let rule = create(&mut nic, TUPLE, "queue 1 / flag / age 1").unwrap().value;
    let verdict = receive(&nic, &frame(0x4040), 0);
    assert_eq!((verdict.flag, verdict.queue), (false, 1));
    let late_us = 9_000_000;
    assert!(nic.aged(late_us).next().is_none() && !nic.is_ageing_news(0..9, late_us));
    assert_eq!(nic.idle(rule, late_us).map_err(told), Err("ENOTSUP Action no".to_owned()));
}

#[test]
fn a_dump_has_the_rules_that_are_in_effect() {
    let text = "latency = { effective_until_us = 100 }";
    let mut nic = Nic::new(Personality::parse(text, "late").unwrap(), 1);
    nic.set_queues(4);
    let rule = create(&mut nic, TUPLE, "queue 1").unwrap().value;
    nic.destroy(rule, 0).unwrap();
    assert!(nic.dump(None, 99).unwrap().contains("destroyed, still in effect"));
    assert_eq!(nic.dump(None, 100).unwrap(), "");
}
