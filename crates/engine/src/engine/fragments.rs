// SPDX-License-Identifier: BSD-3-Clause
//! Gives the caller the slots of packets that wait for a first fragment, and their releases.

use super::Engine;
use crate::fragments::{HeldPacket, Release};

impl Engine {
    /// Returns the slots for the packets of the last burst whose verdict is
    /// [`Verdict::Hold`](crate::Verdict::Hold).
    pub fn held(&self) -> &[HeldPacket] {
        self.pipeline.fragments().map_or(&[], |fragments| fragments.held())
    }

    /// Returns the number of slots for kept packets: those that wait, and one burst more. There are
    /// enough if every release is taken before the next burst.
    pub fn hold_slots(&self) -> usize {
        self.pipeline.fragments().map_or(0, |fragments| fragments.hold_slots())
    }

    /// True if [`next_release`](Self::next_release) has a release.
    #[inline(always)]
    pub fn has_releases(&self) -> bool {
        self.pipeline.fragments().is_some_and(|fragments| fragments.has_releases())
    }

    /// Takes the next release of a kept packet. Its slot is free from now on.
    pub fn next_release(&mut self) -> Option<Release> {
        self.pipeline.fragments_mut()?.next_release()
    }

    /// Releases every kept packet, without waiting for first fragments. For the end of a run.
    pub fn release_all(&mut self) {
        if let Some(fragments) = self.pipeline.fragments_mut() {
            fragments.expire_all_held(&mut self.accounts);
        }
    }
}
