// SPDX-License-Identifier: BSD-3-Clause
//! Formats a connection as one line, as `conntrack -L -o extended` prints it, which people and
//! programs already know.

use control::{ConnectionLine, CountsLine, EventLine};
use std::fmt::Write;
use wire::proto_names;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const GRE: u8 = 47;
const ESP: u8 = 50;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

/// Formats a connection of the list. After the protocol come the seconds until it times out.
pub(in crate::cmd) fn format_connection(connection: &ConnectionLine) -> String {
    let timeout = connection.timeout_s.unwrap_or_default();
    let mut line = head(connection);
    // Rounds up: a timeout above 0 never shows as 0.
    let _ = write!(line, " {:.0}", timeout.ceil());
    line + &rest(connection)
}

/// Formats an event of a connection: `[NEW]`, `[UPDATE]` or `[DESTROY]`, then the connection.
pub(super) fn format_event(event: &EventLine) -> String {
    let change = format!("[{}]", event.change.to_uppercase());
    let mut line = format!("{change:>9} {}{}", head(&event.connection), rest(&event.connection));
    if let Some(reason) = &event.end_reason {
        let _ = write!(line, " end={reason}");
    }
    line
}

/// Formats the protocols of layers 3 and 4, by name and number: of layer 3, Linux's number of the
/// address family.
fn head(connection: &ConnectionLine) -> String {
    let family = if connection.ip_version == 4 { "ipv4     2" } else { "ipv6     10" };
    let name = proto_names::name(connection.proto);
    let name =
        if name.starts_with(|first: char| first.is_ascii_digit()) { "unknown" } else { &name };
    format!("{family} {name:<8} {}", connection.proto)
}

/// Formats state, both directions, flags, mark, zone and label.
fn rest(connection: &ConnectionLine) -> String {
    let ConnectionLine { zone, mark, .. } = *connection;
    let mut line = String::new();
    // conntrack has no states of other protocols, and programs read the next column by its number.
    let state = connection.state.as_ref().filter(|_| matches!(connection.proto, TCP | SCTP));
    if let Some(state) = state {
        let _ = write!(line, " {state}");
    }
    line += &direction(connection, false);
    if !connection.replied {
        line += " [UNREPLIED]";
    }
    line += &direction(connection, true);
    // Linux's conntrack never says so of ICMP.
    if connection.assured && !matches!(connection.proto, ICMP | ICMPV6) {
        line += " [ASSURED]";
    }
    let _ = write!(line, " mark={mark}");
    if zone != 0 {
        let _ = write!(line, " zone={zone}");
    }
    // The kernel's count of users; a listed connection has one.
    line += " use=1";
    if !matches!(connection.label.as_str(), "" | "0x0") {
        let _ = write!(line, " label={}", connection.label);
    }
    line
}

/// Formats one direction: its ends, and what its sender has sent. Bytes are those of IP packets, as
/// in conntrack.
fn direction(connection: &ConnectionLine, is_reply: bool) -> String {
    let ConnectionLine { proto, src, sport, dst, dport, .. } = *connection;
    let number = u32::from(sport) << 16 | u32::from(dport);
    let [kind, code] = dport.to_be_bytes();
    let kind = if is_reply { answer_to(proto, kind) } else { kind };
    let id = sport;
    let (src, sport, dst, dport, counts) = match is_reply {
        false => (src, sport, dst, dport, &connection.orig),
        true => (dst, dport, src, sport, &connection.reply),
    };
    let ends = match proto {
        ICMP | ICMPV6 => format!("type={kind} code={code} id={id}"),
        GRE => format!("key={number:#x}"),
        ESP => format!("spi={number:#x}"),
        _ => format!("sport={sport} dport={dport}"),
    };
    let CountsLine { packets, ip_bytes, .. } = counts;
    format!(" src={src} dst={dst} {ends} packets={packets} bytes={ip_bytes}")
}

