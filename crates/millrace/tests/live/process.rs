// SPDX-License-Identifier: BSD-3-Clause
//! Runs a process that ends with its test.

use std::process::{Child, Command, ExitStatus};

/// A running process, killed and reaped when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let spawned = command.spawn();
        Self(spawned.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Returns the exit status; `None` while the process runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("it is our child")
    }

    /// Sends a signal by its name: `INT`, `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        run(Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id())]));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command for `program` that the kernel kills if the test ends first (`setpriv` of
/// util-linux).
pub(crate) fn mortal(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// Runs a command to its end, which must be a success. Returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}
