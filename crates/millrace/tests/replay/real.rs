// SPDX-License-Identifier: BSD-3-Clause
//! Real captures, where the machine has a folder of them: none crashes, every ledger balances.

use crate::{Run, replay};
use std::path::{Path, PathBuf};

/// `MILLRACE_CAPTURES`, or a folder beside the checkout.
fn folder() -> PathBuf {
    match std::env::var_os("MILLRACE_CAPTURES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures"),
    }
}

fn captures_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            captures_in(&path, found);
        } else if matches!(extension, Some("pcap" | "pcapng" | "cap" | "gz")) {
            found.push(path);
        }
    }
}

#[test]
fn every_real_capture_is_replayed_with_a_balanced_ledger() {
    let folder = folder();
    if !folder.is_dir() {
        eprintln!("skipped: no captures in {} (set MILLRACE_CAPTURES)", folder.display());
        return;
    }
    let mut captures = Vec::new();
    captures_in(&folder, &mut captures);
    let mut packets = 0;
    for capture in &captures {
        let output = replay(&["--json", "-"]).arg(capture).output().unwrap();
        let run = Run::from(output);
        assert!(matches!(run.status, Some(0 | 1)), "{}: {}", capture.display(), run.stderr);
        let summary = run.summary();
        let (ledger, flows) = (&summary["ledger"], &summary["flows"]);
        assert_eq!(ledger["balanced"], true, "{}", capture.display());
        assert_eq!(flows["active"], 0, "{}", capture.display());
        let ended = flows["ended"].as_object().unwrap().values();
        let ended: u64 = ended.map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(flows["created"], ended, "{}", capture.display());
        packets += ledger["rx"].as_u64().unwrap();
    }
    eprintln!("{} captures, {packets} packets", captures.len());
}
