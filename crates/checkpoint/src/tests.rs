// SPDX-License-Identifier: BSD-3-Clause
//! Tests files of connections: what is written is read back; of a damaged file, the good pages are
//! read.

use super::store::TempFile;
use super::*;
use engine::{ConnSnapshot, CtMark, DirectionCounters, SnapshotState, VlanTags};
use proptest::prelude::*;
use std::net::IpAddr;

fn header() -> Header {
    Header {
        program: "0.1.0".to_owned(),
        created: 1_700_000_000_000_000_000,
        zone: ZoneSource::OuterVlan,
        place: Place { pair: 1, worker: 2 },
        workers: 3,
        rss: std::array::from_fn(|i| i as u8),
    }
}

fn flow(i: u16) -> ConnSnapshot {
    let address = |end: u8| match i % 2 {
        0 => IpAddr::from([10, end, i.to_le_bytes()[0], i.to_le_bytes()[1]]),
        _ => IpAddr::from([end; 16]),
    };
    let number = u64::from(i);
    let tally = |more| DirectionCounters {
        packets: number + more,
        bytes: 100 * number,
        ip_bytes: 90 * number,
        tcp_flags: i as u8 | 16,
    };
    ConnSnapshot {
        src: address(1),
        dst: address(2),
        proto: 6,
        sport: i,
        dport: 443,
        icmp: 2,
        zone: i ^ 0x1234,
        vlan: VlanTags::new(&[7, 8][..usize::from(i % 3)]),
        start: number << 32,
        last_seen: number << 33,
        orig: tally(1),
        reply: tally(2),
        state: SnapshotState::ALL[usize::from(i) % SnapshotState::ALL.len()],
        scales: (i % 5 != 0).then_some([7, 14]),
        tags: [[0, 0], [0, u32::from(i)], [u32::MAX, 7]][usize::from(i) % 3],
        ct_mark: CtMark { mark: u32::from(i % 7) << 29, label: u128::from(i % 4) << 126 },
    }
}

fn written(flows: &[ConnSnapshot]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    flows.iter().for_each(|flow| writer.flow(flow).unwrap());
    let (bytes, len) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, len);
    bytes
}

/// The result of reading a file.
#[derive(Debug)]
struct Read {
    flows: Vec<ConnSnapshot>,
    damaged: u32,
    lost: u64,
    end: Result<(), Truncation>,
}

fn read(bytes: &[u8]) -> Result<Read, Refusal> {
    let mut reader = Reader::open(bytes)?;
    assert_eq!(reader.header, header());
    let (mut all, mut flows) = (vec![], vec![]);
    loop {
        let more = reader.next(&mut flows);
        assert!(more.is_ok() || flows.is_empty());
        all.append(&mut flows);
        let end = match more {
            Ok(true) | Err(Truncation::Page) => continue,
            Ok(false) => Ok(()),
            Err(damage) => Err(damage),
        };
        let Reader { damaged, lost, .. } = reader;
        return Ok(Read { flows: all, damaged, lost, end });
    }
}

/// Reads a file, which must be whole; returns its connections.
fn read_whole(bytes: &[u8]) -> Vec<ConnSnapshot> {
    let read = read(bytes).unwrap();
    assert!(read.end.is_ok() && (read.damaged, read.lost) == (0, 0), "{:?}", read.end);
    read.flows
}

fn flows(count: u16) -> Vec<ConnSnapshot> {
    (0..count).map(flow).collect()
}

#[test]
fn a_header_says_where_zones_come_from() {
    let fixed = [7, u16::MAX].map(ZoneSource::Fixed);
    let others = [ZoneSource::None, ZoneSource::OuterVlan, ZoneSource::InnerVlan];
    for zone in others.into_iter().chain(fixed) {
        let header = Header { zone, ..header() };
        let (bytes, _) = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
        assert_eq!(Reader::open(&bytes[..]).unwrap().header, header);
    }
}

#[test]
fn what_is_written_is_read() {
    for count in [0, 1, 2, 600, 3000] {
        let bytes = written(&flows(count));
        assert_eq!(bytes.len() % PAGE, 0);
        assert_eq!(read_whole(&bytes), flows(count));
    }
}

