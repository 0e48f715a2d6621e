// SPDX-License-Identifier: BSD-3-Clause
//! Divides the load of a trial among the streams.

use anyhow::{Context, bail};
use search::parse_number;
use traffic::stream::{Rate, StreamSpec};

/// Keys of a stream that a search sets itself, or that would change its rate.
const REFUSED_KEYS: [&str; 8] = ["rate", "count", "pcap", "speed", "loops", "on", "off", "start"];

/// Unit of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    /// Bits on the wire.
    WireBits,
    /// Bits of frames with FCS.
    FrameBits,
    /// Percent of the link, on each side that sends.
    LinkPercent,
    /// Connections per second.
    ConnectionRate,
    /// Connections at a time.
    Connections,
}

impl Unit {
    /// Returns the unit and the value of a rate; `None` for the rate `max`.
    pub(super) fn of(rate: Rate) -> Option<(Self, f64)> {
        match rate {
            Rate::Packets(value) => Some((Self::Packets, value)),
            Rate::WireBits(value) => Some((Self::WireBits, value)),
            Rate::FrameBits(value) => Some((Self::FrameBits, value)),
            Rate::Percent(value) => Some((Self::LinkPercent, value)),
            Rate::Max => None,
        }
    }

    /// Reads a load and its unit, such as `10kpps` or `5kcps`.
    pub(super) fn read(text: &str) -> Result<(Self, f64), String> {
        let of_connections = [(Self::ConnectionRate, "cps"), (Self::Connections, "conn")];
        for (unit, name) in of_connections {
            let Some(number) = text.strip_suffix(name) else { continue };
            let number = parse_number(number)?;
            return match number > 0.0 {
                true => Ok((unit, number)),
                false => Err(format!("{text}: a load must be more than 0")),
            };
        }
        let rate = Rate::parse(text).map_err(|error| {
            format!("{error}; connections are written as 10kcps (a second) or 10kconn (at a time)")
        })?;
        let no_number = "a search needs a number: write 10Mpps, 10Gbps, 100%, 10kcps or 10kconn";
        Self::of(rate).ok_or_else(|| no_number.to_owned())
    }

    /// True if loads are connections, not packets.
    pub(super) fn is_connections(self) -> bool {
        matches!(self, Self::ConnectionRate | Self::Connections)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Packets => "pps",
            Self::WireBits => "bps",
            Self::FrameBits => "bps-l2",
            Self::LinkPercent => "%",
            Self::ConnectionRate => "cps",
            Self::Connections => "conn",
        }
    }

    /// Returns a rate of packets; no stream has a load of connections.
    fn rate(self, value: f64) -> Rate {
        match self {
            Self::Packets | Self::ConnectionRate | Self::Connections => Rate::Packets(value),
            Self::WireBits => Rate::WireBits(value),
            Self::FrameBits => Rate::FrameBits(value),
            Self::LinkPercent => Rate::Percent(value),
        }
    }
}

/// The streams of a search, and the unit of their load.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    unit: Unit,
    streams: Vec<(StreamSpec, Vec<(String, String)>)>,
}

/// What the generator sends in a trial: the text of each stream, and their sums.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) streams: Vec<String>,
    pub(super) packets: u64,
    pub(super) pps: f64,
}

impl Traffic {
    /// Makes the traffic of these streams. With `size`, all frames have this size.
    pub(super) fn new(
        unit: Unit,
        streams: &[Vec<(String, String)>],
        size: Option<u32>,
    ) -> anyhow::Result<Self> {
        let stream = |(number, pairs): (usize, &Vec<(String, String)>)| {
            let mut pairs = pairs.clone();
            if let Some((key, _)) = pairs.iter().find(|(key, _)| REFUSED_KEYS.contains(&&**key)) {
                bail!("--stream: {key}: a search sets rate and length itself: leave {key} out");
            }
            if let Some(size) = size {
                if pairs.iter().any(|(key, _)| key == "size") {
                    bail!("--sizes contradicts size= in --stream: leave one of them out");
                }
                pairs.push(("size".to_owned(), size.to_string()));
            }
            let spec = StreamSpec::from_pairs(number, pairs.clone()).context("--stream")?;
            Ok((spec, pairs))
        };
        let streams = streams.iter().enumerate().map(stream).collect::<anyhow::Result<_>>()?;
        Ok(Self { unit, streams })
    }

