// SPDX-License-Identifier: BSD-3-Clause
//! Runs the interactive flow shell, with line editing, completion and history.

use super::flow::Shell;
use nic::flow::{Command, CompletionContext, complete, parse};
use report::output::write_line;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const PROMPT: &str = "nic> ";
/// Lines of history that are kept.
const HISTORY_MAX: usize = 1000;

/// Completes words for rustyline.
struct CompletionHelper(CompletionContext);

impl Completer for CompletionHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, mut words) = complete(&line[..at], &self.0);
        words.iter_mut().for_each(|word| word.push(' '));
        Ok((start, words))
    }
}

impl Helper for CompletionHelper {}
impl Hinter for CompletionHelper {
    type Hint = String;
}
impl Highlighter for CompletionHelper {}
impl Validator for CompletionHelper {}

/// Reads lines until `quit`, Ctrl-D or a signal.
pub(super) fn run(mut shell: Shell, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_MAX)?
        .auto_add_history(true)
        .build();
    let earlier = MemHistory::with_config(&config);
    let mut editor: Editor<CompletionHelper, MemHistory> = Editor::with_history(config, earlier)?;
    let mut history = History::load();
    for line in &history.lines {
        editor.add_history_entry(line)?;
    }
    while !interrupted.load(Ordering::Relaxed) {
        editor.set_helper(Some(CompletionHelper(shell.world())));
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            // A byte that is not UTF-8, such as one of a terminal with another character set.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                write_line(io::stdout(), "the line is not UTF-8, and was ignored");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        history.add(&line);
        match parse(&line, shell.queues) {
            Ok(None) => (),
            Ok(Some(Command::Quit)) => break,
            Ok(Some(command)) => {
                shell.answer(&command, None)?;
            }
            Err(error) => {
                // The marks point into the line above.
                let indent = " ".repeat(PROMPT.len());
                write_line(io::stdout(), format_args!("{indent}{}", error.marks(&line)));
                write_line(io::stdout(), error.message());
            }
        }
    }
    // A home directory that cannot be written to is no failure.
    let _ = history.save();
    Ok(ExitCode::SUCCESS)
}

/// The lines of earlier shells and of this one.
struct History {
    path: Option<PathBuf>,
    lines: Vec<String>,
}

impl History {
    /// Loads the history from the state folder of the XDG base directories. Empty if there is none.
    fn load() -> Self {
        let absolute =
            |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        let path = state.map(|state| state.join("millrace/flow_history"));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let lines = text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
        Self { path, lines }
    }

    /// Adds a line, unless it is blank or equals the last one.
    fn add(&mut self, line: &str) {
        if !line.trim().is_empty() && self.lines.last().is_none_or(|last| last != line) {
            self.lines.push(line.to_owned());
        }
    }

    /// Writes the last lines to the file, which only this user can read.
    fn save(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let mut file = BufWriter::new(file?);
        let kept = self.lines.len().saturating_sub(HISTORY_MAX);
        self.lines[kept..].iter().try_for_each(|line| writeln!(file, "{line}"))?;
        file.flush()
    }
}

impl Shell {
    fn world(&self) -> CompletionContext {
        let ports = 0..self.session.ports() as u16;
        CompletionContext {
            rules: ports.map(|port| self.session.rules(port)).collect(),
            queues: self.queues,
        }
    }
}
