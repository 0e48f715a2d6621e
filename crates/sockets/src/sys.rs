// SPDX-License-Identifier: BSD-3-Clause
//! Wraps the system calls of Linux sockets. It is the only module of this crate with unsafe code.
//!
//! The standard library has neither `sendmmsg` and `recvmmsg` nor the options that are needed here.
#![allow(unsafe_code)]

mod incoming;
mod name;
mod outgoing;
mod packet;
mod uring;

pub(crate) use incoming::{Arrived, Incoming};
pub(crate) use name::Name;
pub(crate) use outgoing::Outgoing;
pub(crate) use packet::{VNET_HEADER, complete_checksum, interface_index};
pub(crate) use uring::{RecvRing, SendRing};

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{io, mem, ptr};

/// A datagram socket. Calls that send or receive packets do not block.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Errors of calls that send or receive packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketError {
    /// The socket has no room, or no datagram has arrived.
    Full,
    /// The kernel has no buffer, or a queue of the interface is full.
    NoBuffers,
    /// Another error, by its code.
    Other(i32),
}

impl SocketError {
    /// Returns the error of the last system call.
    fn last() -> Self {
        Self::of(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    fn of(code: i32) -> Self {
        match code {
            libc::EAGAIN | libc::EINTR => Self::Full,
            libc::ENOBUFS | libc::ENOMEM => Self::NoBuffers,
            code => Self::Other(code),
        }
    }
}

/// A socket option with a number as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opt {
    /// Bytes for packets that wait to be sent. The kernel doubles it, up to `net.core.wmem_max`.
    SendBuffer,
    /// Bytes for received packets. The kernel doubles it, up to `net.core.rmem_max`.
    ReceiveBuffer,
    /// Let several sockets share one port and the packets that arrive at it.
    ReusePort,
    /// Do not receive IPv4 on an IPv6 socket.
    V6Only,
    /// Report ICMP errors, and packets that a queue of the interface dropped.
    Errors { is_ipv6: bool },
    /// Never fragment, and ignore the path MTU: a packet is sent as one frame or refused.
    NoFragments { is_ipv6: bool },
    /// Receive datagrams of one connection joined.
    Gro,
    /// Do not receive the frames that this host sends.
    IgnoreOutgoing,
    /// Put a header before received frames that tells, among others, whether the checksum is still
    /// to be completed.
    VnetHeader,
    /// Pass frames directly to the driver, without the queues of the interface.
    QdiscBypass,
}

impl Opt {
    /// Returns the level and the name of the option.
    fn numbers(self) -> (c_int, c_int) {
        match self {
            Self::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
            Self::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
            Self::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
            Self::V6Only => (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            Self::Errors { is_ipv6: false } => (libc::IPPROTO_IP, libc::IP_RECVERR),
            Self::Errors { is_ipv6: true } => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            Self::NoFragments { is_ipv6: false } => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            Self::NoFragments { is_ipv6: true } => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            Self::Gro => (libc::SOL_UDP, libc::UDP_GRO),
            Self::IgnoreOutgoing => (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING),
            Self::VnetHeader => (libc::SOL_PACKET, libc::PACKET_VNET_HDR),
            Self::QdiscBypass => (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS),
        }
    }
}

/// Room for an error of a socket's error queue: the header of a control message, `struct
/// sock_extended_err`, and the address that the kernel puts after it.
#[repr(C, align(8))]
struct ErrorControl {
    header: libc::cmsghdr,
    code: u32,
    origin: u8,
    rest: [u8; 107],
}

/// Maximum number of ICMP errors that one call takes.
const ERRORS_MAX: u64 = 64;

impl Socket {
    /// Opens a UDP socket.
    pub(crate) fn udp(is_ipv6: bool) -> io::Result<Self> {
        let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
        Self::open(family, libc::SOCK_DGRAM, 0)
    }

