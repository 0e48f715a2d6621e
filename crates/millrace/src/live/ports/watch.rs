// SPDX-License-Identifier: BSD-3-Clause
//! Watches the ports of a running instance for the control thread, and reports what changes.

use crate::live::ports::event::PortEvent;
use crate::live::ports::reset::PortReset;
use crate::live::ports::shared::SharedPort;

/// A port of a running instance, as the control thread watches it.
pub(crate) struct PortWatch {
    pub(crate) port: SharedPort,
    pub(crate) reset: PortReset,
    pub(crate) has_several_queues: bool,
    /// True once a warning about rules without effect was given.
    is_unmarked: bool,
    /// Linux interface that the port reads beside the host's stack; `None` once the user was
    /// warned.
    read_beside: Option<String>,
    /// Link state that was last reported. A link that is up from the start is not reported.
    up: bool,
    pub(crate) removed: bool,
    has_left_namespace: bool,
}

impl PortWatch {
    pub(crate) fn new(
        port: SharedPort,
        reset: PortReset,
        (has_several_queues, read_beside): (bool, Option<String>),
    ) -> Self {
        Self {
            port,
            reset,
            has_several_queues,
            is_unmarked: false,
            read_beside,
            up: true,
            removed: false,
            has_left_namespace: false,
        }
    }

    /// Goes on with a reset of the port, or with giving its device back. `rules`: number of rules
    /// of the port, if it takes any.
    pub(crate) fn step(&mut self, rules: Option<u64>) -> Option<PortEvent> {
        let event = self.reset.step(rules);
        self.removed |= self.reset.is_given_back();
        event
    }

    /// Returns the warning about rules without effect, once.
    /// `had_marks`: packets of its wire have had marks.
    pub(crate) fn unmarked(&mut self, is_unmarked: bool, had_marks: bool) -> Option<PortEvent> {
        if !is_unmarked || std::mem::replace(&mut self.is_unmarked, true) {
            return None;
        }
        let port = self.port.lock().info().devargs.clone();
        Some(PortEvent::Unmarked { port, had_marks })
    }

    /// Returns the warning about checksums left to hardware, once.
    pub(crate) fn unfinished(&mut self, has_wrong_checksums: bool) -> Option<PortEvent> {
        let interface = if has_wrong_checksums { self.read_beside.take() } else { None }?;
        let port = self.port.lock().info().devargs.clone();
        Some(PortEvent::UnfinishedChecksums { port, interface })
    }

    /// Returns a change of link or device since the last call.
    pub(crate) fn event(&mut self) -> Option<PortEvent> {
        if self.removed || self.has_left_namespace || self.reset.is_out() {
            return None;
        }
        let port = self.port.lock();
        let name = || port.info().devargs.clone();
        if port.removed() {
            // A tap that was moved into another network namespace goes on working, so it is not
            // reported as removed.
            self.has_left_namespace =
                port.info().driver == "net_tap" && !port.stands_for_interface();
            self.removed = !self.has_left_namespace;
            let event = if self.removed { PortEvent::Removed } else { PortEvent::LeftNamespace };
            return Some(event(name()));
        }
        let up = port.link().up;
        if up == self.up {
            return None;
        }
        self.up = up;
        Some(if up { PortEvent::Up(name()) } else { PortEvent::Down(name()) })
    }
}
