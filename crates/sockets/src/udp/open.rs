// SPDX-License-Identifier: BSD-3-Clause
//! Opens the sockets of a run.

use super::{Route, UdpOptions, UdpRx, UdpStream, UdpTx, unspecified};
use crate::counts::KernelCounts;
use crate::sys::{Opt, Socket};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum number of sockets of a run.
const SOCKETS_MAX: usize = 256;

/// Errors of opening sockets for streams.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused to open a socket.
    #[error("cannot open a UDP socket")]
    Socket(#[from] io::Error),
    /// The host does not have the address, or another socket has the port.
    #[error("cannot bind a UDP socket to {address}; the address must be one of this host")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is no route to the address.
    #[error("cannot send to {address}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The streams need too many sockets.
    #[error(
        "the streams need {0} sockets, one for each source address and port, and 256 are allowed: \
         name fewer, or leave src and sport out"
    )]
    TooMany(usize),
}

/// A socket, and its destination if there is only one.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) socket: Arc<Socket>,
    pub(super) is_ipv6: bool,
    /// Destination of all its packets; the inner `None` means more than one, the outer that no
    /// stream uses the socket yet.
    destination: Option<Option<SocketAddr>>,
}

impl Opened {
    /// True if the socket is connected, so that packets need not name their destination.
    pub(super) fn is_connected(&self) -> bool {
        self.destination.flatten().is_some()
    }

    fn add_destination(&mut self, destination: Option<SocketAddr>) {
        let before = self.destination.unwrap_or(destination);
        self.destination = Some(before.filter(|_| before == destination));
    }
}

/// The UDP sockets of a run: one "port" of the generator.
#[derive(Debug)]
pub struct UdpPort {
    pub(super) sockets: Vec<Opened>,
    pub(super) routes: Vec<Route>,
    pub(super) options: UdpOptions,
    pub(super) counts: Arc<KernelCounts>,
    /// Index of the first shared socket of each family.
    shared: [Option<usize>; 2],
}

impl UdpPort {
    /// Opens the sockets of `streams`.
    pub fn open(streams: &[UdpStream], options: UdpOptions) -> Result<Self, OpenError> {
        let counts = Arc::default();
        let (sockets, routes) = (Vec::new(), Vec::new());
        let mut port = Self { sockets, routes, options, counts, shared: [None; 2] };
        let needed: usize = streams.iter().map(|stream| port.needed(stream)).sum();
        if needed + options.sockets > SOCKETS_MAX {
            return Err(OpenError::TooMany(needed + options.sockets));
        }
        for stream in streams {
            let route = port.route(stream)?;
            port.routes.push(route);
        }
        for Opened { socket, destination, .. } in &port.sockets {
            if let Some(Some(address)) = *destination {
                let connected = socket.connect(address);
                connected.map_err(|source| OpenError::Connect { address, source })?;
            }
        }
        Ok(port)
    }

    /// Returns the sender of these sockets. Fails if io_uring is set and the kernel refuses it.
    pub fn transmit(&self) -> io::Result<UdpTx> {
        UdpTx::new(self)
    }

    /// Returns a receiver for each socket. Fails if io_uring is set and the kernel refuses it.
    pub fn receive(&self) -> io::Result<Vec<UdpRx>> {
        let new = |opened: &Opened| {
            let socket = Arc::clone(&opened.socket);
            UdpRx::new(socket, opened.is_ipv6, self.options, Arc::clone(&self.counts))
        };
        self.sockets.iter().map(new).collect()
    }

