// SPDX-License-Identifier: BSD-3-Clause
//! Parses the options that select connections.

use clap::error::ErrorKind;
use control::{Bits, NoState, PrefixText, Request, RequestKind, StateName};
use engine::{MaskedBitsError, PrefixError};
use wire::proto_names;

/// Options that select connections: a connection must match all of them.
#[derive(clap::Args)]
#[command(next_help_heading = "Which connections")]
pub(super) struct FilterArgs {
    /// Connections in this zone
    #[arg(short = 'w', long, value_name = "N")]
    zone: Option<u16>,
    /// Connections of this protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number
    #[arg(short, long, value_name = "P", value_parser = proto_names::number)]
    proto: Option<u8>,
    /// Connections in this state, such as ESTABLISHED or udp_first
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<StateName>,
    /// Connections with this mark; with /MASK only those bits are compared
    #[arg(short, long, value_name = "BITS[/MASK]", value_parser = bits::<32>)]
    mark: Option<Bits<32>>,
    /// Connections with this label; with /MASK only those bits are compared
    #[arg(long, value_name = "BITS[/MASK]", value_parser = bits::<128>)]
    label: Option<Bits<128>>,
    /// Connections whose originator has this address, or one in this network
    #[arg(short, long, value_name = "ADDR[/LEN]", value_parser = net)]
    src: Option<PrefixText>,
    /// Connections whose responder has this address, or one in this network
    #[arg(short, long, value_name = "ADDR[/LEN]", value_parser = net)]
    dst: Option<PrefixText>,
    /// Connections of which either end has this address, or one in this network
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = net)]
    address: Option<PrefixText>,
    /// Connections whose originator has this port
    #[arg(long, value_name = "PORT", value_parser = port)]
    sport: Option<u16>,
    /// Connections whose responder has this port
    #[arg(long, value_name = "PORT", value_parser = port)]
    dport: Option<u16>,
    /// Connections of which either end has this port; an address must match the same end
    #[arg(long, value_name = "PORT", value_parser = port)]
    port: Option<u16>,
}

fn state(text: &str) -> Result<StateName, NoState> {
    text.to_owned().try_into()
}

fn port(text: &str) -> Result<u16, &'static str> {
    text.parse().map_err(|_| "expected a number from 0 to 65535")
}

fn net(text: &str) -> Result<PrefixText, PrefixError> {
    text.to_owned().try_into()
}

/// Parses a value of `N` bits, with or without `/MASK`.
pub(super) fn bits<const N: u32>(text: &str) -> Result<Bits<N>, MaskedBitsError> {
    text.to_owned().try_into()
}

impl FilterArgs {
    /// Returns a request about the selected connections.
    pub(super) fn request(&self, ask: RequestKind) -> Request {
        Request {
            zone: self.zone,
            proto: self.proto,
            state: self.state,
            mark: self.mark,
            label: self.label,
            src: self.src,
            dst: self.dst,
            address: self.address,
            sport: self.sport,
            dport: self.dport,
            port: self.port,
            ..Request::new(ask)
        }
    }

    /// Ends the program with a usage error if neither options select connections nor `all` is set,
    /// or both.
    pub(super) fn require_filter_or_all(&self, all: bool) {
        let is_any = self.request(RequestKind::Flush).filter().is_any();
        let (kind, message) = match (is_any, all) {
            (true, false) => {
                (ErrorKind::MissingRequiredArgument, "select connections, or give --all\n")
            }
            (false, true) => {
                (ErrorKind::ArgumentConflict, "select connections or give --all, not both\n")
            }
            _ => return,
        };
        clap::Error::raw(kind, message).exit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        filter: FilterArgs,
    }

    #[test]
    fn options_become_a_question() {
        let read = |text: &str| {
            let args = Args::try_parse_from(text.split(' ')).ok()?;
            Some(serde_json::to_value(args.filter.request(RequestKind::Count)).unwrap())
        };
        let all = "x --zone 7 --proto TCP --state established --src 10.0.0.0/8 --dst ::1 \
                   --address 10.0.0.1 --sport 1 --dport 2 --port 3";
        let expected = serde_json::json!({
            "millrace": 1, "ask": "count", "zone": 7, "proto": 6, "state": "ESTABLISHED",
            "src": "10.0.0.0/8", "dst": "::1", "address": "10.0.0.1", "sport": 1, "dport": 2,
            "port": 3,
        });
        assert_eq!(read(all), Some(expected));
        assert_eq!(read("x --proto 89").unwrap()["proto"], 89);
        for wrong in ["--proto 256", "--proto ip", "--state open", "--src 10/8", "--zone 65536"] {
            assert_eq!(read(&format!("x {wrong}")), None, "{wrong}");
        }
    }
}
