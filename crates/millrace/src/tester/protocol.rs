// SPDX-License-Identifier: BSD-3-Clause
//! Defines the lines between the generator's daemon and its clients (docs/generator-daemon.md).
//! Each is a JSON object, whose only member names the request or the kind of answer.
//! [`super::call`] reads and writes the same as JSON-RPC.

use super::load::{ramp_from_json, rate_from_json};
use super::{Load, LoadError, TesterStatistics};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most bytes of a line, with the line feed.
pub(super) const LINE_MAX: usize = 64 << 10;
/// Names of the requests, for messages.
const REQUESTS: &str = "start, update, stop, stats, clear";
/// Most seconds of simulated time in one request.
const ADVANCE_MAX_S: f64 = 3600.0;
/// Allowed multipliers of a profile.
const MULTIPLIERS: [f64; 2] = [1e-6, 1e6];

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Start(Load),
    #[serde(rename = "start")]
    StartProfile(ProfileStart),
    Update(NewRate),
    #[serde(rename = "update")]
    Multiply(NewMultiplier),
    Stop(Nothing),
    Stats(Nothing),
    Clear(Nothing),
    /// Simulated seconds that pass; for simulated devices only.
    Advance(f64),
}

/// A request without fields.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Nothing {}

/// A profile that is to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProfileStart {
    /// Its text in TOML; `None` for that of the daemon's command line.
    pub(super) profile: Option<String>,
    /// Factor of its connections per second.
    pub(super) multiplier: f64,
    /// Seconds in which the rate grows.
    pub(super) ramp_up_s: u32,
}

/// The new factor of the connections per second of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct NewMultiplier {
    pub(super) multiplier: f64,
}

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
    #[serde(skip)]
    pub(super) fault: Fault,
}

/// What is at fault, for the error codes of JSON-RPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    /// The line is no JSON.
    Json,
    /// It is no request.
    Request,
    /// There is no such request.
    Method,
    /// A field of the request is missing, unknown or wrong.
    Field,
    /// The request could not be carried out.
    #[default]
    Execution,
}

impl Refusal {
    pub(super) fn new(field: &str, text: impl Into<String>) -> Self {
        Self { field: field.to_owned(), text: text.into(), fault: Fault::Execution }
    }

    /// Returns it with another fault.
    pub(super) fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
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
    /// Reads the object of a line: its only member is the request.
    pub(super) fn from_member(members: &Map<String, Value>) -> Result<Self, Refusal> {
        let mut members = members.iter();
        let (Some((name, value)), None) = (members.next(), members.next()) else {
            let text = format!("must have one member, one of {REQUESTS}");
            return Err(Refusal::new("", text).with_fault(Fault::Request));
        };
        Self::from_fields(name, value)
    }

    /// Reads a request of this name from its fields.
    pub(super) fn from_fields(name: &str, value: &Value) -> Result<Self, Refusal> {
        let within = |error: LoadError| match error.field.as_str() {
            "" => Refusal::new(name, error.text).with_fault(Fault::Field),
            field => Refusal::new(&format!("{name}.{field}"), error.text).with_fault(Fault::Field),
        };
        let has = |field: &str| value.get(field).is_some();
        match name {
            "start" if has("profile") || has("multiplier") => start_profile(value),
            "start" => Load::from_json(value).map(Self::Start).map_err(within),
            "update" if has("multiplier") => {
                refuse_unknown_fields(name, value, &["multiplier"])?;
                let multiplier = multiplier(name, value)?;
                Ok(Self::Multiply(NewMultiplier { multiplier }))
            }
            "update" => {
                let cps = rate_from_json(value).map_err(within)?;
                Ok(Self::Update(NewRate { cps }))
            }
            "stop" => refuse_unknown_fields(name, value, &[]).map(|()| Self::Stop(Nothing {})),
            "stats" => refuse_unknown_fields(name, value, &[]).map(|()| Self::Stats(Nothing {})),
            "clear" => refuse_unknown_fields(name, value, &[]).map(|()| Self::Clear(Nothing {})),
            "advance" => {
                let seconds = value.as_f64().filter(|it| (0.0..=ADVANCE_MAX_S).contains(it));
                let range = format!("must be a number of seconds up to {ADVANCE_MAX_S}");
                seconds
                    .map(Self::Advance)
                    .ok_or_else(|| Refusal::new(name, range).with_fault(Fault::Field))
            }
            _ => {
                let text = format!("no such request; there are {REQUESTS}");
                Err(Refusal::new(name, text).with_fault(Fault::Method))
            }
        }
    }
}

/// Reads the start of a profile.
fn start_profile(value: &Value) -> Result<Request, Refusal> {
    refuse_unknown_fields("start", value, &["profile", "multiplier", "ramp_up_s"])?;
    let profile = match value.get("profile") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => {
            let text = format!("must be the text of a profile in TOML, or null, not {other}");
            return Err(Refusal::new("start.profile", text).with_fault(Fault::Field));
        }
    };
    let multiplier = multiplier("start", value)?;
    let ramp_up_s = ramp_from_json(value).map_err(|error| {
        Refusal::new(&format!("start.{}", error.field), error.text).with_fault(Fault::Field)
    })?;
    Ok(Request::StartProfile(ProfileStart { profile, multiplier, ramp_up_s }))
}

/// Reads the factor of a profile's rates, 1 if it is absent.
fn multiplier(name: &str, value: &Value) -> Result<f64, Refusal> {
    let Some(given) = value.get("multiplier") else { return Ok(1.0) };
    let [min, max] = MULTIPLIERS;
    given.as_f64().filter(|it| (min..=max).contains(it)).ok_or_else(|| {
        let text = format!("must be a number from {min} to {max}, not {given}");
        Refusal::new(&format!("{name}.multiplier"), text).with_fault(Fault::Field)
    })
}

/// Refuses what is no object, and fields that are not known.
fn refuse_unknown_fields(name: &str, value: &Value, known: &[&str]) -> Result<(), Refusal> {
    let members = value
        .as_object()
        .ok_or_else(|| Refusal::new(name, "must be {}").with_fault(Fault::Field))?;
    let Some(field) = members.keys().find(|field| !known.contains(&field.as_str())) else {
        return Ok(());
    };
    let text = match known {
        [] => "no such field".to_owned(),
        known => format!("no such field; there are {}", known.join(", ")),
    };
    Err(Refusal::new(&format!("{name}.{field}"), text).with_fault(Fault::Field))
}
