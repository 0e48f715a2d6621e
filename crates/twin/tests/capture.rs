// SPDX-License-Identifier: BSD-3-Clause
//! Tests captures of every kind that can be replayed, and the errors for files that cannot.

use std::path::PathBuf;
use twin::{Capture, CaptureError};

const FRAMES: [&[u8]; 3] = [&[1; 60], &[2; 61], &[3; 1514]];

/// A file that is removed when the test ends.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read(name: &str, contents: &[u8]) -> Result<Vec<Vec<u8>>, CaptureError> {
    let name = format!("capture-{name}-{}", std::process::id());
    let file = Written(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
    std::fs::write(&file.0, contents).expect("a file can be written");
    let capture = Capture::read(&file.0)?;
    Ok((0..capture.len()).map(|place| capture.frame(place).to_vec()).collect())
}

/// Converts a word to the byte order of a file.
type Order = fn(u32) -> [u8; 4];

fn pcap(magic: u32, order: Order, link: u32) -> Vec<u8> {
    let version = if order(1)[0] == 1 { 4 << 16 | 2 } else { 2 << 16 | 4 };
    let mut file: Vec<u8> = [magic, version, 0, 0, 65535, link].map(order).concat();
    for frame in FRAMES {
        let len = frame.len() as u32;
        file.extend([7, 8, len, len].map(order).concat());
        file.extend(frame);
    }
    file
}

fn block(order: Order, kind: u32, contents: &[u8]) -> Vec<u8> {
    let len = contents.len().next_multiple_of(4);
    let total = order(len as u32 + 12);
    let padding = vec![0; len - contents.len()];
    [&order(kind), &total, contents, &padding, &total].concat()
}

/// Returns a section with two interfaces; its packets are of the second one.
fn pcapng(order: Order, link: u16) -> Vec<u8> {
    let half = |value: u16| {
        let word = order(value.into());
        if word[0] == 0 { [word[2], word[3]] } else { [word[0], word[1]] }
    };
    let section = [&order(0x1a2b_3c4d)[..], &half(1), &[0; 2], &[0xff; 8]].concat();
    let interface = |link: u16| [&half(link)[..], &[0; 2], &order(0)].concat();
    let mut file = block(order, 0x0a0d_0d0a, &section);
    file.extend(block(order, 1, &interface(113)));
    file.extend(block(order, 1, &interface(link)));
    for frame in FRAMES {
        let len = frame.len() as u32;
        let head = [1, 0, 0, len, len].map(order).concat();
        file.extend(block(order, 6, &[&head, frame].concat()));
    }
    file
}

#[test]
fn every_format_order_and_resolution_is_read() {
    let orders: [(&str, Order); 2] = [("le", u32::to_le_bytes), ("be", u32::to_be_bytes)];
    for (name, order) in orders {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
            assert_eq!(read(name, &pcap(magic, order, 1)).unwrap(), FRAMES, "{name} {magic:x}");
        }
        assert_eq!(read(name, &pcapng(order, 1)).unwrap(), FRAMES, "{name} pcapng");
    }
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let good = pcap(0xa1b2_c3d4, u32::to_le_bytes, 1);
    let said = |contents: &[u8]| read("bad", contents).unwrap_err().to_string();
    assert!(said(b"").contains("is not a capture"));
    assert!(said(b"#!/bin/sh\n# nothing of a capture in here").contains("is not a capture"));
    assert_eq!(said(&good[..24]), "has no packets");
    assert_eq!(said(&good[..good.len() - 1]), "ends within packet 2");
    assert_eq!(said(&good[..30]), "ends within packet 0");
    for cooked in [pcap(0xa1b2_c3d4, u32::to_le_bytes, 113), pcapng(u32::to_le_bytes, 113)]
        .map(|it| said(&it))
    {
        assert_eq!(cooked, "has packets of link type 113; only Ethernet (1) can be replayed");
    }
    let nowhere = Capture::read(&PathBuf::from("/nowhere/a.pcap")).unwrap_err();
    assert!(nowhere.to_string().contains("cannot be opened"), "{nowhere}");
}
