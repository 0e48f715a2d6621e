// SPDX-License-Identifier: BSD-3-Clause
//! Compares what `millrace` made of a capture with what it must have made of each packet, and keeps
//! account of it.

use crate::chain::Chain;
use crate::conversations::Conversations;
use crate::counted::CAUSES;
use crate::datagrams::{Place, places};
use crate::packet::Packet;
use crate::rules::{
    CLAIMS_LESS, EXCEPTIONS, Exception, FOLLOWED, ICMP_ERROR, OF_DATAGRAMS, OF_ICMP_ERRORS, OTHERS,
    OVERHEAD, OVERHEAD_MAX, Ours, RULES,
};
use crate::tally::{Replayed, Tallies, Tally};
use std::collections::BTreeMap;
use std::path::Path;

/// What was compared, and what did not agree.
#[derive(Debug, Default)]
pub(crate) struct Account {
    captures: u64,
    /// Captures that tshark refuses, because it does not know their link type.
    pub(crate) refused: u64,
    packets: u64,
    tracked: u64,
    /// Directions of flows.
    flows: u64,
    /// Directions of conversations.
    conversations: u64,
    /// Packets passed untracked that tshark counts to conversations.
    passed_but_conversing: u64,
    /// Packets by the difference that is about them.
    pub(crate) differences: BTreeMap<&'static str, u64>,
    faults: Vec<String>,
}

impl Account {
    /// A capture of a link type that tshark does not know: `millrace` must not know it either.
    pub(crate) fn compare_refused(&mut self, capture: &Path, ours: &Replayed) {
        self.captures += 1;
        self.refused += 1;
        self.packets += ours.packets;
        if ours.passed != BTreeMap::from([("link_type".to_owned(), ours.packets)]) {
            let capture = capture.display();
            self.faults.push(format!("{capture}: refused by tshark, but not by millrace"));
        }
    }

    /// Compares packet by packet, and sets right the conversations that tshark must have.
    pub(crate) fn compare_capture(
        &mut self,
        capture: &Path,
        packets: &[Packet],
        ours: &Replayed,
        conversations: &mut Conversations,
    ) {
        conversations.add_flows(&ours.flows);
        let mut flows = Tallies::new();
        let mut passed = BTreeMap::new();
        let alone = (1..).zip(packets).map(|(number, packet)| self.judge(capture, number, packet));
        let places = places(packets, alone.collect());
        for (packet, flow) in packets.iter().zip(places) {
            if packet.claims_less() {
                self.count(CLAIMS_LESS);
            }
            let difference = match &flow {
                Ok(_) if packet.chain() == Chain::Fragment => Some(FOLLOWED),
                Ok(_) => None,
                Err(reason) => OF_DATAGRAMS.iter().find(|of| of.0 == *reason).map(|of| of.1),
            };
            difference.into_iter().for_each(|why| self.count(why));
            self.tracked += u64::from(flow.is_ok());
            match &flow {
                Ok(flow) => {
                    let key = (flow.tuple.clone(), flow.from);
                    *flows.entry(key).or_default() += self.tally(packet);
                }
                Err(reason) => *passed.entry((*reason).to_owned()).or_default() += 1,
            }
            if conversations.correct(packet, flow.as_ref().ok()) {
                self.explain_conversations(capture, packet, flow.is_ok());
            }
        }
        self.captures += 1;
        self.packets += packets.len() as u64;
        self.flows += flows.len() as u64;
        self.compare_passed(capture, &ours.passed, &passed);
        self.compare_flows(capture, &ours.flows, flows);
    }

    /// Compares the tables of `tshark -z conv` with what they must be.
    pub(crate) fn compare_conversations(&mut self, tshark: &Conversations, must: &Conversations) {
        self.conversations += tshark.len() as u64;
        self.faults.extend(tshark.differences(must));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.captures += other.captures;
        self.refused += other.refused;
        self.packets += other.packets;
        self.tracked += other.tracked;
        self.flows += other.flows;
        self.conversations += other.conversations;
        self.passed_but_conversing += other.passed_but_conversing;
        for (why, n) in other.differences {
            *self.differences.entry(why).or_default() += n;
        }
        self.faults.extend(other.faults);
    }

