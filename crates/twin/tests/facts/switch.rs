// SPDX-License-Identifier: BSD-3-Clause
//! Tests rules that send packets between the ports of a switch: which NICs take them, and their
//! effect.

use super::notation::{INGRESS, create_with, nic, told};
use super::state::{frame, receive};
use twin::{Attributes, Nic, PortForwards};

const TRANSFER: Attributes = Attributes { ingress: false, transfer: true, ..INGRESS };
const FROM_PORT: Attributes = Attributes { names_port: true, ..TRANSFER };

/// Returns a port of a switch.
fn member(personality: &str) -> Nic {
    let mut nic = nic(personality);
    nic.set_switch(true);
    nic
}

fn answer(mut nic: Nic, attributes: Attributes, list: &str) -> String {
    let created = create_with(&mut nic, attributes, "eth / ipv4 src dst", list);
    created.map_or_else(told, |_| "taken".to_owned())
}

#[test]
fn each_nic_has_its_own_words_for_other_ports() {
    let port_only = "ENOTSUP Unspecified port action is valid in transfer mode only";
    let one_fate = "EINVAL Action can have only one fate actions in a flow";
    let no_port = "EINVAL Item match on port id is valid only when transfer flag is enabled";
    let unknown_action = "EINVAL Unspecified Unknown or unsupported flow action received";
    let from_port = Attributes { names_port: true, ..INGRESS };
    let both = Attributes { transfer: true, ..INGRESS };
    for (personality, attributes, list, expected) in [
        ("ideal", TRANSFER, "count / port_id 3", "taken"),
        ("ideal", both, "represented_port 3", "taken"),
        ("ideal", TRANSFER, "port_representor 3 / mark 1", "taken"),
        ("ideal", FROM_PORT, "drop / count / age 9", "taken"),
        (
            "ideal",
            from_port,
            "drop",
            "ENOTSUP Item only rules with transfer, of a switch, name ports",
        ),
        (
            "ideal",
            TRANSFER,
            "port_id 3 / queue 1",
            "EINVAL Action a packet has one fate: a queue, rss, drop, jump, passthru or a port",
        ),
        ("x710", TRANSFER, "drop", "EINVAL AttrIngress Only support ingress."),
        ("x710", both, "drop", "EINVAL AttrTransfer Not support transfer."),
        ("x710", INGRESS, "port_id 3", "EINVAL Action Invalid action."),
        ("x710", from_port, "drop", "EINVAL Item Unsupported pattern"),
        ("x710-17.02", INGRESS, "port_id 3", "EINVAL Action Invalid action."),
        ("e810", INGRESS, "represented_port 3", "EINVAL Action Invalid action."),
        ("ntnic", INGRESS, "port_id 3", "taken"),
        ("ntnic", from_port, "queue 1", "taken"),
        ("ntnic", INGRESS, "represented_port 3", unknown_action),
        ("ntnic", both, "port_id 3", "EINVAL Unspecified Operation failed"),
        ("ntacc", INGRESS, "port_id 3", "taken"),
        ("n6010", TRANSFER, "port_id 3", "ENOSYS Unspecified Function not implemented"),
    ] {
        let told = answer(member(personality), attributes, list);
        assert_eq!(told, expected, "{personality} {attributes:?} {list}");
    }
    for personality in ["cx5", "cx6dx"] {
        for (attributes, list, expected) in [
            (TRANSFER, "port_id 3 / count", "taken"),
            (FROM_PORT, "count / represented_port 3", "taken"),
            (TRANSFER, "jump 1", "taken"),
            (TRANSFER, "count", "EINVAL Action no fate action is found"),
            (TRANSFER, "port_id 3 / drop", "EINVAL Action can't have 2 fate actions in same flow"),
            (TRANSFER, "drop / port_id 3", one_fate),
            (TRANSFER, "queue 1", "ENOTSUP Action unsupported action QUEUE"),
            (TRANSFER, "rss 0 1", "ENOTSUP Action unsupported action RSS"),
            (TRANSFER, "port_id 3 / mark 1", "ENOTSUP Action unsupported action MARK"),
            (TRANSFER, "port_representor 3", "ENOTSUP Action action not supported"),
            (INGRESS, "port_id 3", port_only),
            (INGRESS, "represented_port 3", port_only),
            (from_port, "queue 1", no_port),
        ] {
            let told = answer(member(personality), attributes, list);
            assert_eq!(told, expected, "{personality} {attributes:?} {list}");
        }
    }
}

