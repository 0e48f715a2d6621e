// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a request at the control socket: no panic; what is accepted is, written again, the
//! same request, and nothing behind its line matters; what is refused is refused in one line.
//!
//! Input: edits of a request with every member.
#![no_main]

mod edits;

use control::{LIMIT_MAX, RequestKind, receive};
use edits::edited;
use libfuzzer_sys::fuzz_target;

const EVERY_MEMBER: &str = "\
{\"millrace\":1,\"ask\":\"flows\",\"limit\":100,\"address\":\"2001:db8::1\",\"port\":53}
{\"millrace\":1,\"ask\":\"list\",\"zone\":7,\"proto\":6,\
\"state\":\"SYN_SENT\",\"src\":\"10.0.0.0/8\",\
\"dst\":\"::/0\",\"sport\":1,\"dport\":2}
{\"millrace\":1,\"ask\":\"flush\",\"all\":true}
{\"millrace\":1,\"ask\":\"reload\",\"path\":\"/bump.toml\"}
{\"millrace\":1,\"ask\":\"offload\"}
";

/// Failures that depend on the request alone.
const CODES: [&str; 3] = ["syntax", "too_long", "version"];

/// Reads what a client of the control socket sends; returns what it asks as it would be written, or
/// the line of the answer that says what is wrong.
fn control_request(sent: &[u8]) -> Result<String, String> {
    const JSON: &str = "it is JSON";
    match receive(sent) {
        Ok(request) => {
            let is_kept = matches!(request.ask, RequestKind::Flows | RequestKind::Offload);
            assert!(!is_kept || request.limit() <= LIMIT_MAX as usize, "{request:?}");
            Ok(serde_json::to_string(&request).expect(JSON))
        }
        Err(failure) => Err(serde_json::to_string(&failure.line()).expect(JSON)),
    }
}

fuzz_target!(|data: &[u8]| {
    let sent = edited(EVERY_MEMBER.as_bytes().to_vec(), data);
    let line = sent.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match control_request(&sent) {
        Ok(request) => {
            assert_eq!(control_request(line), Ok(request.clone()));
            assert_eq!(control_request(request.as_bytes()), Ok(request));
        }
        Err(refusal) => {
            let begins =
                |code: &&str| refusal.starts_with(&format!(r#"{{"error":{{"code":"{code}""#));
            assert!(CODES.iter().any(begins), "{refusal}");
            assert!(refusal.bytes().all(|byte| byte >= b' '), "{refusal:?}");
        }
    }
});
