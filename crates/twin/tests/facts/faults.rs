// SPDX-License-Identifier: BSD-3-Clause
//! Tests the effect of each fault.

use super::notation::{INGRESS, actions, create, items, told};
use super::state::{frame, receive};
use twin::{Errno, Fault, Faults, Kind, Nic, Personality, Rule};

const TUPLE: &str = "eth / ipv4 src dst / tcp src dst";

fn nic(faults: &str) -> Nic {
    playing("ideal", faults)
}

fn playing(personality: &str, faults: &str) -> Nic {
    let personality = Personality::named(personality).unwrap();
    let mut nic = Nic::with_faults(personality, 1, Faults::parse(faults, 1).unwrap());
    nic.set_queues(4);
    nic.set_started(true);
    nic
}

/// Returns the mark of a packet that hits [`TUPLE`].
fn mark(nic: &Nic, now_us: u64) -> Option<u32> {
    receive(nic, &frame(0x4040), now_us).mark
}

#[test]
fn a_rule_does_not_mark_but_does_the_rest() {
    let mut nic = nic("no-mark");
    let rule = create(&mut nic, TUPLE, "queue 2 / mark 1 / count").unwrap().value;
    let verdict = receive(&nic, &frame(0x4040), 0);
    assert_eq!((verdict.mark, verdict.queue), (None, 2));
    assert_eq!(nic.query(rule, false, 0).unwrap().hits, 1);
}

#[test]
fn a_mask_is_ignored() {
    let mut nic = nic("mask-ignored");
    create(&mut nic, "eth / ipv4 / tcp dst", "mark 1").unwrap();
    assert_eq!(receive(&nic, &frame(80), 0).mark, Some(1), "another port");
}

#[test]
fn a_rule_is_a_phantom() {
    let mut nic = nic("phantom-success");
    let rule = create(&mut nic, TUPLE, "mark 1 / count").unwrap().value;
    assert_eq!(mark(&nic, u64::MAX / 2), None);
    assert_eq!(nic.next_change_us(0), None, "it never comes");
    assert_eq!(nic.query(rule, false, 0).unwrap().hits, 0);
    nic.destroy(rule, 0).unwrap();
}

#[test]
fn a_destroyed_rule_stays_in_effect() {
    let mut nic = nic("destroy-leaves-rule");
    let rule = create(&mut nic, TUPLE, "mark 1").unwrap().value;
    nic.destroy(rule, 0).unwrap();
    assert!(nic.is_empty() && nic.destroy(rule, 0).is_err());
    assert_eq!(mark(&nic, 1 << 60), Some(1));
    assert_eq!(nic.next_change_us(0), None, "it never goes");
    // A new rule replaces it, and a flush ends it.
    create(&mut nic, TUPLE, "mark 2").unwrap();
    assert_eq!(mark(&nic, 1), Some(2));
    nic.flush().unwrap();
    assert_eq!(mark(&nic, 2), None);
}

#[test]
fn a_rule_cannot_be_destroyed() {
    let mut nic = nic("undeletable");
    let rule = create(&mut nic, TUPLE, "mark 1").unwrap().value;
    assert!(nic.destroy(rule, 0).is_err() && nic.flush().is_err());
    assert_eq!((nic.len(), mark(&nic, 0)), (1, Some(1)));
    // Rules without the fault can be destroyed.
    let mut some = playing("ideal", "undeletable:0.5");
    let ports = (1..=100_u8).map(|port| {
        let (mut items, actions) = (items(TUPLE), actions("mark 1"));
        items[2].spec[3] = port;
        some.create(Rule { attributes: INGRESS, items: &items, actions: &actions }, 0).unwrap()
    });
    assert_eq!(ports.count(), 100);
    assert!(some.flush().is_err());
    assert!((20..80).contains(&some.len()), "{}", some.len());
}

#[test]
fn create_refuses_what_validate_takes() {
    let mut nic = nic("create-refused");
    let rule = Rule { attributes: INGRESS, items: &items(TUPLE), actions: &actions("mark 1") };
    nic.validate(rule).unwrap();
    let refused = nic.create(rule, 0).map(drop).map_err(told);
    assert_eq!(refused, Err("EINVAL Handle Failed to create flow.".to_owned()));
}

#[test]
fn the_table_is_full_early() {
    let mut nic = playing("x710", "full-early:0.25");
    let (mut pattern, actions) = (items(TUPLE), actions("mark 1"));
    let created = (0..8000_u32).take_while(|count| {
        pattern[1].spec[16..20].copy_from_slice(&count.to_be_bytes());
        nic.create(Rule { attributes: INGRESS, items: &pattern, actions: &actions }, 0).is_ok()
    });
    assert_eq!(created.count(), 7680 / 4);
}

#[test]
fn creating_is_slow_now_and_then() {
    let mut nic = nic("latency-cliff:0.5");
    let waits = (1..=50_u8).map(|port| {
        let mut items = items(TUPLE);
        items[2].spec[3] = port;
        let rule = Rule { attributes: INGRESS, items: &items, actions: &actions("mark 1") };
        nic.create(rule, 0).unwrap().wait_us
    });
    let waits = waits.collect::<Vec<_>>();
    assert!(waits.contains(&0) && waits.contains(&10_000), "{waits:?}");
}

