// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes a packet as text: `tcp 10.1.2.3:4444 > 48.0.0.1:80 syn`, `icmp 10.0.0.1 >
//! 10.0.0.2 8/0`.

use super::values;
use super::write::FlagNames;
use crate::packet::Packet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use wire::{proto, proto_names};

/// Form of a packet, for messages.
const FORM: &str = "write it as in 'tcp 10.1.2.3:4444 > 48.0.0.1:80 syn', 'udp [2001:db8::1]:53 > \
    [2001:db8::2]:4000' or 'icmp 10.0.0.1 > 10.0.0.2 8/0'";

impl FromStr for Packet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let (name, src, dst, rest) = match words[..] {
            [name, src, ">", dst, ref rest @ ..] if rest.len() <= 1 => {
                (name, src, dst, rest.first())
            }
            _ => return Err(format!("{text:?} is no packet; {FORM}")),
        };
        let number = proto_names::number(name).map_err(|error| error.to_string())?;
        let (src, dst) = (end(src)?, end(dst)?);
        if src.0.is_ipv4() != dst.0.is_ipv4() {
            return Err("the packet has addresses of both IP versions".to_owned());
        }
        let mut packet = Packet { src: src.0, dst: dst.0, proto: number, ..Packet::EMPTY };
        match (src.1, dst.1) {
            (Some(sport), Some(dport)) => packet.ports = Some([sport, dport]),
            (None, None) => {}
            _ => return Err(format!("one end has a port, the other has none; {FORM}")),
        }
        let has_ports = [proto::TCP, proto::UDP, proto::SCTP].contains(&number);
        if packet.ports.is_some() != has_ports {
            let has = if has_ports { "needs ports" } else { "has no ports" };
            return Err(format!("{name} {has}; {FORM}"));
        }
        match (number, rest) {
            (proto::TCP, flags) => {
                let flags = flags.map_or(Ok(0), |flags| values::flag_bits(flags))?;
                packet.tcp_flags = Some(flags);
            }
            (proto::ICMP | proto::ICMPV6, Some(icmp)) => packet.icmp = Some(kind_and_code(icmp)?),
            (_, None) => {}
            (_, Some(word)) => return Err(format!("{word:?} is not understood; {FORM}")),
        }
        Ok(packet)
    }
}

impl fmt::Display for Packet {
    /// Writes the packet as it is read. A fragment may lack the fields that reading requires.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", proto_names::name(self.proto))?;
        match self.ports {
            Some([sport, dport]) => {
                let (src, dst) =
                    (SocketAddr::new(self.src, sport), SocketAddr::new(self.dst, dport));
                write!(f, "{src} > {dst}")?;
            }
            None => write!(f, "{} > {}", self.src, self.dst)?,
        }
        if let Some(flags) = self.tcp_flags {
            write!(f, " {}", FlagNames(flags))?;
        }
        match self.icmp {
            Some([kind, code]) => write!(f, " {kind}/{code}"),
            None => Ok(()),
        }
    }
}

/// Reads an address, with a port or without.
fn end(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let whole = text.parse::<SocketAddr>().map(|end| (end.ip(), Some(end.port())));
    whole
        .or_else(|_| text.parse::<IpAddr>().map(|address| (address, None)))
        .map_err(|_| format!("{text:?} is no address; {FORM}"))
}

/// Reads type and code of ICMP: `8/0`, or `8` for code 0.
fn kind_and_code(text: &str) -> Result<[u8; 2], String> {
    let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
    match (kind.parse(), code.parse()) {
        (Ok(kind), Ok(code)) => Ok([kind, code]),
        _ => Err(format!("{text:?} is no ICMP type and code; {FORM}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_written_as_they_are_read() {
        for text in [
            "tcp 10.1.2.3:4444 > 48.0.0.1:80 syn+ack",
            "tcp 10.1.2.3:4444 > 48.0.0.1:80 none",
            "udp [2001:db8::1]:53 > [2001:db8::2]:4000",
            "icmp 10.0.0.1 > 10.0.0.2 8/0",
            "gre 10.0.0.1 > 10.0.0.2",
        ] {
            let packet: Packet = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(packet.to_string(), text);
        }
    }

    #[test]
    fn packets_are_read_or_refused() {
        let packet: Packet = "tcp 10.1.2.3:4444 > 48.0.0.1:80 syn".parse().unwrap();
        assert_eq!((packet.ports, packet.tcp_flags), (Some([4444, 80]), Some(2)));
        let packet: Packet = "icmpv6 2001:db8::1 > 2001:db8::2 128".parse().unwrap();
        assert_eq!((packet.proto, packet.icmp), (58, Some([128, 0])));
        for wrong in [
            "",
            "tcp 10.1.2.3 > 48.0.0.1",
            "tcp 10.1.2.3:1 > 48.0.0.1",
            "gre 10.1.2.3:1 > 48.0.0.1:1",
            "udp 10.1.2.3:1 > 48.0.0.1:1 syn",
            "udp 10.1.2.3:1 > [::1]:1",
            "tcp 10.1.2.3:1 > 48.0.0.1:1 sin",
            "icmp 10.1.2.3 > 48.0.0.1 x",
            "tcp 10.1.2.3:1 48.0.0.1:1",
        ] {
            assert!(wrong.parse::<Packet>().is_err(), "{wrong}");
        }
    }
}
