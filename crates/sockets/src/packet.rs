// SPDX-License-Identifier: BSD-3-Clause
//! Sends and receives whole frames of a Linux interface through packet sockets (`AF_PACKET`), which
//! need CAP_NET_RAW.
//!
//! The kernel's own stack also sees every received frame. The kernel removes the outermost VLAN tag
//! of received frames. It delivers frames that GRO has joined as one long frame.

use crate::arena::Arena;
use crate::counts::KernelCounts;
use crate::line::Line;
use crate::sys::{Incoming, Opt, Socket, VNET_HEADER, complete_checksum, interface_index};
use generator::{Receive, TakenFrames, Transmit, WaitingFrame};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::{ROOM, Written};

/// Options of packet sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// Frames per call, 1 to 1024.
    pub batch: usize,
    /// Pass frames directly to the driver, without the queues of the interface
    /// (`PACKET_QDISC_BYPASS`).
    pub qdisc_bypass: bool,
    /// Bytes for frames that wait in a socket, for each direction.
    pub buffer_bytes: i32,
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self { batch: 32, qdisc_bypass: false, buffer_bytes: 4 << 20 }
    }
}

/// The packet sockets of an interface: one "port" of the generator.
#[derive(Debug)]
pub struct PacketPort {
    sender: Arc<Socket>,
    receiver: Arc<Socket>,
    options: PacketOptions,
    counts: Arc<KernelCounts>,
    drops: AtomicU64,
}

impl PacketPort {
    /// Opens a socket that sends through the interface, and one that receives all of its frames.
    pub fn open(interface: &str, options: PacketOptions) -> io::Result<Self> {
        let index = interface_index(interface)?;
        let sender = Socket::packet()?;
        sender.set(Opt::SendBuffer, options.buffer_bytes)?;
        if options.qdisc_bypass {
            sender.set(Opt::QdiscBypass, 1)?;
        }
        sender.bind_interface(index, false)?;
        let receiver = Socket::packet()?;
        receiver.set(Opt::ReceiveBuffer, options.buffer_bytes)?;
        receiver.set(Opt::IgnoreOutgoing, 1)?;
        receiver.set(Opt::VnetHeader, 1)?;
        receiver.hold_promiscuous(index)?;
        receiver.bind_interface(index, true)?;
        let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
        Ok(Self { sender, receiver, options, counts: Arc::default(), drops: AtomicU64::new(0) })
    }

    /// Returns the sender of the interface.
    pub fn transmit(&self) -> PacketTx {
        let batch = self.options.batch.clamp(1, 1024);
        PacketTx {
            arena: Arena::new(batch),
            line: Line::new(Arc::clone(&self.sender), batch, false),
            refused: Vec::with_capacity(batch),
            counts: Arc::clone(&self.counts),
        }
    }

    /// Returns the receiver of the interface.
    pub fn receive(&self) -> PacketRx {
        let batch = self.options.batch.clamp(1, 1024);
        PacketRx {
            socket: Arc::clone(&self.receiver),
            incoming: Incoming::new(batch, ROOM + VNET_HEADER, false, false),
            frames: Vec::with_capacity(batch),
        }
    }

    /// Returns the number of received frames that the socket dropped because its buffer was full.
    pub fn drops(&self) -> io::Result<u64> {
        let new = u64::from(self.receiver.take_packet_drops()?);
        Ok(self.drops.fetch_add(new, Ordering::Relaxed) + new)
    }

    /// Returns the counters of frames that the kernel refused.
    pub fn counts(&self) -> &KernelCounts {
        &self.counts
    }
}

/// Sends frames through an interface.
pub struct PacketTx {
    arena: Arena,
    line: Line,
    refused: Vec<WaitingFrame>,
    counts: Arc<KernelCounts>,
}

impl Transmit for PacketTx {
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        self.arena.room()
    }

    #[inline(always)]
    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let (made, place) = self.arena.push(interval, write);
        self.line.push(made, None, place);
    }

    #[inline(always)]
    fn flush(&mut self) -> TakenFrames {
        let taken = match self.line.waiting() {
            0 => TakenFrames::default(),
            _ => self.line.flush(self.arena.bytes(), &self.counts, &mut self.refused),
        };
        if self.line.waiting() == 0 {
            self.arena.clear();
        }
        taken
    }

    #[inline(always)]
    fn waiting(&self) -> usize {
        self.line.waiting() + self.refused.len()
    }

    fn for_each_waiting(&self, visit: impl FnMut(WaitingFrame)) {
        self.line.see_waiting(visit);
    }

    fn discard(&mut self, mut drop: impl FnMut(WaitingFrame)) {
        self.take_refused(&mut drop);
        self.line.discard(drop);
        self.arena.clear();
    }

    #[inline(always)]
    fn take_refused(&mut self, drop: impl FnMut(WaitingFrame)) {
        if !self.refused.is_empty() {
            self.refused.drain(..).for_each(drop);
        }
    }
}

/// Receives the frames of an interface.
pub struct PacketRx {
    socket: Arc<Socket>,
    incoming: Incoming,
    frames: Vec<Range<usize>>,
}

impl Receive for PacketRx {
    #[inline(always)]
    fn receive(&mut self) -> usize {
        self.frames.clear();
        // Ignore errors: the kernel reports once that an interface went down.
        let count = self.incoming.receive(&self.socket).unwrap_or_default();
        for number in 0..count {
            let place = self.incoming.arrived(number).place();
            complete_checksum(self.incoming.bytes_mut(place.clone()));
            self.frames.push((place.start + VNET_HEADER).min(place.end)..place.end);
        }
        count
    }

    #[inline(always)]
    fn frame(&mut self, number: usize) -> &[u8] {
        self.incoming.bytes(self.frames[number].clone())
    }

    fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| frame.len() as u64).sum()
    }

    fn free(&mut self) {
        self.frames.clear();
    }

    fn waiting(&self) -> Option<u32> {
        None
    }
}
