// SPDX-License-Identifier: BSD-3-Clause
//! Defines a load: connections per second, and what each of them carries.

use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;

/// Connections per second, and what each of them carries: `messages` times, the client sends
/// `message_size` bytes, the server waits `server_wait_ms` and sends as many back. With `hold_ms`,
/// one message each way, that wait, and a message of the server come before. TCP goes to port 8080,
/// UDP to port 5353.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Load {
    /// Connections per second.
    pub(crate) cps: f64,
    /// Share of UDP among them.
    pub(crate) udp_percent: f64,
    /// Messages each way.
    pub(crate) messages: u32,
    /// Bytes of a message.
    pub(crate) message_size: u32,
    /// Time that the server waits before each answer.
    pub(crate) server_wait_ms: u32,
    /// Time that the server waits after its first message, before it sends one unasked. With it,
    /// `messages` more follow.
    pub(crate) hold_ms: u32,
    /// Most connections that are open at a time; no limit if absent.
    pub(crate) max_flows: Option<u32>,
    /// Number of connections in total, after which none is opened; no end if absent. Not together
    /// with `max_flows`.
    pub(crate) total_flows: Option<u32>,
    /// Time in which the rate grows linearly to `cps`; 0 for none.
    pub(crate) ramp_up_s: u32,
}

/// A field of a load that is missing, unknown or wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {text}")]
pub(crate) struct LoadError {
    /// Name of the field.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) text: String,
}

/// Allowed values of a field of a load.
pub(crate) struct Field {
    name: &'static str,
    min: f64,
    max: f64,
    is_whole: bool,
}

/// Rates that a tester accepts. The adaptive window of a search may leave the bounds that its
/// options allow.
const CPS: Field = Field { name: "cps", min: 1.0, max: 100e6, is_whole: false };
const UDP_PERCENT: Field = Field { name: "udp_percent", min: 0.0, max: 100.0, is_whole: false };
const MESSAGES: Field = Field::whole("messages", 1, 10_000);
const MESSAGE_SIZE: Field = Field::whole("message_size", 20, 1456);
const SERVER_WAIT_MS: Field = Field::whole("server_wait_ms", 0, 500);
/// Allowed values of `max_flows`.
pub(crate) const MAX_FLOWS: [u32; 2] = [100, 4_000_000];
/// Most connections that a tester holds at a time: it has room for as many (94 bytes each end).
pub(crate) const HELD_MAX: u32 = 32_000_000;
const FLOWS: Field = Field::whole("max_flows", MAX_FLOWS[0], MAX_FLOWS[1]);
const TOTAL: Field = Field::whole("total_flows", 1, u32::MAX);
/// Longest time that a server waits after its first message.
pub(crate) const HOLD_MAX_MS: u32 = 3_600_000;
const HOLD_MS: Field = Field::whole("hold_ms", 0, HOLD_MAX_MS);
const RAMP_UP_S: Field = Field::whole("ramp_up_s", 0, 20);
const FIELDS: [Field; 9] =
    [CPS, UDP_PERCENT, MESSAGES, MESSAGE_SIZE, SERVER_WAIT_MS, HOLD_MS, FLOWS, TOTAL, RAMP_UP_S];

impl Field {
    const fn whole(name: &'static str, min: u32, max: u32) -> Self {
        Self { name, min: min as f64, max: max as f64, is_whole: true }
    }

