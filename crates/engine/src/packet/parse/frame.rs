// SPDX-License-Identifier: BSD-3-Clause
//! Reading a frame within its bounds, IPv6 extension headers, and the key of GRE.

use super::fragment::{Fragment, fragment6};
use crate::api::UntrackedReason;
use crate::packet::{
    AUTHENTICATION, DESTINATION, EXTENSION_BYTES_MAX, FRAGMENT, HOP_BY_HOP, ROUTING, extension_len,
};

const EXTENSIONS_MAX: usize = 8;

/// RFC 2784 section 2.1 and RFC 1701: either of checksum and routing adds a word before the key.
const GRE_CHECKSUM_OR_ROUTING: u16 = 0xc000;

/// RFC 2890 section 2.1.
const GRE_KEY: u16 = 0x2000;

const GRE_VERSION: u16 = 0x0007;

/// The headers at hand, and what is known of the packet beyond them.
pub(super) struct Frame<'a> {
    pub(super) bytes: &'a [u8],
    /// Frame length on the wire.
    pub(super) len: usize,
}

impl<'a> Frame<'a> {
    /// The frame without what is behind `end`, such as padding.
    pub(super) fn up_to(&self, end: usize) -> Frame<'a> {
        Frame { bytes: &self.bytes[..self.bytes.len().min(end)], len: end }
    }

    /// `N` bytes at `at`. `fault` if the frame ends before them; if only the capture does, that.
    pub(super) fn read<const N: usize>(
        &self,
        at: usize,
        fault: UntrackedReason,
    ) -> Result<[u8; N], UntrackedReason> {
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(chunk) => Ok(*chunk),
            None if at + N > self.len => Err(fault),
            None => Err(UntrackedReason::CaptureCut),
        }
    }

    pub(super) fn u16(&self, at: usize, fault: UntrackedReason) -> Result<u16, UntrackedReason> {
        Ok(u16::from_be_bytes(self.read(at, fault)?))
    }
}

/// The transport header's place and its end as IP says.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    pub(super) proto: u8,
    pub(super) at: usize,
    /// End of the IP packet in the frame.
    pub(super) end: usize,
    /// If it is one of several fragments: lengths inside may point beyond the first.
    pub(super) fragment: Option<Fragment>,
    /// RFC 2675 section 4: the length of a UDP datagram inside is 0.
    pub(super) is_jumbogram: bool,
}

/// What is followed. Of a quote there is as much as there was room for: its length says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameBytes {
    Packet,
    Quote,
}

/// Follows the extension headers (RFC 8200 section 4) to the transport header.
pub(super) fn extensions(
    frame: &Frame,
    next: u8,
    start: usize,
    end: usize,
    whole: FrameBytes,
) -> Result<Transport, UntrackedReason> {
    let mut transport =
        Transport { proto: next, at: start, end, fragment: None, is_jumbogram: false };
    for count in 0.. {
        let Transport { proto, at, .. } = transport;
        if !matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
            break;
        }
        if count == EXTENSIONS_MAX {
            return Err(UntrackedReason::ExtensionLimit);
        }
        // RFC 7112 section 5: all headers are in the first fragment.
        let truncated = match transport.fragment {
            None => UntrackedReason::ExtensionTruncated,
            Some(_) => UntrackedReason::FragmentTiny,
        };
        if at + 8 > end {
            return Err(truncated);
        }
        let header: [u8; 8] = frame.read(at, UntrackedReason::ExtensionTruncated)?;
        let len = extension_len(proto, header[1]);
        if proto == FRAGMENT {
            // A fragment of a fragment: no ports are in it.
            if transport.fragment.is_some() {
                return Err(UntrackedReason::FragmentTiny);
            }
            transport.fragment = match whole {
                FrameBytes::Packet => fragment6(header, (at + len, end), at - start)?,
                // Bytes of a datagram before this one, in units of 8.
                FrameBytes::Quote if [header[2], header[3] & !7] != [0; 2] => {
                    return Err(UntrackedReason::Fragment);
                }
                FrameBytes::Quote => None,
            };
        }
        transport.proto = header[0];
        transport.at = at + len;
        if transport.at > end {
            return Err(truncated);
        }
        if transport.fragment.is_some_and(|fragment| !fragment.is_first()) {
            break;
        }
        if transport.at - start > EXTENSION_BYTES_MAX {
            return Err(UntrackedReason::ExtensionLimit);
        }
    }
    Ok(transport)
}

/// The key of a GRE header (RFC 2890) that tells tunnels apart, or 0. Of version 1 (RFC 2637) it is
/// a length and the call of the receiver: there are two to a tunnel, and nothing here tells which
/// belong together.
pub(super) fn gre_key(
    frame: &Frame,
    at: usize,
    fault: UntrackedReason,
) -> Result<[u8; 4], UntrackedReason> {
    let flags = frame.u16(at, fault)?;
    match flags & (GRE_KEY | GRE_VERSION) {
        GRE_KEY if flags & GRE_CHECKSUM_OR_ROUTING == 0 => frame.read(at + 4, fault),
        GRE_KEY => frame.read(at + 8, fault),
        _ => Ok([0; 4]),
    }
}
