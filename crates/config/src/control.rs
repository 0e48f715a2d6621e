// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[control]`: the path of the control socket.

use super::Located;
use super::section::Section;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The section `[control]`.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) socket: Option<Located<Socket>>,
}

impl Control {
    pub(super) fn read(section: Section) -> Self {
        let control = Self { socket: section.parsed("socket", str::parse::<Socket>) };
        section.end();
        control
    }
}

/// The path of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// The default path, named after the process, where clients look.
    Auto,
    /// No socket.
    Off,
    /// This path.
    At(PathBuf),
}

/// Error: the text is not a value of `socket`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a socket path; write \"auto\", \"off\", or a path that contains a /")]
pub struct SocketWords(String);

impl FromStr for Socket {
    type Err = SocketWords;

    fn from_str(text: &str) -> Result<Self, SocketWords> {
        match text {
            "auto" => Ok(Socket::Auto),
            "off" => Ok(Socket::Off),
            path if path.contains('/') => Ok(Socket::At(PathBuf::from(path))),
            _ => Err(SocketWords(text.to_owned())),
        }
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Socket::Auto => f.write_str("auto"),
            Socket::Off => f.write_str("off"),
            Socket::At(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        for socket in [Socket::Auto, Socket::Off, Socket::At("./a.sock".into())] {
            assert_eq!(socket.to_string().parse(), Ok(socket));
        }
        for text in ["", "of", "a.sock"] {
            assert!(text.parse::<Socket>().is_err(), "{text}");
        }
    }
}
