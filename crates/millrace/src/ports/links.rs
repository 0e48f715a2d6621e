// SPDX-License-Identifier: BSD-3-Clause
//! Prints links that go down or come up during a run, and devices that the kernel asks for.

use dpdk::Port;
use report::output::write_line;
use std::io;
use std::time::{Duration, Instant};

/// Time between two checks of the links. A `net_memif` whose peer went away reconnects only during
/// such a check (`memif_link_update` in rte_eth_memif.c).
const EVERY: Duration = Duration::from_millis(200);

/// The links of some ports, and their last state.
pub(crate) struct LinkWatch<'a> {
    ports: &'a [Port],
    were_up: Vec<bool>,
    were_asked_back: Vec<bool>,
    next: Instant,
}

impl<'a> LinkWatch<'a> {
    /// Creates a watch of `ports`, and reads their links for the first time.
    pub(crate) fn new(ports: &'a [Port]) -> Self {
        let were_up = ports.iter().map(|port| port.link().up).collect();
        let were_asked_back = vec![false; ports.len()];
        Self { ports, were_up, were_asked_back, next: Instant::now() + EVERY }
    }

    /// Checks the links if it is time; prints changes.
    pub(crate) fn print_changes(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        for (port, was_up) in self.ports.iter().zip(&mut self.were_up) {
            let is_up = port.link().up;
            if is_up != *was_up {
                *was_up = is_up;
                let change = if is_up { "is up again" } else { "went down" };
                let name = &port.info().devargs;
                write_line(io::stderr(), format_args!("millrace: port {name}: the link {change}"));
            }
        }
        for (port, was_asked_back) in self.ports.iter().zip(&mut self.were_asked_back) {
            if port.resets().is_asked_back() && !std::mem::replace(was_asked_back, true) {
                let name = &port.info().devargs;
                let line = format_args!(
                    "millrace: port {name}: the kernel asks for the device, and gets it at the end \
                     of this run"
                );
                write_line(io::stderr(), line);
            }
        }
    }
}
