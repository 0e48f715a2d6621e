// SPDX-License-Identifier: BSD-3-Clause
//! Reads a frame within its bounds, follows IPv6 extension headers, and finds the key of GRE.

use super::fragment::{Fragment, fragment6};
use crate::api::UntrackedReason;
use crate::packet::{
    AUTHENTICATION, DESTINATION, EXTENSION_BYTES_MAX, FRAGMENT, HOP_BY_HOP, ROUTING, extension_len,
};

const EXTENSIONS_MAX: usize = 8;

/// Flags for checksum and routing: either adds a word before the key (RFC 2784 section 2.1, RFC
/// 1701).
const GRE_CHECKSUM_OR_ROUTING: u16 = 0xc000;

/// Flag for the key (RFC 2890 section 2.1).
const GRE_KEY: u16 = 0x2000;

const GRE_VERSION: u16 = 0x0007;

/// The captured headers of a frame, and its length.
pub(super) struct Frame<'a> {
    pub(super) bytes: &'a [u8],
    /// Length of the frame on the wire.
    pub(super) len: usize,
}

impl<'a> Frame<'a> {
    /// Returns the frame without the bytes behind `end`, such as padding.
    pub(super) fn up_to(&self, end: usize) -> Frame<'a> {
        Frame { bytes: &self.bytes[..self.bytes.len().min(end)], len: end }
    }

    /// Returns the `N` bytes at `at`.
    ///
    /// # Errors
    /// `fault` if the frame ends before them; [`UntrackedReason::CaptureCut`] if only the capture
    /// does.
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

/// The transport header's place, and the end of the packet according to IP.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    pub(super) proto: u8,
    pub(super) at: usize,
    /// End of the IP packet in the frame.
    pub(super) end: usize,
    /// Set for a first fragment: lengths in its transport header may point beyond it.
    pub(super) fragment: Option<Fragment>,
    /// True for a jumbogram: a UDP datagram in it has length 0 (RFC 2675 section 4).
    pub(super) is_jumbogram: bool,
}

/// Kind of the bytes that are parsed. A quote may be cut, so it can be shorter than its length
/// field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameBytes {
    Packet,
    Quote,
}

/// Follows the extension headers (RFC 8200 section 4) to the transport header.
///
/// # Errors
/// [`UntrackedReason`] if the chain is cut, too long, or inside a fragment that has no ports.
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
        // RFC 7112 section 5: all headers must be in the first fragment.
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
            // A fragment of a fragment has no ports.
            if transport.fragment.is_some() {
                return Err(UntrackedReason::FragmentTiny);
            }
            transport.fragment = match whole {
                FrameBytes::Packet => fragment6(header, (at + len, end), at - start)?,
                // Offset in the datagram, in units of 8 bytes.
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

/// Returns the key of a GRE header (RFC 2890), which distinguishes tunnels, or 0.
///
/// In version 1 (RFC 2637) it holds a length and the receiver's call. A tunnel has two calls, and
/// the header does not show which belong together.
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
