// SPDX-License-Identifier: BSD-3-Clause
//! A host of the simulated network: a TCP that others wrote, on a wire that is two queues.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;

/// IP packets that arrived and were sent.
struct Wire {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    mtu: usize,
}

pub(crate) struct Arrived(Vec<u8>);

pub(crate) struct Sending<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Sending<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Arrived(packet), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// How a socket is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of the buffers; those to receive into are the window, with a shift above 64 kB.
    pub(crate) receive: usize,
    pub(crate) send: usize,
    pub(crate) nagle: bool,
    pub(crate) delays_acks: bool,
}

/// Interface and sockets.
pub(crate) struct Host {
    interface: Interface,
    wire: Wire,
    pub(crate) sockets: SocketSet<'static>,
}

impl Host {
    /// The one with this number: the last of each of its addresses.
    pub(crate) fn new(number: u16, mtu: usize, seed: u64) -> Self {
        let mut wire = Wire { arrived: VecDeque::new(), sent: vec![], mtu };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for is_v6 in [false, true] {
                let prefix = if is_v6 { 64 } else { 24 };
                addresses.push(IpCidr::new(address(number, is_v6), prefix)).expect("there is room");
            }
        });
        Self { interface, wire, sockets: SocketSet::new(vec![]) }
    }

    pub(crate) fn socket(&mut self, shape: Shape) -> SocketHandle {
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(shape.receive), buffer(shape.send));
        socket.set_nagle_enabled(shape.nagle);
        // Whoever has lost its peer gives up.
        socket.set_timeout(Some(Duration::from_secs(40)));
        if !shape.delays_acks {
            socket.set_ack_delay(None);
        }
        self.sockets.add(socket)
    }

    pub(crate) fn connect(
        &mut self,
        handle: SocketHandle,
        to: (IpAddress, u16),
        from: (IpAddress, u16),
    ) {
        let socket = self.sockets.get_mut::<Socket>(handle);
        socket.connect(self.interface.context(), to, from).expect("a socket that is closed");
    }

    pub(crate) fn arrive(&mut self, packet: Vec<u8>) {
        self.wire.arrived.push_back(packet);
    }

    /// Takes what has arrived; what it sends is returned.
    pub(crate) fn poll(&mut self, micros: u64) -> Vec<Vec<u8>> {
        self.interface.poll(instant(micros), &mut self.wire, &mut self.sockets);
        std::mem::take(&mut self.wire.sent)
    }

    /// When it has something to do of its own accord.
    pub(crate) fn next(&mut self, micros: u64) -> Option<u64> {
        let next = self.interface.poll_at(instant(micros), &self.sockets)?;
        Some((next.total_micros() as u64).max(micros))
    }
}

fn instant(micros: u64) -> Instant {
    Instant::from_micros(micros as i64)
}

/// An address of the host with this number.
pub(crate) fn address(number: u16, is_v6: bool) -> IpAddress {
    match is_v6 {
        true => IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, number),
        false => IpAddress::v4(10, 0, 0, number as u8),
    }
}
