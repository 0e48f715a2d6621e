// SPDX-License-Identifier: BSD-3-Clause
//! Tests every key of a profile: its effect, its note or its error, each with the line.

use crate::{bind, parse, profile, udp_exchange};
use proptest::prelude::*;
use traffic::trex::{Capture, Decimal, Missing, Profile, ProfileError};

/// Values that are refused: keys of the outermost map from line 7 on, keys of the template, and the
/// beginning of the error message.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "", "p.yaml:8: cap_info has no cps"),
    ("", "cps: 0", "p.yaml:9: cps: \"0\" is not allowed; allowed: a number from 0.000001 to"),
    ("", "cps: -1", "p.yaml:9: cps: \"-1\" is not allowed"),
    ("", "cps: fast", "p.yaml:9: cps: \"fast\" is not allowed"),
    ("", "cps: [1]", "p.yaml:9: cps: a list of 1 is not allowed"),
    ("", "cps:", "p.yaml:9: cps: an empty value is not allowed"),
    ("", "cps: 1\ncps: 2", "p.yaml:10: cps is given twice, first on line 9"),
    ("", "cps: 1\nname: b", "p.yaml:10: name is given twice, first on line 8"),
    ("", "cps: 1\nipg: -5", "p.yaml:10: ipg: \"-5\" is not allowed"),
    ("", "cps: 1\nrtt: 1000000001", "p.yaml:10: rtt: \"1000000001\" is not allowed"),
    ("", "cps: 1\nw: 0", "p.yaml:10: w: \"0\" is not allowed; allowed: a whole number from 1 to"),
    ("", "cps: 1\nw: 1.5", "p.yaml:10: w: \"1.5\" is not allowed"),
    ("", "cps: 1\nlimit: 0", "p.yaml:10: limit: \"0\" is not allowed"),
    ("", "cps: 1\nlimit: 4294967296", "p.yaml:10: limit: \"4294967296\" is not allowed"),
    ("", "cps: 1\ncap_ipg: maybe", "p.yaml:10: cap_ipg: \"maybe\" is not allowed; allowed: true"),
    ("", "cps: 1\nclient_pool: c1", "p.yaml:10: client_pool: \"c1\" is not allowed; allowed: the"),
    ("", "cps: 1\nserver_pool: s1", "p.yaml:10: server_pool: \"s1\" is not allowed"),
    ("", "cps: 1\nserver_addr: 1.2.3", "p.yaml:10: server_addr: \"1.2.3\" is not allowed"),
    ("", "cps: 1\none_app_server: 1", "p.yaml:10: one_app_server: it needs server_addr"),
    ("", "cps: 1\nkeep_src_port: 2", "p.yaml:10: keep_src_port: \"2\" is not allowed"),
    ("", "cps: 1\nplugin_id: x", "p.yaml:10: plugin_id: \"x\" is not allowed"),
    ("", "cps: 1\nplugin_id: 3", "p.yaml:10: plugin_id 3 is not supported: dyn_pyload"),
    ("", "cps: 1\nplugin_id: 4", "p.yaml:10: plugin_id 4 is not supported: its HTTP"),
    ("", "cps: 1\nplugin_id: 5", "p.yaml:10: plugin_id 5 is not supported: its DHCP"),
    ("", "cps: 1\nplugin_id: 6", "p.yaml:10: plugin_id 6 is not supported: TRex has no such"),
    ("", "cps: 1\nplugin_id: 1\nlimit: 5", "p.yaml:10: plugin_id: it excludes limit"),
    ("", "cps: 1\nfirst_from: both", "p.yaml:10: first_from: \"both\" is not allowed; allowed: cl"),
    ("", "cps: 1\ndyn_pyload:\n- pkt_id: 1", "p.yaml:10: dyn_pyload is not supported: its plugin"),
    ("", "cps: 1\nmulti_flow_enabled: true", "p.yaml:10: multi_flow_enabled is not supported"),
    ("", "cps: 1\nflows_dirs: [1]", "p.yaml:10: flows_dirs is not supported"),
    ("", "cps: 1\nip_header_offset: 28", "p.yaml:10: ip_header_offset is not supported"),
    ("", "cps: 1\nmax_ip_tunnels: 1", "p.yaml:10: max_ip_tunnels is not supported"),
    ("", "cps: 1\nlimt: 5", "p.yaml:10: limt is not a key of cap_info; did you mean limit?"),
    (
        "durtion: 1",
        "cps: 1",
        "p.yaml:7: durtion is not a key of the profile; did you mean duration?",
    ),
    ("duration: 1", "cps: 1", "p.yaml:7: duration is given twice, first on line 1"),
    ("cap_ipg: 3", "cps: 1", "p.yaml:7: cap_ipg: \"3\" is not allowed"),
    ("cap_ipg_min: 3", "cps: 1", "p.yaml:7: cap_ipg_min: it needs cap_override_ipg"),
    ("cap_override_ipg: 3", "cps: 1", "p.yaml:7: cap_override_ipg: it needs cap_ipg_min"),
    ("cap_ipg_min: x", "cps: 1", "p.yaml:7: cap_ipg_min: \"x\" is not allowed"),
    ("vlan: 1", "cps: 1", "p.yaml:7: vlan: \"1\" is not allowed; allowed: a map of keys"),
    ("vlan: {vlan0: 1}", "cps: 1", "p.yaml:7: vlan has no enable"),
    ("vlan: {enable: 1, vlan0: 1}", "cps: 1", "p.yaml:7: vlan has no vlan1"),
    ("vlan: {enable: 1, vlan0: 4096, vlan1: 2}", "cps: 1", "p.yaml:7: vlan0: \"4096\" is not"),
    (
        "vlan: {enabled: 1}",
        "cps: 1",
        "p.yaml:7: enabled is not a key of vlan; did you mean enable?",
    ),
    ("mac_override_by_ip: 3", "cps: 1", "p.yaml:7: mac_override_by_ip: \"3\" is not allowed"),
    ("src_ipv6: [1, 2, 3, 4, 5, 6]", "cps: 1", "p.yaml:7: src_ipv6: it needs dst_ipv6"),
    ("dst_ipv6: [1, 2, 3, 4, 5, 6]", "cps: 1", "p.yaml:7: dst_ipv6: it needs src_ipv6"),
    ("src_ipv6: [1, 2, 3, 4, 5]", "cps: 1", "p.yaml:7: src_ipv6: a list of 5 is not allowed"),
    ("src_ipv6: [1, 2, 3, 4, 5, 0x10000]", "cps: 1", "p.yaml:7: src_ipv6: \"0x10000\" is not"),
    ("groups: []", "cps: 1", "p.yaml:7: groups is not supported: it belongs to a file of --client"),
    ("cap_info: []", "cps: 1", "p.yaml:8: cap_info is given twice, first on line 7"),
    ("generator: {}", "cps: 1", "p.yaml:7: generator is given twice, first on line 2"),
    ("? [a]\n: b", "cps: 1", "p.yaml:7: a key: a list of 1 is not allowed; allowed: a word"),
];

