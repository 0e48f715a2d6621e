// SPDX-License-Identifier: BSD-3-Clause
//! Invalidates verdicts that were computed ahead when the NIC's rules change. Most changes
//! invalidate the verdicts of all packets, by incrementing the generation. A change of an exact
//! rule invalidates only the packets that it may match: the client that stores verdicts is notified
//! of them before the call returns.

use super::TwinNic;
use crate::capture::Capture;
use crate::index::{Index, Packets};
use crate::nic::{Answer, Nic};
use crate::refusal::Refusal;
use crate::rule_check::Rule;
use crate::rules::Handle;
use crate::tuple::AffectedPackets;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

#[cfg(test)]
mod tests;

/// A client that stores the verdicts of a capture and is notified of changes.
pub(super) struct CaptureClient {
    index: Index,
    update: Box<dyn Fn(Packets<'_>) + Send>,
}

impl TwinNic {
    // A poisoned lock would mean a panic, which ends the process.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Nic> {
        self.nic.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Nic> {
        self.nic.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a generation and locks the NIC. A thread that reads the new number and classifies
    /// then waits for the change.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Nic> {
        let nic = self.lock();
        self.generation.fetch_add(1, Ordering::Release);
        nic
    }

    /// Changes rules, and returns once the client has been notified of verdicts that may be old.
    /// Receivers never wait for the notification. The next change does, so that a counter is not
    /// reused too early, and verdicts are those of the last change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Nic) -> T) -> T {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nic = self.lock();
        let was_timed = self.is_timed();
        let result = change(&mut nic);
        let touched = match nic.take_touched() {
            // The change may have replaced a time that is due; the generation covers its verdicts.
            _ if was_timed || self.is_timed() => AffectedPackets::Everything,
            touched => touched,
        };
        match (touched, &*follower) {
            (AffectedPackets::Nothing, _) => {}
            (AffectedPackets::Packets(tuple), Some(CaptureClient { index, update })) => {
                let sees_only_tuples = nic.sees_only_tuples();
                drop(nic);
                let Packets { numbers, are_alike } = index.packets(tuple);
                update(Packets { numbers, are_alike: are_alike && sees_only_tuples });
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

    /// Begins a generation, because verdicts have changed by the clock.
    pub(super) fn settle(&self, now_us: u64) {
        let nic = self.write();
        self.foresee_change(&nic, now_us);
    }

    /// Notes when verdicts will change by the clock.
    fn foresee_change(&self, nic: &Nic, now_us: u64) {
        self.change_us.store(nic.next_change_us(now_us).unwrap_or(0), Ordering::Release);
    }

    fn is_timed(&self) -> bool {
        self.change_us.load(Ordering::Relaxed) != 0
    }
}

/// `twin_update` of `pmd/twin_model.h`.
type Update =
    unsafe extern "C" fn(context: *mut c_void, packets: *const u32, count: u32, are_alike: bool);

/// A callback of C for changes, and its context.
struct UpdateCallback {
    update: Update,
    context: *mut c_void,
}

// SAFETY: any thread may call it, one at a time, by the contract of `twin_nic_follow`.
unsafe impl Send for UpdateCallback {}

impl UpdateCallback {
    fn call(&self, packets: Packets<'_>) {
        let Packets { numbers, are_alike } = packets;
        // SAFETY: `numbers` are as many as is said, and the context is that of the function.
        unsafe { (self.update)(self.context, numbers.as_ptr(), numbers.len() as u32, are_alike) };
    }
}

/// See `pmd/twin_model.h`.
///
/// # Safety
///
/// `nic` and `capture` are alive; for as long as rules change, any thread may call `update` with
/// `context`, one at a time.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn twin_nic_follow(
    nic: *const TwinNic,
    capture: *const Capture,
    update: Update,
    context: *mut c_void,
) {
    // SAFETY: by the contract above.
    let (nic, capture) = unsafe { (&*nic, &*capture) };
    let index = Index::of(capture.len(), |packet| capture.frame(packet as usize));
    let callback = UpdateCallback { update, context };
    let update = Box::new(move |packets: Packets<'_>| callback.call(packets));
    let follower = Some(CaptureClient { index, update });
    *nic.follower.lock().unwrap_or_else(PoisonError::into_inner) = follower;
}
