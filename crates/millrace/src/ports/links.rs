// SPDX-License-Identifier: BSD-3-Clause
//! Tells of links that go down, or come up, while a run is under way.

use dpdk::Port;
use report::output::tell;
use std::io;
use std::time::{Duration, Instant};

/// How often links are looked at. A `net_memif` whose other end went away connects again only when
/// somebody does that (`memif_link_update` in rte_eth_memif.c).
const EVERY: Duration = Duration::from_millis(200);

/// The links of some ports.
pub(crate) struct LinkWatch<'a> {
    ports: &'a [Port],
    were_up: Vec<bool>,
    next: Instant,
}

impl<'a> LinkWatch<'a> {
    /// Looks at the links of `ports` for the first time.
    pub(crate) fn new(ports: &'a [Port]) -> Self {
        let were_up = ports.iter().map(|port| port.link().up).collect();
        Self { ports, were_up, next: Instant::now() + EVERY }
    }

    /// Looks at them if it is time; tells what has changed.
    pub(crate) fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        for (port, was_up) in self.ports.iter().zip(&mut self.were_up) {
            let is_up = port.link().up;
            if is_up != *was_up {
                *was_up = is_up;
                let what = if is_up { "is up again" } else { "went down" };
                let name = &port.info().devargs;
                tell(io::stderr(), format_args!("millrace: port {name}: the link {what}"));
            }
        }
    }
}
