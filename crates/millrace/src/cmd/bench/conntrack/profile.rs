// SPDX-License-Identifier: BSD-3-Clause
//! Defines the load of the article's two profiles of connections.

use crate::tester::Load;
use results::conntrack::Lifetime;

/// Share of UDP among connections.
const UDP_PERCENT: f64 = 1.0;

/// Returns what connections carry. The rate means nothing.
pub(super) fn load(profile: Lifetime) -> Load {
    let (messages, server_wait_ms) = match profile {
        Lifetime::Short => (1, 0),
        Lifetime::Long => (500, 50),
    };
    Load { udp_percent: UDP_PERCENT, messages, server_wait_ms, ..Load::of_rate(1.0) }
}

/// Returns the smallest and the largest rate of a search.
pub(super) fn range(profile: Lifetime) -> [f64; 2] {
    match profile {
        Lifetime::Short => [1e3, 2e6],
        Lifetime::Long => [100.0, 10e3],
    }
}
