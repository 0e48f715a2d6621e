// SPDX-License-Identifier: BSD-3-Clause
//! What the fuzz targets see of the program: replays of captures that anyone may have written.
//!
//! Not documented and not an interface: it changes with `fuzz`.

use crate::cmd::replay::Player;
use capture::Capture;
use report::records::{Existing, Format, RecordSink, Target, Writer};
use report::top_flows::TopFlows;
use std::io::{self, Read};
use std::sync::atomic::AtomicBool;

/// Plays a capture to its end or its fault as `millrace replay` does, to a table that is soon full;
/// returns how many packets it had. Each of them, and each flow, is accounted for.
pub fn replay(source: impl Read + 'static) -> u64 {
    const WRITTEN: &str = "what is written to nowhere is written";
    let config = engine::Config { capacity_ipv4: 4, capacity_ipv6: 2, ..engine::Config::default() };
    let nowhere = Target::File("/dev/null".into(), Format::JsonLines);
    let nowhere = Writer::open(&nowhere, Existing::Keep, false).expect(WRITTEN);
    let mut player = Player::new(&config, RecordSink::new(Some(nowhere), TopFlows::new(1)));
    if let Ok(mut capture) = Capture::new("capture", source) {
        player.play(&mut capture, &AtomicBool::new(false)).expect(WRITTEN);
    }
    let (summary, records) = player.finish().expect(WRITTEN);
    summary.print(&mut io::sink()).expect(WRITTEN);
    records.finish().top.print(&mut io::sink()).expect(WRITTEN);
    assert!(summary.ledger.balanced, "{summary:?}");
    let flows = &summary.flows;
    assert_eq!((flows.active, flows.created), (0, flows.ended.total()), "{summary:?}");
    summary.ledger.rx
}
