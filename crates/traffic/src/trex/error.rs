// SPDX-License-Identifier: BSD-3-Clause
//! Defines the errors and notes of a profile or a `trex_cfg.yaml`. Each names the file and the
//! line.

use std::fmt;
use thiserror::Error;

/// A line of a profile or a `trex_cfg.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file, as the caller gave it.
    pub origin: String,
    /// Line, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.origin, self.line)
    }
}

/// A remark on a file that is accepted, such as a key without effect or a capture made by formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Line that the remark is about.
    pub place: Place,
    /// The remark, one sentence without a full stop.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A capture that a profile names and that the caller does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapture {
    /// Line of the template.
    pub place: Place,
    /// Name of the capture, as the profile has it.
    pub name: String,
}

/// Reason why a profile or a `trex_cfg.yaml` is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is too long.
    #[error("{origin}: {bytes} bytes are too many for such a file; at most {most}")]
    TooLong {
        /// Name of the file.
        origin: String,
        /// Bytes of the text.
        bytes: usize,
        /// Maximum number of bytes.
        most: usize,
    },
    /// The text is not YAML, or uses parts of YAML that are not supported.
    #[error("{place}: this is not the YAML of such a file: {reason}")]
    Syntax {
        /// Line where reading stopped.
        place: Place,
        /// Explanation of the YAML parser or of this module.
        reason: String,
    },
    /// No known key has this name.
    #[error("{place}: {key} is not a key of {section}; did you mean {nearest}?")]
    UnknownKey {
        /// Line of the key.
        place: Place,
        /// The key.
        key: String,
        /// Name of the map with the key.
        section: &'static str,
        /// The most similar known key.
        nearest: &'static str,
    },
    /// The key is one of TRex that is not supported here.
    #[error("{place}: {key} is not supported: {reason}")]
    Unsupported {
        /// Line of the key.
        place: Place,
        /// The key, with its value if only that value is refused.
        key: String,
        /// The feature that is missing, or the key to use instead.
        reason: &'static str,
    },
    /// A key is given twice in one map.
    #[error("{place}: {key} is given twice, first on line {first}; remove one")]
    Repeated {
        /// Line of the second key.
        place: Place,
        /// The key.
        key: String,
        /// Line of the first key.
        first: usize,
    },
    /// A key that a map must have is missing.
    #[error("{place}: {section} has no {key}; add it")]
    Absent {
        /// First line of the map.
        place: Place,
        /// Name of the map.
        section: &'static str,
        /// The missing key.
        key: &'static str,
    },
    /// The value has the wrong type or is out of range.
    #[error("{place}: {key}: {found} is not allowed; allowed: {allowed}")]
    Value {
        /// Line of the value.
        place: Place,
        /// The key.
        key: String,
        /// The value as written, shortened.
        found: String,
        /// The allowed values.
        allowed: String,
    },
    /// Two keys contradict each other, or one needs another.
    #[error("{place}: {key}: {reason}")]
    Conflict {
        /// Line of the first of the keys.
        place: Place,
        /// The key.
        key: &'static str,
        /// The contradiction, and how to solve it.
        reason: String,
    },
    /// Captures are missing.
    #[error("{}", list(.0))]
    MissingCaptures(Vec<MissingCapture>),
    /// A capture cannot be replayed as one flow.
    #[error("{place}: {name}: frame {frame} {reason}")]
    Capture {
        /// Line of the template.
        place: Place,
        /// Name of the capture.
        name: String,
        /// Number of the frame, counted from 1.
        frame: usize,
        /// Reason why the frame cannot be replayed.
        reason: CaptureProblem,
    },
}

/// Reason why a captured frame cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CaptureProblem {
    /// The capture has no frames.
    #[error("is missing: the capture is empty")]
    Empty,
    /// The capture has too many frames.
    #[error("is one too many: a capture may have 65535")]
    TooMany,
    /// The frame is longer than a port can send.
    #[error("is longer than 9728 bytes")]
    TooLong,
    /// The frame is not IP.
    #[error("is not an IPv4 or IPv6 packet in Ethernet with at most two VLAN tags")]
    NotIp,
    /// The frame ends before its packet.
    #[error("ends before its IP packet; capture whole frames")]
    Truncated,
    /// The packet is a fragment.
    #[error("is an IP fragment, which has no ports to rewrite")]
    Fragment,
    /// The transport protocol cannot be rewritten.
    #[error("is neither TCP nor UDP, nor ICMP of IPv4")]
    Protocol,
    /// The packet is ICMP of IPv4, and frames are to be converted to IPv6.
    #[error("is ICMP of IPv4, which src_ipv6 and dst_ipv6 cannot make IPv6")]
    Icmp,
    /// The frame belongs to a second flow.
    #[error("belongs to a second flow; a template without plugin_id takes one flow")]
    SecondFlow,
    /// The frame has neither host of the first frame.
    #[error("has no host in common with the first frame")]
    OtherHosts,
}

fn list(missing: &[MissingCapture]) -> String {
    let line = |it: &MissingCapture| {
        format!(
            "{}: {} is missing; add the file, or synthesise missing captures",
            it.place, it.name
        )
    };
    missing.iter().map(line).collect::<Vec<_>>().join("\n")
}
