// SPDX-License-Identifier: BSD-3-Clause
//! Saves connections from workers to disk: in intervals, and before the end of a run.
//!
//! A thread of its own requests the connections of one worker after the other and writes them,
//! because disks may take seconds. A worker checks a few records in one round of housekeeping, as
//! far as its ring has room, and never waits.

use crate::live::clock::{Clock, system_now};
use checkpoint::{Place, Resume, ResumeOutcome, Snapshots};
use dpdk::{rss_secret, tsc};
use engine::{ConnSnapshot, Cursor, Engine, Nanos};
use report::output::{Standstill, write_line};
use report::summary;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Records that a worker checks in one round of housekeeping.
const RECORDS: usize = 16;
/// Capacity of the ring of connections from a worker.
const RING: usize = 2048;
/// Time between two checks for more connections.
const NAP: Duration = Duration::from_micros(200);
/// The last snapshot of a run is given up if the disk takes nothing for this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker's ends of the rings to the checkpoint thread.
pub(crate) struct CheckpointSource {
    requests: Consumer<()>,
    saved: Producer<Option<ConnSnapshot>>,
    cursor: Option<Cursor>,
}

/// The checkpoint thread's ends of the rings to one worker.
struct WorkerRings {
    place: Place,
    workers: u16,
    requests: Producer<()>,
    saved: Consumer<Option<ConnSnapshot>>,
}

impl CheckpointSource {
    fn new(place: Place, workers: u16) -> (Self, WorkerRings) {
        let (request, requests) = RingBuffer::new(1);
        let (producer, saved) = RingBuffer::new(RING);
        let source = Self { requests, saved: producer, cursor: None };
        (source, WorkerRings { place, workers, requests: request, saved })
    }

    /// Pushes some of the connections requested; returns the number of records checked, 0 if none
    /// is requested or the ring is full.
    #[inline(always)]
    pub(crate) fn serve(&mut self, engine: &Engine) -> usize {
        if self.cursor.is_none() && self.requests.is_empty() {
            return 0;
        }
        self.serve_some(engine)
    }

    #[inline(never)]
    fn serve_some(&mut self, engine: &Engine) -> usize {
        if self.cursor.is_none() && self.requests.pop().is_ok() {
            self.cursor = Some(Cursor::default());
        }
        let Some(cursor) = &mut self.cursor else { return 0 };
        // One slot is kept for the end mark.
        let budget = self.saved.slots().saturating_sub(1).min(RECORDS);
        if budget == 0 {
            return 0;
        }
        let saved = &mut self.saved;
        let mut push = |item| saved.push(item).unwrap_or_else(|_| unreachable!("there is room"));
        if !engine.save(cursor, budget as u32, &mut |flow| push(Some(flow))) {
            push(None);
            self.cursor = None;
        }
        budget
    }
}

/// Figures and errors of snapshots, shared with other threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckpointStatus {
    sum: Arc<Mutex<summary::Snapshot>>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl CheckpointStatus {
    pub(crate) fn read(&self) -> summary::Snapshot {
        self.lock().clone()
    }

    /// Returns errors in reading the previous run's files since the last call.
    pub(crate) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.complaints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, summary::Snapshot> {
        // A panic ends the process, so a poisoned lock is harmless.
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a worker restored before its first packet. Workers restore side by side.
    pub(crate) fn add(&self, outcome: ResumeOutcome) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.extend(outcome.complaints);
        let mut sum = self.lock();
        sum.restored += outcome.restored;
        sum.expired += outcome.expired;
        sum.refused += outcome.refused;
        sum.restore_ms = sum.restore_ms.max(outcome.took.as_millis() as u64);
    }
}

/// The checkpoint thread before its start.
pub(crate) struct Checkpointer {
    snapshots: Snapshots,
    workers: Vec<WorkerRings>,
    /// The clock of the workers.
    clock: Clock,
    status: CheckpointStatus,
    /// Progress: connections taken from workers, and files begun and finished.
    steps: Arc<AtomicU64>,
}

