// SPDX-License-Identifier: BSD-3-Clause
//! A terminal that shows a view in place of lines, and takes single keys.

use report::output::is_ready;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Columns of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// The terminal; dropped, it is as it was before.
pub(super) struct Terminal {
    before: Termios,
    /// Lines of the view on it.
    lines: usize,
}

impl Terminal {
    /// Takes keys from now on without an Enter and without showing them. Ctrl-C stays a signal.
    pub(super) fn open() -> anyhow::Result<Self> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            anyhow::bail!("--live needs a terminal: leave it out to get a line per interval");
        }
        let before = tcgetattr(io::stdin())?;
        let mut wanted = before.clone();
        wanted.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns with what there is.
        wanted.special_codes[SpecialCodeIndex::VMIN] = 0;
        wanted.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &wanted)?;
        Ok(Self { before, lines: 0 })
    }

    /// Columns.
    pub(super) fn width(&self) -> usize {
        let told = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if told == 0 { USUAL_WIDTH } else { told }
    }

    /// Replaces the view. Skips it if that would have to wait.
    pub(super) fn draw(&mut self, lines: &[String]) {
        if !is_ready(io::stdout(), Duration::ZERO) {
            return;
        }
        let mut text = String::from("\r");
        if self.lines > 0 {
            // Up to its first line.
            text += &format!("\x1b[{}A", self.lines);
        }
        for line in lines {
            // Clears the rest of the line.
            text += &format!("{line}\x1b[K\n");
        }
        // And what is below.
        text += "\x1b[J";
        self.lines = lines.len();
        let mut out = io::stdout();
        // A terminal that is gone sees nothing.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Returns true if somebody has pressed q.
    pub(super) fn is_end_asked(&self) -> bool {
        let stdin = io::stdin();
        let mut readable = [PollFd::new(&stdin, PollFlags::IN)];
        let mut keys = [0; 64];
        // Straight from the terminal: what a buffer holds, no poll shows.
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
