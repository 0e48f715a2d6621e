// SPDX-License-Identifier: BSD-3-Clause
//! What became of rules of the NIC, and of the packets that they marked.

use engine::{BypassCount, MarkStats, OffloadStats, OffloadStatus};
use results::units;
use serde::Serialize;
use std::io::{self, Write};

/// Rules and marks of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offload {
    /// Who was worth a rule, as `policy` says it.
    pub policy: String,
    /// What NICs forward by themselves, as `bypass` says it.
    pub bypass: String,
    /// One for each port; empty in `replay`.
    pub ports: Vec<OffloadPort>,
    /// Who got rules and what they did, over all workers.
    pub admission: Admission,
    /// Packets with a mark, over all workers.
    pub marks: Marks,
    /// Packets counted by their mark, of all received: 0 to 1.
    pub marked_share: f64,
    /// What the NICs forwarded by themselves: no worker received it.
    pub bypassed: Bypassed,
}

/// Rules of one port.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OffloadPort {
    /// Its device string, as given.
    pub name: String,
    /// `on` or `off`.
    pub state: &'static str,
    /// Why it is off.
    pub reason: Option<String>,
    /// How it is asked: `async`, through a flow queue, or `sync`.
    pub api: Option<&'static str>,
    /// Why not through a flow queue.
    pub api_reason: Option<String>,
    /// What the NIC was asked for, kind by kind.
    pub shapes: Vec<String>,
    /// Bits of its marks, if it takes any.
    pub mark_bits: Option<u32>,
    /// `on`: it forwards to its peer by itself; `off`.
    pub bypass: &'static str,
    /// Why not.
    pub bypass_reason: Option<String>,
    /// What became of rules.
    pub rules: RuleCounts,
    /// Packets per second that were enough for a rule at last.
    pub threshold_pps: f64,
    /// Rules that it had room for, as far as was known at last.
    pub room: u64,
    /// Kinds of rules that were not asked for at last, since they had no effect.
    pub kinds_aside: u32,
    /// Of rules that the NIC took, in microseconds.
    pub insert_us: Times,
    /// Of rules that it parted with.
    pub delete_us: Times,
}

/// What became of wishes for rules.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuleCounts {
    /// In the NIC when the workers stopped.
    pub installed: u64,
    /// Rules that were made.
    pub created: u64,
    /// Rules that were removed.
    pub destroyed: u64,
    /// Destroyed all at once at the end, for want of time.
    pub flushed: u64,
    /// Gone when the port was reset; those that were made again are among those created.
    pub lost: u64,
    /// Of those by which it forwarded by itself, those whose last count is not known.
    pub uncounted: u64,
    /// Rules that were refused.
    pub refused: Refused,
    /// Not asked for, since the port had said no shortly before.
    pub resting: u64,
    /// Wishes that were over before the port heard of them.
    pub withdrawn: u64,
    /// Those that the NIC did not part with, in its words.
    pub stuck: Vec<String>,
}

/// Rules that were refused.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Refused {
    /// For want of room in the NIC.
    pub full: u64,
    /// For trouble that may pass.
    pub trouble: u64,
    /// Because the NIC takes no such rule.
    pub unsuitable: u64,
    /// Not asked for: the NIC takes none for such packets.
    pub unsupported: u64,
    /// The NIC's words for the last one.
    pub last: Option<String>,
}

/// How long calls took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The longest.
    pub max: f64,
    /// Half of them are no longer.
    pub p50: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
}

/// [`OffloadStats`] under the same names, but for refusals: those are the ports'.
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

/// Packets that NICs forwarded by themselves, as far as they are counted to connections.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bypassed {
    /// Rules by which they did.
    pub(crate) rules: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Rules that were not known to be gone when their connection ended.
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
    pub(crate) checked: u64,
}

impl OffloadPort {
    /// A port without rules.
    pub fn off(name: String, reason: String) -> Self {
        let bypass_reason = Some(reason.clone());
        let (state, bypass, reason) = ("off", "off", Some(reason));
        Self { name, state, bypass, reason, bypass_reason, ..Self::default() }
    }

    /// Adds how things stood with one worker's rules. Of several workers the one that asks for most
    /// says what is enough; each finds out by itself what has no effect.
    pub fn add(&mut self, state: &OffloadStatus) {
        self.threshold_pps = self.threshold_pps.max(state.threshold);
        self.room += u64::from(state.room);
        self.kinds_aside = self.kinds_aside.max(state.kinds_aside);
    }
}

impl Admission {
    /// Adds those of one worker.
    pub fn add(&mut self, stats: &OffloadStats) {
        self.asked += stats.asked;
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
    /// Adds those of one worker.
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
    /// Adds those of one worker.
    pub fn add(&mut self, stats: &MarkStats) {
        let MarkStats { counted, unusual, foreign, stale, mismatched, checked } = *stats;
        self.counted += counted;
        self.unusual += unusual;
        self.foreign += foreign;
        self.stale += stale;
        self.mismatched += mismatched;
        self.checked += checked;
    }
}

impl Offload {
    /// Two lines, where any port takes rules.
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
            "rules of the NIC: {} created, {} refused, {} at the end{stuck}{without}",
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
            "marks: {counted} packets counted by them ({percent:.1} %), {unusual} unusual, \
             {wrong} wrong"
        )?;
        self.print_bypassed(out)
    }

    /// A line, where a port forwards by itself.
    fn print_bypassed(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.ports.iter().any(|port| port.bypass == "on") {
            return Ok(());
        }
        let uncounted = self.ports.iter().map(|port| port.rules.uncounted).sum::<u64>();
        let uncounted = match uncounted + self.bypassed.unsettled {
            0 => String::new(),
            rules => format!(", the last count of {} not known", units::thousands(rules)),
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
