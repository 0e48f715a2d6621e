// SPDX-License-Identifier: BSD-3-Clause
//! Ctrl-C, SIGTERM, and the hang-up of the terminal.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first of these signals, which end a run with its summary. A second one ends the
/// program at once.
pub(crate) fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGQUIT, SIGHUP] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
