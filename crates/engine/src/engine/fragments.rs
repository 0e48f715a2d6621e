// SPDX-License-Identifier: BSD-3-Clause
//! Packets that wait for the first fragment of their datagram: where the caller keeps them, and
//! when it gets them back.

use super::Engine;
use crate::fragments::{HeldPacket, Release};

impl Engine {
    /// Where to keep the packets of the last burst whose verdict is
    /// [`Verdict::Hold`](crate::Verdict::Hold).
    pub fn held(&self) -> &[HeldPacket] {
        self.pipeline.fragments().map_or(&[], |fragments| fragments.held())
    }

    /// Slots for packets that are kept: those that wait, and those of a burst more. There are
    /// enough as long as every release is taken before the next burst.
    pub fn hold_slots(&self) -> usize {
        self.pipeline.fragments().map_or(0, |fragments| fragments.hold_slots())
    }

    /// Whether [`next_release`](Self::next_release) has one.
    #[inline(always)]
    pub fn has_releases(&self) -> bool {
        self.pipeline.fragments().is_some_and(|fragments| fragments.has_releases())
    }

    /// What becomes of a packet that is kept. Its slot is free from now on.
    pub fn next_release(&mut self) -> Option<Release> {
        self.pipeline.fragments_mut()?.next_release()
    }

    /// Waits no more for any first fragment: every packet that is kept is released. For the end.
    pub fn release_all(&mut self) {
        if let Some(fragments) = self.pipeline.fragments_mut() {
            fragments.expire_all_held(&mut self.accounts);
        }
    }
}
