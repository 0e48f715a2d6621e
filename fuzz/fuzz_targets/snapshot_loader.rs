// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a file of connections: no panic. Of a good file with edits, only connections are
//! read that were written, in this order; and whatever a file says that is good by its checksums,
//! the engine that takes it keeps its invariants.
//!
//! Input: a byte that chooses how many connections there are, and whether checksums are put right
//! after the edits; edits of the file.
#![no_main]

mod edits;

use edits::edited;
use libfuzzer_sys::fuzz_target;
use millrace::fuzzing::{restore_snapshot, snapshot_of, snapshot_repaired};

fuzz_target!(|input: &[u8]| {
    let Some((choice, edits)) = input.split_first() else { return };
    let count = usize::from(choice >> 1) * 9;
    let original = snapshot_of(count);
    let mut file = edited(original.clone(), edits);
    let is_repaired = choice & 1 == 1;
    if is_repaired {
        snapshot_repaired(&mut file);
    }
    let read = restore_snapshot(&file);
    if let Some(read) = read.filter(|_| !is_repaired) {
        let whole = restore_snapshot(&original).expect("it is good");
        let mut written = whole.flows.iter();
        let are_written = read.flows.iter().all(|flow| written.any(|other| other == flow));
        assert!(are_written, "what nobody wrote");
        assert!(file == original || !read.is_whole || file.starts_with(&original));
    }
});
