// SPDX-License-Identifier: BSD-3-Clause
//! Reads a line of a client in one of two forms: a JSON object whose only member is the request,
//! or a call of JSON-RPC 2.0, whose method is the request. The answer has the form of the line.

use super::protocol::{Answer, Fault, Refusal, Request, to_line};
use serde_json::{Map, Value, json};

/// A request, and the form of its answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) request: Result<Request, Refusal>,
    pub(super) form: Form,
}

/// How an answer is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// As an object whose only member is the kind of answer.
    Member,
    /// As a response of JSON-RPC with this id.
    Response(Value),
    /// Not at all: the client has sent a notification.
    Nothing,
}

const JSON_RPC: &str = "2.0";
/// Members of a call.
const MEMBERS: [&str; 4] = ["jsonrpc", "method", "params", "id"];

impl Call {
    /// Parses a line.
    pub(super) fn parse(line: &[u8]) -> Self {
        let form = "must be a JSON object in one line, such as {\"start\": {\"cps\": 1000}}";
        // Of what is no call, no id can be read (section 5).
        let refuse = |text: String, fault| Self {
            request: Err(Refusal::new("", text).with_fault(fault)),
            form: Form::Response(Value::Null),
        };
        match serde_json::from_slice(line) {
            Err(error) => refuse(format!("{form}: {error}"), Fault::Json),
            Ok(Value::Object(members)) if members.contains_key("jsonrpc") => {
                Self::of_json_rpc(&members)
            }
            Ok(Value::Object(members)) => {
                Self { request: Request::from_member(&members), form: Form::Member }
            }
            Ok(_) => refuse(form.to_owned(), Fault::Request),
        }
    }

    fn of_json_rpc(members: &Map<String, Value>) -> Self {
        let request = read_call(members);
        let form = match (members.get("id"), &request) {
            (Some(id @ (Value::String(_) | Value::Number(_) | Value::Null)), _) => {
                Form::Response(id.clone())
            }
            (Some(_), _) => Form::Response(Value::Null),
            (None, Err(Refusal { fault: Fault::Request, .. })) => Form::Response(Value::Null),
            (None, _) => Form::Nothing,
        };
        Self { request, form }
    }
}

/// Reads a call of JSON-RPC 2.0 (section 4 of its specification).
fn read_call(members: &Map<String, Value>) -> Result<Request, Refusal> {
    let refuse =
        |field: &str, text: &str| Err(Refusal::new(field, text).with_fault(Fault::Request));
    if members["jsonrpc"] != JSON_RPC {
        return refuse("jsonrpc", "must be \"2.0\"");
    }
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return refuse(name, "no such member; there are jsonrpc, method, params, id");
    }
    if members.get("id").is_some_and(|id| id.is_object() || id.is_array() || id.is_boolean()) {
        return refuse("id", "must be a text, a number or null");
    }
    let Some(Value::String(method)) = members.get("method") else {
        return refuse("method", "must be the name of a request");
    };
    let nothing = json!({});
    Request::from_fields(method, members.get("params").unwrap_or(&nothing))
}

impl Form {
    /// Writes an answer as a line; an empty one if there is none to write.
    pub(super) fn to_line(&self, answer: &Answer) -> Vec<u8> {
        let id = match self {
            Self::Member => return to_line(answer),
            Self::Response(id) => id,
            Self::Nothing => return Vec::new(),
        };
        to_line(&match answer {
            Answer::Ok(done) => json!({"jsonrpc": JSON_RPC, "result": done, "id": id}),
            Answer::Stats(all) => json!({"jsonrpc": JSON_RPC, "result": all, "id": id}),
            Answer::Error(refusal) => json!({
                "jsonrpc": JSON_RPC,
                "error": {
                    "code": code(refusal.fault),
                    "message": refusal.line(),
                    "data": {"field": refusal.field},
                },
                "id": id,
            }),
        })
    }
}

