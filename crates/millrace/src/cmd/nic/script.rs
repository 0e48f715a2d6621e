// SPDX-License-Identifier: BSD-3-Clause
//! Runs the flow shell as a script: commands from a file or a pipe, results on standard output,
//! failures on standard error with their line.

use super::flow::Shell;
use anyhow::Context;
use nic::flow::{Answer, Command, SyntaxError, help, parse};
use report::output::write_line;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the commands of `lines`, read from the file `name`. Stops at the end, at `quit`, at a
/// signal, and at the first failure unless the shell keeps going.
pub(super) fn run(
    mut shell: Shell,
    name: &str,
    mut lines: Box<dyn BufRead>,
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    let mut line = String::new();
    let mut number = 0;
    while !interrupted.load(Ordering::Relaxed) {
        line.clear();
        let read = lines.read_line(&mut line);
        if read.with_context(|| format!("{name}:{}: cannot be read", number + 1))? == 0 {
            break;
        }
        number += 1;
        let text = line.trim_end();
        let place = Place { name, number };
        let ok = match parse(text, shell.queues) {
            Ok(None) => continue,
            Ok(Some(Command::Quit)) => break,
            Ok(Some(command)) => shell.answer(&command, Some(&place))?,
            Err(error) => shell.misread(text, &error, &place)?,
        };
        if !ok {
            status = ExitCode::FAILURE;
            if !shell.keep_going {
                break;
            }
        }
    }
    Ok(status)
}

/// File and line of a command.
pub(super) struct Place<'a> {
    name: &'a str,
    number: usize,
}

impl Shell {
    /// Executes `command` and prints its result. Returns true if it succeeded. A failure in a
    /// script is printed with its place.
    pub(super) fn answer(
        &mut self,
        command: &Command,
        place: Option<&Place<'_>>,
    ) -> io::Result<bool> {
        let answer = match command {
            Command::Help(word) => help_answer(word.as_deref()),
            command => self.session.execute(command),
        };
        let mut out = io::stdout().lock();
        if self.json {
            let ok = answer.is_ok();
            print_json(&mut out, answer.json, place)?;
            return Ok(ok);
        }
        answer.lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        match place {
            _ if answer.is_ok() => (),
            Some(place) => place.print_error(format_args!(" {}", answer.failures.join("\n"))),
            None => answer.failures.iter().try_for_each(|line| writeln!(out, "{line}"))?,
        }
        out.flush()?;
        Ok(answer.is_ok())
    }

    /// Prints the syntax error of a line of a script. Returns false.
    fn misread(&self, line: &str, error: &SyntaxError, place: &Place<'_>) -> io::Result<bool> {
        let column = error.column(line);
        if self.json {
            let expected: Vec<_> = error.expected.iter().map(ToString::to_string).collect();
            let message = &error.problem;
            let json = json!({
                "ok": false, "message": message, "column": column, "expected": expected,
            });
            print_json(&mut io::stdout().lock(), json, Some(place))?;
        } else {
            let message = error.message();
            let (shown, marks) = (without_controls(line), error.marks(line));
            place.print_error(format_args!("{column}: {message}\n  {shown}\n  {marks}"));
        }
        Ok(false)
    }
}

impl Place<'_> {
    fn print_error(&self, message: impl std::fmt::Display) {
        write_line(io::stderr(), format_args!("millrace: {}:{}:{message}", self.name, self.number));
    }
}

/// Returns the line with `?` for control characters, which could change the terminal.
fn without_controls(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect()
}

fn print_json(out: &mut impl Write, mut json: Value, place: Option<&Place<'_>>) -> io::Result<()> {
    if let Some(place) = place {
        json["line"] = place.number.into();
    }
    writeln!(out, "{json}")
}

fn help_answer(word: Option<&str>) -> Answer {
    match (help(word), word) {
        (Some(lines), _) => Answer::helped(lines),
        (None, word) => Answer::not_done(format!(
            "no help for {:?}; `help` alone lists every word",
            word.unwrap_or_default()
        )),
    }
}
