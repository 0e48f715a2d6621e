// SPDX-License-Identifier: BSD-3-Clause
//! The state table of SCTP associations (RFC 9260, as Linux' nf_conntrack_proto_sctp.c tells it
//! from outside).

use crate::conn::state::State;
use crate::conn::state::State::{
    SctpAborted as AB, SctpClosed as CL, SctpCookie as CE, SctpEstablished as ES,
    SctpHeartbeat as HB, SctpInit as IN, SctpInitAck as IA, SctpShutdown as SD,
    SctpShutdownAck as SA, SctpStray as ST, SctpWithdrawn as WD,
};
use crate::packet::ChunkKind;

const STATES: [State; 9] = [IN, IA, CE, ES, SD, SA, CL, AB, HB];

/// By sender, packet and state: the next state. INIT leads nowhere: in place of an association that
/// has ended it begins another, and in one that goes on it asks for a restart (section 5.2.2).
const NEXT: [[[State; STATES.len()]; 9]; 2] = [
    // Of the originator.
    [
        /* in:       IN  IA  CE  ES  SD  SA  CL  AB  HB */
        /* INIT */
        [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* I+A */ [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* C.E. */ [IN, CE, CE, ES, SD, SA, CL, AB, HB],
        /* C.A. */ [IN, IA, ES, ES, SD, SA, CL, AB, HB],
        // Of one who was not answered it says nothing.
        /* SHUT */
        [IN, IA, CE, SD, SD, SA, CL, AB, HB],
        // The SHUTDOWN may have gone between other addresses.
        /* S.A. */
        [IN, IA, CE, SA, SA, SA, CL, AB, HB],
        /* S.C. */ [IN, IA, CE, ES, SD, CL, CL, AB, HB],
        /* ABRT */ [WD, AB, AB, AB, AB, AB, CL, AB, WD],
        /* else */ [IN, IA, CE, ES, SD, SA, CL, AB, HB],
    ],
    // Of the responder.
    [
        /* in:       IN  IA  CE  ES  SD  SA  CL  AB  HB */
        /* INIT */
        [IN, IA, CE, ES, SD, SA, CL, AB, HB],
        /* I+A */ [IA, IA, CE, ES, SD, SA, CL, AB, HB],
        // Of both where both have asked at once (section 5.2.1).
        /* C.E. */
        [CE, CE, CE, ES, SD, SA, CL, AB, ES],
        /* C.A. */ [IN, IA, ES, ES, SD, SA, CL, AB, ES],
        /* SHUT */ [IN, IA, SD, SD, SD, SA, CL, AB, SD],
        /* S.A. */ [IN, IA, CE, SA, SA, SA, CL, AB, SA],
        /* S.C. */ [IN, IA, CE, ES, SD, CL, CL, AB, HB],
        /* ABRT */ [AB, AB, AB, AB, AB, AB, CL, AB, AB],
        // A COOKIE ACK that was lost: data of the responder says the same.
        /* else */
        [IN, IA, ES, ES, SD, SA, CL, AB, ES],
    ],
];

impl ChunkKind {
    /// The state after it, sent by the originator (0) or the responder (1).
    pub(crate) fn next_state(self, from: State, direction: usize) -> State {
        let by_kind = NEXT[direction & 1].get(self as usize);
        let state = STATES.iter().position(|state| *state == from);
        match (by_kind, state) {
            (Some(by_state), Some(state)) => by_state[state],
            // The answer comes late.
            _ if from == WD && direction == 1 => AB,
            _ => from,
        }
    }

    /// The state of an association of which it is the first packet that is seen.
    pub(crate) fn first_state(self) -> State {
        match self {
            ChunkKind::Init => IN,
            // A stray one must not name the originator of the INIT that follows it.
            kind if kind.ends() => ST,
            _ => HB,
        }
    }
}
