// SPDX-License-Identifier: BSD-3-Clause
//! Owns the state table of SCTP associations (RFC 9260), after Linux's nf_conntrack_proto_sctp.c.

use crate::conn::state::State;
use crate::conn::state::State::{
    SctpAborted as AB, SctpClosed as CL, SctpCookie as CE, SctpEstablished as ES,
    SctpHeartbeat as HB, SctpInit as IN, SctpInitAck as IA, SctpShutdown as SD,
    SctpShutdownAck as SA, SctpStray as ST, SctpWithdrawn as WD,
};
use crate::packet::ChunkKind;

const STATES: [State; 9] = [IN, IA, CE, ES, SD, SA, CL, AB, HB];

/// Next state by sender, packet and state.
///
/// An INIT changes no state. If the association has ended, it begins another one; else it requests
/// a restart (section 5.2.2).
const NEXT: [[[State; STATES.len()]; 9]; 2] = [
    // Packets of the originator.
    [
        /* in:       IN  IA  CE  ES  SD  SA  CL  AB  HB */
        /* INIT */
        [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* I+A */ [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* C.E. */ [IN, CE, CE, ES, SD, SA, CL, AB, HB],
        /* C.A. */ [IN, IA, ES, ES, SD, SA, CL, AB, HB],
        // A SHUTDOWN has no effect until the association is established.
        /* SHUT */
        [IN, IA, CE, SD, SD, SA, CL, AB, HB],
        // In ES, the SHUTDOWN before it may have passed between other addresses.
        /* S.A. */
        [IN, IA, CE, SA, SA, SA, CL, AB, HB],
        /* S.C. */ [IN, IA, CE, ES, SD, CL, CL, AB, HB],
        /* ABRT */ [WD, AB, AB, AB, AB, AB, CL, AB, WD],
        /* else */ [IN, IA, CE, ES, SD, SA, CL, AB, HB],
    ],
    // Packets of the responder.
    [
        /* in:       IN  IA  CE  ES  SD  SA  CL  AB  HB */
        /* INIT */
        [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* I+A */ [IA, IA, CE, ES, SD, SA, CL, AB, HB],
        // Both sides send it if both have sent an INIT (section 5.2.1).
        /* C.E. */
        [CE, CE, CE, ES, SD, SA, CL, AB, ES],
        /* C.A. */ [IN, IA, ES, ES, SD, SA, CL, AB, ES],
        /* SHUT */ [IN, IA, SD, SD, SD, SA, CL, AB, SD],
        /* S.A. */ [IN, IA, CE, SA, SA, SA, CL, AB, SA],
        /* S.C. */ [IN, IA, CE, ES, SD, CL, CL, AB, HB],
        /* ABRT */ [AB, AB, AB, AB, AB, AB, CL, AB, AB],
        // If the COOKIE ACK was lost, data of the responder implies it.
        /* else */
        [IN, IA, ES, ES, SD, SA, CL, AB, ES],
    ],
];

impl ChunkKind {
    /// Returns the state after this packet, sent by the originator (0) or the responder (1).
    pub(crate) fn next_state(self, from: State, direction: usize) -> State {
        let by_kind = NEXT[direction & 1].get(self as usize);
        let state = STATES.iter().position(|state| *state == from);
        match (by_kind, state) {
            (Some(by_state), Some(state)) => by_state[state],
            // The responder answers after the originator has sent an ABORT.
            _ if from == WD && direction == 1 => AB,
            _ => from,
        }
    }

    /// Returns the state of an association whose first seen packet this is.
    pub(crate) fn first_state(self) -> State {
        match self {
            ChunkKind::Init => IN,
            // The sender of a stray packet must not become the originator of the next INIT.
            kind if kind.ends() => ST,
            _ => HB,
        }
    }
}