/// Returns a worker's end, and the files from which it restores connections. `place` is one of
/// `workers` places of its wire. Without snapshots both are empty.
pub(crate) fn of_worker(
    checkpointer: &mut Option<Checkpointer>,
    (place, workers): (Place, u16),
) -> (Option<CheckpointSource>, Resume) {
    let Some(checkpointer) = checkpointer else { return (None, Resume::default()) };
    (Some(checkpointer.add(place, workers)), checkpointer.snapshots.take(place))
}

/// The running checkpoint thread.
pub(crate) struct Running {
    thread: JoinHandle<()>,
    stop: Sender<()>,
    steps: Arc<AtomicU64>,
    /// Measures progress after the request to stop; `None` before it.
    standstill: Option<Standstill>,
}

impl Checkpointer {
    pub(crate) fn new(snapshots: Snapshots, clock: Clock, status: &CheckpointStatus) -> Self {
        let (workers, status, steps) = (Vec::new(), status.clone(), Arc::default());
        Self { snapshots, workers, clock, status, steps }
    }

    /// Adds the rings of a worker at `place`, one of `workers` of its wire; returns the worker's
    /// end.
    fn add(&mut self, place: Place, workers: u16) -> CheckpointSource {
        let (source, rings) = CheckpointSource::new(place, workers);
        self.workers.push(rings);
        source
    }

    /// Starts the thread. If that fails, prints why, and the instance runs without snapshots.
    pub(crate) fn start(self) -> Option<Running> {
        let (stop, stopped) = channel();
        let steps = Arc::clone(&self.steps);
        let thread = std::thread::Builder::new().name("snapshots".to_owned());
        match thread.spawn(move || self.run(&stopped)) {
            Ok(thread) => Some(Running { thread, stop, steps, standstill: None }),
            Err(error) => {
                write_line(
                    io::stderr(),
                    format_args!("millrace: no snapshots: cannot start their thread: {error}"),
                );
                None
            }
        }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        let mut is_reported = false;
        loop {
            let is_last = match self.snapshots.every {
                Some(every) => stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout),
                None => {
                    let _ = stopped.recv();
                    true
                }
            };
            match self.save() {
                Ok(()) => is_reported = false,
                Err(error) if !is_reported => {
                    write_line(
                        io::stderr(),
                        format_args!("millrace: {error}; forwarding continues"),
                    );
                    is_reported = true;
                }
                Err(_) => {}
            }
            if is_last {
                return;
            }
        }
    }

    /// Writes one file for each worker.
    fn save(&mut self) -> Result<(), String> {
        let (begun, mut bytes) = (Instant::now(), 0);
        let mut result = Ok(());
        for worker in &mut self.workers {
            match worker.write(&self.snapshots, self.clock, &self.steps) {
                Ok(more) => bytes += more,
                Err(error) => {
                    let path = self.snapshots.store.path(worker.place);
                    let message = format!("cannot write snapshot {}: {error}", path.display());
                    result = result.and(Err(message));
                }
            }
        }
        if result.is_ok() {
            let mut status = self.status.lock();
            status.written += 1;
            status.last_ms = begun.elapsed().as_millis() as u64;
            status.bytes = bytes;
        }
        result
    }
}

impl WorkerRings {
    /// Writes the file of a worker; returns its length in bytes. After an error of the disk, still
    /// takes all connections that the worker pushes. Otherwise the next file would get the rest.
    fn write(&mut self, snapshots: &Snapshots, clock: Clock, steps: &AtomicU64) -> io::Result<u64> {
        let clocks = Clocks { system: system_now(), workers: clock.at(tsc()) };
        let header = snapshots.header((self.place, self.workers), clocks.system, rss_secret());
        let mut file = Some(snapshots.store.begin(&header)?);
        let mut failed = None;
        if self.requests.push(()).is_err() {
            return Err(io::Error::other("the worker is at the one before"));
        }
        loop {
            match self.saved.pop() {
                Ok(Some(flow)) => {
                    steps.fetch_add(1, Ordering::Relaxed);
                    let written =
                        file.as_mut().map_or(Ok(()), |file| file.flow(&clocks.kept(flow)));
                    if let Err(error) = written {
                        (failed, file) = (Some(error), None);
                    }
                }
                Ok(None) => break,
                Err(_) if self.saved.is_abandoned() => {
                    return Err(io::Error::other("the worker has ended"));
                }
                Err(_) => std::thread::sleep(NAP),
            }
        }
        match (file, failed) {
            (Some(file), _) => file.finish(),
            (None, error) => Err(error.unwrap_or_else(|| io::Error::other("nothing was written"))),
        }
    }
}

