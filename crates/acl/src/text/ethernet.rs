// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes rules for frames that are not IP, and such frames: `permit ether-type arp
//! src-mac 02:00:00:00:00:00/ff:00:00:00:00:00`.

use super::{RuleError, read_fields, values, words};
use crate::criteria::MaskedValue;
use crate::ethernet::{EthernetCriteria, EthernetList, EthernetRule, Frame};
use crate::ranges::Ranges;
use crate::rule::Action;
use std::fmt;
use std::str::FromStr;

/// EtherTypes by name (IEEE registry). `llc` is the length of an IEEE 802.3 frame.
const ETHER_TYPES: [(&str, [u16; 2]); 15] = [
    ("llc", [0, 0x05ff]),
    ("arp", [0x0806; 2]),
    ("rarp", [0x8035; 2]),
    ("slow", [0x8809; 2]),
    ("mpls", [0x8847; 2]),
    ("mpls-multicast", [0x8848; 2]),
    ("pppoe-discovery", [0x8863; 2]),
    ("pppoe", [0x8864; 2]),
    ("eapol", [0x888e; 2]),
    ("profinet", [0x8892; 2]),
    ("lldp", [0x88cc; 2]),
    ("macsec", [0x88e5; 2]),
    ("ptp", [0x88f7; 2]),
    ("cfm", [0x8902; 2]),
    ("loopback", [0x9000; 2]),
];

/// EtherTypes that no frame of these lists has: IPv4, IPv6, and those of VLAN tags.
const NOT_HERE: [u16; 5] = [0x0800, 0x86dd, 0x8100, 0x88a8, 0x9100];

const ALL_BITS: u64 = 0xffff_ffff_ffff;

/// Names of the fields of a rule.
const FIELDS: &str = "ether-type, src-mac, dst-mac, zone";

/// Reads a rule for frames that are not IP: an action, then names of fields and their values.
///
/// # Errors
/// [`RuleError`] if the line is no such rule.
pub fn parse_ethernet_rule(line: &str) -> Result<EthernetRule, RuleError> {
    let words = words(line);
    let error = |column, message| RuleError { column, message };
    let Some(((column, word), rest)) = words.split_first() else {
        return Err(error(1, "an action is missing; write permit, deny, or count".to_owned()));
    };
    let action = parse_ethernet_action(word).map_err(|message| error(*column, message))?;
    let mut criteria = EthernetCriteria::ANY;
    let is_field = |name: &str| FIELDS.split(", ").any(|field| field == name);
    read_fields(rest, line, is_field, &mut |name, value| criteria.parse_field(name, value))?;
    Ok(EthernetRule { criteria, action })
}

/// Reads the action of a rule for frames that are not IP.
///
/// # Errors
/// If it is none of them.
pub fn parse_ethernet_action(text: &str) -> Result<Action, String> {
    let mut actions = Action::ALL.into_iter().filter(|(action, _)| EthernetList::allows(*action));
    let found = actions.find(|(_, name)| *name == text);
    found.map(|(action, _)| action).ok_or_else(|| {
        format!("{text:?} is no action of an ethernet list; write permit, deny, or count")
    })
}

impl EthernetCriteria {
    /// Reads one field of a rule. Words of its name are joined by `-` or `_`.
    ///
    /// # Errors
    /// What is wrong with the value, or if there is no such field.
    pub fn parse_field(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name.replace('_', "-").as_str() {
            "ether-type" => self.ether_type = ether_types(value)?,
            "src-mac" => self.src_mac = mac_bits(value)?,
            "dst-mac" => self.dst_mac = mac_bits(value)?,
            "zone" => self.zone = values::ranges(value, "zone", 65_535)?,
            _ => {
                return Err(format!(
                    "{name:?} is no field of a rule in an ethernet list; these are: {FIELDS}"
                ));
            }
        }
        Ok(())
    }
}

/// Reads EtherTypes by name or number, and ranges of numbers: `arp,0x88cc,0x9000-0x90ff`.
fn ether_types(text: &str) -> Result<Ranges<u16>, String> {
    if text == "any" {
        return Ok(Ranges::ANY);
    }
    let number = |text: &str| {
        values::number::<u16>(text).ok_or_else(|| {
            let names = ETHER_TYPES.map(|(name, _)| name).join(", ");
            format!("{text:?} is no EtherType; write a number such as 0x88cc, or one of {names}")
        })
    };
    let range = |text: &str| {
        if let Some((_, range)) = ETHER_TYPES.iter().find(|(name, _)| *name == text) {
            return Ok(*range);
        }
        let (first, last) = match text.split_once('-') {
            // Names have a `-` too.
            Some((first, last)) if first.starts_with(|digit: char| digit.is_ascii_digit()) => {
                (number(first)?, number(last)?)
            }
            _ => (number(text)?, number(text)?),
        };
        if first > last {
            return Err(format!("the range {text} is upside down; write {last:#06x}-{first:#06x}"));
        }
        match first == last && NOT_HERE.contains(&first) {
            true => Err(format!(
                "no frame of an ethernet list has EtherType {first:#06x}: lists without kind judge \
                 IP packets, and behind VLAN tags the inner EtherType counts"
            )),
            false => Ok([first, last]),
        }
    };
    text.split(',').map(range).collect::<Result<Vec<_>, _>>().map(Ranges::new)
}

