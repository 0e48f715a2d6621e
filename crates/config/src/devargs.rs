// SPDX-License-Identifier: BSD-3-Clause
//! Parses names of ports: device strings of DPDK, such as `0000:18:00.2` or
//! `net_pcap0,rx_pcap=f.pcap`, and Linux interfaces, such as `eth1`.
//!
//! In a device string Millrace parses the name, since two ports must not share one, and the
//! arguments that name Linux interfaces. The driver parses all other arguments.

use doctor::host;
use std::collections::BTreeSet;
use std::path::Path;

/// Longest name that DPDK keeps (`RTE_DEV_NAME_MAX_LEN` less its final zero).
const NAME_MAX_BYTES: usize = 63;

/// Longest name of a Linux interface (`IFNAMSIZ` less its final zero).
const INTERFACE_MAX_BYTES: usize = 15;

/// Prefixes of names of virtual devices: an ethdev driver, or its older alias.
const VDEV_PREFIXES: [&str; 3] = ["net_", "eth_", "virtio_user"];

/// A device with the arguments of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devargs {
    /// Name of the device, normalized: a PCI address has its domain.
    pub name: String,
    /// Text from the first comma on, as written; may be empty.
    arguments: String,
}

/// What is wrong with a device string.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceFault {
    #[error(
        "the device name is empty; write a Linux interface (eth1), a PCI address (0000:18:00.2) or \
         a vdev (net_...)"
    )]
    Empty,
    #[error("{0:?} has a blank or control character in its name or at its end")]
    Blank(String),
    #[error("the name {0} is longer than the {NAME_MAX_BYTES} bytes that DPDK allows")]
    TooLong(String),
    #[error(
        "{0:?} is not a port: write a Linux interface (eth1), a PCI address (0000:18:00.2) or a \
         vdev (net_...)"
    )]
    NotADevice(String),
}

/// Why `A,B` does not name two devices.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The text names one device.
    #[error("{0:?} names only one device; write a pair as A,B")]
    One(String),
    /// The text can be split into two devices in several ways, or in none.
    #[error(
        "{text:?} can be split into two devices in {count} ways; write the pair into a \
         configuration file ([[pair]] with a and b)"
    )]
    Ambiguous {
        /// The text as written.
        text: String,
        /// Number of ways to cut it.
        count: usize,
    },
    /// One of the two is no device.
    #[error("{0}")]
    Device(#[from] DeviceFault),
}

