// SPDX-License-Identifier: BSD-3-Clause
//! Owns the queue of datagrams that wait for `sendmmsg` or io_uring.

use super::{Arrays, Name, SendRing, Socket, SocketError};
use std::ops::Range;
use std::ptr;

/// Maximum number of segments in one message (`UDP_MAX_SEGMENTS` of Linux before 6.9).
const SEGMENTS_MAX: usize = 64;
/// Maximum number of bytes in one message: the longest IPv4 packet without its headers.
const SEGMENTED_MAX: usize = 65_535 - 20 - 8;
/// Maximum number of pages in one message that is sent without a copy (`MAX_SKB_FRAGS`), less one.
const PAGES_MAX: usize = 16;
const PAGE: usize = 4096;

/// Messages that wait to be sent by one socket, in order. Each is a datagram, or with GSO several
/// datagrams of one size to one address, which the kernel separates.
pub(crate) struct Outgoing {
    messages: Vec<Message>,
    /// Payloads of all messages, by their places in the arena.
    parts: Vec<Part>,
    /// Index of the first message that the kernel has not taken.
    first: usize,
    is_gso: bool,
    /// Maximum number of memory pages in which the parts of a message may lie.
    pages_max: usize,
    arrays: Arrays,
    controls: Box<[SegmentControl]>,
    /// The ring that sends instead of `sendmmsg`.
    ring: Option<SendRing>,
}

#[derive(Clone, Copy)]
struct Message {
    to: Option<Name>,
    first_part: usize,
    parts: usize,
    datagrams: usize,
    /// Bytes of a datagram.
    segment: usize,
}

#[derive(Clone, Copy)]
struct Part {
    at: usize,
    len: usize,
}

/// Control message with the size of segments.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SegmentControl {
    header: libc::cmsghdr,
    size: u16,
}

impl SegmentControl {
    const NONE: Self = Self {
        header: libc::cmsghdr {
            // CMSG_LEN(2)
            cmsg_len: size_of::<libc::cmsghdr>() + 2,
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        },
        size: 0,
    };
}

impl Outgoing {
    /// Makes a queue for `batch` datagrams.
    pub(crate) fn new(batch: usize, is_gso: bool) -> Self {
        Self {
            messages: Vec::with_capacity(batch),
            parts: Vec::with_capacity(batch),
            first: 0,
            is_gso,
            pages_max: usize::MAX,
            arrays: Arrays::new(batch, batch),
            controls: vec![SegmentControl::NONE; batch].into(),
            ring: None,
        }
    }

    /// Makes the queue send with io_uring.
    pub(crate) fn with_ring(self, ring: SendRing) -> Self {
        let pages_max = if ring.is_zero_copy() { PAGES_MAX } else { usize::MAX };
        Self { ring: Some(ring), pages_max, ..self }
    }

