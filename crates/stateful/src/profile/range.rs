// SPDX-License-Identifier: BSD-3-Clause
//! Ranges of addresses and ports, as profiles write them.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Consecutive addresses of one family, written as the first, `-` and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: u128,
    len: u32,
}

/// Most addresses of a range.
const ADDRESSES_MAX: u128 = 1 << 24;

/// Returns an address as a number; IPv4 addresses as those of RFC 4291 section 2.5.5.2.
pub(crate) fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Returns the address of a number.
pub(crate) fn address_of(number: u128) -> IpAddr {
    Ipv6Addr::from_bits(number).to_canonical()
}

/// Returns the number of an IPv4 address.
#[inline(always)]
pub(crate) fn number_of_v4(address: Ipv4Addr) -> u128 {
    0xffff_0000_0000 | u128::from(address.to_bits())
}

/// True if the number is that of an IPv4 address.
#[inline(always)]
pub(crate) fn is_ipv4(number: u128) -> bool {
    number >> 32 == 0xffff
}

impl AddressRange {
    /// Makes a range of `len` addresses, at least 1.
    pub fn new(first: IpAddr, len: u32) -> Self {
        Self { first: number_of(first), len: len.max(1) }
    }

    /// Reads `FIRST-LAST`, or one address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (address(first)?, address(last)?);
        if first.is_ipv4() != last.is_ipv4() {
            return Err(format!("{text}: one address is IPv4, the other IPv6"));
        }
        let (first, last) = (number_of(first), number_of(last));
        match last.checked_sub(first) {
            None => Err(format!("{text}: the last address is below the first")),
            Some(more) if more >= ADDRESSES_MAX => {
                Err(format!("{text}: a range has at most {ADDRESSES_MAX} addresses"))
            }
            Some(more) => Ok(Self { first, len: more as u32 + 1 }),
        }
    }

    /// Returns the number of addresses.
    pub fn count(&self) -> u32 {
        self.len
    }

    /// True if the addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        is_ipv4(self.first)
    }

    /// Returns the first address.
    pub fn first(&self) -> IpAddr {
        address_of(self.first)
    }

    /// True if the address is one of the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.place(number_of(address)).is_some()
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.place(other.first).is_some() || other.place(self.first).is_some()
    }

    /// Returns the place of an address in the range.
    #[inline(always)]
    pub(crate) fn place(&self, number: u128) -> Option<u32> {
        let place = number.wrapping_sub(self.first);
        (place < u128::from(self.len)).then_some(place as u32)
    }

    /// Returns the number of the address at a place.
    #[inline(always)]
    pub(crate) fn at(&self, place: u32) -> u128 {
        self.first + u128::from(place)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first(), address_of(self.at(self.len - 1)))
    }
}

impl<'de> Deserialize<'de> for AddressRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// Reads a range of ports: `FIRST-LAST`.
pub(super) fn ports<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<RangeInclusive<u16>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let range = text.split_once('-').and_then(|(first, last)| {
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    });
    match range {
        Some(range) if !range.is_empty() && *range.start() > 0 => Ok(range),
        _ => Err(de::Error::custom(format!("{text:?} is no range of ports, such as 1024-65535"))),
    }
}
