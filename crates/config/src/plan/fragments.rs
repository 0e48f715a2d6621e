// SPDX-License-Identifier: BSD-3-Clause
//! Plans the limits of fragments.

use super::Settings;
use engine::{FragmentLimits, Nanos};

/// Fills in what `written` omits.
pub(super) fn plan_fragments(written: crate::Fragments, settings: &mut Settings) -> FragmentLimits {
    const MS: Nanos = 1_000_000;
    let default = FragmentLimits::default();
    let ms = |nanos: Nanos| (nanos / MS) as u32;
    settings.open("fragments");
    let datagrams = settings.take("datagrams", written.datagrams, default.datagrams);
    let per_source = settings.take("per_source", written.per_source, default.per_source);
    let timeout_ms = settings.take("timeout_ms", written.timeout_ms, ms(default.timeout));
    let hold = settings.take("hold", written.hold, default.hold);
    let hold_ms = settings.take("hold_ms", written.hold_ms, ms(default.hold_timeout));
    let [timeout, hold_timeout] = [timeout_ms, hold_ms].map(|ms| Nanos::from(ms) * MS);
    FragmentLimits { datagrams, per_source, timeout, hold, hold_timeout }
}

/// Returns the packets that each worker may hold.
pub(super) fn packets_held(written: &crate::Fragments) -> u64 {
    let hold = written.hold.as_ref().map_or(FragmentLimits::default().hold, |hold| hold.value);
    if hold == 0 { 0 } else { u64::from(hold) + engine::BURST_MAX as u64 }
}