/// Readings of two clocks at one moment. They differ because the workers' clock is set only once:
/// since then the system clock may have been corrected, or the cycle counter may have stood still
/// while a virtual machine slept.
struct Clocks {
    system: Nanos,
    workers: Nanos,
}

impl Clocks {
    /// Converts a connection for the next run, whose clock starts from the system clock: its idle
    /// time stays as it is. Its start time stays too, since that identifies the records of one
    /// connection.
    fn kept(&self, flow: ConnSnapshot) -> ConnSnapshot {
        let last_seen = flow.last_seen.saturating_add(self.system).saturating_sub(self.workers);
        ConnSnapshot { last_seen, ..flow }
    }
}

impl Running {
    /// Requests the last snapshot, after which the thread ends.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.send(());
        self.standstill = Some(Standstill::new(self.steps.load(Ordering::Relaxed)));
    }

    /// True once the last snapshot is written, or given up because the disk made no progress for
    /// [`PATIENCE`].
    pub(crate) fn is_over(&mut self) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        let lasts = self.standstill.as_mut().map(|standstill| standstill.lasts(steps));
        let is_given_up = lasts.is_some_and(|lasts| lasts >= PATIENCE);
        if is_given_up {
            let message = "millrace: cannot write the last snapshot: no progress for 30 s";
            write_line(io::stderr(), message);
        }
        self.thread.is_finished() || is_given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checkpoint::Settings;
    use engine::{Config, Query, Verdict, ZoneSource};
    use wire::{BytesPacket, FrameBuilder};

    const SECOND: Nanos = 1_000_000_000;
    const HOUR: i64 = 3600 * SECOND as i64;
    const PLACE: Place = Place { pair: 0, worker: 0 };

    fn open(folder: &std::path::Path) -> Snapshots {
        let settings = Settings { folder: folder.to_owned(), every: None };
        Snapshots::open(&settings, [(1, ZoneSource::OuterVlan)].into_iter()).unwrap()
    }

    /// Returns an engine at time `now` with a connection that has been idle for `idle`.
    fn engine(now: Nanos, idle: Nanos) -> Engine {
        let mut engine = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53);
        for frame in [there.clone().build(), there.reversed().build()] {
            engine.process(now - idle, &[BytesPacket::new(&frame)], &mut [Verdict::Forward]);
        }
        engine
    }

    /// Saves and restores a connection with a timeout of 30 seconds that has been idle for 10. The
    /// clock of the run before was `ahead` of the system clock. Returns the outcome and the time of
    /// the timeout.
    fn restored(ahead: i64) -> (ResumeOutcome, Option<Nanos>) {
        let scratch = tempfile::tempdir().unwrap();
        let clock = Clock::new(tsc(), SECOND).ahead_by(ahead);
        let (mut worker_source, mut rings) = CheckpointSource::new(PLACE, 1);
        let before = engine(clock.at(tsc()), 10 * SECOND);
        let snapshots = open(scratch.path());
        std::thread::scope(|scope| {
            let write = scope.spawn(|| rings.write(&snapshots, clock, &AtomicU64::new(0)).unwrap());
            while !write.is_finished() {
                worker_source.serve(&before);
            }
        });
        let mut after = Engine::new(&Config { capacity_ipv4: 64, ..Config::default() });
        let now = system_now();
        let outcome = open(scratch.path()).take(PLACE).restore(&mut after, || now);
        let mut expires = None;
        after.list(&Query::default(), &mut Cursor::default(), 64, &mut |flow| {
            expires = Some(flow.expires.saturating_sub(now));
        });
        (outcome, expires)
    }

    #[test]
    fn timeouts_go_on_whatever_became_of_the_clock_meanwhile() {
        for ahead in [0, -HOUR, HOUR] {
            let (outcome, expires) = restored(ahead);
            assert_eq!((outcome.restored, outcome.expired), (1, 0), "{ahead}");
            let expires = expires.unwrap();
            assert!(expires <= 20 * SECOND, "its timeout goes on: {expires}, {ahead}");
        }
    }
}
