// SPDX-License-Identifier: BSD-3-Clause
//! The software NIC under any operations, as any NIC that comes with it.
#![no_main]

mod frames;
mod nic;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use twin::Personality;
use twin::personality::NAMES;

/// Reading them takes longer than what is done with them.
static PERSONALITIES: LazyLock<Vec<Personality>> = LazyLock::new(|| {
    let named = |name| Personality::named(name).expect("it comes with the model");
    NAMES.into_iter().map(named).collect()
});

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let Ok(personality) = input.choose(&PERSONALITIES) else { return };
    // It ends where the input does.
    let _ = nic::treat(personality.clone(), &mut input);
});
