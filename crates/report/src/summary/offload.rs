// SPDX-License-Identifier: BSD-3-Clause
//! Summarizes NIC rules, and the packets that they marked or forwarded.

use engine::{BypassCount, MarkChoiceStatus, MarkStats, MarkUse, OffloadStats, OffloadStatus};
use results::units;
use serde::Serialize;
use std::io::{self, Write};

/// Rules and marks of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offload {
    /// Policy of rules, as in the configuration.
    pub policy: String,
    /// Policy of bypass for UDP, as in the configuration.
    pub bypass: String,
    /// Policy of bypass for TCP, as in the configuration.
    pub bypass_tcp: String,
    /// Rules of each port; empty in `replay`.
    pub ports: Vec<OffloadPort>,
    /// Connections that got rules, over all workers.
    pub admission: Admission,
    /// Packets with a mark, over all workers.
    pub marks: Marks,
    /// Packets counted by their mark, as a share of all received: 0 to 1.
    pub marked_share: f64,
    /// Packets that the NICs forwarded themselves: no worker received them.
    pub bypassed: Bypassed,
}

/// Rules of one port.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OffloadPort {
    /// Device string, as given.
    pub name: String,
    /// `on` or `off`.
    pub state: &'static str,
    /// Why it is off; null if it is on.
    pub reason: Option<String>,
    /// How rules are created: `async`, through a flow queue, or `sync`, by calls.
    pub api: Option<&'static str>,
    /// Why rules are not created through a flow queue.
    pub api_reason: Option<String>,
    /// Shapes of rules that the NIC took, by kind of packet.
    pub shapes: Vec<String>,
    /// Width of its marks in bits; null if it takes no rules.
    pub mark_bits: Option<u32>,
    /// `on` if the NIC bypasses UDP, else `off`.
    pub bypass: &'static str,
    /// Why it does not.
    pub bypass_reason: Option<String>,
    /// `on` if the NIC bypasses TCP, else `off`.
    pub bypass_tcp: &'static str,
    /// Why it does not.
    pub bypass_tcp_reason: Option<String>,
    /// Counts of rules and requests.
    pub rules: RuleCounts,
    /// Threshold at the end of the run, in packets per second.
    pub threshold_pps: f64,
    /// Room for rules at the end of the run, as far as known.
    pub room: u64,
    /// Kinds of rules set aside at the end of the run because they had no effect.
    pub kinds_aside: u32,
    /// What workers do with marks at the end of the run; of several, what the last one does that
    /// does not use them.
    pub mark_use: &'static str,
    /// Cycles per packet by mark when that was measured last; 0 if never.
    pub mark_cycles: f64,
    /// Cycles per packet in software when that was measured last; 0 if never.
    pub software_cycles: f64,
    /// How often its workers have changed what they do with marks.
    pub mark_switches: u64,
    /// Packets that pay for a rule by which the NIC forwards, as measured last; 0 if the port takes
    /// no rules.
    pub payback_packets: u32,
    /// Time of a packet in the worker, in nanoseconds, without receiving and sending; 0 if not
    /// known.
    pub packet_ns: f64,
    /// Times of successful installs, in microseconds.
    pub insert_us: Times,
    /// Times of successful removals, in microseconds.
    pub delete_us: Times,
    /// Packets that the NIC dropped by rules of access lists.
    pub nic_denied: NicDenied,
}

/// Packets that a NIC dropped by rules of access lists: no worker received them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct NicDenied {
    /// Their number.
    pub packets: u64,
    /// Their frame bytes, without FCS.
    pub bytes: u64,
    /// NIC rules whose last count is unknown.
    pub uncounted: u64,
}

