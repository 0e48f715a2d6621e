// SPDX-License-Identifier: BSD-3-Clause
//! Compares what the ends of a session have sent and received with the counters of their ports.

use super::{EndTotals, Finished};
use stateful::Counter;

/// Frames of a port, as both sides have counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Frames that the ends have handed over, and those that the port has sent.
    pub(crate) sent_by_ends: u64,
    pub(crate) sent_by_port: u64,
    /// Frames that the driver has dropped.
    pub(crate) dropped_by_port: u64,
    /// Frames that have come to the ends, and those that the port has received.
    pub(crate) received_by_ends: u64,
    pub(crate) received_by_port: u64,
}

impl Balance {
    /// True if every frame that the ends have sent is in a counter of the port.
    pub(crate) fn is_sent_whole(&self) -> bool {
        // Drivers count a frame that they refuse once, too, whether it is offered again or not.
        let most = self.sent_by_port + self.dropped_by_port;
        (self.sent_by_port..=most).contains(&self.sent_by_ends)
    }

    /// True if every frame that the port has received has come to the ends.
    pub(crate) fn is_received_whole(&self) -> bool {
        self.received_by_ends == self.received_by_port
    }

    /// True unless a frame is in no counter. Frames that a port received after its last poll are no
    /// fault: the network goes on when the run ends.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_sent_whole() && self.received_by_ends <= self.received_by_port
    }
}

impl Finished {
    /// Returns the balance of each port; none if frames were impaired between ends and ports.
    pub(crate) fn balances(&self) -> Vec<Balance> {
        if !self.impaired.is_empty() {
            return Vec::new();
        }
        let ends = [&self.totals.client, &self.totals.server].into_iter().flatten();
        ends.zip(&self.ports).map(|(end, port)| balance(end, port)).collect()
    }
}

fn balance(end: &EndTotals, port: &super::PortCounts) -> Balance {
    let (now, before) = (port.stats, port.before);
    Balance {
        sent_by_ends: end.counters[Counter::FramesSent] - end.counters[Counter::Unsent],
        sent_by_port: now.opackets.saturating_sub(before.opackets),
        dropped_by_port: now.oerrors.saturating_sub(before.oerrors),
        received_by_ends: end.counters[Counter::FramesReceived],
        received_by_port: now.ipackets.saturating_sub(before.ipackets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{PortCounts, Totals};
    use dpdk::PortStats;

    #[test]
    fn frames_that_no_counter_has_are_found() {
        let end = |sent, unsent, received| {
            let mut end = EndTotals::default();
            end.counters[Counter::FramesSent] = sent;
            end.counters[Counter::Unsent] = unsent;
            end.counters[Counter::FramesReceived] = received;
            end
        };
        let kept = |end: EndTotals| {
            let stats = PortStats { opackets: 110, ipackets: 75, oerrors: 3, ..Default::default() };
            let before = PortStats { opackets: 10, ipackets: 5, oerrors: 1, ..Default::default() };
            let port = PortCounts { name: String::new(), stats, before };
            let totals = Totals { client: Some(end), server: None };
            let (intervals, impaired) = (Vec::new(), Vec::new());
            let balance =
                Finished { totals, intervals, ports: vec![port], impaired, workers: Vec::new() }
                    .balances()[0];
            (balance.is_sent_whole(), balance.is_received_whole(), balance.is_kept())
        };
        assert_eq!(kept(end(100, 0, 70)), (true, true, true));
        assert_eq!(kept(end(105, 3, 70)), (true, true, true), "two dropped by the driver");
        assert_eq!(kept(end(103, 0, 70)), (false, true, false), "one is lost");
        assert_eq!(kept(end(99, 0, 70)), (false, true, false), "one too many was sent");
        assert_eq!(kept(end(100, 0, 69)), (true, false, true), "came after the end");
        assert_eq!(kept(end(100, 0, 71)), (true, false, false), "never came");
    }
}
