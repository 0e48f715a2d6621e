// SPDX-License-Identifier: BSD-3-Clause
//! Judges how settings survive a reboot: the boot loader, and tuned.

use super::{Finding, Status};
use crate::host::{Boot, BootLoader, Host, Tuned, format_cpus};

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let tuned = host.boot.tuned.as_ref().map(tuned);
    loader(&host.boot).into_iter().chain(tuned).collect()
}

/// Names the place of kernel parameters; nothing if none is known.
fn loader(boot: &Boot) -> Option<Finding> {
    let place = match boot.loader? {
        BootLoader::Grubby => "grubby --update-kernel=ALL --args=...".to_owned(),
        BootLoader::GrubFolder(update) => format!("a file in /etc/default/grub.d, then {update}"),
        BootLoader::GrubFile(update) => {
            format!("GRUB_CMDLINE_LINUX in /etc/default/grub, then {update}")
        }
        BootLoader::SystemdBoot => "/etc/kernel/cmdline, then kernel-install (systemd-boot)".into(),
    };
    Some(Finding::new("kernel parameters", Status::Ok, place))
}

fn tuned(tuned: &Tuned) -> Finding {
    const TOPIC: &str = "tuned";
    let profile = &tuned.profile;
    if !tuned.partitions() {
        let found = match profile.as_str() {
            "" => "installed, without an active profile".to_owned(),
            profile => format!("profile {profile}"),
        };
        let advice = match tuned.can_partition {
            true => {
                "to set workers' cpus apart: isolated_cores=N in \
                 /etc/tuned/cpu-partitioning-variables.conf, then tuned-adm profile \
                 cpu-partitioning, then reboot"
            }
            false => "its profile cpu-partitioning sets workers' cpus apart, and is not installed",
        };
        return Finding::new(TOPIC, Status::Note, found).advise(advice);
    }
    if tuned.isolated.is_empty() {
        return Finding::new(TOPIC, Status::Warn, format!("profile {profile}, without any cpu"))
            .advise("set isolated_cores=N in /etc/tuned/cpu-partitioning-variables.conf");
    }
    let cpus = format_cpus(&tuned.isolated);
    Finding::new(TOPIC, Status::Ok, format!("profile {profile} sets cpus {cpus} apart"))
}
