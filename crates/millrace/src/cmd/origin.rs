// SPDX-License-Identifier: BSD-3-Clause
//! Says where results come from: program, command and host.

use doctor::host::{Processor, Software};
use results::{Host, Origin};
use std::time::SystemTime;

/// Returns the origin of results of this process.
pub(super) fn origin_of_now() -> Origin {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    Origin {
        millrace: env!("CARGO_PKG_VERSION").to_owned(),
        dpdk: dpdk::version(),
        started_unix_s: started.as_millis() as f64 / 1e3,
        command: std::env::args_os().map(|word| word.to_string_lossy().into()).collect(),
        hostname: hostname.map(|name| name.trim().to_owned()),
        host: Host { cpu: Processor::name_of_this_host(), kernel: Software::kernel_of_this_host() },
    }
}
