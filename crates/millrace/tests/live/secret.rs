// SPDX-License-Identifier: BSD-3-Clause
//! Tests that each table has its own secret for the keyed hash. No output shows the secret, so the
//! test reads the memory of a running process.

use crate::bump::Setup;
use testkit::host::skip;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Initial state of SipHash. The state of a keyed hash is this, with the secret combined by
/// exclusive or, twice.
const INITIAL: [u64; 4] = [
    u64::from_be_bytes(*b"somepseu"),
    u64::from_be_bytes(*b"dorandom"),
    u64::from_be_bytes(*b"lygenera"),
    u64::from_be_bytes(*b"tedbytes"),
];

/// Returns the secret of a hash state that begins with these words. A random match has a chance of
/// 2^-128.
fn secret(words: &[u64]) -> Option<[u64; 2]> {
    let [a, b] = [words[0] ^ INITIAL[0], words[1] ^ INITIAL[1]];
    (words[2] ^ INITIAL[2] == a && words[3] ^ INITIAL[3] == b).then_some([a, b])
}

/// Returns all secrets in the writable memory of process `id`.
fn secrets(id: u32) -> io::Result<BTreeSet<[u64; 2]>> {
    let memory = File::open(format!("/proc/{id}/mem"))?;
    let mut found = BTreeSet::new();
    for line in fs::read_to_string(format!("/proc/{id}/maps"))?.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(permissions)) = (words.next(), words.next()) else { continue };
        let (start, end) = range.split_once('-').expect("the kernel writes ranges");
        let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        if permissions.starts_with("rw") {
            found.extend(secrets_between(&memory, start, end));
        }
    }
    Ok(found)
}

fn secrets_between(memory: &File, start: u64, end: u64) -> BTreeSet<[u64; 2]> {
    const CHUNK: usize = 1 << 20;
    let mut found = BTreeSet::new();
    let mut bytes = vec![0; CHUNK];
    // Chunks overlap, so that no state is split.
    for at in (start..end).step_by(CHUNK - 32) {
        let len = CHUNK.min((end - at) as usize);
        // Some mappings, such as those of devices, cannot be read.
        if memory.read_exact_at(&mut bytes[..len], at).is_err() {
            continue;
        }
        let words = bytes[..len].chunks_exact(8);
        let words: Vec<u64> =
            words.map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        found.extend(words.windows(4).filter_map(secret));
    }
    found
}

#[test]
fn every_table_of_every_run_has_a_secret_of_its_own() {
    let mut seen = BTreeSet::new();
    for runs in 1..=2 {
        let bump = Setup::new("secret").pair("net_null0,no-rx=1", "net_null1,no-rx=1").start();
        let secrets = match secrets(bump.id()) {
            Ok(secrets) => secrets,
            Err(error) => return skip(&format!("a child's memory cannot be read: {error}")),
        };
        bump.finish().assert_good();
        // There are two tables. The stack may also hold states that were derived from other
        // secrets.
        assert!(secrets.len() >= 2, "{secrets:x?}");
        let halves: Vec<u64> = secrets.into_iter().flatten().collect();
        let (before, count) = (seen.len(), halves.len());
        seen.extend(halves);
        assert_eq!(seen.len(), before + count, "run {runs}: {seen:x?}");
    }
}
