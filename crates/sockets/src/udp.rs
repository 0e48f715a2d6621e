// SPDX-License-Identifier: BSD-3-Clause
//! Owns the UDP sockets for the streams of a run.
//!
//! A stream that names its source address or port has a socket bound to each of its sources. All
//! other streams share sockets whose ports the kernel chooses. Each burst uses the next of these
//! sockets.

mod open;
mod receive;
mod transmit;

pub use open::{OpenError, UdpPort};
pub(crate) use receive::JOINED_MAX;
pub use receive::UdpRx;
pub use transmit::UdpTx;

use std::net::{IpAddr, SocketAddr};

/// Options of UDP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Number of sockets of each family that streams without their own source share: 1 or more.
    pub sockets: usize,
    /// Datagrams per call, 1 to 1024.
    pub batch: usize,
    /// Pass datagrams of one size to one address to the kernel as one message, which it segments
    /// (`UDP_SEGMENT`).
    pub gso: bool,
    /// Let the kernel join datagrams of one connection (`UDP_GRO`); the receiver separates them
    /// again.
    pub gro: bool,
    /// Send and receive with io_uring instead of `sendmmsg` and `recvmmsg`. Not with `gro`.
    pub io_uring: bool,
    /// With `io_uring`: send from user memory without a copy (Linux 6.1).
    pub zero_copy: bool,
    /// Bytes for packets that wait in a socket, for each direction. The kernel doubles it, up to
    /// `net.core.wmem_max` and `net.core.rmem_max`.
    pub buffer_bytes: i32,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            sockets: 1,
            batch: 32,
            gso: false,
            gro: false,
            io_uring: false,
            zero_copy: false,
            buffer_bytes: 4 << 20,
        }
    }
}

/// Addresses of a stream that its sockets need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpStream {
    /// True if its packets are IPv6.
    pub is_ipv6: bool,
    /// Destination of its packets, if there is only one.
    pub destination: Option<SocketAddr>,
    /// Source addresses of its packets; if empty, the kernel chooses.
    pub addresses: Vec<IpAddr>,
    /// Source ports of its packets; if empty, the kernel chooses.
    pub ports: Vec<u16>,
}

impl UdpStream {
    /// True if the stream names its source address or port.
    pub fn has_source(&self) -> bool {
        !(self.addresses.is_empty() && self.ports.is_empty())
    }
}

/// The sockets that send the frames of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    /// `count` sockets from index `first` on, used in turn.
    Shared { first: usize, count: usize },
    /// The sources with the sockets that are bound to them, sorted by source. An address that the
    /// stream does not name is unspecified; such a port is 0.
    Bound { sources: Vec<(SocketAddr, usize)>, by_address: bool, by_port: bool },
}

/// Returns the unspecified address.
fn unspecified(is_ipv6: bool) -> IpAddr {
    match is_ipv6 {
        true => std::net::Ipv6Addr::UNSPECIFIED.into(),
        false => std::net::Ipv4Addr::UNSPECIFIED.into(),
    }
}