    /// Returns the part of each stream in a load, for this time. Each stream has the same part; of
    /// a load in percent, each stream of the same side. `links` are the speeds of the links.
    pub(super) fn share(
        &self,
        load: f64,
        seconds: f64,
        links: [Option<u32>; 2],
    ) -> anyhow::Result<Share> {
        let mut share = Share { streams: Vec::new(), packets: 0, pps: 0.0 };
        for (spec, pairs) in &self.streams {
            let others = self.streams.iter().filter(|(other, _)| match self.unit {
                Unit::LinkPercent => other.side == spec.side,
                _ => true,
            });
            let rate = self.unit.rate(load / others.count() as f64);
            let link = links[spec.side as usize];
            let pps = rate.packets_per_second(spec.mean_size(), link)?.unwrap_or_default();
            let packets = ((pps * seconds).round() as u64).max(1);
            share.packets += packets;
            share.pps += pps;
            let pairs = pairs.iter().map(|(key, value)| format!("{key}={value} "));
            let pairs: String = pairs.collect();
            share.streams.push(format!("{pairs}rate={pps}pps count={packets}"));
        }
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pair = |word: &str| word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
        text.split_whitespace().filter_map(pair).collect()
    }

    fn share(unit: Unit, streams: &[&str], load: f64) -> Share {
        let streams: Vec<_> = streams.iter().map(|text| pairs(text)).collect();
        let traffic = Traffic::new(unit, &streams, Some(64)).unwrap();
        traffic.share(load, 0.5, [Some(10_000), Some(1000)]).unwrap()
    }

    #[test]
    fn streams_have_equal_parts_of_a_load() {
        let one = share(Unit::Packets, &[""], 1e6);
        assert_eq!(one.streams, ["size=64 rate=1000000pps count=500000"]);
        assert_eq!((one.packets, one.pps), (500_000, 1e6));
        let two = share(Unit::Packets, &["sport=5", "side=b"], 1e6);
        assert_eq!(two.streams[0], "sport=5 size=64 rate=500000pps count=250000");
        assert_eq!((two.packets, two.pps), (500_000, 1e6));
        // 84 bytes of each frame are on the wire, 64 are in the frame.
        assert_eq!(share(Unit::WireBits, &[""], 84.0 * 8.0 * 1000.0).pps, 1000.0);
        assert_eq!(share(Unit::FrameBits, &[""], 64.0 * 8.0 * 1000.0).pps, 1000.0);
    }

    #[test]
    fn loads_have_a_unit() {
        assert_eq!(Unit::read("1.5kcps"), Ok((Unit::ConnectionRate, 1500.0)));
        assert_eq!(Unit::read("2Mconn"), Ok((Unit::Connections, 2e6)));
        assert_eq!(Unit::read("10kpps"), Ok((Unit::Packets, 1e4)));
        for text in ["0cps", "cps", "-1conn", "1e3cps", "5", "max"] {
            assert!(Unit::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percents_are_those_of_each_link() {
        let both = share(Unit::LinkPercent, &["", "", "side=b"], 100.0);
        let full = |mbps: f64| mbps * 1e6 / (84.0 * 8.0);
        assert!((both.pps - full(10_000.0) - full(1000.0)).abs() < 1e-3);
        let traffic = Traffic::new(Unit::LinkPercent, &[Vec::new()], None).unwrap();
        let error = traffic.share(50.0, 1.0, [None; 2]).unwrap_err();
        assert!(error.to_string().contains("needs a link with a speed"), "{error}");
    }

    #[test]
    fn keys_that_a_search_sets_are_refused() {
        let refused = |text: &str, size: Option<u32>| {
            Traffic::new(Unit::Packets, &[pairs(text)], size).unwrap_err().to_string()
        };
        assert!(refused("rate=1pps", None).contains("rate: a search sets"));
        assert!(refused("size=64", Some(64)).contains("--sizes contradicts"));
        assert!(refused("on=1ms off=1ms", None).contains("leave on out"));
    }
}
