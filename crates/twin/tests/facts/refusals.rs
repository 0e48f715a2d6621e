// SPDX-License-Identifier: BSD-3-Clause
//! Tests which rules each NIC takes and refuses on an empty table. Sources are in `personalities/`.

use super::notation::{INGRESS, answer, create_with, nic, told};
use twin::Attributes;

const TUPLE: &str = "ipv4 src dst / tcp src dst";

#[test]
fn x710_of_17_02_takes_full_tuples_and_says_what_is_missing() {
    let expect = |pattern, list, expected| {
        assert_eq!(answer("x710-17.02", pattern, list), expected, "{pattern} {list}");
    };
    // The two commands of the article.
    expect("eth / ipv4 / udp", "queue 3", "EINVAL Item NULL IPv4 spec/mask");
    expect("eth / ipv4 src dst / tcp src dst", "queue 1 / mark 1", "taken");
    for good in [
        TUPLE,
        "ipv4 src dst / udp src dst",
        "ipv6 src dst / tcp src dst",
        "ipv4 src dst / sctp src dst tag",
        "eth / ipv4 src dst",
        "ipv6 src dst",
    ] {
        expect(good, "queue 1", "taken");
        expect(good, "drop", "taken");
    }
    for (pattern, expected) in [
        ("eth src / ipv4 src dst", "EINVAL Item Invalid ETH spec/mask"),
        ("ipv4 src dst total_length / tcp src dst", "EINVAL Item Invalid IPv4 mask."),
        ("ipv6 / tcp src dst", "EINVAL Item NULL IPv6 spec/mask"),
        ("ipv6 src dst:part / tcp src dst", "EINVAL Item Invalid IPv6 mask"),
        ("ipv4 src dst / tcp", "EINVAL Item NULL TCP spec/mask"),
        ("ipv4 src dst / udp", "EINVAL Item NULL UDP spec/mask"),
        ("ipv4 src dst / sctp", "EINVAL Item NULL SCTP spec/mask"),
        ("ipv4 src dst / tcp src dst:part", "EINVAL Item Invalid TCP mask"),
        ("ipv4 src dst / tcp dst", "EINVAL Item Invalid TCP mask"),
        ("ipv4 src dst / tcp src dst flags", "EINVAL Item Invalid TCP mask"),
        ("ipv4 src dst / sctp src dst", "EINVAL Item Invalid UDP mask"),
        ("ipv4 src / tcp src dst", "EINVAL ItemSpec Invalid input set."),
        ("ipv4 src:part dst / tcp src dst", "EINVAL ItemSpec Invalid input set."),
        ("ipv4 src dst ttl / tcp src dst", "EINVAL ItemSpec Invalid input set."),
        ("eth / vlan / ipv4 src dst", "EINVAL Item Unsupported pattern"),
        ("ipv4 src dst / icmp", "EINVAL Item Unsupported pattern"),
    ] {
        expect(pattern, "queue 1", expected);
    }
    expect(TUPLE, "mark 1", "EINVAL Action Invalid action.");
    expect(TUPLE, "mark 1 / queue 1", "EINVAL Action Invalid action.");
    expect(TUPLE, "queue 1 / count", "EINVAL Action Invalid action.");
    expect(TUPLE, "rss 0 1", "EINVAL Action Invalid action.");
    expect(TUPLE, "queue 9", "EINVAL Action Invalid queue ID for FDIR.");
}

