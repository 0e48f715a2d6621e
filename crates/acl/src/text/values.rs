// SPDX-License-Identifier: BSD-3-Clause
//! Reads the values of a rule's fields. Several values are separated by commas.

use crate::criteria::{AddressSet, Addresses, Family, MaskedValue};
use crate::packet::{CtStates, Fragment};
use crate::ranges::{Number, Ranges};
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;
use wire::proto_names;

/// Word for no criterion.
const ANY: &str = "any";

/// TCP flags and their names, by bit.
pub(super) const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// Most networks in one rule. More belong into a set.
const NETWORKS_MAX: usize = 64;

/// Reads a number in decimal, or in hexadecimal after `0x`.
pub(super) fn number<T: TryFrom<u32>>(text: &str) -> Option<T> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse::<u32>().ok()?,
    };
    T::try_from(number).ok()
}

/// Reads `any`, networks, addresses, or the name of a set after `@`.
///
/// # Errors
/// If the text is none of these, or there is no such set.
pub fn parse_addresses(
    text: &str,
    find_set: &dyn Fn(&str) -> Option<Arc<AddressSet>>,
) -> Result<Addresses, String> {
    if text == ANY {
        return Ok(Addresses::Any);
    }
    if let Some(name) = text.strip_prefix('@') {
        return find_set(name)
            .map(Addresses::Set)
            .ok_or_else(|| format!("there is no set {name:?}; define it as [[set]]"));
    }
    let networks = text.split(',').map(network).collect::<Result<Vec<_>, _>>()?;
    if networks.len() > NETWORKS_MAX {
        let found = networks.len();
        return Err(format!(
            "{found} networks in one rule; at most {NETWORKS_MAX} are allowed, write a [[set]]"
        ));
    }
    let family = Family::of(networks[0].addr());
    if networks.iter().any(|network| Family::of(network.addr()) != family) {
        return Err("IPv4 and IPv6 networks in one rule; write two rules, or a [[set]]".into());
    }
    // The whole address space means that any address will do, of this IP version.
    Ok(Addresses::Networks(networks))
}

/// Reads a network or an address.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
        format!("{text:?} is no network; write ADDRESS, ADDRESS/LENGTH, any, or @SET")
    })?;
    match network == network.trunc() {
        true => Ok(network),
        false => Err(format!(
            "{text} has bits behind its prefix; write {} or {}",
            network.trunc(),
            network.addr()
        )),
    }
}

/// Reads IP protocols by name or number. 0 is VPP's word for any.
pub(super) fn protocols(text: &str) -> Result<Ranges<u8>, String> {
    if text == ANY || text == "0" {
        return Ok(Ranges::ANY);
    }
    let one = |name: &str| {
        let number = proto_names::number(name);
        number
            .map(|number| [number; 2])
            .map_err(|error| format!("{name:?} is no protocol; {error}"))
    };
    text.split(',').map(one).collect::<Result<Vec<_>, _>>().map(Ranges::new)
}

/// Reads numbers and ranges: `80,8000-8100`.
pub(super) fn ranges<T: Number>(text: &str, what: &str, max: u32) -> Result<Ranges<T>, String> {
    if text == ANY {
        return Ok(Ranges::ANY);
    }
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse::<T>(), last.parse::<T>()) {
            (Ok(first), Ok(last)) if first <= last => Ok([first, last]),
            (Ok(first), Ok(last)) => {
                Err(format!("the range {text} is upside down; write {last}-{first}"))
            }
            _ => Err(format!(
                "{text:?} is no {what}; write a number up to {max}, FIRST-LAST, or any"
            )),
        }
    };
    text.split(',').map(range).collect::<Result<Vec<_>, _>>().map(Ranges::new)
}

/// Returns ranges of numbers up to 255; `None` if there are larger ones.
pub(super) fn narrow(wide: &Ranges<u16>) -> Option<Ranges<u8>> {
    let narrow =
        |[first, last]: &[u16; 2]| Some([u8::try_from(*first).ok()?, u8::try_from(*last).ok()?]);
    wide.as_slice().iter().map(narrow).collect::<Option<Vec<_>>>().map(Ranges::new)
}

/// Reads TCP flags: `SET/MASK`, or `SET` alone, which says nothing of the others.
pub(super) fn tcp_flags(text: &str) -> Result<MaskedValue<u8>, String> {
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (flag_bits(value)?, flag_bits(mask)?),
        None => (flag_bits(text)?, flag_bits(text)?),
    };
    Ok(MaskedValue { value, mask })
}

pub(super) fn flag_bits(text: &str) -> Result<u8, String> {
    if let Some(number) = number(text) {
        return Ok(number);
    }
    if text == "none" {
        return Ok(0);
    }
    let bit = |name: &str| {
        let bit = TCP_FLAGS.iter().position(|flag| *flag == name);
        bit.map(|bit| 1 << bit).ok_or_else(|| {
            format!("{name:?} is no TCP flag; write {}, joined by +", TCP_FLAGS.join(", "))
        })
    };
    text.split([',', '+']).try_fold(0, |bits, name| Ok(bits | bit(name)?))
}

pub(super) fn fragment(text: &str) -> Result<Fragment, String> {
    let found = Fragment::ALL.iter().find(|(_, name)| *name == text);
    found
        .map(|(kind, _)| *kind)
        .ok_or_else(|| format!("{text:?} is no kind of fragment; write none, first, or later"))
}

pub(super) fn ct_states(text: &str) -> Result<CtStates, String> {
    if text == ANY {
        return Ok(CtStates::ANY);
    }
    let state = |name: &str| {
        let found = CtStates::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(state, _)| *state).ok_or_else(|| {
            let known = CtStates::ALL.map(|(_, name)| name).join(", ");
            format!("{name:?} is no state of a connection; write some of {known}")
        })
    };
    let mut states = text.split(',').map(state);
    let first = states.next().unwrap_or(Ok(CtStates::ANY))?;
    states.try_fold(first, |states, state| Ok(states | state?))
}

/// Reads a connection mark, `VALUE/MASK` or `VALUE`.
pub(super) fn mark(text: &str) -> Result<MaskedValue<u32>, String> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    match (number::<u32>(value), number::<u32>(mask)) {
        (Some(value), Some(mask)) if value & !mask == 0 => Ok(MaskedValue { value, mask }),
        (Some(_), Some(_)) => {
            Err(format!("the mark {text} has bits that are not in its mask: no packet can match"))
        }
        _ => Err(format!("{text:?} is no mark; write VALUE or VALUE/MASK, of 32 bits")),
    }
}

/// Reads bits to write, `VALUE` or `VALUE/MASK`, each of at most this many bits.
pub(super) fn bits(text: &str, bits: u32) -> Result<MaskedValue<u128>, String> {
    let all = u128::MAX >> (u128::BITS - bits);
    let number = |text: &str| {
        let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
        let is_number = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
        let number = u128::from_str_radix(digits, radix).ok().filter(|_| is_number);
        number.filter(|number| *number <= all).ok_or_else(|| {
            format!("{text:?} is no number; write VALUE or VALUE/MASK, of {bits} bits")
        })
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (number(value)?, number(mask)?),
        None => (number(text)?, all),
    };
    match value & !mask {
        0 => Ok(MaskedValue { value, mask }),
        _ => Err(format!("the value {text} has bits that are not in its mask")),
    }
}
