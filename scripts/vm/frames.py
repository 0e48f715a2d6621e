# SPDX-License-Identifier: BSD-3-Clause
"""Sends frames that are long, odd or wrong between the hosts of a guest of scripts/vm-test, both
ways, and compares what arrives.

usage: frames.py LONGEST LONGEST_TAGGED

Frames of up to that many bytes must arrive once and unchanged, except for padding to 60 bytes;
longer ones must not arrive. Prints each that did otherwise; then the exit status is 1.
"""
import ctypes
import os
import random
import socket
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_AUXDATA = 263, 1, 8
PACKET_MR_PROMISC, PACKET_OUTGOING = 1, 4
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 0x10, 0x40
# Longest wait for a frame that should arrive, and for one that should not. The guest is slow.
PATIENCE, GRACE = 5, 0.4

FAR, NEAR = b"\x02\0\0\0\0\x0d", b"\x02\0\0\0\0\x0c"
TAG, PRIORITY, SERVICE = (0x8100, 5), (0x8100, 0), (0x88A8, 7)
random_bytes = random.Random(1).randbytes


def open_socket(host):
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open("/run/netns/" + host, os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    interface = "e" + host
    it = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    it.bind((interface, 0))
    member = struct.pack("iHH8s", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, b"")
    it.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    it.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
    it.settimeout(0.05)
    return it


def receive(it):
    """Returns the frames that are there, with the tag that the kernel has taken off each."""
    frames = []
    while True:
        try:
            data, ancillary, _, address = it.recvmsg(65536, 1024)
        except socket.timeout:
            return frames
        if address[2] == PACKET_OUTGOING:
            continue
        for level, kind, value in ancillary:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", value[:20])
                if status & TP_STATUS_VLAN_VALID:
                    tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                    data = data[:12] + struct.pack(">HH", tpid, tci) + data[12:]
        frames.append(data)


def checksum(header):
    total = sum(struct.unpack(">%dH" % (len(header) // 2), header))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def udp(length, tags=(), to=FAR, wrong_ip=False, udp_checksum=0):
    """Returns a frame of `length` bytes, each of another connection."""
    udp.port += 1
    body = random_bytes(max(length - 14 - 4 * len(tags) - 28, 0))
    datagram = struct.pack(">HHHH", udp.port, 9, 8 + len(body), udp_checksum) + body
    hosts = socket.inet_aton("10.0.1.1") + socket.inet_aton("10.0.1.2")
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0) + hosts
    right = checksum(ip) ^ (0xFF if wrong_ip else 0)
    ip = ip[:10] + struct.pack(">H", right) + ip[12:]
    stack = b"".join(struct.pack(">HH", *tag) for tag in tags)
    return (to + NEAR + stack + b"\x08\0" + ip + datagram).ljust(60, b"\0")


udp.port = 30000


def other(to, kind, length):
    return to + NEAR + struct.pack(">H", kind) + random_bytes(length)


def frames():
    """Returns pairs of a name and a frame."""
    plain = [(f"{n} bytes", udp(n)) for n in (60, 64, 1514, 1515, 1518, 1522, 2000, 4000, 9014)]
    tagged = [
        ("one tag", udp(64, [TAG])),
        ("priority tag", udp(64, [PRIORITY])),
        ("one tag, 1518 bytes", udp(1518, [TAG])),
        ("two tags", udp(100, [SERVICE, TAG])),
        ("two tags, 1522 bytes", udp(1522, [SERVICE, TAG])),
        ("two tags of 802.1Q, 1522 bytes", udp(1522, [TAG, TAG])),
        ("three tags", udp(100, [SERVICE, TAG, TAG])),
    ]
    odd = [
        ("to another unicast address", udp(100, to=b"\x02\x11\x22\x33\x44\x55")),
        ("multicast", udp(100, to=b"\x01\0\x5e\1\2\3")),
        ("broadcast", udp(100, to=b"\xff" * 6)),
        ("wrong IP checksum", udp(100, wrong_ip=True)),
        ("wrong UDP checksum", udp(100, udp_checksum=0x1234)),
        ("LLDP", other(b"\x01\x80\xc2\0\0\x0e", 0x88CC, 60)),
        ("spanning tree", other(b"\x01\x80\xc2\0\0\0", 0x26, 46)),
        ("pause", other(b"\x01\x80\xc2\0\0\1", 0x8808, 46)),
        ("MPLS", other(FAR, 0x8847, 80)),
        ("42 bytes", udp(60)[:42]),
    ]
    return plain + tagged + odd


def arrivals(sender, receiver, frame, patience):
    """Sends a frame; returns how often it arrived, and what arrived in its place."""
    receive(receiver)
    sender.send(frame)
    got, begun = [], time.monotonic()
    while time.monotonic() - begun < patience:
        got += [it for it in receive(receiver) if it[:12] == frame[:12]]
        if frame in got or frame.ljust(60, b"\0") in got:
            break
    got += [it for it in receive(receiver) if it[:12] == frame[:12]]
    whole = [it for it in got if it in (frame, frame.ljust(60, b"\0"))]
    # The hosts themselves speak now and then.
    changed = [it for it in got if it not in whole and it[14:20] == frame[14:20]]
    return len(whole), changed


def main():
    longest, longest_tagged = map(int, sys.argv[1:])
    sockets = {host: open_socket(host) for host in "cd"}
    faults = 0
    for sender, receiver in ("cd", "dc"):
        for name, frame in frames():
            is_tagged = frame[12:14] in (b"\x81\0", b"\x88\xa8")
            wanted = int(len(frame) <= (longest_tagged if is_tagged else longest))
            patience = PATIENCE if wanted else GRACE
            count, changed = arrivals(sockets[sender], sockets[receiver], frame, patience)
            if count != wanted or changed:
                faults += 1
                print(f"{sender} to {receiver}, {name}: arrived {count} times, not {wanted}")
            for it in changed:
                print(f"  sent {frame[:48].hex()}, {len(frame)} bytes")
                print(f"  got  {it[:48].hex()}, {len(it)} bytes")
    print(f"{2 * len(frames())} frames, {faults} of them not as they should be")
    return faults != 0


sys.exit(main())
