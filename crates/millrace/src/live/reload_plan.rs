// SPDX-License-Identifier: BSD-3-Clause
//! Reads the configuration of a run again, and applies the settings that may change while packets
//! flow. The file is checked as a whole, with the options and cpus of the start.

use crate::live::query::client::QueryClient;
use crate::live::query::reload::{ChangeEffect, NewPolicy, Reloaded};
use crate::netdev;
use config::Problems;
use config::plan::{PlanArgs, Settings, ZoneRules};
use control::{ChangeEffectLine, Failure};
use doctor::host::Cpus;
use report::output::write_line;
use results::units;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fs, io};

/// The options and settings that a run was started with.
pub(crate) struct Reload {
    args: PlanArgs,
    /// The configuration file, by a path that does not depend on the working directory.
    file: Option<PathBuf>,
    /// Cpus of the host, read before DPDK bound threads to some of them.
    cpus: Cpus,
    settings: Settings,
}

impl Reload {
    /// Creates the reload of a run whose `args` resulted in `settings` on these `cpus`.
    pub(crate) fn new(args: &PlanArgs, cpus: Cpus, settings: Settings) -> Self {
        let file = args.files().first();
        let file = file.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        Self { args: args.clone(), file, cpus, settings }
    }

    /// Returns the zone rules and access lists of `file`, or of the configuration file from the
    /// start.
    ///
    /// # Errors
    ///
    /// If there is no file, if it is refused, or if it changes a setting that needs a restart.
    pub(crate) fn read(&self, file: Option<&Path>) -> Result<NewPolicy, Failure> {
        let path = file.or(self.file.as_deref()).ok_or(Failure::NoFile)?.to_owned();
        let name = path.display().to_string();
        // Reading a pipe or a device might never end.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(Failure::Configuration(format!("{name}: is not a regular file")));
        }
        let refused = |problems: Problems| Failure::Configuration(problems.to_string());
        let plan = self.args.with_file(path).plan(&self.cpus, netdev::mtu).map_err(refused)?;
        let list = self.settings.refuse_restart(&plan.settings);
        if !list.is_empty() {
            return Err(refused(Problems { file: name, list }));
        }
        let zones = ZoneRules::new(&plan.engine, plan.zone_timeouts);
        let access = plan.pairs.into_iter().map(|pair| pair.access).collect();
        Ok(NewPolicy { zones, access, list_context: plan.list_context })
    }
}

/// Reloads the configuration file from the start, on request of a signal. A reload waits for the
/// workers, which the control thread must not do, so it has its own thread.
pub(crate) struct Reloader {
    queries: Arc<QueryClient>,
    reload: Arc<Reload>,
    is_requested: bool,
    running: Option<JoinHandle<()>>,
}

impl Reloader {
    pub(crate) fn new(queries: Arc<QueryClient>, reload: Arc<Reload>) -> Self {
        Self { queries, reload, is_requested: false, running: None }
    }

    /// Requests a reload, which reads the file after this call.
    pub(crate) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Starts a requested reload, once the previous one has ended.
    pub(crate) fn start_requested(&mut self) {
        if !self.is_requested || self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.is_requested = false;
        let (queries, reload) = (Arc::clone(&self.queries), Arc::clone(&self.reload));
        let thread = std::thread::Builder::new().name("reload".to_owned());
        match thread.spawn(move || print_result(queries.reload(|| reload.read(None)))) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => {
                write_line(io::stderr(), format_args!("millrace: cannot reload: {error}"))
            }
        }
    }
}

/// Returns the text about a complete reload.
pub(crate) fn reload_text(retimed: u64, effect: Option<&ChangeEffectLine>) -> String {
    let mut text = format!("reloaded: timers of {retimed} connections now fire earlier");
    let Some(effect) = effect else { return text };
    let time = |seconds: f64| units::duration((seconds * 1e9) as u64);
    if effect.drops > 0 {
        text += &format!(
            "; {} NIC rules that dropped packets were removed before, in {}",
            effect.drops,
            time(effect.drops_s)
        );
    }
    if effect.bypasses > 0 {
        let back = effect.bypasses - effect.bypasses_left;
        text += &format!(
            "; before access lists changed, {back} of {} directions that NICs forwarded were \
             called back, in {}",
            effect.bypasses,
            time(effect.recall_s)
        );
    }
    text + &format!(
        "; old and new access lists were in force together for {} at most; after {}, the new ones \
         decided about all {} connections",
        time(effect.both_lists_s),
        time(effect.visit_s),
        effect.visited
    )
}

/// Returns what a change of access lists has done, for clients.
pub(crate) fn effect_line(effect: &ChangeEffect) -> ChangeEffectLine {
    ChangeEffectLine {
        both_lists_s: effect.both_lists.as_secs_f64(),
        drops: effect.drops.rules,
        drops_s: effect.drops.time.as_secs_f64(),
        bypasses: effect.recalled.rules,
        bypasses_left: effect.recalled.left,
        recall_s: effect.recalled.time.as_secs_f64(),
        visited: effect.visited,
        visit_s: effect.visit_time.as_secs_f64(),
    }
}

fn print_result(result: Result<Reloaded, Failure>) {
    match result {
        Ok(done) => {
            let effect = done.lists.as_ref().map(effect_line);
            let text = reload_text(done.retimed, effect.as_ref());
            write_line(io::stderr(), format_args!("millrace: {text}"));
        }
        // Without a prefix, as `millrace check` prints it.
        Err(Failure::Configuration(text)) => write_line(io::stderr(), text),
        Err(Failure::Ending) => {}
        Err(failure) => {
            write_line(io::stderr(), format_args!("millrace: cannot reload: {failure}"))
        }
    }
}
