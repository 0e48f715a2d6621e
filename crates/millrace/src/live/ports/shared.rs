// SPDX-License-Identifier: BSD-3-Clause
//! Shares a DPDK port between threads that are not on the packet path.

use dpdk::Port;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A port that several threads use.
#[derive(Clone, Debug)]
pub(crate) struct SharedPort(Arc<Mutex<Port>>);

impl SharedPort {
    pub(crate) fn new(port: Port) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    /// Locks the port; waits while another thread has it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Port> {
        // A panic ends the process, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
