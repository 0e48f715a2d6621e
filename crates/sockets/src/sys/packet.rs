// SPDX-License-Identifier: BSD-3-Clause
//! Implements packet sockets, for whole frames of an interface (packet(7)).

use super::{Socket, check};
use std::ffi::CString;
use std::io;
use wire::checksum::internet;

/// Bytes of `struct virtio_net_hdr` before a received frame.
pub(crate) const VNET_HEADER: usize = 10;
/// Flag in the first byte of the header: the checksum is not complete yet.
const NEEDS_CHECKSUM: u8 = 1;

impl Socket {
    /// Opens a socket that receives nothing yet.
    pub(crate) fn packet() -> io::Result<Self> {
        Self::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
    }

    /// Binds the socket to an interface for sending. If `receives`, the socket also receives all
    /// frames of the interface.
    pub(crate) fn bind_interface(&self, index: u32, receives: bool) -> io::Result<()> {
        // SAFETY: all zeros are a valid address of this type.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        address.sll_protocol = if receives { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the kernel only reads the address, and `len` is its length.
        check(unsafe { libc::bind(self.fd(), (&raw const address).cast(), len) }).map(drop)
    }

    /// Makes the interface promiscuous while the socket is open: it then receives frames with any
    /// destination.
    pub(crate) fn hold_promiscuous(&self, index: u32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
        let (value, len) = (&raw const membership, size_of::<libc::packet_mreq>() as u32);
        // SAFETY: the value lives until the call returns, and `len` is its length.
        check(unsafe { libc::setsockopt(self.fd(), level, name, value.cast(), len) }).map(drop)
    }

    /// Returns the number of frames that the socket dropped since the last call, because its
    /// receive buffer was full.
    pub(crate) fn take_packet_drops(&self) -> io::Result<u32> {
        // struct tpacket_stats: packets, drops.
        let mut counters = [0_u32; 2];
        let mut len = size_of_val(&counters) as u32;
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let room = (&raw mut counters).cast();
        // SAFETY: the kernel writes at most `len` bytes.
        check(unsafe { libc::getsockopt(self.fd(), level, name, room, &raw mut len) })?;
        Ok(counters[1])
    }
}

/// Returns the index of an interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name is a C string, which is read only.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Completes the checksum of the frame after the header in `message`, as a NIC would do (virtio
/// 1.3, section 5.1.6.4.1). The header has the checksum's place. Frames that this host's kernel has
/// made arrive with incomplete checksums.
#[inline]
pub(crate) fn complete_checksum(message: &mut [u8]) {
    let Some((header, frame)) = message.split_first_chunk_mut::<VNET_HEADER>() else { return };
    if header[0] & NEEDS_CHECKSUM == 0 {
        return;
    }
    let field = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (start, offset) = (field(6), field(8));
    let Some(covered) = frame.get_mut(start..) else { return };
    // The checksum field already has the sum of the pseudo header.
    let sum = match internet(covered) {
        // In UDP, 0 means no checksum (RFC 768); in TCP, 0xffff and 0 are equivalent.
        0 => 0xffff,
        sum => sum,
    };
    if let Some(place) = covered.get_mut(offset..offset + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::FrameBuilder;

    #[test]
    fn a_checksum_is_completed_where_the_header_says() {
        let build = |checksum| {
            let builder = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5, 7);
            let builder = builder.payload(*b"millrace");
            match checksum {
                Some(checksum) => builder.checksum(checksum).build(),
                None => builder.build(),
            }
        };
        let right = build(None);
        let pseudo = wire::checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 16);
        let mut message = [1, 0, 0, 0, 0, 0].to_vec();
        message.extend([34_u16, 6].map(u16::to_ne_bytes).as_flattened());
        message.extend(build(Some(u32::from(!pseudo.finish()))));
        complete_checksum(&mut message);
        assert_eq!(message[VNET_HEADER..], right);
        message[0] = 0;
        message[VNET_HEADER + 40] ^= 1;
        let before = message.clone();
        complete_checksum(&mut message);
        assert_eq!(message, before);
    }
}
