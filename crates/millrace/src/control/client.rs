// SPDX-License-Identifier: BSD-3-Clause
//! The side that asks: finds the instance that is meant, and reads its answer.

use super::{Ask, ErrorLine, InstanceLine, Line, Request, place};
use crate::units;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An instance that works answers in no more time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which instance is asked.
#[derive(clap::Args)]
pub(crate) struct InstanceArgs {
    /// The instance to ask, where several run: the number of its process, or the path of its socket
    #[arg(long, value_name = "X")]
    instance: Option<String>,
}

/// A place where an instance may be asked.
pub(crate) struct Instance(PathBuf);

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) lines: Vec<Line>,
    /// Of what was asked for, given or not.
    pub(crate) matched: u64,
}

/// Why nobody answers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "no instance runs here that could be asked; `millrace run` starts one, and one with a \
         socket elsewhere is named by --instance PATH"
    )]
    None,
    #[error("several instances run; name one with --instance:\n{0}")]
    Several(String),
    #[error("{0}: no instance answers there")]
    Nobody(PathBuf),
    #[error("{0}: not permitted: only the user who runs the instance may ask it, and root (sudo)")]
    Denied(PathBuf),
    #[error("{}: {}", .path.display(), .error.text)]
    Refused { path: PathBuf, error: ErrorLine },
    #[error("{path}: its answer breaks off; the run may have ended")]
    Cut { path: PathBuf },
    #[error("{path}: its answer is not understood: {error}")]
    Unknown { path: PathBuf, error: serde_json::Error },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl InstanceArgs {
    /// The instance that is meant.
    pub(crate) fn find(&self) -> Result<Instance, AskError> {
        let sockets = place::all();
        let named = self.instance.as_deref();
        if let Some(name) = named.filter(|name| name.parse::<u32>().is_err()) {
            return Ok(Instance(PathBuf::from(name)));
        }
        let file = named.map(|pid| format!("{pid}.sock"));
        let is_meant = |path: &&PathBuf| {
            file.as_ref().is_none_or(|file| path.file_name().is_some_and(|name| *name == **file))
        };
        let meant: Vec<_> = sockets.iter().filter(is_meant).collect();
        let tried = meant.iter().map(|path| (*path, UnixStream::connect(path)));
        let (mut alive, mut denied) = (Vec::new(), None);
        for (path, connected) in tried {
            match connected {
                Ok(_) => alive.push(path.clone()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied = Some(path.clone());
                }
                // What a process left behind that was killed.
                Err(_) => {}
            }
        }
        match (alive.len(), denied) {
            (0, Some(path)) => Err(AskError::Denied(path)),
            (0, None) => match named {
                Some(pid) => Err(AskError::Nobody(PathBuf::from(pid))),
                None => Err(AskError::None),
            },
            (1, _) => Ok(Instance(alive.remove(0))),
            _ => Err(AskError::Several(alive.iter().map(|path| describe(path)).collect())),
        }
    }
}

/// A line about an instance among others.
fn describe(path: &Path) -> String {
    let instance = Instance(path.to_owned());
    match instance.ask(&Request::new(Ask::Instance)).map(|answer| answer.lines.into_iter().next()) {
        Ok(Some(Line::Instance(InstanceLine { pid, age_s, ports, .. }))) => {
            let age = units::duration((age_s * 1e9) as u64);
            format!("  {pid}  running for {age}  {}\n", ports.join(" "))
        }
        Ok(_) => format!("  {}\n", path.display()),
        Err(error) => format!("  {error}\n"),
    }
}

impl Instance {
    /// Asks, and waits for the whole answer.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        let path = &self.0;
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => AskError::Denied(path.clone()),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                AskError::Nobody(path.clone())
            }
            _ => AskError::Io { path: path.clone(), error },
        };
        let mut stream = UnixStream::connect(path).map_err(io)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(io)?;
        let mut text = serde_json::to_vec(request).expect("a request is JSON");
        text.push(b'\n');
        // One that is refused at once may have closed already; its words are there to read.
        let _ = stream.write_all(&text);
        let mut lines = Vec::new();
        for text in BufReader::new(stream).lines() {
            let text = text.map_err(io)?;
            match serde_json::from_str(&text) {
                Ok(Line::End(end)) => return Ok(Answer { lines, matched: end.matched }),
                Ok(Line::Error(error)) => {
                    return Err(AskError::Refused { path: path.clone(), error });
                }
                Ok(line) => lines.push(line),
                Err(error) => return Err(AskError::Unknown { path: path.clone(), error }),
            }
        }
        Err(AskError::Cut { path: path.clone() })
    }
}
