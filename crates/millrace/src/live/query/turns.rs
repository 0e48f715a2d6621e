// SPDX-License-Identifier: BSD-3-Clause
//! Owns a value that threads use one at a time, in the order of their calls. A mutex of the
//! standard library does not keep that order.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A value that threads use in turn.
pub(crate) struct Turns<T> {
    line: Mutex<Line>,
    moves: Condvar,
    value: Mutex<T>,
}

/// The queue of waiting threads, by numbers.
#[derive(Default)]
struct Line {
    /// Number of the next thread to queue.
    next: u64,
    /// Number of the thread whose turn it is.
    turn: u64,
}

/// A turn, which ends when this is dropped.
pub(crate) struct Turn<'a, T> {
    of: &'a Turns<T>,
    value: MutexGuard<'a, T>,
}

impl<T> Turns<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { line: Mutex::default(), moves: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until all earlier callers have had their turn.
    pub(crate) fn take(&self) -> Turn<'_, T> {
        let mut line = lock(&self.line);
        let number = line.next;
        line.next += 1;
        while line.turn != number {
            line = self.moves.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        drop(line);
        Turn { of: self, value: lock(&self.value) }
    }

    /// Returns the number of threads that have the value or wait for it.
    #[cfg(test)]
    fn count(&self) -> u64 {
        let line = lock(&self.line);
        line.next - line.turn
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        // The next thread waits only for the guard, which is dropped right after this.
        lock(&self.of.line).turn += 1;
        self.of.moves.notify_all();
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A panic ends the process, so a poisoned lock is harmless.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that takes the value repeatedly does not get it more often than one that waits.
    #[test]
    fn a_waiting_thread_comes_before_one_that_returns() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for round in 0..1000 {
                let first = turns.take();
                let other = scope.spawn(|| turns.take().push("other"));
                while turns.count() < 2 {
                    std::hint::spin_loop();
                }
                drop(first);
                turns.take().push("again");
                other.join().unwrap();
                assert_eq!(turns.take().split_off(0), ["other", "again"], "round {round}");
            }
        });
        assert_eq!(turns.count(), 0);
    }

    #[test]
    fn one_thread_has_it_at_a_time() {
        let turns = Turns::new(0_u32);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let mut number = turns.take();
                        let next = *number + 1;
                        std::thread::yield_now();
                        *number = next;
                    }
                });
            }
        });
        assert_eq!(*turns.take(), 4000);
    }
}
