// SPDX-License-Identifier: BSD-3-Clause
//! ICMP (RFC 792) and ICMPv6 (RFC 4443): requests and replies, and errors with what they quote, as
//! whoever made them meant it.

use super::life::Tcp;
use super::reference::{Endpoint, Flow, ICMP, ICMPV6, Key, Model, Seen, TCP};
use super::sequence::{Said, Stage};
use super::traffic::{Draft, Packet, Pools, Rng, Shape};
use engine::{CtState, InvalidPackets, Tracking, UntrackedReason, Verdict};
use std::net::IpAddr;
use wire::FrameBuilder;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Icmp {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// 0 for messages without one.
    pub(crate) id: u16,
}

/// RFC 792 and RFC 950 (ICMP), RFC 4443 (ICMPv6): requests and their replies.
const EXCHANGES: [(u8, u8, u8); 5] =
    [(ICMP, 8, 0), (ICMP, 13, 14), (ICMP, 15, 16), (ICMP, 17, 18), (ICMPV6, 128, 129)];

impl Icmp {
    /// The types of request and reply, if it is one of them.
    fn exchange(self, proto: u8) -> Option<[u8; 2]> {
        let is_of = |(of, request, reply)| of == proto && [request, reply].contains(&self.kind);
        let exchange = EXCHANGES.into_iter().find(|exchange| is_of(*exchange));
        exchange.map(|(_, request, reply)| [request, reply])
    }

    /// The type that stands for all of its connection.
    pub(crate) fn asked(self, proto: u8) -> u8 {
        self.exchange(proto).map_or(self.kind, |[request, _]| request)
    }

    pub(crate) fn is_reply(self, proto: u8) -> bool {
        self.exchange(proto).is_some_and(|[_, reply]| reply == self.kind)
    }

    /// Source and destination. Who asks is another end than who answers, at one address too.
    pub(crate) fn ends(self, proto: u8, [src, dst]: [IpAddr; 2]) -> [Endpoint; 2] {
        match self.exchange(proto) {
            Some([request, reply]) => {
                let other = if self.kind == reply { request } else { reply };
                [(src, self.kind.into()), (dst, other.into())]
            }
            None => [(src, 0), (dst, 0)],
        }
    }
}

/// A quoted packet.
#[derive(Clone, Debug)]
pub(crate) struct Quote {
    src: Endpoint,
    dst: Endpoint,
    pub(crate) proto: u8,
    icmp: Option<Icmp>,
    number: u32,
    seq: u32,
}

impl Quote {
    /// Where it came from, and where it went.
    pub(crate) fn ends(&self) -> [Endpoint; 2] {
        [self.src, self.dst]
    }
}

impl Model {
    /// An error about this packet. It says something about a connection, and does nothing to it.
    pub(crate) fn error(&mut self, zone: u16, quote: &Quote) -> Verdict {
        let key = Key::new(zone, quote.proto, [quote.src, quote.dst], quote.icmp, quote.number);
        match self.flows.get(&key) {
            Some(flow) if has_sent(flow, quote) => {
                let is_reply = quote.src == flow.first.src;
                let verdict = self.without_flow(UntrackedReason::Related, zone);
                // The error goes to who sent what it quotes.
                if is_reply {
                    self.state = CtState::RELATED | CtState::REPLY;
                }
                verdict
            }
            None if self.policy(zone).tracking == Tracking::Off => {
                self.without_flow(UntrackedReason::TrackingOff, zone)
            }
            None if !self.config.has_all_packets => {
                let before = std::mem::replace(&mut self.config.invalid, InvalidPackets::Pass);
                let verdict = self.without_flow(UntrackedReason::Unrelated, zone);
                self.config.invalid = before;
                verdict
            }
            _ => self.without_flow(UntrackedReason::Unrelated, zone),
        }
    }
}

fn has_sent(flow: &Flow, quote: &Quote) -> bool {
    if let Some(association) = &flow.association {
        return association.has_sent(usize::from(quote.src != flow.first.src), quote.seq);
    }
    let Some(sequence) = &flow.sequence else { return true };
    let stage = match flow.tcp {
        Tcp::Reset | Tcp::Resumed(_) => return true,
        Tcp::Asked => Stage::Asked,
        Tcp::BothAsked => Stage::BothAsked,
        Tcp::PickedUp => Stage::OneSide,
        _ => Stage::Known,
    };
    sequence.has_sent(stage, usize::from(quote.src != flow.first.src), quote.seq)
}

/// Whether a packet is an error about TCP.
pub(crate) fn is_about_tcp(packet: &Packet) -> bool {
    let seen = packet.meaning.as_ref().ok();
    seen.and_then(|seen| seen.quote.as_ref()).is_some_and(|quote| quote.proto == TCP)
}

