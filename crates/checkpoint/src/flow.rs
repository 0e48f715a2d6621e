// SPDX-License-Identifier: BSD-3-Clause
//! Writes one connection as bytes, and reads it from untrusted bytes.

use engine::{ConnSnapshot, CtMark, DirectionCounters, SnapshotState, VlanTags};
use std::net::IpAddr;

/// Written instead of a VLAN identifier: no tag.
const NO_TAG: u16 = 0xffff;
/// Flag beside the IP version: a mark and a label follow at the end.
const MARKED: u8 = 0x10;
/// Flag beside the IP version: two SCTP verification tags follow, before mark and label.
const TAGGED: u8 = 0x20;
/// Written instead of a window shift: the window check is off.
const NO_SCALE: u8 = 0xff;
/// Most bytes of a connection.
pub(super) const FLOW_MAX: usize = 143;

/// Appends a connection.
pub(super) fn write(flow: &ConnSnapshot, out: &mut Vec<u8>) {
    let [a, b] = flow.scales.unwrap_or([NO_SCALE; 2]);
    let is_marked = flow.ct_mark != CtMark::default();
    let version = if flow.src.is_ipv4() { 4 } else { 6 };
    let version = if is_marked { version | MARKED } else { version };
    let is_tagged = flow.tags != [0; 2];
    let version = if is_tagged { version | TAGGED } else { version };
    out.extend([version, flow.proto, flow.state as u8, a, b]);
    for address in [flow.src, flow.dst] {
        match address {
            IpAddr::V4(address) => out.extend(address.octets()),
            IpAddr::V6(address) => out.extend(address.octets()),
        }
    }
    let tag = |place: usize| flow.vlan.ids().get(place).copied().unwrap_or(NO_TAG);
    for number in [flow.sport, flow.dport, flow.icmp, flow.zone, tag(0), tag(1)] {
        out.extend(number.to_le_bytes());
    }
    out.extend(flow.start.to_le_bytes());
    out.extend(flow.last_seen.to_le_bytes());
    for tally in [flow.orig, flow.reply] {
        for number in [tally.packets, tally.bytes, tally.ip_bytes] {
            out.extend(number.to_le_bytes());
        }
        out.push(tally.tcp_flags);
    }
    if is_tagged {
        flow.tags.iter().for_each(|tag| out.extend(tag.to_le_bytes()));
    }
    if is_marked {
        out.extend(flow.ct_mark.mark.to_le_bytes());
        out.extend(flow.ct_mark.label.to_le_bytes());
    }
}

/// Reads bytes from the front.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a connection that [`write`] wrote.
    pub(super) fn flow(&mut self) -> Option<ConnSnapshot> {
        let version = self.u8()?;
        let (proto, state, scales) = (self.u8()?, self.u8()?, self.array()?);
        let (src, dst) = match version & !(MARKED | TAGGED) {
            4 => (IpAddr::from(self.array::<4>()?), IpAddr::from(self.array::<4>()?)),
            6 => (IpAddr::from(self.array::<16>()?), IpAddr::from(self.array::<16>()?)),
            _ => return None,
        };
        let (sport, dport, icmp, zone) = (self.u16()?, self.u16()?, self.u16()?, self.u16()?);
        let tags = [self.u16()?, self.u16()?];
        let tags = tags.split(|tag| *tag == NO_TAG).next().unwrap_or_default();
        Some(ConnSnapshot {
            src,
            dst,
            proto,
            sport,
            dport,
            icmp,
            zone,
            vlan: VlanTags::new(tags),
            start: self.u64()?,
            last_seen: self.u64()?,
            orig: self.tally()?,
            reply: self.tally()?,
            state: SnapshotState::of_number(state)?,
            scales: (scales != [NO_SCALE; 2]).then_some(scales),
            tags: if version & TAGGED != 0 { [self.u32()?, self.u32()?] } else { [0; 2] },
            ct_mark: if version & MARKED != 0 { self.ct_mark()? } else { CtMark::default() },
        })
    }

    fn ct_mark(&mut self) -> Option<CtMark> {
        let mark = self.u32()?;
        Some(CtMark { mark, label: self.array().map(u128::from_le_bytes)? })
    }

    fn tally(&mut self) -> Option<DirectionCounters> {
        let (packets, bytes, ip_bytes) = (self.u64()?, self.u64()?, self.u64()?);
        Some(DirectionCounters { packets, bytes, ip_bytes, tcp_flags: self.u8()? })
    }
}