#[test]
fn x710_takes_any_subset_and_forgets_what_it_cannot_mask() {
    let expect = |pattern, list, expected| {
        assert_eq!(answer("x710", pattern, list), expected, "{pattern} {list}");
    };
    for good in [
        "eth / ipv4 / udp",
        "eth / ipv4 src / tcp dst",
        "eth / ipv4 src:part / tcp dst:part",
        "eth / vlan tci / ipv4 src dst",
        "eth type",
        "eth dst / ipv4 / udp",
        "eth / ipv4 src proto",
        "eth / ipv4 src tos ttl / tcp dst",
        "eth / ipv6 src proto",
        "eth / ipv6 src tc hop / udp dst",
        "eth / ipv6 / sctp tag",
    ] {
        expect(good, "mark 1", "taken");
        expect(good, "queue 1 / flag", "taken");
        expect(good, "passthru / mark 1", "taken");
        expect(good, "passthru / rss", "taken");
    }
    for (pattern, expected) in [
        ("ipv4 src dst / tcp src dst", "EINVAL Item Unsupported pattern"),
        ("eth dst:part", "EINVAL Item Invalid MAC_addr mask."),
        ("eth dst / ipv4 src", "EINVAL Item L2 and L3 input set are exclusive."),
        ("eth / ipv4 total_length", "EINVAL Item Invalid IPv4 mask."),
        ("eth / ipv4 fragment_offset", "EINVAL Item Invalid IPv4 fragment_offset mask"),
        // Kinds of packets that do not have the field.
        ("eth dst", "EINVAL Item Invalid input set"),
        ("eth src type", "EINVAL Item Invalid input set"),
        ("eth src / vlan tci", "EINVAL Item Invalid input set"),
        ("eth src / ipv6", "EINVAL Item Invalid input set"),
        ("eth dst / vlan / ipv4 / sctp dst", "EINVAL Item Invalid input set"),
        ("eth / vlan inner_type / ipv4 src", "EINVAL Item Invalid input set"),
        ("eth / vlan inner_type / ipv6 / tcp", "EINVAL Item Invalid input set"),
        // The message of the parser that is tried last.
        ("eth / ipv4 proto dst / udp dst", "EINVAL Item Invalid IPv4 item"),
        ("eth / ipv4 proto / tcp", "EINVAL Item Invalid IPv4 item"),
        ("eth / ipv4 proto / sctp", "EINVAL Item Invalid IPv4 item"),
        ("eth / ipv6 proto / udp dst", "EINVAL Item Invalid IPv6 item"),
        ("eth dst / ipv4 / sctp", "EINVAL Item Invalid ETH item"),
        ("eth dst / ipv6 / tcp", "EINVAL Item Invalid ETH item"),
        ("eth dst / ipv4 / tcp dst", "EINVAL Item Invalid ETH item"),
        ("eth / ipv4 src / tcp flags", "EINVAL Item Invalid IPv4 item"),
    ] {
        expect(pattern, "queue 1", expected);
    }
    expect("eth / ipv4 src", "queue 1 / mark 1 / count", "EINVAL Action Invalid action.");
    expect("eth / ipv4 src", "mark 1 / mark 2", "EINVAL Action Invalid action.");
    expect("eth / ipv4 src", "count", "EINVAL Action Invalid action.");
}

#[test]
fn e810_wants_full_masks_and_a_field_at_least() {
    let expect = |pattern, list, expected| {
        assert_eq!(answer("e810", pattern, list), expected, "{pattern} {list}");
    };
    expect("eth / ipv4 src / tcp dst", "queue 1 / mark 1 / count", "taken");
    expect("eth / ipv4 src", "count / mark 1", "taken");
    expect("eth / ipv4 / udp / vxlan vni / ipv4 src", "mark 1", "taken");
    expect("eth / ipv4 / udp / gtpu teid", "mark 1", "taken");
    // Suricata, pull request 12848.
    expect("eth / ipv4", "queue 1", "EINVAL ItemSpec Invalid input set");
    // FDIR refuses these without a message, so that of the switch stays, which is about the mark.
    expect("eth / ipv4 src:part", "mark 1", "EINVAL Action Invalid action type");
    expect("eth / ipv4 / tcp dst:part", "passthru", "EINVAL Action Invalid action type");
    expect("eth / ipv4 / sctp dst:part", "queue 1", "EINVAL Handle Invalid input pattern");
    expect("eth / ipv4 hdr_checksum", "queue 1", "EINVAL Item Invalid IPv4 mask.");
    expect("eth / ipv4 / tcp flags", "queue 1", "EINVAL Item Invalid TCP mask");
    expect("ipv4 src", "queue 1", "EINVAL Item Unsupported pattern");
    expect("eth dst / ipv6 src proto / udp dst", "mark 1", "taken");
    expect("eth / ipv4 tos / udp / vxlan / eth dst / ipv4 tos / tcp dst", "mark 1", "taken");
    // Kinds of packets that do not have the field.
    for pattern in [
        "eth src / ipv6 src",
        "eth src / ipv6 src / udp dst",
        "eth / ipv4 / udp dst / vxlan vni / ipv4 src",
        "eth / ipv4 / udp / vxlan vni / ipv4 tos",
        "eth / ipv4 tos / udp / gtpu teid",
        "eth / ipv6 / udp dst / gtpu teid",
    ] {
        expect(pattern, "mark 1", "EINVAL ItemSpec Invalid input set");
    }
    for (list, expected) in [
        ("queue 1 / drop", "EINVAL Action Unsupported action combination"),
        ("mark 1 / mark 2", "EINVAL Action Too many mark actions"),
        ("", "EINVAL Action Empty action"),
        ("rss 1", "EINVAL Action Queue region size can't be 0 or 1."),
        ("rss 0 2", "EINVAL Action Discontinuous queue region"),
        ("rss 0 1 / mark 1", "taken"),
        ("flag", "EINVAL Action Invalid action."),
    ] {
        expect("eth / ipv4 src", list, expected);
    }
}