/// Damage to a page loses the connections of this page and no others.
#[test]
fn a_damaged_page_costs_its_connections_and_no_others() {
    let plain = |i: u16| ConnSnapshot { tags: [0; 2], ct_mark: CtMark::default(), ..flow(2 * i) };
    let all: Vec<_> = (0..1000).map(plain).collect();
    let bytes = written(&all);
    let flows_of = |page: usize| 44 * page..44 * (page + 1);
    for (page, at) in [(0, 0), (0, 4), (3, 5), (3, 2000), (7, PAGE - 1)] {
        let mut damaged = bytes.clone();
        damaged[PAGE * (1 + page) + at] ^= 0x10;
        let read = read(&damaged).unwrap();
        assert!(read.end.is_ok() && (read.damaged, read.lost) == (1, 44), "{read:?}");
        let mut others = all.clone();
        others.drain(flows_of(page));
        assert_eq!(read.flows, others);
    }
    // Damage to the last page, and zeros without an end.
    let mut damaged = bytes.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(matches!(read(&damaged).unwrap().end, Err(Truncation::Cut)));
    let endless = std::io::Read::chain(&bytes[..PAGE], std::io::repeat(0));
    let mut reader = Reader::open(endless).unwrap();
    let mut pages = 0;
    while matches!(reader.next(&mut vec![]), Err(Truncation::Page)) {
        pages += 1;
    }
    assert_eq!(pages, 1023);
}

#[test]
fn a_connection_is_never_longer_than_there_is_room_for() {
    let length = |i, ct_mark, tags| {
        let mut bytes = vec![];
        super::flow::write(&ConnSnapshot { ct_mark, tags, ..flow(i) }, &mut bytes);
        bytes.len()
    };
    let marked = CtMark { mark: 1, label: 0 };
    assert_eq!(length(1, marked, [1, 0]), super::flow::FLOW_MAX);
    assert_eq!(length(0, marked, [0, 1]), super::flow::FLOW_MAX - 24);
    assert_eq!(length(1, CtMark::default(), [1, 1]), super::flow::FLOW_MAX - 20);
    assert_eq!(length(1, CtMark::default(), [0, 0]), super::flow::FLOW_MAX - 28);
}

/// A cut file gives the connections of its whole pages, and an error.
#[test]
fn a_file_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
    let all = flows(1400);
    let bytes = written(&all);
    let mut lengths = std::collections::BTreeSet::new();
    for len in (0..bytes.len()).filter(|len| len % 97 == 0 || *len < 600 || len + 600 > bytes.len())
    {
        match read(&bytes[..len]) {
            Ok(Read { flows, damaged: 0, end: Err(Truncation::Cut), .. }) => {
                assert_eq!(flows, all[..flows.len()]);
                lengths.insert(flows.len());
            }
            Err(Refusal::NotOne | Refusal::Header) => assert!(len < PAGE),
            other => panic!("{len}: {other:?}"),
        }
    }
    assert!(lengths.len() > 2 && lengths.contains(&0) && lengths.contains(&1400), "{lengths:?}");
}

#[test]
fn pages_of_another_file_or_place_are_none_of_it() {
    let all = flows(1400);
    let bytes = written(&all);
    let mut other = Writer::new(Vec::new(), &Header { created: 1, ..header() }).unwrap();
    all.iter().for_each(|flow| other.flow(flow).unwrap());
    let (other, _) = other.finish().unwrap();
    // The head of one file and the rest of another.
    let mixed = [&bytes[..PAGE], &other[PAGE..]].concat();
    let mixed = read(&mixed).unwrap();
    assert!(mixed.flows.is_empty() && matches!(mixed.end, Err(Truncation::Cut)), "{mixed:?}");
    // The second page replaces the first.
    let swapped = [&bytes[..PAGE], &bytes[2 * PAGE..3 * PAGE], &bytes[2 * PAGE..]].concat();
    let swapped = read(&swapped).unwrap();
    assert!(swapped.end.is_ok() && swapped.damaged == 1, "{:?}", swapped.end);
    assert!(all.ends_with(&swapped.flows) && swapped.flows.len() as u64 + swapped.lost == 1400);
    // One page is missing, so all later ones have moved.
    let short = [&bytes[..2 * PAGE], &bytes[3 * PAGE..]].concat();
    let short = read(&short).unwrap();
    assert!(matches!(short.end, Err(Truncation::Cut)) && all.starts_with(&short.flows));
}

