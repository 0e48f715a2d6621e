// SPDX-License-Identifier: BSD-3-Clause
//! Sends and receives the generator's traffic over Linux sockets instead of DPDK ports.
//!
//! A [`UdpPort`] opens UDP sockets. The kernel makes the headers: only the UDP payload of each
//! frame of a [`traffic::Source`] is sent, to the frame's destination. A [`PacketPort`] sends and
//! receives whole frames of an interface. An [`EchoPort`] sends datagrams back. Senders, receivers,
//! pacing, verification and reports are those of the crate `generator`.
//!
//! A packet counts as sent once the kernel has taken it. A packet that the kernel refuses is
//! offered again, or counts as unsent, never as lost.
#![deny(unsafe_code)]

mod address;
mod arena;
mod arrivals;
mod counts;
mod echo;
mod line;
mod packet;
mod sys;
mod udp;

pub use counts::KernelCounts;
pub use echo::{Echo, EchoOptions, EchoPort, EchoReport};
pub use packet::{PacketOptions, PacketPort, PacketRx, PacketTx};
pub use udp::{OpenError, UdpOptions, UdpPort, UdpRx, UdpStream, UdpTx};