/// At priority 1, only the switch accepts rules.
#[test]
fn e810_has_a_switch_that_takes_any_mask_and_no_mark() {
    let answer = |priority, pattern, list| {
        let attributes = Attributes { priority, ..INGRESS };
        let created = create_with(&mut nic("e810"), attributes, pattern, list);
        created.map_or_else(told, |_| "taken".to_owned())
    };
    for good in [
        "eth / ipv4 src:part / tcp dst:part",
        "eth dst:part",
        "eth / vlan tci:part",
        "eth dst / ipv6 dst:part",
        "eth / ipv6 src dst",
        "eth / ipv4 proto",
        "eth / ipv4 dst / udp / vxlan vni / eth / ipv4 src / tcp dst",
        "eth / ipv4 / udp / gtpu teid / ipv6 src / udp dst",
    ] {
        for list in ["queue 1", "drop", "rss 0 1"] {
            assert_eq!(answer(0, good, list), "taken", "{good} {list}");
            assert_eq!(answer(1, good, list), "taken", "{good} {list}");
        }
    }
    let set = "EINVAL ItemSpec Invalid input set";
    for (pattern, list, expected) in [
        ("eth / ipv4 src", "mark 1", "EINVAL Action Invalid action type"),
        ("eth / ipv4 src", "queue 1 / count", "EINVAL Action Invalid action type"),
        ("eth / ipv4 src", "queue 1 / drop", "EINVAL Action Invalid action number"),
        ("eth / ipv4 src", "queue 9", "EINVAL Action Invalid action type or queue number"),
        ("eth / ipv4 src", "rss 0 2", "EINVAL Action Discontinuous queue region"),
        ("eth / ipv4", "queue 1", set),
        // No Ethernet source before IP, no protocol before ports, at most 32 bytes of masks.
        ("eth src / ipv4 src", "queue 1", set),
        ("eth / ipv4 proto / tcp dst", "queue 1", set),
        ("eth / ipv6 src dst / tcp dst", "queue 1", set),
        ("eth / ipv4 src / udp / vxlan vni / eth / ipv4 src", "queue 1", set),
        ("eth / ipv4 packet_id", "queue 1", set),
        ("eth / ipv4 src / sctp", "queue 1", "EINVAL Handle Invalid input pattern"),
    ] {
        assert_eq!(answer(1, pattern, list), expected, "{pattern} {list}");
    }
    // Rules that FDIR takes too are taken at priority 0.
    for pattern in ["eth src / ipv4 src", "eth / ipv6 src dst / tcp dst", "eth / ipv4 / sctp dst"] {
        assert_eq!(answer(0, pattern, "queue 1"), "taken", "{pattern}");
    }
    let last = "EINVAL AttrPriority Only support priority 0 and 1.";
    assert_eq!(answer(2, "eth / ipv4 src", "queue 1"), last);
}

#[test]
fn connectx_takes_any_mask_and_needs_a_fate() {
    let (by_dv, by_hw) =
        ("ENOTSUP Item item not supported", "EINVAL Unspecified Unsupported item type");
    for (personality, unknown) in [("cx5", by_dv), ("cx6dx", by_hw)] {
        let expect = |pattern, list, expected| {
            assert_eq!(answer(personality, pattern, list), expected, "{pattern} {list}");
        };
        for good in [
            "eth / ipv4 src:part / tcp dst:part flags",
            "ipv4 src / tcp",
            "eth dst:part",
            "eth / vlan tci:part / ipv6 src:part",
            "eth / ipv4 / udp / vxlan vni / eth / ipv4 src / tcp dst",
        ] {
            expect(good, "queue 1 / mark 1 / count", "taken");
            expect(good, "mark 1 / jump 1", "taken");
        }
        let unsupported = "ENOTSUP Item mask enables non supported bits";
        for (pattern, expected) in [
            ("eth / udp", "EINVAL Item L3 is mandatory to filter on L4"),
            ("udp", "EINVAL Item L3 is mandatory to filter on L4"),
            ("eth / ipv4 / udp / ipv4", "EINVAL Item L3 cannot follow an L4 layer."),
            ("ipv4 / eth", "EINVAL Item L2 layer should not follow L3 layers"),
            ("eth / ipv4 / tcp / udp", "EINVAL Item multiple L4 layers not supported"),
            ("eth / ipv4 / ipv6", "ENOTSUP Item multiple L3 layers not supported"),
            ("eth / ipv4 total_length", unsupported),
            ("eth / ipv4 / tcp sent_seq", unsupported),
            ("eth / ipv4 / sctp", unknown),
            ("eth / vlan / vlan", "EINVAL Item multiple VLAN layers not supported"),
            ("eth / ipv4 / vxlan vni", "EINVAL Item no outer UDP layer found"),
            ("eth / ipv6 / tcp / gtpu teid", "EINVAL Item no outer UDP layer found"),
            ("eth / ipv4 proto:part", "EINVAL ItemMask partial mask is not supported for protocol"),
        ] {
            expect(pattern, "queue 1", expected);
        }
        let two = "EINVAL Action can't have 2 fate actions in same flow";
        for (list, expected) in [
            ("mark 1", "EINVAL Action no fate action is found"),
            ("count", "EINVAL Action no fate action is found"),
            ("queue 1 / drop", two),
            ("queue 9", "EINVAL ActionConf queue index out of range"),
            ("passthru", "ENOTSUP Action action not supported"),
            ("queue 1 / mark 16777199", "taken"),
            ("queue 1 / mark 16777200", "EINVAL ActionConf mark id must in 0 <= id < 0xfffff0"),
        ] {
            expect("eth / ipv4", list, expected);
        }
    }
    assert_eq!(answer("cx5", "eth / ipv6 / ipv6_frag_ext", "queue 1"), "taken");
    assert_eq!(answer("cx6dx", "eth / ipv6 / ipv6_frag_ext", "queue 1"), by_hw);
}

