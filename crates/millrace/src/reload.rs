// SPDX-License-Identifier: BSD-3-Clause
//! What a run is to hold connections to from now on: its configuration is read once more, as a
//! whole and as it was at the start, and what packets need not stop for is taken from it.

use crate::config::Problems;
use crate::control::Failure;
use crate::host::Cpus;
use crate::plan::{PlanArgs, Settings, ZoneRules};
use std::fs;
use std::path::{Path, PathBuf};

/// What a run was started with.
pub(crate) struct Reload {
    args: PlanArgs,
    /// The same wherever the process has gone since.
    file: Option<PathBuf>,
    /// Before DPDK bound threads to some of them.
    cpus: Cpus,
    settings: Settings,
}

impl Reload {
    /// Of a run with these settings, which are those of `args` on these `cpus`.
    pub(crate) fn new(args: &PlanArgs, cpus: Cpus, settings: Settings) -> Self {
        let file = args.files().first();
        let file = file.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        Self { args: args.clone(), file, cpus, settings }
    }

    /// What holds in which zone by this file, or else by that of the start.
    pub(crate) fn read(&self, file: Option<&Path>) -> Result<ZoneRules, Failure> {
        let path = file.or(self.file.as_deref()).ok_or(Failure::NoFile)?.to_owned();
        let name = path.display().to_string();
        // What is none may never say a thing.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(Failure::Configuration(format!("{name}: is no file")));
        }
        let refused = |problems: Problems| Failure::Configuration(problems.to_string());
        let plan = self.args.with_file(path).plan(&self.cpus).map_err(refused)?;
        let list = self.settings.refuse_restart(&plan.settings);
        if !list.is_empty() {
            return Err(refused(Problems { file: name, list }));
        }
        Ok(ZoneRules::new(&plan.engine, plan.zone_timeouts))
    }
}
