// SPDX-License-Identifier: BSD-3-Clause
//! Rules as text: what is written is read again, VPP's lines are read, and faults are named.

use acl::{Action, AddressSet, CtStates, MaskedValue, Ranges, Rule, RuleError, parse_rule};
use proptest::prelude::*;
use std::sync::Arc;

fn read(text: &str) -> Result<Rule, RuleError> {
    let set = |name: &str| {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        (name == "office").then(|| Arc::new(AddressSet { name: name.into(), networks }))
    };
    parse_rule(text, &set)
}

#[test]
fn rules_are_read_as_they_are_written() {
    for text in [
        "permit",
        "deny src 10.0.0.0/8",
        "ipv4 reject",
        "deny log src 10.0.0.0/8",
        "ipv6 permit+reflect log",
        "count log",
        "permit no-offload proto udp",
        "permit+reflect log no-offload",
        "reject src 10.0.0.0/8 proto tcp dport 23",
        "ipv6 count",
        "permit+reflect src 10.0.0.0/8,192.0.2.1/32 dst 48.0.0.0/8 proto tcp dport 80,8000-8100",
        "deny src @office dst 2001:db8::1/128",
        "permit proto tcp,udp dport 53",
        "ipv4 permit proto icmp icmp-type 8 icmp-code 0",
        "deny proto tcp tcp-flags syn/syn+ack",
        "deny proto tcp tcp-flags none/fin+syn+rst+ack",
        "deny fragment later",
        "permit zone 10,20-29 ct established,related",
        "permit mark 0x10/0xf0",
        "permit mark 0x7",
        "permit proto tcp set-mark 0x1 set-label 0x10/0xf0",
        "permit+reflect log mark 0x1/0x1 set-mark 0x2/0x3",
        "count set-label 0xffffffffffffffffffffffffffffffff",
    ] {
        let rule = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rule.to_string(), text);
        assert_eq!(read(&rule.to_string()), Ok(rule));
    }
}

/// The text of `show acl-plugin acl` of VPP, and of its command `set acl-plugin acl`.
#[test]
fn lines_of_vpp_are_read() {
    let rule =
        read("ipv4 permit+reflect src 10.0.0.0/8 dst 0.0.0.0/0 proto 6 sport 1-65535 dport 80")
            .unwrap();
    assert_eq!(rule.action, Action::PermitReflect);
    assert_eq!(rule.criteria.proto, Ranges::one(6));
    assert_eq!(rule.criteria.sport, Ranges::new(vec![[1, 65_535]]));
    assert_eq!(rule.criteria.dport, Ranges::one(80));
    let same = "          0: ipv4 permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 \
                dport 0-65535";
    let rule = read(same).unwrap();
    assert!(rule.criteria.proto.is_any() && rule.criteria.sport.is_any());
    let flags = "1: ipv4 deny src 1.2.3.0/24 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 0-65535 \
                 tcpflags 2 mask 18";
    assert_eq!(read(flags).unwrap().criteria.tcp_flags, Some(MaskedValue { value: 2, mask: 18 }));
    let icmp = "ipv6 permit src ::/0 dst ::/0 proto 58 sport 128 dport 0-255";
    assert_eq!(read(icmp).unwrap().criteria.icmp_type, Ranges::one(128));
    assert_eq!(read("permit ipv4 src 1.1.1.1/32 tag web").unwrap().criteria.ct, CtStates::ANY);
}

#[test]
fn faults_are_named_with_their_column() {
    for (text, column, says) in [
        ("", 1, "an action is missing"),
        ("allow src 10.0.0.0/8", 1, "no action; write permit, permit+reflect, deny"),
        ("ipv4", 5, "an action is missing"),
        ("permit deny", 8, "has an action already"),
        ("deny log log", 10, "log is written twice"),
        ("deny set-mark 1", 1, "set-mark and set-label need permit, permit+reflect, or count"),
        ("reject set-label 1", 1, "need permit"),
        ("permit set-mark 0x100000000", 17, "VALUE/MASK, of 32 bits"),
        ("permit set-mark 3/1", 17, "not in its mask"),
        ("permit set-label +1", 18, "of 128 bits"),
        ("permit set-mark 1 set_mark 2", 19, "written twice"),
        ("permit set-mark", 16, "set-mark has no value"),
        ("deny no-offload", 1, "no-offload needs permit"),
        ("log src 10.0.0.0/8", 5, "no action"),
        ("ipv4 ipv6 permit", 6, "has an IP version already"),
        ("    permit proto tcpx", 18, "no protocol"),
        ("deny proto icmp icmp_type 8 icmp-type 0", 29, "written twice"),
        ("permit src", 11, "src has no value"),
        ("permit src 10.0.0.1/8", 12, "write 10.0.0.0/8 or 10.0.0.1"),
        ("permit src 10.0.0.0/33", 12, "no network"),
        ("permit src ten", 12, "no network"),
        ("permit src 10.0.0.0/8,2001:db8::/32", 12, "write two rules"),
        ("permit src @home", 12, "no set \"home\""),
        ("permit src 10.0.0.0/8 src any", 23, "src is written twice"),
        ("permit src 10.0.0.0/8 dst 2001:db8::/32", 1, "both IPv4 and IPv6"),
        ("ipv6 permit src 10.0.0.0/8", 1, "both IPv4 and IPv6"),
        ("ipv6 permit proto icmp icmp-type 8", 1, "both IPv4 and IPv6"),
        ("permit proto tpc", 14, "no protocol"),
        ("permit proto tcp dport 90-80", 24, "write 80-90"),
        ("permit proto tcp dport 65536", 24, "no port"),
        ("permit proto tcp dport ", 24, "dport has no value"),
        ("permit proto gre dport 1", 1, "gre has no ports"),
        ("permit icmp-type 8", 1, "need proto icmp"),
        ("permit proto icmp sport 256", 1, "end at 255"),
        ("deny proto tcp tcp-flags sin", 26, "no TCP flag"),
        ("deny proto tcp tcp-flags syn/ack", 1, "no packet can match"),
        ("deny tcp-flags syn", 1, "needs proto tcp"),
        ("deny fragment middle", 15, "write none, first, or later"),
        ("deny ct old", 9, "no state"),
        ("deny mark 3/1", 11, "no packet can match"),
        ("deny colour red", 6, "is no field of a rule; these are: src"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.message.contains(says), "{text}: {error}");
        assert_eq!(error.column, column, "{text}: {error}");
    }
}

proptest! {
    /// No text makes the parser fail, and what it reads it writes so that it reads the same.
    #[test]
    fn any_text_is_read_or_refused(
        words in prop::collection::vec(prop::sample::select(vec![
            "permit", "deny", "permit+reflect", "reject", "count", "log", "no-offload", "ipv4",
            "ipv6", "src", "dst", "proto",
            "sport", "dport", "icmp-type", "icmp-code", "tcp-flags", "tcpflags", "mask", "fragment",
            "zone", "ct", "mark",
            "set-mark", "set-label", "any", "0", "6", "tcp", "icmp", "icmpv6", "10.0.0.0/8", "::/0",
            "@office", "1-2", "80", "syn", "syn/ack", "later", "new", "0x1/0x3", "7:", "\u{e9}",
            "/",
            "-", ",",
        ]), 0..12),
    ) {
        if let Ok(rule) = read(&words.join(" ")) {
            prop_assert_eq!(read(&rule.to_string()), Ok(rule.clone()), "{}", rule);
        }
    }
}
