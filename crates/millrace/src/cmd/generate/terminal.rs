// SPDX-License-Identifier: BSD-3-Clause
//! Shows a view on the terminal that is redrawn in place, and reads single keys.

use report::output::is_ready;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Width in columns of a terminal that does not report its width.
const USUAL_WIDTH: usize = 80;

/// The terminal. Dropping it restores the previous settings.
pub(super) struct Terminal {
    before: Termios,
    /// Lines of the view that is shown.
    lines: usize,
}

impl Terminal {
    /// Opens the terminal: from now on it passes keys on without Enter and without showing them.
    /// Ctrl-C still sends a signal.
    pub(super) fn open() -> anyhow::Result<Self> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            anyhow::bail!("--live needs a terminal: leave it out to get a line per interval");
        }
        let before = tcgetattr(io::stdin())?;
        let mut settings = before.clone();
        settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns at once with the keys that are available.
        settings.special_codes[SpecialCodeIndex::VMIN] = 0;
        settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &settings)?;
        Ok(Self { before, lines: 0 })
    }

    /// Returns the width in columns.
    pub(super) fn width(&self) -> usize {
        let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { USUAL_WIDTH } else { columns }
    }

    /// Replaces the view; does nothing if writing would block.
    pub(super) fn draw(&mut self, lines: &[String]) {
        if !is_ready(io::stdout(), Duration::ZERO) {
            return;
        }
        let mut text = String::from("\r");
        if self.lines > 0 {
            // Move the cursor up to the first line.
            text += &format!("\x1b[{}A", self.lines);
        }
        for line in lines {
            // `ESC [K` clears the rest of the line.
            text += &format!("{line}\x1b[K\n");
        }
        // `ESC [J` clears the lines below.
        text += "\x1b[J";
        self.lines = lines.len();
        let mut out = io::stdout();
        // An error means that the terminal is gone.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// True if the user has pressed q.
    pub(super) fn is_quit_pressed(&self) -> bool {
        let stdin = io::stdin();
        let mut readable = [PollFd::new(&stdin, PollFlags::IN)];
        let mut keys = [0; 64];
        // Read without a buffer, because poll does not report keys that a buffer holds.
        while poll(&mut readable, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            match rustix::io::read(&stdin, &mut keys) {
                Ok(read @ 1..) if !keys[..read].iter().any(|key| b"qQ".contains(key)) => {}
                Ok(1..) => return true,
                _ => return false,
            }
        }
        false
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
