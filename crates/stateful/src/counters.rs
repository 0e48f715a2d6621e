// SPDX-License-Identifier: BSD-3-Clause
//! What the ends of a worker count and time.

use hdrhistogram::Histogram;
use std::ops::{Index, IndexMut};

/// What is counted. Connections count at clients that opened them, and at servers that accepted
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Connections that were opened: their first packet was sent or, at a server, received.
    Attempted,
    /// Connections whose handshake was completed; UDP exchanges with a first answer.
    Established,
    /// Connections whose program ended and that closed as it says.
    Completed,
    /// Failed connections: no SYN+ACK came or, at a server, no ACK of it.
    NoSynAck,
    /// Failed connections: the peer sent a RST.
    Reset,
    /// Failed connections: data was sent again and again without acknowledgement, or nothing came
    /// for too long.
    Timeout,
    /// Failed connections, as for one of the other causes, of which packets had a wrong checksum.
    Checksum,
    /// Failed connections: received bytes were not those that the peer's program sends.
    WrongData,
    /// Failed connections: the peer closed before the program had received all it expects.
    ClosedEarly,
    /// Failed connections: no answer to a datagram came.
    NoAnswer,
    /// Failed connections: an ICMP error says that the peer or its port cannot be reached.
    Unreachable,
    /// Failed connections: an ICMP error says that no program has the UDP port of the peer.
    Refused,
    /// Connections that the end of the run cut off.
    Aborted,
    /// Connections that were due and not opened: no tuple or no record was free, or the worker was
    /// late.
    Unopened,
    /// Responses of which the first byte has come.
    Responses,
    /// SYNs and SYN+ACKs that were sent again.
    SynRetransmits,
    /// Times that data or a FIN was sent again after a timeout.
    TimeoutRetransmits,
    /// Segments that were sent again after duplicate acknowledgements.
    FastRetransmits,
    /// Duplicate acknowledgements that were received.
    DuplicateAcks,
    /// Segments with data or FIN that had come before.
    DuplicateSegments,
    /// Segments with data behind a gap.
    EarlySegments,
    /// Datagrams whose bytes were not those expected next: duplicates, or out of order.
    UnexpectedDatagrams,
    /// Packets with a wrong checksum.
    BadChecksums,
    /// Packets with wrong lengths or headers, and fragments.
    Malformed,
    /// ICMP errors about packets of open connections.
    IcmpErrors,
    /// Packets for our addresses that belong to no connection.
    Stray,
    /// Frames that are not for us, or of other protocols.
    Foreign,
    /// Connections that were refused because all records were in use.
    TableFull,
    /// Times that a port had no room for a frame at once.
    Blocked,
    /// Times that connections were due and the port had no room for their first packets.
    HeldBack,
    /// RSTs that were sent.
    ResetsSent,
    /// Frames that the port had no room for until the end.
    Unsent,
    /// Frames that were sent, with answers to neighbours.
    FramesSent,
    /// Their bytes, without FCS.
    BytesSent,
    /// TCP segments that were sent.
    SegmentsSent,
    /// Bytes of TCP and UDP payload that were sent, with those sent again.
    PayloadSent,
    /// Frames that were received.
    FramesReceived,
    /// Their bytes, without FCS.
    BytesReceived,
    /// Frames of another worker's connections, which it got.
    HandedOff,
    /// Those of them that were lost because that worker was too far behind.
    HandOffsLost,
    /// TCP segments that were received for open connections.
    SegmentsReceived,
    /// Bytes of TCP and UDP payload that were received in order.
    PayloadReceived,
}

impl Counter {
    /// All of them, in the order of their values.
    pub const ALL: [Self; 42] = [
        Self::Attempted,
        Self::Established,
        Self::Completed,
        Self::NoSynAck,
        Self::Reset,
        Self::Timeout,
        Self::Checksum,
        Self::WrongData,
        Self::ClosedEarly,
        Self::NoAnswer,
        Self::Unreachable,
        Self::Refused,
        Self::Aborted,
        Self::Unopened,
        Self::Responses,
        Self::SynRetransmits,
        Self::TimeoutRetransmits,
        Self::FastRetransmits,
        Self::DuplicateAcks,
        Self::DuplicateSegments,
        Self::EarlySegments,
        Self::UnexpectedDatagrams,
        Self::BadChecksums,
        Self::Malformed,
        Self::IcmpErrors,
        Self::Stray,
        Self::Foreign,
        Self::TableFull,
        Self::Blocked,
        Self::HeldBack,
        Self::ResetsSent,
        Self::Unsent,
        Self::FramesSent,
        Self::BytesSent,
        Self::SegmentsSent,
        Self::PayloadSent,
        Self::FramesReceived,
        Self::BytesReceived,
        Self::HandedOff,
        Self::HandOffsLost,
        Self::SegmentsReceived,
        Self::PayloadReceived,
    ];

