// SPDX-License-Identifier: BSD-3-Clause
//! Carries reports from a worker to the control thread, and back to be filled again.
//!
//! A worker never waits and never allocates. If the control thread has not returned a report, the
//! worker continues with the one that it has, and its interval becomes longer.

use rtrb::{Consumer, Producer, RingBuffer};

/// Counters of an interval.
pub trait Report: Send {
    /// Sets all counters to zero.
    fn clear(&mut self);
}

/// The worker's end of a mailbox.
#[derive(Debug)]
pub struct Outbox<R> {
    current: Box<R>,
    full: Producer<Box<R>>,
    empty: Consumer<Box<R>>,
    length_ns: u64,
    end: u64,
}

/// The control thread's end of a mailbox.
#[derive(Debug)]
pub struct Inbox<R> {
    full: Consumer<Box<R>>,
    empty: Producer<Box<R>>,
}

/// Maximum number of reports on their way.
const REPORTS: usize = 8;

/// Makes both ends of a mailbox, for intervals of `length_ns` nanoseconds. `make` makes an empty
/// report.
pub fn mailbox<R: Report>(length_ns: u64, make: impl Fn() -> R) -> (Outbox<R>, Inbox<R>) {
    let (full, filled) = RingBuffer::new(REPORTS);
    let (mut spare, empty) = RingBuffer::new(REPORTS);
    for _ in 0..REPORTS {
        let pushed = spare.push(Box::new(make()));
        assert!(pushed.is_ok(), "the ring has room for all reports");
    }
    let outbox = Outbox { current: Box::new(make()), full, empty, length_ns, end: length_ns };
    (outbox, Inbox { full: filled, empty: spare })
}

impl<R: Report> Outbox<R> {
    /// Returns the report of this interval.
    #[inline(always)]
    pub fn current(&mut self) -> &mut R {
        &mut self.current
    }

    /// True if the interval is over at time `now`.
    #[inline(always)]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.end
    }

    /// Hands the report over, and begins the interval of time `now`. Returns the new report. `None`
    /// if the control thread has returned none: then the old report continues.
    pub fn hand_over(&mut self, now: u64) -> Option<&mut R> {
        self.end = (now / self.length_ns).saturating_add(1).saturating_mul(self.length_ns);
        let mut next = self.empty.pop().ok()?;
        next.clear();
        let report = std::mem::replace(&mut self.current, next);
        // There is room for every report.
        let _ = self.full.push(report);
        Some(&mut self.current)
    }
}

impl<R: Report> Inbox<R> {
    /// Passes each report that has arrived to `take`.
    pub fn take_all(&mut self, mut take: impl FnMut(&R)) {
        while let Ok(report) = self.full.pop() {
            take(&report);
            let _ = self.empty.push(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count(u64);

    impl Report for Count {
        fn clear(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn nothing_is_lost_when_nobody_takes_reports() {
        let (mut outbox, mut inbox) = mailbox(1000, Count::default);
        let mut taken = Vec::new();
        for now in 0..20 {
            outbox.current().0 += 1;
            assert!(!outbox.is_due(now * 1000 + 999) && outbox.is_due(now * 1000 + 1000));
            outbox.hand_over(now * 1000 + 1000);
        }
        inbox.take_all(|count| taken.push(count.0));
        outbox.hand_over(30_000);
        inbox.take_all(|count| taken.push(count.0));
        assert_eq!(taken, [1, 1, 1, 1, 1, 1, 1, 1, 12]);
    }
}
