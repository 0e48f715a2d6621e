// SPDX-License-Identifier: BSD-3-Clause
//! Real captures, where the machine has a folder of them.

use std::path::{Path, PathBuf};

/// All captures below `MILLRACE_CAPTURES`, or below a folder beside the checkout, in order. `None`,
/// with the reason told, where there is no such folder.
pub(crate) fn real_captures() -> Option<Vec<PathBuf>> {
    let folder = testkit::capture::real_captures("")?;
    let mut captures = Vec::new();
    collect(&folder, &mut captures);
    captures.sort();
    Some(captures)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            collect(&path, found);
        } else if matches!(extension, Some("pcap" | "pcapng" | "cap" | "gz")) {
            found.push(path);
        }
    }
}