    /// Adds the datagram at `place` of the arena. `to` is `None` for the destination of a connected
    /// socket.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, to: Option<Name>, place: Range<usize>) {
        assert!(self.parts.len() < self.controls.len(), "there is room");
        let part = Part { at: place.start, len: place.len() };
        self.parts.push(part);
        if self.is_gso && self.joins(to, part) {
            return;
        }
        let first_part = self.parts.len() - 1;
        self.messages.push(Message { to, first_part, parts: 1, datagrams: 1, segment: part.len });
    }

    /// Adds joined datagrams at `place`, which the kernel separates. Each has `segment` bytes; the
    /// last one may have fewer.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn push_joined(&mut self, to: Name, place: Range<usize>, segment: usize) {
        let datagrams = place.len().div_ceil(segment.max(1)).max(1);
        self.push(Some(to), place);
        if let Some(message) = self.messages.last_mut() {
            (message.segment, message.datagrams) = (segment, datagrams);
        }
    }

    /// Joins a part to the last message if it fits; true if it did.
    #[inline(always)]
    fn joins(&mut self, to: Option<Name>, part: Part) -> bool {
        let Some(last) = self.messages.last_mut() else { return false };
        let fits = last.parts < SEGMENTS_MAX && (last.parts + 1) * part.len <= SEGMENTED_MAX;
        let is_same = last.segment == part.len && last.to == to && part.len > 0;
        // At any alignment, a part touches at most two pages more than its length fills.
        let pages = (last.parts + 1).saturating_mul(part.len / PAGE + 2);
        let is_joined = fits && is_same && pages <= self.pages_max;
        last.parts += usize::from(is_joined);
        last.datagrams = last.parts;
        is_joined
    }

    /// Returns the number of waiting messages.
    pub(crate) fn waiting(&self) -> usize {
        self.messages.len() - self.first
    }

    /// Drops the first waiting message; returns the number of its datagrams.
    pub(crate) fn drop_first(&mut self) -> usize {
        self.advance(1)
    }

    /// Drops all messages; returns the number of datagrams that waited.
    pub(crate) fn drop_all(&mut self) -> usize {
        let datagrams = self.advance(self.waiting());
        self.clear();
        datagrams
    }

    /// Removes all messages.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.parts.clear();
        self.first = 0;
    }

    /// Offers the messages to the kernel; `bytes` returns the bytes at a place of the arena.
    /// Returns the number of datagrams that the kernel took.
    pub(crate) fn send<'a>(
        &mut self,
        socket: &Socket,
        bytes: impl Fn(Range<usize>) -> &'a [u8],
    ) -> Result<usize, SocketError> {
        let count = self.fill(bytes);
        if let Some(ring) = &mut self.ring {
            let headers = &self.arrays.headers[..count];
            // SAFETY: as for `sendmmsg` below.
            let sent = unsafe { ring.send(socket, headers) }?;
            return Ok(self.advance(sent));
        }
        let headers = self.arrays.headers.as_mut_ptr();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `fill` has written that number of headers, with pointers to names, parts and
        // controls of `self` and to bytes of the arena. All of these live until the call returns.
        // The kernel only reads them, and writes lengths into the headers.
        let sent = unsafe { libc::sendmmsg(socket.fd(), headers, count as u32, flags) };
        match usize::try_from(sent) {
            Ok(sent) => Ok(self.advance(sent)),
            Err(_) => Err(SocketError::last()),
        }
    }

    /// Writes the arrays for all waiting messages; returns their number.
    #[inline(always)]
    fn fill<'a>(&mut self, bytes: impl Fn(Range<usize>) -> &'a [u8]) -> usize {
        let waiting = &self.messages[self.first..];
        let Some(first) = waiting.first() else { return 0 };
        let parts = &self.parts[first.first_part..];
        for (to, part) in self.arrays.parts.iter_mut().zip(parts) {
            let bytes = bytes(part.at..part.at + part.len);
            *to = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: part.len };
        }
        let iovecs = self.arrays.parts.as_mut_ptr();
        let arrays = self.arrays.headers.iter_mut().zip(&mut self.controls);
        for ((header, control), message) in arrays.zip(waiting) {
            let header = &mut header.msg_hdr;
            (header.msg_name, header.msg_namelen) = match &message.to {
                Some(name) => (name.as_ptr().cast_mut().cast(), name.len()),
                None => (ptr::null_mut(), 0),
            };
            header.msg_iov = iovecs.wrapping_add(message.first_part - first.first_part);
            header.msg_iovlen = message.parts;
            if message.datagrams == 1 {
                (header.msg_control, header.msg_controllen) = (ptr::null_mut(), 0);
                continue;
            }
            control.size = message.segment as u16;
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = size_of::<SegmentControl>();
        }
        waiting.len()
    }

    /// Removes the first `messages` waiting messages; returns the number of their datagrams.
    #[inline(always)]
    fn advance(&mut self, messages: usize) -> usize {
        let gone = &self.messages[self.first..][..messages];
        let datagrams = gone.iter().map(|message| message.datagrams).sum();
        self.first += messages;
        datagrams
    }
}

const _: () = assert!(size_of::<SegmentControl>() == 24);