    fn open(family: c_int, kind: c_int, protocol: c_int) -> io::Result<Self> {
        let kind = kind | libc::SOCK_CLOEXEC;
        // SAFETY: makes a descriptor, and takes numbers only.
        let fd = check(unsafe { libc::socket(family, kind, protocol) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Binds the socket to an address; with port 0, the kernel chooses one.
    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let name = Name::new(address);
        // SAFETY: the kernel only reads the name, and `len` is its length.
        check(unsafe { libc::bind(self.fd(), name.as_ptr(), name.len()) }).map(drop)
    }

    /// Makes `address` the destination of packets that name none. The socket then receives from
    /// this address only.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let name = Name::new(address);
        // SAFETY: as in `bind`.
        check(unsafe { libc::connect(self.fd(), name.as_ptr(), name.len()) }).map(drop)
    }

    /// Returns the address to which the socket is bound.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let mut name = Name::default();
        let mut len = Name::ROOM;
        // SAFETY: the kernel writes at most `len` bytes, and any bytes are a valid name.
        check(unsafe { libc::getsockname(self.fd(), name.as_mut_ptr(), &raw mut len) })?;
        name.address().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Sets an option.
    pub(crate) fn set(&self, option: Opt, value: c_int) -> io::Result<()> {
        let (level, name) = option.numbers();
        let (value, len) = (&raw const value, size_of::<c_int>() as u32);
        // SAFETY: the value lives until the call returns, and `len` is its length.
        check(unsafe { libc::setsockopt(self.fd(), level, name, value.cast(), len) }).map(drop)
    }

    /// Returns the number of packets that the socket dropped since it was opened, because its
    /// receive buffer was full or a checksum was wrong. It is the counter that `SO_RXQ_OVFL`
    /// attaches to packets, read without waiting for a packet.
    pub(crate) fn drops(&self) -> io::Result<u32> {
        let mut counters = [0_u32; 9];
        let mut len = size_of_val(&counters) as u32;
        let room: *mut c_void = (&raw mut counters).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
        // SAFETY: the kernel writes at most `len` bytes.
        check(unsafe { libc::getsockopt(self.fd(), level, name, room, &raw mut len) })?;
        // SK_MEMINFO_DROPS of linux/sock_diag.h.
        Ok(counters[8])
    }

    /// Takes errors from the error queue, at most 64; returns the number of ICMP errors among them.
    pub(crate) fn drain_icmp_errors(&self) -> u64 {
        let mut found = 0;
        for _ in 0..ERRORS_MAX {
            // SAFETY: all zeros are a valid control message, and a valid message without address
            // and buffers.
            let (mut control, mut message): (ErrorControl, libc::msghdr) =
                unsafe { (mem::zeroed(), mem::zeroed()) };
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<ErrorControl>();
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: the kernel writes into the control message, which outlives the call and has
            // that size.
            if unsafe { libc::recvmsg(self.fd(), &raw mut message, flags) } < 0 {
                break;
            }
            let is_icmp = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];
            found += u64::from(is_icmp.contains(&control.origin));
        }
        found
    }

    /// Receives a packet; returns its sender and its whole length, which may exceed `room`.
    pub(crate) fn receive_from(&self, room: &mut [u8]) -> Result<(usize, Name), SocketError> {
        let mut name = Name::default();
        let mut len = Name::ROOM;
        let (to, from) = (room.as_mut_ptr().cast(), name.as_mut_ptr());
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        // SAFETY: the kernel writes into `room` and the name, at most the bytes that each has.
        let received =
            unsafe { libc::recvfrom(self.fd(), to, room.len(), flags, from, &raw mut len) };
        match usize::try_from(received) {
            Ok(received) => Ok((received, name)),
            Err(_) => Err(SocketError::last()),
        }
    }

    /// Sends a packet to an address.
    pub(crate) fn send_to(&self, bytes: &[u8], to: &Name) -> Result<(), SocketError> {
        let (from, to, len) = (bytes.as_ptr().cast(), to.as_ptr(), to.len());
        // SAFETY: the kernel only reads bytes and name, whose lengths are passed with them.
        match unsafe { libc::sendto(self.fd(), from, bytes.len(), libc::MSG_DONTWAIT, to, len) } {
            ..0 => Err(SocketError::last()),
            _ => Ok(()),
        }
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn check(ret: c_int) -> io::Result<c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// Returns an empty message header.
fn empty_header() -> libc::mmsghdr {
    libc::mmsghdr {
        msg_hdr: libc::msghdr {
            msg_name: ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: ptr::null_mut(),
            msg_iovlen: 0,
            msg_control: ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        },
        msg_len: 0,
    }
}

/// Arrays for a call, filled with pointers before each call. Pointers of earlier calls are not
/// valid.
struct Arrays {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
}

// SAFETY: the thread that makes a call writes the pointers in the arrays before it, and they point
// to memory that lives until the call returns.
unsafe impl Send for Arrays {}

impl Arrays {
    fn new(messages: usize, parts: usize) -> Self {
        let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self { headers: vec![empty_header(); messages].into(), parts: vec![nothing; parts].into() }
    }
}
