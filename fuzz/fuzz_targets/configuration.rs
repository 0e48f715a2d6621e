// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a configuration: no panic; what is accepted is, printed, a configuration of the
//! same plan; what is refused is refused at a place in the file, in one line for each problem.
//!
//! Input: edits of a configuration with every key.
#![no_main]

mod edits;

use edits::edited;
use libfuzzer_sys::fuzz_target;
use millrace::fuzzing::{Refusal, plan};

const EVERY_KEY: &str = r#"
[eal]
huge = false
memory_mb = 1024
mbufs = 65_536
mbuf_data_bytes = 4096
extra = ["--single-file-segments", "\u00e9"]

[[pair]]
a = "0000:18:00.2,mprq_en=1"
b = "18:00.3"
workers = [1, 2]
rx_descriptors = 512
tx_descriptors = 256

[[pair]]
a = "net_af_packet0,iface=eth1"
b = "net_null1,copy=1"

[table]
capacity = 2_097_152
capacity_ipv6 = 524_288
when_full = "drop"
zone = "inner-vlan"

[policy]
malformed = "drop"

[timeouts]
tcp_syn_sent = 3
tcp_established = 86400
tcp_close = 2.5
udp_first = 4
udp_multiple = 60
icmp_first = 0.25
icmp_reply = 1
other_first = 7
other_multiple = 8
"#;

/// A plan as it is printed once every value stands in a file.
fn without_origins(shown: &str) -> String {
    let value = |line: &str| {
        let origins = [" # default", " # computed"];
        let value = origins.iter().find_map(|origin| line.strip_suffix(origin));
        value.unwrap_or(line).trim_end().to_owned() + "\n"
    };
    shown.lines().map(value).collect()
}

fn assert_within(file: &[u8], refusal: &Refusal) {
    let lines: Vec<_> = file.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
    assert_eq!(refusal.message.split('\n').count(), refusal.places.len(), "{refusal:?}");
    let is_control = |character: char| character.is_control() && character != '\n';
    assert!(!refusal.message.contains(is_control), "{refusal:?}");
    for (line, column) in refusal.places.iter().flatten() {
        let length = lines[line - 1].chars().count();
        assert!((1..=length + 1).contains(column), "{refusal:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let file = edited(EVERY_KEY.as_bytes().to_vec(), data);
    match plan(&file) {
        Ok(shown) => match plan(shown.as_bytes()) {
            Ok(again) => assert_eq!(again, without_origins(&shown)),
            Err(refusal) => panic!("what is printed is refused: {shown}\n{refusal:?}"),
        },
        Err(refusal) => assert_within(&file, &refusal),
    }
});
