// SPDX-License-Identifier: BSD-3-Clause
//! Reads the captures that streams send.

use anyhow::{Context, bail};
use capture::Capture;
use report::output::write_line;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use traffic::stream::{Recording, StreamSpec};

/// Reads the captures of all streams, each file once, and moves these streams to the end. Names of
/// files are relative to `folder`.
pub(super) fn read_all(specs: &mut [StreamSpec], folder: &Path) -> anyhow::Result<()> {
    let mut read = HashMap::new();
    let mut bytes = 0;
    for playback in specs.iter_mut().filter_map(|spec| spec.playback.as_mut()) {
        let path = folder.join(&playback.path);
        if !read.contains_key(&path) {
            let recording = self::read(&path)?;
            bytes += recording.bytes();
            read.insert(path.clone(), Arc::new(recording));
        }
        playback.recording = Arc::clone(&read[&path]);
        if bytes > Recording::BYTES_MAX {
            let max = Recording::BYTES_MAX >> 20;
            bail!("the captures of all streams have more than {max} MiB of packets");
        }
    }
    specs.sort_by_key(|spec| spec.playback.is_some());
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut capture = Capture::new(&name, file)?;
    let mut recording = Recording::default();
    let mut cut = 0;
    while let Some(packet) = capture.next()? {
        if !packet.link_type.is_ethernet() {
            let number = recording.len() + 1;
            let link = packet.link_type;
            bail!("{name}: packet {number} has link type {link}; streams send Ethernet frames");
        }
        cut += u64::from(packet.bytes.len() < packet.original_len);
        recording.push(packet.time_ns, packet.bytes).with_context(|| name.clone())?;
    }
    if recording.is_empty() {
        bail!("{name} has no packets");
    }
    if cut > 0 {
        let note =
            format!("{name}: {cut} packets were cut when they were captured, and are sent cut");
        write_line(io::stderr(), format_args!("millrace: {note}"));
    }
    Ok(recording)
}
