// SPDX-License-Identifier: BSD-3-Clause
//! Holds DPDK's log lines back, or shows them.
//!
//! The reason of a failure is often only in the log. So while EAL starts or a port is opened, its
//! lines are held back and become part of the error. After a success they are shown only if
//! [`EalConfig::log_level`](crate::EalConfig::log_level) is above errors, because drivers complain
//! about features that they can do without. At all other times, lines of that level go straight to
//! the standard error.

use crate::{sys, vmbus};
use std::convert::Infallible;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, ThreadId};

/// Severity of DPDK's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LogLevel {
    /// Something failed.
    Error = 4,
    /// Something may be wrong.
    Warning = 5,
    /// Normal, but worth a line.
    Notice = 6,
    /// Progress of work.
    Info = 7,
    /// Everything.
    Debug = 8,
}

impl LogLevel {
    /// Returns the level at which a failure still logs its reason.
    pub(crate) fn with_reasons(self) -> LogLevel {
        self.max(LogLevel::Notice)
    }
}

/// Lines that DPDK logged during a failed call; shown indented below the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    lines: Vec<String>,
}

impl Log {
    /// Returns the lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// True if some line contains `text`.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// True if nothing was logged.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns a log of these lines.
    #[cfg(test)]
    pub(crate) fn of(lines: &[&str]) -> Self {
        Self { lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    /// Returns the log without the lines that contain one of `texts`.
    pub(crate) fn without(mut self, texts: &[&str]) -> Self {
        self.lines.retain(|line| !texts.iter().any(|text| line.contains(text)));
        self
    }

    /// Returns a log with each line once: EAL reads its arguments twice, and repeats fatal
    /// messages.
    fn new(held: Vec<(u32, String)>) -> Self {
        let mut lines = Vec::new();
        for (_, line) in held {
            if !line.starts_with("EAL: FATAL: ") && !lines.contains(&line) {
                lines.push(line);
            }
        }
        Self { lines }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Level of lines that EAL prints, instead of logging them, while it starts. Always shown.
const PRINTED: u32 = 0;

/// Lines held back, with their level, for each thread that holds some back.
static HELD: Mutex<Vec<(ThreadId, Lines)>> = Mutex::new(Vec::new());
type Lines = Vec<(u32, String)>;
static SHOWN_LEVEL: AtomicU32 = AtomicU32::new(LogLevel::Error as u32);

/// Maximum number of lines held back; failures log fewer.
const HELD_MAX: usize = 200;

/// Redirects DPDK's log to this module, and shows lines of `level` and of worse levels. Called
/// once, before EAL starts.
pub(crate) fn init(level: LogLevel) {
    SHOWN_LEVEL.store(level as u32, Ordering::Relaxed);
    // SAFETY: `write` keeps to the contract of fopencookie's write function.
    let ret = unsafe { sys::shim_log_to(Some(write)) };
    assert_eq!(ret, 0, "no memory for a log stream");
}

/// Runs `work` and holds DPDK's log lines back; returns them if it fails. Several threads may do so
/// at a time.
pub(crate) fn capture<T, E>(work: impl FnOnce() -> Result<T, E>) -> (Result<T, E>, Log) {
    let this = thread::current().id();
    HELD.lock().expect("no holder panics").push((this, Lines::new()));
    let result = work();
    let mut all = HELD.lock().expect("no holder panics");
    let own = all.iter().rposition(|(thread, _)| *thread == this).expect("pushed above");
    let (_, held) = all.remove(own);
    drop(all);
    if result.is_err() {
        return (result, Log::new(held));
    }
    let is_more_shown = SHOWN_LEVEL.load(Ordering::Relaxed) > LogLevel::Error as u32;
    let shown = held.iter().filter(|(level, _)| is_more_shown || *level == PRINTED);
    shown.for_each(|(level, line)| show(*level, line));
    (result, Log::default())
}

/// Runs `work`, which cannot fail. Shows its log lines only if more than errors is requested.
pub(crate) fn hush(work: impl FnOnce()) {
    let (Ok(()), _) = capture(|| -> Result<(), Infallible> {
        work();
        Ok(())
    });
}

fn show(level: u32, line: &str) {
    if level <= SHOWN_LEVEL.load(Ordering::Relaxed) {
        // A closed standard error is no reason to fail.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// fopencookie's write function for the log: DPDK flushes after each message, so `text` is whole
/// lines.
extern "C" fn write(_cookie: *mut c_void, text: *const c_char, length: usize) -> isize {
    // SAFETY: reads a number of the calling thread, set by the message being written.
    let level = unsafe { sys::rte_log_cur_msg_loglevel() } as u32;
    // SAFETY: stdio hands over `length` initialised bytes that stay for the length of the call.
    take(level, unsafe { std::slice::from_raw_parts(text.cast(), length) })
}

/// fopencookie's write function for glibc's `stdout` and `stderr` while EAL starts: takes what EAL
/// prints, line by line.
pub(crate) extern "C" fn write_printed(
    _cookie: *mut c_void,
    text: *const c_char,
    length: usize,
) -> isize {
    // SAFETY: as in `write`.
    take(PRINTED, unsafe { std::slice::from_raw_parts(text.cast(), length) })
}

/// Holds the lines of `bytes` back or shows them; returns the number of bytes. Lines of DPDK's own
/// threads go to the thread that began last to hold lines back, because they are most likely about
/// its call.
fn take(level: u32, bytes: &[u8]) -> isize {
    for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.trim().is_empty()) {
        match vmbus::explain(line) {
            // Also if the call succeeds: the port is of little use.
            Some(explanation) => {
                take_line(PRINTED, line);
                take_line(PRINTED, explanation);
            }
            None => take_line(level, line),
        }
    }
    bytes.len() as isize
}

/// Adds a line to those that this thread holds back.
pub(crate) fn add(line: &str) {
    take_line(LogLevel::Error as u32, line);
}

fn take_line(level: u32, line: &str) {
    let this = thread::current().id();
    let mut all = HELD.lock().expect("no holder panics");
    let own = all.iter().rposition(|(thread, _)| *thread == this);
    match own.or(all.len().checked_sub(1)).map(|place| &mut all[place].1) {
        Some(held) if held.len() < HELD_MAX => held.push((level, line.to_owned())),
        Some(_) => (),
        None => show(level, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_vf_that_is_not_found_is_explained() {
        let (_, log) = capture(|| {
            take(LogLevel::Notice as u32, b"hn_vf_attach(): Couldn't find port for VF\nnext\n");
            Err::<(), ()>(())
        });
        let lines = log.lines();
        assert!(lines[0].starts_with("hn_vf_attach()"), "{lines:?}");
        assert!(lines[1].contains("two devices") && lines[1].contains("millrace doctor"));
        assert_eq!((lines[2].as_str(), lines.len()), ("next", 3));
    }

    /// Two threads capture at once, as the programming threads of two ports do.
    #[test]
    fn each_thread_has_the_lines_of_its_own_work() {
        let together = Barrier::new(2);
        let work = |name: &str| {
            let (result, log) = capture(|| {
                together.wait();
                take(LogLevel::Error as u32, format!("{name} says no\n").as_bytes());
                together.wait();
                Err::<(), ()>(())
            });
            assert!(result.is_err());
            log.lines
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| work("one"));
            assert_eq!(work("two"), ["two says no"]);
            assert_eq!(other.join().unwrap(), ["one says no"]);
        });
        assert!(HELD.lock().unwrap().is_empty());
    }
}
