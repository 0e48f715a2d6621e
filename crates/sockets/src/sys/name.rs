// SPDX-License-Identifier: BSD-3-Clause
//! Converts addresses to and from the kernel's form: `struct sockaddr_in` and `sockaddr_in6`
//! (ip(7), ipv6(7)).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address of either family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Name {
    /// Family (of the host's byte order), port (of the network's); then an IPv4 address, or flow
    /// information, an IPv6 address and its scope.
    bytes: [u8; 28],
}

const FAMILY_V4: [u8; 2] = (libc::AF_INET as u16).to_ne_bytes();
const FAMILY_V6: [u8; 2] = (libc::AF_INET6 as u16).to_ne_bytes();

impl Name {
    /// Bytes of the longest address.
    pub(crate) const ROOM: u32 = 28;

    #[inline(always)]
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                bytes[..2].copy_from_slice(&FAMILY_V4);
                bytes[4..8].copy_from_slice(&address.ip().octets());
            }
            SocketAddr::V6(address) => {
                bytes[..2].copy_from_slice(&FAMILY_V6);
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
            }
        }
        Self { bytes }
    }

    /// Reads an address from the bytes that the kernel has written.
    #[inline(always)]
    pub(super) fn read(written: &[u8]) -> Self {
        let mut bytes = [0; 28];
        let len = written.len().min(bytes.len());
        bytes[..len].copy_from_slice(&written[..len]);
        Self { bytes }
    }

    /// Returns the address; `None` if it is of neither family.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let (family, rest) = self.bytes.split_first_chunk::<2>()?;
        let (port, rest) = rest.split_first_chunk()?;
        let port = u16::from_be_bytes(*port);
        match *family {
            FAMILY_V4 => {
                let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
                Some(SocketAddrV4::new(ip, port).into())
            }
            FAMILY_V6 => {
                let ip = Ipv6Addr::from(*rest[4..].first_chunk::<16>()?);
                let scope = u32::from_ne_bytes(*rest[20..].first_chunk()?);
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }

    /// Returns the number of bytes of the address.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        if self.bytes[..2] == FAMILY_V4 { 16 } else { Self::ROOM }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const *self).cast()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut *self).cast()
    }
}

const _: () = assert!(size_of::<libc::sockaddr_in>() == 16);
const _: () = assert!(size_of::<libc::sockaddr_in6>() == Name::ROOM as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was() {
        for text in ["198.18.0.1:65535", "[2001:2::1]:7", "[fe80::1%3]:53"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Name::new(address).address(), Some(address));
        }
        assert_eq!(Name::default().address(), None);
    }
}