/// Counts of rules and rule requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuleCounts {
    /// Rules in the NIC when the workers stopped.
    pub installed: u64,
    /// Rules that were installed.
    pub created: u64,
    /// Rules that were removed.
    pub destroyed: u64,
    /// Rules that were removed all at once at the end, since time was short.
    pub flushed: u64,
    /// Rules lost in port resets. Those that were installed again count in `created` again.
    pub lost: u64,
    /// Bypass rules whose last count is unknown.
    pub uncounted: u64,
    /// Rules that were refused.
    pub refused: Refused,
    /// Requests not passed to the NIC, since it had refused one shortly before.
    pub resting: u64,
    /// Requests that were withdrawn before they were passed to the NIC.
    pub withdrawn: u64,
    /// Rules that the NIC did not remove, with the driver's words.
    pub stuck: Vec<String>,
}

/// Rules that were refused.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Refused {
    /// Rules refused because the NIC was full.
    pub full: u64,
    /// Rules refused for an error that may pass.
    pub trouble: u64,
    /// Because the NIC takes no such rule.
    pub unsuitable: u64,
    /// Requests not passed to the NIC, since it takes no rule for such packets.
    pub unsupported: u64,
    /// The driver's words for the last refusal.
    pub last: Option<String>,
}

/// Times of calls, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The longest.
    pub max: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// [`OffloadStats`] under the same names, without refusals, which are counted by port.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Admission {
    pub(crate) asked: u64,
    pub(crate) installed: u64,
    pub(crate) effective: u64,
    pub(crate) evicted: u64,
    pub(crate) ineffective: u64,
    pub(crate) lost_effect: u64,
    pub(crate) crowded_out: u64,
    pub(crate) no_slot: u64,
    pub(crate) zone_full: u64,
}

/// Packets that NICs forwarded themselves, as far as they were counted to connections.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bypassed {
    /// Bypass rules that were installed.
    pub(crate) rules: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Bypass rules whose removal was not confirmed when their connection ended.
    pub(crate) unsettled: u64,
}

/// [`MarkStats`] under the same names.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Marks {
    pub counted: u64,
    pub(crate) unusual: u64,
    pub(crate) foreign: u64,
    pub(crate) stale: u64,
    pub(crate) mismatched: u64,
    pub(crate) ignored: u64,
    pub(crate) checked: u64,
}

impl OffloadPort {
    /// Returns the figures of a port without rules.
    pub fn off(name: String, reason: String) -> Self {
        let reason = Some(reason);
        Self {
            name,
            state: "off",
            bypass: "off",
            bypass_reason: reason.clone(),
            bypass_tcp: "off",
            bypass_tcp_reason: reason.clone(),
            reason,
            ..Self::default()
        }
    }

    /// Adds the state of one worker's rules. The threshold of a port is the highest of its workers.
    /// Each worker finds out itself which kinds have no effect.
    pub fn add(&mut self, state: &OffloadStatus) {
        self.threshold_pps = self.threshold_pps.max(state.threshold);
        self.room += u64::from(state.room);
        self.kinds_aside = self.kinds_aside.max(state.kinds_aside);
        self.payback_packets = self.payback_packets.max(state.payback_packets);
        self.packet_ns = self.packet_ns.max(state.packet_ns);
        let MarkChoiceStatus { in_use, by_mark, in_software, switches } = state.marks;
        self.mark_switches += switches;
        if self.mark_use.is_empty() || in_use != MarkUse::Used {
            self.mark_use = in_use.name();
            (self.mark_cycles, self.software_cycles) = (by_mark, in_software);
        }
    }
}

impl Admission {
    /// Adds the counts of one worker.
    pub fn add(&mut self, stats: &OffloadStats) {
        self.asked += stats.requested;
        self.installed += stats.installed;
        self.effective += stats.effective;
        self.evicted += stats.evicted;
        self.ineffective += stats.ineffective;
        self.lost_effect += stats.lost_effect;
        self.crowded_out += stats.crowded_out;
        self.no_slot += stats.no_slot;
        self.zone_full += stats.zone_full;
    }
}

