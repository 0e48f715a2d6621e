// SPDX-License-Identifier: BSD-3-Clause
//! Tests captures of every kind that can be replayed, and the errors for files that cannot.

use std::path::PathBuf;
use testkit::capture::{ETHERNET, Order, Packet, Pcap, Pcapng};
use testkit::scratch::ScratchFile;
use twin::{Capture, CaptureError};

const FRAMES: [&[u8]; 3] = [&[1; 60], &[2; 61], &[3; 1514]];

fn read(name: &str, contents: &[u8]) -> Result<Vec<Vec<u8>>, CaptureError> {
    let file = ScratchFile::new(env!("CARGO_TARGET_TMPDIR"), name, contents);
    let capture = Capture::read(file.path().as_ref())?;
    Ok((0..capture.len()).map(|place| capture.frame(place).to_vec()).collect())
}

fn packets() -> [Packet; 3] {
    FRAMES.map(|frame| Packet::new(7_000_008_000, frame.to_vec()))
}

fn pcap(order: Order, nanoseconds: bool, link: u16) -> Vec<u8> {
    Pcap { order, nanoseconds, network: link.into() }.file(&packets())
}

/// Returns a section with two interfaces; its packets are of the second one.
fn pcapng(order: Order, link: u16) -> Vec<u8> {
    let file = Pcapng::new(order).interface(113, 0, &[]).interface(link, 0, &[]);
    packets().iter().fold(file, |file, packet| file.enhanced_with(1, 0, packet, &[])).bytes
}

#[test]
fn every_format_order_and_resolution_is_read() {
    for order in [Order::Little, Order::Big] {
        for nanoseconds in [false, true] {
            let file = pcap(order, nanoseconds, ETHERNET);
            assert_eq!(read("pcap", &file).unwrap(), FRAMES, "{order:?} {nanoseconds}");
        }
        assert_eq!(read("pcapng", &pcapng(order, ETHERNET)).unwrap(), FRAMES, "{order:?}");
    }
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let good = pcap(Order::Little, false, ETHERNET);
    let said = |contents: &[u8]| read("bad", contents).unwrap_err().to_string();
    assert!(said(b"").contains("is not a capture"));
    assert!(said(b"#!/bin/sh\n# nothing of a capture in here").contains("is not a capture"));
    assert_eq!(said(&good[..24]), "has no packets");
    assert_eq!(said(&good[..good.len() - 1]), "ends within packet 2");
    assert_eq!(said(&good[..30]), "ends within packet 0");
    let cooked = [pcap(Order::Little, false, 113), pcapng(Order::Little, 113)];
    for cooked in cooked.map(|it| said(&it)) {
        assert_eq!(cooked, "has packets of link type 113; only Ethernet (1) can be replayed");
    }
    let nowhere = Capture::read(&PathBuf::from("/nowhere/a.pcap")).unwrap_err();
    assert!(nowhere.to_string().contains("cannot be opened"), "{nowhere}");
}
