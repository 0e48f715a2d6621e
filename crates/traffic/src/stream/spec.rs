// SPDX-License-Identifier: BSD-3-Clause
//! Reads a stream as the user writes it: keys and values, from the command line or a file.

use super::rate::{Rate, RateError, parse_plain};
use super::recording::Playback;
use super::schedule::{Schedule, TimeError, positive_time, time};
use super::size::{SizeError, Sizes};
use super::tunnel::TunnelSpec;
use super::values::{Kind, Values, ValuesError};
use crate::Side;
use std::sync::Arc;
use wire::ethernet::Ethernet;
use wire::{proto, tcp};

/// All keys of a stream.
pub const KEYS: [&str; 35] = [
    "name",
    "side",
    "rate",
    "size",
    "count",
    "burst",
    "flows",
    "arrivals",
    "on",
    "off",
    "start",
    "pcap",
    "speed",
    "loops",
    "src_mac",
    "dst_mac",
    "outer_vlan",
    "vlan",
    "src",
    "dst",
    "proto",
    "sport",
    "dport",
    "ttl",
    "tos",
    "flags",
    "seq",
    "ack",
    "window",
    "tunnel",
    "vni",
    "teid",
    "tunnel_src",
    "tunnel_dst",
    "tunnel_sport",
];

/// A stream as the user writes it: its packets, their rate and number.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Name in results.
    pub name: String,
    /// The port that sends it.
    pub side: Side,
    /// Rate of the stream.
    pub rate: Rate,
    /// Number of packets after which the stream ends; `None` for never.
    pub count: Option<u64>,
    /// Number of packets that are sent back to back.
    pub burst: u64,
    /// Number of packets after which the values of varying fields start again; `None` for after all
    /// combinations.
    pub flows: Option<u64>,
    /// The capture that the stream sends instead of packets of its own.
    pub playback: Option<Playback>,
    pub(crate) schedule: Schedule,
    pub(crate) sizes: Sizes,
    pub(crate) packet: PacketSpec,
}

/// Headers of a stream's packets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PacketSpec {
    pub(crate) is_ipv6: bool,
    pub(crate) protocol: u8,
    /// True for SCTP packets without a chunk.
    pub(crate) is_bare: bool,
    pub(crate) tcp_flags: u8,
    pub(crate) src_mac: Option<Values>,
    pub(crate) dst_mac: Option<Values>,
    pub(crate) outer_vlan: Option<Values>,
    pub(crate) vlan: Option<Values>,
    pub(crate) src: Values,
    pub(crate) dst: Values,
    pub(crate) sport: Values,
    pub(crate) dport: Values,
    pub(crate) ttl: Values,
    pub(crate) tos: Values,
    pub(crate) seq: Values,
    pub(crate) ack: Values,
    pub(crate) window: Values,
    pub(crate) tunnel: Option<TunnelSpec>,
}

/// Reason why keys and values are no stream.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The key is not one of streams.
    #[error("a stream has no key {key:?}; its keys are {}", KEYS.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// The key is given twice.
    #[error("{0} is given twice")]
    Twice(String),
    /// The value is not allowed for its key.
    #[error("{key}: {fault}")]
    Value {
        /// The key.
        key: &'static str,
        /// The fault of the value.
        fault: ValueFault,
    },
}

