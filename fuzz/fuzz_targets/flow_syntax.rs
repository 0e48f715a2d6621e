// SPDX-License-Identifier: BSD-3-Clause
//! Any text as commands of the flow shell: no panic; a rule that is read is, printed, the same
//! rule; what is wrong is said about a place in the line.
//!
//! Input: edits of a script with every kind of command.
#![no_main]

mod edits;

use edits::edited;
use libfuzzer_sys::fuzz_target;
use nic::flow::{Command, CompletionContext, complete, parse, print_rule};

const SCRIPT: &str = "\
flow create 0 group 1 priority 2 ingress pattern eth src is 02:00:00:00:00:01 / vlan vid is 5 / \
ipv4 src spec 10.0.0.0 src prefix 8 dst is 10.0.0.2 / tcp src spec 1 src last 9 src mask 0xffff / \
end actions queue index 1 / mark id 7 / count identifier 3 / end
flow create 1 transfer pattern ipv6 dst is 2001:db8::1 has_frag_ext is 1 / ipv6_frag_ext / udp / \
vxlan vni is 0x123456 / end actions rss func toeplitz level 2 types ipv4-tcp 0x20 end key 0102ff \
queues 0 1 end / age timeout 10 / jump group 3 / end
flow create 0 egress pattern any num is 2 / gre c_bit is 1 / gtpu teid is 9 / void / end actions \
port_id id 1 / represented_port ethdev_port_id 1 / drop / flag / passthru / void / end
flow validate 0 pattern end actions end # nothing
flow destroy 0 rule 1 rule 0x2
flow query 0 1 count
flow list 0 group 1
flow isolate 0 true
flow dump 0 rule 1
flow aged 0 destroy
flow create 0 user_id 7 ingress pattern raw relative is 0 search is 0 offset is -4 limit is 8 \
pattern_hex spec 0a0b pattern_hex mask ffff / l2tpv2 type data_l length is 5 / conntrack is 1 / \
arp_eth_ipv4 spa is 10.0.0.1 / meter color is red / end actions raw_encap index 4 / sample ratio 2 \
index 1 / modify_field op set dst_type ipv4_src src_type value src_value 0a width 8 / indirect 3 / \
end
set vxlan-with-vlan ip-version ipv6 vni 4 udp-src 4 ip-src ::1 vlan-tci 34 eth-src 02:00:00:00:00:01
set raw_encap 4 eth / ipv4 / udp dst is 4789 / vxlan vni is 2 / end_set
set conntrack rply scale 7 sent_end 9
flow indirect_action 0 create action_id 100 ingress action count / end
show port fdir 0
help ipv4
";

/// Reads a line of the flow shell; returns the line that means the same rule, where it has one.
/// What is wrong is said in one line, about characters of this one; completion offers only words
/// that go on with what stands there.
fn flow_command(line: &str) -> Option<String> {
    let world = CompletionContext { rules: vec![vec![0, 1]], queues: 2 };
    let (start, words) = complete(line, &world);
    for word in words {
        let longer = format!("{}{word}", &line[..start]);
        if let Err(error) = parse(&longer, 2) {
            assert!(error.place.is_empty(), "{longer}: {error:?}");
        }
    }
    match parse(line, 2) {
        Ok(Some(Command::Create { port, rule, .. })) => {
            Some(format!("flow create {port} {}", print_rule(&rule)))
        }
        Ok(_) => None,
        Err(error) => {
            assert!(!error.message().contains(char::is_control), "{error:?}");
            assert!(error.column(line) <= line.chars().count() + 1, "{error:?}");
            assert!(error.marks(line).ends_with('^'), "{error:?}");
            None
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let script = edited(SCRIPT.as_bytes().to_vec(), data);
    for line in String::from_utf8_lossy(&script).lines() {
        if let Some(printed) = flow_command(line) {
            assert_eq!(flow_command(&printed).as_deref(), Some(printed.as_str()), "{line}");
        }
    }
});
