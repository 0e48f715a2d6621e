// SPDX-License-Identifier: BSD-3-Clause
//! Sends requests about network devices to the kernel (rtnetlink(7)), one after the other.
//!
//! The requests concern the network namespace of this process; `/sys` may show another one.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::IpAddr;

/// A netlink socket.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// A network device, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Number of the device, unique in its namespace.
    pub(crate) index: u32,
    /// MTU: bytes of payload that a frame may carry.
    pub(crate) mtu: u32,
    /// True if the administrator has set it up.
    pub(crate) is_up: bool,
    /// True if it is promiscuous by its own flag, not because of a packet socket.
    pub(crate) is_promiscuous: bool,
    /// Link-layer address.
    pub(crate) mac: Vec<u8>,
    /// Alias: a note of the administrator.
    pub(crate) alias: Option<String>,
    /// Frames received.
    pub(crate) rx_packets: u64,
    /// Number of the bridge or bond that it belongs to.
    pub(crate) controller: Option<u32>,
    /// Kind, such as `veth` or `tun`; `None` for hardware.
    pub(crate) kind: Option<String>,
    /// Frames that the device dropped instead of sending them.
    pub(crate) tx_dropped: u64,
}

impl Netlink {
    /// Opens a socket in the network namespace of this process.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Returns the device with this name; `None` if there is none.
    pub(super) fn device(&mut self, name: &str) -> io::Result<Option<Device>> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.find(link)
    }

    /// Returns the device with this number; `None` if there is none.
    pub(super) fn device_by_index(&mut self, index: u32) -> io::Result<Option<Device>> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.find(link)
    }

    /// True if a default route of any table leaves by this device, or a route of half of all
    /// addresses.
    pub(super) fn has_default_route(&mut self, index: u32) -> io::Result<bool> {
        let all = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let answers = self.send_request(all, NLM_F_DUMP)?;
        let leaves_here = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Oif(device) => *device == index,
            RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == index),
            _ => false,
        };
        Ok(answers.iter().any(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => {
                route.header.destination_prefix_length <= 1
                    && route.header.kind == RouteType::Unicast
                    && route.attributes.iter().any(leaves_here)
            }
            _ => false,
        }))
    }

    fn find(&mut self, link: LinkMessage) -> io::Result<Option<Device>> {
        match self.send_request(RouteNetlinkMessage::GetLink(link), 0) {
            Ok(answers) => Ok(answers.into_iter().find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => Some(Device::read(link)),
                _ => None,
            })),
            Err(error) if is_no_device(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all devices.
    fn devices(&mut self) -> io::Result<impl Iterator<Item = Device> + use<>> {
        let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.send_request(all, NLM_F_DUMP)?;
        let device = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(Device::read(link)),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(device))
    }

    /// Returns the names of all devices.
    pub(super) fn names(&mut self) -> io::Result<Vec<String>> {
        Ok(self.devices()?.map(|device| device.name).collect())
    }

    /// Returns the addresses of the device, except those that IPv6 makes by itself.
    pub(super) fn addresses(&mut self, index: u32) -> io::Result<Vec<IpAddr>> {
        let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.send_request(all, NLM_F_DUMP)?;
        let of_device = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(message) if message.header.index == index => {
                message.attributes.into_iter().find_map(|attribute| match attribute {
                    AddressAttribute::Address(address) => Some(address),
                    _ => None,
                })
            }
            _ => None,
        });
        let is_own = |address: &IpAddr| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        Ok(of_device.filter(|address| !is_own(address)).collect())
    }

    /// Sets or clears a flag of the device, such as `Up` or `Promisc`.
    pub(super) fn set_flag(&mut self, index: u32, flag: LinkFlags, is_on: bool) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = if is_on { flag } else { LinkFlags::empty() };
        link.header.change_mask = flag;
        self.send_request(RouteNetlinkMessage::SetLink(link), 0).map(drop)
    }

    /// Makes a veth pair.
    pub(super) fn add_veth(&mut self, names: [&str; 2], mtu: u32) -> io::Result<()> {
        let end = |name: &str| {
            let mut link = LinkMessage::default();
            link.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::Mtu(mtu)];
            link
        };
        let mut link = end(names[0]);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(end(names[1])))),
        ]));
        let request = RouteNetlinkMessage::NewLink(link);
        self.send_request(request, NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Removes a device; of a veth pair, both ends.
    pub(super) fn remove(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.send_request(RouteNetlinkMessage::DelLink(link), 0).map(drop)
    }

    /// Sets an attribute of the device.
    pub(super) fn set(&mut self, index: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(attribute);
        self.send_request(RouteNetlinkMessage::SetLink(link), 0).map(drop)
    }

    /// Sends a request; returns the kernel's replies before the acknowledgement.
    pub(super) fn send_request(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), request.into());
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::other(error.to_string()))?;
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or(&[]);
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) => match error.code {
                        Some(_) => return Err(error.to_io()),
                        None => return Ok(answers),
                    },
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    _ => {}
                }
            }
        }
    }
}

impl Device {
    fn read(link: LinkMessage) -> Self {
        let mut device = Self {
            index: link.header.index,
            is_up: link.header.flags.contains(LinkFlags::Up),
            is_promiscuous: link.header.flags.contains(LinkFlags::Promisc),
            ..Self::default()
        };
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => device.name = name,
                LinkAttribute::Mtu(mtu) => device.mtu = mtu,
                LinkAttribute::Controller(index) => device.controller = Some(index),
                LinkAttribute::Address(mac) => device.mac = mac,
                LinkAttribute::IfAlias(alias) => device.alias = Some(alias),
                LinkAttribute::Stats64(stats) => {
                    (device.tx_dropped, device.rx_packets) = (stats.tx_dropped, stats.rx_packets);
                }
                LinkAttribute::LinkInfo(infos) => {
                    device.kind = infos.into_iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        device
    }
}

/// Returns the Linux interfaces of this network namespace that have a MAC address.
pub(crate) fn interfaces_with_mac(mac: [u8; 6]) -> io::Result<Vec<String>> {
    let devices = Netlink::open()?.devices()?;
    Ok(devices.filter(|device| device.mac == mac).map(|device| device.name).collect())
}

/// Returns the MAC address of a Linux interface.
pub(crate) fn interface_mac(name: &str) -> io::Result<[u8; 6]> {
    let device = Netlink::open()?.device(name)?;
    let mac = device.and_then(|device| device.mac.try_into().ok());
    mac.ok_or_else(|| io::Error::other(format!("interface {name} has no MAC address")))
}

/// True for ENODEV: the device does not exist, or not any more.
pub(super) fn is_no_device(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_has_a_loopback_device() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.device("lo").unwrap().expect("a loopback device");
        assert_eq!((lo.name.as_str(), lo.controller), ("lo", None));
        assert!(lo.mtu >= 1280 && lo.index > 0, "{lo:?}");
        assert!(netlink.names().unwrap().contains(&"lo".to_owned()));
        netlink.addresses(lo.index).unwrap();
        assert_eq!(netlink.device("no-such-one").unwrap(), None);
        let error = netlink.set_flag(u32::MAX >> 1, LinkFlags::Up, true).unwrap_err();
        assert!(is_no_device(&error) || error.kind() == io::ErrorKind::PermissionDenied, "{error}");
    }
}
