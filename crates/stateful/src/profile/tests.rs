// SPDX-License-Identifier: BSD-3-Clause
//! Tests the reading of profiles.

use super::*;
use crate::program::Step;

const PROFILE: &str = r#"
clients = "16.0.0.0-16.0.255.255"
servers = "48.0.0.0-48.0.0.255"

[timeouts]
answer_ms = 200

[[template]]
name = "short"
proto = "tcp"
port = 8080
cps = 99
continuous = true
client = [{repeat = 3, do = [{send = 20}, {receive = 20}]}]
server = [{repeat = 3, do = [{receive = 20}, {delay_ms = 50}, {send = 20}]}, "close"]

[[template]]
proto = "udp"
port = 5353
cps = 1
client = [{send = "hello"}, {delay_ms = [5, 10]}, {receive = 4}]
server = [{receive = 5}, {send = "bye!"}]
"#;

fn read(text: &str) -> Result<Profile, ProfileError> {
    Profile::from_toml(text, &|path| match path.to_str() {
        Some("some") => Ok(b"some".to_vec()),
        _ => Err("no such file".to_owned()),
    })
}

#[test]
fn a_profile_is_read() {
    let profile = read(PROFILE).unwrap();
    assert_eq!(profile.clients.count(), 65_536);
    assert_eq!(profile.servers.first(), IpAddr::from([48, 0, 0, 0]));
    assert_eq!(profile.client_ports, 1024..=65_535);
    assert_eq!((profile.timeouts.answer_ms, profile.timeouts.idle_ms), (200, 30_000));
    assert_eq!(profile.cps(), 100.0);
    let [tcp, udp] = &profile.templates[..] else { panic!("two templates") };
    assert_eq!((tcp.name.as_str(), tcp.port, tcp.is_continuous), ("short", 8080, true));
    assert_eq!((udp.name.as_str(), udp.transport), ("2", Transport::Udp));
    assert_eq!((tcp.client.sent().len(), tcp.client.received()), (60, 60));
    assert_eq!(tcp.server.step(1), Step::Delay(50_000, 50_000));
    assert_eq!(udp.client.step(1), Step::Delay(5000, 10_000));
    assert!(udp.server.sent().has(0, b"bye!"));
}

#[test]
fn connections_are_shared_by_rate() {
    let mut profile = read(PROFILE).unwrap();
    for (count, limits) in [(1000, [990, 10]), (7, [7, 0]), (150, [149, 1])] {
        profile.keep_open(count);
        let open: Vec<_> = profile.templates.iter().map(|it| it.limit.unwrap()).collect();
        assert_eq!(open, limits);
    }
}

