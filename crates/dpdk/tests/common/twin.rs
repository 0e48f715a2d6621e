// SPDX-License-Identifier: BSD-3-Clause
//! EAL with the software NIC.

use dpdk::{Eal, EalConfig};
use std::path::PathBuf;

/// Starts EAL with it; says so where it was not built.
pub(crate) fn start_eal() -> Option<Eal> {
    let twin = std::env::var_os("MILLRACE_TWIN").map(PathBuf::from).filter(|path| path.exists());
    if twin.is_none() {
        eprintln!("skipped: there is no software NIC at MILLRACE_TWIN");
    }
    let drivers = vec![twin?];
    let config = EalConfig { no_huge: true, memory_mb: 256, drivers, ..Default::default() };
    Some(Eal::init(&config).unwrap())
}
