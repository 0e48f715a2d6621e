// SPDX-License-Identifier: BSD-3-Clause
//! Opens and writes the outputs of a run besides standard error: flow records, summary, report.

mod locked;
mod patient;
mod replaceable;
mod standstill;

pub use locked::{Kind, LockedFile};
pub use patient::{Patient, is_ready};
pub use replaceable::Replaceable;
pub use standstill::Standstill;

use crate::records::{Existing, OpenError, RecordSink, Target, Writer};
use crate::summary::Summary;
use crate::top_flows::TopFlows;
use anyhow::Context;
use clap::error::ErrorKind;
use results::names::printable_lines;
use serde::Serialize;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of the outputs.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Write a flow record per connection: JSON Lines to FILE.jsonl or `-`, CSV to FILE.csv
    ///
    /// `run` appends to a FILE of flow records; `replay` and `demo` replace its records. All refuse
    /// a file with anything else. On SIGUSR1 `run` closes FILE and opens it by its name again.
    #[arg(long, value_name = "FILE")]
    flows: Option<Target>,
    /// Write the summary as JSON to FILE or `-`. FILE must be new, empty or a summary
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the N busiest flows
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: u16,
}

/// The first bytes of every summary, of a run and of a demonstration. `--json` overwrites such
/// files.
const JSON_BEGIN: &str = "{\n  \"version\": ";

/// The outputs of a command, opened before the work begins.
pub struct Outputs {
    json: JsonFile,
    /// True if standard output is free for the report.
    pub report: bool,
}

/// The destination of the summary.
enum Json {
    Stdout,
    File(Replaceable),
}

/// The destination of results as JSON, if there is one.
pub struct JsonFile(Option<Json>);

impl JsonFile {
    /// Opens or creates the file. Refuses a file with other contents.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        Self::open_as(Kind::public("summary"), path)
    }

    fn open_as(kind: Kind, path: Option<&Path>) -> anyhow::Result<Self> {
        path.map(|path| open_json(path, kind)).transpose().map(Self)
    }

    /// True if results go to standard output, so that it is not free for other text.
    pub fn is_stdout(&self) -> bool {
        matches!(self.0, Some(Json::Stdout))
    }

    /// Writes `results`.
    pub fn write(self, results: &impl Serialize) -> anyhow::Result<()> {
        let Some(json) = self.0 else { return Ok(()) };
        let mut text = serde_json::to_vec_pretty(results)?;
        text.push(b'\n');
        let (name, written) = match json {
            Json::Stdout => {
                let written = Patient::stdout().and_then(|mut out| out.write_all(&text));
                ("the JSON to standard output".to_owned(), written)
            }
            Json::File(file) => (file.path.display().to_string(), file.write(&text).map(drop)),
        };
        written.with_context(|| format!("cannot write {name}"))
    }
}

/// The command that opens its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Appends to a file of flow records.
    Run,
    /// Replaces the records of a file.
    Demo,
    /// Replaces the records of a file, ends at the first record that cannot be written, and waits
    /// for a reader without a limit.
    Replay,
}

impl OutputArgs {
    /// Opens or creates every output. Refuses outputs that are also `inputs`, which the command has
    /// yet to read.
    pub fn open(
        &self,
        command: Command,
        inputs: &[PathBuf],
    ) -> anyhow::Result<(Outputs, RecordSink)> {
        let flows_on_stdout = self.flows == Some(Target::Stdout);
        let json_on_stdout = self.json.as_deref().is_some_and(names_stdout);
        if flows_on_stdout && json_on_stdout {
            let message = "--flows and --json cannot both write to standard output\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, message).exit();
        }
        let flows = self.flows.as_ref().and_then(Target::path);
        refuse_to_overwrite(&[("--flows", flows), ("--json", self.json.as_deref())], inputs);
        // The report names the ends of connections.
        let json = JsonFile::open_as(Kind::private("summary"), self.json.as_deref())?;
        let flows = self.flows.as_ref().map(|target| open_flows(target, command)).transpose()?;
        let sink = RecordSink::new(flows, TopFlows::new(usize::from(self.top)));
        Ok((Outputs { json, report: !flows_on_stdout && !json_on_stdout }, sink))
    }

    /// Returns the files that are opened by name again while the command runs.
    pub fn reopened_files(&self) -> Vec<PathBuf> {
        let flows = self.flows.as_ref().and_then(Target::path);
        flows.filter(|path| !names_stdout(path)).map(Path::to_owned).into_iter().collect()
    }