#[test]
fn a_port_alone_has_nobody_to_send_to() {
    let no_switch = "ENOTSUP Unspecified E-Switch dr is not supported";
    for (personality, attributes, list, expected) in [
        ("ideal", TRANSFER, "drop", "ENOTSUP AttrTransfer transfer is not supported"),
        ("ideal", INGRESS, "port_id 3", "ENOTSUP Action this action is not supported here"),
        ("cx5", TRANSFER, "port_id 3", no_switch),
        ("cx6dx", TRANSFER, "drop", no_switch),
        (
            "ntnic",
            INGRESS,
            "port_id 3",
            "EINVAL Unspecified Unknown or unsupported flow action received",
        ),
        ("ntacc", INGRESS, "port_id 3", "ENOTSUP Action this action is not supported here"),
    ] {
        assert_eq!(answer(nic(personality), attributes, list), expected, "{personality} {list}");
    }
}

#[test]
fn the_switch_is_before_the_port() {
    let mut nic = member("ideal");
    let mut make =
        |attributes, pattern, list| create_with(&mut nic, attributes, pattern, list).unwrap().value;
    let pattern = "eth / ipv4 src dst / tcp src";
    let port = make(INGRESS, pattern, "mark 1 / count / queue 2");
    // The same pattern for the switch is no duplicate, and has priorities of its own.
    let lowest = Attributes { priority: 9, ..TRANSFER };
    let switch = make(lowest, pattern, "count / represented_port 7");
    let came = receive(&nic, &frame(80), 0);
    assert_eq!((came.elsewhere, came.mark, came.drop), (Some(PortForwards::Wire(7)), None, false));
    let hits = |nic: &Nic, rule| nic.query(rule, false, 0).unwrap().hits;
    assert_eq!((hits(&nic, switch), hits(&nic, port)), (1, 0));
    nic.destroy(switch, 0).unwrap();
    assert_eq!(receive(&nic, &frame(80), 0).queue, 2);

    // A packet that stays on the port meets the rules of the port too; both rules count it.
    let here = create_with(&mut nic, TRANSFER, pattern, "port_representor here / count");
    let came = receive(&nic, &frame(80), 0);
    assert_eq!((came.elsewhere, came.mark, came.queue), (None, Some(1), 2));
    assert_eq!((hits(&nic, here.unwrap().value), hits(&nic, port)), (1, 2));
    create_with(&mut nic, TRANSFER, "eth / ipv4 / tcp", "port_representor 4").unwrap();
    nic.flush().unwrap();
    create_with(&mut nic, TRANSFER, "eth / ipv4 / tcp", "port_representor 4").unwrap();
    assert_eq!(receive(&nic, &frame(80), 0).elsewhere, Some(PortForwards::Port(4)));
}

#[test]
fn a_rule_of_the_switch_is_shown_as_such() {
    let mut nic = member("ideal");
    let group = Attributes { group: 2, ..TRANSFER };
    create_with(&mut nic, group, "eth / ipv4", "port_id 5").unwrap();
    create_with(&mut nic, TRANSFER, "eth", "jump 2").unwrap();
    let dump = nic.dump(None, 0).unwrap();
    assert!(
        dump.contains("transfer group 2 priority 0 eth / ipv4 => to the wire of port 5"),
        "{dump}"
    );
    assert_eq!(receive(&nic, &frame(80), 0).elsewhere, Some(PortForwards::Wire(5)));
    // Isolated mode drops only packets that reach the port.
    nic.isolate(true).unwrap();
    assert!(!receive(&nic, &frame(80), 0).drop);
}
