// SPDX-License-Identifier: BSD-3-Clause
//! Signal handlers. SIGINT, SIGTERM and SIGQUIT end a command in order, a second one at once;
//! while DPDK starts the first one does. A hang-up ends a command too, or has a run reload its
//! configuration. Signals without a meaning here end it in order: none kills it without a summary.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// They ask for the end, and for an end at once if they come a second time.
const ENDS: [i32; 3] = [SIGINT, SIGTERM, SIGQUIT];
/// By default they kill the process, and nobody sends them for a reason that we know.
const OTHERS: [i32; 6] = [SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGUSR2];

/// Power fails, a coprocessor's stack did: as little as the others, and without names here.
const UNNAMED: [i32; 2] = [16, 30];

/// Those that a program may give a meaning. The C library has two below for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// True while DPDK starts.
static STARTING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// True once a signal has asked for the end.
static IS_END_ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// True if a signal has asked for the end. From this call on one kills the process: who executes
/// the program again would lose it.
pub(crate) fn is_end_asked_before_exec() -> bool {
    STARTING.store(true, Ordering::SeqCst);
    IS_END_ASKED.load(Ordering::SeqCst)
}

/// Set by the first signal that ends a command, a hang-up among them. A hang-up that is ignored
/// from the start stays so: that is what `nohup` is for.
pub(crate) fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    catch_ends(&interrupted)?;
    if !is_hang_up_ignored() {
        // No second one ends it at once: a terminal that closes sends several.
        flag::register(SIGHUP, Arc::clone(&interrupted))?;
    }
    // There is nothing to open again, and it is meant for no harm.
    flag::register(SIGUSR1, Arc::default())?;
    Ok(interrupted)
}

fn catch_ends(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in ENDS.into_iter().chain(OTHERS).chain(UNNAMED) {
        // The library does not know what those do by default.
        if !UNNAMED.contains(&signal) {
            flag::register_conditional_default(signal, Arc::clone(&STARTING))?;
        }
        if ENDS.contains(&signal) {
            flag::register_conditional_shutdown(signal, 1, Arc::clone(interrupted))?;
        }
        flag::register(signal, Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(&IS_END_ASKED))?;
    }
    // Caught, so that a file that would become too large is an error of who writes to it. Rust does
    // the same for pipes whose reader has gone.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Begins a thread that takes the signals of drivers, so that no other thread does.
pub(crate) fn leave_drivers_a_thread() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let rest = || loop {
            std::thread::park();
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(rest);
        // Without that thread somebody else must take them.
        if thread.is_ok() {
            let _ = dpdk::linux::block_driver_signals();
        }
    });
}

/// Until the result is dropped, the first signal that asks for the end kills the process: DPDK may
/// wait for other programs while it starts, and there is nothing to sum up yet.
pub(crate) fn start_up() -> StartUp {
    StartUp { outer: STARTING.swap(true, Ordering::SeqCst) }
}

/// A start-up that the first signal ends.
pub(crate) struct StartUp {
    /// It is part of another one, which goes on.
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
    /// Catches them. A hang-up ends a run that cannot reload.
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

    /// Catches real-time signals that nobody else has caught, so that they end the run in order.
    /// DPDK has started by then: its drivers take some of them.
    pub(crate) fn catch_real_time(&self) -> io::Result<()> {
        let taken = signals_of("SigCgt") | signals_of("SigIgn");
        for signal in REAL_TIME.filter(|signal| taken & 1 << (signal - 1) == 0) {
            flag::register(signal, Arc::clone(&self.interrupted))?;
        }
        Ok(())
    }

    /// True if SIGUSR1 came since the last call: log rotation asks for output files to be opened
    /// again.
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    /// True if a hang-up asks for a reload; several since the last call are one. A hang-up of a
    /// run that cannot reload, or whose terminal is gone, sets `interrupted` instead.
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

/// The kernel hangs up the descriptors of a terminal that is closed.
fn is_terminal_gone() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
    let count = poll(&mut fds, Some(&Timespec::default()));
    count.is_ok_and(|count| count > 0)
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn is_hang_up_ignored() -> bool {
    signals_of("SigIgn") & 1 << (SIGHUP - 1) != 0
}

/// A mask of signals of this process, as the kernel tells it: bit 0 is signal 1 (proc(5), status).
fn signals_of(mask: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(mask)?.strip_prefix(':'));
    value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0)
}