#[test]
fn errors_name_the_line_the_key_and_the_way_out() {
    for (more, template, expected) in REFUSED {
        let text = profile(more, template);
        let error = Profile::parse(&text, "p.yaml").map(|_| ()).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}\n{text}");
    }
}

/// Maps of the generator that are refused, and the beginning of the error message.
const REFUSED_GENERATORS: &[(&str, &str)] = &[
    ("", "p.yaml:2: generator: an empty value is not allowed; allowed: a map"),
    ("clients_start: 1.0.0.1", "p.yaml:3: generator has no clients_end"),
    ("clients_end: 1.0.0.1", "p.yaml:3: generator has no clients_start"),
    ("clients_start: 1.0.0.9\nclients_end: 1.0.0.1", "p.yaml:4: clients_end: \"1.0.0.1\" is not"),
    ("clients_start: 1.0.0.1\nclients_end: 1.0.0.9", "p.yaml:3: generator has no servers_start"),
    ("clients_start: x\nclients_end: 1.0.0.1", "p.yaml:3: clients_start: \"x\" is not allowed"),
    ("generator_clients: 3", "p.yaml:3: generator_clients: \"3\" is not allowed; allowed: a list"),
    ("generator_clients: []", "p.yaml:3: generator_clients: a list of 0 is not allowed"),
    ("generator_clients:\n- ip_start: 1.0.0.1", "p.yaml:4: generator_clients has no name"),
    ("generator_clients:\n- name: c", "p.yaml:4: generator_clients has no ip_start"),
    ("generator_clients:\n- track_ports: 1", "p.yaml:4: track_ports is not a key of generator_cl"),
];

