// SPDX-License-Identifier: BSD-3-Clause
//! Installs signal handlers. SIGINT, SIGTERM and SIGQUIT end a command in order; a second one ends
//! it at once, and so does the first while DPDK starts. A hang-up ends a command too, or makes a
//! run reload its configuration. Signals without a meaning here also end it in order, so that none
//! kills it without a summary.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// Signals that request the end, and a second time an end at once.
const ENDS: [i32; 3] = [SIGINT, SIGTERM, SIGQUIT];
/// Signals that kill a process by default, and that have no known purpose here.
const OTHERS: [i32; 6] = [SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGUSR2];

/// SIGSTKFLT and SIGPWR, which also have no purpose here; the library has no names for them.
const UNNAMED: [i32; 2] = [16, 30];

/// Signals that a program may use as it likes. The C library keeps two below for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// True while DPDK starts.
static STARTING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// True once a signal has requested the end.
static IS_END_REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// True if a signal has requested the end. From this call on such a signal kills the process, since
/// an exec of the program again would lose the request.
pub(crate) fn is_end_requested_before_exec() -> bool {
    STARTING.store(true, Ordering::SeqCst);
    IS_END_REQUESTED.load(Ordering::SeqCst)
}

/// Returns a flag that is set by the first signal that ends a command, including a hang-up. A
/// hang-up that was ignored from the start stays ignored, as `nohup` wants it.
pub(crate) fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    catch_ends(&interrupted)?;
    if !is_hang_up_ignored() {
        // A second hang-up does not end it at once: a closing terminal sends several.
        flag::register(SIGHUP, Arc::clone(&interrupted))?;
    }
    // SIGUSR1 is ignored, since a command has no files to open again.
    flag::register(SIGUSR1, Arc::default())?;
    Ok(interrupted)
}

/// Makes signals set `interrupted`. A second one that requests the end exits with status 1.
fn catch_ends(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in ENDS.into_iter().chain(OTHERS).chain(UNNAMED) {
        // The library does not know the default action of unnamed signals.
        if !UNNAMED.contains(&signal) {
            flag::register_conditional_default(signal, Arc::clone(&STARTING))?;
        }
        if ENDS.contains(&signal) {
            flag::register_conditional_shutdown(signal, 1, Arc::clone(interrupted))?;
        }
        flag::register(signal, Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(&IS_END_REQUESTED))?;
    }
    // Caught, so that a file that grows too large gives its writer an error. Rust does the same for
    // pipes without a reader.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Starts a thread that takes the signals of drivers, so that no other thread does.
pub(crate) fn start_driver_signal_thread() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let rest = || loop {
            std::thread::park();
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(rest);
        // Without that thread the signals must go to another one.
        if thread.is_ok() {
            let _ = dpdk::linux::block_driver_signals();
        }
    });
}

/// Makes the first signal that requests the end kill the process, until the result is dropped. DPDK
/// may wait for other programs while it starts, and there is no summary to write yet.
pub(crate) fn start_up() -> StartUp {
    StartUp { outer: STARTING.swap(true, Ordering::SeqCst) }
}

/// A period in which the first signal kills the process.
pub(crate) struct StartUp {
    /// True if it began within another such period, which goes on after it.
    outer: bool,
}

impl Drop for StartUp {
    fn drop(&mut self) {
        STARTING.store(self.outer, Ordering::SeqCst);
    }
}

/// The signals of a run.
pub(crate) struct RunSignals {
    /// Set by the first signal that ends the run.
    pub(crate) interrupted: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    had_terminal: bool,
    can_reload: bool,
}

impl RunSignals {
    /// Installs the handlers. A hang-up ends a run that cannot reload.
    pub(crate) fn catch(can_reload: bool) -> io::Result<Self> {
        let [interrupted, hung_up, reopen] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        catch_ends(&interrupted)?;
        if !is_hang_up_ignored() {
            flag::register(SIGHUP, Arc::clone(&hung_up))?;
        }
        flag::register(SIGUSR1, Arc::clone(&reopen))?;
        let had_terminal = io::stdin().is_terminal() && !is_terminal_gone();
        Ok(Self { interrupted, hung_up, reopen, had_terminal, can_reload })
    }

    /// Makes real-time signals end the run in order, except those that have a handler already. DPDK
    /// has started by then, and its drivers use some of them.
    pub(crate) fn catch_real_time(&self) -> io::Result<()> {
        let taken = signals_of("SigCgt") | signals_of("SigIgn");
        for signal in REAL_TIME.filter(|signal| taken & 1 << (signal - 1) == 0) {
            flag::register(signal, Arc::clone(&self.interrupted))?;
        }
        Ok(())
    }

    /// True if SIGUSR1 arrived since the last call: log rotation wants output files to be opened
    /// again.
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    /// True if a hang-up requests a reload; several since the last call count as one. A hang-up
    /// sets `interrupted` instead if the run cannot reload, or if its terminal is gone.
    pub(crate) fn take_reload(&self) -> bool {
        if !self.hung_up.swap(false, Ordering::Relaxed) {
            return false;
        }
        let reloads = self.can_reload && !(self.had_terminal && is_terminal_gone());
        if !reloads {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        reloads
    }
}

/// True if standard input was a terminal that is closed: the kernel hangs up its descriptors.
fn is_terminal_gone() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
    let count = poll(&mut fds, Some(&Timespec::default()));
    count.is_ok_and(|count| count > 0)
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// True if SIGHUP is ignored, as after a start by `nohup`.
fn is_hang_up_ignored() -> bool {
    signals_of("SigIgn") & 1 << (SIGHUP - 1) != 0
}

/// Parses a mask of signals from /proc (proc(5), status): bit 0 is signal 1.
fn signals_of(mask: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(mask)?.strip_prefix(':'));
    value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0)
}
