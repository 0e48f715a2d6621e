// SPDX-License-Identifier: BSD-3-Clause
//! Formats a connection as one line, in the format of conntrack-tools, which people and programs
//! already know.

use control::{ConnectionLine, CountsLine, EventLine};
use std::fmt::Write;
use std::net::IpAddr;
use wire::proto_names;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const GRE: u8 = 47;
const ESP: u8 = 50;

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

/// Formats the protocol, by name and number.
fn head(connection: &ConnectionLine) -> String {
    let name = proto_names::name(connection.proto);
    let name =
        if name.starts_with(|first: char| first.is_ascii_digit()) { "unknown" } else { &name };
    format!("{name:<8} {}", connection.proto)
}

/// Formats state, both directions, flags, zone, mark and label.
fn rest(connection: &ConnectionLine) -> String {
    let ConnectionLine { src, sport, dst, dport, zone, .. } = *connection;
    let mut line = String::new();
    if let Some(state) = &connection.state {
        let _ = write!(line, " {state}");
    }
    line += &direction(connection, [(src, sport), (dst, dport)], &connection.orig);
    if !connection.replied {
        line += " [UNREPLIED]";
    }
    line += &direction(connection, [(dst, dport), (src, sport)], &connection.reply);
    if connection.assured {
        line += " [ASSURED]";
    }
    if zone != 0 {
        let _ = write!(line, " zone={zone}");
    }
    if connection.mark != 0 {
        let _ = write!(line, " mark={:#x}", connection.mark);
    }
    if !matches!(connection.label.as_str(), "" | "0x0") {
        let _ = write!(line, " label={}", connection.label);
    }
    line
}

fn direction(
    connection: &ConnectionLine,
    [(src, sport), (dst, dport)]: [(IpAddr, u16); 2],
    counts: &CountsLine,
) -> String {
    let ConnectionLine { proto, sport: first, dport: second, .. } = *connection;
    let number = u32::from(first) << 16 | u32::from(second);
    let [kind, code] = second.to_be_bytes();
    let ends = match proto {
        ICMP | ICMPV6 => format!("type={kind} code={code} id={first}"),
        GRE => format!("key={number:#x}"),
        ESP => format!("spi={number:#x}"),
        _ => format!("sport={sport} dport={dport}"),
    };
    let CountsLine { packets, bytes, .. } = counts;
    format!(" src={src} dst={dst} {ends} packets={packets} bytes={bytes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn connection(proto: u8, sport: u16, dport: u16) -> ConnectionLine {
        let counts =
            |packets: u64| CountsLine { packets, bytes: packets * 60, ip_bytes: 1, tcp_flags: 0 };
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
            "tcp      6 30 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=443 packets=3 \
             bytes=180 src=10.0.0.2 dst=10.0.0.1 sport=443 dport=40000 packets=2 bytes=120 \
             [ASSURED] zone=7"
        );
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
            "icmp     1 0 icmp_first src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=77 packets=3 \
             bytes=180 [UNREPLIED] src=10.0.0.2 dst=10.0.0.1 type=8 code=0 id=77 packets=2 \
             bytes=120"
        );
        let event = |change: &str, connection, end_reason: Option<&str>| EventLine {
            change: change.to_owned(),
            at_ns: 1,
            end_reason: end_reason.map(str::to_owned),
            connection,
        };
        let begun = format_event(&event("new", asked.clone(), None));
        assert!(begun.starts_with("    [NEW] icmp     1 icmp_first src=10.0.0.1 "), "{begun}");
        let over = ConnectionLine { state: None, assured: false, ..connection(6, 1, 2) };
        let ended = format_event(&event("destroy", over, Some("fin")));
        assert!(ended.starts_with("[DESTROY] tcp      6 src=10.0.0.1 "), "{ended}");
        assert!(ended.ends_with(" packets=2 bytes=120 zone=7 end=fin"), "{ended}");
        assert!(format_connection(&connection(47, 1, 2)).contains(" key=0x10002 "));
        assert!(format_connection(&connection(50, 0, 2)).contains(" spi=0x2 "));
        assert!(format_connection(&connection(89, 0, 0)).starts_with("unknown  89 30 "));
    }
}
