// SPDX-License-Identifier: BSD-3-Clause
//! Files of connections: what is written is read; what is not whole is read as far as it is.

use super::reader::Damage;
use super::*;
use engine::{CtMark, SavedFlow, SavedPhase, Tally, VlanTags};
use proptest::prelude::*;
use std::net::IpAddr;

fn header() -> Header {
    Header {
        program: "0.1.0".to_owned(),
        created: 1_700_000_000_000_000_000,
        zone: ZoneFrom::OuterVlan,
        place: Place { pair: 1, worker: 2 },
        workers: 3,
        rss: std::array::from_fn(|i| i as u8),
    }
}

fn flow(i: u16) -> SavedFlow {
    let address = |end: u8| match i % 2 {
        0 => IpAddr::from([10, end, i.to_le_bytes()[0], i.to_le_bytes()[1]]),
        _ => IpAddr::from([end; 16]),
    };
    let number = u64::from(i);
    let tally = |more| Tally {
        packets: number + more,
        bytes: 100 * number,
        ip_bytes: 90 * number,
        tcp_flags: i as u8 | 16,
    };
    SavedFlow {
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
        phase: SavedPhase::ALL[usize::from(i) % SavedPhase::ALL.len()],
        scales: (i % 5 != 0).then_some([7, 14]),
        tags: [[0, 0], [0, u32::from(i)], [u32::MAX, 7]][usize::from(i) % 3],
        ct_mark: CtMark { mark: u32::from(i % 7) << 29, label: u128::from(i % 4) << 126 },
    }
}

fn written(flows: &[SavedFlow]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    flows.iter().for_each(|flow| writer.flow(flow).unwrap());
    let (bytes, len) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, len);
    bytes
}

/// What is read before the end, and whether that was the end.
fn read(bytes: &[u8]) -> Result<(Vec<SavedFlow>, Result<(), Damage>), Refusal> {
    let mut reader = Reader::open(bytes)?;
    assert_eq!(reader.header, header());
    let (mut all, mut flows) = (vec![], vec![]);
    loop {
        let more = reader.block(&mut flows);
        assert!(more.is_ok() || flows.is_empty());
        all.append(&mut flows);
        match more {
            Ok(true) => {}
            Ok(false) => return Ok((all, Ok(()))),
            Err(damage) => return Ok((all, Err(damage))),
        }
    }
}

fn flows(count: u16) -> Vec<SavedFlow> {
    (0..count).map(flow).collect()
}

#[test]
fn a_header_says_where_zones_come_from() {
    let fixed = [7, u16::MAX].map(ZoneFrom::Fixed);
    let others = [ZoneFrom::None, ZoneFrom::OuterVlan, ZoneFrom::InnerVlan];
    for zone in others.into_iter().chain(fixed) {
        let header = Header { zone, ..header() };
        let (bytes, _) = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
        assert_eq!(Reader::open(&bytes[..]).unwrap().header, header);
    }
}

#[test]
fn what_is_written_is_read() {
    for count in [0, 1, 2, 600, 3000] {
        let (all, end) = read(&written(&flows(count))).unwrap();
        assert!(end.is_ok());
        assert_eq!(all, flows(count));
    }
    assert!(written(&flows(3000)).len() > 4 * BLOCK_MAX, "it has several blocks");
}

#[test]
fn a_connection_is_never_longer_than_there_is_room_for() {
    let length = |i, ct_mark, tags| {
        let mut bytes = vec![];
        super::flow::write(&SavedFlow { ct_mark, tags, ..flow(i) }, &mut bytes);
        bytes.len()
    };
    let marked = CtMark { mark: 1, label: 0 };
    assert_eq!(length(1, marked, [1, 0]), super::flow::FLOW_MAX);
    assert_eq!(length(0, marked, [0, 1]), super::flow::FLOW_MAX - 24);
    assert_eq!(length(1, CtMark::default(), [1, 1]), super::flow::FLOW_MAX - 20);
    assert_eq!(length(1, CtMark::default(), [0, 0]), super::flow::FLOW_MAX - 28);
}

