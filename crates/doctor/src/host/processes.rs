// SPDX-License-Identifier: BSD-3-Clause
//! Finds the process that keeps a cpu busy, as far as `/proc` shows processes of others.

use super::Root;
use super::cpus::LOAD_WINDOW;
use std::collections::HashMap;
use std::path::Path;

/// A process by its number and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Number of the process.
    pub id: u32,
    /// Name of the process, as the kernel keeps it.
    pub name: String,
}

/// Returns the process that used `cpu` most within a tenth of a second, which this call takes.
/// `None` if none used half of it. Then many processes, the kernel, or processes that this one
/// cannot see cause the load.
pub fn busiest_process_on(cpu: u32) -> Option<Process> {
    let root = Root(Path::new("/"));
    let before = Threads::read(root);
    std::thread::sleep(LOAD_WINDOW);
    let id = Threads::read(root).busiest_on(cpu, &before, std::process::id())?;
    Some(Process { id, name: root.text(&format!("proc/{id}/comm"))? })
}

/// All threads of the host, by process number and thread number.
struct Threads(HashMap<(u32, u32), Thread>);

#[derive(Clone, Copy)]
struct Thread {
    /// Cpu on which it ran last.
    cpu: u32,
    /// Ticks of the kernel that it has run, usually hundredths of a second.
    ticks: u64,
}

/// Fewer ticks of a process are not significant.
const TICKS_MIN: u64 = LOAD_WINDOW.as_millis() as u64 / 10 / 2;

impl Threads {
    fn read(root: Root) -> Self {
        let mut threads = HashMap::new();
        for process in root.names("proc") {
            let Ok(id) = process.parse::<u32>() else { continue };
            for thread in root.names(&format!("proc/{process}/task")) {
                let stat = root.text(&format!("proc/{process}/task/{thread}/stat"));
                // A thread may have ended meanwhile.
                let Some(found) = stat.as_deref().and_then(Thread::parse) else { continue };
                threads.insert((id, thread.parse().unwrap_or(id)), found);
            }
        }
        Self(threads)
    }

    /// Returns the process whose thread used `cpu` most since `before`, except process `me`.
    fn busiest_on(&self, cpu: u32, before: &Self, me: u32) -> Option<u32> {
        let used = |(key, now): (&(u32, u32), &Thread)| {
            let ticks = now.ticks.saturating_sub(before.0.get(key)?.ticks);
            (now.cpu == cpu && key.0 != me && ticks >= TICKS_MIN).then_some((ticks, key.0))
        };
        self.0.iter().filter_map(used).max().map(|(_, id)| id)
    }
}

impl Thread {
    /// Parses proc_pid_stat(5). The name, in parentheses, may contain any characters.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first of these fields is the third of the line.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self { cpu: number(39)?.try_into().ok()?, ticks: number(14)? + number(15)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Reads a host with these threads: process, thread, ticks in user and in kernel mode, cpu.
    fn threads(all: &[(u32, u32, u64, u64, u32)]) -> Threads {
        let root = tempfile::tempdir().unwrap();
        for (process, thread, user, system, cpu) in all {
            let folder = root.path().join(format!("proc/{process}/task/{thread}"));
            fs::create_dir_all(&folder).unwrap();
            let stat = format!(
                "{thread} (a) b (c) R 1 1 1 0 -1 0 0 0 0 0 {user} {system} 7 7 20 0 1 0 99 1 1 1 1 \
                 1 1 1 1 0 0 0 0 0 0 0 17 {cpu} 0 0 0 0 0\n"
            );
            fs::write(folder.join("stat"), stat).unwrap();
        }
        fs::create_dir_all(root.path().join("proc/sys")).unwrap();
        Threads::read(Root(root.path()))
    }

    #[test]
    fn the_thread_that_runs_names_its_process() {
        let before = [(10, 10, 100, 0, 1), (20, 20, 5, 5, 1), (20, 21, 0, 0, 1), (30, 30, 0, 0, 0)];
        let after = [
            (10, 10, 100, 4, 1), // too little
            (20, 20, 5, 5, 1),
            (20, 21, 3, 4, 1),
            (30, 30, 10, 0, 0), // on another cpu
            (40, 40, 90, 0, 1), // not there before: nothing says when it ran
        ];
        let (before, after) = (threads(&before), threads(&after));
        assert_eq!(after.busiest_on(1, &before, 99), Some(20));
        assert_eq!(after.busiest_on(1, &before, 20), None, "this process itself");
        assert_eq!(after.busiest_on(0, &before, 99), Some(30));
        assert_eq!(after.busiest_on(2, &before, 99), None);
    }

    #[test]
    fn a_process_that_spins_is_found() {
        let me = Threads::read(Root(Path::new("/")));
        assert!(me.0.keys().any(|(process, _)| *process == std::process::id()));
    }
}