impl Bypassed {
    /// Adds the counts of one worker.
    pub fn add(&mut self, stats: &OffloadStats) {
        let OffloadStats { bypasses, passed: BypassCount { packets, bytes }, unsettled, .. } =
            *stats;
        self.rules += bypasses;
        self.packets += packets;
        self.bytes += bytes;
        self.unsettled += unsettled;
    }
}

impl Marks {
    /// Adds the counts of one worker.
    pub fn add(&mut self, stats: &MarkStats) {
        let MarkStats { counted, unusual, foreign, stale, mismatched, ignored, checked } = *stats;
        self.counted += counted;
        self.unusual += unusual;
        self.foreign += foreign;
        self.stale += stale;
        self.mismatched += mismatched;
        self.ignored += ignored;
        self.checked += checked;
    }
}

impl Offload {
    /// Prints two lines if any port takes rules.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let on: Vec<_> = self.ports.iter().filter(|port| port.state == "on").collect();
        if on.is_empty() {
            return Ok(());
        }
        let sum = |of: fn(&OffloadPort) -> u64| {
            units::thousands(on.iter().map(|port| of(port)).sum::<u64>())
        };
        let stuck = on.iter().map(|port| port.rules.stuck.len()).sum::<usize>();
        let stuck = if stuck > 0 { format!(", {stuck} stuck") } else { String::new() };
        let without = match self.admission.ineffective {
            0 => String::new(),
            rules => format!(", {} without effect", units::thousands(rules)),
        };
        writeln!(
            out,
            "NIC rules: {} created, {} refused, {} at the end{stuck}{without}",
            sum(|port| port.rules.created),
            sum(|port| port.rules.refused.total()),
            sum(|port| port.rules.installed),
        )?;
        let Marks { counted, unusual, foreign, stale, mismatched, .. } = self.marks;
        let [counted, unusual, wrong] =
            [counted, unusual, foreign + stale + mismatched].map(units::thousands);
        let percent = 100.0 * self.marked_share;
        writeln!(
            out,
            "marks: {counted} packets counted by mark ({percent:.1} %), {unusual} unusual, \
             {wrong} wrong"
        )?;
        self.print_bypassed(out)?;
        self.print_nic_denied(out)
    }

    /// Prints a line if a NIC has dropped packets by rules of access lists.
    fn print_nic_denied(&self, out: &mut impl Write) -> io::Result<()> {
        let sum = |of: fn(&NicDenied) -> u64| {
            self.ports.iter().map(|port| of(&port.nic_denied)).sum::<u64>()
        };
        let packets = sum(|denied| denied.packets);
        if packets == 0 {
            return Ok(());
        }
        let [packets, bytes] = [packets, sum(|denied| denied.bytes)].map(units::thousands);
        let uncounted = match sum(|denied| denied.uncounted) {
            0 => String::new(),
            rules => format!(", the last count of {} rules is unknown", units::thousands(rules)),
        };
        writeln!(
            out,
            "denied by NICs: {packets} packets and {bytes} bytes dropped before a worker received \
             them{uncounted}"
        )
    }

    /// Prints a line if a port bypasses.
    fn print_bypassed(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.ports.iter().any(|port| port.bypass == "on" || port.bypass_tcp == "on") {
            return Ok(());
        }
        let uncounted = self.ports.iter().map(|port| port.rules.uncounted).sum::<u64>();
        let uncounted = match uncounted + self.bypassed.unsettled {
            0 => String::new(),
            rules => format!(", the last count of {} rules is unknown", units::thousands(rules)),
        };
        let Bypassed { rules, packets, bytes, .. } = self.bypassed;
        let [rules, packets, bytes] = [rules, packets, bytes].map(units::thousands);
        writeln!(
            out,
            "bypassed: {packets} packets and {bytes} bytes forwarded by the NIC itself, by {rules} \
             rules{uncounted}"
        )
    }
}

impl Refused {
    fn total(&self) -> u64 {
        self.full + self.trouble + self.unsuitable + self.unsupported
    }
}