#[test]
fn what_is_of_later_is_refused_by_name() {
    let mut bytes = written(&flows(3));
    bytes[8] = 9;
    assert!(matches!(read(&bytes), Err(Refusal::Header)), "a bit may have flipped");
    let payload_end = 12 + usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
    let mut crc = Crc::new();
    crc.update(&bytes[..payload_end]);
    bytes[payload_end..payload_end + 4].copy_from_slice(&crc.sum().to_le_bytes());
    let refusal = read(&bytes).unwrap_err().to_string();
    let wanted = "it was written by Millrace 0.1.0 in format 9; this version reads formats up to 2";
    assert_eq!(refusal, wanted);
    assert!(matches!(read(b"not a snapshot"), Err(Refusal::NotOne)));
    assert!(matches!(read(b""), Err(Refusal::NotOne)));
}

/// A file in format 1, and one in format 2, made by hand. Every later version reads both.
#[test]
fn all_formats_are_read_for_ever() {
    let mut bytes = b"mlr-snap\x01\x00\x16\x01\x050.1.0".to_vec();
    bytes.extend(1_700_000_000_000_000_000_u64.to_le_bytes());
    bytes.extend([1, 1, 0, 2, 0, 3, 0]);
    bytes.extend((0..257).map(|i| i as u8));
    bytes.extend(0x5f01_27c2_u32.to_le_bytes());
    bytes.extend([0x5c, 0, 0, 0, 0x50, 0x10, 0x51, 0x45, 1]);
    bytes.extend([4, 6, 1, 7, 14, 10, 1, 0, 0, 10, 2, 0, 0]);
    [5000, 443, 2, 100, 7, 0xffff]
        .iter()
        .for_each(|number: &u16| bytes.extend(number.to_le_bytes()));
    [1000, 2000, 3, 400, 360].iter().for_each(|number: &u64| bytes.extend(number.to_le_bytes()));
    bytes.push(27);
    [4, 500, 444].iter().for_each(|number: &u64| bytes.extend(number.to_le_bytes()));
    bytes.push(18);
    bytes.extend([9, 0, 0, 0, 0x70, 0x19, 0x71, 0xe7, 2, 1, 0, 0, 0, 0, 0, 0, 0]);
    let expected = ConnSnapshot {
        src: [10, 1, 0, 0].into(),
        dst: [10, 2, 0, 0].into(),
        proto: 6,
        sport: 5000,
        dport: 443,
        icmp: 2,
        zone: 100,
        vlan: VlanTags::new(&[7]),
        start: 1000,
        last_seen: 2000,
        orig: DirectionCounters { packets: 3, bytes: 400, ip_bytes: 360, tcp_flags: 27 },
        reply: DirectionCounters { packets: 4, bytes: 500, ip_bytes: 444, tcp_flags: 18 },
        state: SnapshotState::TcpEstablished,
        scales: Some([7, 14]),
        tags: [0; 2],
        ct_mark: CtMark::default(),
    };
    assert_eq!(read_whole(&bytes), std::slice::from_ref(&expected));

    // The same connection in format 2.
    let mut pages = bytes[..290].to_vec();
    pages[8] = 2;
    pages.resize(PAGE, 0);
    pages.extend([0, 0, 0, 0, 1, 91, 0]);
    pages.extend(&bytes[303..394]);
    pages.resize(2 * PAGE, 0);
    pages.extend([0, 0, 0, 0, 2, 8, 0, 1]);
    pages.resize(3 * PAGE, 0);
    for (place, crc) in [(290, 0x83e0_6049_u32), (PAGE, 0x320c_0b70), (2 * PAGE, 0xea8a_17ca)] {
        pages[place..place + 4].copy_from_slice(&crc.to_le_bytes());
    }
    assert_eq!(read_whole(&pages), std::slice::from_ref(&expected));
    assert_eq!(written(&[expected]), pages);
}

