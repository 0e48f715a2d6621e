// SPDX-License-Identifier: BSD-3-Clause
//! Prints what is known of a port: its state, its counters, its flow director and its table.

use super::{Answer, Place, Session, Tally, done_or_refused};
use crate::flow::grammar::Show;
use dpdk::PortStats;
use serde_json::json;
use twin::personality::{Capacity, FdirFacts};

impl Session {
    /// Executes `show port`, on all ports without a number.
    pub(super) fn show(&self, what: Show, port: Option<u16>) -> Answer {
        let numbers =
            port.map_or(0..self.ports.len(), |port| usize::from(port)..usize::from(port) + 1);
        let mut all = Answer::done(Vec::new(), json!({ "ports": [] }));
        for number in numbers {
            let Some(place) = self.ports.get(number) else {
                let message = self.invalid_port(number as u16);
                return Answer::not_done(message).with("command", "show").with("port", number);
            };
            let answer = match what {
                Show::Info => place.show_info(number),
                Show::Stats => place.show_stats(number),
                Show::Fdir => place.show_fdir(number),
            };
            let ok = all.is_ok() && answer.is_ok();
            all.lines.extend(answer.lines);
            all.failures.extend(answer.failures);
            if let Some(ports) = all.json["ports"].as_array_mut() {
                ports.push(answer.json);
            }
            all = all.with("ok", ok);
        }
        all.with("command", "show")
    }
}

impl Place {
    fn show_info(&self, number: usize) -> Answer {
        let (info, link) = (self.port.info(), self.port.link());
        let mac: Vec<_> = info.mac.iter().map(|byte| format!("{byte:02X}")).collect();
        let speed = link.speed_mbps.map_or("Unknown".to_owned(), |mbps| match mbps % 1000 {
            0 => format!("{} Gbps", mbps / 1000),
            _ => format!("{mbps} Mbps"),
        });
        let stars = "*".repeat(21);
        let mut lines = vec![
            String::new(),
            format!("{stars} Infos for port {number:<2} {stars}"),
            format!("MAC address: {}", mac.join(":")),
            format!("Device name: {}", info.devargs),
            format!("Driver name: {}", info.driver),
            format!("Connect to socket: {}", info.socket_id.unwrap_or_default()),
            format!("Link status: {}", if link.up { "up" } else { "down" }),
            format!("Link speed: {speed}"),
            format!("MTU: {}", info.mtu),
            format!("Current number of RX queues: {}", self.queues.0.len()),
            format!("Max possible RX queues: {}", info.max_rx_queues),
            format!("Current number of TX queues: {}", self.queues.1.len()),
            format!("Max possible TX queues: {}", info.max_tx_queues),
        ];
        let personality = self.personality.as_ref().map(|known| known.title.clone());
        lines.extend(personality.iter().map(|title| format!("Personality: {title}")));
        let json = json!({
            "port": number,
            "mac": mac.join(":").to_lowercase(),
            "device": info.devargs,
            "driver": info.driver,
            "socket": info.socket_id,
            "up": link.up,
            "speed_mbps": link.speed_mbps,
            "mtu": info.mtu,
            "rx_queues": self.queues.0.len(),
            "tx_queues": self.queues.1.len(),
            "max_rx_queues": info.max_rx_queues,
            "max_tx_queues": info.max_tx_queues,
            "personality": personality,
        });
        Answer::done(lines, json)
    }

    fn show_stats(&self, number: usize) -> Answer {
        let stats = self.port.stats();
        let PortStats { ipackets, opackets, ibytes, obytes, .. } = stats;
        let PortStats { imissed, ierrors, oerrors, rx_nombuf, .. } = stats;
        let border = "#".repeat(24);
        let lines = vec![
            String::new(),
            format!("  {border} NIC statistics for port {number:<2} {border}"),
            format!("  RX-packets: {ipackets:<10} RX-missed: {imissed:<10} RX-bytes:  {ibytes}"),
            format!("  RX-errors: {ierrors}"),
            format!("  RX-nombuf:  {rx_nombuf}"),
            format!("  TX-packets: {opackets:<10} TX-errors: {oerrors:<10} TX-bytes:  {obytes}"),
            format!("  {}", "#".repeat(76)),
        ];
        let json = json!({
            "port": number,
            "rx_packets": ipackets,
            "rx_bytes": ibytes,
            "rx_missed": imissed,
            "rx_errors": ierrors,
            "rx_nombuf": rx_nombuf,
            "tx_packets": opackets,
            "tx_bytes": obytes,
            "tx_errors": oerrors,
        });
        Answer::done(lines, json)
    }

