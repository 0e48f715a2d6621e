// SPDX-License-Identifier: BSD-3-Clause
//! Owns two network namespaces with a veth pair between them, and the programs that run in them.
//! Dropping the testbed removes all of it. If this process is killed instead, the kernel ends the
//! programs, and removes each namespace with the last program in it.

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// Interfaces of the generator and of the reflector, in their namespaces.
pub(super) const INTERFACES: [&str; 2] = ["mr-gen", "mr-reflect"];
/// Addresses of the interfaces, from the network of RFC 2544.
pub(super) const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
/// Time in which a program must end before it is killed.
const END: Duration = Duration::from_secs(5);

/// The end of a wire at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Generator,
    Reflector,
}

/// Two namespaces and a veth pair.
pub(super) struct Testbed {
    /// Processes that hold the namespaces.
    holders: [Running; 2],
}

/// A running program. Dropping the value ends it.
pub(super) struct Running(Child);

impl Testbed {
    /// Makes the namespaces and the veth pair.
    pub(super) fn new() -> anyhow::Result<Self> {
        let bed = Self { holders: [hold()?, hold()?] };
        let [generator, reflector] = &bed.holders;
        let [a, b] = INTERFACES;
        ip(&format!(
            "link add {a} netns {} type veth peer name {b} netns {}",
            generator.0.id(),
            reflector.0.id()
        ))?;
        for (end, (interface, address)) in
            [End::Generator, End::Reflector].into_iter().zip(INTERFACES.into_iter().zip(ADDRESSES))
        {
            bed.run(end, "ip", &format!("address add {address}/24 dev {interface}"))?;
            bed.run(end, "ip", &format!("link set {interface} up"))?;
        }
        // A reflector on a DPDK port does not answer ARP requests.
        let mac = bed.mac(End::Reflector)?;
        let neighbour = format!("neighbour add {} lladdr {mac} dev {a}", ADDRESSES[1]);
        bed.run(End::Generator, "ip", &neighbour)?;
        Ok(bed)
    }

    /// Returns a command that runs `program` at this end.
    pub(super) fn command(&self, end: End, program: impl AsRef<Path>) -> anyhow::Result<Command> {
        let mut command = end_with_us("nsenter")?;
        let namespace = self.holders[end as usize].network_namespace();
        command.arg(format!("--net={}", namespace.display())).arg("--").arg(program.as_ref());
        Ok(command)
    }

    fn run(&self, end: End, program: &str, words: &str) -> anyhow::Result<String> {
        succeed(self.command(end, program)?.args(words.split(' ')))
    }

    fn mac(&self, end: End) -> anyhow::Result<String> {
        let interface = INTERFACES[end as usize];
        let shown = self.run(end, "ip", &format!("-o link show {interface}"))?;
        let words: Vec<&str> = shown.split_whitespace().collect();
        let place = words.iter().position(|word| *word == "link/ether");
        let mac = place.and_then(|place| words.get(place + 1));
        Ok((*mac.context("ip shows no MAC address")?).to_owned())
    }
}

/// Returns the path of this program.
pub(super) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// Returns a command that the kernel ends with SIGTERM when the thread that starts it ends.
pub(super) fn end_with_us(program: impl AsRef<Path>) -> anyhow::Result<Command> {
    let mut command = Command::new(this_program()?);
    command.args([SUBCOMMAND, &std::process::id().to_string()]).arg(program.as_ref());
    Ok(command)
}

/// Name of the hidden command that [`end_with_us`] starts.
pub(crate) const SUBCOMMAND: &str = "end-with-parent";

/// Run a program that ends with its parent
///
/// The standard library can set a parent-death signal only with unsafe code. A process can set its
/// own, and keeps it when it executes another program (PR_SET_PDEATHSIG(2const)).
#[derive(clap::Args)]
pub(crate) struct EndWithParentArgs {
    /// Process id of the parent
    parent: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Executes the program in this process, which ends with its parent from now on. `run_here` runs a
/// command line of this program without executing it anew.
pub(crate) fn end_with_parent(
    args: &EndWithParentArgs,
    run_here: impl FnOnce(&[OsString]) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot ask for a signal at the end of the parent")?;
    // If the parent has ended before, no signal comes.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(args.parent) {
        bail!("the process that started this one has ended");
    }
    let [program, rest @ ..] = &args.command[..] else { bail!("a program is missing") };
    // A file with capabilities loses the signal when it is executed. Devices and daemons do not end
    // by themselves; other generators do, and their results have the command line.
    let is_endless = rest.first().is_some_and(|it| it == "reflect" || it == "run")
        || rest.iter().any(|it| it == "--daemon");
    if Path::new(program) == this_program()? && is_endless {
        return run_here(&args.command);
    }
    Err(Command::new(program).args(rest).exec()).with_context(|| format!("cannot run {program:?}"))
}

/// Starts a process that holds a new network namespace.
pub(super) fn hold() -> anyhow::Result<Running> {
    let mut command = end_with_us("unshare")?;
    command.args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"]);
    command.stdout(Stdio::piped());
    let mut holder = Running(command.spawn().context("cannot run unshare")?);
    let output = holder.0.stdout.take().context("unshare has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("cannot read from unshare")?;
    if line != "ready\n" {
        bail!("cannot make a network namespace: it needs root, and ip of iproute2");
    }
    Ok(holder)
}

fn ip(words: &str) -> anyhow::Result<String> {
    succeed(Command::new("ip").args(words.split(' ')))
}

/// Runs a command that must succeed; returns its standard output.
pub(super) fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&stderr).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

impl Running {
    /// Starts a program without output.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Self(command.spawn().with_context(|| format!("cannot run {command:?}"))?))
    }

    /// Starts a program that writes to a file.
    pub(super) fn start_with_log(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Self(command.spawn().with_context(|| format!("cannot run {command:?}"))?))
    }

    /// Returns its process ID.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the file of the network namespace of the program.
    pub(super) fn network_namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.0.id()))
    }

    /// Waits until the program prints a line with this beginning on standard error. Returns the
    /// rest of the line, and standard error, which the caller must keep open. Fails if the program
    /// ends before; the error has the line of its error, or else the last line.
    pub(super) fn wait_for_line(
        &mut self,
        beginning: &str,
    ) -> anyhow::Result<(String, BufReader<ChildStderr>)> {
        let stderr = self.0.stderr.take().context("standard error is read already")?;
        let mut lines = BufReader::new(stderr);
        let mut reason = String::new();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).context("cannot read from the program")? == 0 {
                bail!("the program has ended: {}", reason.trim());
            }
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok((rest.trim().to_owned(), lines));
            }
            // Hints about the use follow an error of the command line.
            if !reason.starts_with("error: ") && !line.trim().is_empty() {
                reason = line;
            }
        }
    }

    /// Fails if the program has ended; the error has its standard error.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.0.try_wait()? else { return Ok(()) };
        let mut printed = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut printed)?;
        }
        bail!("the program has ended with {status}: {}", printed.trim())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let begun = Instant::now();
        // An error means that the process has ended already.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        while matches!(self.0.try_wait(), Ok(None)) {
            if begun.elapsed() > END {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
