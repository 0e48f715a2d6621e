// SPDX-License-Identifier: BSD-3-Clause
//! Defines the article's two profiles of connections.

use crate::tester::Load;
use serde::Serialize;

/// How long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Profile {
    /// One message each way, at once.
    Short,
    /// 500 messages each way, 50 ms apart.
    Long,
}

impl Profile {
    pub(super) const ALL: [Self; 2] = [Self::Short, Self::Long];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Short => "short-lived",
            Self::Long => "long-lived",
        }
    }

    /// Returns what connections carry. The rate means nothing.
    pub(super) fn load(self) -> Load {
        let (messages, server_wait_ms) = match self {
            Self::Short => (1, 0),
            Self::Long => (500, 50),
        };
        Load { udp_percent: 1.0, messages, server_wait_ms, ..Load::of_rate(1.0) }
    }

    /// Returns the smallest and the largest rate of a search.
    pub(super) fn range(self) -> [f64; 2] {
        match self {
            Self::Short => [1e3, 2e6],
            Self::Long => [100.0, 10e3],
        }
    }
}