#[test]
fn errors_in_the_generator_name_their_line() {
    for (generator, expected) in REFUSED_GENERATORS {
        let text = format!("- duration: 1\n  generator:\n{}", crate::lines(generator, "    "));
        let text = format!("{text}  cap_info: [{{name: a, cps: 1}}]\n");
        let error = Profile::parse(&text, "p.yaml").map(|_| ()).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}\n{text}");
    }
    for (key, value) in [
        ("distribution", "poisson"),
        ("dual_port_mask", "1.0"),
        ("tcp_aging", "-1"),
        ("udp_aging", "65536"),
        ("min_client", "1"),
        ("clients_start", "16.0.0.1"),
    ] {
        let text = profile("", "cps: 1").replacen(
            "    clients_start",
            &format!("    {key}: {value}\n    clients_start"),
            1,
        );
        let error = Profile::parse(&text, "p.yaml").map(|_| ()).expect_err(&text).to_string();
        assert!(
            error.starts_with(&format!("p.yaml:3: {key}")) || error.contains("first on line 3")
        );
    }
}

#[test]
fn keys_without_effect_are_noted() {
    for (more, template, line, words) in [
        ("mac: [0, 0, 0, 1, 0, 0]", "cps: 1", 7, "mac is ignored"),
        ("tw: {buckets: 1024, levels: 3}", "cps: 1", 7, "tw is ignored"),
        ("wlength: 5", "cps: 1", 7, "wlength is ignored"),
        ("cap_ipg_min: 3\ncap_override_ipg: 5", "cps: 1", 7, "cap_ipg_min has no effect"),
        ("one_app_server: true", "cps: 1", 7, "one_app_server is ignored"),
        ("", "cps: 1\nwlength: 5", 10, "wlength is ignored"),
        ("", "cps: 1\nserver_addr: 48.0.0.7", 10, "server_addr is ignored: one_app_server is not"),
        ("", "cps: 1\nplugin_id: 1", 10, "plugin_id 1: payloads are sent as captured"),
        ("", "cps: 1\nplugin_id: 2", 10, "plugin_id 2: payloads are sent as captured"),
        (
            "src_ipv6: [1,2,3,4,5,6]\ndst_ipv6: [1,2,3,4,5,6]",
            "cps: 1",
            7,
            "frames are sent as IPv6",
        ),
    ] {
        let parsed = parse(&profile(more, template));
        let [note] = parsed.notes() else { panic!("{more} {template}: {:?}", parsed.notes()) };
        assert_eq!(note.place.line, line, "{note}");
        assert!(note.text.starts_with(words), "{note}");
        assert_eq!(note.to_string(), format!("p.yaml:{line}: {}", note.text));
    }
    let generator = "clients_per_gb: 201\n    min_clients: 101\n    clients_start";
    let text = profile("", "cps: 1").replacen("clients_start", generator, 1);
    let notes: Vec<String> = parse(&text).notes().iter().map(ToString::to_string).collect();
    let [old, older] = &notes[..] else { panic!("{notes:?}") };
    assert!(old.starts_with("p.yaml:3: clients_per_gb is ignored"), "{old}");
    assert!(older.starts_with("p.yaml:4: min_clients is ignored"), "{older}");
}