#[test]
fn rules_come_late_and_go_late() {
    let mut late = nic("late-activation");
    create(&mut late, TUPLE, "mark 1").unwrap();
    assert_eq!((mark(&late, 999), mark(&late, 100_000)), (None, Some(1)));
    let change_us = late.next_change_us(0).expect("it is to come");
    assert_eq!((mark(&late, change_us - 1), mark(&late, change_us)), (None, Some(1)));
    let mut late = nic("late-deactivation");
    let rule = create(&mut late, TUPLE, "mark 1").unwrap().value;
    late.destroy(rule, 0).unwrap();
    assert_eq!((mark(&late, 999), mark(&late, 100_000)), (Some(1), None));
}

#[test]
fn counters_are_old() {
    let mut nic = nic("stale-counters");
    let rule = create(&mut nic, TUPLE, "count").unwrap().value;
    mark(&nic, 10);
    assert_eq!(nic.query(rule, false, 20).unwrap().hits, 0);
    assert_eq!(nic.query(rule, false, 1_000_000).unwrap().hits, 1);
}

#[test]
fn marks_are_cut() {
    let mut nic = nic("truncated-mark");
    create(&mut nic, TUPLE, "mark 305419896").unwrap();
    assert_eq!(mark(&nic, 0), Some(0x5678));
}

#[test]
fn a_refusal_says_nothing() {
    let mut nic = playing("cx5", "untouched-error");
    let refused = create(&mut nic, "eth / udp", "drop").unwrap_err();
    assert_eq!(refused.kind, Kind::None);
}

#[test]
fn rules_are_lost_when_the_port_stops() {
    let mut nic = nic("lost-on-reset");
    let rule = create(&mut nic, TUPLE, "mark 1").unwrap().value;
    nic.set_started(false);
    nic.set_started(true);
    assert_eq!(mark(&nic, 0), None);
    nic.destroy(rule, 0).expect("the driver does not know");
}

#[test]
fn nothing_is_received_while_a_rule_is_made() {
    let mut nic = nic("receive-stall");
    create(&mut nic, TUPLE, "mark 1").unwrap();
    let verdict = receive(&nic, &frame(0x4040), 99);
    assert_eq!((verdict.mark, verdict.queue), (None, u16::MAX));
    assert_eq!(mark(&nic, 1001), Some(1));
}

#[test]
fn a_port_that_reset_itself_is_as_new_once_it_is_back() {
    let mut nic = nic("undeletable");
    let rule = create(&mut nic, TUPLE, "mark 1").unwrap().value;
    nic.go_down();
    let calls = [
        create(&mut nic, TUPLE, "mark 1").map(drop),
        nic.destroy(rule, 0).map(drop),
        nic.flush(),
        nic.dump(None, 0).map(drop),
    ];
    for call in calls {
        assert_eq!(call.unwrap_err().errno, Errno::EIO);
    }
    assert_eq!((nic.len(), mark(&nic, 0)), (0, None));
    assert!(nic.bring_back());
    assert_eq!(nic.destroy(rule, 0).unwrap_err().errno, Errno::ENOENT);
    create(&mut nic, TUPLE, "mark 2").unwrap();
    assert_eq!(mark(&nic, 0), Some(2));
}

#[test]
fn a_reset_fails_until_it_does_not() {
    let mut nic = nic("reset-fails:0.5");
    for _ in 0..100 {
        let is_back = nic.bring_back();
        assert_eq!(create(&mut nic, TUPLE, "mark 1").is_ok(), is_back);
    }
    let failed = (0..100).filter(|_| !nic.bring_back()).count();
    assert!((1..100).contains(&failed), "{failed}");
}

/// As the article about FlowTable saw it with an X710.
#[test]
fn a_nic_gets_stuck_and_says_nothing() {
    for (faults, is_free) in [("wedge:3", false), ("wedge:3+reset", true)] {
        let mut nic = nic(faults);
        let rule = create(&mut nic, TUPLE, "mark 1").unwrap().value;
        let other = create(&mut nic, "eth / ipv4 / udp", "mark 2").unwrap().value;
        assert_eq!(mark(&nic, 0), Some(1));
        nic.destroy(other, 0).unwrap();
        assert_eq!(mark(&nic, 0), None, "the third change was one too many");
        nic.destroy(rule, 0).unwrap();
        create(&mut nic, TUPLE, "mark 3").unwrap();
        assert_eq!((mark(&nic, 0), nic.next_change_us(0)), (None, None));
        assert!(nic.bring_back());
        nic.set_queues(4);
        nic.set_started(true);
        create(&mut nic, TUPLE, "mark 4").unwrap();
        assert_eq!(mark(&nic, 0), is_free.then_some(4));
    }
}

#[test]
fn all_faults_at_random_are_the_same_from_the_same_seed() {
    let run = |seed| {
        let faults = Faults::parse("random:0.2", seed).unwrap();
        let mut nic = Nic::with_faults(Personality::named("ideal").unwrap(), 1, faults);
        nic.set_queues(4);
        let outcomes = (0..200_u8).map(|port| {
            let mut items = items(TUPLE);
            items[2].spec[3] = port;
            let rule = Rule { attributes: INGRESS, items: &items, actions: &actions("mark 1") };
            let created = nic.create(rule, u64::from(port)).map(|answer| answer.wait_us);
            (created, mark(&nic, u64::from(port)))
        });
        outcomes.collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn lists_of_faults_are_read() {
    for (_, name) in Fault::ALL {
        assert!(Faults::parse(&format!("{name}:0.5+no-mark"), 1).is_ok(), "{name}");
    }
    let error = |list| Faults::parse(list, 1).map(drop).unwrap_err().to_string();
    assert!(error("no-marks").contains("no-marks") && error("x").contains("stale-counters"));
    assert!(error("no-mark:2").contains("0 to 1") && error("no-mark:often").contains("often"));
}
