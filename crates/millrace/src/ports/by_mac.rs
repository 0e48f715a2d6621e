// SPDX-License-Identifier: BSD-3-Clause
//! Finds ports by MAC address, written as `mac=aa:bb:cc:dd:ee:ff` or as the address alone.

use crate::netdev;
use doctor::host::Nic;
use std::io;

/// Why no port is known for a MAC address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MacError {
    #[error("{0:?} is no MAC address: write mac=aa:bb:cc:dd:ee:ff")]
    NotAMac(String),
    #[error("no Linux interface has the MAC address {mac}{}", unbound(.bound))]
    Unknown { mac: String, bound: Vec<String> },
    #[error("{} have the MAC address {mac}: name one of them as the port", .interfaces.join(", "))]
    Ambiguous { mac: String, interfaces: Vec<String> },
    #[error("cannot list the Linux interfaces: {0}")]
    Unlisted(#[from] io::Error),
}

/// Returns the part of the message about NICs that are bound to a user-space driver. sysfs does not
/// have their MAC addresses. Only a driver of DPDK could read them, and it would reset each NIC,
/// also one that another program is about to use. So Millrace opens only NICs that the user has
/// named.
fn unbound(bound: &[String]) -> String {
    match bound {
        [] => String::new(),
        _ => format!(
            "; a port bound to vfio-pci or uio is named by its PCI address: {}",
            bound.join(", ")
        ),
    }
}

/// Replaces MAC addresses in `A` or `A,B` by the names of their ports.
pub(super) fn resolve(text: &str) -> Result<String, MacError> {
    resolve_with(text, |mac| find(mac, &netdev::interfaces_with_mac(mac)?))
}

/// Replaces MAC addresses, found by `find`. After a device with arguments, `mac=` is an argument of
/// its driver, as for `net_tap`. There only an address alone names a port.
fn resolve_with(
    text: &str,
    find: impl Fn([u8; 6]) -> Result<String, MacError>,
) -> Result<String, MacError> {
    let mut words = Vec::new();
    // `mac=` begins a port unless a device before it takes arguments.
    let mut begins_port = true;
    for word in text.split(',') {
        let address = word.strip_prefix("mac=").filter(|_| begins_port);
        let name = match (address, parse(word)) {
            (Some(address), _) => {
                let mac = parse(address).ok_or_else(|| MacError::NotAMac(address.to_owned()))?;
                find(mac)?
            }
            (None, Some(mac)) => find(mac)?,
            (None, None) => word.to_owned(),
        };
        begins_port = !is_device(&name);
        words.push(name);
    }
    Ok(words.join(","))
}

/// True for a device that may have arguments, and for an argument; false for a Linux interface.
fn is_device(word: &str) -> bool {
    config::Devargs::parse(word).map_or(true, |port| !port.is_interface())
}

/// Returns the only interface in the list; fails if there is none, or several.
fn find(mac: [u8; 6], interfaces: &[String]) -> Result<String, MacError> {
    match interfaces {
        [one] => Ok(one.clone()),
        [] => Err(MacError::Unknown { mac: format(mac), bound: Nic::bound_to_user_space() }),
        _ => Err(MacError::Ambiguous { mac: format(mac), interfaces: interfaces.to_vec() }),
    }
}

/// Parses a MAC address: six bytes of two hexadecimal digits.
pub(crate) fn parse(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':');
    for byte in &mut mac {
        let digits = bytes.next()?;
        let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    }
    bytes.next().is_none().then_some(mac)
}

/// Formats a MAC address.
pub(crate) fn format(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves on a made-up host: the last byte of the address is the number of the interface.
    fn resolve(text: &str) -> Result<String, String> {
        let find = |mac: [u8; 6]| match mac[5] {
            9 => find(mac, &["eth9".to_owned(), "eth9.7".to_owned()]),
            0 => Err(MacError::Unknown { mac: format(mac), bound: Vec::new() }),
            number => find(mac, &[format!("eth{number}")]),
        };
        resolve_with(text, find).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_become_names() {
        for (text, expected) in [
            ("mac=02:00:00:00:00:01", "eth1"),
            ("02:00:00:00:0A:01", "eth1"),
            ("mac=02:00:00:00:00:01,mac=02:00:00:00:00:02", "eth1,eth2"),
            ("02:00:00:00:00:01,02:00:00:00:00:02", "eth1,eth2"),
            ("eth5,mac=02:00:00:00:00:02", "eth5,eth2"),
            ("mac=02:00:00:00:00:02,18:00.0", "eth2,18:00.0"),
            ("18:00.0,a=b,02:00:00:00:00:02", "18:00.0,a=b,eth2"),
            // An argument of net_tap.
            ("net_tap0,mac=02:00:00:00:00:02", "net_tap0,mac=02:00:00:00:00:02"),
            ("net_tap0,a=b,mac=02:00:00:00:00:02", "net_tap0,a=b,mac=02:00:00:00:00:02"),
            ("net_null0,net_null1", "net_null0,net_null1"),
            ("02:00:00:00:00", "02:00:00:00:00"),
        ] {
            assert_eq!(resolve(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_names_no_port_is_reported_with_what_to_type() {
        for (text, expected) in [
            ("mac=2:0:0:0:0:1", "\"2:0:0:0:0:1\" is no MAC address: write mac=aa:bb:cc:dd:ee:ff"),
            ("mac=eth1", "\"eth1\" is no MAC address"),
            ("mac=02:00:00:00:00:00", "no Linux interface has the MAC address 02:00:00:00:00:00"),
            (
                "02:00:00:00:00:09",
                "eth9, eth9.7 have the MAC address 02:00:00:00:00:09: name one of them as the port",
            ),
        ] {
            let error = resolve(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let bound = ["0000:18:00.0", "0000:18:00.1"].map(str::to_owned);
        let message = |bound: &[String]| {
            MacError::Unknown { mac: format([2; 6]), bound: bound.to_vec() }.to_string()
        };
        assert_eq!(
            message(&bound),
            "no Linux interface has the MAC address 02:02:02:02:02:02; a port bound to vfio-pci or \
             uio is named by its PCI address: 0000:18:00.0, 0000:18:00.1"
        );
        assert!(message(&[]).ends_with("02:02:02:02:02:02"));
    }
}
