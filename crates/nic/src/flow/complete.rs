// SPDX-License-Identifier: BSD-3-Clause
//! Completes the word at the cursor with all words that the grammar accepts there.

use super::grammar::{PORT, QUEUE, RULE, expected_after};
use super::reader::Expected;

/// State of the session that completion uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionContext {
    /// The numbers of each port's rules.
    pub rules: Vec<Vec<u32>>,
    /// Receive queues of each port.
    pub queues: u16,
}

/// Returns the words that may stand at the end of `line` and begin like its last word, and the byte
/// where that word begins.
pub fn complete(line: &str, world: &CompletionContext) -> (usize, Vec<String>) {
    let start = line
        .rfind(char::is_whitespace)
        .map_or(0, |blank| blank + line[blank..].chars().next().map_or(0, char::len_utf8));
    let (before, word) = line.split_at(start);
    let mut words: Vec<String> = expected_after(before)
        .into_iter()
        .flat_map(|expected| match expected {
            Expected::Word(text) => vec![text.to_owned()],
            Expected::Value(noun) => world.values(noun, before),
        })
        .collect();
    words.retain(|candidate| candidate.starts_with(word));
    (start, words)
}

impl CompletionContext {
    /// Returns the existing ports, rules or queues; `before` is the line up to the value.
    fn values(&self, noun: &str, before: &str) -> Vec<String> {
        let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect();
        match noun {
            PORT => numbers(self.rules.len()),
            QUEUE => numbers(self.queues.into()),
            RULE => {
                let port = before.split_whitespace().nth(2).and_then(|port| port.parse().ok());
                let rules = port.and_then(|port: usize| self.rules.get(port));
                rules.into_iter().flatten().map(u32::to_string).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(line: &str) -> Vec<String> {
        complete(line, &CompletionContext { rules: vec![vec![0, 7], vec![3]], queues: 2 }).1
    }

    #[test]
    fn each_place_offers_what_fits_there() {
        for (line, expected) in [
            ("", &["flow", "set", "show", "help", "quit", "exit"][..]),
            ("flow c", &["create"]),
            ("flow create ", &["0", "1"]),
            ("flow create 0 in", &["ingress"]),
            (
                "flow create 0 ingress pattern ipv6",
                &["ipv6", "ipv6_frag_ext", "ipv6_ext", "ipv6_routing_ext"],
            ),
            ("flow create 0 pattern l2tpv2 type c", &["control"]),
            ("flow create 0 pattern end actions of_push", &["of_push_vlan", "of_push_mpls"]),
            ("show port f", &["fdir"]),
            ("set vxlan ip-version ipv6 u", &["udp-src", "udp-dst"]),
            ("flow create 0 ingress pattern ipv4 s", &["src"]),
            ("flow create 0 ingress pattern ipv4 src ", &["is", "spec", "last", "mask", "prefix"]),
            ("flow create 0 ingress pattern ipv4 src is ", &[]),
            (
                "flow create 0 ingress pattern udp src is 5 ",
                &["/", "src", "dst", "dgram_len", "dgram_cksum"],
            ),
            ("flow create 0 pattern end actions queue index ", &["0", "1"]),
            ("flow create 0 pattern end actions rss func s", &["simple_xor", "symmetric_toeplitz"]),
            ("flow create 0 pattern end actions rss queues 0 ", &["end", "0", "1"]),
            ("flow destroy 0 rule ", &["0", "7"]),
            ("flow destroy 1 rule ", &["3"]),
            ("flow destroy 1 rule 3 ", &["rule", "user_id"]),
            ("flow destroy 9 rule ", &[]),
            ("flow query 0 7 ", &["count", "age", "rss"]),
            ("flow list 0 ", &["group"]),
            ("flow aged 0 d", &["destroy"]),
            ("help geneve", &["geneve", "geneve-opt"]),
            ("help nonsense ", &[]),
            ("flow nonsense 0 ", &[]),
            ("# flow ", &["flow", "set", "show", "help", "quit", "exit"]),
        ] {
            assert_eq!(completions(line), expected, "{line}");
        }
        assert_eq!(complete("flow li", &CompletionContext::default()).0, 5);
    }
}
