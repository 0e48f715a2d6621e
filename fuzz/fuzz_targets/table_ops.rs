// SPDX-License-Identifier: BSD-3-Clause
//! Sequences of operations on a small engine and on the reference of its tests: packets of few
//! flows, steps of time, expiry, flush. The input is a list of 64-bit numbers, the same that the
//! property tests draw.
#![no_main]
#![expect(dead_code, unused_imports, reason = "other tests use the rest of the reference")]

#[path = "../../crates/engine/tests/suite/model/association.rs"]
mod association;
#[path = "../../crates/engine/tests/suite/model/drift.rs"]
mod drift;
#[path = "../../crates/engine/tests/suite/model/drive.rs"]
mod drive;
#[path = "../../crates/engine/tests/suite/model/icmp.rs"]
mod icmp;
#[path = "../../crates/engine/tests/suite/model/life.rs"]
mod life;
#[path = "../../crates/engine/tests/suite/model/reference.rs"]
mod reference;
#[path = "../../crates/engine/tests/suite/model/resumed.rs"]
mod resumed;
#[path = "../../crates/engine/tests/suite/model/room.rs"]
mod room;
#[path = "../../crates/engine/tests/suite/model/sequence.rs"]
mod sequence;
#[path = "../../crates/engine/tests/suite/model/traffic.rs"]
mod traffic;

use drive::{Case, agree};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut numbers = data.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    });
    let mut next = || numbers.next().unwrap_or(0);
    let (is_exact, bits) = (next() % 2 == 0, [next(), next(), next()]);
    let case = if is_exact { Case::on_ticks(bits) } else { Case::off_ticks(bits) };
    agree(case, &numbers.collect::<Vec<_>>());
});
