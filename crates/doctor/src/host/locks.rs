// SPDX-License-Identifier: BSD-3-Clause
//! Reads file locks from `/proc/locks`.

use std::fmt;
use std::fs;

/// A process that holds a lock.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    /// Number of the process; `None` for a process of another pid namespace.
    pid: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else { return f.write_str("a process of another container") };
        match fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => write!(f, "{} (pid {pid})", name.trim_end()),
            Err(_) => write!(f, "pid {pid}"),
        }
    }
}

/// Returns the process whose lock process `pid` waits for; `None` if it waits for none.
pub fn holder_waited_for(pid: u32) -> Option<Holder> {
    holder_in(&fs::read_to_string("/proc/locks").ok()?, pid)
}

/// Finds the holder in the text of `/proc/locks`. A line is `1: FLOCK ADVISORY WRITE PID ...`. The
/// lines below it with the same number and `->` are processes that wait for this lock.
fn holder_in(locks: &str, pid: u32) -> Option<Holder> {
    let mut holder = None;
    for line in locks.lines() {
        let mut words = line.split_whitespace().skip(1).peekable();
        let waits = words.peek() == Some(&"->");
        let owner = words.nth(if waits { 4 } else { 3 })?;
        let owner = owner.parse().ok().filter(|pid| *pid > 0);
        match waits {
            false => holder = Some(Holder { pid: owner }),
            true if owner == Some(pid) => return holder,
            true => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_the_first_of_its_number() {
        let locks = "\
1: FLOCK  ADVISORY  WRITE 27501 00:27:18811 0 EOF
1: -> FLOCK  ADVISORY  WRITE 30111 00:27:18811 0 EOF
1:  -> FLOCK  ADVISORY  WRITE 30785 00:27:18811 0 EOF
2: POSIX  ADVISORY  WRITE 812 00:19:1012 0 EOF
3: FLOCK  ADVISORY  WRITE -1 00:27:18812 0 EOF
3: -> FLOCK  ADVISORY  WRITE 44 00:27:18812 0 EOF
";
        let holder = |pid| holder_in(locks, pid);
        assert_eq!(holder(30111), Some(Holder { pid: Some(27501) }));
        assert_eq!(holder(30785), Some(Holder { pid: Some(27501) }));
        assert_eq!(holder(44), Some(Holder { pid: None }));
        assert_eq!(holder(27501), None);
        assert_eq!(holder(812), None);
    }
}
