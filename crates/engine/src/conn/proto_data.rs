// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes the twenty bytes of a record that hold TCP's window or SCTP's tags.

use super::record::ConnHot;
use super::sctp::tags::SctpTags;
use super::state::State;
use super::tcp::window::{TcpWindow, WindowScales};
use crate::api::PROTO_SCTP;
use crate::packet::{PacketMeta, SctpChunks, TcpSegment};

impl<const W: usize> ConnHot<W> {
    /// Stores the tags of the first packet of an association, and returns the first state.
    pub(super) fn open_association(&mut self, chunks: SctpChunks) -> State {
        let state = match chunks.has_valid_chunks() {
            true => chunks.main_chunk().first_state(),
            // A packet that cannot begin an association must not look like one that can.
            false => State::SctpStray,
        };
        if chunks.has_tag_check && state != State::SctpStray {
            self.set_tags(&SctpTags::first(&chunks));
        }
        state
    }

    /// Returns the tags of an association with tag check.
    pub(super) fn tags(&self) -> SctpTags {
        self.window.tags(self.state_word.scales())
    }

    pub(super) fn set_tags(&mut self, tags: &SctpTags) {
        self.state_word = self.state_word.with_scales(WindowScales::of_tags(tags));
        self.window = TcpWindow::of_tags(tags);
    }

    /// Returns the known tags in the packets of originator and responder; 0 if unknown.
    pub(super) fn saved_tags(&self) -> [u32; 2] {
        let has_tag_check = self.key.proto() == PROTO_SCTP && self.checks_window();
        if has_tag_check { self.tags().known } else { [0; 2] }
    }

    /// True if the sender of a quoted packet can have sent this tag. Also true if too little is
    /// known.
    pub(super) fn has_sent_tag(&self, meta: PacketMeta, tag: u32) -> bool {
        let (state, tags, direction) = (self.state(), self.tags(), self.direction(meta));
        let is_unanswered = state == State::SctpInit;
        // A packet that ends an association may carry its receiver's tag, and a quote does not show
        // that.
        let is_reflected = || state.is_over_for_sctp() && tags.has_sent(1 - direction, tag, false);
        tags.has_sent(direction, tag, is_unanswered) || is_reflected()
    }

    /// Sets the window after the first segment, which led to this state.
    pub(super) fn open_window(&mut self, state: State, segment: TcpSegment) {
        let (window, scales) = match state {
            State::TcpSynSent => TcpWindow::on_syn(segment),
            State::TcpPickedUp => TcpWindow::picked_up(segment.numbers),
            // The numbers of an ended connection are useless.
            _ => (TcpWindow::NONE, WindowScales::UNCHECKED),
        };
        self.window = window;
        self.state_word = self.state_word.with_scales(scales);
    }

    /// True if the numbers of TCP, or the tags of SCTP, are checked.
    #[inline(always)]
    pub(crate) fn checks_window(&self) -> bool {
        self.state_word.scales().are_known()
    }
}
