// SPDX-License-Identifier: BSD-3-Clause
//! Ctrl-C, SIGTERM, and the hang-up of the terminal.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first of these signals, which end a run with its summary. A second one ends the
/// program at once. A hang-up that is ignored from the start stays so: that is what `nohup` is for.
pub(crate) fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM, SIGQUIT].into_iter().chain(hang_up) {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// By the kernel's mask of ignored signals, whose bit 0 is signal 1, the hang-up.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}
