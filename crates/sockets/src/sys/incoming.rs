// SPDX-License-Identifier: BSD-3-Clause
//! Receives datagrams with `recvmmsg`.

use super::{Arrays, Name, Socket, SocketError};
use std::ops::Range;
use std::ptr;

/// Buffers for messages of one socket.
pub(crate) struct Incoming {
    buffers: Box<[u8]>,
    /// Bytes of a buffer that are used; `stride` is the distance from one buffer to the next.
    room: usize,
    stride: usize,
    names: Box<[Name]>,
    controls: Box<[GroControl]>,
    arrays: Arrays,
    is_named: bool,
    is_gro: bool,
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// Offset at which the message begins in the buffers.
    pub(crate) at: usize,
    /// Bytes of the message.
    pub(crate) len: usize,
    /// Bytes of each of its datagrams, except the last one, which may be shorter.
    pub(crate) segment: usize,
    /// True if the message was longer than the buffer.
    pub(crate) is_cut: bool,
}

impl Arrived {
    /// Returns the place of the message in the buffers.
    #[inline(always)]
    pub(crate) fn place(self) -> Range<usize> {
        self.at..self.at + self.len
    }

    /// Returns the places of the message's datagrams. An empty message is one datagram without
    /// bytes.
    #[inline(always)]
    pub(crate) fn datagrams(self) -> impl Iterator<Item = Range<usize>> {
        let end = self.at + self.len;
        let step = self.segment.max(1);
        let starts = (self.at..end.max(self.at + 1)).step_by(step);
        starts.map(move |start| start..(start + step).min(end))
    }
}

/// Control data that the kernel adds to a message: the size of the datagrams that it has joined.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct GroControl {
    header: libc::cmsghdr,
    size: i32,
}

impl GroControl {
    const NONE: Self =
        Self { header: libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 }, size: 0 };
}

/// Bytes of a cache line. Buffers are an odd number of lines apart, so that their starts do not
/// share a few sets of the cache.
const LINE: usize = 64;

impl Incoming {
    /// Makes `batch` buffers of `room` bytes. `is_named`: receive the addresses of senders.
    /// `is_gro`: the socket has GRO.
    pub(crate) fn new(batch: usize, room: usize, is_named: bool, is_gro: bool) -> Self {
        let stride = (room.div_ceil(LINE) | 1) * LINE;
        Self {
            buffers: vec![0; stride * batch].into(),
            room,
            stride,
            names: vec![Name::default(); batch].into(),
            controls: vec![GroControl::NONE; batch].into(),
            arrays: Arrays::new(batch, batch),
            is_named,
            is_gro,
        }
    }

    /// Replaces the messages by those that have arrived; returns their number.
    pub(crate) fn receive(&mut self, socket: &Socket) -> Result<usize, SocketError> {
        self.fill();
        let (headers, most) = (self.arrays.headers.as_mut_ptr(), self.names.len() as u32);
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `fill` has written all headers, with pointers to names, controls and buffers of
        // `self` and their sizes. All of these live until the call returns, and any bytes are valid
        // there.
        let received =
            unsafe { libc::recvmmsg(socket.fd(), headers, most, flags, ptr::null_mut()) };
        usize::try_from(received).map_err(|_| SocketError::last())
    }

    #[inline(always)]
    fn fill(&mut self) {
        let buffers = self.buffers.chunks_exact_mut(self.stride);
        for (part, buffer) in self.arrays.parts.iter_mut().zip(buffers) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: self.room };
        }
        let iovecs = self.arrays.parts.as_mut_ptr();
        let rooms = self.names.iter_mut().zip(&mut self.controls);
        let headers = self.arrays.headers.iter_mut();
        for (number, (header, (name, control))) in headers.zip(rooms).enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_iov = iovecs.wrapping_add(number);
            header.msg_iovlen = 1;
            header.msg_flags = 0;
            if self.is_named {
                header.msg_name = name.as_mut_ptr().cast();
                header.msg_namelen = Name::ROOM;
            }
            if self.is_gro {
                header.msg_control = (&raw mut *control).cast();
                header.msg_controllen = size_of::<GroControl>();
            }
        }
    }

    /// Returns message `number` of the last call.
    #[inline(always)]
    pub(crate) fn arrived(&self, number: usize) -> Arrived {
        let header = &self.arrays.headers[number];
        let len = header.msg_len as usize;
        let control = &self.controls[number];
        let has_size = self.is_gro
            && header.msg_hdr.msg_controllen >= size_of::<libc::cmsghdr>() + 4
            && control.header.cmsg_level == libc::SOL_UDP
            && control.header.cmsg_type == libc::UDP_GRO;
        let segment = if has_size { control.size.max(1) as usize } else { len };
        let is_cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        Arrived { at: number * self.stride, len, segment, is_cut }
    }

    /// Returns the sender of message `number`.
    pub(crate) fn name(&self, number: usize) -> &Name {
        &self.names[number]
    }

    /// Returns the bytes at a place of a message.
    #[inline(always)]
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.buffers[place]
    }

    /// Returns the bytes at a place of a message, mutable.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        &mut self.buffers[place]
    }
}
