// SPDX-License-Identifier: BSD-3-Clause
//! Sends and receives datagrams with io_uring. One system call sends a batch of messages, on
//! request without a copy (Linux 6.1). The kernel puts received datagrams into buffers without a
//! call (multishot `recv` and `recvmsg`, Linux 6.0).

use super::{Arrays, Arrived, Name, Socket, SocketError};
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of a ring's only group of buffers.
const GROUP: u16 = 0;
/// Alignment in bytes that the kernel requires of rings of buffers.
const PAGE: usize = 4096;
/// Bytes of a cache line. Buffers are an odd number of lines apart, so that their starts are spread
/// over all sets of the cache.
const LINE: usize = 64;
/// Bytes before a datagram if senders are received: `struct io_uring_recvmsg_out`, and the sender.
const HEAD: usize = 16 + Name::ROOM as usize;

/// Sends batches of messages.
pub(crate) struct SendRing {
    ring: IoUring,
    results: Vec<i32>,
    /// True if the kernel sends from user memory, and reports when it no longer needs the memory.
    is_zero_copy: bool,
    /// Number of the latest call. Completions of earlier calls may still arrive.
    call: u32,
}

impl SendRing {
    /// Makes a ring for batches of `batch` messages.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or if `is_zero_copy` is set and it cannot send without a
    /// copy.
    pub(crate) fn new(batch: usize, is_zero_copy: bool) -> io::Result<Self> {
        let ring = IoUring::new((batch as u32).next_power_of_two())?;
        if is_zero_copy {
            let mut probe = Probe::new();
            ring.submitter().register_probe(&mut probe)?;
            if !probe.is_supported(opcode::SendMsgZc::CODE) {
                let feature = "this kernel cannot send without a copy, Linux 6.1 can: leave \
                            --zero-copy out";
                return Err(io::Error::new(io::ErrorKind::Unsupported, feature));
            }
        }
        Ok(Self { ring, results: vec![0; batch], is_zero_copy, call: 0 })
    }

    /// True if the kernel sends from user memory.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Sends messages in order, up to the first that fails, like `sendmmsg`.
    ///
    /// # Safety
    /// Everything that the headers point to must be valid until this returns.
    pub(super) unsafe fn send(
        &mut self,
        socket: &Socket,
        headers: &[libc::mmsghdr],
    ) -> Result<usize, SocketError> {
        self.call = self.call.wrapping_add(1);
        for (number, header) in headers.iter().enumerate() {
            let (fd, message) = (Fd(socket.fd()), &raw const header.msg_hdr);
            let flags = libc::MSG_DONTWAIT as u32;
            let entry = match self.is_zero_copy {
                true => opcode::SendMsgZc::new(fd, message).flags(flags).build(),
                false => opcode::SendMsg::new(fd, message).flags(flags).build(),
            };
            let entry = entry.user_data(user_data(self.call, number));
            // The link stops the messages after a failed one: they would overtake it.
            let is_last = number + 1 == headers.len();
            let flags = if is_last { squeue::Flags::empty() } else { squeue::Flags::IO_LINK };
            // SAFETY: by the contract of this function, which returns once all messages are
            // completed.
            let pushed = unsafe { self.ring.submission().push(&entry.flags(flags)) };
            pushed.expect("the ring has room for a batch, and is empty between calls");
        }
        self.wait_for_all(headers.len());
        let results = &self.results[..headers.len()];
        let sent = results.iter().take_while(|result| **result >= 0).count();
        match results.first() {
            Some(error) if *error < 0 => Err(SocketError::of(-error)),
            _ => Ok(sent),
        }
    }

    /// Submits the entries of the ring, and waits until the kernel has completed all of them. A
    /// message that is sent without a copy has two completions: its result, and a notification that
    /// its memory is free. The notification of a cancelled message is not announced and may arrive
    /// later.
    fn wait_for_all(&mut self, count: usize) {
        self.results[..count].fill(0);
        let (mut results, mut in_use) = (0, 0_usize);
        while results < count || in_use > 0 {
            // Ignore errors: a signal, or no memory in the kernel for a moment. To return now would
            // leave the kernel with pointers to freed memory.
            let _ = self.ring.submit_and_wait(1);
            for completion in self.ring.completion() {
                let (call, number) = split(completion.user_data());
                if call != self.call {
                    continue;
                }
                if cqueue::notif(completion.flags()) {
                    in_use -= usize::from(self.results[number] != -libc::ECANCELED);
                    continue;
                }
                self.results[number] = completion.result();
                in_use += usize::from(cqueue::more(completion.flags()));
                results += 1;
            }
        }
    }
}

