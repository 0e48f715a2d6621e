// SPDX-License-Identifier: BSD-3-Clause
//! Tests that contradicting options of `millrace gen` are refused.

use super::*;
use clap::{Args, Command, FromArgMatches};

fn parse(line: &str) -> Result<GenArgs, clap::Error> {
    let words = std::iter::once("gen").chain(line.split_whitespace());
    let found = GenArgs::augment_args(Command::new("gen")).try_get_matches_from(words)?;
    GenArgs::from_arg_matches(&found)
}

#[test]
fn the_selftest_takes_a_seed_and_quiet_only() {
    assert!(parse("--selftest --seed 7 --quiet").is_ok());
    for options in [
        "eth1",
        "--backend sockets",
        "--backend dpdk",
        "-f imix_article",
        "--pcapng trace.pcapng",
        "--rate 1kpps",
        "--verify",
        "--reflector",
        "--senders 2",
        "--receivers 2",
        "--workers 1",
        "--cpus 0",
        "--mtu 9000",
        "--gateway 10.0.0.1",
        "--payload dpdk-project",
        "--trex-cfg trex_cfg.yaml",
        "--stats off",
        "--late 2",
        "--interval 2",
        "--rx-descriptors 512",
        "--tx-descriptors 512",
        "--rx-burst 8",
        "--tx-burst 8",
    ] {
        let error = parse(&format!("--selftest {options}")).err().expect(options);
        assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{options}: {error}");
    }
}

#[test]
fn contradictions_are_refused() {
    let cpus = Cpus { online: vec![0, 1], allowed: vec![0, 1], ..Cpus::default() };
    let refused = |line: &str| parse(line).unwrap().refuse_contradictions(&cpus);
    assert!(refused("eth1 -f imix_article --rate 5kpps").unwrap_err().contains("-m M"));
    assert!(refused("eth1 --stats off --verify").unwrap_err().starts_with("--stats off"));
    assert_eq!(
        refused("eth1 --cpus 0-400").unwrap_err(),
        "--cpus: there is no cpu 2-400; the cpus here are 0-1"
    );
    assert_eq!(refused("eth1 --cpus 0,1,0").unwrap_err(), "--cpus: cpu 0 is named twice");
    for line in [
        "eth1",
        "eth1 --rate 5kpps",
        "eth1 -f imix_article",
        "eth1 -f streams.toml --rate 5kpps",
        "eth1 --stats off",
        "eth1 --stats full --verify",
        "eth1 --cpus 1,0",
    ] {
        assert_eq!(refused(line), Ok(()), "{line}");
    }
}

#[test]
fn streams_of_sockets_need_a_receiver() {
    let refused = |text: &str| {
        let spec = StreamSpec::from_pairs(0, pairs(text).unwrap()).unwrap();
        refuse_no_receiver(&spec).map_err(|error| error.to_string())
    };
    let address = refused("dst=0.0.0.0").unwrap_err();
    assert_eq!(address, "stream stream0: dst: address 0 has no receiver: name another");
    let port = refused("dport=0").unwrap_err();
    assert_eq!(port, "stream stream0: dport: port 0 has no receiver: name 1 to 65535");
    assert_eq!(refused("dst=127.0.0.1 dport=7"), Ok(()));
}