/// Returns the code of an error (section 5.1).
fn code(fault: Fault) -> i32 {
    match fault {
        Fault::Json => -32700,
        Fault::Request => -32600,
        Fault::Method => -32601,
        Fault::Field => -32602,
        Fault::Execution => -32000,
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Done, NewMultiplier, NewRate, Nothing, ProfileStart};
    use super::super::{Load, TesterStatistics};
    use super::*;

    fn requests() -> [Request; 8] {
        let profile = Some("[[template]]".to_owned());
        [
            Request::Start(Load::of_rate(1000.0)),
            Request::StartProfile(ProfileStart { profile, multiplier: 2.5, ramp_up_s: 3 }),
            Request::Update(NewRate { cps: 2000.0 }),
            Request::Multiply(NewMultiplier { multiplier: 0.5 }),
            Request::Stop(Nothing {}),
            Request::Stats(Nothing {}),
            Request::Clear(Nothing {}),
            Request::Advance(30.0),
        ]
    }

    #[test]
    fn requests_are_what_was_written() {
        for request in requests() {
            let call = Call { request: Ok(request.clone()), form: Form::Member };
            assert_eq!(Call::parse(&to_line(&request)), call);
            let value = serde_json::to_value(&request).unwrap();
            let (method, params) = value.as_object().unwrap().iter().next().unwrap();
            for (id, form) in [
                (json!(7), Form::Response(json!(7))),
                (json!("a"), Form::Response(json!("a"))),
                (json!(null), Form::Response(json!(null))),
            ] {
                let line = json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id});
                let call = Call { request: Ok(request.clone()), form };
                assert_eq!(Call::parse(line.to_string().as_bytes()), call);
            }
        }
        assert_eq!(to_line(&Request::Stop(Nothing {})), b"{\"stop\":{}}\n");
        // Params may be left out, and a call without an id has no answer.
        let call = Call::parse(br#"{"jsonrpc": "2.0", "method": "stop"}"#);
        assert_eq!(call, Call { request: Ok(Request::Stop(Nothing {})), form: Form::Nothing });
        let start = Call::parse(br#"{"start": {"multiplier": 3}}"#).request;
        let of_daemon = ProfileStart { profile: None, multiplier: 3.0, ramp_up_s: 3 };
        assert_eq!(start, Ok(Request::StartProfile(of_daemon)));
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            ("{\"start\": {\"cps\": 0}}", "start.cps"),
            ("{\"start\": {}}", "start.cps"),
            ("{\"start\": 7}", "start"),
            ("{\"start\": {\"cps\": 9, \"size\": 1}}", "start.size"),
            ("{\"start\": {\"cps\": 9, \"multiplier\": 1}}", "start.cps"),
            ("{\"start\": {\"profile\": 1}}", "start.profile"),
            ("{\"start\": {\"multiplier\": 0}}", "start.multiplier"),
            ("{\"start\": {\"multiplier\": 1, \"ramp_up_s\": 21}}", "start.ramp_up_s"),
            ("{\"update\": {\"multiplier\": 1e7}}", "update.multiplier"),
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
            assert_eq!(Call::parse(line.as_bytes()).request.unwrap_err().field, field, "{line}");
        }
    }

    /// The codes of the specification, and the id of the call.
    #[test]
    fn errors_of_json_rpc_have_its_codes() {
        let cases = [
            (r#"{"jsonrpc": "1.0", "method": "stop", "id": 1}"#, -32600, json!(1)),
            (r#"{"jsonrpc": "2.0", "method": 7}"#, -32600, json!(null)),
            (r#"{"jsonrpc": "2.0", "method": "stop", "id": [1]}"#, -32600, json!(null)),
            (r#"{"jsonrpc": "2.0", "method": "stop", "id": 1, "x": 2}"#, -32600, json!(1)),
            (r#"{"jsonrpc": "2.0", "method": "shutdown", "id": "x"}"#, -32601, json!("x")),
            (r#"{"jsonrpc": "2.0", "method": "start", "params": [1], "id": 2}"#, -32602, json!(2)),
            (
                r#"{"jsonrpc": "2.0", "method": "stop", "params": {"x": 1}, "id": 2}"#,
                -32602,
                json!(2),
            ),
        ];
        for (line, code, id) in cases {
            let call = Call::parse(line.as_bytes());
            let answer = Answer::Error(call.request.unwrap_err());
            let response: Value = serde_json::from_slice(&call.form.to_line(&answer)).unwrap();
            assert_eq!(
                (&response["error"]["code"], &response["id"]),
                (&json!(code), &id),
                "{line}"
            );
        }
        let idle = Answer::Error(Refusal::new("", "no load runs"));
        let response: Value =
            serde_json::from_slice(&Form::Response(json!(1)).to_line(&idle)).unwrap();
        assert_eq!(
            response,
            json!({"jsonrpc": "2.0", "id": 1, "error":
                   {"code": -32000, "message": "no load runs", "data": {"field": ""}}})
        );
    }

    #[test]
    fn results_have_the_form_of_the_line() {
        let (done, stats) = (Answer::Ok(Done { simulated: false }), TesterStatistics::default());
        let response = Form::Response(json!(1));
        let line = |form: &Form, answer: &Answer| String::from_utf8(form.to_line(answer)).unwrap();
        assert_eq!(line(&Form::Member, &done), "{\"ok\":{\"simulated\":false}}\n");
        assert_eq!(line(&Form::Nothing, &done), "");
        let value: Value = serde_json::from_str(&line(&response, &done)).unwrap();
        assert_eq!(value, json!({"jsonrpc": "2.0", "result": {"simulated": false}, "id": 1}));
        let stats = Answer::Stats(Box::new(stats));
        let value: Value = serde_json::from_str(&line(&response, &stats)).unwrap();
        assert_eq!(value["result"]["client"]["attempted"], 0);
    }
}
