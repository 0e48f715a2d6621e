// SPDX-License-Identifier: BSD-3-Clause
//! Real captures, where the machine has a folder of them: none crashes, every ledger balances.

use crate::folder::real_captures;
use crate::{Run, replay};

#[test]
fn every_real_capture_is_replayed_with_a_balanced_ledger() {
    let Some(captures) = real_captures() else { return };
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
