// SPDX-License-Identifier: BSD-3-Clause
//! Twenty bytes of a record that TCP uses for its window and SCTP for its tags.

use super::record::ConnHot;
use super::sctp::tags::SctpTags;
use super::state::State;
use super::tcp::window::{TcpWindow, WindowScales};
use crate::api::PROTO_SCTP;
use crate::packet::{PacketMeta, SctpChunks, TcpSegment};

impl<const W: usize> ConnHot<W> {
    /// Notes what the first packet tells, and returns where it leads.
    pub(super) fn open_association(&mut self, chunks: SctpChunks) -> State {
        let phase = match chunks.has_valid_chunks() {
            true => chunks.main_chunk().first_state(),
            // What no association begins with is not to stand for one that does begin.
            false => State::SctpStray,
        };
        if chunks.is_judged && phase != State::SctpStray {
            self.set_tags(&SctpTags::first(&chunks));
        }
        phase
    }

    /// Of an association that is judged.
    pub(super) fn tags(&self) -> SctpTags {
        self.window.tags(self.state_word.scales())
    }

    pub(super) fn set_tags(&mut self, tags: &SctpTags) {
        self.state_word = self.state_word.with_scales(WindowScales::of_tags(tags));
        self.window = TcpWindow::of_tags(tags);
    }

    /// The tags that packets of both sides carry, if they are known.
    pub(super) fn saved_tags(&self) -> [u32; 2] {
        let is_judged = self.key.proto() == PROTO_SCTP && self.checks_window();
        if is_judged { self.tags().known } else { [0; 2] }
    }

    /// Whether the sender of a quoted packet can have sent this tag, as far as anybody knows.
    pub(super) fn has_sent_tag(&self, meta: PacketMeta, tag: u32) -> bool {
        let (phase, tags, direction) = (self.phase(), self.tags(), self.direction(meta));
        let is_asking = phase == State::SctpInit;
        // What ends an association may have the tag of its receiver, and quotes do not say so.
        let is_reflected = || phase.is_over_for_sctp() && tags.has_sent(1 - direction, tag, false);
        tags.has_sent(direction, tag, is_asking) || is_reflected()
    }

    /// What is known after the first segment, which leads to this phase.
    pub(super) fn open_window(&mut self, phase: State, segment: TcpSegment) {
        let (window, scales) = match phase {
            State::TcpSynSent => TcpWindow::on_syn(segment),
            State::TcpPickedUp => TcpWindow::picked_up(segment.numbers),
            // The numbers of what is over say nothing.
            _ => (TcpWindow::NONE, WindowScales::NOT_JUDGED),
        };
        self.window = window;
        self.state_word = self.state_word.with_scales(scales);
    }

    /// Whether it is TCP, and its numbers are known.
    #[inline(always)]
    pub(crate) fn checks_window(&self) -> bool {
        self.state_word.scales() != WindowScales::NOT_JUDGED
    }
}
