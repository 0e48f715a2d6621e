// SPDX-License-Identifier: BSD-3-Clause
//! Makes the rules of an access list that is searched to its end.

/// Returns the rules of a list for [`flood::packets`](crate::flood::packets), as text. No packet
/// matches one of them but the last, which permits everything and reflects it. The others name
/// addresses for benchmarks (RFC 2544) and private ones (RFC 1918).
pub fn access_rules(count: u32) -> impl Iterator<Item = String> {
    let others = (1..count).map(|number| {
        let [_, a, b, c] = number.wrapping_mul(0x9e_3779).to_be_bytes();
        match number % 4 {
            0 => format!("permit src 198.18.{b}.{c} proto tcp dport {}", 1 + number % 5000),
            1 => format!("deny dst 198.19.{b}.{c} proto udp"),
            2 => format!("permit src 172.16.0.0/12 dst 198.18.{b}.{c} proto tcp dport 443"),
            _ => format!("deny src 198.18.{a}.{c} dst 192.168.{b}.0/24"),
        }
    });
    others.chain((count > 0).then(|| "permit+reflect".to_owned()))
}
