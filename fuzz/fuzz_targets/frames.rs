// SPDX-License-Identifier: BSD-3-Clause
//! Good frames, one for each way through a NIC's parser.

/// Ethernet with two tags, IPv4, TCP.
const TAGGED: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xa8\0\x01\x81\0\0\x02\x08\0\
    \x45\0\0\x28\0\x01\0\0\x40\x06\0\0\x0a\0\0\x01\x0a\0\0\x02\
    \x03\xe8\x07\xd0\0\0\0\0\0\0\0\0\x50\x02\0\0\0\0\0\0";
/// IPv6, the first fragment, SCTP.
const FRAGMENT: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x86\xdd\
    \x60\0\0\0\0\x14\x2c\x40\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\
    \x84\0\0\x01\0\0\0\x01\
    \x03\xe8\x07\xd0\0\0\0\0\0\0\0\0";
/// VXLAN, in it Ethernet, a tag, IPv4, ICMP.
const VXLAN: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\
    \x45\0\0\x4e\0\x01\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02\x03\xe8\x12\xb5\0\x3a\0\0\
    \x08\0\0\0\0\0\x01\0\
    \x02\0\0\0\0\x04\x02\0\0\0\0\x03\x81\0\0\x05\x08\0\
    \x45\0\0\x1c\0\x01\0\0\x40\x01\0\0\x0a\x01\0\x01\x0a\x01\0\x02\x08\0\0\0\0\x01\0\x01";
/// GTP-U with an extension header, in it IPv6, ICMPv6.
const GTPU: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\
    \x45\0\0\x58\0\x01\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02\x03\xe8\x08\x68\0\x44\0\0\
    \x34\xff\0\x34\0\0\0\x07\0\0\0\x85\x01\0\x09\0\
    \x60\0\0\0\0\x04\x3a\x40\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\
    \x80\0\0\0";
/// GRE with a key, in it IPv4, UDP.
const GRE: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\
    \x45\0\0\x38\0\x01\0\0\x40\x2f\0\0\x0a\0\0\x01\x0a\0\0\x02\x20\0\x08\0\0\0\0\x01\
    \x45\0\0\x1c\0\x01\0\0\x40\x11\0\0\x0a\x01\0\x01\x0a\x01\0\x02\x03\xe8\x07\xd0\0\x08\0\0";

pub(crate) const FRAMES: [&[u8]; 5] = [TAGGED, FRAGMENT, VXLAN, GTPU, GRE];
