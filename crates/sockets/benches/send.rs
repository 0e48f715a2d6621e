// SPDX-License-Identifier: BSD-3-Clause
//! Measures packets per second of a sender over a UDP socket, beside a plain loop of `sendmmsg`
//! that sends prepared datagrams. Sizes, destination, batch and socket options are the same.
//!
//! Both take turns. The best turn of each counts, because other programs use the cpu too. The
//! destination is a socket on loopback without a reader, so the kernel does the same work for both.

use generator::{Clock, Lanes, Laps, Session, Stage, Task};
use sockets::{UdpOptions, UdpPort, UdpStream};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Instant;
use testkit::stream;
use traffic::stream::{StreamSetup, StreamSpec, Streams};

const TURNS: usize = 15;
const PACKETS: u64 = 300_000;
const BATCH: usize = 32;

fn streams(dport: u16, size: usize, is_stamped: bool) -> (StreamSpec, Streams) {
    let spec = stream::spec(0, &format!("dst=127.0.0.1 dport={dport} size={size}"));
    let setup = StreamSetup { is_stamped, ..stream::setup(1) };
    let streams = Streams::new(std::slice::from_ref(&spec), &setup).expect("streams");
    (spec, streams)
}

/// Calls `send`, which returns the number of packets that it sent, until [`PACKETS`] are sent.
/// Returns nanoseconds per packet.
fn measure(mut send: impl FnMut() -> u64) -> f64 {
    let (begun, mut sent) = (Instant::now(), 0);
    while sent < PACKETS {
        sent += send();
    }
    begun.elapsed().as_nanos() as f64 / sent as f64
}

/// The plain loop, which sends the same batch of datagrams in each call.
struct Plain {
    socket: UdpSocket,
    headers: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>,
    _bytes: Vec<u8>,
}

impl Plain {
    fn new(to: &UdpSocket, len: usize) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(to.local_addr().expect("an address")).expect("loopback");
        socket.set_nonblocking(true).expect("an option");
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20).expect("an option");
        let mut bytes = vec![7; len * BATCH];
        let part = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut parts: Vec<_> = bytes.chunks_exact_mut(len).map(part).collect();
        let header = |part: &mut libc::iovec| {
            // SAFETY: an `mmsghdr` of zeros is valid: a message without data and destination.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = parts.iter_mut().map(header).collect();
        Self { socket, headers, _parts: parts, _bytes: bytes }
    }

    fn send(&mut self) -> u64 {
        let (fd, headers) = (self.socket.as_raw_fd(), self.headers.as_mut_ptr());
        // SAFETY: the headers point into vectors of `self`, which have not changed since.
        let sent = unsafe { libc::sendmmsg(fd, headers, BATCH as u32, 0) };
        sent.max(0) as u64
    }
}

fn main() {
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let dport = sink.local_addr().expect("an address").port();
    println!("{:26} {:>12} {:>12} {:>7}", "", "sendmmsg", "generator", "share");
    let cases = [
        (64, false, "", UdpOptions::default()),
        (64, true, ", stamped", UdpOptions::default()),
        (1518, true, ", stamped", UdpOptions::default()),
        (64, true, ", stamped, GSO", UdpOptions { gso: true, ..UdpOptions::default() }),
        (64, true, ", stamped, io_uring", UdpOptions { io_uring: true, ..UdpOptions::default() }),
    ];
    for (size, is_stamped, name, options) in cases {
        let (spec, source) = streams(dport, size, is_stamped);
        let stream = UdpStream {
            is_ipv6: false,
            destination: spec.destination(),
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        let options = UdpOptions { batch: BATCH, ..options };
        let port = UdpPort::open(&[stream], options).expect("sockets");
        let clock = Clock::measured();
        let mut session = Session::new(clock, u64::MAX, Lanes::stamped(1));
        let mut sender = session.sender(source, 0, port.transmit().unwrap());
        let mut plain = Plain::new(&sink, size - 4 - 42);
        let mut least = [f64::MAX; 2];
        let mut before = 0;
        for _ in 0..TURNS {
            least[0] = least[0].min(measure(|| plain.send()));
            least[1] = least[1].min(measure(|| {
                sender.turn(clock.now(), Stage::Send, &mut Laps::off());
                let sent = sender.sent_since_report();
                sent - std::mem::replace(&mut before, sent)
            }));
        }
        let [theirs, ours] = least.map(|nanos| 1e3 / nanos);
        let name = format!("{size} B{name}");
        println!("{name:26} {theirs:7.3} Mpps {ours:7.3} Mpps {:6.2}x", ours / theirs);
    }
}
