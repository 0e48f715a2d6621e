// SPDX-License-Identifier: BSD-3-Clause
//! What a change of a NIC makes old of what was foreseen: the verdicts of all packets, by a number
//! that goes up, or those of the packets that an exact rule may match, by a bit for each.

use super::TwinNic;
use crate::capture::Capture;
use crate::index::Index;
use crate::judge::Rule;
use crate::nic::{Answer, Nic};
use crate::refusal::Refusal;
use crate::rules::Handle;
use crate::tuple::{Touched, Tuple};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

#[cfg(test)]
mod tests;

/// Packets that share a word of bits.
const WORD: u32 = u64::BITS;

/// Where the verdicts of a capture are marked as old.
pub(super) struct Marks {
    index: Index,
    /// The word of the first packets.
    first: *mut u64,
    /// Bytes from one word to the next.
    stride: usize,
}

// SAFETY: the words are shared with C, which also accesses them by any thread, as atomics.
unsafe impl Send for Marks {}

impl Marks {
    /// Makes the packets of a tuple old: one access for each word.
    fn set(&self, tuple: Tuple) {
        let packets = self.index.packets(tuple);
        for of_word in packets.chunk_by(|one, other| one / WORD == other / WORD) {
            let bits = of_word.iter().fold(0, |bits, packet| bits | 1 << (packet % WORD));
            let offset = (of_word[0] / WORD) as usize * self.stride;
            // SAFETY: there is a word for every packet of the index, and all access it as an
            // atomic, by the contract of `twin_nic_set_marks`.
            let word = unsafe { AtomicU64::from_ptr(self.first.byte_add(offset)) };
            // Whoever takes the bits sees the change.
            word.fetch_or(bits, Ordering::Release);
        }
    }
}

impl TwinNic {
    // A poisoned lock would be a panic, and that ends the process.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Nic> {
        self.nic.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Nic> {
        self.nic.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a generation. Who reads its number and classifies then waits for the change.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Nic> {
        let nic = self.lock();
        self.generation.fetch_add(1, Ordering::Release);
        nic
    }

    /// Changes rules. When it returns, all that may be old by that is marked. Receivers do not wait
    /// for marks to be set, be they many; the next change does, so that the counter of a rule that
    /// is gone is not another's before.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Nic) -> T) -> T {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nic = self.lock();
        let was_timed = self.is_timed();
        let result = change(&mut nic);
        let touched = match nic.take_touched() {
            // The next time may be another by now: what is due comes with this generation.
            _ if was_timed || self.is_timed() => Touched::Everything,
            touched => touched,
        };
        match (touched, &*marks) {
            (Touched::Nothing, _) => {}
            (Touched::Packets(tuple), Some(marks)) => {
                drop(nic);
                marks.set(tuple);
            }
            _ => _ = self.generation.fetch_add(1, Ordering::Release),
        }
        result
    }

    pub(super) fn create(&self, rule: Rule<'_>, now_us: u64) -> Result<Answer<Handle>, Refusal> {
        self.change(|nic| {
            let answer = nic.create(rule, now_us)?;
            self.foresee_change(nic, now_us);
            Ok(answer)
        })
    }

    pub(super) fn destroy(&self, handle: Handle, now_us: u64) -> Result<Answer<()>, Refusal> {
        self.change(|nic| {
            let answer = nic.destroy(handle, now_us)?;
            self.foresee_change(nic, now_us);
            Ok(answer)
        })
    }

    /// Begins a generation, as verdicts have changed by themselves.
    pub(super) fn settle(&self, now_us: u64) {
        let nic = self.write();
        self.foresee_change(&nic, now_us);
    }

    /// Notes when verdicts change by themselves.
    fn foresee_change(&self, nic: &Nic, now_us: u64) {
        self.change_us.store(nic.next_change_us(now_us).unwrap_or(0), Ordering::Release);
    }

    fn is_timed(&self) -> bool {
        self.change_us.load(Ordering::Relaxed) != 0
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` and `capture` are alive; from `first` on there is a word for every 64 frames of the
/// capture, `stride` bytes from one to the next, for as long as rules change. Everybody accesses
/// them as atomics.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_set_marks(
    nic: *const TwinNic,
    capture: *const Capture,
    first: *mut u64,
    stride: usize,
) {
    // SAFETY: by the contract above.
    let (nic, capture) = unsafe { (&*nic, &*capture) };
    let index = Index::of((0..capture.len()).map(|place| capture.frame(place)));
    let marks = Some(Marks { index, first, stride });
    *nic.marks.lock().unwrap_or_else(PoisonError::into_inner) = marks;
}