    fn show_fdir(&self, number: usize) -> Answer {
        let fdir = self.personality.as_ref().and_then(|known| Some((known, known.fdir.as_ref()?)));
        let Some((personality, fdir)) = fdir else {
            return Answer::not_done(format!(
                "this port has no flow director; `flow space {number}` says what is known"
            ))
            .with("port", number);
        };
        let space = Space::of(personality.table.capacity(), self.rules.len());
        let lines = lines_of_fdir(number, fdir, &space, &self.tally);
        Answer::done(lines, json!({ "port": number, "fdir": fdir, "used": self.rules.len() }))
    }

    /// Prints the guaranteed, best-effort and used entries of the table, as far as they are known.
    pub(super) fn space(&self) -> Answer {
        let used = self.rules.len();
        let Some(personality) = &self.personality else {
            return Answer::not_done(format!(
                "the size of this NIC's table is not known; {used} rules were made here, and \
                 --personality says what is known"
            ));
        };
        let Capacity { guaranteed, best_effort } = personality.table.capacity();
        let lines = table(guaranteed, best_effort, used);
        let limit = (guaranteed != u64::MAX).then_some(guaranteed);
        let json = json!({ "guaranteed": limit, "best_effort": best_effort, "used": used });
        Answer::done([vec![personality.title.clone()], lines].concat(), json)
    }

    /// Prints the port's resources for rules by templates.
    pub(super) fn info(&self, port: u16) -> Answer {
        done_or_refused(self.port.flow_info(), |info| {
            let lines = vec![
                format!("Flow engine resources on port {port}:"),
                format!("Number of queues: {}", info.queues),
                format!("Size of queues: {}", info.operations),
            ];
            (lines, json!({ "queues": info.queues, "queue_size": info.operations }))
        })
    }
}

/// Entries of a table, by kind, and how many of them rules use.
struct Space {
    guaranteed: u64,
    best_effort: u64,
    used: [u64; 2],
}

impl Space {
    fn of(Capacity { guaranteed, best_effort }: Capacity, used: usize) -> Self {
        let used = used as u64;
        let first = used.min(guaranteed);
        Self { guaranteed, best_effort, used: [first, used - first] }
    }

    fn free(&self) -> u64 {
        let all = self.guaranteed.saturating_add(self.best_effort);
        all.saturating_sub(self.used[0] + self.used[1])
    }
}

