// SPDX-License-Identifier: BSD-3-Clause
//! Ctrl-C and SIGTERM.

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first SIGINT or SIGTERM, which end a run with its summary. A second one ends the
/// program at once.
pub(crate) fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for &signal in TERM_SIGNALS {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
