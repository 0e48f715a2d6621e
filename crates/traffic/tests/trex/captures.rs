// SPDX-License-Identifier: BSD-3-Clause
//! Tests TRex's own profiles, if a folder has them: `MILLRACE_CAPTURES`, or
//! `../shared/data/captures` beside the workspace. Without the folder these tests are skipped.

use crate::seen::see;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::capture::real_captures;
use traffic::trex::{
    Capture, CapturedFrame, Decimal, MAX_FRAME, Missing, Options, Profile, ProfileError, Split,
};

/// Returns the folder of TRex's profiles and captures; `None` if there is none.
fn folder() -> Option<PathBuf> {
    real_captures("trex")
}

/// Returns the texts of the profiles, by their paths relative to the folder.
fn profiles(folder: &Path) -> BTreeMap<String, String> {
    let mut profiles = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for file in fs::read_dir(entry.path()).unwrap().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|it| it == "yaml") {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                profiles.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    profiles
}

/// Reads a classic pcap file of Ethernet frames, in either byte order.
fn read(path: &Path) -> Option<Capture> {
    let bytes = fs::read(path).ok()?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (is_little, unit_ns) = match word(0) {
        0xa1b2_c3d4 => (true, 1000),
        0xa1b2_3c4d => (true, 1),
        0xd4c3_b2a1 => (false, 1000),
        other => panic!("{}: no capture: {other:x}", path.display()),
    };
    let word = |at: usize| if is_little { word(at) } else { word(at).swap_bytes() };
    let (mut capture, mut at) = (Capture::default(), 24);
    while at < bytes.len() {
        let at_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)) * unit_ns;
        let end = at + 16 + word(at + 8) as usize;
        capture.frames.push(CapturedFrame { at_ns, bytes: bytes[at + 16..end].to_vec() });
        at = end;
    }
    Some(capture)
}

/// Missing captures of each profile, with their lines.
const MISSING: [(&str, &[(usize, &str)]); 3] = [
    (
        "avl/sfr_delay_10_1g.yaml",
        &[
            (63, "avl/delay_10_rtp_160k_full.pcap"),
            (70, "avl/delay_10_rtp_250k_full.pcap"),
            (92, "avl/delay_10_video_call_0.pcap"),
        ],
    ),
    ("cap2/http.yaml", &[(15, "avl/delay_10_rtp_160k_full.pcap")]),
    (
        "cap2/sfr.yaml",
        &[
            (19, "cap2/Video_Calls.pcap"),
            (24, "cap2/rtp_160k.pcap"),
            (29, "cap2/rtp_250k_rtp_only_1.pcap"),
            (34, "cap2/rtp_250k_rtp_only_2.pcap"),
            (44, "cap2/Voice_calls_rtp_only.pcap"),
            (84, "cap2/mail_pop.pcap"),
        ],
    ),
];

#[test]
fn every_profile_is_read_and_nine_are_whole() {
    let Some(folder) = folder() else { return };
    let mut whole = 0;
    for (name, text) in profiles(&folder) {
        let profile = Profile::parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        let captures = |capture: &str| read(&folder.join(capture));
        match (profile.bind(captures, Missing::Refuse), MISSING.iter().find(|it| it.0 == name)) {
            (Ok(_), None) => whole += 1,
            (Err(error @ ProfileError::MissingCaptures(_)), Some((_, missing))) => {
                let lines: Vec<String> = missing
                    .iter()
                    .map(|(line, capture)| format!("{name}:{line}: {capture} is missing; "))
                    .map(|text| text + "add the file, or synthesise missing captures")
                    .collect();
                assert_eq!(error.to_string(), lines.join("\n"));
            }
            (other, expected) => panic!("{name}: {:?}, not {expected:?}", other.map(|_| ())),
        }
    }
    assert_eq!(whole, 9);
}

/// Makes a second of `profile` at three times its rates. Returns the numbers of frames and bytes.
fn play(name: &str, profile: &Profile, folder: &Path) -> (u64, u64) {
    let captures = |capture: &str| read(&folder.join(capture));
    let traffic = profile.bind(captures, Missing::Synthesise).unwrap();
    let end_ns = Some(1_000_000_000);
    let options = Options { end_ns, multiplier: Decimal::from_whole(3), ..Options::default() };
    let mut replay = traffic.replay(&options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (mut frame, mut frames, mut bytes, mut last_ns) = ([0; MAX_FRAME], 0, 0, 0);
    while let Some(due_ns) = replay.due() {
        assert!(due_ns >= last_ns, "{name}: frames are in order");
        last_ns = due_ns;
        let (_, len) = replay.write(&mut frame);
        see(&frame[..len]);
        frames += 1;
        bytes += len as u64;
    }
    let load = traffic.load(options.multiplier, Split::Side).total();
    assert!(frames as f64 <= load.packets_per_second + 2000.0, "{name}: {frames} {load:?}");
    (frames, bytes)
}

#[test]
fn every_profile_plays_a_second_of_correct_frames() {
    let Some(folder) = folder() else { return };
    for (name, text) in profiles(&folder) {
        let profile = Profile::parse(&text, &name).unwrap();
        let (frames, bytes) = play(&name, &profile, &folder);
        println!("{name}: {frames} frames, {bytes} bytes in the first second");
        assert!(frames > 0, "{name}");
    }
}

#[test]
fn the_formulas_make_the_captures_of_the_mix() {
    let Some(folder) = folder() else { return };
    for name in ["cap2/udp_64B", "cap2/udp_594B", "cap2/udp_1518B"].into_iter().chain([
        "stl/udp_64B_no_crc",
        "stl/udp_594B_no_crc",
        "stl/udp_1518B_no_crc",
    ]) {
        let name = format!("{name}.pcap");
        let [theirs, ours] = [read(&folder.join(&name)), Capture::by_formula(&name)]
            .map(|capture| capture.unwrap().frames.remove(0).bytes);
        assert_eq!(theirs.len(), ours.len(), "{name}");
        // Compares addresses, ports, trailer and the begin of the payload.
        let (theirs, ours) = (see(&theirs), see(&ours));
        assert_eq!((theirs.src, theirs.dst), (ours.src, ours.dst), "{name}");
        assert_eq!(theirs.payload[..12], ours.payload[..12], "{name}");
        assert_eq!(theirs.trailer, ours.trailer, "{name}");
    }
}

#[test]
fn their_mix_has_the_figures_of_ours() {
    let Some(folder) = folder() else { return };
    let text = fs::read_to_string(folder.join("cap2/imix_fast_1g.yaml")).unwrap();
    let theirs = Profile::parse(&text, "theirs").unwrap();
    let captures = |capture: &str| read(&folder.join(capture));
    let theirs = theirs.bind(captures, Missing::Refuse).unwrap();
    let ours = Profile::built_in("cap2/imix_fast_1g.yaml").unwrap();
    let ours = ours.bind(|_| None, Missing::Refuse).unwrap();
    for split in [Split::Side, Split::Parity] {
        assert_eq!(theirs.load(Decimal::ONE, split), ours.load(Decimal::ONE, split));
    }
}
