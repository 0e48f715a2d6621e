// SPDX-License-Identifier: BSD-3-Clause
//! Owns the names of the best-known IP protocols.

use crate::proto;
use std::fmt;

const NAMES: [(u8, &str); 7] = [
    (proto::TCP, "tcp"),
    (proto::UDP, "udp"),
    (proto::ICMP, "icmp"),
    (proto::ICMPV6, "icmpv6"),
    (proto::SCTP, "sctp"),
    (proto::GRE, "gre"),
    (proto::ESP, "esp"),
];

/// Error: the text is no IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProtocol;

impl fmt::Display for NoProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number up to 255")
    }
}

impl std::error::Error for NoProtocol {}

/// Returns the name of a protocol, or its number if it has no name here.
pub fn name(number: u8) -> String {
    let named = NAMES.into_iter().find(|(known, _)| *known == number);
    named.map_or_else(|| number.to_string(), |(_, name)| name.to_owned())
}

/// Parses a protocol, by name in upper or lower case or by number.
///
/// # Errors
/// If `text` is neither a known name nor a number up to 255.
pub fn number(text: &str) -> Result<u8, NoProtocol> {
    let named = NAMES.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| text.parse().map_err(|_| NoProtocol), |(number, _)| Ok(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_read_as_it_is_written() {
        for wanted in 0..=u8::MAX {
            assert_eq!(number(&name(wanted)), Ok(wanted));
        }
        assert_eq!(number("TCP"), Ok(6));
        for wrong in ["", "ip", "256", "-1", " 6"] {
            assert_eq!(number(wrong), Err(NoProtocol), "{wrong:?}");
        }
    }
}