impl Devargs {
    /// Parses a device string.
    pub fn parse(text: &str) -> Result<Self, DeviceFault> {
        let (name, _) = text.split_once(',').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(DeviceFault::Empty);
        }
        if name.contains(char::is_whitespace)
            || text.ends_with(char::is_whitespace)
            || text.contains(char::is_control)
        {
            return Err(DeviceFault::Blank(text.to_owned()));
        }
        if name.len() > NAME_MAX_BYTES {
            return Err(DeviceFault::TooLong(name.to_owned()));
        }
        let arguments = text[name.len()..].to_owned();
        match pci_address(name) {
            Some(name) => Ok(Self { name, arguments }),
            None if is_vdev(name) || (is_interface(name) && arguments.is_empty()) => {
                Ok(Self { name: name.to_owned(), arguments })
            }
            None if dpdk::is_vmbus(name) => Ok(Self { name: name.to_lowercase(), arguments }),
            None => Err(DeviceFault::NotADevice(name.to_owned())),
        }
    }

    /// True for a PCI address.
    pub fn is_pci(&self) -> bool {
        pci_address(&self.name).is_some()
    }

    /// True for the UUID of a device on VMBus, the NIC of a virtual machine of Hyper-V or Azure.
    pub fn is_vmbus(&self) -> bool {
        dpdk::is_vmbus(&self.name)
    }

    /// True for a Linux interface, and false for a device string.
    pub fn is_interface(&self) -> bool {
        !is_device(&self.name)
    }

    /// Returns the Linux interface of the port: its name, or an argument of its driver.
    pub fn interface(&self) -> Option<&str> {
        if self.is_interface() { Some(&self.name) } else { self.values("iface").next() }
    }

    /// Returns the existing Linux interface whose frames the port takes; `None` for a tap, which
    /// makes its own.
    pub fn host_interface(&self) -> Option<&str> {
        let is_tap = self.name.starts_with("net_tap") || self.name.starts_with("net_tun");
        self.interface().or_else(|| self.values("rx_iface").next()).filter(|_| !is_tap)
    }

    /// Returns the length in bytes from which the port's driver may have cut a frame.
    /// `net_af_packet` silently hands over only what fits into `framesz`. `None` if frames are
    /// whole.
    pub fn cuts_from(&self) -> Option<u32> {
        if !self.name.starts_with("net_af_packet") && !self.name.starts_with("eth_af_packet") {
            return None;
        }
        let written = self.values("framesz").next_back().and_then(|size| size.parse().ok());
        let frame: u32 = written.unwrap_or(Self::AF_PACKET_FRAME);
        Some(frame.saturating_sub(Self::AF_PACKET_HEADER))
    }

    /// Returns the bytes of a frame in the ring of the port's driver; `None` without a ring of
    /// fixed frames.
    pub fn ring_frame(&self) -> Option<u32> {
        self.cuts_from().map(|from| from + Self::AF_PACKET_HEADER)
    }

    /// Default frame size of `net_af_packet`.
    const AF_PACKET_FRAME: u32 = 2048;
    /// Bytes that the kernel puts before a frame in its ring: `macoff` of `tpacket_rcv`
    /// (net/packet/af_packet.c) for TPACKET_V2.
    const AF_PACKET_HEADER: u32 = 66;

    /// Returns the frame size with which `net_af_packet` takes whole frames of an MTU, with two
    /// VLAN tags.
    pub fn af_packet_frame(mtu: u32) -> u32 {
        let frame = mtu + 14 + 8 + 1 + Self::AF_PACKET_HEADER;
        frame.next_multiple_of(1024).max(Self::AF_PACKET_FRAME)
    }

    /// Adds arguments to a `net_af_packet` without `framesz`, so that frames of this MTU fit.
    pub(crate) fn fit_for(&mut self, mtu: u32) {
        let frame = Self::af_packet_frame(mtu);
        let is_silent = self.cuts_from().is_some() && self.values("framesz").next().is_none();
        if is_silent && frame > Self::AF_PACKET_FRAME && self.values("blocksz").next().is_none() {
            self.arguments += &af_packet_sizes(mtu);
        }
    }

    /// Returns the captures that the port replays for ever: its driver keeps their packets in
    /// mbufs.
    pub(crate) fn captures_in_buffers(&self) -> impl Iterator<Item = &Path> {
        let is_kept = self.values("infinite_rx").next_back().is_some_and(|value| value == "1");
        self.values("rx_pcap").filter(move |_| is_kept).map(Path::new)
    }

    /// Returns the values of the arguments `key=value`, also of a port in parentheses
    /// (`lower=(net_af_packet0,iface=eth1)`).
    fn values<'a>(&'a self, key: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        let arguments = self.arguments.split(',').filter_map(|argument| argument.split_once('='));
        let is_closing = |value: &str| value.ends_with(')') && !value.contains('(');
        arguments.filter(move |(name, _)| *name == key).map(move |(_, value)| {
            if is_closing(value) { value.trim_end_matches(')') } else { value }
        })
    }
}

impl std::fmt::Display for Devargs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, self.arguments)
    }
}

/// Cuts `A,B` in two, although arguments have commas too. B begins at the only comma before a word
/// without `=`. If there are several such commas, B begins at the one before a device name.
pub fn split_pair(text: &str) -> Result<(Devargs, Devargs), PairError> {
    let bare: Vec<usize> =
        commas(text).filter(|comma| !first_word(&text[comma + 1..]).contains('=')).collect();
    let devices: Vec<usize> =
        bare.iter().copied().filter(|comma| is_device(first_word(&text[comma + 1..]))).collect();
    let cut = match (&bare[..], &devices[..]) {
        ([], _) => return Err(PairError::One(text.to_owned())),
        ([cut], _) | (_, [cut]) => *cut,
        (_, cuts) => {
            let count = if cuts.is_empty() { bare.len() } else { cuts.len() };
            return Err(PairError::Ambiguous { text: text.to_owned(), count });
        }
    };
    Ok((Devargs::parse(&text[..cut])?, Devargs::parse(&text[cut + 1..])?))
}

/// Returns the arguments with which `net_af_packet` takes whole frames of an interface with this
/// MTU.
pub fn af_packet_sizes(mtu: u32) -> String {
    let frame = Devargs::af_packet_frame(mtu);
    // A block must be a whole number of frames and of pages: 4 frames of a multiple of 1024 are
    // both.
    format!(",framesz={frame},blocksz={}", frame * 4)
}

/// Returns the PCI devices that ports on VMBus need: their VFs.
pub fn companions_of<'a>(ports: impl IntoIterator<Item = &'a Devargs>) -> Vec<String> {
    let has_vmbus = ports.into_iter().any(Devargs::is_vmbus);
    if has_vmbus { host::vfs_without_master() } else { Vec::new() }
}

