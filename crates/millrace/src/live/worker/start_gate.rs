// SPDX-License-Identifier: BSD-3-Clause
//! Makes all workers begin to poll at the same time, once each of them has its table.
//!
//! The clock of a run starts when the gate opens. If a worker polled before, the run would count
//! packets of a time that its duration does not include.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Time between two checks of the control thread whether all workers are ready.
const READY_NAP: Duration = Duration::from_millis(1);
/// Time between two checks of a worker whether it may begin. It sleeps, because it may share its
/// cpu with a worker that still fills its table.
const OPEN_NAP: Duration = Duration::from_micros(50);

/// The gate at which the workers of a run wait for each other.
#[derive(Debug, Default)]
pub(crate) struct StartGate {
    /// Workers that are ready to poll.
    ready: AtomicUsize,
    is_open: AtomicBool,
}

impl StartGate {
    /// Reports that a worker is ready. Waits until the gate is open, or `stop` is set.
    pub(crate) fn pass(&self, stop: &AtomicBool) {
        self.ready.fetch_add(1, Ordering::Release);
        while !self.is_open.load(Ordering::Acquire) && !stop.load(Ordering::Relaxed) {
            thread::sleep(OPEN_NAP);
        }
    }

    /// Waits until this many workers are ready.
    pub(crate) fn wait_for(&self, workers: usize) {
        while self.ready.load(Ordering::Acquire) < workers {
            thread::sleep(READY_NAP);
        }
    }

    /// Lets all workers begin.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{self, RecvTimeoutError};

    /// Starts `workers` threads that pass the gate; each then sends a message.
    fn start(gate: &Arc<StartGate>, stop: &Arc<AtomicBool>, workers: usize) -> mpsc::Receiver<()> {
        let (sender, passed) = mpsc::channel();
        for _ in 0..workers {
            let (gate, stop, sender) = (Arc::clone(gate), Arc::clone(stop), sender.clone());
            thread::spawn(move || {
                gate.pass(&stop);
                sender.send(()).unwrap();
            });
        }
        passed
    }

    #[test]
    fn no_worker_begins_before_the_gate_opens() {
        let (gate, stop) = Default::default();
        let passed = start(&gate, &stop, 2);
        gate.wait_for(2);
        assert_eq!(passed.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        gate.open();
        passed.recv().unwrap();
        passed.recv().unwrap();
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let (gate, stop) = Default::default();
        let passed = start(&gate, &stop, 1);
        gate.wait_for(1);
        stop.store(true, Ordering::Relaxed);
        passed.recv().unwrap();
    }
}
