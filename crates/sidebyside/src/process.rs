// SPDX-License-Identifier: BSD-3-Clause
//! A child process that is talked to line by line. It ends with its value, by its handle.

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Longest time without the line that is waited for: a capture of 2 M packets is loaded in it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines shown when something goes wrong.
const TAIL: usize = 20;

/// A running child.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    tail: VecDeque<String>,
}

impl Process {
    /// Starts `command`.
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

    /// Process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to its standard input.
    pub(crate) fn say(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.stdin, "{line}").with_context(|| self.with_tail("does not listen"))
    }

    /// Reads lines up to the first in which `find` finds something.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                bail!(self.with_tail(&format!("ended or hangs before {what}")));
            };
            let found = find(&line);
            self.keep(line);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Reads lines up to the first in which `find` finds something, but no longer than to `end`.
    pub(crate) fn line_before<T>(
        &mut self,
        end: Instant,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => bail!(self.with_tail("has ended")),
            };
            let found = find(&line);
            self.keep(line);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Stops it until it may go on.
    pub(crate) fn stand_still(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it run.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) -> anyhow::Result<()> {
        self.signal(Signal::INT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| self.with_tail("is gone"))
    }

    fn keep(&mut self, line: String) {
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                self.tail.extend(self.lines.try_iter());
                if !status.success() {
                    bail!(self.with_tail(&status.to_string()));
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!(self.with_tail("does not end"))
    }

    /// What is wrong with it, and its last lines.
    pub(crate) fn with_tail(&self, what: &str) -> String {
        let tail = self.tail.iter().skip(self.tail.len().saturating_sub(TAIL));
        let tail: Vec<&str> = tail.map(String::as_str).collect();
        format!("process {}: {what}; its last lines:\n{}", self.child.id(), tail.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only for one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `program` as a command that the kernel kills if the benchmark ends without doing so.
pub(crate) fn mortal(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// Runs to the end, which must be good, and returns what was printed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, text(&output.stderr));
    }
    Ok(text(&output.stdout))
}

/// Waits until something is so, but not for ever.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE / 6;
    while !is_so() {
        if Instant::now() > deadline {
            bail!("waited in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Sends on what can be read, until there is no more.
fn forward(pipe: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}
