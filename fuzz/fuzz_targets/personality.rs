// SPDX-License-Identifier: BSD-3-Clause
//! Any text as a personality: no panic; what is accepted is, written, the same personality, and a
//! NIC that can be treated as any.
//!
//! Input: how many bytes are operations, these, and edits of a personality that comes with the
//! model.
#![no_main]

mod edits;
mod frames;
mod nic;

use edits::edited;
use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use twin::Personality;
use twin::personality::{NAMES, builtin};

fuzz_target!(|data: &[u8]| {
    let [name, count, rest @ ..] = data else { return };
    let (operations, edits) = rest.split_at(usize::from(*count).min(rest.len()));
    let name = NAMES[usize::from(*name) % NAMES.len()];
    let text = builtin(name).expect("it comes with the model").as_bytes().to_vec();
    let text = String::from_utf8_lossy(&edited(text, edits)).into_owned();
    let Ok(personality) = Personality::parse(&text, name) else { return };
    let again = Personality::parse(&personality.to_toml(), name).expect("it was written from one");
    assert_eq!(again, personality);
    // It ends where the input does.
    let _ = nic::treat(personality, &mut Unstructured::new(operations));
});
