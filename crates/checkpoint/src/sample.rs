// SPDX-License-Identifier: BSD-3-Clause
//! Makes files for the fuzzer, which cannot guess a checksum: a valid one, and corrected checksums.

use super::{Header, PAGE, Place, RSS_SECRET_LEN, Writer, checksum};
use engine::{ConnSnapshot, CtMark, DirectionCounters, SnapshotState, VlanTags, ZoneSource};
use flate2::Crc;
use std::net::IpAddr;

/// Returns a file with connections of both IP versions and every state.
pub fn sample(count: usize) -> Vec<u8> {
    const WRITTEN: &str = "what is written to memory is written";
    let header = Header {
        program: "0".to_owned(),
        created: 1,
        zone: ZoneSource::OuterVlan,
        place: Place { pair: 0, worker: 0 },
        workers: 1,
        rss: [7; RSS_SECRET_LEN],
    };
    let mut writer = Writer::new(Vec::new(), &header).expect(WRITTEN);
    for i in 0..count {
        let [low, high, ..] = i.to_le_bytes();
        let state = SnapshotState::ALL[i % SnapshotState::ALL.len()];
        let address = |end: u8| match i % 4 {
            0 => IpAddr::from([end; 16]),
            _ => IpAddr::from([10, end, high, low]),
        };
        let tally = DirectionCounters { packets: 2, bytes: 200, ip_bytes: 150, tcp_flags: 16 };
        let flow = ConnSnapshot {
            src: address(1),
            dst: address(2),
            proto: match state {
                SnapshotState::Udp => 17,
                SnapshotState::Icmp => 1,
                SnapshotState::Other => 47,
                SnapshotState::SctpEstablished
                | SnapshotState::SctpShutdown
                | SnapshotState::SctpClosed
                | SnapshotState::SctpAborted => 132,
                _ => 6,
            },
            sport: i as u16,
            dport: 443,
            icmp: 0,
            zone: 0,
            vlan: VlanTags::NONE,
            start: 1_699_999_990_000_000_000,
            last_seen: 1_699_999_995_000_000_000,
            orig: tally,
            reply: tally,
            state,
            scales: Some([7, 7]),
            tags: [i as u32 % 2, i as u32 % 5],
            ct_mark: CtMark { mark: (i % 3) as u32, label: (i as u128 % 2) << 100 },
        };
        writer.flow(&flow).expect(WRITTEN);
    }
    writer.finish().expect(WRITTEN).0
}

/// Corrects the checksums of the header and of all pages, or of the blocks in format 1.
pub fn repair(file: &mut [u8]) {
    let Some([format, _, low, high]) = file.get(8..12).and_then(|it| <[u8; 4]>::try_from(it).ok())
    else {
        return;
    };
    let end = 12 + usize::from(u16::from_le_bytes([low, high]));
    let Some((head, rest)) = file.split_at_mut_checked(end) else { return };
    let mut crc = Crc::new();
    crc.update(head);
    let header = crc.sum();
    let Some((place, blocks)) = rest.split_at_mut_checked(4) else { return };
    put(place, header);
    match format {
        1 => repair_blocks(header, blocks),
        _ => repair_pages(header, file.get_mut(PAGE..).unwrap_or_default()),
    }
}

fn put(place: &mut [u8], crc: u32) {
    place.copy_from_slice(&crc.to_le_bytes());
}

fn repair_pages(header: u32, pages: &mut [u8]) {
    for (number, page) in pages.chunks_exact_mut(PAGE).enumerate() {
        let (place, covered) = page.split_at_mut(4);
        put(place, checksum(header, number as u32, covered));
    }
}

fn repair_blocks(header: u32, blocks: &mut [u8]) {
    let (mut number, mut rest) = (0, blocks);
    while let Some((head, behind)) = rest.split_at_mut_checked(8) {
        let len = head.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
        let Some((payload, behind)) = behind.split_at_mut_checked(len) else { return };
        put(&mut head[4..], checksum(header, number, payload));
        (number, rest) = (number + 1, behind);
    }
}