    /// Causes of failed connections.
    pub const FAILURES: [Self; 9] = [
        Self::NoSynAck,
        Self::Reset,
        Self::Timeout,
        Self::Checksum,
        Self::WrongData,
        Self::ClosedEarly,
        Self::NoAnswer,
        Self::Unreachable,
        Self::Refused,
    ];

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attempted => "attempted",
            Self::Established => "established",
            Self::Completed => "completed",
            Self::NoSynAck => "no_syn_ack",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Checksum => "checksum",
            Self::WrongData => "wrong_data",
            Self::ClosedEarly => "closed_early",
            Self::NoAnswer => "no_answer",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Unopened => "unopened",
            Self::Responses => "responses",
            Self::SynRetransmits => "syn_retransmits",
            Self::TimeoutRetransmits => "timeout_retransmits",
            Self::FastRetransmits => "fast_retransmits",
            Self::DuplicateAcks => "duplicate_acks",
            Self::DuplicateSegments => "duplicate_segments",
            Self::EarlySegments => "early_segments",
            Self::UnexpectedDatagrams => "unexpected_datagrams",
            Self::BadChecksums => "bad_checksums",
            Self::Malformed => "malformed",
            Self::IcmpErrors => "icmp_errors",
            Self::Stray => "stray",
            Self::Foreign => "foreign",
            Self::TableFull => "table_full",
            Self::Blocked => "blocked",
            Self::HeldBack => "held_back",
            Self::ResetsSent => "resets_sent",
            Self::Unsent => "unsent",
            Self::FramesSent => "frames_sent",
            Self::BytesSent => "bytes_sent",
            Self::SegmentsSent => "segments_sent",
            Self::PayloadSent => "payload_sent",
            Self::FramesReceived => "frames_received",
            Self::BytesReceived => "bytes_received",
            Self::HandedOff => "handed_off",
            Self::HandOffsLost => "hand_offs_lost",
            Self::SegmentsReceived => "segments_received",
            Self::PayloadReceived => "payload_received",
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::ALL.len()])
    }
}

impl Index<Counter> for Counters {
    type Output = u64;

    #[inline(always)]
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<Counter> for Counters {
    #[inline(always)]
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl Counters {
    /// Adds those of another worker or interval.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// Returns what was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - before.0[at]))
    }

    /// Returns the number of connections that failed.
    pub fn failures(&self) -> u64 {
        Counter::FAILURES.into_iter().map(|cause| self[cause]).sum()
    }

    /// Returns the number of connections that are open, or opening.
    pub fn active(&self) -> u64 {
        let ended = self[Counter::Completed] + self.failures() + self[Counter::Aborted];
        self[Counter::Attempted] - ended
    }
}

/// Latencies of an interval in microseconds, with three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// From the first SYN to the SYN+ACK.
    pub setup: Histogram<u64>,
    /// From a request to the first byte of its response.
    pub first_byte: Histogram<u64>,
    /// From a request to the last byte of its response: the last that the program receives before
    /// it does something else.
    pub response: Histogram<u64>,
}

/// Longest latency in microseconds that is told apart: longer ones count as this.
const LATENCY_MAX_US: u64 = 60_000_000;

impl Default for Latencies {
    fn default() -> Self {
        let histogram = || {
            let mut histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)
                .expect("bounds that the library accepts");
            histogram.auto(false);
            histogram
        };
        Self { setup: histogram(), first_byte: histogram(), response: histogram() }
    }
}

impl Latencies {
    /// Adds those of another worker or interval.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.setup.add(&other.setup);
        let _ = self.first_byte.add(&other.first_byte);
        let _ = self.response.add(&other.response);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.setup.reset();
        self.first_byte.reset();
        self.response.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        assert!(Counter::ALL.iter().enumerate().all(|(at, counter)| *counter as usize == at));
        let mut counters = Counters::default();
        counters[Counter::Attempted] = 10;
        counters[Counter::Completed] = 3;
        let before = counters;
        counters[Counter::Reset] += 2;
        counters[Counter::Timeout] += 1;
        assert_eq!((counters.failures(), counters.active()), (3, 4));
        assert_eq!(counters.since(&before)[Counter::Reset], 2);
        let mut sum = counters;
        sum.add(&counters);
        assert_eq!((sum[Counter::Attempted], sum.active()), (20, 8));
    }
}