    /// Returns the addresses of the sockets.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(|opened| opened.socket.local_address()).collect()
    }

    /// Returns the number of received packets that the sockets dropped, mostly because their
    /// buffers were full.
    pub fn drops(&self) -> io::Result<u64> {
        self.sockets.iter().map(|opened| opened.socket.drops().map(u64::from)).sum()
    }

    /// Returns the counters of packets that the kernel refused.
    pub fn counts(&self) -> &KernelCounts {
        &self.counts
    }

    /// Returns the number of sockets that a stream needs for its own sources.
    fn needed(&self, stream: &UdpStream) -> usize {
        match (stream.addresses.len(), stream.ports.len()) {
            (0, 0) => 0,
            (addresses, ports) => addresses.max(1).saturating_mul(ports.max(1)),
        }
    }

    fn route(&mut self, stream: &UdpStream) -> Result<Route, OpenError> {
        let UdpStream { is_ipv6, destination, .. } = *stream;
        let route = match self.needed(stream) {
            0 => self.shared(is_ipv6)?,
            _ => self.bound(stream)?,
        };
        let used: Vec<usize> = match &route {
            Route::Shared { first, count } => (*first..first + count).collect(),
            Route::Bound { sources, .. } => sources.iter().map(|(_, socket)| *socket).collect(),
        };
        used.into_iter().for_each(|number| self.sockets[number].add_destination(destination));
        Ok(route)
    }

    fn shared(&mut self, is_ipv6: bool) -> Result<Route, OpenError> {
        let count = self.options.sockets.max(1);
        let family = usize::from(is_ipv6);
        if self.shared[family].is_none() {
            let any = SocketAddr::new(unspecified(is_ipv6), 0);
            let first = self.sockets.len();
            for _ in 0..count {
                self.add(any)?;
            }
            self.shared[family] = Some(first);
        }
        Ok(Route::Shared { first: self.shared[family].unwrap_or(0), count })
    }

    fn bound(&mut self, stream: &UdpStream) -> Result<Route, OpenError> {
        let (by_address, by_port) = (!stream.addresses.is_empty(), !stream.ports.is_empty());
        let addresses = match by_address {
            true => stream.addresses.clone(),
            false => vec![unspecified(stream.is_ipv6)],
        };
        let ports = if by_port { stream.ports.clone() } else { vec![0] };
        let pairs = addresses.iter().flat_map(|ip| ports.iter().map(|port| (*ip, *port)));
        let mut requested: Vec<SocketAddr> = pairs.map(SocketAddr::from).collect();
        requested.sort_unstable();
        requested.dedup();
        let mut sources = Vec::new();
        for address in requested {
            // Two streams may share the socket of a source if they name its port.
            let opened =
                self.routes.iter().filter(|_| by_port).find_map(|route| route.find(address));
            let socket = match opened {
                Some(socket) => socket,
                None => self.add(address)?,
            };
            sources.push((address, socket));
        }
        Ok(Route::Bound { sources, by_address, by_port })
    }

    /// Opens a socket; returns its index.
    fn add(&mut self, address: SocketAddr) -> Result<usize, OpenError> {
        let is_ipv6 = address.is_ipv6();
        let socket = Socket::udp(is_ipv6)?;
        socket.set(Opt::SendBuffer, self.options.buffer_bytes)?;
        socket.set(Opt::ReceiveBuffer, self.options.buffer_bytes)?;
        socket.set(Opt::Errors { is_ipv6 }, 1)?;
        socket.set(Opt::NoFragments { is_ipv6 }, libc::IP_PMTUDISC_PROBE)?;
        if is_ipv6 {
            socket.set(Opt::V6Only, 1)?;
        }
        if self.options.gro {
            socket.set(Opt::Gro, 1)?;
        }
        socket.bind(address).map_err(|source| OpenError::Bind { address, source })?;
        self.sockets.push(Opened { socket: Arc::new(socket), is_ipv6, destination: None });
        Ok(self.sockets.len() - 1)
    }
}

impl Route {
    /// Returns the socket that is bound to this source.
    #[inline]
    pub(super) fn find(&self, source: SocketAddr) -> Option<usize> {
        match self {
            Self::Shared { .. } => None,
            Self::Bound { sources, .. } => {
                let place = sources.binary_search_by_key(&source, |(source, _)| *source).ok()?;
                Some(sources[place].1)
            }
        }
    }
}

const _: () = assert!(libc::IP_PMTUDISC_PROBE == libc::IPV6_PMTUDISC_PROBE);
