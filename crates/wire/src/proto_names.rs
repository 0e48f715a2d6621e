// SPDX-License-Identifier: BSD-3-Clause
//! Names of the IP protocols that people know by name.

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

/// What is no protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProtocol;

impl fmt::Display for NoProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number up to 255")
    }
}

impl std::error::Error for NoProtocol {}

/// The name of a protocol, or its number.
pub fn name(number: u8) -> String {
    let named = NAMES.into_iter().find(|(known, _)| *known == number);
    named.map_or_else(|| number.to_string(), |(_, name)| name.to_owned())
}

/// The number of a protocol that is written in either way.
///
/// # Errors
/// If `text` is neither a name that is known nor a number up to 255.
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