#[test]
fn keys_with_a_meaning_are_accepted_in_every_form() {
    for (more, template) in [
        ("cap_ipg: true\ncap_ipg_min: 30\ncap_override_ipg: 200", "cps: 1"),
        ("cap_ipg: false", "cps: 2.776\nipg: 10000\nrtt: 0.5\nw: 4\nlimit: 199"),
        ("vlan: {enable: 0}", "cps: 1\nname2: x"),
        ("vlan: {enable: 1, vlan0: 100, vlan1: 0xc8}", "cps: 1\ncap_ipg: yes"),
        ("mac_override_by_ip: true", "cps: 1\nkeep_src_port: true"),
        ("mac_override_by_ip: 2", "cps: 1\nplugin_id: 0\nlimit: 3"),
        ("", "cps: \"10\"\nclient_pool: default\nserver_pool: default"),
        ("", "cps: 1\nserver_addr: 48.0.0.7\none_app_server: true\nfirst_from: server"),
        ("", "cps: 1\none_app_server: false"),
    ] {
        let text = profile(more, &template.replace("\nname2: x", ""));
        let parsed = parse(&text);
        assert_eq!(parsed.notes(), [], "{text}");
        assert_eq!(parsed.capture_names(), ["a.pcap"]);
        assert_eq!(parsed.duration(), Some(Decimal::from_whole(10)));
    }
}

#[test]
fn other_shapes_are_no_profile() {
    for (text, expected) in [
        ("", "p.yaml:1: this is not the YAML of such a file: it is empty"),
        ("\n# only a comment\n", "p.yaml:1: this is not the YAML of such a file: it is empty"),
        ("5", "p.yaml:1: the profile: \"5\" is not allowed; allowed: a list with one map"),
        ("[]", "p.yaml:1: the profile: a list of 0 is not allowed"),
        ("- 1\n- 2", "p.yaml:1: the profile: a list of 2 is not allowed"),
        ("- 1", "p.yaml:1: the profile: \"1\" is not allowed; allowed: a map of keys"),
        ("vlan: true\ngroups:\n- count: 1", "p.yaml:2: groups is not supported: it belongs to a f"),
        (
            "duration: 1",
            "p.yaml:1: the profile: a map is not allowed; allowed: a list with one map:",
        ),
        ("- duration: 1", "p.yaml:1: the profile has no generator; add it"),
        ("- a: [", "p.yaml:"),
        ("- a\n---\n- b", "p.yaml:2: this is not the YAML of such a file: a second document"),
        ("- &a [*a]", "p.yaml:1: this is not the YAML of such a file: "),
    ] {
        let error = Profile::parse(text, "p.yaml").map(|_| ()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
}

#[test]
fn attacks_by_size_and_depth_end_at_a_limit() {
    let bomb = (0..15).fold("- &a0 [x, x]\n".to_owned(), |text, level| {
        format!("{text}- &a{} [{}]\n", level + 1, vec![format!("*a{level}"); 9].join(", "))
    });
    for (text, words) in [
        ("[".repeat(200_000), "not the YAML"),
        ("{a: ".repeat(200_000), "not the YAML"),
        ("- ".repeat(200_000), "more than 16 lists and maps"),
        ("- ".repeat(17), "more than 16 lists and maps"),
        ("- ".repeat(16), "a list of 1 is not allowed; allowed: a map"),
        ("? ".repeat(200_000), "more than 16 lists and maps"),
        (format!("[{}]", "a,".repeat(200_000)), "more than 100000 values"),
        ("#".repeat(2_000_000), "2000000 bytes are too many"),
        (bomb, "a list of 16 is not allowed"),
    ] {
        let error = Profile::parse(&text, "p.yaml").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.len() < 300, "{error}");
    }
}

#[test]
fn aliases_stand_for_their_node() {
    let text = profile("", "cps: 5").replace("    - name", "    - &t\n      name") + "    - *t\n";
    let capture = udp_exchange();
    let load = bind(&text, &capture).load(Decimal::ONE, Default::default());
    assert_eq!(load.flows_per_second, 10.0);
}

#[test]
fn missing_captures_are_named_together() {
    let text =
        profile("", "cps: 5") + "    - name: b.pcap\n      cps: 3\n    - {name: c, cps: 1}\n";
    let parsed = parse(&text);
    let has_b = |name: &str| (name == "b.pcap").then(udp_exchange);
    let error = parsed.bind(has_b, Missing::Refuse).map(|_| ()).unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    let [a, c] = &lines[..] else { panic!("{error}") };
    assert!(a.starts_with("p.yaml:8: a.pcap is missing"), "{a}");
    assert!(c.starts_with("p.yaml:12: c is missing"), "{c}");
    assert!(matches!(error, ProfileError::MissingCaptures(missing) if missing.len() == 2));

    let traffic = parsed.bind(has_b, Missing::Synthesise).unwrap();
    let notes: Vec<String> = traffic.notes().iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].starts_with("p.yaml:8: a.pcap is missing: a UDP frame"), "{}", notes[0]);
    let load = traffic.load(Decimal::ONE, Default::default());
    // Missing captures: 5 and 1 flows of one frame. The other capture: 3 flows of three frames.
    assert_eq!(load.total().packets_per_second, 15.0);
}

