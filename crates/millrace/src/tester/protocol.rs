// SPDX-License-Identifier: BSD-3-Clause
//! Defines the lines between the daemon of `gen --serve` and its clients (docs/bench-cps.md). Each
//! is a JSON object, whose only member names the request or the kind of answer.

use super::load::rate_from_json;
use super::{Load, LoadError, TesterStatistics};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of a line, with the line feed.
pub(super) const LINE_MAX: usize = 64 << 10;
/// Names of the requests, for messages.
const REQUESTS: &str = "start, update, stop, stats, clear";
/// Most seconds of simulated time in one request.
const ADVANCE_MAX_S: f64 = 3600.0;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Start(Load),
    Update(NewRate),
    Stop(Nothing),
    Stats(Nothing),
    Clear(Nothing),
    /// Simulated seconds that pass; for simulated devices only.
    Advance(f64),
}

/// A request without fields.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Nothing {}

/// The new rate of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct NewRate {
    pub(super) cps: f64,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Ok(Done),
    Stats(Box<TesterStatistics>),
    Error(Refusal),
}

/// The request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// True if no packet is sent, and time passes by [`Request::Advance`] only.
    pub(super) simulated: bool,
}

/// Why the request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The member that is missing, unknown or wrong, such as `start.cps`; empty if it is none.
    pub(super) field: String,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(field: &str, text: impl Into<String>) -> Self {
        Self { field: field.to_owned(), text: text.into() }
    }

    /// Returns the error in one line.
    pub(super) fn line(&self) -> String {
        match self.field.as_str() {
            "" => self.text.clone(),
            field => format!("{field}: {}", self.text),
        }
    }
}

/// Returns a value as a line.
pub(super) fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("it has no maps with other keys than texts");
    line.push(b'\n');
    line
}

impl Request {
    /// Parses the line of a request.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let form = "must be a JSON object in one line, such as {\"start\": {\"cps\": 1000}}";
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| Refusal::new("", format!("{form}: {error}")))?;
        let members = value.as_object().ok_or_else(|| Refusal::new("", form))?;
        let mut members = members.iter();
        let (Some((name, value)), None) = (members.next(), members.next()) else {
            return Err(Refusal::new("", format!("must have one member, one of {REQUESTS}")));
        };
        let within = |error: LoadError| match error.field.as_str() {
            "" => Refusal::new(name, error.text),
            field => Refusal::new(&format!("{name}.{field}"), error.text),
        };
        match name.as_str() {
            "start" => Load::from_json(value).map(Self::Start).map_err(within),
            "update" => {
                let cps = rate_from_json(value).map_err(within)?;
                Ok(Self::Update(NewRate { cps }))
            }
            "stop" => nothing(name, value).map(Self::Stop),
            "stats" => nothing(name, value).map(Self::Stats),
            "clear" => nothing(name, value).map(Self::Clear),
            "advance" => {
                let seconds = value.as_f64().filter(|it| (0.0..=ADVANCE_MAX_S).contains(it));
                let range = format!("must be a number of seconds up to {ADVANCE_MAX_S}");
                seconds.map(Self::Advance).ok_or_else(|| Refusal::new(name, range))
            }
            _ => Err(Refusal::new(name, format!("no such request; there are {REQUESTS}"))),
        }
    }
}

fn nothing(name: &str, value: &Value) -> Result<Nothing, Refusal> {
    let members = value.as_object().ok_or_else(|| Refusal::new(name, "must be {}"))?;
    match members.keys().next() {
        None => Ok(Nothing {}),
        Some(field) => Err(Refusal::new(&format!("{name}.{field}"), "no such field")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_was_written() {
        let requests = [
            Request::Start(Load::of_rate(1000.0)),
            Request::Update(NewRate { cps: 2000.0 }),
            Request::Stop(Nothing {}),
            Request::Stats(Nothing {}),
            Request::Clear(Nothing {}),
            Request::Advance(30.0),
        ];
        for request in requests {
            assert_eq!(Request::parse(&to_line(&request)), Ok(request));
        }
        assert_eq!(to_line(&requests[2]), b"{\"stop\":{}}\n");
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            ("{\"start\": {\"cps\": 0}}", "start.cps"),
            ("{\"start\": {}}", "start.cps"),
            ("{\"start\": 7}", "start"),
            ("{\"start\": {\"cps\": 9, \"size\": 1}}", "start.size"),
            ("{\"update\": {\"cps\": null}}", "update.cps"),
            ("{\"stop\": {\"now\": true}}", "stop.now"),
            ("{\"stop\": null}", "stop"),
            ("{\"get_version\": {}}", "get_version"),
            ("{\"advance\": -1}", "advance"),
            ("{}", ""),
            ("{\"stop\": {}, \"stats\": {}}", ""),
            ("[\"stop\"]", ""),
            ("", ""),
            ("{\"stop\": {}} {}", ""),
        ];
        for (line, field) in cases {
            assert_eq!(Request::parse(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