/// A prefix of whole blocks, and that it is one.
#[test]
fn a_file_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
    let all = flows(1400);
    let bytes = written(&all);
    let mut lengths = std::collections::BTreeSet::new();
    for len in (0..bytes.len()).filter(|len| len % 97 == 0 || *len < 600 || len + 600 > bytes.len())
    {
        match read(&bytes[..len]) {
            Ok((read, Err(Damage::Cut))) => {
                assert_eq!(read, all[..read.len()]);
                lengths.insert(read.len());
            }
            Err(Refusal::NotOne | Refusal::Header) => assert!(len < 400),
            other => panic!("{len}: {other:?}"),
        }
    }
    assert!(lengths.len() > 2 && lengths.contains(&0) && lengths.contains(&1400), "{lengths:?}");
}

#[test]
fn blocks_of_another_file_or_place_are_none_of_it() {
    let all = flows(1400);
    let bytes = written(&all);
    let mut other = Writer::new(Vec::new(), &Header { created: 1, ..header() }).unwrap();
    all.iter().for_each(|flow| other.flow(flow).unwrap());
    let (other, _) = other.finish().unwrap();
    // The head of one and the rest of the other.
    let head = Writer::new(Vec::new(), &header()).unwrap().finish().unwrap().1 as usize - 17;
    let mixed = [&bytes[..head], &other[head..]].concat();
    assert!(matches!(read(&mixed), Ok((flows, Err(Damage::Damaged))) if flows.is_empty()));
    // The second block in the place of the first.
    let len = u32::from_le_bytes(bytes[head..head + 4].try_into().unwrap()) as usize + 8;
    let swapped = [&bytes[..head], &bytes[head + len..]].concat();
    assert!(matches!(read(&swapped), Ok((flows, Err(Damage::Damaged))) if flows.is_empty()));
    // The last block of all missing, and the end after it there.
    let end = bytes.len() - 17;
    let short = [&bytes[..head + len], &bytes[end..]].concat();
    assert!(matches!(read(&short), Ok((flows, Err(Damage::Damaged))) if flows.len() < 1400));
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
    let wanted = "it was written by Millrace 0.1.0 in format 9; this version knows formats up to 1";
    assert_eq!(refusal, wanted);
    assert!(matches!(read(b"not a snapshot"), Err(Refusal::NotOne)));
    assert!(matches!(read(b""), Err(Refusal::NotOne)));
}

/// A file as the first version wrote it, made by hand: every later one reads it.
#[test]
fn format_1_is_read_for_ever() {
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
    let expected = SavedFlow {
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
        orig: Tally { packets: 3, bytes: 400, ip_bytes: 360, tcp_flags: 27 },
        reply: Tally { packets: 4, bytes: 500, ip_bytes: 444, tcp_flags: 18 },
        phase: SavedPhase::TcpEstablished,
        scales: Some([7, 14]),
        tags: [0; 2],
        ct_mark: CtMark::default(),
    };
    assert_eq!(written(std::slice::from_ref(&expected)), bytes);
    let (flows, end) = read(&bytes).unwrap();
    assert!(end.is_ok());
    assert_eq!(flows, [expected]);
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
        while reader.block(&mut flows).unwrap() {
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

proptest! {
    /// Whatever flips, what is read is a prefix of what was written.
    #[test]
    fn flipped_bits_are_found(
        count in 0..1200_u16,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let all = flows(count);
        let mut bytes = written(&all);
        let good = bytes.clone();
        for (at, bits) in flips {
            bytes[at.index(good.len())] ^= bits;
        }
        match read(&bytes) {
            Ok((read, end)) if bytes != good => {
                prop_assert!(end.is_err());
                prop_assert_eq!(&read[..], &all[..read.len()]);
            }
            _ => {}
        }
    }
}