#[test]
fn the_store_keeps_the_file_before_until_the_next_is_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(&scratch.path().join("a/b")).unwrap();
    let place = header().place;
    assert!(store.read(place).unwrap().is_none());
    let mut first = store.begin(&header()).unwrap();
    first.flow(&flow(1)).unwrap();
    first.finish().unwrap();
    let count = |store: &Store| {
        let mut flows = vec![];
        let mut reader = store.read(place).unwrap().unwrap();
        let mut count = 0;
        while reader.next(&mut flows).unwrap() {
            count += flows.len();
        }
        count
    };
    assert_eq!(count(&store), 1);
    let mut second = store.begin(&header()).unwrap();
    second.flow(&flow(2)).unwrap();
    second.flow(&flow(3)).unwrap();
    assert_eq!(count(&store), 1);
    second.finish().unwrap();
    assert_eq!(count(&store), 2);
    use std::os::unix::fs::MetadataExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&store.path(place)), 0o600);
    assert_eq!(mode(&scratch.path().join("a/b")), 0o700);
}

/// A user who can write to the folder could replace files.
#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("kept");
    Store::open(&folder).unwrap();
    for (mode, is_taken) in [(0o777, false), (0o1777, false), (0o770, false), (0o755, true)] {
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
        let opened = Store::open(&folder);
        assert_eq!(opened.is_ok(), is_taken, "{mode:o}");
        let told = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(is_taken || told.contains(&format!("chmod go-w {}", folder.display())), "{told}");
    }
    // Only root can change the owner of a folder.
    if std::os::unix::fs::chown(&folder, Some(12345), None).is_ok() {
        let told = Store::open(&folder).err().unwrap().to_string();
        assert!(told.contains("belongs to user 12345") && told.contains("chown 0 "), "{told}");
    }
}

/// Each object is put in the place of a file, and of the next file. The store does not wait,
/// follows no link and leaves nothing behind.
#[test]
fn what_is_no_file_of_ours_is_refused_at_once() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("kept");
    let store = Store::open(&folder).unwrap();
    let (place, victim) = (header().place, scratch.path().join("victim"));
    let temporary = folder.join("1-2.tmp");
    let save = |store: &Store| store.begin(&header()).and_then(TempFile::finish);
    let good = |store: &Store| matches!(store.read(place), Ok(Some(_)));
    type Make<'a> = &'a dyn Fn(&std::path::Path);
    let strange: [(&str, Make<'_>); 3] = [
        ("a pipe", &|path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
        ("a link", &|path| symlink(&victim, path).unwrap()),
        ("a file of others", &|path| {
            std::fs::write(path, b"").unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        }),
    ];
    for (what, make) in strange {
        std::fs::write(&victim, "precious").unwrap();
        make(&store.path(place));
        make(&temporary);
        assert!(matches!(store.read(place), Err(Refusal::Io(_))), "{what}");
        save(&store).unwrap();
        assert!(good(&store) && !temporary.exists(), "{what}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        std::fs::remove_file(store.path(place)).unwrap();
    }
    // If the rename fails, the temporary file is removed.
    std::fs::create_dir_all(store.path(place).join("below")).unwrap();
    assert!(matches!(store.read(place), Err(Refusal::Io(_))));
    assert!(save(&store).is_err());
    assert!(!temporary.exists());
}

proptest! {
    /// After any bit flips, everything that is read was written, and each flip loses few
    /// connections.
    #[test]
    fn flipped_bits_are_found(
        count in 0..1200_u16,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let all = flows(count);
        let mut bytes = written(&all);
        let good = bytes.clone();
        for (at, bits) in &flips {
            bytes[at.index(good.len())] ^= bits;
        }
        let Ok(read) = read(&bytes) else { return Ok(()) };
        let mut rest = all.iter();
        prop_assert!(read.flows.iter().all(|flow| rest.any(|other| other == flow)));
        prop_assert!(all.len() - read.flows.len() <= 44 * flips.len());
        let is_whole = read.end.is_ok() && read.damaged == 0;
        // Zeros after the header are not covered by a checksum.
        prop_assert_eq!(is_whole, bytes[PAGE..] == good[PAGE..]);
        if read.end.is_ok() {
            prop_assert_eq!(all.len() as u64, read.flows.len() as u64 + read.lost);
        }
    }
}