/// Of two templates with the same port, each has every second server.
#[test]
fn templates_of_one_port_share_the_servers() {
    let text = PROFILE.replace("proto = \"udp\"\nport = 5353", "port = 8080");
    let profile = read(&text).unwrap();
    let at = |server| profile.template_at(Transport::Tcp, 8080, server);
    assert_eq!([0, 1, 2, 255].map(at), [Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!(profile.template_at(Transport::Udp, 8080, 0), None);
    let fault = read(&text.replace("48.0.0.0-48.0.0.255", "48.0.0.0")).unwrap_err().to_string();
    assert!(fault.starts_with("servers: 2 templates have tcp port 8080, so that each"), "{fault}");
}

/// Each fault is told with its place.
#[test]
fn faults_are_named() {
    let faults = [
        ("continuous = true", "continuos = true", "unknown field `continuos`"),
        ("cps = 99", "cps = 0", "template short: cps: connections per second must be more"),
        ("port = 8080", "port = 0", "template short: port: must be 1 to 65535"),
        ("port = 8080", "port = 80800", "80800"),
        ("{send = 20}", "{sent = 20}", "unknown variant `sent`, expected one of `send`"),
        ("{send = 20}", "{send = 20, receive = 1}", "an action has one verb; write two"),
        ("{send = 20}", "{}", "an action needs a verb"),
        ("{send = 20}", "\"stop\"", "unknown variant `stop`"),
        ("{send = 20}", "{send_hex = \"abc\"}", "send_hex: needs pairs of hexadecimal digits"),
        ("{delay_ms = 50}", "{delay_ms = 4294968}", "too long; the most are 4294967"),
        ("{send = \"hello\"}", "\"wait_for_close\"", "2: client: wait_for_close: UDP has no end"),
        ("repeat = 3, do", "do", "missing field `repeat`"),
        ("\"close\"", "\"hold\"", "short: server: hold: only clients hold"),
        ("repeat = 3, do", "repeat = 0, do", "template short: client: repeat: a loop needs"),
        ("{send = \"hello\"}", "{send = 2000}", "2000 bytes do not fit into a datagram"),
        (
            "{send = \"hello\"}",
            "{send_file = \"/none\"}",
            "send_file: cannot read /none: no such file",
        ),
        ("receive = 5", "receive = 6", "the server receives 6 bytes, but the other end sends 5"),
        ("48.0.0.0-48.0.0.255", "16.0.9.9", "have an address in common"),
        ("48.0.0.0-48.0.0.255", "2001:2::1-2001:2::9", "one range is IPv4, the other IPv6"),
        ("48.0.0.0-48.0.0.255", "48.0.0.9-48.0.0.1", "the last address is below the first"),
        ("5353", "5353\nlimit = 0", "limit: must be at least 1"),
        (
            "proto = \"udp\"",
            "proto = \"udp\"\ncapture = \"some\"",
            "2: client, server, proto: they",
        ),
        ("cps = 99", "cps = 99\nsessions = \"tcp\"", "sessions, pauses: they are for a template"),
    ];
    for (from, to, expected) in faults {
        let text = PROFILE.replacen(from, to, 1);
        assert_ne!(text, PROFILE, "{from}");
        let fault = read(&text).unwrap_err().to_string();
        assert!(fault.contains(expected), "{to}: {fault}");
    }
}

/// The same actions in both units and both forms of bytes, and the same profile as JSON.
#[test]
fn forms_of_the_same_profile_are_equal() {
    let profile = read(PROFILE).unwrap();
    for (from, to) in [
        ("{delay_ms = 50}", "{delay_us = 50000}"),
        ("{delay_ms = [5, 10]}", "{delay_us = [5000, 10000]}"),
        ("{send = \"bye!\"}", "{send_hex = \"62796521\"}"),
    ] {
        let text = PROFILE.replacen(from, to, 1);
        assert_ne!(text, PROFILE, "{from}");
        assert_eq!(read(&text).unwrap(), profile, "{to}");
    }
    assert_ne!(read(&PROFILE.replace("bye!", "bye?")).unwrap(), profile);
    let json = r#"{
        "clients": "16.0.0.0-16.0.255.255", "servers": "48.0.0.0-48.0.0.255",
        "timeouts": {"answer_ms": 200},
        "template": [
            {"name": "short", "proto": "tcp", "port": 8080, "cps": 99, "continuous": true,
             "client": [{"repeat": 3, "do": [{"send": 20}, {"receive": 20}]}],
             "server": [
                {"do": [{"receive": 20}, {"delay_us": 50000}, {"send": 20}], "repeat": 3}, "close"
             ]},
            {"proto": "udp", "port": 5353, "cps": 1.0, "limit": null,
             "client": [{"send": "hello"}, {"delay_ms": [5, 10]}, {"receive": 4}],
             "server": [{"receive": 5}, {"send_hex": "62796521"}]}
        ]
    }"#;
    let read_json = |text: &str| Profile::from_json(text, &|_| Err(String::new()));
    assert_eq!(read_json(json).unwrap(), profile);
    let fault = read_json(&json.replace("8080", "0")).unwrap_err().to_string();
    assert_eq!(fault, "template short: port: must be 1 to 65535");
    let fault = read_json(&json.replace("\"cps\": 99", "\"cps\": true")).unwrap_err().to_string();
    assert!(fault.contains("expected f64 at line"), "{fault}");
}
