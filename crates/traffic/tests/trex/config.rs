// SPDX-License-Identifier: BSD-3-Clause
//! Tests `trex_cfg.yaml`: the two forms that articles use, every key, and every error with its
//! line.

use proptest::prelude::*;
use traffic::trex::{Config, DualIf, Interface, Place, Platform, PortInfo, Thread};

/// A file with PCI ports, MAC addresses as lists, and `platform` beside the list.
const PCI: &str = "\
- port_limit: 2
  version: 2
  interfaces: [\"81:00.0\", \"0000:81:00.1\"]
  port_info:
    - dest_mac: [0x02,0x00,0x00,0x00,0x0d,0x01]
      src_mac:  [0x2,0x0,0x0,0x0,0xa,0x1]
    - dest_mac: [2, 0, 0, 0, 13, 2]
      src_mac:  [2, 0, 0, 0, 10, 2]
  port_bandwidth_gb: 25
  memory:
    dp_flows: 4000000

platform:
  master_thread_id: 0
  latency_thread_id: 1
  dual_if:
    - socket: 0
      threads: [2, 3, 4]
";

/// A file with vdevs, IP addresses, and `platform` inside the list.
const VDEV: &str = "\
### made by hand ###
- version: 2
  interfaces: ['--vdev=net_memif0,role=client,socket=/run/a b.sock', dummy]
  prefix: setup1
  limit_memory: 1024
  rx_desc: 4096
  tx_desc: 512
  c: 2
  port_info:
    - ip: 1.1.1.1
      default_gw: 1.1.1.2
    - dest_mac: \"3C:fd:fe:0:1:2\"
      src_mac: 00:00:00:00:00:00
  platform:
    master_thread_id: 0
    rx_thread_id: 5
    latency_thread_id: 9
    dual_if: [{socket: 1, threads: [0x10, 18]}]
";

fn place(line: usize) -> Place {
    Place { origin: "c.yaml".to_owned(), line }
}

fn thread(cpu: u32, line: usize) -> Thread {
    Thread { cpu, place: place(line) }
}

fn parse(text: &str) -> Config {
    Config::parse(text, "c.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn notes(config: &Config) -> Vec<String> {
    config.notes().iter().map(ToString::to_string).collect()
}

#[test]
fn the_form_of_the_first_article_is_read() {
    let config = parse(PCI);
    let names =
        |names: [&str; 2]| names.map(|name| Interface { place: place(3), name: name.into() });
    assert_eq!(config.interfaces, names(["81:00.0", "0000:81:00.1"]));
    let info = |line, last| PortInfo {
        place: place(line),
        dest_mac: Some([2, 0, 0, 0, 13, last]),
        src_mac: Some([2, 0, 0, 0, 10, last]),
        ip: None,
        default_gw: None,
    };
    assert_eq!(config.port_info, [info(5, 1), info(7, 2)]);
    let threads = [2, 3, 4].map(|cpu| thread(cpu, 18)).to_vec();
    let platform = Platform {
        master: thread(0, 14),
        receiver: thread(1, 15),
        dual_if: vec![DualIf { socket: 0, place: place(17), threads }],
    };
    assert_eq!(config.platform, Some(platform));
    assert_eq!(
        notes(&config),
        [
            "c.yaml:2: version is ignored: it means nothing here",
            "c.yaml:9: port_bandwidth_gb is ignored: the driver reports the speed of the link",
            "c.yaml:10: memory is ignored: it sizes memory of TRex",
            "c.yaml:13: platform stands beside the list; it is read as if it stood inside, \
             indented by two blanks",
        ]
    );
}

#[test]
fn the_form_of_the_second_article_is_read() {
    let config = parse(VDEV);
    let name = "net_memif0,role=client,socket=/run/a b.sock".to_owned();
    assert_eq!(config.interfaces, [Interface { place: place(3), name }]);
    assert_eq!(config.file_prefix.as_deref(), Some("setup1"));
    assert_eq!((config.rx_descriptors, config.tx_descriptors), (Some(4096), Some(512)));
    assert_eq!((config.threads, config.mtu), (Some(2), None));
    let [first, second] = &config.port_info[..] else { panic!("{:?}", config.port_info) };
    assert_eq!(first.ip, Some([1, 1, 1, 1].into()));
    assert_eq!(first.default_gw, Some([1, 1, 1, 2].into()));
    assert_eq!(second.dest_mac, Some([0x3c, 0xfd, 0xfe, 0, 1, 2]));
    assert_eq!(second.src_mac, None);
    let platform = config.platform.as_ref().unwrap();
    assert_eq!(platform.receiver, thread(5, 16));
    assert_eq!(platform.dual_if[0].threads, [thread(16, 18), thread(18, 18)]);
    assert_eq!(
        notes(&config),
        [
            "c.yaml:2: version is ignored: it means nothing here",
            "c.yaml:5: limit_memory is ignored: it sizes memory of TRex",
        ]
    );
}

#[test]
fn port_limit_and_dummy_leave_ports_out() {
    let names = |list: &str| {
        let config = parse(&format!("- interfaces: {list}\n"));
        config.interfaces.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(names("[eth0, eth1]\n  port_limit: 1"), ["eth0"]);
    assert_eq!(names("[eth0, eth1, eth2, eth3]\n  port_limit: 3"), ["eth0", "eth1", "eth2"]);
    assert_eq!(names("[eth0, dummy, dummy]"), ["eth0"]);
    assert_eq!(names("['--vdev=net_af_packet0,iface=v0']"), ["net_af_packet0,iface=v0"]);
}

/// Lines below `- interfaces: [a, b]` that are refused, and the beginning of the error message.
const REFUSED: &[(&str, &str)] = &[
    ("port_limt: 2", "c.yaml:2: port_limt is not a key of trex_cfg.yaml; did you mean port_limit?"),
    ("port_limit: 3", "c.yaml:2: port_limit: \"3\" is not allowed; allowed: a whole number from 1"),
    ("port_limit: 0", "c.yaml:2: port_limit: \"0\" is not allowed"),
    ("c: 2\nc: 3", "c.yaml:3: c is given twice, first on line 2"),
    ("c: 0", "c.yaml:2: c: \"0\" is not allowed"),
    ("rx_desc: 16", "c.yaml:2: rx_desc: \"16\" is not allowed; allowed: a whole number from 32"),
    ("tx_desc: 65536", "c.yaml:2: tx_desc: \"65536\" is not allowed"),
    ("port_mtu: 60", "c.yaml:2: port_mtu: \"60\" is not allowed"),
    ("prefix: a/b", "c.yaml:2: prefix: \"a/b\" is not allowed; allowed: up to 32 letters"),
    ("prefix: ..", "c.yaml:2: prefix: \"..\" is not allowed"),
    ("dpdk_devargs: [a]", "c.yaml:2: dpdk_devargs is not supported: write the arguments behind"),
    ("interfaces_vdevs: [a]", "c.yaml:2: interfaces_vdevs is not supported: write --vdev="),
    ("ext_dpdk_opt: [a]", "c.yaml:2: ext_dpdk_opt is not supported"),
    ("port_info: 5", "c.yaml:2: port_info: \"5\" is not allowed; allowed: a list of 1 to"),
    ("port_info:\n- ip: 1.2.3", "c.yaml:3: ip: \"1.2.3\" is not allowed; allowed: an IPv4"),
    ("port_info:\n- dst_mac: 1", "c.yaml:3: dst_mac is not a key of port_info; did you mean dest_"),
    ("port_info:\n- dest_mac: 1:2:3:4:5", "c.yaml:3: dest_mac: \"1:2:3:4:5\" is not allowed"),
    ("port_info:\n- dest_mac: 1:2:3:4:5:6:7", "c.yaml:3: dest_mac: \"1:2:3:4:5:6:7\" is not"),
    ("port_info:\n- dest_mac: +1:2:3:4:5:6", "c.yaml:3: dest_mac: \"+1:2:3:4:5:6\" is not"),
    ("port_info:\n- dest_mac: 100:2:3:4:5:6", "c.yaml:3: dest_mac: \"100:2:3:4:5:6\" is not"),
    ("port_info:\n- src_mac: [1,2,3]", "c.yaml:3: src_mac: a list of 3 is not allowed; allowed: a"),
    ("port_info:\n- src_mac: [1,2,3,4,5,256]", "c.yaml:3: src_mac: \"256\" is not allowed"),
    ("port_info:\n- tunnels: 1", "c.yaml:3: tunnels is not supported: frames are sent without"),
    ("platform: {master_thread_id: 0}", "c.yaml:2: platform has no latency_thread_id; add it"),
    ("platform: {rx_thread_id: 0}", "c.yaml:2: platform has no master_thread_id; add it"),
    ("platform:\n  dual_iff: 1", "c.yaml:3: dual_iff is not a key of platform; did you mean dual_"),
    (
        "platform: {master_thread_id: 0, rx_thread_id: 1, dual_if: [{threads: [1]}]}",
        "c.yaml:2: dual_if has no socket; add it",
    ),
    (
        "platform: {master_thread_id: 0, rx_thread_id: 1, dual_if: [{socket: 0, threads: [1,1]}]}",
        "c.yaml:2: threads: \"1\" is not allowed; allowed: a cpu that the list does not have yet",
    ),
    (
        "c: 2\nplatform:\n  master_thread_id: 0\n  rx_thread_id: 1\n  dual_if:\n  - \
         {socket: 0, threads: [2]}",
        "c.yaml:2: c: \"2\" is not allowed; allowed: at most 1, the cpus of the shortest threads",
    ),
];

#[test]
fn what_is_wrong_is_reported_with_its_line_and_the_way_out() {
    for (lines, expected) in REFUSED {
        let text = format!("- interfaces: [a, b]\n{}", crate::lines(lines, "  "));
        let error = Config::parse(&text, "c.yaml").expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
    for (text, expected) in [
        ("", "c.yaml:1: this is not the YAML of such a file: it is empty"),
        ("5", "c.yaml:1: trex_cfg.yaml: \"5\" is not allowed; allowed: a list with one map"),
        ("- c: 1", "c.yaml:1: trex_cfg.yaml has no interfaces; add it"),
        (
            "- interfaces: [dummy, a]",
            "c.yaml:1: interfaces: \"dummy\" is not allowed; allowed: a p",
        ),
        ("- interfaces: [dummy]", "c.yaml:1: interfaces: \"dummy\" is not allowed"),
        ("- interfaces: []", "c.yaml:1: interfaces: a list of 0 is not allowed"),
        ("- interfaces: [a]\nplatform:\n  x: 1", "c.yaml:3: x is not a key of platform"),
        (
            "- interfaces: [a]\nplatform:\n  dual_if: []\nc: 2",
            "c.yaml:4: c is not a key of the map beside the list",
        ),
        (
            "- interfaces: [a]\n  platform: 1\nplatform: 2",
            "c.yaml:3: platform is given twice, first on line 2",
        ),
    ] {
        let error = Config::parse(text, "c.yaml").map(|_| ()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
}

#[test]
fn keys_without_meaning_are_reported_with_their_lines() {
    let keys = "version limit_memory memory new_memory tw low_end low_end_core stack \
                port_bandwidth_gb port_speed interface_mask enable_zmq_pub zmq_pub_port \
                zmq_rpc_port telnet_port ezqm_ch_port";
    for key in keys.split_whitespace() {
        let config = parse(&format!("- interfaces: [a]\n  {key}: 1\n"));
        let notes = notes(&config);
        let expected = format!("c.yaml:2: {key} is ignored: ");
        assert!(notes.len() == 1 && notes[0].starts_with(&expected), "{key}: {notes:?}");
    }
    // A map without a list around it is accepted.
    assert_eq!(parse("interfaces: [a]\nc: 1").threads, Some(1));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(- |  )?[a-z_\\[\\]{}:,\"'0-9 \n-]{0,200}(\nplatform:)?.{0,20}") {
        let _ = Config::parse(&text, "c.yaml");
    }
}
