// SPDX-License-Identifier: BSD-3-Clause
//! Finds the instance to query, sends it a request, and reads the answer.

use super::deadline::{Deadline, connect_within};
use super::server::TAKE_TIMEOUT;
use super::{EndLine, ErrorLine, Failure, InstanceLine, Line, Request, RequestKind, socket_path};
use results::units;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for a whole answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for the answer of an instance about itself, which needs no worker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of an answer that is kept: several times the longest possible.
const ANSWER_MAX: u64 = 512 << 20;
/// Most bytes of a line of an answer.
const LINE_MAX: u64 = 64 << 20;
/// Time between two checks whether to stop waiting.
const FLAG_POLL: Duration = Duration::from_millis(100);

/// Arguments that select the instance to query.
#[derive(clap::Args)]
pub struct InstanceArgs {
    /// The instance to query, if several run: its process ID, or the path of its socket
    #[arg(long, value_name = "X")]
    instance: Option<String>,
}

/// An instance that can be queried.
pub struct Instance {
    path: PathBuf,
    /// Connection by which the instance was found, for the first request.
    found: Option<UnixStream>,
}

/// A whole answer.
pub struct Answer {
    /// Lines of the answer, without the last one.
    pub lines: Vec<Line>,
    /// Number of items that match, listed or not.
    pub matched: u64,
}

/// How long to wait for an answer.
pub enum ReplyTimeout {
    /// The whole answer must arrive within this time.
    Within(Duration),
    /// Wait until the answer is complete, or this flag is set.
    Until(Arc<AtomicBool>),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No instance runs.
    #[error(
        "no running instance was found: start one with `millrace run`, or give the path of its \
         socket with --instance PATH"
    )]
    None,
    /// Several instances run, one per line of the text, and none was named.
    #[error("several instances run; choose one with --instance:\n{0}")]
    Several(String),
    /// No instance answers at this socket.
    #[error("{0}: no running instance has this socket")]
    NoInstance(PathBuf),
    /// No instance has this process ID; the other ones, one per line of the text.
    #[error("no running instance has the process ID {pid}{others}")]
    NoProcess {
        /// The process ID.
        pid: String,
        /// What runs instead, in words.
        others: String,
    },
    /// This user must not query the instance at this socket.
    #[error("{0}: permission denied: only root (sudo) and the instance's own user may query it")]
    Denied(PathBuf),
    /// The instance refuses the request.
    #[error("{}: {}", .path.display(), .error.text)]
    Refused {
        /// Path of the socket.
        path: PathBuf,
        /// The instance's error.
        error: ErrorLine,
    },
    /// The answer ends before its last line.
    #[error(
        "{path}: the answer is incomplete: the run may have ended, or the output was not read for \
         {} s",
        TAKE_TIMEOUT.as_secs()
    )]
    Cut {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The answer did not arrive in time.
    #[error("{path}: the instance sent no complete answer within {} s", .time.as_secs())]
    Slow {
        /// Path of the socket.
        path: PathBuf,
        /// The time limit.
        time: Duration,
    },
    /// The answer is not one of this protocol.
    #[error("{path}: cannot parse the answer: {error}")]
    Unknown {
        /// Path of the socket.
        path: PathBuf,
        /// What is wrong with the answer.
        error: serde_json::Error,
    },
    /// The socket fails.
    #[error("{path}: cannot query the instance: {error}")]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The answer cannot be written to the output.
    #[error("cannot write the answer")]
    Output(#[source] io::Error),
}

impl InstanceArgs {
    /// Returns the only instance that runs, or the one that `--instance` names.
    pub fn find(&self) -> Result<Instance, QueryError> {
        let sockets = socket_path::all();
        let named = self.instance.as_deref();
        if let Some(name) = named.filter(|name| name.parse::<u32>().is_err()) {
            return Ok(Instance { path: PathBuf::from(name), found: None });
        }
        let file = named.map(|pid| format!("{pid}.sock"));
        let is_meant = |path: &&PathBuf| {
            file.as_ref().is_none_or(|file| path.file_name().is_some_and(|name| *name == **file))
        };
        let meant: Vec<_> = sockets.iter().filter(is_meant).collect();
        let tried = meant.iter().map(|path| (*path, connect_within(path, Duration::ZERO)));
        let (mut alive, mut denied) = (Vec::new(), None);
        for (path, connected) in tried {
            match connected {
                Ok(stream) => alive.push(Instance { path: path.clone(), found: Some(stream) }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied = Some(path.clone());
                }
                // An instance listens there, but other clients wait too.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    alive.push(Instance { path: path.clone(), found: None });
                }
                // A leftover of a process that was killed.
                Err(_) => {}
            }
        }
        match (alive.len(), denied) {
            (0, Some(path)) => Err(QueryError::Denied(path)),
            (0, None) => match named {
                Some(pid) => Err(no_process(pid, &sockets)),
                None => Err(QueryError::None),
            },
            (1, _) => Ok(alive.remove(0)),
            _ => {
                let lines: Vec<_> = alive.into_iter().map(describe).collect();
                Err(QueryError::Several(lines.join("\n")))
            }
        }
    }
}

/// Returns the error for a process ID that no instance has, with those that run.
fn no_process(pid: &str, sockets: &[PathBuf]) -> QueryError {
    let others = sockets.iter().filter_map(|path| {
        let found = Some(connect_within(path, Duration::ZERO).ok()?);
        Some(describe(Instance { path: path.clone(), found }))
    });
    let others: Vec<_> = others.collect();
    let others = match others.is_empty() {
        true => "; a socket is named by its path, such as ./1".to_owned(),
        false => format!("; these run:\n{}", others.join("\n")),
    };
    QueryError::NoProcess { pid: pid.to_owned(), others }
}

