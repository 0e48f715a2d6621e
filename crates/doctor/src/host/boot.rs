// SPDX-License-Identifier: BSD-3-Clause
//! Reads how this host keeps settings across a reboot: boot loader, tuned, driverctl, systemd.

use super::Root;
use super::cpus::parse_cpus;

/// Where programs are installed.
const PROGRAM_DIRS: [&str; 6] =
    ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];
/// The EFI variable in which a boot loader gives its name (Boot Loader Interface of systemd).
const LOADER_INFO: &str =
    "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
const GRUB_FILE: &str = "etc/default/grub";
const GRUB_FOLDER: &str = "etc/default/grub.d";
const KERNEL_COMMAND_LINE: &str = "etc/kernel/cmdline";

/// What takes kernel parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootLoader {
    /// `grubby`, which edits the entries of the boot loader (Red Hat and its relatives).
    Grubby,
    /// A file of its own in `/etc/default/grub.d`, then this command (Debian and its relatives).
    GrubFolder(&'static str),
    /// A line in `/etc/default/grub`, then this command.
    GrubFile(&'static str),
    /// `/etc/kernel/cmdline`, then `kernel-install` (systemd-boot).
    SystemdBoot,
}

/// How settings survive a reboot.
#[derive(Debug)]
pub(crate) struct Boot {
    /// `None` if none is known, as in containers and small virtual machines.
    pub(crate) loader: Option<BootLoader>,
    /// True if systemd runs the host.
    pub(crate) systemd: bool,
    /// True if `driverctl` is installed, which keeps driver bindings.
    pub(crate) driverctl: bool,
    /// True if apt installs packages here.
    pub(crate) apt: bool,
    /// True if a file or kernel parameter reserves hugepages at each boot.
    pub(crate) keeps_hugepages: bool,
    /// Settings file of irqbalance.
    pub(crate) irqbalance_file: Option<&'static str>,
    /// `None` if tuned is not installed.
    pub(crate) tuned: Option<Tuned>,
}

/// The daemon `tuned`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tuned {
    /// The active profile; empty if none is.
    pub(crate) profile: String,
    /// True if the profile `cpu-partitioning` is installed.
    pub(crate) can_partition: bool,
    /// Cpus that the variables of `cpu-partitioning` set apart.
    pub(crate) isolated: Vec<u32>,
}

impl Tuned {
    /// True if a profile is active that sets cpus apart.
    pub(crate) fn partitions(&self) -> bool {
        self.profile.split_whitespace().any(|profile| profile.starts_with("cpu-partitioning"))
    }

    /// True if a profile that sets cpus apart is active or installed.
    pub(crate) fn can_set_apart(&self) -> bool {
        self.can_partition || self.partitions()
    }
}

impl Boot {
    pub(super) fn read(root: Root) -> Self {
        let irqbalance = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"];
        Self {
            loader: read_loader(root),
            systemd: root.has("run/systemd/system"),
            driverctl: is_installed(root, "driverctl"),
            apt: is_installed(root, "apt-get"),
            keeps_hugepages: keeps_hugepages(root),
            irqbalance_file: irqbalance.into_iter().find(|file| root.has(file)),
            tuned: read_tuned(root),
        }
    }
}

/// Looks for settings of hugepages that hold from the boot on.
fn keeps_hugepages(root: Root) -> bool {
    let folders = ["etc/sysctl.d", "usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "etc/tmpfiles.d"];
    let files = folders.iter().flat_map(|folder| {
        root.names(folder).into_iter().map(move |name| format!("{folder}/{name}"))
    });
    let has_line = |path: String| {
        let text = root.text(&path).unwrap_or_default();
        let mut lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
        lines.any(|line| line.contains("nr_hugepages"))
    };
    let parameters = root.text("proc/cmdline").unwrap_or_default();
    parameters.split_whitespace().any(|word| word.starts_with("hugepages="))
        || files.chain(["etc/sysctl.conf".to_owned()]).any(has_line)
}

fn is_installed(root: Root, program: &str) -> bool {
    PROGRAM_DIRS.iter().any(|dir| root.has(&format!("{dir}/{program}")))
}

/// Finds the boot loader. The running one names itself, if it is systemd-boot. Grub does not, so
/// its files decide.
fn read_loader(root: Root) -> Option<BootLoader> {
    // UTF-16 behind four bytes of attributes.
    let name = root.text(LOADER_INFO).unwrap_or_default().replace('\0', "");
    if is_installed(root, "grubby") {
        return Some(BootLoader::Grubby);
    }
    if name.contains("systemd-boot") {
        return Some(BootLoader::SystemdBoot);
    }
    if root.has(GRUB_FILE) || root.has(GRUB_FOLDER) {
        return Some(read_grub(root));
    }
    let systemd_boot = root.has(KERNEL_COMMAND_LINE) && is_installed(root, "kernel-install");
    systemd_boot.then_some(BootLoader::SystemdBoot)
}

fn read_grub(root: Root) -> BootLoader {
    if is_installed(root, "update-grub") {
        // Only the grub of Debian and its relatives reads the folder.
        return match root.has(GRUB_FOLDER) {
            true => BootLoader::GrubFolder("update-grub"),
            false => BootLoader::GrubFile("update-grub"),
        };
    }
    match is_installed(root, "grub2-mkconfig") {
        true => BootLoader::GrubFile("grub2-mkconfig -o /boot/grub2/grub.cfg"),
        false => BootLoader::GrubFile("grub-mkconfig -o /boot/grub/grub.cfg"),
    }
}

fn read_tuned(root: Root) -> Option<Tuned> {
    let profile = root.text("etc/tuned/active_profile");
    if profile.is_none() && !is_installed(root, "tuned-adm") {
        return None;
    }
    let variables = root.text("etc/tuned/cpu-partitioning-variables.conf").unwrap_or_default();
    // A line that begins with `#` is an example. The list may be that of another variable.
    let isolated = variables.lines().rev().find_map(|line| {
        line.trim().strip_prefix("isolated_cores")?.trim_start().strip_prefix('=')
    });
    let folders = ["usr/lib/tuned", "usr/lib/tuned/profiles", "etc/tuned", "etc/tuned/profiles"];
    let has_profile = |folder: &&str| root.has(&format!("{folder}/cpu-partitioning"));
    Some(Tuned {
        profile: profile.unwrap_or_default(),
        can_partition: folders.iter().any(has_profile),
        isolated: isolated.map(parse_cpus).unwrap_or_default(),
    })
}
