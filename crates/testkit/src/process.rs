// SPDX-License-Identifier: BSD-3-Clause
//! Child processes that end with their test, each by its own id, and waiting with a deadline.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Nothing takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
///
/// # Panics
/// With `what` did not happen, after a minute.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running process, killed and reaped when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `command`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        let spawned = command.spawn();
        Self(spawned.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Returns its process number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the child, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Returns its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("it is our child")
    }

    /// Waits for its end, for at most a minute, and returns its exit status.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the end of a process", || self.ended().is_some());
        self.ended().expect("it has ended")
    }

    /// Sends a signal by its name: `INT`, `TERM`.
    pub fn signal(&self, name: &str) {
        run(Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id())]));
    }

    /// Returns the first line of its standard output, a pipe that is closed afterwards; an empty
    /// line if it ends before.
    pub fn first_line(&mut self) -> String {
        let stdout = self.0.stdout.take().expect("a pipe of its output");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line of text");
        line
    }

    /// Returns what is left of its standard output, a pipe, when that is closed.
    pub fn rest_of_stdout(&mut self) -> String {
        rest_of(self.0.stdout.take())
    }

    /// Returns what is left of its standard error, a pipe, when that is closed.
    pub fn rest_of_stderr(&mut self) -> String {
        rest_of(self.0.stderr.take())
    }
}

fn rest_of(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    pipe.expect("a pipe of its output").read_to_string(&mut text).expect("text");
    text
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns `program` as a command that the kernel kills if the test ends without doing so. It needs
/// `setpriv` of util-linux.
pub fn mortal(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// Runs a command to its end and returns what it printed to standard output.
///
/// # Panics
/// If it fails, with what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}

/// Runs a command of blank-separated words and returns true if it succeeded. What it prints stays
/// visible.
pub fn succeeds(words: &str) -> bool {
    let mut words = words.split_whitespace();
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).status();
    status.unwrap_or_else(|error| panic!("{program}: {error}")).success()
}

#[cfg(test)]
mod tests {
    use super::{Process, wait_until};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_read_line_by_line_and_ends_with_its_value() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec sleep 1000"]).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        assert_eq!(process.first_line(), "ready\n");
        assert_eq!(process.ended(), None);
        let folder = format!("/proc/{}", process.id());
        drop(process);
        assert!(!std::fs::exists(folder).unwrap());
    }

    #[test]
    fn a_signal_ends_a_process_that_is_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'echo end; echo why >&2; exit 7' TERM; echo ready; read x"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let mut heard = [0; 6];
        let stdout = process.child().stdout.as_mut().unwrap();
        std::io::Read::read_exact(stdout, &mut heard).unwrap();
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(7));
        assert_eq!(
            (process.rest_of_stdout(), process.rest_of_stderr()),
            ("end\n".into(), "why\n".into())
        );
    }

    #[test]
    fn waiting_asks_again() {
        let mut asked = 0;
        wait_until("the third time", || {
            asked += 1;
            asked == 3
        });
    }
}