/// Returns the user data that names message `number` of a call.
fn user_data(call: u32, number: usize) -> u64 {
    u64::from(call) << 32 | number as u64
}

/// Returns the call and the number of the message that `user_data` names.
fn split(user_data: u64) -> (u32, usize) {
    ((user_data >> 32) as u32, user_data as u32 as usize)
}

/// Memory that the kernel writes to, independent of references to its owner.
struct Shared {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, which belongs to its owner.
unsafe impl Send for Shared {}

impl Shared {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE).expect("a size of memory");
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Self { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A received datagram in one of the buffers.
#[derive(Clone, Copy)]
struct Filled {
    buffer: u16,
    /// Offset at which it begins in the buffer.
    at: usize,
    len: usize,
    is_cut: bool,
    from: Name,
}

/// Receives datagrams of one socket.
pub(crate) struct RecvRing {
    ring: IoUring,
    socket: Arc<Socket>,
    /// The ring of free buffers, which the kernel reads.
    free: Shared,
    /// Number of buffers given to the kernel since the start.
    tail: u16,
    entries: u16,
    buffers: Shared,
    /// Bytes of a buffer that are used; `stride` is the distance from one buffer to the next.
    room: usize,
    stride: usize,
    batch: usize,
    filled: Vec<Filled>,
    /// The header with which the kernel also returns senders; `None` if senders are not needed.
    message: Option<Arrays>,
    is_armed: bool,
}

impl RecvRing {
    /// Makes a ring that receives up to `batch` datagrams at once, each into `room` bytes.
    /// `is_named`: receive the addresses of senders.
    pub(crate) fn new(
        socket: Arc<Socket>,
        batch: usize,
        room: usize,
        is_named: bool,
    ) -> io::Result<Self> {
        let room = if is_named { HEAD + room } else { room };
        // While one batch is processed, another may arrive.
        let entries = (2 * batch).next_power_of_two().min(1 << 12) as u16;
        let stride = (room.div_ceil(LINE) | 1) * LINE;
        let free = Shared::new(usize::from(entries) * size_of::<BufRingEntry>());
        let buffers = Shared::new(usize::from(entries) * stride);
        let ring = IoUring::builder().setup_cqsize(2 * u32::from(entries)).build(4)?;
        let address = free.start.as_ptr() as u64;
        // SAFETY: the ring of buffers has `entries` entries and lives as long as the io_uring,
        // which `drop` cancels first.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(address, entries, GROUP, 0)?;
        }
        let message = is_named.then(|| {
            let mut arrays = Arrays::new(1, 0);
            arrays.headers[0].msg_hdr.msg_namelen = Name::ROOM;
            arrays
        });
        let filled = Vec::with_capacity(batch);
        let mut new = Self {
            ring,
            socket,
            free,
            tail: 0,
            entries,
            buffers,
            room,
            stride,
            batch,
            filled,
            message,
            is_armed: false,
        };
        (0..entries).for_each(|buffer| new.give_back(buffer));
        new.publish();
        Ok(new)
    }

    /// Replaces the datagrams by those that have arrived; returns their number.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<usize, SocketError> {
        self.free();
        if !self.is_armed {
            self.arm()?;
        }
        let mut error = None;
        for completion in self.ring.completion().take(self.batch) {
            self.is_armed &= cqueue::more(completion.flags());
            let buffer = cqueue::buffer_select(completion.flags());
            match (u32::try_from(completion.result()), buffer) {
                (Ok(len), Some(buffer)) => {
                    let len = self.room.min(len as usize);
                    let from = Name::default();
                    self.filled.push(Filled { buffer, at: 0, len, is_cut: false, from });
                }
                // Without a free buffer, receiving stops; the next call starts it again.
                (Err(_), _) if completion.result() == -libc::ENOBUFS => {}
                (Err(_), _) => error = Some(SocketError::of(-completion.result())),
                (Ok(_), None) => {}
            }
        }
        if self.message.is_some() {
            (0..self.filled.len()).for_each(|number| self.read_head(number));
        }
        match error {
            Some(error) if self.filled.is_empty() => Err(error),
            _ => Ok(self.filled.len()),
        }
    }

    /// Reads the header that the kernel has written before datagram `number`.
    #[inline(always)]
    fn read_head(&mut self, number: usize) {
        let Some(message) = &self.message else { return };
        let filled = self.filled[number];
        let Ok(found) = RecvMsgOut::parse(self.buffer(filled), &message.headers[0].msg_hdr) else {
            return;
        };
        let (from, is_cut) = (Name::read(found.name_data()), found.is_payload_truncated());
        let len = filled.len - HEAD;
        self.filled[number] = Filled { at: HEAD, len, is_cut, from, ..filled };
    }

