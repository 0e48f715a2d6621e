// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a file of connections: no panic. Of a good file with edits, only connections are
//! read that were written, in this order; and whatever a file says that is good by its checksums,
//! the engine that takes it keeps its invariants.
//!
//! Input: a byte that chooses how many connections there are, and whether checksums are put right
//! after the edits; edits of the file.
#![no_main]

mod edits;

use checkpoint::{Reader, Truncation, repair, sample};
use edits::edited;
use engine::ConnSnapshot;
use libfuzzer_sys::fuzz_target;

/// What was read of a file of connections.
#[derive(Debug)]
struct Restoring {
    /// Every connection of the pages that are good.
    flows: Vec<ConnSnapshot>,
    /// It was read to its end.
    is_whole: bool,
}

/// Reads a file of connections as the next run does; `None` where nothing is read. The engine that
/// takes them knows each as it was, or not at all, and ends all of them.
fn restore_snapshot(file: &[u8]) -> Option<Restoring> {
    const NOW: engine::Nanos = 1_700_000_000_000_000_000;
    let mut reader = Reader::open(file).ok()?;
    let mut restoring = Restoring { flows: Vec::new(), is_whole: false };
    let config = engine::Config { capacity_ipv4: 64, capacity_ipv6: 64, ..Default::default() };
    let mut engine = engine::Engine::new(&config);
    let mut flows = Vec::new();
    loop {
        match reader.next(&mut flows) {
            Ok(true) | Err(Truncation::Page) => {}
            end => {
                restoring.is_whole = end.is_ok() && reader.damaged == 0;
                break;
            }
        }
        flows.iter().for_each(|flow| {
            engine.restore(flow, NOW);
        });
        restoring.flows.append(&mut flows);
    }
    let (mut cursor, mut saved) = (engine::Cursor::default(), 0);
    while engine.save(&mut cursor, 16, &mut |flow| {
        assert!(flow.start <= flow.last_seen && flow.last_seen <= NOW, "{flow:?}");
        saved += 1;
    }) {}
    assert_eq!(saved, engine.stats().active());
    engine.expire(NOW + 1, 1000);
    while engine.flush(1000) {
        while engine.next_record().is_some() {}
    }
    assert_eq!(engine.stats().active(), 0);
    Some(restoring)
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, edits)) = input.split_first() else { return };
    let count = usize::from(choice >> 1) * 9;
    let original = sample(count);
    let mut file = edited(original.clone(), edits);
    let is_repaired = choice & 1 == 1;
    if is_repaired {
        repair(&mut file);
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
