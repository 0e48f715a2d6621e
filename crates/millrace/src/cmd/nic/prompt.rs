// SPDX-License-Identifier: BSD-3-Clause
//! The flow shell for a person: line editing, completion and history.

use super::flow::Shell;
use crate::nic::flow::{Command, World, complete, parse};
use crate::output::tell;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::env;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const PROMPT: &str = "nic> ";
/// Lines of history that are kept.
const HISTORY_MAX: usize = 1000;

/// Completes for rustyline.
struct Words(World);

impl Completer for Words {
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

impl Helper for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}

/// Reads lines until `quit`, Ctrl-D or a signal.
pub(super) fn run(mut shell: Shell, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_MAX)?
        .auto_add_history(true)
        .build();
    let mut editor: Editor<Words, FileHistory> = Editor::with_config(config)?;
    let history = history_file();
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    while !interrupted.load(Ordering::Relaxed) {
        editor.set_helper(Some(Words(shell.world())));
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        match parse(&line, shell.queues) {
            Ok(None) => (),
            Ok(Some(Command::Quit)) => break,
            Ok(Some(command)) => {
                shell.answer(&command, None)?;
            }
            Err(error) => {
                // The line stands right above.
                let indent = " ".repeat(PROMPT.len());
                tell(io::stdout(), format_args!("{indent}{}", error.marks(&line)));
                tell(io::stdout(), error.message());
            }
        }
    }
    if let Some(path) = &history {
        // A home that cannot be written to is no reason to end badly.
        let _ = path.parent().map(std::fs::create_dir_all);
        let _ = editor.save_history(path);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the XDG base directories have what programs remember.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("millrace/flow_history"))
}

impl Shell {
    fn world(&self) -> World {
        let ports = 0..self.session.ports() as u16;
        World { rules: ports.map(|port| self.session.rules(port)).collect(), queues: self.queues }
    }
}
