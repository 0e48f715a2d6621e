// SPDX-License-Identifier: BSD-3-Clause
//! Captures for drivers that read some.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use traffic::PcapWriter;

/// Writes a capture of these frames, of which each comes a second after the one before.
pub(crate) fn write(name: &str, frames: impl Iterator<Item = Vec<u8>>) -> PathBuf {
    let name = format!("{}-{name}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut capture = PcapWriter::new(BufWriter::new(File::create(&path).unwrap())).unwrap();
    for (second, frame) in frames.enumerate() {
        capture.write(second as u64 * 1_000_000_000, &frame).unwrap();
    }
    capture.finish().unwrap();
    path
}
