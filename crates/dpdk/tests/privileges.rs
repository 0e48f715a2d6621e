// SPDX-License-Identifier: BSD-3-Clause
//! A process that gives up its privileges; no other test of it could have any after this.

use dpdk::linux::limit_privileges;

/// `net_tap`'s threads, and any other, would keep what only the main thread has given up.
#[test]
fn every_thread_gives_up_its_privileges() {
    let lines = |name: &str| -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let texts = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
        let line =
            |text: String| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        texts.map(line).collect()
    };
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    assert!(limit_privileges(0));
    for name in ["CapEff:", "CapPrm:", "CapInh:"] {
        let all = lines(name);
        assert!(
            all.len() > 1 && all.iter().all(|line| line.ends_with("\t0000000000000000")),
            "{all:?}"
        );
    }
    assert!(lines("NoNewPrivs:").iter().all(|line| line.ends_with('1')));
    drop(stop);
    thread.join().unwrap().unwrap_err();
}