#[test]
fn napatech_has_two_drivers_with_ways_of_their_own() {
    let unknown = "EINVAL Unspecified Unknown or unsupported flow action received";
    assert_eq!(answer("ntnic", "eth / ipv4 src", "passthru"), unknown);
    assert_eq!(answer("ntnic", "eth / ipv4 src", "queue 1 / mark 1"), "taken");
    let too_big = "EINVAL Unspecified Operation failed";
    assert_eq!(answer("ntnic", "eth dst / ipv6 src dst", "queue 1"), too_big);
    assert_eq!(answer("ntnic", "eth / ipv6 src dst", "queue 1"), "taken");
    let no_fate = "ENOTSUP Action Queue, RSS, drop or forward information must be set";
    assert_eq!(answer("ntacc", "eth / ipv4 src", "mark 1"), no_fate);
    assert_eq!(answer("ntacc", "eth / ipv4 src", "queue 1 / mark 1"), "taken");
}

#[test]
fn age_is_for_some() {
    let list = "queue 1 / age 5";
    let unsupported = "ENOTSUP Action action not supported";
    assert_eq!(answer("cx5", "eth / ipv4", list), unsupported);
    assert_eq!(answer("cx6dx", "eth / ipv4", list), "taken");
    let root = "EINVAL Unspecified Action AGE is not supported for flow in group 0";
    assert_eq!(answer("ntnic", "eth / ipv4", list), root);
    let group = Attributes { group: 1, ..INGRESS };
    create_with(&mut nic("ntnic"), group, "eth / ipv4", list).unwrap();
}

#[test]
fn a_placeholder_has_no_rules() {
    let none = "ENOSYS Unspecified Function not implemented";
    assert_eq!(answer("n6010", "eth / ipv4 src", "queue 1"), none);
}

#[test]
fn attributes_are_refused_in_each_drivers_words() {
    let group = Attributes { group: 1, ..INGRESS };
    let priority = Attributes { priority: 1, ..INGRESS };
    let egress = Attributes { egress: true, ..INGRESS };
    let transfer = Attributes { transfer: true, ..INGRESS };
    let nothing = Attributes { ingress: false, ..INGRESS };
    for (personality, attributes, expected) in [
        ("x710-17.02", group, "EINVAL AttrGroup Not support group."),
        ("x710-17.02", priority, "EINVAL AttrPriority Not support priority."),
        ("x710-17.02", egress, "EINVAL AttrEgress Not support egress."),
        ("x710-17.02", nothing, "EINVAL AttrIngress Only support ingress."),
        ("x710", transfer, "EINVAL AttrTransfer Not support transfer."),
        ("e810", group, "EINVAL AttrGroup Not support group."),
        ("e810", priority, "EINVAL Action Invalid action type"),
        ("cx5", group, "taken"),
        ("cx5", Attributes { priority: 21_844, ..group }, "taken"),
        (
            "cx5",
            Attributes { priority: 21_845, ..group },
            "ENOTSUP AttrPriority priority out of range",
        ),
        ("ntacc", group, "ENOTSUP AttrGroup Attribute groups are not supported"),
        ("ntacc", Attributes { priority: 62, ..INGRESS }, "taken"),
        ("ideal", Attributes { group: 7, priority: 9, ..INGRESS }, "taken"),
    ] {
        let pattern = "eth / ipv4 src dst";
        let created = create_with(&mut nic(personality), attributes, pattern, "queue 1 / mark 1");
        let answer = created.map_or_else(told, |_| "taken".to_owned());
        assert_eq!(answer, expected, "{personality} {attributes:?}");
    }
}
