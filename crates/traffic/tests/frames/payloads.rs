// SPDX-License-Identifier: BSD-3-Clause
//! Tests payloads of dpdk-project, and the verification of payloads without headers.

use crate::seen::see;
use crate::streams::{SEED, Sent, setup, spec, streams, take};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::RngCore;
use traffic::stream::{StreamSetup, Streams};
use traffic::{
    DPDK_PROJECT_SEED, Filler, Finding, Part, PayloadFormat, Stamp, StampKey, Verifier, Window,
};

const FORMAT: PayloadFormat = PayloadFormat::DpdkProject { seed: DPDK_PROJECT_SEED, senders: 1 };

fn try_dpdk_project(texts: &[&str]) -> Result<Streams, String> {
    let specs: Vec<_> = texts.iter().map(|text| spec(text)).collect();
    let mut setup = setup(true);
    setup.format = FORMAT;
    Streams::new(&specs, &setup).map_err(|error| error.to_string())
}

fn dpdk_project(text: &str, count: usize) -> Vec<Sent> {
    take(&mut try_dpdk_project(&[text]).unwrap(), count)
}

fn payload(frame: &[u8]) -> &[u8] {
    &frame[frame.len() - see(frame).unwrap().payload_len..]
}

/// Returns a payload as `write_packet` of dpdk-project makes it. Only the unit of time differs.
fn of_dpdk_project(index: u64, send_time: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    bytes[8..16].copy_from_slice(&send_time.to_le_bytes());
    let state = u128::from(DPDK_PROJECT_SEED) << 64 | u128::from(index);
    Pcg64Mcg::new(state).fill_bytes(&mut bytes[16..]);
    bytes
}

#[test]
fn the_payload_of_dpdk_project_is_byte_for_byte_its_own() {
    let verifier = Verifier::new(SEED, FORMAT);
    for text in ["size=64,1046,9216 sport=10000-11000", "src=2001:2::1 vlan=7 size=86-200"] {
        for (index, sent) in dpdk_project(text, 300).iter().enumerate() {
            let payload = payload(&sent.bytes);
            assert_eq!(payload, of_dpdk_project(index as u64, sent.due + 7, payload.len()));
            let good = Finding::Good(Stamp { lane: 0, index: index as u32, sent_ns: sent.due + 7 });
            assert_eq!(verifier.examine(&sent.bytes), good);
            assert_eq!(verifier.examine_payload(payload), good);
        }
    }
}

#[test]
fn senders_of_one_stream_share_its_numbers() {
    let format = PayloadFormat::DpdkProject { seed: DPDK_PROJECT_SEED, senders: 3 };
    let verifier = Verifier::new(SEED, format);
    let mut numbers = Vec::new();
    for share in 0..3 {
        let part = Part { side: None, share, shares: 3 };
        let setup = StreamSetup { format, part, ..setup(true) };
        let mut streams = Streams::new(&[spec("size=100 count=31")], &setup).unwrap();
        for (index, sent) in take(&mut streams, 100).iter().enumerate() {
            let stamp = Stamp { lane: share, index: index as u32, sent_ns: sent.due + 7 };
            assert_eq!(verifier.examine(&sent.bytes), Finding::Good(stamp));
            numbers.push(u64::from_le_bytes(payload(&sent.bytes)[..8].try_into().unwrap()));
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..31).collect::<Vec<u64>>());
}

#[test]
fn a_changed_bit_of_a_payload_of_dpdk_project_is_found() {
    let verifier = Verifier::new(SEED, FORMAT);
    let sent = dpdk_project("size=200", 3).pop().unwrap();
    let stamp = Stamp { lane: 0, index: 2, sent_ns: sent.due + 7 };
    for bit in 0..8 * (200 - 4 - 14) {
        let mut bytes = sent.bytes.clone();
        bytes[14 + bit / 8] ^= 1 << (bit % 8);
        let finding = verifier.examine(&bytes);
        let at = bit / 8;
        match at {
            // The generator sets the lowest bit of its state: two packets have the same bytes.
            28 if bit % 8 == 0 => assert!(matches!(finding, Finding::Damaged(Some(_)))),
            28.. if at < 36 => assert_eq!(finding, Finding::Damaged(None), "byte {at}: index"),
            44.. => assert_eq!(finding, Finding::Damaged(Some(stamp)), "byte {at}: padding"),
            _ => assert!(!matches!(finding, Finding::Good(_)), "byte {at}: {finding:?}"),
        }
    }
    // UDP over IPv4 may lack a checksum, as packets of dpdk-project do.
    let mut bytes = sent.bytes.clone();
    bytes[40..42].fill(0);
    assert_eq!(verifier.examine(&bytes), Finding::Good(stamp));
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(verifier.examine(&bytes), Finding::Damaged(Some(stamp)));
}

#[test]
fn packets_of_others_are_foreign_to_dpdk_project() {
    let verifier = Verifier::new(SEED, FORMAT);
    for text in ["", "size=300", "proto=tcp", "proto=icmp", "proto=sctp size=90"] {
        for is_stamped in [false, true] {
            if is_stamped && text.contains("tcp") {
                continue;
            }
            let sent = take(&mut streams(&[text], is_stamped), 2);
            assert_eq!(verifier.examine(&sent[1].bytes), Finding::Foreign, "{text}");
        }
    }
    let other = Verifier::new(SEED, PayloadFormat::DpdkProject { seed: 1, senders: 1 });
    assert_eq!(other.examine(&dpdk_project("size=200", 1)[0].bytes), Finding::Foreign);
    assert_eq!(verifier.examine_payload(&[0; 15]), Finding::Foreign);
}

#[test]
fn what_dpdk_project_cannot_send_is_refused() {
    let refusal = |texts: &[&str]| try_dpdk_project(texts).unwrap_err();
    assert_eq!(
        refusal(&["name=a", "name=b"]),
        "stream b: payloads of dpdk-project do not name their stream: give one stream only"
    );
    for proto in ["tcp", "icmp", "sctp", "sctp-bare"] {
        assert_eq!(
            refusal(&[&format!("name=a proto={proto} size=200")]),
            "stream a: proto: payloads of dpdk-project need proto=udp"
        );
    }
    assert!(refusal(&["vlan=1"]).contains("64 bytes are too few: these headers need at least 66"));
}

#[test]
fn a_bare_payload_is_judged_as_in_its_frame() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    let filler = Filler::new(SEED);
    for sent in take(&mut streams(&["size=64,300,1518"], true), 30) {
        let payload = payload(&sent.bytes);
        let Finding::Good(stamp) = verifier.examine_payload(payload) else {
            panic!("not good");
        };
        let rest = &payload[Stamp::LEN..];
        assert_eq!(rest, filler.bytes(Window::of(stamp.lane, stamp.index), rest.len()));
        let mut damaged = payload.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(verifier.examine_payload(&damaged), Finding::Damaged(Some(stamp)));
        assert_eq!(verifier.examine_payload(&payload[..15]), Finding::Foreign);
        damaged[3] ^= 1;
        assert_eq!(verifier.examine_payload(&damaged), Finding::Foreign);
    }
    assert_eq!(verifier.examine_payload(&vec![0; 70_000]), Finding::Foreign);
}