/// Returns the block of testpmd of DPDK 17.02, line by line; `-` for what is not known. Counts are
/// those of the rules made here.
fn lines_of_fdir(number: usize, fdir: &FdirFacts, space: &Space, tally: &Tally) -> Vec<String> {
    let border = "#".repeat(24);
    let pair = |name: &str, value: &str, other: &str, last: &str| {
        format!("  {:<14} {value:<10}  {:<14} {last}", format!("{name}:"), format!("{other}:"))
    };
    let numbers = |name: &str, value: u64, other: &str, last: u64| {
        pair(name, &value.to_string(), other, &last.to_string())
    };
    // The driver reports numbers that it does not count as 0.
    let zero = |name: &str| match fdir.always_zero.iter().any(|known| known == name) {
        true => "0",
        false => "-",
    };
    let of = |value: u32| u64::from(value);
    let addresses = "0x00000000,0x00000000,0x00000000,0x00000000";
    let mut lines = vec![
        String::new(),
        format!("  {border} FDIR infos for port {number:<2}     {border}"),
        format!("  MODE:   {}", fdir.mode),
        format!("  SUPPORTED FLOW TYPE:  {}", fdir.flow_types.join(" ")),
        "  FLEX PAYLOAD INFO:".to_owned(),
        numbers("max_len", of(fdir.max_len), "payload_limit", of(fdir.payload_limit)),
        numbers("payload_unit", of(fdir.payload_unit), "payload_seg", of(fdir.payload_seg)),
        numbers("bitmask_unit", of(fdir.bitmask_unit), "bitmask_num", of(fdir.bitmask_num)),
        "  MASK: ".to_owned(),
        "    vlan_tci: 0x0000, src_ipv4: 0x00000000, dst_ipv4: 0x00000000".to_owned(),
        "    src_port: 0x0000, dst_port: 0x0000".to_owned(),
        format!("    src_ipv6: {addresses}"),
        format!("    dst_ipv6: {addresses}"),
        "  FLEX PAYLOAD SRC OFFSET: ".to_owned(),
    ];
    let offsets: String = (0..fdir.max_len).map(|offset| format!("  {offset:<5}")).collect();
    lines.extend(fdir.payloads.iter().map(|layer| format!("    {layer}:  {offsets}")));
    lines.push("  FLEX MASK CFG: ".to_owned());
    let mask = " 00".repeat(fdir.max_len as usize);
    lines.extend(fdir.flex_masks.iter().map(|kind| format!("    {kind}:\t{mask}")));
    lines.extend([
        numbers("guarant_count", space.used[0], "best_count", space.used[1]),
        numbers("guarant_space", space.guaranteed, "best_space", space.best_effort),
        pair("collision", zero("collision"), "free", &space.free().to_string()),
        pair("maxhash", zero("maxhash"), "maxlen", zero("maxlen")),
        numbers("add", tally.created, "remove", tally.destroyed),
        numbers("f_add", tally.not_created, "f_remove", tally.not_destroyed),
        format!("  {border}############################{border}"),
    ]);
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Returns the lines of the table of entries; rules use the guaranteed entries first.
fn table(guaranteed: u64, best_effort: u64, used: usize) -> Vec<String> {
    let used = used as u64;
    let first = used.min(guaranteed);
    let row = |name: &str, space: u64, used: u64| match space {
        u64::MAX => format!("{name}\tany\t{used}\tany"),
        space => format!("{name}\t{space}\t{used}\t{}", space.saturating_sub(used)),
    };
    vec![
        "Entries\tSpace\tUsed\tFree".to_owned(),
        row("guaranteed", guaranteed, first),
        row("best effort", best_effort, used - first),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin::Personality;

    /// What testpmd of DPDK 17.02 prints for an X710 without rules, but for `free`: the driver
    /// leaves that 0.
    const EMPTY: &str = "
  ######################## FDIR infos for port 0      ########################
  MODE:   PERFECT
  SUPPORTED FLOW TYPE:  ipv4-frag ipv4-tcp ipv4-udp ipv4-sctp ipv4-other ipv6-frag ipv6-tcp \
ipv6-udp ipv6-sctp ipv6-other l2_payload
  FLEX PAYLOAD INFO:
  max_len:       16          payload_limit: 480
  payload_unit:  2           payload_seg:   3
  bitmask_unit:  2           bitmask_num:   2
  MASK:
    vlan_tci: 0x0000, src_ipv4: 0x00000000, dst_ipv4: 0x00000000
    src_port: 0x0000, dst_port: 0x0000
    src_ipv6: 0x00000000,0x00000000,0x00000000,0x00000000
    dst_ipv6: 0x00000000,0x00000000,0x00000000,0x00000000
  FLEX PAYLOAD SRC OFFSET:
    L2_PAYLOAD:    0      1      2      3      4      5      6      7      8      9      10     \
11     12     13     14     15
    L3_PAYLOAD:    0      1      2      3      4      5      6      7      8      9      10     \
11     12     13     14     15
    L4_PAYLOAD:    0      1      2      3      4      5      6      7      8      9      10     \
11     12     13     14     15
  FLEX MASK CFG:
    ipv4-udp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv4-tcp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv4-sctp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv4-other:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv4-frag:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv6-udp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv6-tcp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv6-sctp:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv6-other:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    ipv6-frag:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    l2_payload:\t 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
  guarant_count: 0           best_count:    0
  guarant_space: 512         best_space:    7168
  collision:     0           free:          7680
  maxhash:       0           maxlen:        0
  add:           0           remove:        0
  f_add:         0           f_remove:      0
  ############################################################################";

    #[test]
    fn an_empty_flow_director_is_printed_as_by_testpmd() {
        let personality = Personality::named("x710-17.02").unwrap();
        let fdir = personality.fdir.as_ref().unwrap();
        let lines = |used, tally| {
            let space = Space::of(personality.table.capacity(), used);
            lines_of_fdir(0, fdir, &space, &tally)
        };
        assert_eq!(lines(0, Tally::default()).join("\n"), EMPTY);
        let tally = Tally { created: 601, destroyed: 1, not_created: 2, not_destroyed: 3 };
        let lines = lines(600, tally).join("\n");
        for line in [
            "  guarant_count: 512         best_count:    88",
            "  collision:     0           free:          7080",
            "  add:           601         remove:        1",
            "  f_add:         2           f_remove:      3",
        ] {
            assert!(lines.contains(line), "{line}\n{lines}");
        }
    }
}
