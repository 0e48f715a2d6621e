// SPDX-License-Identifier: BSD-3-Clause
//! Owns the datagrams that are known in part, and the packets that wait for a first fragment.
//!
//! Nothing is reassembled and no payload is kept. The first fragment has the ports of its
//! connection; the store keeps them for the later fragments.
//!
//! A later fragment that arrives behind the first is one more packet of that direction. One that
//! arrives before it may wait, for a short time and in a bounded number. The engine counts it
//! directly behind the first fragment. A later fragment opens no connection and changes no TCP
//! state, except how far its sender's data reaches. The caller keeps the waiting packets, in slots
//! that the engine names.

mod datagrams;
mod hold;
mod ranges;
mod sources;

use crate::api::{Config, FragmentLimits, MAX_DATAGRAMS, MAX_HOLD};
use crate::base::{BURST_MAX, MemoryUse};
use datagrams::Datagrams;
pub(crate) use datagrams::{FragmentOutcome, ReadyFragments};
pub(crate) use hold::{DatagramId, HeldFragment, HoldQueue};
pub use hold::{HeldPacket, Release};

/// Fragmented datagrams of both IP versions, and the packets that wait.
pub(crate) struct FragmentStore {
    pub(crate) v4: FamilyDatagrams<2>,
    pub(crate) v6: FamilyDatagrams<5>,
    pub(crate) hold: HoldQueue,
    /// Packets of this burst that the caller must keep, with their slots.
    pub(crate) held: Vec<HeldPacket>,
}

/// Fragmented datagrams of one IP version.
pub(crate) struct FamilyDatagrams<const W: usize> {
    pub(crate) datagrams: Datagrams<W>,
    /// First fragments of this burst for which packets have waited.
    pub(crate) due: Vec<ReadyFragments<W>>,
}

impl<const W: usize> FamilyDatagrams<W> {
    fn new(config: &Config) -> Self {
        Self { datagrams: Datagrams::new(config), due: Vec::with_capacity(BURST_MAX) }
    }
}

impl FragmentStore {
    /// Allocates the store; `None` if the configuration allows no datagrams.
    ///
    /// # Panics
    /// If a limit is out of its range. The caller's plan has checked the limits.
    pub(crate) fn new(config: &Config) -> Option<Box<Self>> {
        let FragmentLimits { datagrams, per_source, hold, hold_timeout, .. } = config.fragments;
        assert!(datagrams <= MAX_DATAGRAMS && per_source > 0 && hold <= MAX_HOLD);
        (datagrams > 0).then(|| {
            Box::new(Self {
                v4: FamilyDatagrams::new(config),
                v6: FamilyDatagrams::new(config),
                hold: HoldQueue::new(hold, hold_timeout),
                held: Vec::with_capacity(BURST_MAX),
            })
        })
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let tables = [self.v4.datagrams.memory(), self.v6.datagrams.memory()];
        tables.into_iter().chain([self.hold.memory()]).sum()
    }

    /// Forgets the held packets of the last burst.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// Packets of the last burst that the caller must keep, with their slots.
    pub(crate) fn held(&self) -> &[HeldPacket] {
        &self.held
    }

    /// Mutable list of the held packets. The caller changes positions if the burst was part of
    /// another one.
    pub(crate) fn held_mut(&mut self) -> &mut [HeldPacket] {
        &mut self.held
    }

    /// Number of slots that the caller provides for waiting packets.
    pub(crate) fn hold_slots(&self) -> usize {
        self.hold.len()
    }

    #[inline(always)]
    pub(crate) fn has_releases(&self) -> bool {
        self.hold.has_releases()
    }

    pub(crate) fn next_release(&mut self) -> Option<Release> {
        self.hold.next_release()
    }

    /// True if packets must be counted behind a first fragment of this burst.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        !(self.v4.due.is_empty() && self.v6.due.is_empty())
    }
}

/// Access to the datagrams with keys of `W` words, and to the packets that wait.
pub(crate) trait FamilyStore<const W: usize> {
    fn of(&mut self) -> (&mut FamilyDatagrams<W>, &mut HoldQueue);
}

impl FamilyStore<2> for FragmentStore {
    fn of(&mut self) -> (&mut FamilyDatagrams<2>, &mut HoldQueue) {
        (&mut self.v4, &mut self.hold)
    }
}

impl FamilyStore<5> for FragmentStore {
    fn of(&mut self) -> (&mut FamilyDatagrams<5>, &mut HoldQueue) {
        (&mut self.v6, &mut self.hold)
    }
}
