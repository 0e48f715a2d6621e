// SPDX-License-Identifier: BSD-3-Clause
//! Starts child processes and exchanges lines with them. A child is killed when its value is
//! dropped.

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Longest time to wait for a line or the end of a child. Loading a capture of 2 M packets takes
/// less.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Number of a child's last lines in an error message.
const TAIL: usize = 20;

/// A running child process.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    tail: VecDeque<String>,
}

impl Process {
    /// Starts `command` with pipes to its standard input, output and error.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let (sender, lines) = mpsc::channel();
        let pipe = || anyhow!("{program} has no pipe");
        forward(child.stdout.take().ok_or_else(pipe)?, sender.clone());
        forward(child.stderr.take().ok_or_else(pipe)?, sender);
        let stdin = child.stdin.take().ok_or_else(pipe)?;
        Ok(Self { child, stdin, lines, tail: VecDeque::new() })
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to the child's standard input.
    pub(crate) fn write_line(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.stdin, "{line}")
            .with_context(|| self.error_text("has closed its standard input"))
    }

    /// Reads lines until `find` returns a value for one, and returns the value. Error messages name
    /// `what`.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                bail!(self.error_text(&format!("has ended, or does not print {what}")));
            };
            let found = find(&line);
            self.keep_line(line);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Reads lines until `find` returns a value for one, and returns the value; `None` at `end`.
    pub(crate) fn find_line_before<T>(
        &mut self,
        end: Instant,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => bail!(self.error_text("has ended")),
            };
            let found = find(&line);
            self.keep_line(line);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Stops the child (SIGSTOP).
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues the child (SIGCONT).
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends SIGINT to the child.
    pub(crate) fn interrupt(&self) -> anyhow::Result<()> {
        self.signal(Signal::INT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| self.error_text("has ended"))
    }

    fn keep_line(&mut self, line: String) {
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Waits until the child ends.
    ///
    /// # Errors
    ///
    /// If it fails, or does not end in two minutes.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                self.tail.extend(self.lines.try_iter());
                if !status.success() {
                    bail!(self.error_text(&status.to_string()));
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!(self.error_text("does not end"))
    }

    /// Formats an error message: the process id, `what` is wrong, and the child's last lines.
    pub(crate) fn error_text(&self, what: &str) -> String {
        let tail = self.tail.iter().skip(self.tail.len().saturating_sub(TAIL));
        let tail: Vec<&str> = tail.map(String::as_str).collect();
        format!("process {}: {what}; its last lines:\n{}", self.child.id(), tail.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the child has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command for `program` that the kernel kills if the benchmark ends first (`setpriv
/// --pdeathsig`).
pub(crate) fn child_command(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
///
/// If the command fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, text(&output.stderr));
    }
    Ok(text(&output.stdout))
}

/// Waits until `is_true` returns true, at most 20 seconds. Error messages name `what`.
pub(crate) fn wait_until(what: &str, is_true: impl Fn() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT / 6;
    while !is_true() {
        if Instant::now() > deadline {
            bail!("timeout while waiting for {what}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Starts a thread that reads lines from `pipe` and sends them to `sender`.
fn forward(pipe: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}
