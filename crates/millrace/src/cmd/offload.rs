// SPDX-License-Identifier: BSD-3-Clause
//! `millrace offload`: lists the flow rules in the NICs of a running instance.

use super::flows::WhichArgs;
use control::{Answer, InstanceArgs, Line, PortLine, RequestKind, RuleLine};
use report::top_flows;
use results::{table, units};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use wire::proto_names;

/// List the flow rules in the NICs of a running instance
///
/// First prints the state of each port, then one line per rule, sorted by packets per second.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OffloadArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    which: WhichArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace offload
      The 50 busiest rules of the running instance.
  millrace offload --only 10.0.0.1:443 --json
      Rules for packets from or to this port of a host.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

pub(crate) fn run(args: &OffloadArgs) -> anyhow::Result<ExitCode> {
    let Answer { lines, matched } =
        args.instance.find()?.query(&args.which.request(RequestKind::Offload))?;
    let (mut ports, mut rules) = (Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Port(port) => ports.push(*port),
            Line::Rule(rule) => rules.push(rule),
            _ => {}
        }
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", json!({ "ports": ports, "rules": rules, "matched": matched }))?;
        return Ok(ExitCode::SUCCESS);
    }
    ports.iter().try_for_each(|port| print_port(&mut out, port))?;
    if !rules.is_empty() {
        writeln!(out, "rules ({} of {matched}, by packets per second)", rules.len())?;
        let rows: Vec<_> = rules.iter().map(row).collect();
        table::print(&mut out, HEADINGS, &(5..8), &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what workers do with marks, and why.
fn mark_sentence(port: &PortLine) -> String {
    let PortLine { mark_cycles, software_cycles, .. } = *port;
    let (less, word) = match software_cycles - mark_cycles {
        saved if saved >= 0.0 => (saved, "less"),
        saved => (-saved, "more"),
    };
    let outcome = match port.mark_use.as_str() {
        "used" => "used",
        "ignored" => "not used",
        _ => "not used, and no rules are installed for them",
    };
    let changed = match port.mark_switches {
        0 => String::new(),
        1 => "; changed once so far".to_owned(),
        times => format!("; changed {} times so far", units::thousands(times)),
    };
    format!(
        "marks: {mark_cycles:.1} cycles a packet, {less:.1} {word} than in software here; \
         {outcome}{changed}"
    )
}

/// Returns how many packets pay for a bypass, and why.
fn payback_sentence(port: &PortLine) -> String {
    let packets = units::thousands(port.payback_packets.into());
    let has_rules = port.insert_us["avg"].as_f64().is_some_and(|avg| avg > 0.0);
    if port.packet_ns == 0.0 || !has_rules {
        return format!(
            "a bypass pays after {packets} packets, as a guess: no rule is measured yet"
        );
    }
    format!(
        "a bypass pays after {packets} packets: then {:.1} ns a packet have taken as long as to \
         install and remove it",
        port.packet_ns
    )
}

fn print_port(out: &mut impl Write, port: &PortLine) -> io::Result<()> {
    let PortLine { name, live, room, threshold_pps, horizon_s, kinds_aside, .. } = port;
    if port.state != "on" {
        let reason = port.reason.as_deref().unwrap_or("reason unknown");
        return writeln!(out, "port {name}: accepts no flow rules: {reason}");
    }
    let [installed, live, room] =
        [port.installed, u64::from(*live), u64::from(*room)].map(units::thousands);
    let bits = port.mark_bits.unwrap_or_default();
    writeln!(out, "port {name}: {installed} rules, {live} including requests, room for {room}")?;
    let threshold = match *threshold_pps {
        threshold if threshold > 0.0 => format!("threshold {} packets/s", units::pps(threshold)),
        _ => "no threshold while there is room".to_owned(),
    };
    let horizon = units::duration((horizon_s * 1e9) as u64);
    writeln!(out, "  {threshold}; a rule must save its cost in {horizon}; marks of {bits} bits")?;
    let [insert, delete] = [&port.insert_us, &port.delete_us].map(times);
    writeln!(out, "  insert {insert}, delete {delete} (min / avg / max)")?;
    if port.mark_cycles > 0.0 {
        writeln!(out, "  {}", mark_sentence(port))?;
    }
    for (bypass, protocol) in [(&port.bypass, "UDP"), (&port.bypass_tcp, "TCP")] {
        if bypass == "on" {
            writeln!(out, "  bypass of {protocol} is on: the NIC can forward it to the peer port")?;
        }
    }
    if [&port.bypass, &port.bypass_tcp].into_iter().any(|bypass| bypass == "on") {
        writeln!(out, "  {}", payback_sentence(port))?;
    }
    if *kinds_aside > 0 {
        writeln!(out, "  kinds of rules set aside, because they had no effect: {kinds_aside}")?;
    }
    match port.rules["refused"]["last"].as_str() {
        Some(words) => writeln!(out, "  last refusal: {words}"),
        None => Ok(()),
    }
}

/// Formats the durations of calls in microseconds; "none yet" without calls.
fn times(us: &Value) -> String {
    match ["min", "avg", "max"].map(|which| us[which].as_f64().unwrap_or_default()) {
        [.., 0.0] => "none yet".to_owned(),
        [min, avg, max] => format!("{min:.1} / {avg:.1} / {max:.1} µs"),
    }
}

const HEADINGS: [&str; 8] =
    ["port", "proto", "source", "destination", "state", "age", "packets/s", "hits"];

fn row(rule: &RuleLine) -> [String; 8] {
    [
        // Only the name: the lines of the ports have the arguments.
        rule.port.split(',').next().unwrap_or_default().to_owned(),
        proto_names::name(rule.proto),
        top_flows::endpoint(rule.src, rule.sport, rule.proto),
        top_flows::endpoint(rule.dst, rule.dport, rule.proto),
        rule.state.clone(),
        units::duration((rule.age_s * 1e9) as u64),
        units::pps(rule.rate_pps),
        units::thousands(rule.hits),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a port that takes rules, with these members.
    fn port(members: Value) -> PortLine {
        let mut line = json!({
            "name": "0000:18:00.0", "state": "on",
            "insert_us": null, "delete_us": null, "rules": null,
        });
        let zero = ["installed", "live", "room", "threshold_pps", "horizon_s", "kinds_aside"];
        zero.iter().for_each(|name| line[name] = json!(0));
        for (name, value) in members.as_object().unwrap() {
            line[name] = value.clone();
        }
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_bypass_says_when_it_pays() {
        let measured = port(json!({
            "payback_packets": 1_640, "packet_ns": 50.12, "insert_us": { "avg": 41.1 },
        }));
        let expected = "a bypass pays after 1_640 packets: then 50.1 ns a packet have taken as \
                        long as to install and remove it";
        assert_eq!(payback_sentence(&measured), expected);
        // Before a packet was measured, and before a rule was.
        for packet_ns in [0.0, 50.12] {
            let members = json!({ "payback_packets": 1024, "packet_ns": packet_ns });
            let unknown = payback_sentence(&port(members));
            assert!(unknown.contains("1_024 packets, as a guess"), "{unknown}");
        }
    }

    #[test]
    fn a_choice_that_has_changed_says_how_often() {
        let sentence = |mark_switches: u64, mark_use: &str| {
            mark_sentence(&port(json!({
                "mark_use": mark_use, "mark_cycles": 71.3, "software_cycles": 61.5,
                "mark_switches": mark_switches,
            })))
        };
        let unused = "marks: 71.3 cycles a packet, 9.8 more than in software here; not used";
        assert_eq!(sentence(0, "ignored"), unused);
        assert_eq!(sentence(1, "ignored"), format!("{unused}; changed once so far"));
        assert!(sentence(1_200, "used").ends_with("; used; changed 1_200 times so far"));
    }
}
