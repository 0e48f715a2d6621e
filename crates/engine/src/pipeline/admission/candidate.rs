// SPDX-License-Identifier: BSD-3-Clause
//! Returns the fields of a packet that rules of access lists are compared with.

use crate::api::{AccessLists, CtState, PROTO_SCTP, PROTO_TCP, PROTO_UDP, Side};
use crate::packet::{HeaderInfo, Key, KeyParts, PacketMeta, PacketView};
use acl::Fragment;

/// The lists that judge the packets of a burst, and the side at which it arrived.
pub(super) type Lists<'a> = (&'a AccessLists, Side);

/// A packet of a batch.
#[derive(Clone, Copy)]
pub(in crate::pipeline) struct Candidate<'a> {
    pub(in crate::pipeline) meta: PacketMeta,
    pub(in crate::pipeline) info: &'a HeaderInfo,
    /// True for a fragment.
    pub(in crate::pipeline) is_fragment: bool,
    /// The mark that the NIC has given it; 0 for none.
    pub(in crate::pipeline) mark: u32,
}

impl<'a> Candidate<'a> {
    /// Returns the packet of a view.
    pub(super) fn of(packet: &PacketView<'a>) -> Self {
        let PacketView { meta, header_info: info, is_fragment, mark, .. } = *packet;
        Self { meta, info, is_fragment, mark }
    }

    /// Returns the fields that rules are compared with.
    pub(in crate::pipeline) fn fields<const W: usize>(
        &self,
        key: &Key<W>,
        (ct, mark): (CtState, u32),
    ) -> acl::Packet {
        self.fields_in(key, (states(ct), mark))
    }

    /// Returns the fields that rules are compared with, in these states of its connection.
    #[inline(always)]
    pub(super) fn fields_in<const W: usize>(
        &self,
        key: &Key<W>,
        (ct, mark): (acl::CtStates, u32),
    ) -> acl::Packet {
        let KeyParts { low, high, low_port, high_port, zone, proto } = key.parts();
        let (mut ends, mut ports) = ([low, high], [low_port, high_port]);
        if self.meta.swapped() == 1 {
            ends.reverse();
            ports.reverse();
        }
        let has_header = !self.info.is_later_fragment();
        let has_ports = matches!(proto, PROTO_TCP | PROTO_UDP | PROTO_SCTP);
        acl::Packet {
            src: ends[0],
            dst: ends[1],
            proto,
            // A later fragment has those of its datagram, if the connection is known.
            ports: has_ports.then_some(ports).filter(|_| has_header || ports != [0; 2]),
            // As are these; without a connection both are 0.
            icmp: (proto == Key::<W>::ICMP && (has_header || ports != [0; 2]))
                .then(|| key.icmp(self.meta.swapped())),
            tcp_flags: (proto == PROTO_TCP && has_header).then(|| self.meta.tcp_flags()),
            fragment: match (has_header, self.is_fragment) {
                (true, false) => Fragment::None,
                (true, true) => Fragment::First,
                (false, _) => Fragment::Later,
            },
            zone,
            ct,
            mark,
        }
    }
}

/// Returns the states for rules.
pub(super) fn states(ct: CtState) -> acl::CtStates {
    let pairs = CtState::ALL.iter().zip(acl::CtStates::ALL);
    let mut found = pairs.filter(|((state, _), _)| ct.contains(*state)).map(|(_, (own, _))| own);
    let first = found.next().unwrap_or(acl::CtStates::UNTRACKED);
    found.fold(first, |states, own| states | own)
}