    /// Returns the context of an error of writing flow records.
    pub fn writing(&self) -> String {
        let target = self.flows.as_ref().map(Target::to_string).unwrap_or_default();
        format!("cannot write flow records to {target}")
    }
}

/// Writes a line, or several, with control characters escaped: names of files may have some. Skips
/// it if the reader takes nothing for a second: forwarding must not depend on a reader.
pub fn write_line(mut to: impl Write + AsFd, line: impl fmt::Display) {
    if is_ready(&to, Patient::PATIENCE) {
        let _ = writeln!(to, "{}", printable_lines(&line.to_string()));
    }
}

/// Writes a line to standard output. Skips it if that would have to wait.
pub fn write_line_at_once(line: impl fmt::Display) {
    if is_ready(io::stdout(), Duration::ZERO) {
        write_line(io::stdout(), line);
    }
}

impl Outputs {
    /// Writes `summary` as JSON, if that was requested.
    pub fn finish_with(self, summary: &impl Serialize) -> anyhow::Result<()> {
        self.json.write(summary)
    }

    /// Writes the summary and, if standard output is free, the report under `title`. An unbalanced
    /// ledger is an error, after both are written.
    pub fn finish(self, title: &str, summary: &Summary, top: TopFlows) -> anyhow::Result<()> {
        let reports = self.report;
        self.finish_with(summary)?;
        if reports {
            print_report(title, summary, top).context("cannot write the report")?;
        }
        if !summary.ledger.balanced {
            anyhow::bail!("the ledger is not balanced: this is a bug in Millrace");
        }
        Ok(())
    }
}

fn print_report(title: &str, summary: &Summary, top: TopFlows) -> io::Result<()> {
    let out = &mut BufWriter::new(Patient::stdout()?);
    writeln!(out, "{title}")?;
    summary.print(out)?;
    top.print(out)?;
    out.flush()
}

/// Ends the program with a usage error if two of `outputs` (option and path) are one file, or an
/// output is also an input.
pub fn refuse_to_overwrite(outputs: &[(&str, Option<&Path>)], inputs: &[PathBuf]) {
    let named = outputs.iter().filter_map(|(flag, path)| Some((flag, (*path)?)));
    let named: Vec<_> = named.filter(|(_, path)| !names_stdout(path)).collect();
    for (i, (flag, path)) in named.iter().enumerate() {
        let others = named[..i].iter().map(|(_, other)| *other);
        let mut others = others.chain(inputs.iter().map(PathBuf::as_path));
        if others.any(|other| is_same_file(path, other)) {
            let path = path.display();
            let message = format!(
                "{flag} {path} would overwrite a file of the same command: name another file\n"
            );
            clap::Error::raw(ErrorKind::ArgumentConflict, message).exit();
        }
    }
}

/// Fails if a path is `-` where standard output is not supported.
pub fn refuse_dash(flag: &str, path: Option<&Path>) -> anyhow::Result<()> {
    if path.is_some_and(is_dash) {
        anyhow::bail!("{flag} -: only --json can write to standard output: name a file");
    }
    Ok(())
}

/// True if two names mean one regular file, existing or not. Devices may be written twice.
fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => a == b,
        _ => false,
    }
}

/// True for `-`, which stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// True for the names of standard output. Opening `/dev/stdout` as a file would overwrite it from
/// its start.
pub(crate) fn names_stdout(path: &Path) -> bool {
    is_dash(path) || path == Path::new("/dev/stdout")
}

fn open_json(path: &Path, kind: Kind) -> anyhow::Result<Json> {
    if names_stdout(path) {
        return Ok(Json::Stdout);
    }
    let is_ours = |head: &str| head.starts_with(JSON_BEGIN);
    Replaceable::open(path, kind, is_ours).map(Json::File)
}

/// Opens the target of flow records. `run` appends, since records of live traffic cannot be made
/// again. The other commands replace the records.
fn open_flows(target: &Target, command: Command) -> anyhow::Result<Writer> {
    let existing = if command == Command::Run { Existing::Keep } else { Existing::Replace };
    let opened = Writer::open(target, existing, command != Command::Replay);
    opened.map_err(|error| match error {
        OpenError::Io(error) => {
            anyhow::Error::new(error).context(format!("cannot create {target}"))
        }
        refusal => anyhow::anyhow!("{target}: {refusal}"),
    })
}