    /// Makes the kernel receive until it is cancelled or has no free buffer.
    #[cold]
    fn arm(&mut self) -> Result<(), SocketError> {
        let fd = Fd(self.socket.fd());
        let entry = match &self.message {
            Some(message) => {
                let header = &raw const message.headers[0].msg_hdr;
                opcode::RecvMsgMulti::new(fd, header, GROUP).build()
            }
            None => opcode::RecvMulti::new(fd, GROUP).build(),
        };
        let mut submission = self.ring.submission();
        // An entry that an earlier call could not submit is still there.
        if submission.is_empty() {
            // SAFETY: the kernel writes only to buffers of the group, which live until `drop` has
            // cancelled it. It reads a header that lives as long as the ring.
            let pushed = unsafe { submission.push(&entry) };
            pushed.expect("the ring is empty");
        }
        drop(submission);
        match self.ring.submit() {
            Ok(_) => self.is_armed = true,
            Err(error) => return Err(SocketError::of(error.raw_os_error().unwrap_or(0))),
        }
        Ok(())
    }

    /// Returns datagram `number`. Its place counts as if the buffers lay in the order of the
    /// datagrams.
    #[inline(always)]
    pub(crate) fn arrived(&self, number: usize) -> Arrived {
        let Filled { at, len, is_cut, .. } = self.filled[number];
        Arrived { at: number * self.stride + at, len, segment: len, is_cut }
    }

    /// Returns the sender of datagram `number`, if senders are received.
    #[inline(always)]
    pub(crate) fn name(&self, number: usize) -> &Name {
        &self.filled[number].from
    }

    /// Returns the bytes at a place of a datagram.
    ///
    /// # Panics
    /// If no datagram is there.
    #[inline(always)]
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        let (number, at) = (place.start / self.stride, place.start % self.stride);
        &self.buffer(self.filled[number])[at..][..place.len()]
    }

    /// Returns the bytes at a place of a datagram, mutable.
    ///
    /// # Panics
    /// If no datagram is there.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        let (number, at) = (place.start / self.stride, place.start % self.stride);
        let Filled { buffer, at: head, len, .. } = self.filled[number];
        let start = self.start_of(buffer);
        // SAFETY: as in `buffer`; `self` is borrowed mutably, so there is no other reference.
        let buffer = unsafe { std::slice::from_raw_parts_mut(start, head + len) };
        &mut buffer[at..][..place.len()]
    }

    /// Returns the bytes of a datagram's buffer that the kernel has filled.
    #[inline(always)]
    fn buffer(&self, filled: Filled) -> &[u8] {
        let start = self.start_of(filled.buffer);
        // SAFETY: the kernel has returned the buffer, and it has at least that many bytes.
        unsafe { std::slice::from_raw_parts(start, filled.at + filled.len) }
    }

    #[inline(always)]
    fn start_of(&self, buffer: u16) -> *mut u8 {
        self.buffers.start.as_ptr().wrapping_add(usize::from(buffer) * self.stride)
    }

    /// Gives the buffers back to the kernel.
    #[inline]
    pub(crate) fn free(&mut self) {
        if self.filled.is_empty() {
            return;
        }
        for number in 0..self.filled.len() {
            self.give_back(self.filled[number].buffer);
        }
        self.filled.clear();
        self.publish();
    }

    #[inline(always)]
    fn give_back(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (self.entries - 1));
        let address = self.start_of(buffer);
        // SAFETY: the slot is one of the entries, and behind what the kernel may read: it holds no
        // more buffers than there are entries. The first one's last field is the tail, which the
        // methods of an entry leave alone.
        let entry = unsafe { &mut *self.free.start.as_ptr().cast::<BufRingEntry>().add(slot) };
        entry.set_addr(address as u64);
        entry.set_len(self.room as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline(always)]
    fn publish(&mut self) {
        // SAFETY: this is the start of the ring of buffers, whose tail is a number that the kernel
        // only reads.
        unsafe {
            let tail = BufRingEntry::tail(self.free.start.as_ptr().cast());
            AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for RecvRing {
    fn drop(&mut self) {
        let cancelled = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let is_over = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        if !is_over {
            // The kernel may still write to this memory: leak it.
            std::mem::forget(std::mem::replace(&mut self.free, Shared::new(0)));
            std::mem::forget(std::mem::replace(&mut self.buffers, Shared::new(0)));
        }
    }
}
