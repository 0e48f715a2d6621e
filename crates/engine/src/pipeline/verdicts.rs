// SPDX-License-Identifier: BSD-3-Clause
//! Writes verdicts and, if asked, connection states.

use crate::api::CtState;

/// Who is told the states of the packets of a burst.
pub(crate) trait States {
    /// Of the packet at this place.
    fn tell(&mut self, position: u8, state: impl FnOnce() -> CtState);
}

/// Nobody asks.
pub(crate) struct Unasked;

impl States for Unasked {
    #[inline(always)]
    fn tell(&mut self, _position: u8, _state: impl FnOnce() -> CtState) {}
}

impl States for &mut [CtState] {
    #[inline(always)]
    fn tell(&mut self, position: u8, state: impl FnOnce() -> CtState) {
        if let Some(told) = self.get_mut(usize::from(position)) {
            *told = state();
        }
    }
}
