// SPDX-License-Identifier: BSD-3-Clause
//! The options that say which connections are meant.

use clap::error::ErrorKind;
use control::{Ask, Bits, NoState, PrefixText, Request, StateName};
use engine::{MaskedBitsError, PrefixError};
use wire::proto_names;

/// What a connection must have; with several options, all of it.
#[derive(clap::Args)]
#[command(next_help_heading = "Which connections")]
pub(super) struct FilterArgs {
    /// Those in this zone
    #[arg(long, value_name = "N")]
    zone: Option<u16>,
    /// Of this protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number
    #[arg(long, value_name = "P", value_parser = proto_names::number)]
    proto: Option<u8>,
    /// In this state, such as ESTABLISHED or udp_first
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<StateName>,
    /// With this mark, or these bits in it
    #[arg(long, value_name = "BITS[/MASK]", value_parser = bits::<32>)]
    mark: Option<Bits<32>>,
    /// With this label, or these bits in it
    #[arg(long, value_name = "BITS[/MASK]", value_parser = bits::<128>)]
    label: Option<Bits<128>>,
    /// Whose originator has this address, or one with the same first LEN bits
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = net)]
    src: Option<PrefixText>,
    /// Whose responder has
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = net)]
    dst: Option<PrefixText>,
    /// Of which one end has
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = net)]
    address: Option<PrefixText>,
    /// Whose originator has this port
    #[arg(long, value_name = "PORT")]
    sport: Option<u16>,
    /// Whose responder has
    #[arg(long, value_name = "PORT")]
    dport: Option<u16>,
    /// Of which one end has; with --address, the same end
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

fn state(text: &str) -> Result<StateName, NoState> {
    text.to_owned().try_into()
}

fn net(text: &str) -> Result<PrefixText, PrefixError> {
    text.to_owned().try_into()
}

pub(super) fn bits<const N: u32>(text: &str) -> Result<Bits<N>, MaskedBitsError> {
    text.to_owned().try_into()
}

impl FilterArgs {
    /// The question about them.
    pub(super) fn request(&self, ask: Ask) -> Request {
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

    /// Ends the program where nobody said which connections something is to become of, or both
    /// some and all.
    pub(super) fn check_meant(&self, all: bool) {
        let is_any = self.request(Ask::Flush).filter().is_any();
        let (kind, message) = match (is_any, all) {
            (true, false) => {
                (ErrorKind::MissingRequiredArgument, "say which connections are meant, or --all\n")
            }
            (false, true) => {
                (ErrorKind::ArgumentConflict, "some connections, or --all, not both\n")
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
            Some(serde_json::to_value(args.filter.request(Ask::Count)).unwrap())
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