/// Reads a MAC address, or `ADDRESS/MASK`; `None` for any.
fn mac_bits(text: &str) -> Result<Option<MaskedValue<u64>>, String> {
    if text == "any" {
        return Ok(None);
    }
    let bits = match text.split_once('/') {
        Some((value, mask)) => MaskedValue { value: mac(value)?, mask: mac(mask)? },
        None => MaskedValue { value: mac(text)?, mask: ALL_BITS },
    };
    match bits.value & !bits.mask {
        0 => Ok(Some(bits).filter(|bits| bits.mask != 0)),
        _ => Err(format!("{text} has bits that are not in its mask: no frame can match")),
    }
}

/// Reads a MAC address: six numbers of two hexadecimal digits.
fn mac(text: &str) -> Result<u64, String> {
    let byte = |digits: &str| {
        let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_byte)
    };
    let bytes: Option<Vec<u64>> = text.split(':').map(byte).collect();
    let bytes = bytes.filter(|bytes| bytes.len() == 6).ok_or_else(|| {
        format!("{text:?} is no MAC address; write it as 02:00:00:00:00:01, or ADDRESS/MASK")
    })?;
    Ok(bytes.into_iter().fold(0, |address, byte| address << 8 | byte))
}

impl fmt::Display for EthernetRule {
    /// Writes the rule as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EthernetCriteria { ether_type, src_mac, dst_mac, zone } = &self.criteria;
        f.write_str(self.action.name())?;
        if !ether_type.is_any() {
            let names: Vec<_> = ether_type.as_slice().iter().map(|range| name(*range)).collect();
            write!(f, " ether-type {}", names.join(","))?;
        }
        for (name, bits) in [("src-mac", src_mac), ("dst-mac", dst_mac)] {
            match bits {
                Some(MaskedValue { value, mask: ALL_BITS }) => {
                    write!(f, " {name} {}", Mac(*value))?
                }
                Some(MaskedValue { value, mask }) => {
                    write!(f, " {name} {}/{}", Mac(*value), Mac(*mask))?;
                }
                None => {}
            }
        }
        match zone.is_any() {
            true => Ok(()),
            false => write!(f, " zone {zone}"),
        }
    }
}

/// Returns the name of a range of EtherTypes, or its numbers.
fn name(range: [u16; 2]) -> String {
    let named = ETHER_TYPES.iter().find(|(_, known)| *known == range);
    let [first, last] = range;
    match named {
        Some((name, _)) => (*name).to_owned(),
        None if first == last => format!("{first:#06x}"),
        None if last - first == 1 => format!("{},{}", name([first; 2]), name([last; 2])),
        None => format!("{first:#06x}-{last:#06x}"),
    }
}

/// A MAC address, as text.
struct Mac(u64);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, _, a, b, c, d, e, g] = self.0.to_be_bytes();
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Form of a frame, for messages.
const FORM: &str = "write it as in 'ether-type arp src-mac 02:00:00:00:00:01 dst-mac \
    ff:ff:ff:ff:ff:ff'";

impl FromStr for Frame {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut frame = Frame { ether_type: 0, src_mac: 0, dst_mac: 0, zone: 0 };
        let words: Vec<_> = text.split_whitespace().collect();
        if words.first() != Some(&"ether-type") {
            return Err(format!("{text:?} is no frame; {FORM}"));
        }
        for pair in words.chunks(2) {
            match pair {
                ["ether-type", value] => match ether_types(value)?.as_slice() {
                    [[first, last]] if first == last || *value == "llc" => frame.ether_type = *last,
                    _ => return Err(format!("{value:?} is not one EtherType; {FORM}")),
                },
                ["src-mac", value] => frame.src_mac = mac(value)?,
                ["dst-mac", value] => frame.dst_mac = mac(value)?,
                _ => return Err(format!("{:?} is not understood; {FORM}", pair.join(" "))),
            }
        }
        Ok(frame)
    }
}

impl fmt::Display for Frame {
    /// Writes the frame as it is read. The length of an LLC frame is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.ether_type < 0x0600 { [0, 0x05ff] } else { [self.ether_type; 2] };
        let (src, dst) = (Mac(self.src_mac), Mac(self.dst_mac));
        write!(f, "ether-type {} src-mac {src} dst-mac {dst}", name(kind))
    }
}