impl QueryError {
    /// True if the error means that the run has ended.
    pub fn is_end(&self) -> bool {
        match self {
            QueryError::NoInstance(_) | QueryError::Cut { .. } => true,
            QueryError::Refused { error, .. } => error.code == Failure::Ending.code(),
            _ => false,
        }
    }
}

/// Returns a line that describes an instance, for a list of several.
fn describe(mut instance: Instance) -> String {
    let answer = instance.query_within(CONNECT_TIMEOUT, &Request::new(RequestKind::Instance));
    match answer.map(|answer| answer.lines.into_iter().next()) {
        Ok(Some(Line::Instance(InstanceLine { pid, age_s, ports, .. }))) => {
            let age = units::duration((age_s * 1e9) as u64);
            format!("  {pid}  running for {age}  {}", ports.join(" "))
        }
        Ok(_) => format!("  {}", instance.path.display()),
        Err(error) => format!("  {error}"),
    }
}

impl Instance {
    /// Returns the instance with this control socket, whether it runs yet or not.
    pub fn at(path: PathBuf) -> Self {
        Self { path, found: None }
    }

    /// Sends a request and waits for the whole answer.
    pub fn query(&mut self, request: &Request) -> Result<Answer, QueryError> {
        self.query_within(PATIENCE, request)
    }

    fn query_within(&mut self, time: Duration, request: &Request) -> Result<Answer, QueryError> {
        let mut lines = Vec::new();
        let mut keep = |line| {
            lines.push(line);
            Ok(())
        };
        let end = self.query_each(&ReplyTimeout::Within(time), request, &mut keep)?;
        Ok(Answer { lines, matched: end.unwrap_or_default().matched })
    }

    /// Sends a request and passes each line of the answer to `take` as it arrives. Returns the
    /// last line; `None` if the flag in `patience` was set first.
    pub fn query_each(
        &mut self,
        patience: &ReplyTimeout,
        request: &Request,
        take: &mut dyn FnMut(Line) -> io::Result<()>,
    ) -> Result<Option<EndLine>, QueryError> {
        let path = &self.path;
        let time = match patience {
            ReplyTimeout::Within(time) => *time,
            ReplyTimeout::Until(_) => PATIENCE,
        };
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => QueryError::Denied(path.clone()),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                QueryError::NoInstance(path.clone())
            }
            io::ErrorKind::ConnectionReset => QueryError::Cut { path: path.clone() },
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                QueryError::Slow { path: path.clone(), time }
            }
            _ => QueryError::Io { path: path.clone(), error },
        };
        let stream =
            self.found.take().map_or_else(|| connect_within(path, time), Ok).map_err(io)?;
        let mut timed = Deadline::new(&stream, time);
        let mut text = serde_json::to_vec(request).expect("a request is JSON");
        text.push(b'\n');
        // A refused client may find the socket closed; the reason is there to read all the same.
        let _ = timed.write_all(&text);
        let mut lines = Lines { input: BufReader::new(timed), taken: 0, text: Vec::new() };
        while let Some(text) = lines.next(patience).map_err(io)? {
            match read_line(text) {
                Ok(Line::End(end)) => return Ok(Some(end)),
                Ok(Line::Error(error)) => {
                    return Err(QueryError::Refused { path: path.clone(), error });
                }
                Ok(line) => take(line).map_err(QueryError::Output)?,
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(QueryError::Unknown { path: path.clone(), error }),
            }
        }
        match patience {
            ReplyTimeout::Until(stop) if stop.load(Ordering::Relaxed) => Ok(None),
            _ => Err(QueryError::Cut { path: path.clone() }),
        }
    }
}

/// Reads an answer line by line.
struct Lines<'a> {
    input: BufReader<Deadline<'a>>,
    taken: u64,
    text: Vec<u8>,
}

impl Lines<'_> {
    /// Returns the next line; `None` at the end, and if the flag in `patience` is set.
    fn next(&mut self, patience: &ReplyTimeout) -> io::Result<Option<&str>> {
        self.text.clear();
        loop {
            let most = match patience {
                ReplyTimeout::Within(_) => ANSWER_MAX - self.taken,
                ReplyTimeout::Until(stop) if stop.load(Ordering::Relaxed) => return Ok(None),
                ReplyTimeout::Until(_) => {
                    self.input.get_mut().renew(FLAG_POLL);
                    LINE_MAX - self.text.len() as u64
                }
            };
            let before = self.text.len();
            let read = (&mut self.input).take(most).read_until(b'\n', &mut self.text);
            self.taken += (self.text.len() - before) as u64;
            let is_waiting = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            };
            match read {
                Err(error) if is_waiting(&error) && matches!(patience, ReplyTimeout::Until(_)) => {}
                Err(error) => return Err(error),
                Ok(_) if self.text.is_empty() => return Ok(None),
                Ok(_) => break,
            }
        }
        std::str::from_utf8(&self.text).map(Some).map_err(io::Error::other)
    }
}

/// Parses a line of an answer. If root queries the instance of another user, the texts must not
/// control root's terminal. So control characters are replaced.
pub(super) fn read_line(text: &str) -> serde_json::Result<Line> {
    // Most lines have no control characters.
    if !text.contains('\\') && !text.trim_end_matches('\n').contains(is_command) {
        return serde_json::from_str(text);
    }
    let mut value = serde_json::from_str(text)?;
    replace_controls(&mut value);
    serde_json::from_value(value)
}

fn is_command(character: char) -> bool {
    character.is_control() && character != '\n'
}

fn replace_controls(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace(is_command, "\u{fffd}"),
        Value::Array(values) => values.iter_mut().for_each(replace_controls),
        Value::Object(members) => members.values_mut().for_each(replace_controls),
        _ => {}
    }
}