/// What is wrong with an error, most often nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It is not sent to the source of what it quotes.
    Receiver,
    /// The quote ends before there is what is needed.
    Ends,
    /// The capture ends within the quote, before there is what is needed.
    Captured,
    Version,
    /// The quote is of a fragment that is not the first.
    Fragment,
}

/// A random error about a random packet.
pub(crate) fn error(dice: &mut Rng, pools: Pools) -> Packet {
    let fault = dice.pick(&[
        Fault::None,
        Fault::None,
        Fault::None,
        Fault::None,
        Fault::None,
        Fault::Receiver,
        Fault::Ends,
        Fault::Captured,
        Fault::Version,
        Fault::Fragment,
    ]);
    let (kind, code) = (dice.below(5) as usize, dice.below(3) as u8);
    let (from_router, is_cut, at) = (dice.one_in(2), dice.one_in(4), dice.below(8));
    let draft = Draft::new(dice, pools);
    let is_v4 = draft.is_v4();
    let (proto, kinds) = if is_v4 { (ICMP, [3, 4, 5, 11, 12]) } else { (ICMPV6, [1, 2, 3, 4, 1]) };
    let icmp = Icmp { kind: kinds[kind], code, id: 0 };
    let (packet, needed) = quoted(&draft, fault, at);
    let router = if is_v4 { [192, 0, 2, 1].into() } else { [0x99; 16].into() };
    let from = if from_router { router } else { draft.dst.0 };
    let to =
        if fault == Fault::Receiver { [draft.dst.0, router][at as usize % 2] } else { draft.src.0 };
    let builder = FrameBuilder::ip(from, to).icmp_error(icmp.kind, code, &packet);
    let builder = draft.tags.iter().fold(builder, |builder, tag| builder.vlan(*tag));
    let header = builder.clone().payload([]).build().len();
    let frame = builder.build();
    let len = frame.len();
    let shape = match fault {
        Fault::Captured => Shape::Captured {
            bytes: header + at as usize * needed / 8,
            frame_len: len,
            wire_len: len,
        },
        _ if is_cut => Shape::Cut(at as usize * len / 8),
        _ => Shape::Whole,
    };
    let quote = Quote {
        src: draft.src,
        dst: draft.dst,
        proto: draft.proto,
        icmp: draft.icmp,
        number: draft.number,
        seq: draft.said.seq,
    };
    let meaning = Seen {
        src: (from, 0),
        dst: (to, 0),
        proto,
        icmp: Some(icmp),
        quote: Some(quote),
        is_spoilt: false,
        side: None,
        number: 0,
        tcp_flags: 0,
        said: Said::default(),
        spoken: None,
        tags: draft.tags.clone(),
        bytes: len as u64,
        ip_bytes: builder.build_packet().len() as u64,
    };
    let meaning = match fault {
        Fault::Captured => Err(UntrackedReason::CaptureCut),
        // RFC 4443 section 2.4 does not forbid it.
        Fault::Fragment if !is_v4 => Err(UntrackedReason::Fragment),
        Fault::Receiver if to == draft.src.0 => Ok(meaning),
        Fault::None => Ok(meaning),
        _ => Err(UntrackedReason::Unrelated),
    };
    Packet { frame, shape, meaning }
}

/// The quoted bytes, and how many of them have to be there.
fn quoted(draft: &Draft, fault: Fault, at: u64) -> (Vec<u8>, usize) {
    let builder = draft.builder.clone();
    // Where there are no ports to find, nobody needs the end of the headers before them.
    let (is_ported, whole) = (draft.header_len > 0, draft.ip_header() + draft.extra);
    let of_transport = if matches!(draft.proto, 47 | 50) { draft.header_len } else { 8 };
    let needed = if is_ported { whole + of_transport } else { draft.ip_header() };
    let packet = match fault {
        Fault::Version => builder.ip_version([0, 5, 10, 15][at as usize % 4]).build_packet(),
        Fault::Fragment if draft.is_v4() => {
            builder.fragment(8 + 8 * at as usize, true).build_packet()
        }
        Fault::Fragment => {
            let fragment = FrameBuilder::ip(draft.src.0, draft.dst.0).protocol(6);
            fragment.fragment(8 + 8 * at as usize, at == 0).payload([7; 60]).build_packet()
        }
        _ => builder.build_packet(),
    };
    let len = match fault {
        Fault::Ends => at as usize * needed / 8,
        Fault::Captured => packet.len(),
        // Routers quote as little as this, or all there is.
        _ if at < 4 && fault != Fault::Fragment => needed.max(whole),
        _ => packet.len(),
    };
    (packet[..len].to_vec(), needed)
}