/// Returns the NUMA nodes of ports in ascending order, as far as the kernel tells.
pub fn nodes_of<'a>(ports: impl IntoIterator<Item = &'a Devargs>) -> Vec<u32> {
    let node = |port: &Devargs| match port.host_interface() {
        Some(interface) => host::node_of_interface(interface),
        None if port.is_pci() => host::node_of_pci(&port.name),
        None => None,
    };
    let nodes: BTreeSet<u32> = ports.into_iter().filter_map(node).collect();
    nodes.into_iter().collect()
}

/// Returns the offsets of commas outside brackets: `representor=[0,2]` is one argument.
fn commas(text: &str) -> impl Iterator<Item = usize> {
    let mut depth = 0_usize;
    text.char_indices().filter_map(move |(offset, character)| {
        match character {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (character == ',' && depth == 0).then_some(offset)
    })
}

fn first_word(text: &str) -> &str {
    text.split(',').next().unwrap_or(text)
}

fn is_device(name: &str) -> bool {
    pci_address(name).is_some() || is_vdev(name) || dpdk::is_vmbus(name)
}

fn is_vdev(name: &str) -> bool {
    VDEV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// True for a valid name of a Linux interface (`dev_valid_name` in net/core/dev.c) that cannot be
/// mistaken for a path.
fn is_interface(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte);
    name.len() <= INTERFACE_MAX_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.bytes().all(is_good)
}

/// Normalizes `[domain:]bus:device.function`, all hexadecimal, to the form `0000:18:00.2`.
fn pci_address(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut fields = rest.rsplit(':');
    let device = hexadecimal(fields.next()?, 2, 0x1f)?;
    let bus = hexadecimal(fields.next()?, 2, 0xff)?;
    let domain = fields.next().map_or(Some(0), |domain| hexadecimal(domain, 8, u32::MAX))?;
    let function = hexadecimal(function, 1, 7)?;
    fields.next().is_none().then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

fn hexadecimal(digits: &str, most_digits: usize, most: u32) -> Option<u32> {
    if digits.is_empty() || digits.len() > most_digits {
        return None;
    }
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|number| all_digits && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<(String, String), PairError> {
        split_pair(text).map(|(a, b)| (a.to_string(), b.to_string()))
    }

    #[test]
    fn pci_addresses_have_one_form() {
        for text in ["0000:18:00.2", "18:00.2", "0:18:0.2"] {
            assert_eq!(Devargs::parse(text).unwrap().to_string(), "0000:18:00.2", "{text}");
        }
        let device = Devargs::parse("10000:AF:1f.7,mprq_en=1").unwrap();
        assert_eq!(device.to_string(), "10000:af:1f.7,mprq_en=1");
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let refused = ["18:00.8", "18:20.0", "18:00", "a:b:c:d.0", "+1:00.0", "an/other", "-x"];
        for text in refused {
            assert_eq!(Devargs::parse(text), Err(DeviceFault::NotADevice(text.to_owned())));
        }
        let with_arguments = DeviceFault::NotADevice("eth1".to_owned());
        assert_eq!(Devargs::parse("eth1,a=b"), Err(with_arguments));
        for text in ["", ",iface=eth1"] {
            assert_eq!(Devargs::parse(text), Err(DeviceFault::Empty));
        }
        for text in [" net_null0", "net_null0 ", "net_null0,a=b\n", "net_ null0"] {
            assert_eq!(Devargs::parse(text), Err(DeviceFault::Blank(text.to_owned())));
        }
        let long = format!("net_{}", "x".repeat(60));
        assert_eq!(Devargs::parse(&long), Err(DeviceFault::TooLong(long)));
    }

    #[test]
    fn interface_is_found_among_the_arguments() {
        let interface = |text| Devargs::parse(text).unwrap().interface().map(str::to_owned);
        assert_eq!(interface("net_af_packet0,qpairs=1,iface=eth1"), Some("eth1".to_owned()));
        assert_eq!(interface("net_pcap0,rx_iface=eth1"), None);
        let below = "net_twin0,lower=(net_af_packet0,iface=eth1),switch=s";
        assert_eq!(interface(below), Some("eth1".to_owned()));
        assert_eq!(interface("net_null0"), None);
        assert_eq!(interface("eth1.7"), Some("eth1.7".to_owned()));
        let host = |text| Devargs::parse(text).unwrap().host_interface().map(str::to_owned);
        assert_eq!(host("net_pcap0,rx_iface=eth1"), Some("eth1".to_owned()));
        assert_eq!(host("net_tap0,iface=tap7"), None);
        assert!(Devargs::parse("wlp0s20f3").unwrap().is_interface());
    }

    #[test]
    fn frames_that_net_af_packet_may_have_cut_are_known_by_their_length() {
        let cuts = |text| Devargs::parse(text).unwrap().cuts_from();
        assert_eq!(cuts("net_af_packet0,iface=eth1"), Some(1982));
        assert_eq!(cuts("net_af_packet0,iface=eth1,framesz=16384,blocksz=65536"), Some(16_318));
        assert_eq!(cuts("net_null0"), None);
        for mtu in [68, 1500, 1893, 1894, 9000, 16_000] {
            let mut port = Devargs::parse("net_af_packet0,iface=eth1").unwrap();
            port.fit_for(mtu);
            assert!(port.cuts_from() > Some(mtu + 14 + 8), "{port}");
            assert!(mtu > 1500 || port.to_string() == "net_af_packet0,iface=eth1", "{port}");
        }
    }

    #[test]
    fn pairs_are_cut_where_the_second_device_begins() {
        let cases = [
            ("18:00.2,18:00.3", "0000:18:00.2", "0000:18:00.3"),
            ("net_null0,net_null1", "net_null0", "net_null1"),
            ("eth1,eth2", "eth1", "eth2"),
            ("net_null0,no-rx=1,eth2", "net_null0,no-rx=1", "eth2"),
            (
                "net_pcap0,rx_pcap=f.pcap,infinite_rx=1,net_null0,no-rx=1",
                "net_pcap0,rx_pcap=f.pcap,infinite_rx=1",
                "net_null0,no-rx=1",
            ),
            (
                "net_af_packet0,iface=eth1,18:00.3,dv_flow_en=1",
                "net_af_packet0,iface=eth1",
                "0000:18:00.3,dv_flow_en=1",
            ),
            // A bare word as argument of the first driver, a list in brackets, nested devices.
            ("net_x0,promisc,net_y0", "net_x0,promisc", "net_y0"),
            ("net_x0,net=[0,2],net_y0", "net_x0,net=[0,2]", "net_y0"),
            (
                "net_failsafe0,dev(net_null0,copy=1),net_null1",
                "net_failsafe0,dev(net_null0,copy=1)",
                "net_null1",
            ),
            // The value of an argument may look like a device.
            ("net_bonding0,slave=net_null0,net_null1", "net_bonding0,slave=net_null0", "net_null1"),
        ];
        for (text, a, b) in cases {
            assert_eq!(names(text), Ok((a.to_owned(), b.to_owned())), "{text}");
        }
    }

    #[test]
    fn pairs_that_are_not_two_devices_are_refused() {
        assert_eq!(names("net_null0"), Err(PairError::One("net_null0".to_owned())));
        let one = "net_pcap0,rx_pcap=f.pcap";
        assert_eq!(names(one), Err(PairError::One(one.to_owned())));
        let three = "net_null0,net_null1,net_null2";
        assert_eq!(names(three), Err(PairError::Ambiguous { text: three.to_owned(), count: 2 }));
        let none = "net_null0,up,down";
        assert_eq!(names(none), Err(PairError::Ambiguous { text: none.to_owned(), count: 2 }));
        assert_eq!(
            names("net_null0,18:00"),
            Err(PairError::Device(DeviceFault::NotADevice("18:00".to_owned())))
        );
        assert_eq!(names("net_null0,"), Err(PairError::Device(DeviceFault::Empty)));
        assert_eq!(names(",net_null0"), Err(PairError::Device(DeviceFault::Empty)));
        assert_eq!(
            names("18:00,net_null0"),
            Err(PairError::Device(DeviceFault::NotADevice("18:00".to_owned())))
        );
    }

    #[test]
    fn every_two_devices_joined_come_apart_again() {
        let devices = [
            "0000:18:00.2",
            "0000:af:1f.7,mprq_en=1,rx_vec_en=0",
            "net_null0,no-rx=1",
            "net_pcap1,rx_pcap=a b.pcap,tx_pcap=/dev/null",
            "net_memif0,role=server,id=0,socket=/run/m.sock",
            "virtio_user0,path=/dev/vhost-net,queues=2",
            "eth_pcap0,iface=lo",
            "000d3a7c-dfac-000d-3a7c-dfac000d3a7c",
        ];
        for a in devices {
            for b in devices {
                let pair = format!("{a},{b}");
                assert_eq!(names(&pair), Ok((a.to_owned(), b.to_owned())), "{pair}");
            }
        }
    }
}
