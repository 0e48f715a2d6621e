// SPDX-License-Identifier: BSD-3-Clause
//! Reads the rate of a stream as the user writes it, and converts it to frames per second.

/// Bytes that a frame takes on the wire besides its own bytes and FCS: preamble and start delimiter
/// 8, gap 12.
const WIRE_EXTRA: f64 = 20.0;

/// Rate of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Frames per second.
    Packets(f64),
    /// Bits per second on the wire: frames with FCS, preamble and gap (layer 1).
    WireBits(f64),
    /// Bits per second of frames with FCS (layer 2).
    FrameBits(f64),
    /// Percent of the link speed, from 0 to 100, measured on the wire.
    Percent(f64),
    /// As many frames as the port accepts.
    Max,
}

/// Error: the text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no rate: write 1Mpps, 10Gbps (on the wire), 10Gbps-l2 (frames with FCS), 50% (of the \
     link) or max"
)]
pub struct RateError(pub String);

/// Error: the rate is in percent of a link whose speed is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rate in % needs a link with a speed: write it in pps or bps")]
pub struct NoLinkSpeed;

impl Rate {
    /// Reads a rate. K, M and G are powers of 1000.
    pub fn parse(text: &str) -> Result<Self, RateError> {
        let error = || RateError(text.to_owned());
        if text == "max" {
            return Ok(Rate::Max);
        }
        let lower = text.to_ascii_lowercase();
        type Make = fn(f64) -> Rate;
        let units: [(&str, Make); 4] = [
            ("pps", Rate::Packets),
            ("bps-l2", Rate::FrameBits),
            ("bps", Rate::WireBits),
            ("%", Rate::Percent),
        ];
        let found = units.iter().find_map(|(unit, make)| Some((lower.strip_suffix(unit)?, make)));
        let (number, make) = found.ok_or_else(error)?;
        let value = parse_scaled(number.trim()).filter(|value| *value > 0.0 && *value < 1e15);
        match (value.ok_or_else(error)?, make(1.0)) {
            (value, Rate::Percent(_)) if value > 100.0 => Err(error()),
            (value, _) => Ok(make(value)),
        }
    }

    /// Returns the rate in frames per second, if frames have `mean` bytes with FCS on average.
    /// Returns `None` for [`Rate::Max`].
    ///
    /// # Errors
    /// The rate is in percent, and `link_mbps` is `None` or 0.
    pub fn packets_per_second(
        self,
        mean: f64,
        link_mbps: Option<u32>,
    ) -> Result<Option<f64>, NoLinkSpeed> {
        let on_wire = |bits: f64| bits / 8.0 / (mean + WIRE_EXTRA);
        Ok(Some(match self {
            Rate::Packets(rate) => rate,
            Rate::WireBits(bits) => on_wire(bits),
            Rate::FrameBits(bits) => bits / 8.0 / mean,
            Rate::Percent(percent) => {
                let mbps = link_mbps.filter(|mbps| *mbps > 0).ok_or(NoLinkSpeed)?;
                on_wire(f64::from(mbps) * 1e4 * percent)
            }
            Rate::Max => return Ok(None),
        }))
    }
}

fn parse_scaled(text: &str) -> Option<f64> {
    let scales = [("k", 1e3), ("m", 1e6), ("g", 1e9)];
    let found = scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (number, scale) = found.unwrap_or((text, &1.0));
    parse_plain(number).map(|number| number * scale)
}

/// Reads a decimal number of digits, a point and `_`: no sign, no "inf", no "1e9".
pub(crate) fn parse_plain(number: &str) -> Option<f64> {
    let is_plain = number.chars().all(|it| it.is_ascii_digit() || it == '.' || it == '_');
    let number = number.replace('_', "");
    is_plain.then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_rate() {
        let cases = [
            ("1Mpps", Rate::Packets(1e6)),
            ("14.88mpps", Rate::Packets(14.88e6)),
            ("1_000pps", Rate::Packets(1000.0)),
            ("10Gbps", Rate::WireBits(1e10)),
            ("10Gbps-L2", Rate::FrameBits(1e10)),
            ("33%", Rate::Percent(33.0)),
            ("max", Rate::Max),
        ];
        for (text, rate) in cases {
            assert_eq!(Rate::parse(text), Ok(rate));
        }
        for text in ["", "pps", "0pps", "-1pps", "infpps", "1e3pps", "101%", "10", "1Tbps", "NaN%"]
        {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }

    /// Frames of 64 bytes at 10 Gb/s are 14.88 million frames per second.
    #[test]
    fn bits_are_packets_of_their_size() {
        let pps = |rate: Rate, mean, link| rate.packets_per_second(mean, link);
        assert_eq!(pps(Rate::WireBits(1e10), 64.0, None), Ok(Some(1e10 / 672.0)));
        assert_eq!(pps(Rate::FrameBits(1e10), 64.0, None), Ok(Some(1e10 / 512.0)));
        assert_eq!(pps(Rate::Percent(100.0), 64.0, Some(10_000)), Ok(Some(1e10 / 672.0)));
        assert_eq!(pps(Rate::Percent(50.0), 64.0, None), Err(NoLinkSpeed));
        assert_eq!(pps(Rate::Max, 64.0, None), Ok(None));
    }
}
