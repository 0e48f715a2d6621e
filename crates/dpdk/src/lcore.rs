// SPDX-License-Identifier: BSD-3-Clause
//! Runs work on lcores: threads that EAL started, each bound to one processor.

use crate::sys;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

/// An idle worker lcore.
#[derive(Debug)]
pub struct Lcore {
    id: u32,
    cpu: usize,
}

/// Work that runs on a worker lcore. Dropping it waits for the end, as [`join`](Job::join) does.
#[derive(Debug)]
pub struct Job<T> {
    id: u32,
    cpu: usize,
    task: NonNull<Task<T>>,
}

struct Task<T> {
    work: Option<Box<dyn FnOnce() -> T + Send>>,
    result: Option<T>,
}

impl Lcore {
    pub(crate) fn new(id: u32, cpu: usize) -> Self {
        Self { id, cpu }
    }

    /// Returns DPDK's number of this lcore, from 1; 0 is the main lcore.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the processor to which this lcore is bound.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Runs `work` on this lcore. A panic in it ends the process.
    pub fn launch<T, F>(self, work: F) -> Job<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Self { id, cpu } = self;
        let task = Box::new(Task { work: Some(Box::new(work)), result: None });
        let task = NonNull::from(Box::leak(task));
        // SAFETY:
        // - the lcore exists and is idle: `self` is its only handle and `Job` waits for its end;
        // - `run::<T>` takes the `Task<T>`, which stays until that wait is over.
        let ret = unsafe { sys::rte_eal_remote_launch(Some(run::<T>), task.as_ptr().cast(), id) };
        assert_eq!(ret, 0, "lcore {id} is idle");
        Job { id, cpu, task }
    }
}

impl<T> Job<T> {
    /// True once the work is done and [`join`](Job::join) would not wait.
    pub fn is_finished(&self) -> bool {
        // SAFETY: the lcore exists.
        unsafe { sys::rte_eal_get_lcore_state(self.id) == sys::BIND_LCORE_WAIT }
    }

    /// Waits for the end of the work; returns its result, and the lcore, which is idle again.
    pub fn join(mut self) -> (T, Lcore) {
        self.wait();
        // SAFETY: the lcore is done with the task, so this is the only reference.
        let result = unsafe { self.task.as_mut() }.result.take();
        (result.expect("finished work left its result"), Lcore::new(self.id, self.cpu))
    }

    /// Waits for the end of the work. Sleeps instead of spinning as `rte_eal_wait_lcore` would,
    /// because the main lcore may share the processor of a worker.
    fn wait(&self) {
        while !self.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: the lcore exists; it is idle, so this returns at once, ordered after its writes.
        unsafe { sys::rte_eal_wait_lcore(self.id) };
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.wait();
        // SAFETY: the box leaked in `launch`; the lcore is done with it.
        drop(unsafe { Box::from_raw(self.task.as_ptr()) });
    }
}

/// The function that the lcore calls.
extern "C" fn run<T>(task: *mut c_void) -> c_int {
    // SAFETY: `launch` passed a `Task<T>`, and the job does not look at it until this returns.
    let task = unsafe { &mut *task.cast::<Task<T>>() };
    let work = task.work.take().expect("launched once");
    task.result = Some(work());
    0
}
