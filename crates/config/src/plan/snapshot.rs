// SPDX-License-Identifier: BSD-3-Clause
//! Plans snapshots: their folder and their interval.

use super::Settings;
use crate::Folder;
use std::path::PathBuf;
use std::time::Duration;

/// Default time between two snapshots, in seconds.
const EVERY_S: u32 = 10;

/// Snapshots of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPlan {
    /// Folder of the files; `None` for no snapshots.
    pub folder: Option<PathBuf>,
    /// Time between two snapshots; `None` for a single one at the end.
    pub every: Option<Duration>,
}

impl SnapshotPlan {
    pub(super) fn new(written: crate::Snapshot, settings: &mut Settings) -> Self {
        settings.open("snapshot");
        let folder = match settings.take("path", written.path, Folder::Off) {
            Folder::Off => None,
            Folder::At(path) => Some(path),
        };
        let seconds = settings.take("every_s", written.every_s, EVERY_S);
        let every = (seconds > 0).then_some(Duration::from_secs(seconds.into()));
        Self { folder, every }
    }
}