/// Reason why a value is not allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ValueFault {
    /// The text is no value of the field, and no range or list of them.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The text is no frame size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The text is no rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The text is no time.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// The key needs another key.
    #[error("it needs {0}")]
    Without(&'static str),
    /// The key excludes another one that is given.
    #[error("{0} is given, too: give one of them")]
    Beside(&'static str),
    /// The text is no speed of a capture.
    #[error("{0:?} is no speed: a number from 0.001 to 1000")]
    Speed(String),
    /// The key is a field of packets, and the stream sends the frames of a capture.
    #[error("frames of a capture are sent unchanged: remove this key")]
    OfCapture,
    /// The text is none of the allowed words.
    #[error("{text:?} is none of {words}")]
    Word {
        /// The value.
        text: String,
        /// The allowed words.
        words: &'static str,
    },
    /// One of source and destination is IPv4, and the other IPv6.
    #[error("{src} is an address of one family and {dst} of the other")]
    Families {
        /// The key of the source.
        src: &'static str,
        /// The key of the destination.
        dst: &'static str,
    },
    /// The packets do not have this field. The text says which packets.
    #[error("packets {0} do not have this field")]
    NoSuchField(String),
    /// Payloads of dpdk-project are possible in UDP packets only.
    #[error("payloads of dpdk-project need proto=udp")]
    NotOfDpdkProject,
    /// The frame has no room for its headers, and for the stamp if packets are verified.
    #[error("{size} bytes are too few: these headers need at least {least} with FCS")]
    TooShort {
        /// The shortest size, with FCS.
        size: usize,
        /// The least size, with FCS.
        least: usize,
    },
}

/// Keys and values that have not been read yet.
pub(super) struct Reader {
    pairs: Vec<(String, String)>,
}

impl Reader {
    fn take(&mut self, key: &str) -> Option<String> {
        let place = self.pairs.iter().position(|(name, _)| name == key)?;
        Some(self.pairs.swap_remove(place).1)
    }

    /// Reads the value of `key` with `read`, or the text `default` if the key is not given.
    fn read<T, E: Into<ValueFault>>(
        &mut self,
        key: &'static str,
        default: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SpecError> {
        let text = self.take(key).unwrap_or_else(|| default.to_owned());
        read(&text).map_err(|fault| SpecError::Value { key, fault: fault.into() })
    }

    pub(super) fn optional<T, E: Into<ValueFault>>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, SpecError> {
        match self.pairs.iter().any(|(name, _)| name == key) {
            true => self.read(key, "", read).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn field(
        &mut self,
        key: &'static str,
        default: &str,
        max: u64,
    ) -> Result<Values, SpecError> {
        self.read(key, default, |text| Values::parse(text, Kind::Number(max)))
    }
}

fn number(text: &str) -> Result<u64, ValuesError> {
    let values = Values::parse(text, Kind::Number(u64::MAX >> 1))?;
    match values.count() {
        1 => Ok(values.first() as u64),
        _ => Err(ValuesError::NotOne { text: text.to_owned(), kind: "single number".to_owned() }),
    }
}

/// Reads a number of packets, at least 1.
fn positive(text: &str) -> Result<u64, ValuesError> {
    let kind = "number from 1 to 2^63 - 1".to_owned();
    let found = number(text).ok().filter(|number| *number > 0);
    found.ok_or_else(|| ValuesError::NotOne { text: text.to_owned(), kind })
}

pub(super) fn word<T: Copy>(
    text: &str,
    words: &'static str,
    of: &[(&str, T)],
) -> Result<T, ValueFault> {
    let found = of.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| ValueFault::Word { text: text.to_owned(), words })
}

/// The keys that a stream may have if it sends a capture, besides `speed` and `loops`.
const PLAYBACK_KEYS: [&str; 10] =
    ["name", "side", "rate", "count", "burst", "arrivals", "on", "off", "start", "pcap"];

impl Reader {
    /// Reads the keys of a capture, if the stream sends one, and refuses keys of packets.
    fn playback(&mut self) -> Result<Option<Playback>, SpecError> {
        let refused = |key, fault| Err(SpecError::Value { key, fault });
        let speed = self.optional("speed", speed)?;
        let loops = self.optional("loops", positive)?;
        let Some(path) = self.take("pcap") else {
            return match (speed, loops) {
                (None, None) => Ok(None),
                (Some(_), _) => refused("speed", ValueFault::Without("pcap=FILE")),
                _ => refused("loops", ValueFault::Without("pcap=FILE")),
            };
        };
        let has = |key: &str| self.pairs.iter().any(|(name, _)| name == key);
        let others = KEYS.into_iter().filter(|key| !PLAYBACK_KEYS.contains(key));
        if let Some(key) = others.into_iter().find(|key| has(key)) {
            return refused(key, ValueFault::OfCapture);
        }
        if speed.is_some() && has("rate") {
            return refused("speed", ValueFault::Beside("rate"));
        }
        if loops.is_some() && has("count") {
            return refused("loops", ValueFault::Beside("count"));
        }
        let speed = if has("rate") { None } else { Some(speed.unwrap_or(1.0)) };
        for key in ["burst", "arrivals"] {
            if speed.is_some() && has(key) {
                return refused(key, ValueFault::Without("rate=RATE: a capture has its own times"));
            }
        }
        Ok(Some(Playback { path, speed, loops, recording: Arc::default() }))
    }
}

/// Reads a factor for the speed of a capture.
fn speed(text: &str) -> Result<f64, ValueFault> {
    let speed = parse_plain(text).filter(|speed| (0.001..=1000.0).contains(speed));
    speed.ok_or_else(|| ValueFault::Speed(text.to_owned()))
}

/// Reads a protocol. Returns its number, and true for SCTP without a chunk.
fn protocol(text: &str) -> Result<(u8, bool), ValueFault> {
    let names = [
        ("udp", (proto::UDP, false)),
        ("tcp", (proto::TCP, false)),
        ("icmp", (proto::ICMP, false)),
        ("sctp", (proto::SCTP, false)),
        ("sctp-bare", (proto::SCTP, true)),
    ];
    word(text, "udp, tcp, icmp, sctp, sctp-bare", &names)
}

/// Reads TCP flags: the letters of tcpdump, and E and C for ECE and CWR.
fn tcp_flags(text: &str) -> Result<u8, ValueFault> {
    let letters = [
        ('F', tcp::FIN),
        ('S', tcp::SYN),
        ('R', tcp::RST),
        ('P', tcp::PSH),
        ('A', tcp::ACK),
        ('U', 0x20),
        ('E', 0x40),
        ('C', 0x80),
    ];
    let words = "the letters F S R P A U E C";
    let bit = |letter| letters.iter().find(|(name, _)| *name == letter).map(|(_, bit)| *bit);
    let bits: Option<Vec<u8>> = text.chars().map(bit).collect();
    let bits = bits.ok_or_else(|| ValueFault::Word { text: text.to_owned(), words })?;
    Ok(bits.into_iter().fold(0, |all, bit| all | bit))
}

fn side(text: &str) -> Result<Side, ValueFault> {
    word(text, "a, b", &[("a", Side::A), ("b", Side::B)])
}

/// True if the first address of a text is IPv6: it contains a colon.
fn is_ipv6(text: &str) -> bool {
    let begin = text.strip_prefix("random:").unwrap_or(text);
    let end = begin.find(['-', '/', ',']).unwrap_or(begin.len());
    begin[..end].contains(':')
}

/// Reads source and destination addresses, which must be of one family. Returns true for IPv6.
pub(super) fn addresses(
    reader: &mut Reader,
    keys: [&'static str; 2],
) -> Result<(bool, [Values; 2]), SpecError> {
    let texts = keys.map(|key| reader.take(key));
    let is_ipv6 = texts.iter().flatten().next().is_some_and(|text| is_ipv6(text));
    // Networks for benchmarks (RFC 2544, RFC 5180).
    let (kind, defaults) = match is_ipv6 {
        false => (Kind::Ipv4, ["198.18.0.1", "198.19.0.1"]),
        true => (Kind::Ipv6, ["2001:2::1", "2001:2:0:8000::1"]),
    };
    let read = |number: usize| {
        let text = texts[number].as_deref().unwrap_or(defaults[number]);
        let fault = |fault| SpecError::Value { key: keys[number], fault };
        Values::parse(text, kind).map_err(|error| {
            let is_other = is_ipv6 != self::is_ipv6(text);
            let is_address = Values::parse(text, Kind::Ipv4).is_ok() || self::is_ipv6(text);
            fault(match is_other && is_address {
                true => ValueFault::Families { src: keys[0], dst: keys[1] },
                false => error.into(),
            })
        })
    };
    Ok((is_ipv6, [read(0)?, read(1)?]))
}

impl StreamSpec {
    /// Reads a stream from keys and values. Without a name, it is called `stream` and `number`.
    ///
    /// # Errors
    /// A key is unknown or given twice, or a value is not allowed.
    pub fn from_pairs(
        number: usize,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SpecError> {
        let mut reader = Reader { pairs: Vec::new() };
        for (key, value) in pairs {
            if !KEYS.contains(&key.as_str()) {
                return Err(SpecError::UnknownKey { key });
            }
            if reader.pairs.iter().any(|(name, _)| *name == key) {
                return Err(SpecError::Twice(key));
            }
            reader.pairs.push((key, value));
        }
        Self::read(number, &mut reader)
    }

    fn read(number: usize, reader: &mut Reader) -> Result<Self, SpecError> {
        let playback = reader.playback()?;
        let spec = Self {
            name: reader.take("name").unwrap_or_else(|| format!("stream{number}")),
            side: reader.read("side", "a", side)?,
            rate: reader.read("rate", "max", Rate::parse)?,
            count: reader.optional("count", positive)?,
            burst: reader.read("burst", "1", positive)?,
            flows: reader.optional("flows", positive)?,
            playback,
            schedule: Schedule::read(reader)?,
            sizes: reader.read("size", "64", Sizes::parse)?,
            packet: PacketSpec::read(reader)?,
        };
        match reader.pairs.first() {
            None => Ok(spec),
            // A known key that was not read does not belong to such packets.
            Some((key, _)) => {
                let key = KEYS.into_iter().find(|known| known == key).unwrap_or("proto");
                let with = || format!("with proto={}", spec.packet.protocol_name());
                let packets = TunnelSpec::without(key).map_or_else(with, str::to_owned);
                let fault = ValueFault::NoSuchField(packets);
                Err(SpecError::Value { key, fault })
            }
        }
    }

    /// Returns the number of packets after which the stream ends; `None` for never.
    pub(crate) fn packets(&self) -> Option<u64> {
        let loops = self.playback.as_ref().and_then(|it| Some((it, it.loops?)));
        let of_loops = loops.map(|(it, loops)| loops.saturating_mul(it.recording.len() as u64));
        self.count.or(of_loops)
    }

    /// Returns the MTU that the longest frame needs: its bytes behind the Ethernet header and tags.
    pub fn mtu(&self) -> usize {
        if let Some(playback) = &self.playback {
            return playback.recording.mtu();
        }
        let longest = self.sizes.pattern().iter().copied().max().map_or(0, usize::from);
        let tags = [&self.packet.outer_vlan, &self.packet.vlan].into_iter().flatten().count();
        longest - Ethernet::LEN - 4 * tags
    }

    /// Returns the mean size of the frames in bytes, with FCS.
    pub fn mean_size(&self) -> f64 {
        let of_capture = self.playback.as_ref().map(|it| it.recording.mean_size());
        of_capture.unwrap_or_else(|| self.sizes.mean())
    }
}

impl Schedule {
    fn read(reader: &mut Reader) -> Result<Self, SpecError> {
        let arrivals =
            |text: &str| word(text, "even, poisson", &[("even", false), ("poisson", true)]);
        let on = reader.optional("on", positive_time)?;
        let off = reader.optional("off", positive_time)?;
        let without = |key, other| Err(SpecError::Value { key, fault: ValueFault::Without(other) });
        Ok(Self {
            is_poisson: reader.read("arrivals", "even", arrivals)?,
            on_off: match (on, off) {
                (Some(on), Some(off)) => Some([on, off]),
                (Some(_), None) => return without("on", "off=TIME, too"),
                (None, Some(_)) => return without("off", "on=TIME, too"),
                (None, None) => None,
            },
            start_ns: reader.read("start", "0", time)?,
        })
    }
}

impl PacketSpec {
    fn read(reader: &mut Reader) -> Result<Self, SpecError> {
        let (is_ipv6, [src, dst]) = addresses(reader, ["src", "dst"])?;
        let tunnel = TunnelSpec::read(reader)?;
        let (protocol, is_bare) = reader.read("proto", "udp", protocol)?;
        let (is_tcp, has_ports) = (protocol == proto::TCP, protocol != proto::ICMP);
        let mac = |text: &str| Values::parse(text, Kind::Mac);
        let vlan = |text: &str| Values::parse(text, Kind::Number(4095));
        let only = |is_there: bool, max: u64| if is_there { max } else { 0 };
        let mut field = |key, default: &str, max: u64| match max {
            // The packets lack this field. The key stays unread, so `StreamSpec::read` refuses it.
            0 => Ok(Values::parse("0", Kind::Number(0)).expect("a number")),
            _ => reader.field(key, default, max),
        };
        Ok(Self {
            is_ipv6,
            protocol,
            is_bare,
            sport: field("sport", "49152", only(has_ports, 65_535))?,
            dport: field("dport", if is_tcp { "80" } else { "7" }, only(has_ports, 65_535))?,
            ttl: field("ttl", "64", 255)?,
            tos: field("tos", "0", 255)?,
            seq: field("seq", "1", only(is_tcp, u64::from(u32::MAX)))?,
            ack: field("ack", "0", only(is_tcp, u64::from(u32::MAX)))?,
            window: field("window", "65535", only(is_tcp, 65_535))?,
            tcp_flags: if is_tcp { reader.read("flags", "A", tcp_flags)? } else { 0 },
            src_mac: reader.optional("src_mac", mac)?,
            dst_mac: reader.optional("dst_mac", mac)?,
            outer_vlan: reader.optional("outer_vlan", vlan)?,
            vlan: reader.optional("vlan", vlan)?,
            src,
            dst,
            tunnel,
        })
    }

    fn protocol_name(&self) -> &'static str {
        match self.protocol {
            proto::UDP => "udp",
            proto::TCP => "tcp",
            proto::SCTP => "sctp",
            _ => "icmp",
        }
    }
}