/// Returns the type of the ICMP message that answers a type, or that it answers; the type itself if
/// there is none.
fn answer_to(proto: u8, kind: u8) -> u8 {
    match (proto, kind) {
        (ICMP, 8) => 0,
        (ICMP, 0) => 8,
        (ICMP, 13 | 15 | 17) | (ICMPV6, 128) => kind + 1,
        (ICMP, 14 | 16 | 18) | (ICMPV6, 129) => kind - 1,
        _ => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn connection(proto: u8, sport: u16, dport: u16) -> ConnectionLine {
        let counts = |packets: u64| CountsLine {
            packets,
            bytes: packets * 60,
            ip_bytes: packets * 40,
            tcp_flags: 0,
        };
        let line = json!({
            "ip_version": 4, "proto": proto, "src": "10.0.0.1", "sport": sport,
            "dst": "10.0.0.2", "dport": dport, "zone": 7, "vlan": [7], "start_ns": 1,
            "last_ns": 2, "state": "ESTABLISHED", "timeout_s": 29.2, "replied": true,
            "assured": true, "orig": counts(3), "reply": counts(2), "worker": 0,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_connection_is_one_line() {
        assert_eq!(
            format_connection(&connection(6, 40_000, 443)),
            "ipv4     2 tcp      6 30 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=443 \
             packets=3 bytes=120 src=10.0.0.2 dst=10.0.0.1 sport=443 dport=40000 packets=2 \
             bytes=80 [ASSURED] mark=0 zone=7 use=1"
        );
        let marked = ConnectionLine { mark: 171, label: "0x1f".to_owned(), ..connection(6, 1, 2) };
        assert!(format_connection(&marked).ends_with(" mark=171 zone=7 use=1 label=0x1f"));
        let event = |change: &str, connection, end_reason: Option<&str>| EventLine {
            change: change.to_owned(),
            at_ns: 1,
            at_us: 0,
            end_reason: end_reason.map(str::to_owned),
            connection,
        };
        let begun = format_event(&event("new", connection(17, 1, 2), None));
        assert!(begun.starts_with("    [NEW] ipv4     2 udp      17 src=10.0.0.1 "), "{begun}");
        let over = ConnectionLine { state: Some("TIME_WAIT".to_owned()), ..connection(6, 1, 2) };
        let ended = format_event(&event("destroy", over, Some("fin")));
        assert!(ended.starts_with("[DESTROY] ipv4     2 tcp      6 TIME_WAIT src=10."), "{ended}");
        assert!(ended.ends_with(" bytes=80 [ASSURED] mark=0 zone=7 use=1 end=fin"), "{ended}");
        assert!(format_connection(&connection(47, 1, 2)).contains(" key=0x10002 "));
        assert!(format_connection(&connection(50, 0, 2)).contains(" spi=0x2 "));
        let other = format_connection(&connection(89, 0, 0));
        assert!(other.starts_with("ipv4     2 unknown  89 30 src="), "{other}");
    }

    /// conntrack prints states of TCP and SCTP only, and the type of the answer in the second half.
    #[test]
    fn other_protocols_have_no_state_and_icmp_the_type_of_the_answer() {
        let asked = ConnectionLine {
            zone: 0,
            replied: false,
            assured: false,
            state: Some("icmp_first".to_owned()),
            timeout_s: Some(0.0),
            ..connection(1, 77, 2048)
        };
        assert_eq!(
            format_connection(&asked),
            "ipv4     2 icmp     1 0 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=77 packets=3 \
             bytes=120 [UNREPLIED] src=10.0.0.2 dst=10.0.0.1 type=0 code=0 id=77 packets=2 \
             bytes=80 mark=0 use=1"
        );
        let both = |proto, kind: u16| {
            let line = format_connection(&connection(proto, 5, kind << 8));
            let types = line.split(' ').filter_map(|word| word.strip_prefix("type="));
            types.map(|kind| kind.parse().unwrap()).collect::<Vec<u16>>()
        };
        for (proto, kind, answer) in
            [(1, 0, 8), (1, 13, 14), (1, 18, 17), (1, 3, 3), (58, 128, 129), (58, 129, 128)]
        {
            assert_eq!(both(proto, kind), [kind, answer]);
        }
        let v6 = ConnectionLine { ip_version: 6, ..connection(58, 5, 128 << 8) };
        assert!(format_connection(&v6).starts_with("ipv6     10 icmpv6   58 30 src="));
        let sctp = format_connection(&connection(132, 1, 2));
        assert!(sctp.contains(" sctp     132 30 ESTABLISHED src="), "{sctp}");
    }
}
