// SPDX-License-Identifier: BSD-3-Clause
//! A TCP connection whose ends go on with numbers that were not seen, as the documentation tells
//! it: two segments of different sides that fit each other bring it back, a FIN or an RST of both
//! that fit nothing shorten its life.

use super::reference::{FIN, RST, Seen};
use engine::{Anomaly, Side};

/// How long it lives then.
pub(crate) const SHORT: u64 = 300_000_000_000;

/// What was said last that did not fit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drift {
    /// When the connection was seen last.
    last: u64,
    segment: Option<Seen>,
    closer: Option<(usize, Option<Side>)>,
}

/// What a packet does that does not fit.
#[derive(Debug)]
pub(crate) enum Drifted {
    Nothing,
    /// It answers this one.
    Back(Seen),
    /// Both sides have said that it is over.
    Over,
}

fn are_across(a: (usize, Option<Side>), b: (usize, Option<Side>)) -> bool {
    a.0 != b.0 && (a.1.is_none() || b.1.is_none() || a.1 != b.1)
}

impl Drift {
    /// A packet of this end does not fit into a connection that was seen last at this time.
    pub(crate) fn hear(
        &mut self,
        packet: &Seen,
        from: usize,
        last: u64,
        irregular: Anomaly,
    ) -> Drifted {
        use Anomaly::{TcpAckBeyond, TcpAckOld, TcpBeyondWindow, TcpOld, TcpRst, TcpRstInWindow};
        let of_numbers = [TcpBeyondWindow, TcpAckBeyond, TcpOld, TcpAckOld, TcpRst, TcpRstInWindow];
        if !of_numbers.contains(&irregular) || packet.tcp_flags & super::reference::SYN != 0 {
            return Drifted::Nothing;
        }
        if self.last != last {
            *self = Drift { last, ..Drift::default() };
        }
        let (speaker, flags) = ((from, packet.side), packet.tcp_flags);
        if flags & RST == 0 {
            let answered = self.segment.clone().filter(|asked| {
                let asker = (1 - from, asked.side);
                let asked_end = asked
                    .said
                    .seq
                    .wrapping_add(asked.said.data + u32::from(asked.tcp_flags & FIN != 0));
                asked.src == packet.dst
                    && asked.src != packet.src
                    && are_across(asker, speaker)
                    && packet.said.seq == asked.said.ack
                    && packet.said.ack == asked_end
            });
            if let Some(asked) = answered.filter(|_| !packet.is_spoilt) {
                *self = Drift::default();
                return Drifted::Back(asked);
            }
            self.segment = Some(packet.clone());
        }
        if flags & (FIN | RST) == 0 || packet.is_spoilt {
            return Drifted::Nothing;
        }
        match self.closer.replace(speaker) {
            Some(closer) if are_across(closer, speaker) => Drifted::Over,
            _ => Drifted::Nothing,
        }
    }
}