    /// The flow that must have counted the packet, or the reason why none did, as far as it says so
    /// itself: a fragment behind the first does not.
    fn judge(&mut self, capture: &Path, number: u64, packet: &Packet) -> Option<Place> {
        let is_it = |exception: &&Exception| {
            capture.ends_with(exception.capture) && exception.number.is_none_or(|n| n == number)
        };
        if let Some(exception) = EXCEPTIONS.iter().find(is_it) {
            self.count(exception.why);
            return Some(match exception.ours {
                Ours::Passed(reason) => Err(reason),
                Ours::Counted { proto, ports } => Ok(packet.flow_with(proto, ports)),
            });
        }
        if let Some(rule) = RULES.iter().find(|rule| (rule.holds)(packet)) {
            self.count(rule.why);
            return Some(Err(rule.reason));
        }
        if packet.chain() == Chain::Fragment {
            return None;
        }
        Some(packet.flow().ok_or_else(|| {
            let capture = capture.display();
            self.faults
                .push(format!("{capture}: packet {number}: neither flow nor rule: {packet:?}"));
            "unexplained"
        }))
    }

    /// What a flow must count for the packet.
    fn tally(&mut self, packet: &Packet) -> Tally {
        let bytes = packet.frame_len();
        let overhead = bytes.saturating_sub(packet.ip_len().unwrap_or(0));
        if overhead > OVERHEAD_MAX {
            self.count(OVERHEAD);
        }
        Tally { packets: 1, bytes, ip_bytes: bytes - overhead.min(OVERHEAD_MAX) }
    }

    /// Finds the cause why tshark counts a packet otherwise.
    fn explain_conversations(&mut self, capture: &Path, packet: &Packet, is_tracked: bool) {
        if !is_tracked {
            self.passed_but_conversing += 1;
            return;
        }
        match CAUSES.iter().find(|cause| (cause.holds)(packet)) {
            Some(cause) => self.count(cause.why),
            None => {
                let capture = capture.display();
                self.faults.push(format!("{capture}: other conversations, no cause: {packet:?}"));
            }
        }
    }

    fn compare_passed(
        &mut self,
        capture: &Path,
        ours: &BTreeMap<String, u64>,
        must: &BTreeMap<String, u64>,
    ) {
        let (mut ours, mut must) = (ours.clone(), must.clone());
        if let Some(errors) = must.remove(ICMP_ERROR) {
            let sum = |passed: &mut BTreeMap<String, u64>| -> u64 {
                OF_ICMP_ERRORS.iter().filter_map(|reason| passed.remove(*reason)).sum()
            };
            let (of_ours, of_must) = (sum(&mut ours), sum(&mut must) + errors);
            ours.insert(ICMP_ERROR.to_owned(), of_ours);
            must.insert(ICMP_ERROR.to_owned(), of_must);
        }
        if ours != must {
            let capture = capture.display();
            self.faults.push(format!("{capture}: passed {ours:?}, must have passed {must:?}"));
        }
    }

    fn compare_flows(&mut self, capture: &Path, ours: &Tallies, mut must: Tallies) {
        let capture = capture.display();
        for (key, tally) in ours {
            let must = must.remove(key).unwrap_or_default();
            if *tally != must {
                self.faults.push(format!("{capture}: {key:?} has {tally:?}, must have {must:?}"));
            }
        }
        for (key, must) in must {
            self.faults.push(format!("{capture}: {key:?} is missing, must have {must:?}"));
        }
    }

    fn count(&mut self, why: &'static str) {
        *self.differences.entry(why).or_default() += 1;
    }

    /// Prints what was compared, for those who look.
    pub(crate) fn print(&self) {
        println!(
            "{} captures ({} of link types that tshark does not know), {} packets, {} of them in \
             flows; {} directions of flows",
            self.captures, self.refused, self.packets, self.tracked, self.flows
        );
        let count = |why| self.differences.get(why).copied().unwrap_or(0);
        for rule in &RULES {
            println!("{:8} passed, {}: {}", count(rule.why), rule.reason, rule.why);
        }
        let mut exceptions: Vec<&str> = EXCEPTIONS.iter().map(|exception| exception.why).collect();
        exceptions.dedup();
        for why in exceptions.into_iter().chain(OTHERS) {
            println!("{:8} {why}", count(why));
        }
        println!("{} directions of conversations", self.conversations);
        println!("{:8} passed untracked, but in conversations", self.passed_but_conversing);
        for cause in &CAUSES {
            println!("{:8} {}", count(cause.why), cause.why);
        }
    }

    pub(crate) fn assert_good(&self) {
        assert!(self.faults.is_empty(), "\n{}\n", self.faults.join("\n"));
    }
}
