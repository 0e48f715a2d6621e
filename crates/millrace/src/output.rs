// SPDX-License-Identifier: BSD-3-Clause
//! What a run writes besides stderr: flow records, the summary, the report.

use crate::records::{RecordSink, RecordWriter, Target};
use crate::summary::Summary;
use crate::top::Top;
use anyhow::Context;
use clap::error::ErrorKind;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The flags for it.
#[derive(clap::Args)]
pub(crate) struct OutputArgs {
    /// Write one flow record per flow: JSON Lines to FILE.jsonl or `-`, CSV to FILE.csv
    #[arg(long, value_name = "FILE")]
    flows: Option<Target>,
    /// Write the summary as JSON to FILE, or `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Busiest flows to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: u16,
}

/// The outputs, opened before work begins.
pub(crate) struct Outputs {
    json: Option<Box<dyn Write>>,
    /// Whether stdout is free for the report.
    pub(crate) report: bool,
}

impl OutputArgs {
    /// Creates every output. None of them may be one of the `inputs`, which are still to be read.
    pub(crate) fn open(&self, inputs: &[PathBuf]) -> anyhow::Result<(Outputs, RecordSink)> {
        let flows_on_stdout = self.flows == Some(Target::Stdout);
        let json_on_stdout = self.json.as_deref().is_some_and(is_dash);
        if flows_on_stdout && json_on_stdout {
            let message = "--flows and --json cannot both write to standard output\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, message).exit();
        }
        self.refuse_to_overwrite(inputs);
        let create_flows = |target| {
            RecordWriter::create(target).with_context(|| format!("cannot create {target}"))
        };
        let flows = self.flows.as_ref().map(create_flows).transpose()?;
        let json = self.json.as_deref().map(create_json).transpose()?;
        let sink = RecordSink::new(flows, Top::new(usize::from(self.top)));
        Ok((Outputs { json, report: !flows_on_stdout && !json_on_stdout }, sink))
    }

    /// Ends the program where two outputs are one file, or an output is an input: whatever would be
    /// in it then, nobody wants it.
    fn refuse_to_overwrite(&self, inputs: &[PathBuf]) {
        let flows = self.flows.as_ref().and_then(Target::path);
        let outputs = [("--flows", flows), ("--json", self.json.as_deref())];
        let named = outputs.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
        let named: Vec<_> = named.filter(|(_, path)| !is_dash(path)).collect();
        for (i, (flag, path)) in named.iter().enumerate() {
            let others = named[..i].iter().map(|(_, other)| *other);
            let mut others = others.chain(inputs.iter().map(PathBuf::as_path));
            if others.any(|other| is_same_file(path, other)) {
                let path = path.display();
                let message = format!("{flag} {path} would overwrite a file of the same command\n");
                clap::Error::raw(ErrorKind::ArgumentConflict, message).exit();
            }
        }
    }

    /// What an error of writing flow records is about.
    pub(crate) fn writing(&self) -> String {
        let target = self.flows.as_ref().map(Target::to_string).unwrap_or_default();
        format!("cannot write flow records to {target}")
    }
}

/// Writes a line. A bump carries its packets whether or not anyone is left to read it.
pub(crate) fn tell(mut to: impl Write, line: impl fmt::Display) {
    let _ = writeln!(to, "{line}");
}

impl Outputs {
    /// Writes `summary`, of whatever it is, as JSON where that was asked for.
    pub(crate) fn finish_with(self, summary: &impl Serialize) -> anyhow::Result<()> {
        let Some(mut json) = self.json else { return Ok(()) };
        serde_json::to_writer_pretty(&mut json, summary).context("cannot write the summary")?;
        writeln!(json).and_then(|()| json.flush()).context("cannot write the summary")
    }

    /// Writes the summary and, where stdout is free for it, the report under `title`. An unbalanced
    /// ledger is an error, once all is written.
    pub(crate) fn finish(mut self, title: &str, summary: &Summary, top: Top) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            summary.write_json(json).context("cannot write the summary")?;
        }
        if self.report {
            print_report(title, summary, top).context("cannot write the report")?;
        }
        if !summary.ledger.balanced {
            anyhow::bail!("the ledger is not balanced, which is a fault of Millrace itself");
        }
        Ok(())
    }
}

fn print_report(title: &str, summary: &Summary, top: Top) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    writeln!(out, "{title}")?;
    summary.print(out)?;
    top.print(out)?;
    out.flush()
}

/// True for two names of one regular file, there or not; devices may be written to twice.
fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => a == b,
        _ => false,
    }
}

/// True for the name that stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn create_json(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if is_dash(path) {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Box::new(file))
}