    /// Returns the value of this field, or `default` if it is absent.
    fn read(&self, of: &Map<String, Value>, default: f64) -> Result<f64, LoadError> {
        let Some(value) = of.get(self.name) else { return Ok(default) };
        let is_good = |number: &f64| {
            (self.min..=self.max).contains(number) && !(self.is_whole && number.fract() != 0.0)
        };
        value.as_f64().filter(is_good).ok_or_else(|| LoadError {
            field: self.name.to_owned(),
            text: format!("must be {self}, not {value}"),
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_whole { "a whole number" } else { "a number" };
        write!(f, "{kind} from {} to {}", self.min, self.max)
    }
}

impl Load {
    /// Returns a load of this rate, with what connections of cps_ndr.py carry by default.
    pub(crate) const fn of_rate(cps: f64) -> Self {
        Self {
            cps,
            udp_percent: 0.0,
            messages: 1,
            message_size: 20,
            server_wait_ms: 0,
            hold_ms: 0,
            max_flows: None,
            total_flows: None,
            ramp_up_s: 3,
        }
    }

    /// Returns the load that a JSON object describes. Fields but `cps` may be absent.
    pub(crate) fn from_json(value: &Value) -> Result<Self, LoadError> {
        let (of, cps) = read_cps(value, &FIELDS)?;
        let default = Self::of_rate(cps);
        let whole = |field: &Field, default: u32| {
            field.read(of, f64::from(default)).map(|number| number as u32)
        };
        let count = |field: &Field| {
            let is_given = of.get(field.name).is_some_and(|value| !value.is_null());
            is_given.then(|| whole(field, 0)).transpose()
        };
        let (max_flows, total_flows) = (count(&FLOWS)?, count(&TOTAL)?);
        if max_flows.is_some() && total_flows.is_some() {
            let text = "cannot be together with max_flows: leave one of them out".to_owned();
            return Err(LoadError { field: TOTAL.name.to_owned(), text });
        }
        Ok(Self {
            cps,
            udp_percent: UDP_PERCENT.read(of, default.udp_percent)?,
            messages: whole(&MESSAGES, default.messages)?,
            message_size: whole(&MESSAGE_SIZE, default.message_size)?,
            server_wait_ms: whole(&SERVER_WAIT_MS, default.server_wait_ms)?,
            hold_ms: whole(&HOLD_MS, default.hold_ms)?,
            max_flows,
            total_flows,
            ramp_up_s: whole(&RAMP_UP_S, default.ramp_up_s)?,
        })
    }

    /// Returns how long a connection lives at least, in seconds.
    pub(crate) fn connection_seconds(&self) -> f64 {
        let waits = f64::from(self.messages) * f64::from(self.server_wait_ms);
        (waits + f64::from(self.hold_ms)) / 1000.0
    }
}

/// Returns the rate of a JSON object that has no other field.
pub(crate) fn rate_from_json(value: &Value) -> Result<f64, LoadError> {
    read_cps(value, &[CPS]).map(|(_, cps)| cps)
}

/// True if a rate is not above the largest one that a tester accepts.
pub(crate) fn is_allowed(cps: f64) -> bool {
    cps <= CPS.max
}

/// Returns the seconds in which a rate grows, of an object that may have other fields.
pub(crate) fn ramp_from_json(value: &Value) -> Result<u32, LoadError> {
    let default = f64::from(Load::of_rate(1.0).ramp_up_s);
    let ramp = value.as_object().map(|of| RAMP_UP_S.read(of, default));
    Ok(ramp.unwrap_or(Ok(default))? as u32)
}

/// Returns the fields of an object, and its rate. Fails if a field is not in `known`.
fn read_cps<'a>(
    value: &'a Value,
    known: &[Field],
) -> Result<(&'a Map<String, Value>, f64), LoadError> {
    let error = |field: &str, text: String| LoadError { field: field.to_owned(), text };
    let form = || error("", "must be an object, such as {\"cps\": 1000}".to_owned());
    let of = value.as_object().ok_or_else(form)?;
    if let Some(name) = of.keys().find(|name| known.iter().all(|field| field.name != **name)) {
        let names: Vec<&str> = known.iter().map(|field| field.name).collect();
        return Err(error(name, format!("no such field; there are {}", names.join(", "))));
    }
    if !of.contains_key(CPS.name) {
        return Err(error(CPS.name, format!("is missing; it must be {CPS}")));
    }
    Ok((of, CPS.read(of, 0.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_load_is_what_was_written() {
        let load = Load {
            cps: 41_218.75,
            udp_percent: 1.5,
            messages: 500,
            message_size: 1456,
            server_wait_ms: 50,
            hold_ms: 5000,
            max_flows: Some(100),
            total_flows: None,
            ramp_up_s: 20,
        };
        assert_eq!(Load::from_json(&serde_json::to_value(load).unwrap()), Ok(load));
        let total = Load { max_flows: None, total_flows: Some(7), ramp_up_s: 0, ..load };
        assert_eq!(Load::from_json(&serde_json::to_value(total).unwrap()), Ok(total));
        let usual = Load::of_rate(1000.0);
        assert_eq!(Load::from_json(&serde_json::to_value(usual).unwrap()), Ok(usual));
        assert_eq!(Load::from_json(&json!({"cps": 1000})), Ok(usual));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let cases = [
            (json!({}), "cps: is missing; it must be a number from 1 to 100000000"),
            (json!({"cps": "1k"}), "cps: must be a number from 1 to 100000000, not \"1k\""),
            (json!({"cps": 0.5}), "cps: must be a number from 1 to 100000000, not 0.5"),
            (
                json!({"cps": 9, "udp_percent": 101}),
                "udp_percent: must be a number from 0 to 100, not 101",
            ),
            (
                json!({"cps": 9, "messages": 1.5}),
                "messages: must be a whole number from 1 to 10000, not 1.5",
            ),
            (
                json!({"cps": 9, "message_size": 19}),
                "message_size: must be a whole number from 20 to 1456, not 19",
            ),
            (
                json!({"cps": 9, "server_wait_ms": null}),
                "server_wait_ms: must be a whole number from 0 to 500, not null",
            ),
            (
                json!({"cps": 9, "max_flows": 5e6}),
                "max_flows: must be a whole number from 100 to 4000000, not 5000000.0",
            ),
            (
                json!({"cps": 9, "ramp_up_s": [3]}),
                "ramp_up_s: must be a whole number from 0 to 20, not [3]",
            ),
            (
                json!({"cps": 9, "max_flows": 100, "total_flows": 100}),
                "total_flows: cannot be together with max_flows: leave one of them out",
            ),
        ];
        for (value, text) in cases {
            assert_eq!(Load::from_json(&value).unwrap_err().to_string(), text);
        }
        let unknown = Load::from_json(&json!({"cps": 9, "rate": 1})).unwrap_err();
        assert_eq!(unknown.field, "rate");
        let too_much = rate_from_json(&json!({"cps": 9, "messages": 1})).unwrap_err();
        assert_eq!(too_much.to_string(), "messages: no such field; there are cps");
    }
}
