// SPDX-License-Identifier: BSD-3-Clause
//! What a run is to hold connections to from now on: its configuration is read once more, as a
//! whole and as it was at the start, and what packets need not stop for is taken from it.

use crate::live::QueryClient;
use crate::netdev;
use config::Problems;
use config::plan::{PlanArgs, Settings, ZoneRules};
use control::Failure;
use doctor::host::Cpus;
use report::output::tell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fs, io};

/// What a run was started with.
pub(crate) struct Reload {
    args: PlanArgs,
    /// The configuration file, by a path that does not depend on the working directory.
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
        let plan = self.args.with_file(path).plan(&self.cpus, netdev::mtu).map_err(refused)?;
        let list = self.settings.refuse_restart(&plan.settings);
        if !list.is_empty() {
            return Err(refused(Problems { file: name, list }));
        }
        Ok(ZoneRules::new(&plan.engine, plan.zone_timeouts))
    }
}

/// Reloads the file of the start when a signal asks for it, on a thread of its own: it waits for
/// the workers, and the control thread must not.
pub(crate) struct Reloader {
    inquiry: Arc<QueryClient>,
    reload: Arc<Reload>,
    is_wanted: bool,
    running: Option<JoinHandle<()>>,
}

impl Reloader {
    pub(crate) fn new(inquiry: Arc<QueryClient>, reload: Arc<Reload>) -> Self {
        Self { inquiry, reload, is_wanted: false, running: None }
    }

    /// Wants one more reload, which reads the file after this.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Begins the reload that is wanted, once the one before is over.
    pub(crate) fn turn(&mut self) {
        if !self.is_wanted || self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.is_wanted = false;
        let (inquiry, reload) = (Arc::clone(&self.inquiry), Arc::clone(&self.reload));
        let thread = std::thread::Builder::new().name("reload".to_owned());
        match thread.spawn(move || tell_result(inquiry.reload(|| reload.read(None)))) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => tell(io::stderr(), format_args!("millrace: cannot reload: {error}")),
        }
    }
}

fn tell_result(result: Result<u64, Failure>) {
    match result {
        Ok(retimed) => tell(
            io::stderr(),
            format_args!("millrace: reloaded: timers of {retimed} connections come up sooner"),
        ),
        // As `millrace check` tells it.
        Err(Failure::Configuration(text)) => tell(io::stderr(), text),
        Err(Failure::Ending) => {}
        Err(failure) => tell(io::stderr(), format_args!("millrace: cannot reload: {failure}")),
    }
}