#[test]
fn captures_that_cannot_be_replayed_are_refused() {
    let text = profile("", "cps: 5");
    for (capture, words) in [
        (Capture::default(), "p.yaml:8: a.pcap: frame 1 is missing: the capture is empty"),
        (crate::capture([vec![0; 60]]), "a.pcap: frame 1 is not an IPv4 or IPv6 packet"),
        (crate::capture([vec![]]), "a.pcap: frame 1 is not an IPv4 or IPv6 packet"),
    ] {
        let bound = parse(&text).bind(|_| Some(capture.clone()), Missing::Refuse);
        let error = bound.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_limit_above_the_tuples_is_refused() {
    let pools = "clients_start: 16.0.0.1\n    clients_end: 16.0.0.255";
    let small = profile("", "cps: 1\nlimit: 200000")
        .replace(pools, "clients_start: 16.0.0.1\n    clients_end: 16.0.0.1")
        .replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.1");
    let bound = parse(&small).bind(|_| Some(udp_exchange()), Missing::Refuse);
    let error = bound.map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("p.yaml:10: limit: 200000 flows are more than the 64512 different"));
    let wide = profile("", "cps: 1\nlimit: 200000");
    assert!(parse(&wide).bind(|_| Some(udp_exchange()), Missing::Refuse).is_ok());
}

#[test]
fn tuples_that_come_again_too_early_are_noted() {
    let text =
        profile("", "cps: 1000").replacen("clients_start", "udp_aging: 10\n    clients_start", 1);
    let text = text.replace("servers_end: 48.0.255.255", "servers_end: 48.0.0.1");
    let traffic = bind(&text, &udp_exchange());
    // There are 255 clients with 64512 ports each, and a thousand flows begin per second.
    assert!(traffic.aging_notes(Decimal::ONE).is_empty());
    let notes = traffic.aging_notes(Decimal::from_whole(2000));
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.to_string().starts_with("p.yaml:9: five-tuples repeat after 8.225 s, sooner"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = Profile::parse(&text, "p.yaml");
    }

    #[test]
    fn any_mixture_of_yaml_is_read_or_refused(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "- ", "\n", "  ", "    ", "name: ", "cps: ", "1", "x", "[", "]", "{", "}", ": ",
                "generator:", "cap_info:", "&a ", "*a", "? ", "'", "\"", "|", ">", "---", "...",
                "%YAML", "!!str ", "# ", ", ", "duration: ", "<<: ", "\t", "\r\n", "\u{feff}", "é",
                "clients_start: 1.0.0.1", "limit: 5", "vlan: ", "plugin_id: 1",
            ]),
            0..60,
        ),
    ) {
        let _ = Profile::parse(&parts.concat(), "p.yaml");
    }

    /// One character of a profile is replaced, as by a typing error.
    #[test]
    fn a_slip_in_a_profile_is_read_or_refused(at: prop::sample::Index, by in "\\PC{0,3}") {
        let text = Profile::built_in_text("imix_fast_1g").unwrap();
        let at = at.index(text.len());
        let changed = format!("{}{by}{}", &text[..at], &text[at + 1..]);
        if let Ok(profile) = Profile::parse(&changed, "p.yaml") {
            let _ = profile.bind(|_| None, Missing::Synthesise);
        }
    }
}
